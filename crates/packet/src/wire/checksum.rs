//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// The one's complement sum of the bytes as big-endian 16-bit words, an odd last byte padded with zero, not folded.
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut total: u64 = words.iter().map(|w| u64::from(u32::from_be_bytes(*w))).sum();
    let mut tail = [0; 4];
    tail[..rest.len()].copy_from_slice(rest);
    total += u64::from(u32::from_be_bytes(tail));
    total
}

/// Folds a sum to 16 bits.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "folding leaves 16 bits")]
pub fn fold(mut total: u64) -> u16 {
    total = (total >> 32) + (total & 0xffff_ffff);
    total = (total >> 16) + (total & 0xffff);
    total = (total >> 16) + (total & 0xffff);
    total = (total >> 16) + (total & 0xffff);
    total as u16
}

/// The checksum of the bytes: what a checksum field that is zero while summing must be set to.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    !fold(sum(bytes))
}

/// True if the bytes, checksum field included, sum to all ones.
#[inline]
pub fn is_valid(bytes: &[u8]) -> bool {
    fold(sum(bytes)) == 0xffff
}

/// [`is_valid`] of 20 bytes: an IPv4 header without options. A quarter of the instructions, for what every packet meets.
#[inline(always)]
pub fn is_valid_20(bytes: &[u8; 20]) -> bool {
    // The sum is the same in either byte order but for a swap of the result (RFC 1071 §2 (B)), and all ones stay that.
    let (words, _) = bytes.as_chunks::<4>();
    let total: u64 = words.iter().map(|w| u64::from(u32::from_ne_bytes(*w))).sum();
    // It folds to all ones if it is a multiple of 0xffff other than 0.
    total.wrapping_mul(INVERSE_OF_FFFF).wrapping_sub(1) < u64::MAX / 0xffff
}

/// Of 0xffff modulo 2^64. An odd number divides another if and only if the other times this inverse is at most the
/// largest quotient (H. S. Warren, Hacker's Delight, §10-17).
const INVERSE_OF_FFFF: u64 = {
    let mut inverse = 1u64;
    let mut right_bits = 1;
    while right_bits < 64 {
        // Newton's iteration.
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(inverse.wrapping_mul(0xffff)));
        right_bits *= 2;
    }
    assert!(inverse.wrapping_mul(0xffff) == 1);
    inverse
};

/// Checksum after one 16-bit word under it has changed (RFC 1624, equation 3).
#[inline]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

/// Checksum after one 32-bit word at an even offset under it has changed.
#[inline]
pub fn update32(checksum: u16, old: u32, new: u32) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

/// Sum of the pseudo header of TCP and UDP over IPv4 (RFC 793, RFC 768); addresses in host order.
#[inline]
pub fn pseudo_header(source: u32, destination: u32, protocol: u8, length: u16) -> u64 {
    u64::from(source) + u64::from(destination) + u64::from(protocol) + u64::from(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes)), 0xddf2);
        assert_eq!(checksum(&bytes), !0xddf2);
    }

    #[test]
    fn odd_length_is_padded_with_zero() {
        assert_eq!(sum(&[0x12, 0x34, 0x56]), sum(&[0x12, 0x34, 0x56, 0x00]));
        assert_eq!(checksum(&[0xff]), 0x00ff);
    }

    #[test]
    fn twenty_bytes_at_once() {
        let all = |high: u8| (0..=255u8).map(move |low| [high, low]);
        for [high, low] in (0..=255).flat_map(all) {
            let mut header = *b"\x45\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\xff\xff\xff\xff\xff\xff\xff\xff";
            (header[10], header[11]) = (high, low);
            assert_eq!(is_valid_20(&header), is_valid(&header), "{high} {low}");
        }
        assert!(!is_valid_20(&[0; 20]));
        assert!(is_valid_20(&[0xff; 20]));
    }

    #[test]
    fn update_equals_recomputing() {
        let mut header = *b"\x45\x00\x00\x54\x12\x34\x40\x00\x40\x01\x00\x00\x0a\x00\x00\x01\x0a\x00\x00\x02";
        let before = checksum(&header);
        for ttl in 0..=255u8 {
            let old = u16::from_be_bytes([header[8], header[9]]);
            let mut changed = header;
            changed[8] = ttl;
            let new = u16::from_be_bytes([ttl, header[9]]);
            let want = checksum(&changed);
            let got = update(before, old, new);
            assert!(got == want || (got ^ want) == 0xffff, "ttl {ttl}: {got:04x} {want:04x}");
        }
        header[10..12].copy_from_slice(&before.to_be_bytes());
        assert!(is_valid(&header));
    }

    #[test]
    fn update32_equals_recomputing() {
        let mut bytes = [1u8, 2, 3, 4, 5, 6, 7, 8];
        let before = checksum(&bytes);
        bytes[4..].copy_from_slice(&[0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(update32(before, 0x0506_0708, 0xdead_beef), checksum(&bytes));
    }
}

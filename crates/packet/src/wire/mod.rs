//! Header formats: constants, checked views over bytes, and writers. No allocation, no panics on any input.

pub mod arp;
pub mod checksum;
pub mod ethernet;
pub mod icmp;
pub mod icmp6;
pub mod ipv4;
pub mod ipv4_lanes;
pub mod ipv6;
pub mod ipv6_lanes;
pub mod tcp;
pub mod udp;

/// Reads a big-endian 16-bit number at `offset`; `None` if out of range.
#[inline]
pub fn be16(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// Reads a big-endian 32-bit number at `offset`; `None` if out of range.
#[inline]
pub fn be32(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// Writes bytes at `offset`; false, and nothing written, if out of range.
#[inline]
pub fn put(bytes: &mut [u8], offset: usize, value: &[u8]) -> bool {
    let Some(place) = bytes.get_mut(offset..).and_then(|b| b.get_mut(..value.len())) else { return false };
    place.copy_from_slice(value);
    true
}

/// Octets that look random, the same ones for the same seed.
#[cfg(test)]
fn octets(seed: u32) -> impl FnMut() -> u8 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    }
}

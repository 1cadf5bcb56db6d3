//! What a router does with the options of a packet that it forwards (RFC 791, RFC 1812 §4.2.2.2, §5.3.13).

use packet::wire::{self, ipv4::MIN_HEADER_LEN};

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;
/// Loose source route.
pub(crate) const LOOSE_ROUTE: u8 = 131;
/// Strict source route.
pub(crate) const STRICT_ROUTE: u8 = 137;
const ROUTER_ALERT: u8 = 148;

/// The addresses that options may name this router by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Own {
    /// The one that is recorded.
    pub address: u32,
    /// Others under which it may have been named beforehand.
    pub others: Vec<u32>,
}

impl Own {
    fn is(&self, address: u32) -> bool {
        address == self.address || self.others.contains(&address)
    }
}

/// What a walk over the options found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walk {
    /// The header was changed, its checksum is stale.
    pub changed: bool,
    /// There is a source route.
    pub source_route: bool,
    record_route: bool,
    timestamp: bool,
}

/// Records route and time in the options of `header` (from the first byte of the IP header to the end of the options).
/// `millis` is the time since midnight UT. What follows the end of the list is cleared.
///
/// # Errors
/// The offset of the byte that a parameter problem must point at. Options before it may have been worked on.
pub(crate) fn process(header: &mut [u8], own: &Own, millis: u32) -> Result<Walk, usize> {
    let mut walk = Walk::default();
    let mut at = MIN_HEADER_LEN;
    while let Some(&kind) = header.get(at) {
        match kind {
            END => {
                let padding = header.get_mut(at..).unwrap_or_default();
                walk.changed |= padding.iter().any(|&b| b != 0);
                padding.fill(0);
                break;
            }
            NO_OPERATION => at += 1,
            _ => {
                let len = header.get(at + 1).map_or(0, |&len| usize::from(len));
                let option = header.get_mut(at..).and_then(|o| o.get_mut(..len)).filter(|o| o.len() >= 2);
                walk.option(option.ok_or(at)?, own, millis).map_err(|byte| at + byte)?;
                at += len;
            }
        }
    }
    Ok(walk)
}

impl Walk {
    /// Works on one option; the error is the offset in it of the byte that is wrong.
    fn option(&mut self, option: &mut [u8], own: &Own, millis: u32) -> Result<(), usize> {
        match option.first() {
            Some(&RECORD_ROUTE) => {
                once(&mut self.record_route)?;
                self.changed |= record_route(option, own)?;
            }
            Some(&TIMESTAMP) => {
                once(&mut self.timestamp)?;
                self.changed |= timestamp(option, own, millis)?;
            }
            Some(&(LOOSE_ROUTE | STRICT_ROUTE)) => {
                once(&mut self.source_route)?;
                pointer(option, 3, 4)?;
            }
            Some(&ROUTER_ALERT) if option.len() < 4 => return Err(1),
            _ => {}
        }
        Ok(())
    }
}

/// No such option may come twice.
fn once(seen: &mut bool) -> Result<(), usize> {
    if std::mem::replace(seen, true) { Err(0) } else { Ok(()) }
}

/// The pointer of an option: the offset, counted from 0, of its next free slot; `None` if it is full.
fn pointer(option: &[u8], shortest: usize, first: usize) -> Result<Option<usize>, usize> {
    if option.len() < shortest {
        return Err(1);
    }
    match option.get(2).map(|&p| usize::from(p)) {
        Some(p) if p >= first => Ok((p <= option.len()).then(|| p - 1)),
        _ => Err(2),
    }
}

/// Advances the pointer by a slot of `size` bytes at `at`; the pointer is to blame if there is only part of a slot.
fn slot(option: &mut [u8], at: usize, size: usize) -> Result<&mut [u8], usize> {
    if at + size > option.len() {
        return Err(2);
    }
    // The slot ends within the option, whose length is a byte, so the pointer fits.
    option[2] = option[2].saturating_add(size as u8);
    Ok(&mut option[at..at + size])
}

fn record_route(option: &mut [u8], own: &Own) -> Result<bool, usize> {
    let Some(at) = pointer(option, 3, 4)? else { return Ok(false) };
    slot(option, at, 4)?.copy_from_slice(&own.address.to_be_bytes());
    Ok(true)
}

fn timestamp(option: &mut [u8], own: &Own, millis: u32) -> Result<bool, usize> {
    let free = pointer(option, 4, 5)?;
    let Some(flags) = option.get(3).copied() else { return Err(1) };
    let Some(at) = free else {
        // Full: count those who could not register.
        let missed = flags >> 4;
        option[3] = if missed < 15 { flags + 0x10 } else { return Err(3) };
        return Ok(true);
    };
    match flags & 0x0f {
        0 => slot(option, at, 4)?.copy_from_slice(&millis.to_be_bytes()),
        1 => {
            let slot = slot(option, at, 8)?;
            wire::put(slot, 0, &own.address.to_be_bytes());
            wire::put(slot, 4, &millis.to_be_bytes());
        }
        3 => {
            if at + 8 > option.len() {
                return Err(2);
            }
            if !wire::be32(option, at).is_some_and(|address| own.is(address)) {
                return Ok(false);
            }
            wire::put(slot(option, at, 8)?, 4, &millis.to_be_bytes());
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The options that later fragments carry too (those with the copy bit), padded with ends of list to a multiple of
/// four bytes, and their length. Whatever follows a malformed option is left out.
pub(crate) fn copied(options: &[u8]) -> ([u8; 40], usize) {
    let (mut kept, mut len, mut at) = ([0; 40], 0, 0);
    while let Some(&kind) = options.get(at) {
        match kind {
            END => break,
            NO_OPERATION => at += 1,
            _ => {
                let size = options.get(at + 1).map_or(0, |&size| usize::from(size));
                let Some(option) = options.get(at..at + size).filter(|o| o.len() >= 2) else { break };
                if kind & 0x80 != 0 && wire::put(&mut kept, len, option) {
                    len += size;
                }
                at += size;
            }
        }
    }
    (kept, len.next_multiple_of(4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MILLIS: u32 = 0x0102_0304;

    fn own() -> Own {
        Own { address: 0x0a00_0001, others: vec![0x0a00_0101] }
    }

    fn run(options: &[u8]) -> (Result<Walk, usize>, Vec<u8>) {
        let mut header = [&[0x45; 20][..], options].concat();
        let result = process(&mut header, &own(), MILLIS);
        (result, header.split_off(20))
    }

    fn after(options: &[u8]) -> Vec<u8> {
        let (walk, bytes) = run(options);
        assert_eq!(walk.unwrap().changed, bytes != options, "{options:?}");
        bytes
    }

    #[test]
    fn record_route_fills_the_next_slot() {
        assert_eq!(after(&[7, 7, 4, 0, 0, 0, 0, 0]), [7, 7, 8, 10, 0, 0, 1, 0]);
        assert_eq!(after(&[1, 7, 11, 8, 1, 2, 3, 4, 0, 0, 0, 0]), [1, 7, 11, 12, 1, 2, 3, 4, 10, 0, 0, 1]);
        assert_eq!(after(&[7, 7, 8, 1, 2, 3, 4, 0]), [7, 7, 8, 1, 2, 3, 4, 0], "full");
        assert_eq!(after(&[7, 3, 4, 0]), [7, 3, 4, 0], "no room at all");
    }

    #[test]
    fn timestamps() {
        assert_eq!(after(&[68, 8, 5, 0, 0, 0, 0, 0]), [68, 8, 9, 0, 1, 2, 3, 4]);
        assert_eq!(after(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]), [68, 12, 13, 1, 10, 0, 0, 1, 1, 2, 3, 4]);
        let prespecified = |last| [68, 12, 5, 3, 10, 0, 1, last, 0, 0, 0, 0];
        assert_eq!(after(&prespecified(1)), [68, 12, 13, 3, 10, 0, 1, 1, 1, 2, 3, 4]);
        assert_eq!(after(&prespecified(2)), prespecified(2));
        assert_eq!(after(&[68, 8, 9, 0x20, 1, 1, 1, 1]), [68, 8, 9, 0x30, 1, 1, 1, 1], "overflow is counted");
        assert_eq!(after(&[68, 8, 5, 2, 0, 0, 0, 0]), [68, 8, 5, 2, 0, 0, 0, 0], "unknown flag");
    }

    #[test]
    fn the_pointer_of_a_problem_says_where() {
        let problem = |options: &[u8]| run(options).0.unwrap_err() - 20;
        assert_eq!(problem(&[7, 1, 4, 0]), 0, "length below 2");
        assert_eq!(problem(&[1, 7, 8, 4, 0, 0, 0, 0]), 1, "length beyond the header");
        assert_eq!(problem(&[1, 1, 1, 7]), 3, "no length");
        assert_eq!(problem(&[7, 2, 1, 1]), 1);
        assert_eq!(problem(&[7, 7, 3, 0, 0, 0, 0, 0]), 2);
        assert_eq!(problem(&[7, 7, 5, 0, 0, 0, 0, 0]), 2, "part of a slot");
        assert_eq!(problem(&[7, 3, 4, 7, 3, 4, 0, 0]), 3, "twice");
        assert_eq!(problem(&[68, 3, 5, 0]), 1);
        assert_eq!(problem(&[68, 8, 4, 0, 0, 0, 0, 0]), 2);
        assert_eq!(problem(&[68, 8, 5, 1, 0, 0, 0, 0]), 2, "no room for address and time");
        assert_eq!(problem(&[68, 4, 5, 0xf0]), 3, "the count overflows");
        assert_eq!(problem(&[131, 7, 3, 0, 0, 0, 0, 0]), 2);
        assert_eq!(problem(&[137, 2, 0, 0]), 1);
        assert_eq!(problem(&[148, 2, 0, 0]), 1);
    }

    #[test]
    fn padding_is_cleared_and_other_options_pass() {
        assert_eq!(after(&[0, 9, 9, 9]), [0; 4]);
        assert_eq!(after(&[130, 4, 9, 9]), [130, 4, 9, 9]);
        assert_eq!(after(&[148, 4, 0, 0]), [148, 4, 0, 0]);
        let route = [131, 7, 4, 1, 2, 3, 4, 0];
        assert!(run(&route).0.unwrap().source_route);
        assert_eq!(after(&route), route);
    }

    #[test]
    fn only_options_with_the_copy_bit_are_copied() {
        let copy = |options: &[u8]| {
            let (bytes, len) = copied(options);
            bytes[..len].to_vec()
        };
        assert_eq!(copy(&[7, 7, 4, 0, 0, 0, 0, 131, 3, 4, 148, 4, 0, 0, 0, 0]), [131, 3, 4, 148, 4, 0, 0, 0]);
        assert_eq!(copy(&[7, 7, 4, 0, 0, 0, 0, 0]), []);
        assert_eq!(copy(&[148, 4, 0, 0, 131, 9, 4, 0]), [148, 4, 0, 0], "the second is malformed");
    }

    proptest! {
        #[test]
        fn no_options_make_it_panic_or_grow(options in prop::collection::vec(any::<u8>(), 0..41)) {
            let (_, bytes) = run(&options);
            prop_assert_eq!(bytes.len(), options.len());
            let (_, len) = copied(&options);
            prop_assert!(len <= options.len().next_multiple_of(4));
        }
    }
}

//! ICMP for IPv4 (RFC 792, RFC 1812 §4.3).

use super::checksum;

/// Length of the fixed header: type, code, checksum, rest of header.
pub const HEADER_LEN: usize = 8;
/// Echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Destination unreachable.
pub const UNREACHABLE: u8 = 3;
/// Source quench (deprecated, RFC 6633).
pub const SOURCE_QUENCH: u8 = 4;
/// Redirect.
pub const REDIRECT: u8 = 5;
/// Echo request.
pub const ECHO: u8 = 8;
/// Time exceeded.
pub const TIME_EXCEEDED: u8 = 11;
/// Parameter problem.
pub const PARAMETER_PROBLEM: u8 = 12;
/// Code of [`UNREACHABLE`]: fragmentation needed and DF set.
pub const NEED_FRAGMENT: u8 = 4;

/// True for the types that report an error; no ICMP error may be sent in answer to one (RFC 1122 §3.2.2).
pub fn is_error(kind: u8) -> bool {
    matches!(kind, UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
}

/// Computes and stores the checksum over the whole message. False, and nothing changed, if it is too short.
pub fn set_checksum(message: &mut [u8]) -> bool {
    if message.len() < HEADER_LEN {
        return false;
    }
    message[2..4].fill(0);
    let sum = checksum::checksum(message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_makes_the_message_valid() {
        let mut message = [ECHO, 0, 9, 9, 1, 2, 3, 4, b'x'];
        assert!(set_checksum(&mut message));
        assert!(checksum::is_valid(&message));
        assert!(!set_checksum(&mut [0; 7]));
    }
}

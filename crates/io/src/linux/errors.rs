//! What an error says of the packet that was to be sent.

use crate::refusal::Refusal;
use std::io::Error;

/// What becomes of a packet that the kernel did not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A signal came between: ask again at once.
    Again,
    /// No room now; later the same packet may be taken.
    Full,
    /// It will never be taken.
    Refused(Refusal),
}

/// Judges an error of `write` or `sendmmsg`. Whatever does not say "full" is for good.
pub(super) fn judge(error: &Error) -> Verdict {
    match error.raw_os_error().unwrap_or(0) {
        libc::EINTR => Verdict::Again,
        libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM => Verdict::Full,
        libc::EMSGSIZE => Verdict::Refused(Refusal::Oversized),
        libc::EINVAL => Verdict::Refused(Refusal::BadFrame),
        // A tap whose interface is down says EIO, a packet socket ENETDOWN.
        libc::EIO | libc::ENETDOWN | libc::ENETUNREACH => Verdict::Refused(Refusal::LinkDown),
        libc::ENXIO | libc::ENODEV | libc::EBADFD | libc::EBADF => Verdict::Refused(Refusal::DeviceGone),
        _ => Verdict::Refused(Refusal::TxError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_is_tried_again() {
        for number in 1..134 {
            let verdict = judge(&Error::from_raw_os_error(number));
            let is_full = [libc::EAGAIN, libc::ENOBUFS, libc::ENOMEM].contains(&number);
            assert_eq!(verdict == Verdict::Full, is_full, "{number}");
            assert_eq!(verdict == Verdict::Again, number == libc::EINTR, "{number}");
        }
    }
}

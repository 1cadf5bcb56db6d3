//! The time-stamp counter: what cycles per packet are measured with.

#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The time-stamp counter now, in ticks of [`tsc_hz`].
#[inline]
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub fn tsc() -> u64 {
    // SAFETY: every x86-64 processor has `rdtsc`, and Linux lets user programs execute it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The virtual counter now, in ticks of [`tsc_hz`].
#[inline]
#[cfg(all(target_arch = "aarch64", not(miri)))]
pub fn tsc() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets user programs read `cntvct_el0`; the instruction changes neither memory nor flags.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags))
    };
    ticks
}

/// Nanoseconds of the monotonic clock since the first call.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub fn tsc() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Ticks of [`tsc`] per second, measured against the monotonic clock at the first call, which takes 10 ms.
pub fn tsc_hz() -> u64 {
    static HZ: OnceLock<u64> = OnceLock::new();
    *HZ.get_or_init(|| measure(Duration::from_millis(10)))
}

fn measure(window: Duration) -> u64 {
    let (start, first) = both_clocks();
    while start.elapsed() < window {
        std::hint::spin_loop();
    }
    let (end, last) = both_clocks();
    let ticks = u128::from(last.saturating_sub(first)) * 1_000_000_000;
    u64::try_from(ticks / end.duration_since(start).as_nanos().max(1)).unwrap_or(u64::MAX).max(1)
}

/// Both clocks at one moment: of several readings the one that took least, since a busy machine may interrupt
/// between the two.
fn both_clocks() -> (Instant, u64) {
    let read = || {
        let before = tsc();
        let now = Instant::now();
        (tsc().wrapping_sub(before), now, before)
    };
    let (_, now, ticks) = (0..8).fold(read(), |best, _| {
        let other = read();
        if other.0 < best.0 { other } else { best }
    });
    (now, ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_runs_at_the_rate_that_was_measured() {
        let hz = tsc_hz();
        assert!(hz >= 1_000_000, "{hz} Hz");
        assert_eq!(hz, tsc_hz());
        // One of several tries must agree within 2 %, however busy the machine is.
        assert!((0..20).any(|_| measure(Duration::from_millis(5)).abs_diff(hz) < hz / 50));
        let first = tsc();
        assert!(first <= tsc());
    }
}

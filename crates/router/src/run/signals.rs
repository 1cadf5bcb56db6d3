//! SIGINT and SIGTERM ask for an orderly end; a second one ends the process at once, unless it comes so soon after the first that
//! it is the same one told twice. So does SIGHUP of a terminal that goes, however often it comes.

use super::worker::Run;
use io::say;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Who signals a process and then its group, as `timeout` does, signals twice within less.
const SAME: Duration = Duration::from_millis(300);

/// Stops listening when dropped.
pub struct Listening(Option<Handle>);

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            handle.close();
        }
    }
}

/// Listens for signals in a thread of its own; for SIGHUP unless that has another meaning, or whoever started this process
/// has it ignored, as `nohup` does.
pub fn stop_on_signal(run: &Arc<Run>, reloads: bool) -> Listening {
    let hears_hangup = !reloads && !is_ignored(SIGHUP);
    let heard = [SIGINT, SIGTERM].into_iter().chain(hears_hangup.then_some(SIGHUP));
    let mut signals = match Signals::new(heard) {
        Ok(signals) => signals,
        Err(e) => {
            say!("warning: cannot listen for signals: {e}");
            return Listening(None);
        }
    };
    let handle = signals.handle();
    let run = run.clone();
    let thread = thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut first = None;
        for signal in signals.forever() {
            let now = Instant::now();
            // The kernel and the shell both tell of a terminal that goes, at any distance.
            if signal != SIGHUP && is_second(*first.get_or_insert(now), now) {
                // 128 + signal number is what shells report.
                io::settle();
                std::process::exit(128 + signal);
            }
            run.stop();
        }
    });
    if let Err(e) = thread {
        say!("warning: cannot listen for signals: {e}");
    }
    Listening(Some(handle))
}

/// Whether this process ignores a signal.
fn is_ignored(signal: i32) -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores(&status, signal))
}

/// The same by what `/proc/PID/status` says: signals are bits of a mask, the first one of number 1.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Whether a signal is another one than the first, which may be itself.
fn is_second(first: Instant, now: Instant) -> bool {
    now.saturating_duration_since(first) >= SAME
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_comes_at_once_is_the_first_told_twice() {
        let first = Instant::now();
        let is_second = |after_ms| is_second(first, first + Duration::from_millis(after_ms));
        assert_eq!([0, 5, 299, 300, 5000].map(is_second), [false, false, false, true, true]);
    }

    #[test]
    fn signals_that_are_ignored() {
        let status =
            "Name:\trun\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001005\nSigCgt:\t0000000000000002\n";
        assert_eq!([1, 2, 3, 13, 15].map(|signal| ignores(status, signal)), [true, false, true, true, false]);
        assert!(!ignores("Name:\trun\n", SIGHUP));
    }
}

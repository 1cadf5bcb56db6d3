//! SIGINT and SIGTERM ask for an orderly end; a second one ends the process at once, unless it comes so soon after the first that
//! it is the same one told twice.

use super::worker::Run;
use io::say;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
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

/// Listens for signals in a thread of its own.
pub fn stop_on_signal(run: &Arc<Run>) -> Listening {
    let mut signals = match Signals::new([SIGINT, SIGTERM]) {
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
            if is_second(*first.get_or_insert(now), now) {
                // 128 + signal number is what shells report.
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
}

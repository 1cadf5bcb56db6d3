//! SIGINT and SIGTERM ask for an orderly end; a second one ends the process at once.

use super::worker::Run;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::sync::Arc;
use std::thread;

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
            eprintln!("warning: cannot listen for signals: {e}");
            return Listening(None);
        }
    };
    let handle = signals.handle();
    let run = run.clone();
    let thread = thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if run.is_stopping() {
                // 128 + signal number is what shells report.
                std::process::exit(128 + signal);
            }
            run.stop();
        }
    });
    if let Err(e) = thread {
        eprintln!("warning: cannot listen for signals: {e}");
    }
    Listening(Some(handle))
}

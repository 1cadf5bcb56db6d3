//! Waiting with a deadline, and stopping early on Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Context, Error, Result};

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(5);

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on SIGINT, SIGTERM and SIGHUP end every wait with an error instead of ending the process, so that
/// everything which cleans up on drop is dropped.
pub fn catch_signals() -> Result<()> {
    let flag = INTERRUPTED.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag)).cannot(|| format!("catch signal {signal}"))?;
    }
    Ok(())
}

/// Whether one of the signals of [`catch_signals`] has come.
pub fn interrupted() -> bool {
    INTERRUPTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// An error if one of the signals has come.
pub fn go_on() -> Result<()> {
    if interrupted() { Err(Error::new("interrupted")) } else { Ok(()) }
}

/// Calls `look` until it gives something, at most for `limit`.
///
/// # Errors
/// What `look` fails with; `WHAT: not within LIMIT` when the time is over; `interrupted` after a signal.
pub fn wait_until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        go_on()?;
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            return Err(Error::new(format!("{what}: not within {limit:?}")));
        }
        thread::sleep(LOOK);
    }
}

//! The loop that drives one worker, and how it sleeps.
//!
//! ```text
//!   loop:  engine.round() ─► useful? again
//!                         └► nothing ready: sleep until a timer or a letter; finished if nobody has anything left
//!                         └► pollers found nothing for a while: sleep a little, then longer
//! ```

use super::pace::Pace;
use graph::engine::mailbox::Mailbox;
use graph::{Clock, Engine};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A worker without pollers looks up at least this often: a lost wake-up must not hang a router.
pub const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// What the workers of one run share.
#[derive(Debug)]
pub struct Run {
    stop: AtomicBool,
    mailboxes: Vec<Arc<Mailbox>>,
    clock: Arc<Clock>,
    /// Which workers have nothing left to do; looked at and changed together.
    idle: Mutex<Vec<bool>>,
    /// Something outside may always bring new work.
    endless: bool,
}

impl Run {
    /// A run of workers with these mailboxes.
    pub fn new(mailboxes: &[Arc<Mailbox>], clock: Arc<Clock>, endless: bool) -> Run {
        Run {
            stop: AtomicBool::new(false),
            mailboxes: mailboxes.to_vec(),
            clock,
            idle: Mutex::new(vec![false; mailboxes.len()]),
            endless,
        }
    }

    /// Asks all workers to stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        for mailbox in &self.mailboxes {
            mailbox.ring();
        }
    }

    /// True if the workers were asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn set_idle(&self, worker: usize, is: bool) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mine) = idle.get_mut(worker) {
            *mine = is;
        }
        // A worker that was sent something has its bell rung until it is awake again, so this cannot be premature.
        let finished =
            !self.endless && idle.iter().all(|i| *i) && !self.mailboxes.iter().any(|m| m.is_rung());
        drop(idle);
        if finished {
            self.stop();
        }
    }
}

/// Drives an engine until the run stops; gives it back, so that queues are closed after all workers have ended.
pub fn drive(mut engine: Engine, run: &Run) -> Engine {
    engine.mailbox().clone().attach(std::thread::current());
    // Sleeps of 50 µs would take 100 with the default slack. Where that is not possible they do.
    let _ = nix::sys::prctl::set_timerslack(1_000);
    engine.start();
    let mut pace = Pace::new(run.clock.now());
    while !run.is_stopping() {
        let round = engine.round();
        if round.stop {
            run.stop();
        } else if round.useful {
            pace.found(round.now);
        } else if round.ready == 0 && round.next_timer.is_none() {
            let from = run.clock.now();
            wait_for_letters(&mut engine, run);
            pace.slept(from, run.clock.now());
        } else {
            pace.wait(&mut engine, round, &run.clock);
        }
    }
    engine
}

/// Nothing ready, no timer: only another worker, a handler or the end of the run can change that.
fn wait_for_letters(engine: &mut Engine, run: &Run) {
    let worker = engine.worker();
    run.set_idle(worker, true);
    if !run.is_stopping() {
        engine.idle(|| std::thread::park_timeout(LONGEST_SLEEP));
    }
    run.set_idle(worker, false);
}

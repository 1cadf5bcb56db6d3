//! The loop that drives one worker, and how it sleeps.
//!
//! ```text
//!   loop:  engine.round() ─► useful? again
//!                         └► nothing ready: sleep until a timer or a letter; finished if nobody has anything left
//!                         └► pollers found nothing for a while: sleep a little, then longer
//! ```
//!
//! When an element asks for the end, sources rest and all workers go on until nothing moves, so that nothing stays between them; a
//! signal ends the loop at once.

use super::pace::Pace;
use graph::engine::mailbox::Mailbox;
use graph::{Clock, Engine};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A worker without pollers looks up at least this often: a lost wake-up must not hang a router.
pub const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// For how long what is under way may go on after an element asked for the end: where packets go round by queues nothing else
/// ends it.
const LONGEST_END: Duration = Duration::from_secs(2);

/// How a run stands; it only goes on to a later one.
const RUNNING: u8 = 0;
/// Sources rest; what is under way goes on.
const ENDING: u8 = 1;
const STOPPED: u8 = 2;

/// What the workers of one run share.
#[derive(Debug)]
pub struct Run {
    stands: AtomicU8,
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
            stands: AtomicU8::new(RUNNING),
            mailboxes: mailboxes.to_vec(),
            clock,
            idle: Mutex::new(vec![false; mailboxes.len()]),
            endless,
        }
    }

    /// Asks all workers to stop.
    pub fn stop(&self) {
        self.go_on_to(STOPPED);
    }

    /// Asks all workers to stop when nothing is under way any more.
    fn end(&self) {
        self.go_on_to(ENDING);
    }

    fn go_on_to(&self, stand: u8) {
        self.stands.fetch_max(stand, Ordering::AcqRel);
        for mailbox in &self.mailboxes {
            mailbox.ring();
        }
    }

    fn stands(&self) -> u8 {
        self.stands.load(Ordering::Acquire)
    }

    fn set_idle(&self, worker: usize, is: bool) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mine) = idle.get_mut(worker) {
            *mine = is;
        }
        // A worker that was sent something has its bell rung until it is awake again, so this cannot be premature.
        let may_finish = !self.endless || self.stands() == ENDING;
        let finished = may_finish && idle.iter().all(|i| *i) && !self.mailboxes.iter().any(|m| m.is_rung());
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
    while run.stands() == RUNNING {
        let round = engine.round();
        if round.stop {
            run.end();
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
    finish_what_is_under_way(&mut engine, run);
    engine
}

/// Goes on without sources until no worker finds anything to do. What waits for its time, or for a device that is full, stays
/// where it is.
fn finish_what_is_under_way(engine: &mut Engine, run: &Run) {
    let began = Instant::now();
    engine.take_in_no_more();
    while run.stands() == ENDING {
        if began.elapsed() > LONGEST_END {
            run.stop();
        } else if !engine.round().useful {
            wait_for_letters(engine, run);
        }
    }
}

/// Nothing to do: only another worker, a handler or the end of the run can change that.
fn wait_for_letters(engine: &mut Engine, run: &Run) {
    let worker = engine.worker();
    run.set_idle(worker, true);
    if run.stands() != STOPPED {
        engine.idle(|| std::thread::park_timeout(LONGEST_SLEEP));
    }
    run.set_idle(worker, false);
}

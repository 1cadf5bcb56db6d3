//! The loop that drives one worker, and how it sleeps.
//!
//! ```text
//!   loop:  engine.round() ─► useful? again
//!                         └► nothing ready: sleep until a timer or a letter; finished if nobody has anything left
//!                         └► pollers found nothing for a while: sleep a little, then longer
//! ```

use graph::engine::mailbox::Mailbox;
use graph::{Clock, Engine, Nanos, Round};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// For how long polling finds nothing before a worker sleeps at all: longer than what lies between two bursts of a line
/// that carries some 100,000 packets a second, so that only quiet lines wait for a worker to wake up.
const AWAKE: Duration = Duration::from_micros(100);
/// A worker that has not slept for some time stays awake for a part of it, one of so many, so that a busy line whose sender pauses
/// does not wait for a worker to wake up.
const AWAKE_PART: u64 = 16;
/// For how long at most.
const LONGEST_AWAKE: Duration = Duration::from_millis(1);
/// Sleeps of a polling worker that finds nothing: how many in a row of which length. The longer it has been idle the
/// longer it sleeps, so that an idle router leaves the processor to others; the price is that much latency for the
/// first packet after a pause.
const SLEEPS: [(u32, Duration); 4] = [
    (400, Duration::from_micros(50)),
    (800, Duration::from_micros(250)),
    (1600, Duration::from_millis(1)),
    (u32::MAX, Duration::from_millis(2)),
];
/// A worker without pollers looks up at least this often: a lost wake-up must not hang a router.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

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
    let mut pace = Pace { woke: run.clock.now(), ..Pace::default() };
    while !run.is_stopping() {
        let round = engine.round();
        if round.stop {
            run.stop();
        } else if round.useful {
            pace.found();
        } else if round.ready == 0 && round.next_timer.is_none() {
            wait_for_letters(&mut engine, run);
            pace.woke = run.clock.now();
        } else {
            pace.wait(&mut engine, round, run);
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

/// How long a worker has found nothing.
#[derive(Debug, Default)]
struct Pace {
    /// When polling first found nothing.
    since: Option<Nanos>,
    sleeps: u32,
    /// When the last sleep ended.
    woke: Nanos,
}

impl Pace {
    /// A round found something.
    fn found(&mut self) {
        (self.since, self.sleeps) = (None, 0);
    }

    /// For how long polling may find nothing, if it began to at this time.
    fn awake(&self, since: Nanos) -> Duration {
        let busy = since.saturating_sub(self.woke);
        Duration::from_nanos(busy / AWAKE_PART).clamp(AWAKE, LONGEST_AWAKE)
    }

    fn next_sleep(&self) -> Duration {
        SLEEPS.iter().find(|(up_to, _)| self.sleeps <= *up_to).map_or(LONGEST_SLEEP, |(_, sleep)| *sleep)
    }

    fn wait(&mut self, engine: &mut Engine, round: Round, run: &Run) {
        if run.clock.is_simulated() {
            if let Some(next) = round.next_timer {
                run.clock.advance(next);
            }
            return;
        }
        let until_timer = round.next_timer.map(|t| until(t, &run.clock));
        let longest = if round.ready == 0 {
            LONGEST_SLEEP
        } else {
            let now = run.clock.now();
            let since = *self.since.get_or_insert(now);
            if Duration::from_nanos(now.saturating_sub(since)) < self.awake(since) {
                return std::hint::spin_loop();
            }
            self.sleeps = self.sleeps.saturating_add(1);
            self.next_sleep()
        };
        let sleep = until_timer.map_or(longest, |t| t.min(longest));
        if !sleep.is_zero() {
            engine.idle(|| std::thread::park_timeout(sleep));
            self.woke = run.clock.now();
        }
    }
}

fn until(time: Nanos, clock: &Clock) -> Duration {
    Duration::from_nanos(time.saturating_sub(clock.now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_been_busy_for_long_stays_awake_for_longer() {
        let pace = Pace { woke: 1_000_000, ..Pace::default() };
        let awake = |busy_us: u64| pace.awake(1_000_000 + busy_us * 1000).as_micros();
        assert_eq!([0, 1600, 3200, 8000, 16_000, 1_000_000].map(awake), [100, 100, 200, 500, 1000, 1000]);
        assert_eq!(pace.awake(0).as_micros(), 100, "asleep since then");
    }
}

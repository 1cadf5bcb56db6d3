//! For how long a worker polls in vain before it sleeps, and for how long then.
//!
//! A worker that has its processor for itself stays awake for a while. One that shares it sleeps at once: whoever sleeps when there
//! is nothing to do is let in soon when there is, and until then the processor is with those who have something to do, workers of
//! other nodes among them.

use super::worker::LONGEST_SLEEP;
use graph::{Clock, Engine, Nanos, Round};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
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
/// How often a worker finds out whether it shares its processor.
const WINDOW: Nanos = 10_000_000;
/// It does, if others had one in so many parts of the time in which it wanted to run.
const SHARED_PART: u64 = 8;
/// So many times in a row: who is there now and then is not worth sleeping for.
const SHARED_WINDOWS: u32 = 3;
/// For how long that counts.
const SHARED_FOR: Nanos = 100_000_000;
/// For how long polling finds nothing before a worker sleeps that shares its processor.
const SHARED_AWAKE: Duration = Duration::from_micros(10);

/// How long a worker has found nothing.
#[derive(Debug)]
pub struct Pace {
    /// When polling first found nothing.
    since: Option<Nanos>,
    sleeps: u32,
    /// When the last sleep ended.
    woke: Nanos,
    window: Window,
    /// So many windows in a row were shared.
    in_a_row: u32,
    /// Until when the processor counts as shared.
    shared: Nanos,
}

/// The time in which a worker finds out whether it shares its processor.
#[derive(Debug, Clone, Copy)]
struct Window {
    began: Nanos,
    /// What the thread had had of its processor when it began, if the system says.
    had: Option<Use>,
    /// For how long the thread has slept since.
    slept: Nanos,
}

/// What a thread has had of its processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Use {
    ran: Nanos,
    /// How often it had to leave the processor to others. What a hypervisor takes is not among that.
    ousted: i64,
}

impl Use {
    /// The calling thread's.
    fn of_this_thread() -> Option<Use> {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
        let ran = (usage.user_time() + usage.system_time()).num_nanoseconds();
        Some(Use { ran: u64::try_from(ran).ok()?, ousted: usage.involuntary_context_switches() })
    }
}

impl Window {
    /// One that begins.
    fn new(now: Nanos) -> Window {
        Window { began: now, had: Use::of_this_thread(), slept: 0 }
    }

    /// Whether others had the processor for a good part of the time in which the thread wanted it, up to the beginning of
    /// another window.
    fn is_shared(&self, next: Window) -> bool {
        let (Some(before), Some(after)) = (self.had, next.had) else { return false };
        let wanted = next.began.saturating_sub(self.began).saturating_sub(self.slept);
        let waited = wanted.saturating_sub(after.ran.saturating_sub(before.ran));
        after.ousted > before.ousted && waited > wanted / SHARED_PART
    }
}

impl Pace {
    /// Of a worker that begins.
    pub fn new(now: Nanos) -> Pace {
        Pace { since: None, sleeps: 0, woke: now, window: Window::new(now), in_a_row: 0, shared: 0 }
    }

    /// A round that began at this time found something.
    #[inline]
    pub fn found(&mut self, now: Nanos) {
        (self.since, self.sleeps) = (None, 0);
        self.pass(now);
    }

    /// The worker has slept.
    pub fn slept(&mut self, from: Nanos, woke: Nanos) {
        self.woke = woke;
        self.window.slept += woke.saturating_sub(from);
    }

    /// Lets time pass.
    #[inline]
    fn pass(&mut self, now: Nanos) {
        if now.saturating_sub(self.window.began) > WINDOW {
            self.look_at_others(now);
        }
    }

    #[cold]
    fn look_at_others(&mut self, now: Nanos) {
        let next = Window::new(now);
        let is_shared = std::mem::replace(&mut self.window, next).is_shared(next);
        self.note(is_shared, now);
    }

    /// A window has ended, in which the processor was shared or not.
    fn note(&mut self, is_shared: bool, now: Nanos) {
        self.in_a_row = if is_shared { self.in_a_row.saturating_add(1) } else { 0 };
        if self.in_a_row >= SHARED_WINDOWS {
            self.shared = now.saturating_add(SHARED_FOR);
        }
    }

    /// For how long polling may find nothing, if it began to at this time.
    fn awake(&self, since: Nanos) -> Duration {
        if since < self.shared {
            return SHARED_AWAKE;
        }
        let busy = since.saturating_sub(self.woke);
        Duration::from_nanos(busy / AWAKE_PART).clamp(AWAKE, LONGEST_AWAKE)
    }

    fn next_sleep(&self) -> Duration {
        SLEEPS.iter().find(|(up_to, _)| self.sleeps <= *up_to).map_or(LONGEST_SLEEP, |(_, sleep)| *sleep)
    }

    /// Waits after a round that found nothing.
    pub fn wait(&mut self, engine: &mut Engine, round: Round, clock: &Clock) {
        if clock.is_simulated() {
            if let Some(next) = round.next_timer {
                clock.advance(next);
            }
            return;
        }
        let now = clock.now();
        let longest = if round.ready == 0 {
            LONGEST_SLEEP
        } else {
            self.pass(now);
            let since = *self.since.get_or_insert(now);
            if Duration::from_nanos(now.saturating_sub(since)) < self.awake(since) {
                return std::hint::spin_loop();
            }
            self.sleeps = self.sleeps.saturating_add(1);
            self.next_sleep()
        };
        let until_timer = round.next_timer.map(|time| Duration::from_nanos(time.saturating_sub(now)));
        let sleep = until_timer.map_or(longest, |until| until.min(longest));
        if !sleep.is_zero() {
            engine.idle(|| std::thread::park_timeout(sleep));
            self.slept(now, clock.now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_been_busy_for_long_stays_awake_for_longer() {
        let pace = Pace::new(1_000_000);
        let awake = |busy_us: u64| pace.awake(1_000_000 + busy_us * 1000).as_micros();
        assert_eq!([0, 1600, 3200, 8000, 16_000, 1_000_000].map(awake), [100, 100, 200, 500, 1000, 1000]);
        assert_eq!(pace.awake(0).as_micros(), 100, "asleep since then");
    }

    #[test]
    fn who_shares_its_processor_sleeps_at_once_for_a_while() {
        let mut pace = Pace::new(0);
        let mut shared = |windows: &[bool]| {
            windows
                .iter()
                .map(|&is_shared| {
                    pace.note(is_shared, 7_000_000);
                    pace.awake(7_000_000) == SHARED_AWAKE
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(shared(&[true, true, false, true, true, true]), [false, false, false, false, false, true]);
        assert_eq!(shared(&[false, true]), [true, true], "it still counts");
        let awake = [106_999_999, 107_000_000].map(|since| pace.awake(since).as_micros());
        assert_eq!(awake, [10, 1000]);
    }

    #[test]
    fn a_processor_is_shared_if_others_had_more_than_an_eighth_of_it() {
        // Of 10 ms it slept 2; of the other 8 it ran so many.
        let window =
            Window { began: 5_000_000, had: Some(Use { ran: 3_000_000, ousted: 7 }), slept: 2_000_000 };
        let is_shared = |ran: Nanos, ousted: i64| {
            let had = Some(Use { ran: 3_000_000 + ran, ousted });
            window.is_shared(Window { began: 15_000_000, had, slept: 0 })
        };
        assert_eq!(
            [8_000_000, 7_000_000, 6_999_999, 0].map(|ran| is_shared(ran, 8)),
            [false, false, true, true]
        );
        assert!(!is_shared(0, 7), "what a hypervisor took");
        assert!(!window.is_shared(Window { began: 15_000_000, had: None, slept: 0 }));
    }

    #[test]
    fn the_system_says_for_how_long_a_thread_ran() {
        let (before, begin) = (Use::of_this_thread().unwrap(), std::time::Instant::now());
        while begin.elapsed() < Duration::from_millis(20) {}
        let after = Use::of_this_thread().unwrap();
        assert!(after.ran > before.ran && after.ousted >= before.ousted, "{before:?} {after:?}");
    }
}

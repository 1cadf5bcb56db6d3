//! Is the peer of a link there, and does it hear us.
//!
//! Each node sends a hello on each internal link every interval, saying whether it hears the peer. A link is up when hellos
//! come and say so: one that works in one direction only is down in both (as with BFD, RFC 5880 §6.2). It is down when
//! three intervals in a row brought none.

/// Intervals without a hello after which a peer is gone.
pub const MISSES: u64 = 3;

/// One link, seen from one end.
#[derive(Debug, Clone)]
pub struct Liveness {
    interval: u64,
    /// When the last hello came, and from which life of the peer.
    heard: Option<(u64, u8)>,
    /// The peer said that it hears us.
    is_heard: bool,
    /// What was last told by an event.
    up: Option<u8>,
    next_hello: u64,
}

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The link carries traffic both ways, to this life of the peer.
    Up {
        /// The peer's incarnation.
        incarnation: u8,
    },
    /// It does not.
    Down,
}

impl Liveness {
    /// A link that is down, with this interval in nanoseconds.
    pub fn new(interval: u64) -> Liveness {
        Liveness { interval: interval.max(1), heard: None, is_heard: false, up: None, next_hello: 0 }
    }

    /// Whether the link is up, by the last event.
    pub fn is_up(&self) -> bool {
        self.up.is_some()
    }

    /// Whether a hello is to be sent now; if so, what it says about hearing the peer. One late call sends one.
    pub fn hello(&mut self, now: u64) -> Option<bool> {
        if now < self.next_hello {
            return None;
        }
        // On the grid if the call is late, so that lateness does not add up.
        let late = (now - self.next_hello) % self.interval;
        self.next_hello = (now - late).saturating_add(self.interval);
        Some(self.hears(now))
    }

    /// A hello came. What changed is told in the order in which it is to be acted on: a peer that began a new life was down
    /// in between.
    pub fn heard(&mut self, now: u64, incarnation: u8, hears: bool) -> [Option<Event>; 2] {
        let first = self.poll(now);
        let is_new = self.heard.is_some_and(|(_, before)| before != incarnation);
        let lost = self.up.is_some() && (is_new || !hears);
        self.heard = Some((now, incarnation));
        // A new life that says that it hears us has heard us since it began.
        self.is_heard = hears;
        if lost {
            self.up = None;
        }
        let up = hears && self.up.is_none();
        if up {
            self.up = Some(incarnation);
        }
        [first.or(lost.then_some(Event::Down)), up.then_some(Event::Up { incarnation })]
    }

    /// For so many nanoseconds nobody looked: what came in that time has not been read yet, and is not missed.
    pub fn absent(&mut self, nanos: u64) {
        if let Some((last, _)) = &mut self.heard {
            *last = last.saturating_add(nanos);
        }
    }

    /// Finds out what did not come. Call it at least once an interval.
    pub fn poll(&mut self, now: u64) -> Option<Event> {
        if self.up.is_some() && !self.hears(now) {
            self.up = None;
            self.is_heard = false;
            return Some(Event::Down);
        }
        None
    }

    /// The latest time at which [`Liveness::poll`] will find the link down if nothing comes.
    pub fn due(&self) -> Option<u64> {
        let (last, _) = self.heard.filter(|_| self.up.is_some())?;
        Some(last.saturating_add(MISSES * self.interval + 1))
    }

    /// Whether the peer is heard, as a hello says that is sent beside those that are due.
    pub fn hears(&self, now: u64) -> bool {
        self.heard.is_some_and(|(last, _)| now.saturating_sub(last) <= MISSES.saturating_mul(self.interval))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UP: Option<Event> = Some(Event::Up { incarnation: 1 });

    #[test]
    fn two_that_hear_each_other_are_up_and_three_misses_are_down() {
        let (mut a, mut b) = (Liveness::new(10), Liveness::new(10));
        assert_eq!((a.hello(0), a.hello(9)), (Some(false), None));
        assert_eq!(b.heard(1, 1, false), [None, None]);
        assert_eq!(b.hello(2), Some(true));
        assert_eq!(a.heard(3, 1, true), [None, UP]);
        assert_eq!(a.hello(10), Some(true));
        assert_eq!(b.heard(11, 1, true), [None, UP]);
        assert!(a.is_up() && b.is_up());
        assert_eq!((b.poll(41), b.due()), (None, Some(42)));
        assert_eq!((b.poll(42), b.poll(43)), (Some(Event::Down), None));
        assert_eq!(b.hello(43), Some(false), "which it tells");
        assert_eq!(a.heard(33, 1, false), [Some(Event::Down), None]);
    }

    #[test]
    fn a_new_life_was_down_in_between() {
        let mut a = Liveness::new(10);
        a.heard(0, 1, true);
        assert_eq!(a.heard(5, 2, false), [Some(Event::Down), None]);
        assert_eq!(a.heard(6, 2, true), [None, Some(Event::Up { incarnation: 2 })]);
        assert_eq!(a.heard(7, 3, true), [Some(Event::Down), Some(Event::Up { incarnation: 3 })]);
    }

    #[test]
    fn hellos_stay_on_their_grid() {
        let mut a = Liveness::new(10);
        let sent: Vec<u64> =
            [0, 10, 27, 29, 30, 95, 100, 101].into_iter().filter(|&at| a.hello(at).is_some()).collect();
        assert_eq!(sent, [0, 10, 27, 30, 95, 100]);
    }

    proptest! {
        #[test]
        fn up_exactly_while_the_last_hello_is_recent_and_said_so(
            hellos in prop::collection::vec((0u64..60, any::<bool>()), 1..100),
        ) {
            let mut link = Liveness::new(10);
            let (mut now, mut last) = (0, None);
            let mut up = false;
            let note = |event: Option<Event>, up: &mut bool| if let Some(event) = event {
                // Events alternate.
                assert_eq!(*up, event == Event::Down);
                *up = !*up;
            };
            for (gap, hears) in hellos {
                for _ in 0..gap {
                    now += 1;
                    note(link.poll(now), &mut up);
                    let expected = last.is_some_and(|(at, hears)| hears && now - at <= 30);
                    prop_assert_eq!((up, link.is_up()), (expected, expected));
                }
                last = Some((now, hears));
                link.heard(now, 0, hears).into_iter().for_each(|event| note(event, &mut up));
                prop_assert_eq!(up, hears);
            }
        }
    }
}

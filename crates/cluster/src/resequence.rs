//! Putting a stream back in order at the output node.
//!
//! Each path keeps its order; paths overtake each other. A packet is delivered when all before it were delivered or are
//! given up. A number is given up
//!
//! - when every live path has delivered something later (RFC 1990 §4.1), a packet or a marker;
//! - when the paths that might still deliver it are down;
//! - when a packet behind it has waited as long as the deadline allows. So nothing waits longer.
//!
//! Nothing is delivered twice or out of order. What cannot be delivered is handed back with a name. The state is one window of
//! slots, whatever arrives.

mod probation;
mod runs;

use std::collections::VecDeque;

use thiserror::Error;

use self::probation::Probation;
use crate::header::SEQUENCES;

/// The largest window: an eighth of the numbers.
const MAX_WINDOW: usize = (SEQUENCES / 8) as usize;

/// Why a packet is not delivered. The text is the name that the loss is counted under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum Reason {
    /// Its number had been given up.
    #[error("late")]
    Late,
    /// A packet with its number came before.
    #[error("duplicate")]
    Duplicate,
    /// Its number is not near those of the stream.
    #[error("out_of_window")]
    OutOfWindow,
    /// From an earlier or unknown life of the input node.
    #[error("wrong_incarnation")]
    WrongIncarnation,
    /// It came by a path that the stream does not have.
    #[error("no_path")]
    NoPath,
}

/// A packet that is not delivered, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejected<T> {
    /// The packet.
    pub item: T,
    /// Why.
    pub reason: Reason,
}

/// What a stream has seen. Numbers given up and never seen afterwards are `given_up − late`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets delivered.
    pub delivered: u64,
    /// Packets that waited for others.
    pub waited: u64,
    /// Numbers given up.
    pub given_up: u64,
    /// Those of them given up since the deadline came.
    pub expired: u64,
    /// Packets whose number had been given up.
    pub late: u64,
    /// Packets whose number had come before.
    pub duplicate: u64,
    /// Packets outside the window.
    pub out_of_window: u64,
    /// Packets of another life of the input node.
    pub wrong_incarnation: u64,
    /// Times that the window was moved to where the stream was.
    pub moved: u64,
}

/// One stream at its output node.
#[derive(Debug, Clone)]
pub struct Resequencer<T> {
    /// The number to be delivered next, counted without end; the header's are the low 24 bits.
    next: u64,
    incarnation: u8,
    deadline: u64,
    /// By number modulo the window, a power of two.
    slots: Box<[Option<Held<T>>]>,
    held: usize,
    /// For each path: nothing below this number comes by it any more. `None` if the path is down.
    floors: Vec<Option<u64>>,
    /// Numbers of waiting packets in the order in which they came; those below `next` wait no longer. Fewer than two
    /// windows.
    waiting: VecDeque<u64>,
    /// By number modulo the window: given up, and not seen since.
    missing: Box<[bool]>,
    missing_count: usize,
    probation: Option<Probation>,
    counts: Counts,
}

#[derive(Debug, Clone)]
struct Held<T> {
    item: T,
    since: u64,
}

/// Where a number lies.
enum Place {
    Ahead(u64),
    Behind(u64),
    Outside,
}

impl<T> Resequencer<T> {
    /// A stream over this many paths, all up, with a window of at least `window` numbers (rounded up to a power of two, at
    /// most 2²¹), whose packets wait `deadline` nanoseconds at most, from this life of the input node.
    pub fn new(paths: usize, window: usize, deadline: u64, incarnation: u8) -> Resequencer<T> {
        let window = window.clamp(2, MAX_WINDOW).next_power_of_two();
        Resequencer {
            next: 0,
            incarnation,
            deadline,
            slots: std::iter::repeat_with(|| None).take(window).collect(),
            held: 0,
            floors: vec![Some(0); paths],
            waiting: VecDeque::new(),
            missing: vec![false; window].into(),
            missing_count: 0,
            probation: None,
            counts: Counts::default(),
        }
    }

    /// Packets that wait.
    pub fn held(&self) -> usize {
        self.held
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The life of the input node that its packets come from.
    pub fn incarnation(&self) -> u8 {
        self.incarnation
    }

    /// Takes out what waits, in no order, when the stream is given up with all that is in it.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        self.held = 0;
        self.waiting.clear();
        self.slots.iter_mut().filter_map(Option::take).map(|held| held.item)
    }

    /// Changes the deadline, in nanoseconds, for those that wait, too.
    pub fn set_deadline(&mut self, deadline: u64) {
        self.deadline = deadline;
    }

    /// A packet came by `path` with this number. What can be delivered is appended to `out`, in order.
    ///
    /// # Errors
    ///
    /// The packet, if it is not to be delivered, and why. Others may have been delivered all the same.
    #[inline]
    pub fn accept(
        &mut self,
        path: usize,
        incarnation: u8,
        sequence: u32,
        item: T,
        now: u64,
        out: &mut Vec<T>,
    ) -> Result<(), Rejected<T>> {
        if sequence == low(self.next)
            && incarnation == self.incarnation
            && let Some(Some(floor)) = self.floors.get_mut(path)
        {
            let before = *floor;
            *floor = before.max(self.next + 1);
            self.deliver(item, out);
            if self.held > 0 {
                // This path alone cannot have held up more than what is next now, unless it is ahead already.
                let floor = if before > self.next { self.lowest_floor() } else { self.next };
                self.release(floor, out);
            }
            self.probation = None;
            return Ok(());
        }
        self.accept_other(path, incarnation, sequence, item, now, out)
    }

    /// What may simply pass if it comes by `path`: the next number, and how many from there on have none that waits among
    /// them, up to `most`. `None` if everything from there and from that life is for [`Resequencer::accept`].
    #[inline]
    pub fn passing(&self, path: usize, incarnation: u8, most: usize) -> Option<(u32, usize)> {
        self.floors.get(path)?.filter(|_| incarnation == self.incarnation)?;
        let free = |count: &usize| self.slots[self.slot(self.next + *count as u64)].is_none();
        let room = if self.held == 0 { most } else { (0..most).take_while(free).count() };
        Some((low(self.next), room))
    }

    /// So many packets have passed, of those that [`Resequencer::passing`] said may. What they leave in order is released by
    /// [`Resequencer::catch_up`]; nothing else may be done before.
    #[inline]
    pub fn pass(&mut self, path: usize, count: usize) {
        if self.missing_count == 0 {
            self.next += count as u64;
            self.counts.delivered += count as u64;
        } else {
            (0..count).for_each(|_| self.pass_next());
        }
        if let Some(Some(floor)) = self.floors.get_mut(path) {
            *floor = self.next.max(*floor);
        }
        self.probation = None;
    }

    /// Releases what waits for nothing any more.
    #[inline]
    pub fn catch_up(&mut self, out: &mut Vec<T>) {
        if self.held > 0 {
            self.release(self.lowest_floor(), out);
        }
    }

    /// A packet that is not simply the next.
    fn accept_other(
        &mut self,
        path: usize,
        incarnation: u8,
        sequence: u32,
        item: T,
        now: u64,
        out: &mut Vec<T>,
    ) -> Result<(), Rejected<T>> {
        let reject = |item, reason| Err(Rejected { item, reason });
        if path >= self.floors.len() {
            return reject(item, Reason::NoPath);
        }
        if incarnation != self.incarnation {
            self.counts.wrong_incarnation += 1;
            return reject(item, Reason::WrongIncarnation);
        }
        let mut place = self.place(sequence);
        if matches!(place, Place::Outside) && self.is_elsewhere(sequence, now) {
            self.move_to(sequence, out);
            place = Place::Ahead(self.next);
        }
        match place {
            Place::Outside => {
                self.counts.out_of_window += 1;
                reject(item, Reason::OutOfWindow)
            }
            Place::Behind(number) => {
                let slot = self.slot(number);
                if self.missing[slot] {
                    self.missing[slot] = false;
                    self.missing_count -= 1;
                    self.counts.late += 1;
                    reject(item, Reason::Late)
                } else {
                    self.counts.duplicate += 1;
                    reject(item, Reason::Duplicate)
                }
            }
            Place::Ahead(number) => {
                self.probation = None;
                let before = self.raise_floor(path, number + 1);
                let slot = self.slot(number);
                if self.slots[slot].is_some() {
                    self.counts.duplicate += 1;
                    self.release(self.lowest_floor(), out);
                    return reject(item, Reason::Duplicate);
                }
                self.slots[slot] = Some(Held { item, since: now });
                self.held += 1;
                self.counts.waited += u64::from(number != self.next);
                while self.waiting.front().is_some_and(|&number| number < self.next) {
                    self.waiting.pop_front();
                }
                self.waiting.push_back(number);
                // If this path was ahead of the gap before, others are what the gap waits for.
                if before.is_none_or(|before| before <= self.next) || number == self.next {
                    self.release(self.lowest_floor(), out);
                }
                Ok(())
            }
        }
    }

    /// A marker came by `path`: nothing below this number comes there any more.
    pub fn marker(
        &mut self,
        path: usize,
        incarnation: u8,
        sequence: u32,
        now: u64,
        out: &mut Vec<T>,
    ) -> Result<(), Reason> {
        if path >= self.floors.len() {
            return Err(Reason::NoPath);
        }
        if incarnation != self.incarnation {
            self.counts.wrong_incarnation += 1;
            return Err(Reason::WrongIncarnation);
        }
        match self.place(sequence) {
            Place::Ahead(number) => {
                self.raise_floor(path, number);
                self.release(self.lowest_floor(), out);
                Ok(())
            }
            // Everything before it was delivered or given up by other news.
            Place::Behind(_) => Ok(()),
            Place::Outside if self.is_elsewhere(sequence, now) => {
                self.move_to(sequence, out);
                Ok(())
            }
            Place::Outside => {
                self.counts.out_of_window += 1;
                Err(Reason::OutOfWindow)
            }
        }
    }

    /// Gives up what packets have waited for as long as the deadline allows.
    pub fn poll(&mut self, now: u64, out: &mut Vec<T>) {
        while let Some(&number) = self.waiting.front() {
            if number >= self.next {
                let since = self.slots[self.slot(number)].as_ref().map_or(0, |held| held.since);
                if since.saturating_add(self.deadline) > now {
                    break;
                }
                let before = self.counts.given_up;
                self.release(number, out);
                self.counts.expired += self.counts.given_up - before;
            }
            self.waiting.pop_front();
        }
    }

    /// When [`Resequencer::poll`] will have something to do, unless packets come first.
    pub fn due(&self) -> Option<u64> {
        let number = self.waiting.iter().copied().find(|&number| number >= self.next)?;
        let held = self.slots[self.slot(number)].as_ref()?;
        Some(held.since.saturating_add(self.deadline))
    }

    /// A path is down: what it had under way does not come. Packets that come by it all the same are taken.
    pub fn path_down(&mut self, path: usize, out: &mut Vec<T>) {
        if let Some(floor) = self.floors.get_mut(path) {
            *floor = None;
            self.release(self.lowest_floor(), out);
        }
    }

    /// A path is up, again or for the first time.
    pub fn path_up(&mut self, path: usize) {
        let next = self.next;
        self.floors.get_mut(path).into_iter().for_each(|floor| *floor = Some(next));
    }

    /// Whether a path is up.
    pub fn is_path_up(&self, path: usize) -> bool {
        self.floors.get(path).is_some_and(Option::is_some)
    }

    /// The input node began a new life: its numbers begin with 0. What waits is delivered first.
    pub fn restart(&mut self, incarnation: u8, out: &mut Vec<T>) {
        self.incarnation = incarnation;
        // To the next number that is a multiple of 2^24.
        self.move_to(0, out);
    }

    fn slot(&self, number: u64) -> usize {
        number as usize & (self.slots.len() - 1)
    }

    fn place(&self, sequence: u32) -> Place {
        let window = self.slots.len() as u64;
        let ahead = distance(low(self.next), sequence);
        let behind = u64::from(SEQUENCES) - ahead;
        if ahead < window {
            Place::Ahead(self.next + ahead)
        } else if behind <= window && behind <= self.next {
            Place::Behind(self.next - behind)
        } else {
            Place::Outside
        }
    }

    /// Whether this frame outside the window completes a row of them.
    fn is_elsewhere(&mut self, sequence: u32, now: u64) -> bool {
        let window = self.slots.len() as u64;
        let probation = Probation::after(self.probation, sequence, window, now);
        self.probation = Some(probation);
        probation.is_passed(low(self.next), self.deadline, now)
    }

    /// Delivers what waits and goes on with this number.
    fn move_to(&mut self, sequence: u32, out: &mut Vec<T>) {
        while self.held > 0 {
            let lost = self.slots[self.slot(self.next)].is_none();
            self.release(self.next + u64::from(lost), out);
        }
        self.next += distance(low(self.next), sequence);
        self.waiting.clear();
        self.missing.fill(false);
        self.missing_count = 0;
        self.probation = None;
        self.counts.moved += 1;
        let next = self.next;
        self.floors.iter_mut().flatten().for_each(|floor| *floor = next);
    }

    /// Gives where the floor was, `None` if the path is down.
    fn raise_floor(&mut self, path: usize, to: u64) -> Option<u64> {
        let floor = self.floors.get_mut(path)?.as_mut()?;
        let before = *floor;
        *floor = to.max(before);
        Some(before)
    }

    /// Below this no path delivers anything any more; without any path, below everything that waits.
    fn lowest_floor(&self) -> u64 {
        let lowest = self.floors.iter().flatten().copied().min();
        lowest.unwrap_or_else(|| self.waiting.iter().copied().max().map_or(self.next, |last| last + 1))
    }

    /// Delivers what has nothing missing before it, giving up what is missing below `floor`.
    fn release(&mut self, floor: u64, out: &mut Vec<T>) {
        loop {
            let slot = self.slot(self.next);
            if self.held > 0
                && let Some(held) = self.slots[slot].take()
            {
                self.held -= 1;
                self.deliver(held.item, out);
            } else if self.next < floor {
                self.counts.given_up += 1;
                self.missing_count += usize::from(!self.missing[slot]);
                self.missing[slot] = true;
                self.next += 1;
            } else {
                return;
            }
        }
    }

    #[inline(always)]
    fn deliver(&mut self, item: T, out: &mut Vec<T>) {
        self.pass_next();
        out.push(item);
    }

    /// The next number is delivered.
    #[inline]
    fn pass_next(&mut self) {
        if self.missing_count > 0 {
            let slot = self.slot(self.next);
            self.missing_count -= usize::from(self.missing[slot]);
            self.missing[slot] = false;
        }
        self.next += 1;
        self.counts.delivered += 1;
    }
}

/// The part of a number that the header carries.
fn low(number: u64) -> u32 {
    (number % u64::from(SEQUENCES)) as u32
}

/// How far one must count up from one number to another, round the end if need be.
fn distance(from: u32, to: u32) -> u64 {
    u64::from(to.wrapping_sub(from) % SEQUENCES)
}

#[cfg(test)]
mod tests;

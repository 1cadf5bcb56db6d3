//! Looking at the packets of a batch, of which some may not go on.
#![allow(unsafe_code)]

use crate::batch::Batch;
use crate::frame::MAX;
use crate::header::Header;
use crate::packet::Packet;
use crate::settle::{Marks, Settle};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

impl Batch {
    /// Keeps the packets for which `keep` says so, in order, and hands the others to `removed`, after all have been
    /// looked at.
    #[inline]
    pub fn retain(&mut self, mut keep: impl FnMut(&mut Packet) -> bool, mut removed: impl FnMut(Packet)) {
        self.retain_ok(|packet| if keep(packet) { Ok(()) } else { Err(()) }, |packet, ()| removed(packet));
    }

    /// [`retain`](Self::retain), with the reason why a packet goes.
    #[inline]
    pub fn retain_ok<R: Copy>(
        &mut self,
        keep: impl FnMut(&mut Packet) -> Result<(), R>,
        mut removed: impl FnMut(Packet, R),
    ) {
        self.sift(keep, |packet, reason| {
            removed(packet, reason);
            None
        });
    }

    /// Looks at each packet, and then, in order, again at those for which the first look found a reason: the second one
    /// gives a packet back, which keeps its place, or sees to its end.
    ///
    /// The first look is a short loop without calls that need registers saved: what is seldom belongs in the second.
    #[inline]
    pub fn sift<R: Copy>(
        &mut self,
        first: impl FnMut(&mut Packet) -> Result<(), R>,
        second: impl FnMut(Packet, R) -> Option<Packet>,
    ) {
        self.sift_many::<4, _>(|_| false, first, second);
    }

    /// [`sift`](Self::sift) that looks at `N` packets together as long as there are so many: true from `many` means that
    /// they are done with, false that it has changed nothing and each is to be looked at by `first`.
    #[inline(always)]
    pub fn sift_many<const N: usize, R: Copy>(
        &mut self,
        mut many: impl FnMut(&mut [Packet; N]) -> bool,
        mut first: impl FnMut(&mut Packet) -> Result<(), R>,
        second: impl FnMut(Packet, R) -> Option<Packet>,
    ) {
        let mut reasons = [const { MaybeUninit::uninit() }; MAX];
        let mut n = 0;
        let mut one = |packet: &mut Packet| {
            if let Err(reason) = first(packet) {
                // At most one for each packet, of which there are at most MAX. Packets are told apart by their headers:
                // a number to count along would cost the loop an instruction.
                reasons[n % MAX].write((NonNull::from(packet.header()), reason));
                n += 1;
            }
        };
        let (groups, rest) = self.as_mut_slice().as_chunks_mut::<N>();
        for packets in groups {
            if !many(packets) {
                packets.iter_mut().for_each(&mut one);
            }
        }
        rest.iter_mut().for_each(&mut one);
        if n > 0 {
            // SAFETY: the first n were written just now.
            let reasons = unsafe { std::slice::from_raw_parts(reasons.as_ptr().cast(), n.min(MAX)) };
            self.sift_again(reasons, second);
        }
    }

    /// [`sift_many`](Self::sift_many) for an element that may be the first to look at packets, and marks headers: what
    /// `look` finds of `N` packets is noted together with what is still due, if nothing is found `first` looks at each. `look`
    /// sees marks that are not in order yet, so it reads none.
    #[inline(always)]
    pub fn sift_marking<const N: usize, R: Copy>(
        &mut self,
        mut look: impl FnMut(&mut [Packet; N]) -> Option<Marks<N>>,
        first: impl FnMut(&mut Packet) -> Result<(), R>,
        second: impl FnMut(Packet, R) -> Option<Packet>,
    ) {
        let is_due = self.settle_all_but_groups_of::<N>();
        // One place that calls `look`: two would keep it from being inlined there, where there may be wider registers.
        let many = |packets: &mut [Packet; N]| match look(packets) {
            Some(marks) if is_due => {
                marks.note_and_settle(packets);
                true
            }
            Some(marks) => {
                marks.note(packets);
                true
            }
            None if is_due => {
                settle(packets, Settle::ClearHash);
                false
            }
            None => false,
        };
        self.sift_many(many, first, second);
    }

    /// If [`Settle::ClearHash`] is due, does so to the packets behind the last group of `N` and says true: for those of the
    /// groups the caller will. Else does what is due, if anything is.
    #[inline(always)]
    fn settle_all_but_groups_of<const N: usize>(&mut self) -> bool {
        match self.take_due() {
            Some(Settle::ClearHash) => {
                let (_, rest) = self.as_mut_slice().as_chunks_mut::<N>();
                if !rest.is_empty() {
                    settle(rest, Settle::ClearHash);
                }
                true
            }
            Some(due) => {
                settle(self.as_mut_slice(), due);
                false
            }
            None => false,
        }
    }

    /// `reasons`: which packets are looked at again, in their order, and why.
    #[cold]
    #[inline(never)]
    fn sift_again<R: Copy>(
        &mut self,
        reasons: &[(NonNull<Header>, R)],
        mut second: impl FnMut(Packet, R) -> Option<Packet>,
    ) {
        let mut reasons = reasons.iter().copied().peekable();
        for packet in std::mem::take(self) {
            let kept = match reasons.next_if(|(header, _)| *header == NonNull::from(packet.header())) {
                Some((_, reason)) => second(packet, reason),
                None => Some(packet),
            };
            if let Some(packet) = kept {
                self.push(packet);
            }
        }
    }
}

/// Does to packets what is due.
#[inline(never)]
fn settle(packets: &mut [Packet], due: Settle) {
    // SAFETY: a Packet is a transparent NonNull<Header>, and owns what it points to.
    unsafe {
        due.settle(std::slice::from_raw_parts(packets.as_ptr().cast::<NonNull<Header>>(), packets.len()));
    }
}

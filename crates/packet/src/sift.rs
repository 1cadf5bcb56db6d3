//! Looking at the packets of a batch, of which some may not go on.
#![allow(unsafe_code)]

use crate::batch::Batch;
use crate::frame::MAX;
use crate::header::Header;
use crate::packet::Packet;
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
        mut first: impl FnMut(&mut Packet) -> Result<(), R>,
        second: impl FnMut(Packet, R) -> Option<Packet>,
    ) {
        let mut reasons = Reasons::new();
        let mut one = |packet: &mut Packet| {
            if let Err(reason) = first(packet) {
                reasons.note(packet, reason);
            }
        };
        let (fours, rest) = self.as_mut_slice().as_chunks_mut::<4>();
        fours.iter_mut().flatten().for_each(&mut one);
        rest.iter_mut().for_each(&mut one);
        if let Some(reasons) = reasons.some() {
            self.sift_again(reasons, second);
        }
    }

    /// `reasons`: which packets are looked at again, in their order, and why.
    #[cold]
    #[inline(never)]
    pub(crate) fn sift_again<R: Copy>(
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

/// Packets of a batch that are to be looked at again, and why. Packets are told apart by their headers: a number to count
/// along would cost each loop an instruction.
pub(crate) struct Reasons<R> {
    list: [MaybeUninit<(NonNull<Header>, R)>; MAX],
    n: usize,
}

impl<R: Copy> Reasons<R> {
    #[inline(always)]
    pub fn new() -> Reasons<R> {
        Reasons { list: [const { MaybeUninit::uninit() }; MAX], n: 0 }
    }

    /// Notes a packet; at most one call for each of a batch, of which there are at most [`MAX`].
    #[inline(always)]
    pub fn note(&mut self, packet: &Packet, reason: R) {
        self.list[self.n % MAX].write((NonNull::from(packet.header()), reason));
        self.n += 1;
    }

    /// What was noted, if anything.
    #[inline(always)]
    pub fn some(&self) -> Option<&[(NonNull<Header>, R)]> {
        // SAFETY: the first n were written.
        (self.n > 0)
            .then(|| unsafe { std::slice::from_raw_parts(self.list.as_ptr().cast(), self.n.min(MAX)) })
    }
}

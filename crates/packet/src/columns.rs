//! What elements find of all packets of a batch and note once: where the headers are, a column of destinations, a column of
//! next hops.
//!
//! Each packet gets its part when somebody looks at it ([`Due`]). Packets that are checked, routed, rewritten and sent never
//! do, so nothing is stored in their headers.

use crate::batch::Batch;
use crate::due::Due;
use crate::frame::{Frame, Headers};
use crate::header::Header;
use crate::lanes::Lanes;
use crate::packet::Packet;
use crate::sift::Reasons;
use crate::together::{Group, Heads};
use std::ptr::NonNull;

/// A number for each packet of a batch, in their order.
#[derive(Debug)]
pub struct Columns<'a> {
    /// The destination annotations, see [`Packet::dst_ip`].
    pub destinations: &'a mut [u32],
    /// The next hops, see [`Packet::next_hop`].
    pub next_hops: &'a mut [u32],
}

/// The next hop of packets that are not as they should be: no list has as many.
const NONE: u32 = u32::MAX;

impl Batch {
    /// Looks for the network headers of packets, which nearly all have them at `headers`, and notes what it finds.
    ///
    /// `many` looks at `N` packets and writes down where they want to go (host byte order). It returns how many bytes from
    /// the network header on are each packet's, the rest is cut off; or, if they are not all as usual, `None`, and then each
    /// is looked at by `one`, which cuts it itself and says where it wants to go. What is left is given to `second`, when all
    /// have been looked at: it gives a packet back, which keeps its place and whatever marks it has by then, or sees to its
    /// end. `one` sees no marks and annotations, as they are not in order yet, perhaps bytes before those of the packet that
    /// have been stripped, and is told where the network header is.
    #[inline(always)]
    pub fn find_headers<V: Lanes<N>, const N: usize, const LEN: usize>(
        &mut self,
        headers: Headers,
        mut many: impl FnMut(Heads<'_, V, N, LEN>, &mut [u32; N]) -> Option<V>,
        mut one: impl FnMut(&mut Packet, usize) -> Option<u32>,
        second: impl FnMut(Packet) -> Option<Packet>,
    ) {
        let Some(frame) = self.0.as_mut() else { return };
        begin_to_find(frame);
        let mut reasons = Reasons::new();
        let offset = usize::from(headers.network) + usize::from(frame.stripped());
        let mut alone = |(packet, to)| find_alone(packet, offset, to, &mut one, &mut reasons);
        // The column of next hops is free for lengths, see `begin_to_find`.
        let (packets, destinations, lengths) = frame.columns();
        let (groups, rest) = packets.as_chunks_mut::<N>();
        let (places, rest_places) = destinations.as_chunks_mut::<N>();
        let (lengths, _) = lengths.as_chunks_mut::<N>();
        for (group, places) in Group::measure::<V>(groups, lengths).zip(places) {
            let found = group.show(offset, |heads| {
                let room = heads.room;
                many(heads, places).map(|len| (len, (len ^ room).is_zero()))
            });
            match found.flatten() {
                Some((_, true)) => {}
                Some((len, false)) => group.cut(len.to_array(), offset),
                None => group.into_packets().iter_mut().zip(places).for_each(&mut alone),
            }
        }
        rest.iter_mut().zip(rest_places).for_each(alone);
        self.end_finding(headers, &reasons, second);
    }

    /// [`find_headers`](Self::find_headers) where each packet is looked at by itself.
    #[inline(always)]
    pub fn find_each_header(
        &mut self,
        headers: Headers,
        mut one: impl FnMut(&mut Packet, usize) -> Option<u32>,
        second: impl FnMut(Packet) -> Option<Packet>,
    ) {
        let Some(frame) = self.0.as_mut() else { return };
        begin_to_find(frame);
        let mut reasons = Reasons::new();
        let offset = usize::from(headers.network) + usize::from(frame.stripped());
        let (packets, destinations, _) = frame.columns();
        for (packet, to) in packets.iter_mut().zip(destinations) {
            find_alone(packet, offset, to, &mut one, &mut reasons);
        }
        self.end_finding(headers, &reasons, second);
    }

    /// Notes what was found of all packets but those with a reason, which get a second look.
    #[inline(always)]
    fn end_finding(
        &mut self,
        headers: Headers,
        reasons: &Reasons<()>,
        mut second: impl FnMut(Packet) -> Option<Packet>,
    ) {
        let Some(frame) = self.0.as_mut() else { return };
        frame.headers = headers;
        match reasons.some() {
            None if frame.len == 0 => {}
            None => frame.due.set(frame.due.get().and(Due::FOUND)),
            Some(unusual) => {
                mark_all_but(frame, unusual.iter().map(|(header, ())| *header));
                self.sift_again(unusual, |packet, ()| second(packet));
            }
        }
    }

    /// The columns, for an element that looks up routes. The destinations are those of the packets. The next hops are for
    /// the caller to write, all of them. From then on packets have what stands in both.
    #[inline]
    pub fn columns(&mut self) -> Columns<'_> {
        let Some(frame) = self.0.as_mut() else {
            return Columns { destinations: &mut [], next_hops: &mut [] };
        };
        write_destinations(frame);
        frame.only = Frame::DIFFER;
        if frame.len > 0 {
            let due = frame.due.get().without(Due::FRAMED);
            frame.due.set(due.and(Due::DESTINATIONS).and(Due::NEXT_HOPS));
        }
        let (_, destinations, next_hops) = frame.columns();
        Columns { destinations, next_hops }
    }

    /// The destination annotation of each packet, in their order.
    #[inline]
    pub fn destinations(&mut self) -> &[u32] {
        let Some(frame) = self.0.as_mut() else { return &[] };
        write_destinations(frame);
        frame.columns().1
    }

    /// The length in bytes of the packet at this place, from 0; 0 if there is none.
    #[inline]
    pub fn length_of(&self, place: usize) -> usize {
        self.inspected().get(place).map_or(0, Packet::len)
    }

    /// Says that nobody will ask for the destination annotations and next hops any more. Of packets that are as a driver left them
    /// they become 0; those of others may, or stay.
    #[inline]
    pub fn forget_columns(&mut self) {
        if let Some(frame) = self.0.as_mut().filter(|frame| frame.due.get().is_received()) {
            let columns = Due::DESTINATIONS.and(Due::NEXT_HOPS).and(Due::FRAMED);
            frame.due.set(frame.due.get().without(columns));
        }
    }

    /// Shows the first `N` bytes of each packet's network header, with the packet's place, if one element has found them all
    /// and no packet has a destination annotation but 0. False, perhaps after some, if it is not so.
    #[inline]
    pub fn network_heads<const N: usize>(&self, mut seen: impl FnMut(usize, &[u8; N])) -> bool {
        let Some(frame) = self.0.as_ref().filter(|frame| frame.due.get().has(Due::FOUND)) else {
            return false;
        };
        let offset = network_as_they_are(frame);
        let packets = frame.as_they_are();
        if frame.destinations[..packets.len()].iter().fold(0, |any, destination| any | destination) != 0 {
            return false;
        }
        packets.iter().enumerate().all(|(i, packet)| packet.head(offset).map(|head| seen(i, head)).is_some())
    }

    /// The first `N` bytes of the network header of the packet at this place, if one element has found those of all packets.
    #[inline]
    pub fn network_head_at<const N: usize>(&self, place: usize) -> Option<&[u8; N]> {
        let frame = self.0.as_ref().filter(|frame| frame.due.get().has(Due::FOUND))?;
        frame.as_they_are().get(place)?.head(network_as_they_are(frame))
    }

    /// Shows the first `N` bytes of each packet, or `None` if it ends before, with its length in bytes. What is noted of the packets stays
    /// noted.
    #[inline]
    pub fn heads<const N: usize>(&self, mut seen: impl FnMut(Option<&[u8; N]>, usize)) {
        self.inspected().iter().for_each(|packet| seen(packet.head(0), packet.len()));
    }

    /// The packets, for who looks neither at marks nor at annotations.
    #[inline(always)]
    pub(crate) fn inspected(&self) -> &[Packet] {
        let Some(frame) = &self.0 else { return &[] };
        frame.strip();
        frame.as_they_are()
    }

    /// The next hop of each packet, in their order.
    #[inline]
    pub fn next_hops(&mut self) -> &[u32] {
        self.0.as_mut().map_or(&[], |frame| with_next_hops(frame).1)
    }

    /// The next hop of all packets, if it is the same one, which an element noted for all of them, as it did that their network
    /// headers begin at offset `L`.
    #[inline(always)]
    pub fn only_next_hop<const L: u16>(&self) -> Option<u32> {
        let frame = self.0.as_ref().filter(|frame| is_routed::<L>(frame))?;
        if frame.only == Frame::DIFFER { only_of(&frame.next_hops[..frame.len]) } else { Some(frame.only) }
    }

    /// True if no next hop is 0. For elements that have just looked them up: it is noted, too, if all packets have the same one.
    #[inline]
    pub fn are_routed(&mut self) -> bool {
        let Some(frame) = self.0.as_mut() else { return true };
        let (_, next_hops) = with_next_hops(frame);
        let bounds = |(least, greatest): (u32, u32), hop: &u32| (least.min(*hop), greatest.max(*hop));
        let (least, greatest) = next_hops.iter().fold((u32::MAX, 0), bounds);
        frame.only = if least == greatest { least } else { Frame::DIFFER };
        least > 0
    }

    /// The packets, and the next hop of each. Nobody is to look at their marks and annotations, which need not be in order, nor
    /// to change them, nor to move where packets begin.
    #[inline]
    pub fn with_next_hops(&mut self) -> (&mut [Packet], &[u32]) {
        let Some(frame) = self.0.as_mut() else { return (&mut [], &[]) };
        frame.due.set(frame.due.get().without(Due::UNCHANGED));
        frame.strip();
        with_next_hops(frame)
    }

    /// Notes that all network headers that have just been found are of IPv4 and have plain TTLs
    /// ([`ipv4::has_plain_ttl`](crate::wire::ipv4::has_plain_ttl)).
    #[inline]
    pub fn note_plain_ttls(&mut self) {
        if let Some(frame) = self.0.as_mut().filter(|frame| frame.due.get().has(Due::FOUND)) {
            frame.due.set(frame.due.get().and(Due::PLAIN_TTLS));
        }
    }

    /// True if that was noted, and nobody could change packets since.
    #[inline]
    pub fn has_plain_ttls(&self) -> bool {
        self.0.as_ref().is_some_and(|frame| frame.due.get().has(Due::PLAIN_TTLS))
    }

    /// Notes that each packet has just been made to begin with the header of its next hop in the list of adjacencies with this
    /// version, which is not 0. Only what [`sift_routed`](Self::sift_routed) has kept without a second look can be noted.
    #[inline]
    pub fn note_framed(&mut self, list: u64) {
        const ROUTED: Due = Due::HEADERS.and(Due::NEXT_HOPS);
        if let Some(frame) = self.0.as_mut().filter(|frame| frame.due.get().has(ROUTED)) {
            frame.list = list;
            frame.due.set(frame.due.get().and(Due::FRAMED));
        }
    }

    /// The version of the list that was noted, if nobody could change packets and next hops since.
    #[inline]
    pub fn framed_by(&self) -> Option<u64> {
        self.0.as_ref().filter(|frame| frame.due.get().has(Due::FRAMED)).map(|frame| frame.list)
    }

    /// Looks at each packet whose network header begins at offset `L`, with the number of its next hop, and then, in order,
    /// again at the others and those that `first` does not want: `second` gives a packet back, which keeps its place, or
    /// sees to its end.
    ///
    /// `first` neither moves where packets begin nor changes marks and annotations. It sees none, as they need not be in order.
    #[inline]
    pub fn sift_routed<const L: u16>(
        &mut self,
        mut first: impl FnMut(&mut Packet, u32) -> Option<()>,
        mut second: impl FnMut(Packet) -> Option<Packet>,
    ) {
        let Some(frame) = self.0.as_mut() else { return };
        if !is_routed::<L>(frame) {
            write_next_hops::<L>(frame);
        }
        frame.due.set(frame.due.get().without(Due::UNCHANGED));
        frame.strip();
        let mut reasons = Reasons::new();
        let mut one = |(packet, next_hop): (&mut Packet, &u32)| {
            if first(packet, *next_hop).is_none() {
                reasons.note(packet, ());
            }
        };
        let (packets, _, next_hops) = frame.columns();
        let (fours, rest) = packets.as_chunks_mut::<4>();
        let (numbers, rest_numbers) = next_hops.as_chunks::<4>();
        for (packets, numbers) in fours.iter_mut().zip(numbers) {
            packets.iter_mut().zip(numbers).for_each(&mut one);
        }
        rest.iter_mut().zip(rest_numbers).for_each(&mut one);
        if let Some(unusual) = reasons.some() {
            frame.settle();
            self.sift_again(unusual, |packet, ()| second(packet));
        }
    }

    /// The length of the longest packet in bytes.
    #[inline]
    pub fn longest(&self) -> usize {
        self.inspected().iter().map(Packet::len).max().unwrap_or(0)
    }

    /// True if the network header of each packet begins at this offset.
    #[inline]
    pub fn have_network_at(&self, offset: u16) -> bool {
        match &self.0 {
            Some(frame) if frame.due.get().has(Due::HEADERS) => frame.headers.network == offset,
            _ => self.iter().all(|packet| packet.network_offset() == Some(offset.into())),
        }
    }
}

/// The next hop of all, if it is the same one.
#[inline(never)]
fn only_of(next_hops: &[u32]) -> Option<u32> {
    let only = *next_hops.first()?;
    // Some at a time, so that it takes little to see that they differ.
    let (many, rest) = next_hops.as_chunks::<16>();
    let are_same = |some: &[u32]| some.iter().fold(0, |any, next_hop| any | (next_hop ^ only)) == 0;
    (many.iter().all(|some| are_same(some)) && are_same(rest)).then_some(only)
}

/// Before network headers are looked for: what was found of them before counts for packets that turn out to be unusual, and
/// next hops, which belong to what was found, make room for lengths.
#[inline(always)]
fn begin_to_find(frame: &Frame) {
    if frame.due.get().has_any(Due::FOUND.and(Due::NEXT_HOPS)) {
        frame.settle();
    }
}

/// Looks for a packet's network header: writes down where it wants to go, or notes that it needs a second look.
#[inline(always)]
fn find_alone(
    packet: &mut Packet,
    offset: usize,
    to: &mut u32,
    one: &mut impl FnMut(&mut Packet, usize) -> Option<u32>,
    reasons: &mut Reasons<()>,
) {
    match one(packet, offset) {
        Some(destination) => *to = destination,
        None => reasons.note(packet, ()),
    }
}

/// True if next hops stand in the column, and all network headers are at offset `L`.
#[inline(always)]
fn is_routed<const L: u16>(frame: &Frame) -> bool {
    frame.due.get().has(Due::HEADERS.and(Due::NEXT_HOPS)) && frame.headers.network == L
}

/// Where network headers that have been found are in the packets as they are. May be beyond all packets, where they have been
/// stripped, too.
#[inline(always)]
fn network_as_they_are(frame: &Frame) -> usize {
    usize::from(frame.headers.network) + usize::from(frame.stripped())
}

/// Writes the column of destinations if it is not.
#[inline]
fn write_destinations(frame: &mut Frame) {
    if !frame.due.get().has(Due::DESTINATIONS) {
        frame.settle();
        let (packets, destinations, _) = frame.columns();
        destinations.iter_mut().zip(packets).for_each(|(to, packet)| *to = packet.dst_ip());
    }
}

/// The packets, and the column of next hops, which is written first if it is not.
#[inline]
fn with_next_hops(frame: &mut Frame) -> (&mut [Packet], &[u32]) {
    if !frame.due.get().has(Due::NEXT_HOPS) {
        frame.settle();
        let (packets, _, next_hops) = frame.columns();
        next_hops.iter_mut().zip(packets).for_each(|(to, packet)| *to = packet.next_hop());
    }
    let (packets, _, next_hops) = frame.columns();
    (packets, next_hops)
}

/// Marks these headers, and notes the destinations, of all packets but some, given in their order.
#[cold]
#[inline(never)]
fn mark_all_but(frame: &mut Frame, unusual: impl Iterator<Item = NonNull<Header>>) {
    frame.settle();
    let mut unusual = unusual.peekable();
    let Headers { network, transport } = frame.headers;
    let (packets, destinations, _) = frame.columns();
    for (packet, destination) in packets.iter_mut().zip(destinations) {
        if unusual.next_if(|header| *header == NonNull::from(packet.header())).is_none() {
            packet.set_network_offset(network.into());
            packet.set_transport_offset(transport.into());
            packet.set_dst_ip(*destination);
        }
    }
}

/// Writes the column of next hops as the packets have them: [`NONE`] where the network header does not begin at `L`.
#[inline(never)]
fn write_next_hops<const L: u16>(frame: &mut Frame) {
    frame.settle();
    let (packets, _, next_hops) = frame.columns();
    for (packet, to) in packets.iter().zip(next_hops) {
        *to = if packet.has_network_at(L) { packet.next_hop() } else { NONE };
    }
}

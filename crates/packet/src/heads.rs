//! Changing the headers of all packets of a batch, without putting in order first what is due: where network headers were found
//! ([`Due::HEADERS`]) says enough.

use crate::batch::Batch;
use crate::due::Due;
use crate::frame::Frame;
use crate::packet::Packet;
use crate::sift::Reasons;

impl Batch {
    /// Shows the first `LEN` bytes of each packet's network header, to change, and then, in order, the packets again of which
    /// `first` says false, and those that have none or end before: `second` gives a packet back, which keeps its place, or
    /// sees to its end.
    #[inline]
    pub fn sift_network<const LEN: usize>(
        &mut self,
        mut first: impl FnMut(&mut [u8; LEN]) -> bool,
        mut second: impl FnMut(Packet) -> Option<Packet>,
    ) {
        let Some(frame) = self.0.as_mut() else { return };
        let mut reasons = Reasons::new();
        // The offset of a header that was stripped wraps.
        let is_inside = frame.headers.network < 1 << 15;
        if frame.due.get().has(Due::HEADERS) && is_inside {
            frame.due.set(frame.due.get().without(Due::UNCHANGED));
            let offset = usize::from(frame.headers.network) + usize::from(frame.stripped());
            sift(frame, &mut reasons, |packet| packet.head_mut(offset).is_some_and(&mut first));
        } else {
            frame.settle();
            sift(frame, &mut reasons, |packet| packet.network_head_mut().is_some_and(&mut first));
        }
        if let Some(unusual) = reasons.some() {
            frame.settle();
            self.sift_again(unusual, |packet, ()| second(packet));
        }
    }

    /// Shows the first `LEN` bytes of each packet, to change. Packets that have fewer are given to `refused`.
    #[inline]
    pub fn change_front<const LEN: usize>(
        &mut self,
        mut change: impl FnMut(&mut [u8; LEN]),
        mut refused: impl FnMut(Packet),
    ) {
        let Some(frame) = self.0.as_mut() else { return };
        frame.due.set(frame.due.get().without(Due::UNCHANGED));
        frame.strip();
        let mut reasons = Reasons::new();
        sift(frame, &mut reasons, |packet| packet.first_mut().map(&mut change).is_some());
        if let Some(short) = reasons.some() {
            frame.settle();
            self.sift_again(short, |packet, ()| {
                refused(packet);
                None
            });
        }
    }

    /// Removes the first `len` bytes of each packet. Packets that have fewer are given to `refused`.
    ///
    /// Packets as a driver left them keep the bytes until somebody looks at one: often a header takes their place.
    #[inline]
    pub fn strip(&mut self, len: usize, refused: impl FnMut(Packet)) {
        let Some(frame) = self.0.as_mut() else { return };
        if note_stripped(frame, len) {
            return;
        }
        frame.strip();
        let (packets, _, _) = frame.columns();
        if let Some(short) = packets.iter_mut().position(|packet| !packet.pull(len)) {
            // All back, so that what is due is right for each.
            packets[..short].iter_mut().for_each(|packet| _ = packet.push(len));
            return self.retain(|packet| packet.pull(len), refused);
        }
        frame.due.set(frame.due.get().without(Due::FRAMED));
        // No packet has more than 16 bits can say.
        frame.move_front((len as u16).wrapping_neg());
    }

    /// Puts a link-layer header before each packet, and marks it. Packets without room for it are given to `refused`.
    #[inline]
    pub fn put_link<const LEN: usize>(&mut self, header: &[u8; LEN], refused: impl FnMut(Packet)) {
        let Some(frame) = self.0.as_mut() else { return };
        if replace_stripped(frame, header) {
            return;
        }
        frame.strip();
        let (packets, _, _) = frame.columns();
        if let Some(full) = packets.iter_mut().position(|packet| !packet.put_link_in_headroom(header)) {
            // As above; each gets its mark again.
            packets[..full].iter_mut().for_each(|packet| _ = packet.pull(LEN));
            return self.retain(|packet| packet.put_link(header), refused);
        }
        frame.due.set(frame.due.get().without(Due::FRAMED));
        frame.move_front(LEN as u16);
        frame.mac = 0;
    }
}

/// Notes that the first `len` bytes are to be taken off the front of each packet: false if a packet has fewer, or packets are not
/// as a driver left them.
#[inline(always)]
fn note_stripped(frame: &mut Frame, len: usize) -> bool {
    let due = frame.due.get();
    let Ok(front) = u16::try_from(usize::from(frame.stripped()).saturating_add(len)) else { return false };
    let too_short = |packets: &[Packet]| packets.iter().filter(|p| p.len() < usize::from(front)).count();
    if !due.is_received() || too_short(frame.as_they_are()) > 0 {
        return false;
    }
    frame.front = front;
    frame.due.set(due.without(Due::FRAMED).and(Due::STRIP));
    // It fits: `front` is no less.
    frame.move_front((len as u16).wrapping_neg());
    true
}

/// Writes a header over the last bytes that are to be taken off the front of each packet, which are to stay then: false, and
/// nothing that counts is changed, if there are fewer.
#[inline(always)]
fn replace_stripped<const LEN: usize>(frame: &mut Frame, header: &[u8; LEN]) -> bool {
    let Some(front) = usize::from(frame.stripped()).checked_sub(LEN) else { return false };
    let pieces = Overlapping::of(header);
    let mut put = |packet: &mut Packet| packet.head_mut(front).map(|to| pieces.write(to)).is_some();
    if !frame.columns().0.iter_mut().all(&mut put) {
        return false;
    }
    let due = frame.due.get().without(Due::FRAMED);
    frame.due.set(if front == 0 { due.without(Due::STRIP) } else { due });
    frame.front = front as u16;
    frame.move_front(LEN as u16);
    frame.mac = 0;
    true
}

/// A short header in two pieces that fit registers and overlap, or as it is if it is no such one.
#[derive(Clone, Copy)]
struct Overlapping<const LEN: usize> {
    whole: [u8; LEN],
    first: [u8; 8],
    last: [u8; 8],
}

impl<const LEN: usize> Overlapping<LEN> {
    const FITS: bool = 8 <= LEN && LEN <= 16;

    #[inline(always)]
    fn of(header: &[u8; LEN]) -> Overlapping<LEN> {
        let first = header.first_chunk().copied().unwrap_or_default();
        let last = header.last_chunk().copied().unwrap_or_default();
        Overlapping { whole: *header, first, last }
    }

    #[inline(always)]
    fn write(self, to: &mut [u8; LEN]) {
        if !Self::FITS {
            *to = self.whole;
            return;
        }
        if let Some(to) = to.first_chunk_mut() {
            *to = self.first;
        }
        if let Some(to) = to.last_chunk_mut() {
            *to = self.last;
        }
    }
}

/// Notes the packets for which `usual` says false.
#[inline(always)]
fn sift(frame: &mut Frame, reasons: &mut Reasons<()>, mut usual: impl FnMut(&mut Packet) -> bool) {
    let (packets, _, _) = frame.columns();
    for packet in packets {
        if !usual(packet) {
            reasons.note(packet, ());
        }
    }
}

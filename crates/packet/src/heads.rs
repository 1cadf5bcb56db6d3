//! Changing the headers of all packets of a batch, without putting in order first what is due: where network headers were found
//! ([`Due::HEADERS`]) says enough.

use crate::batch::Batch;
use crate::due::Due;
use crate::frame::Frame;
use crate::packet::Packet;
use crate::sift::Reasons;
use crate::wire::ethernet::{HEADER_LEN, put_header};

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
    pub fn put_link(&mut self, header: &[u8; HEADER_LEN], refused: impl FnMut(Packet)) {
        let Some(frame) = self.0.as_mut() else { return };
        if replace_stripped(frame, header) {
            return;
        }
        frame.strip();
        let (packets, _, _) = frame.columns();
        if let Some(full) = packets.iter_mut().position(|packet| !packet.put_link_in_headroom(header)) {
            // As above; each gets its mark again.
            packets[..full].iter_mut().for_each(|packet| _ = packet.pull(HEADER_LEN));
            return self.retain(|packet| packet.put_link(header), refused);
        }
        frame.due.set(frame.due.get().without(Due::FRAMED));
        frame.move_front(HEADER_LEN as u16);
        frame.mac = 0;
    }
}

/// Notes that the first `len` bytes are to be taken off the front of each packet: false if a packet has fewer, or packets are not
/// as a driver left them.
#[inline(always)]
fn note_stripped(frame: &mut Frame, len: usize) -> bool {
    let due = frame.due.get();
    let Ok(front) = u16::try_from(usize::from(frame.stripped()).saturating_add(len)) else { return false };
    // Counted, as that takes no branch for each.
    if !due.is_received() || frame.as_they_are().iter().filter(|p| p.len() < front.into()).count() > 0 {
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
fn replace_stripped(frame: &mut Frame, header: &[u8; HEADER_LEN]) -> bool {
    let Some(front) = usize::from(frame.stripped()).checked_sub(HEADER_LEN) else { return false };
    // A copy, which stays in registers.
    let header = *header;
    let mut put = |packet: &mut Packet| packet.head_mut(front).map(|to| put_header(to, &header)).is_some();
    if !frame.columns().0.iter_mut().all(&mut put) {
        return false;
    }
    let due = frame.due.get().without(Due::FRAMED);
    frame.due.set(if front == 0 { due.without(Due::STRIP) } else { due });
    frame.front = front as u16;
    frame.move_front(HEADER_LEN as u16);
    frame.mac = 0;
    true
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

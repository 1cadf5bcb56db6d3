//! What most packets need that were routed here: their lane, a look whether it has room, and its header.

use super::adjacencies::Network;
use super::outlet::length;
use super::switch::{Destination, NONE};
use cluster::header::{LEN, Template};
use cluster::path::Run;
use packet::Packet;

/// Of [`Lane::gone`]: there is no room.
pub const FULL: u32 = 1 << 31;

/// A way: what packets by it need, and what is known of it beyond that; all in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub struct Lane {
    /// Goes up by the bytes of each packet, and has the bit of [`FULL`] from when there is no more room.
    pub gone: u32,
    /// The number of the next packet, one more for each that has gone.
    pub next: u32,
    /// All but adjacency, port and number.
    pub header: Template,
    pub outlet: u16,
    /// Leads to another node, so that packets need that header.
    pub is_remote: bool,
    /// What makes, by XOR, of the first octet of a frame on the direct way that of one by this lane.
    pub turn: u8,
    /// What `gone` and `next` were when all before had been counted.
    pub counted: (u32, u32),
    pub run: Option<Run>,
    /// The output node.
    pub node: u16,
    /// To a relay.
    pub is_relayed: bool,
    /// It may have room.
    pub is_used: bool,
}

/// What says where packets go.
pub struct Maps<'a> {
    pub network: Network<'a>,
    /// By output of adjacencies.
    pub lines: &'a [Destination],
    pub lanes: &'a mut [Lane],
    /// Lanes below lead out by lines of this node.
    pub own_lines: u16,
    /// Lanes of each output node.
    pub paths: u16,
}

impl Lane {
    /// Leads nowhere.
    pub fn nowhere() -> Lane {
        Lane {
            gone: FULL,
            next: 0,
            header: Template::default(),
            outlet: NONE,
            is_remote: false,
            turn: 0,
            counted: (0, 0),
            run: None,
            node: 0,
            is_relayed: false,
            is_used: false,
        }
    }

    /// Lets a packet of this length go, if there is room; its number.
    #[inline(always)]
    fn take(&mut self, length: u32) -> Option<u32> {
        if self.gone & FULL != 0 {
            return None;
        }
        let number = self.next;
        self.gone += length;
        self.next = number.wrapping_add(1);
        Some(number)
    }

    /// Gives a frame its header: adjacency, port, number.
    #[inline(always)]
    fn write(&self, packet: &mut Packet, (adjacency, port, sequence): (u32, u8, u32)) {
        if let Some(head) = packet.first_mut::<LEN>().filter(|_| self.is_remote) {
            *head = self.header.to_port(port).bytes(adjacency, sequence);
        }
    }

    /// Gives a frame that has the header for the direct way what it lacks. `MIXED`: some lanes lead directly and others not, in no
    /// order that could be guessed.
    #[inline(always)]
    fn complete<const MIXED: bool, const NUMBERED: bool>(&self, packet: &mut Packet, sequence: u32) {
        let is_complete = if NUMBERED { !self.is_remote } else { self.turn == 0 };
        if is_complete && !MIXED {
            return;
        }
        if let Some([first, _, _, _, _, _, _, _, end @ ..]) = packet.first_mut::<LEN>() {
            *first ^= self.turn;
            if NUMBERED {
                *end = self.header.end(sequence);
            }
        }
    }
}

/// Lets packets go by their lanes, up to the first that is not of this network protocol or whose lane is not known or has no
/// room. How many went. `tied`: the paths of their flowlets if these matter; `bins`: their outlets. `FRAMED`: all are of this
/// network protocol and begin as its adjacencies say ([`super::frames`]).
#[inline(never)]
pub fn pass<const TIED: bool, const NUMBERED: bool, const FRAMED: bool>(
    (packets, next_hops): (&mut [Packet], &[u32]),
    tied: &[u16],
    bins: &mut [u16],
    maps: &mut Maps<'_>,
) -> usize {
    let Maps { network, lines, lanes, own_lines, paths } = maps;
    let (network, lines, lanes, own_lines) = (*network, *lines, &mut **lanes, u32::from(*own_lines));
    let all = packets.len();
    let (bins, tied) = (&mut bins[..all], if TIED { &tied[..all] } else { &[] });
    for (gone, ((packet, &number), bin)) in packets.iter_mut().zip(next_hops).zip(bins).enumerate() {
        let length = length(packet);
        let adjacency = match FRAMED {
            true => network.at(number as usize),
            false => packet.head(0).and_then(|head| network.get(head, number as usize)),
        };
        let Some(adjacency) = adjacency else { return gone };
        let Some(to) = lines.get(usize::from(adjacency.output)) else { return gone };
        let mut lane = to.lane;
        if TIED && lane >= own_lines {
            let path = tied[gone];
            if path >= *paths {
                return gone;
            }
            lane += u32::from(path);
        }
        let Some(lane) = lanes.get_mut(lane as usize) else { return gone };
        let Some(sequence) = lane.take(length) else { return gone };
        match FRAMED {
            true => lane.complete::<TIED, NUMBERED>(packet, sequence),
            false => lane.write(packet, (number, to.port, if NUMBERED { sequence } else { 0 })),
        }
        *bin = lane.outlet;
    }
    all
}

//! What most packets need that were routed here: their lane, a look whether it has room, and its header.

use super::outlet::length;
use super::switch::{Destination, NONE, Network};
use cluster::header::{LEN, Template};
use packet::Packet;
use packet::wire::ethernet::HEADER_LEN;

/// Of [`Lane::gone`]: there is no room.
pub const FULL: u32 = 1 << 31;

/// What packets by one way need.
#[derive(Debug, Clone, Copy)]
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
        Lane { gone: FULL, next: 0, header: Template::default(), outlet: NONE, is_remote: false }
    }

    /// Lets a packet go, if there is room: adjacency, port, length.
    #[inline(always)]
    fn take<const NUMBERED: bool>(
        &mut self,
        head: &mut [u8; HEADER_LEN],
        (number, port, length): (u32, u8, u32),
    ) -> bool {
        if self.gone & FULL != 0 {
            return false;
        }
        let sequence = if NUMBERED { self.next } else { 0 };
        self.gone += length;
        self.next = self.next.wrapping_add(1);
        if self.is_remote {
            head[..LEN].copy_from_slice(&self.header.to_port(port).bytes(number, sequence));
        }
        true
    }
}

/// Lets packets go by their lanes, up to the first that is not of this network protocol or whose lane is not known or has no
/// room. How many went. `tied`: the paths of their flowlets if these matter; `bins`: their outlets.
#[inline(never)]
pub fn pass<const TIED: bool, const NUMBERED: bool>(
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
        let Some(head) = packet.data_mut().first_chunk_mut::<HEADER_LEN>() else { return gone };
        let Some(adjacency) = network.get(head, number as usize) else { return gone };
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
        if !lane.take::<NUMBERED>(head, (number, to.port, length)) {
            return gone;
        }
        *bin = lane.outlet;
    }
    all
}

//! Tags of frames that leave by VLANs on the lines of this node.
//!
//! Between nodes such packets are as all others: their adjacency says the interface, and the output node knows its tags.

use super::losses::{NO_ROOM, STALE};
use super::switch::Switch;
use cluster::header::LEN;
use fib::Adjacency;
use graph::{Cx, Loss};
use packet::Packet;

impl Switch {
    /// Gives a frame, of which the EtherType is right, the addresses and the tags of its next hop, and counts it.
    #[cold]
    pub(super) fn put_tags(
        &self,
        packet: &mut Packet,
        adjacency: &Adjacency,
        cx: &Cx<'_>,
    ) -> Result<(), Loss> {
        let map = self.shared.interfaces.as_ref().map(|interfaces| interfaces.read(cx.reader));
        // Between the removal of a VLAN and that of its neighbours they are as good as unknown.
        let interface = map.and_then(|map| map.get(adjacency.interface().into())).ok_or(STALE)?;
        let tags = interface.tags;
        if !packet.push(tags.len()) {
            return Err(NO_ROOM);
        }
        let head = packet.data_mut().get_mut(..LEN + tags.len()).ok_or(NO_ROOM)?;
        let (addresses, between) = head.split_at_mut(LEN);
        addresses.copy_from_slice(&adjacency.header[..LEN]);
        between.copy_from_slice(tags.bytes());
        packet.set_mac_offset(0);
        if let Some(tally) = interface.counts.sent.iter().nth(cx.worker) {
            tally.add(1, packet.len() as u64);
        }
        Ok(())
    }
}

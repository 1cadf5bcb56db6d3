//! What a change of a table of neighbours asks its caller to do.

use packet::Packet;
use packet::wire::ethernet::Mac;

/// Why a packet was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Too many packets wait.
    Overflow,
    /// No answer came in time.
    Timeout,
    /// The address was removed by hand.
    Removed,
}

/// What a change of the table asks its caller to do.
#[derive(Debug)]
pub struct Effects<K> {
    /// Packets to be sent to these Ethernet addresses, in order.
    pub sends: Vec<(Mac, Packet)>,
    /// Addresses to ask for.
    pub queries: Vec<K>,
    /// Packets to lose.
    pub lost: Vec<(Packet, Reason)>,
}

impl<K> Default for Effects<K> {
    fn default() -> Effects<K> {
        Effects { sends: Vec::new(), queries: Vec::new(), lost: Vec::new() }
    }
}

impl<K> Effects<K> {
    /// Adds others, to be carried out after these.
    pub fn append(&mut self, mut other: Effects<K>) {
        self.sends.append(&mut other.sends);
        self.queries.append(&mut other.queries);
        self.lost.append(&mut other.lost);
    }

    /// Its packets, however they were to end.
    pub fn into_packets(self) -> impl Iterator<Item = Packet> {
        let sends = self.sends.into_iter().map(|(_, packet)| packet);
        sends.chain(self.lost.into_iter().map(|(packet, _)| packet))
    }
}

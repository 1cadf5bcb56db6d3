//! Packets that wait to learn their neighbour's Ethernet address.

use super::neighbour_map::Key;
use graph::Nanos;
use packet::Packet;
use std::collections::{HashMap, VecDeque};

/// Stale items that the order may hold beside as many as there are live ones.
const SLACK: usize = 64;

/// Packets by the address that they wait for, and in the order in which they came.
#[derive(Debug)]
pub struct Waiting<K> {
    /// Packets with their numbers; these ascend.
    queues: HashMap<K, VecDeque<(u64, Packet)>>,
    /// Oldest first: since when, for which address, number. An item whose packet has gone is stale, and skipped when it
    /// comes to the front.
    order: VecDeque<(Nanos, K, u64)>,
    len: usize,
    numbered: u64,
}

impl<K> Default for Waiting<K> {
    fn default() -> Waiting<K> {
        Waiting { queues: HashMap::new(), order: VecDeque::new(), len: 0, numbered: 0 }
    }
}

impl<K: Key> Waiting<K> {
    /// Packets that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Packets that wait for one address.
    pub fn len_of(&self, ip: K) -> usize {
        self.queues.get(&ip).map_or(0, VecDeque::len)
    }

    /// Lets a packet wait, behind those that do.
    pub fn push(&mut self, ip: K, packet: Packet, now: Nanos) {
        self.numbered += 1;
        self.queues.entry(ip).or_default().push_back((self.numbered, packet));
        self.order.push_back((now, ip, self.numbered));
        self.len += 1;
        if self.order.len() > 2 * self.len + SLACK {
            let Waiting { order, queues, .. } = self;
            order.retain(|(_, ip, number)| holds(queues, *ip, *number));
        }
    }

    /// Takes out the packet that has waited longest for an address.
    pub fn pop(&mut self, ip: K) -> Option<Packet> {
        let queue = self.queues.get_mut(&ip)?;
        let (_, packet) = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&ip);
        }
        self.len -= 1;
        Some(packet)
    }

    /// Since when the packet has waited that has waited longest, and for which address.
    pub fn oldest(&mut self) -> Option<(Nanos, K)> {
        while let Some(&(since, ip, number)) = self.order.front() {
            if holds(&self.queues, ip, number) {
                return Some((since, ip));
            }
            self.order.pop_front();
        }
        None
    }

    /// Takes out all packets that wait for an address.
    pub fn take(&mut self, ip: K) -> impl Iterator<Item = Packet> + use<K> {
        let queue = self.queues.remove(&ip).unwrap_or_default();
        self.len -= queue.len();
        queue.into_iter().map(|(_, packet)| packet)
    }

    /// Takes out all packets.
    pub fn take_all(&mut self) -> impl Iterator<Item = Packet> + use<K> {
        std::mem::take(self).queues.into_values().flatten().map(|(_, packet)| packet)
    }
}

/// True if this packet still waits.
fn holds<K: Key>(queues: &HashMap<K, VecDeque<(u64, Packet)>>, ip: K, number: u64) -> bool {
    // Packets leave their queue in the order of their numbers.
    queues.get(&ip).and_then(VecDeque::front).is_some_and(|(first, _)| *first <= number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Pool;

    #[test]
    fn by_address_and_by_age() {
        let pool = Pool::heap(10, 200);
        let mut w = Waiting::<u32>::default();
        for (n, ip) in [(1, 7), (2, 8), (3, 7), (4, 9), (5, 7)] {
            w.push(ip, pool.packet(&[n]).unwrap(), u64::from(n) * 10);
        }
        let number = |packet: Packet| {
            let n = packet.data()[0];
            packet.free();
            n
        };
        assert_eq!((w.len(), w.len_of(7), w.len_of(1), w.oldest()), (5, 3, 0, Some((10, 7))));
        assert_eq!(w.pop(7).map(number), Some(1));
        assert_eq!(w.oldest(), Some((20, 8)));
        assert_eq!(w.take(8).map(number).collect::<Vec<_>>(), [2]);
        assert_eq!((w.oldest(), w.pop(8).map(number)), (Some((30, 7)), None));
        assert_eq!(w.take(7).map(number).collect::<Vec<_>>(), [3, 5]);
        assert_eq!(w.oldest(), Some((40, 9)));
        assert_eq!((w.take_all().map(number).collect::<Vec<_>>(), w.len(), w.oldest()), (vec![4], 0, None));
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn the_order_does_not_grow_without_bound() {
        let pool = Pool::heap(10, 200);
        let mut w = Waiting::<u32>::default();
        w.push(99, pool.packet(&[0]).unwrap(), 0);
        for i in 0..1000 {
            w.push(1, pool.packet(&[0]).unwrap(), i);
            w.take(1).for_each(Packet::free);
        }
        assert!(w.order.len() <= 2 + SLACK, "{}", w.order.len());
        w.take_all().for_each(Packet::free);
    }
}

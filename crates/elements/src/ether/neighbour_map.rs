//! A map from IP to Ethernet addresses that workers read without locks.
//!
//! It consists of small open-addressing tables. A change copies one of them, so its cost stays bounded by a fraction of
//! the whole, and readers never see a half-made change.

use epoch::{Reader, Table};
use graph::{FromArg, Nanos};
use packet::wire::ethernet::Mac;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Tables; a power of two.
const SHARDS: usize = 64;

/// An IP address as a number in host order; the default, 0, is no host's.
pub trait Key: Copy + Debug + Default + Eq + Hash + Ord + Send + Sync + 'static {
    /// The address as users write it.
    type Ip: FromArg + Display;

    /// Bits of the address, mixed so that the high ones choose the shard and others the slot.
    fn mix(self) -> u64;
    /// The address as users write it.
    fn ip(self) -> Self::Ip;
    /// The number of an address.
    fn from_ip(ip: Self::Ip) -> Self;
}

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl Key for u32 {
    type Ip = Ipv4Addr;

    #[inline]
    fn mix(self) -> u64 {
        u64::from(self).wrapping_mul(MULTIPLIER)
    }

    fn ip(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self)
    }

    fn from_ip(ip: Ipv4Addr) -> u32 {
        ip.to_bits()
    }
}

impl Key for u128 {
    type Ip = Ipv6Addr;

    #[inline]
    fn mix(self) -> u64 {
        let high = ((self >> 64) as u64).wrapping_mul(MULTIPLIER);
        (self as u64 ^ high.rotate_left(32)).wrapping_mul(MULTIPLIER)
    }

    fn ip(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self)
    }

    fn from_ip(ip: Ipv6Addr) -> u128 {
        ip.to_bits()
    }
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its Ethernet address.
    pub mac: Mac,
    /// When there was news of it last.
    pub updated: Nanos,
    /// From when on whoever uses it has to look closer: it has to be polled or forgotten.
    pub attention: Nanos,
}

#[derive(Debug, Default)]
struct Slot<K> {
    /// 0 = free: no neighbour has the address 0.
    ip: K,
    mac: Mac,
    updated: Nanos,
    attention: AtomicU64,
}

impl<K: Key> Clone for Slot<K> {
    fn clone(&self) -> Slot<K> {
        Slot { attention: AtomicU64::new(self.attention.load(Relaxed)), ..*self }
    }
}

/// One open-addressing table; a power of two of slots, at most half of them taken, or no slots.
#[derive(Clone, Debug, Default)]
struct Shard<K: Key> {
    slots: Vec<Slot<K>>,
    len: usize,
}

#[inline]
fn first_slot<K: Key>(ip: K) -> usize {
    (ip.mix() >> 24) as usize & 0xffff_ffff
}

impl<K: Key> Shard<K> {
    #[inline]
    fn find(&self, ip: K) -> Option<&Slot<K>> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = first_slot(ip);
        loop {
            // Half of the slots are free, so the search ends.
            let slot = self.slots.get(at & mask)?;
            if slot.ip == ip {
                return Some(slot);
            }
            if slot.ip == K::default() {
                return None;
            }
            at = at.wrapping_add(1);
        }
    }

    /// Puts a slot in without looking whether its address is there already.
    fn place(&mut self, new: Slot<K>) {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = first_slot(new.ip);
        while let Some(slot) = self.slots.get_mut(at & mask) {
            if slot.ip == K::default() {
                *slot = new;
                self.len += 1;
                return;
            }
            at = at.wrapping_add(1);
        }
    }

    /// A copy without `ip`, with room for one more.
    fn without(&self, ip: K) -> Shard<K> {
        let size = (2 * (self.len + 1)).next_power_of_two().max(4);
        let mut new = Shard { slots: vec![Slot::default(); size], len: 0 };
        self.slots.iter().filter(|s| s.ip != K::default() && s.ip != ip).for_each(|s| new.place(s.clone()));
        new
    }
}

/// See the module. Writers must take turns: the caller holds a lock.
#[derive(Debug)]
pub struct NeighbourMap<K: Key> {
    shards: [Table<Shard<K>>; SHARDS],
    len: AtomicUsize,
}

impl<K: Key> Default for NeighbourMap<K> {
    fn default() -> NeighbourMap<K> {
        NeighbourMap { shards: std::array::from_fn(|_| Table::default()), len: AtomicUsize::new(0) }
    }
}

impl<K: Key> NeighbourMap<K> {
    #[inline]
    fn shard(&self, ip: K) -> &Table<Shard<K>> {
        &self.shards[(ip.mix() >> 58) as usize % SHARDS]
    }

    /// The Ethernet address of `ip` if it needs no attention.
    #[inline]
    pub fn fresh(&self, ip: K, now: Nanos, reader: &Reader) -> Option<Mac> {
        let slot = self.shard(ip).read(reader).find(ip)?;
        (ip != K::default() && now < slot.attention.load(Relaxed)).then_some(slot.mac)
    }

    /// What is known of an address.
    pub fn get(&self, ip: K) -> Option<Entry> {
        if ip == K::default() {
            return None;
        }
        self.shard(ip).with(|shard| shard.find(ip).map(entry))
    }

    /// Adds or replaces an entry. The address 0 is ignored.
    pub fn insert(&self, ip: K, e: Entry) {
        if ip == K::default() {
            return;
        }
        let mut added = false;
        self.shard(ip).edit(|old| {
            let mut new = old.without(ip);
            new.place(Slot { ip, mac: e.mac, updated: e.updated, attention: AtomicU64::new(e.attention) });
            added = new.len > old.len;
            new
        });
        self.len.fetch_add(usize::from(added), Relaxed);
    }

    /// Removes an entry; false if there is none.
    pub fn remove(&self, ip: K) -> bool {
        if self.get(ip).is_none() {
            return false;
        }
        self.shard(ip).edit(|old| old.without(ip));
        self.len.fetch_sub(1, Relaxed);
        true
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.shards.iter().for_each(|shard| shard.replace(Shard::default()));
        self.len.store(0, Relaxed);
    }

    /// Puts off the time from which an entry needs attention.
    pub fn set_attention(&self, ip: K, time: Nanos) {
        self.shard(ip).with(|shard| {
            if let Some(slot) = shard.find(ip) {
                slot.attention.store(time, Relaxed);
            }
        });
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// All entries, in no order.
    pub fn all(&self) -> Vec<(K, Entry)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            shard.with(|s| {
                all.extend(s.slots.iter().filter(|s| s.ip != K::default()).map(|s| (s.ip, entry(s))));
            });
        }
        all
    }
}

fn entry<K>(slot: &Slot<K>) -> Entry {
    Entry { mac: slot.mac, updated: slot.updated, attention: slot.attention.load(Relaxed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Step = (u8, u32, [u8; 6]);

    proptest! {
        #[test]
        fn like_a_map(steps in proptest::collection::vec((0..4u8, 0..200u32, any::<[u8; 6]>()), 0..400)) {
            // Addresses that fall into few shards and slots.
            is_like_a_map(&steps, |ip| ip.wrapping_mul(0x0400_0001))?;
            is_like_a_map(&steps, |ip| u128::from(ip) << (ip % 97))?;
        }
    }

    fn is_like_a_map<K: Key>(steps: &[Step], address: impl Fn(u32) -> K) -> Result<(), TestCaseError> {
        let map = NeighbourMap::default();
        let mut reader = Reader::new();
        let mut model = BTreeMap::new();
        for (i, &(what, ip, mac)) in steps.iter().enumerate() {
            let ip = address(ip);
            let entry = Entry { mac, updated: i as u64, attention: 100 };
            match what {
                0 => prop_assert_eq!(map.remove(ip), model.remove(&ip).is_some()),
                _ if ip != K::default() => {
                    map.insert(ip, entry);
                    model.insert(ip, entry);
                }
                _ => map.insert(ip, entry),
            }
            let known = model.get(&ip).copied();
            prop_assert_eq!(map.get(ip), known);
            prop_assert_eq!(map.fresh(ip, 99, &reader), known.map(|e| e.mac));
            prop_assert_eq!(map.fresh(ip, 100, &reader), None);
            prop_assert_eq!(map.len(), model.len());
            reader.quiescent();
        }
        let all: BTreeMap<K, Entry> = map.all().into_iter().collect();
        prop_assert_eq!(all, model);
        map.clear();
        prop_assert_eq!((map.len(), map.all().len()), (0, 0));
        Ok(())
    }

    #[test]
    fn attention_is_put_off_for_readers_too() {
        let (map, reader) = (NeighbourMap::<u32>::default(), Reader::new());
        map.insert(7, Entry { mac: [7; 6], updated: 1, attention: 5 });
        assert_eq!((map.fresh(7, 5, &reader), map.fresh(7, 4, &reader)), (None, Some([7; 6])));
        map.set_attention(7, 9);
        assert_eq!(map.fresh(7, 8, &reader), Some([7; 6]));
        map.insert(8, Entry { mac: [8; 6], updated: 1, attention: 5 });
        assert_eq!(map.get(7).map(|e| e.attention), Some(9));
    }
}

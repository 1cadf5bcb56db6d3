//! The trie of the RIB itself, as a table to look up in.

use epoch::{Reader, Table};

use crate::lookup::{Fib, MemoryPart};
use crate::next_hop::NextHopId;
use crate::prefix::{Address, Prefix};
use crate::rib::Rib;
use crate::structure::Structure;

/// A path-compressed binary trie. A lookup follows one pointer for each bit at which routes part; an update
/// copies only the nodes on the way to the change and shares the others with the RIB.
pub struct Radix<A> {
    trie: Table<Rib<A>>,
}

impl<A: Address> Default for Radix<A> {
    fn default() -> Self {
        Radix::new()
    }
}

impl<A: Address> Radix<A> {
    /// An empty trie.
    pub fn new() -> Radix<A> {
        Radix { trie: Table::new(Rib::new()) }
    }
}

impl<A: Address> Fib<A> for Radix<A> {
    fn lookup(&self, reader: &Reader, addr: A) -> Option<NextHopId> {
        self.trie.read(reader).lookup_hop(addr)
    }

    fn lookup_batch(&self, reader: &Reader, addrs: &[A], hops: &mut [Option<NextHopId>]) {
        let trie = self.trie.read(reader);
        for (hop, &addr) in hops.iter_mut().zip(addrs) {
            *hop = trie.lookup_hop(addr);
        }
    }

    fn update(&self, rib: &Rib<A>, _changed: &[Prefix<A>]) {
        self.trie.replace(rib.clone());
    }

    fn structure(&self) -> Option<Structure> {
        Some(Structure::Radix)
    }

    fn memory(&self) -> Vec<MemoryPart> {
        vec![MemoryPart { part: "nodes (shared with the RIB)", bytes: self.trie.with(Rib::memory_bytes) }]
    }
}

//! A list, searched from the longest prefix to the shortest.

use epoch::{Reader, Table};

use crate::lookup::{Fib, MemoryPart};
use crate::next_hop::NextHopId;
use crate::prefix::{Address, Prefix};
use crate::rib::Rib;
use crate::structure::Structure;

/// Routes in a list. Best for a handful: a lookup takes time in proportion to the number of routes, and so does
/// an update, which makes a new list.
#[derive(Default)]
pub struct LinearTable<A> {
    list: Table<Vec<(Prefix<A>, NextHopId)>>,
}

impl<A: Address> LinearTable<A> {
    /// An empty list.
    pub fn new() -> LinearTable<A> {
        LinearTable { list: Table::new(Vec::new()) }
    }
}

fn search<A: Address>(list: &[(Prefix<A>, NextHopId)], addr: A) -> Option<NextHopId> {
    list.iter().find(|(prefix, _)| prefix.contains(addr)).map(|&(_, hop)| hop)
}

impl<A: Address> Fib<A> for LinearTable<A> {
    fn lookup(&self, reader: &Reader, addr: A) -> Option<NextHopId> {
        search(self.list.read(reader), addr)
    }

    fn lookup_batch(&self, reader: &Reader, addrs: &[A], hops: &mut [Option<NextHopId>]) {
        let list = self.list.read(reader);
        for (hop, &addr) in hops.iter_mut().zip(addrs) {
            *hop = search(list, addr);
        }
    }

    fn update(&self, rib: &Rib<A>, _changed: &[Prefix<A>]) {
        let mut list: Vec<_> = rib.iter().collect();
        list.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        self.list.replace(list);
    }

    fn structure(&self) -> Option<Structure> {
        Some(Structure::Linear)
    }

    fn memory(&self) -> Vec<MemoryPart> {
        vec![self.list.with(|list| MemoryPart::of("list", list))]
    }
}

//! No structure at all.

use epoch::Reader;

use crate::lookup::{Fib, MemoryPart};
use crate::next_hop::NextHopId;
use crate::prefix::{Address, Prefix};
use crate::rib::Rib;
use crate::structure::Structure;

/// For tables that are kept and copied but not looked up in: no lookup finds anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unread;

impl<A: Address> Fib<A> for Unread {
    fn lookup(&self, _reader: &Reader, _addr: A) -> Option<NextHopId> {
        None
    }

    fn lookup_batch(&self, _reader: &Reader, addrs: &[A], hops: &mut [Option<NextHopId>]) {
        let count = addrs.len().min(hops.len());
        hops[..count].fill(None);
    }

    fn update(&self, _rib: &Rib<A>, _changed: &[Prefix<A>]) {}

    fn structure(&self) -> Option<Structure> {
        None
    }

    fn memory(&self) -> Vec<MemoryPart> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NextHop, Route, RouteChange, RouteTable};

    #[test]
    fn routes_are_kept_and_not_found() {
        let (table, reader) = (RouteTable::<u32>::new(Unread), Reader::new());
        let next_hop = NextHop { gateway: None, port: 1 };
        let route = Route { prefix: "10/8".parse().unwrap(), next_hop };
        table.apply(&[RouteChange::Add(route)]).unwrap();
        let mut hops = [NextHopId::new(7); 3];
        table.lookup_batch(&reader, &[0x0a00_0001, 0x0a00_0002], &mut hops);
        assert_eq!(hops, [None, None, NextHopId::new(7)]);
        assert_eq!((table.find(0x0a00_0001), table.lookup(&reader, 0x0a00_0001)), (Some(route), None));
    }
}

//! `ARPTable`: Ethernet addresses of neighbours, for several `ARPQuerier`s to share.
//!
//! An `ARPQuerier` has such a table of its own unless its `TABLE` names one. Packets that wait for an address leave by the
//! `ARPQuerier` that receives the reply.
//!
//! # Arguments
//! - `CAPACITY`: packets that may wait in all; 0 = no limit. Default 2048.
//! - `ENTRY_CAPACITY`: addresses, known or asked for, that are held; 0 = no limit. Default 0.
//! - `ENTRY_PACKET_CAPACITY`: packets that may wait for one address; 0 = no limit. Default 0.
//! - `TIMEOUT`: an address of which there is no news for so long is forgotten, a packet that has waited for so long is
//!   lost; 0 = never. Default 300 s.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `table` | r | a line for each address: address, 1 if known, Ethernet address, seconds since the last news |
//! | `drops` | r | packets lost that waited |
//! | `count`, `length` | r | addresses in the table, packets that wait |
//! | `insert` | w | `IP ETH`: makes an address known |
//! | `delete` | w | an address; packets that wait for it are lost |
//! | `clear` | w | forgets all addresses |
//!
//! # Example
//! Both queriers learn what one of them was told:
//! ```click
//! t :: ARPTable;
//! a :: InfiniteSource(DATA "an IP packet", LIMIT 1) -> Paint(10, 0) -> Paint(2, 3)
//!   -> q :: ARPQuerier(10.0.0.1/24, 02:00:00:00:00:01, TABLE t) -> c :: Counter -> Discard;
//! b :: InfiniteSource(DATA "an IP packet", LIMIT 1) -> Paint(10, 0) -> Paint(2, 3)
//!   -> r :: ARPQuerier(10.0.0.1/24, 02:00:00:00:00:01, TABLE t) -> c;
//! q[1] -> ARPResponder(10.0.0.0/24 02:00:00:00:00:09) -> [1] q;
//! r[1] -> ARPResponder(10.0.0.0/24 02:00:00:00:00:09) -> [1] r;
//! // c.count = 2
//! // t.drops = 0
//! // t.length = 0
//! ```

use super::neighbour_table::{NeighbourTable, limits, table_handlers};
use epoch::Count;
use graph::{Args, Class, ConfigErrors, Configure, Element, Handlers, LocalCx, Spec, State};
use std::sync::Arc;

/// See the module.
pub type ARPTable = NeighbourTable<u32>;

/// Nothing happens in the table itself while the router runs.
#[derive(Debug)]
pub struct LocalARPTable;

impl Class for ARPTable {
    const SPEC: Spec = Spec { state: State::Shared, ..Spec::new("ARPTable", "0/0", "a/a") };
    type Local = LocalARPTable;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<ARPTable, ConfigErrors> {
        let limits = limits(args);
        args.finish()?;
        Ok(ARPTable::new(limits, cx.workers))
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalARPTable {
        LocalARPTable
    }

    fn handlers(h: &mut Handlers<ARPTable>) {
        table_handlers(h, |table| table);
        h.read("drops", |t| t.drops.sum(Count::get).to_string());
    }
}

impl Element for LocalARPTable {}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab, errors};
    use packet::wire::arp::Arp;

    const CONFIG: &str = "t :: ARPTable(CAPACITY 3);
        f :: Feed -> q :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1, TABLE t) -> k :: Keep; Idle -> [1] q;
        g :: Feed -> r :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1, TABLE t) -> l :: Keep; replies :: Feed -> [1] r;
        q[1] -> asked :: Keep; r[1] -> Discard;";

    fn packet(number: u8, last: u8) -> Frame {
        Frame::new(&[0x45, number]).to([10, 0, 0, last])
    }

    fn reply(last: u8) -> Frame {
        let (sender_mac, target_mac) = ([2, 0, 0, 0, 0, last], [2, 0, 0, 0, 0, 1]);
        let (sender_ip, target_ip) = ([10, 0, 0, last].into(), [10, 0, 0, 1].into());
        let reply = Arp { operation: 2, sender_mac, sender_ip, target_mac, target_ip };
        Frame::new(&reply.frame(target_mac))
    }

    /// The last bytes of what was kept: the numbers of the packets.
    fn numbers(lab: &Lab, keep: &str) -> Vec<u8> {
        lab.kept(keep).iter().filter_map(|f| f.bytes.last().copied()).collect()
    }

    #[test]
    fn what_one_learns_all_know() {
        let mut lab = Lab::new(CONFIG);
        lab.at(0, "f", &packet(1, 2));
        lab.at(1, "g", &packet(2, 2));
        lab.at(5, "replies", &reply(2));
        lab.at(9, "f", &packet(3, 2));
        lab.at(9, "g", &packet(4, 2));
        lab.run();
        // One query for both; what waited leaves where the reply came.
        assert_eq!((lab.kept("asked").len(), lab.0.read("r.queries")), (1, "0".to_owned()));
        assert_eq!((numbers(&lab, "k"), numbers(&lab, "l")), (vec![3], vec![1, 2, 4]));
        assert_eq!(["t.count", "q.count", "r.length"].map(|h| lab.0.read(h)), ["1", "1", "0"]);
        assert_eq!(lab.0.read("t.table"), lab.0.read("q.table"));
        lab.end();
    }

    #[test]
    fn handlers_of_the_table_let_packets_go() {
        let mut lab = Lab::new(CONFIG);
        for (n, last) in [(1, 2), (2, 3), (3, 4), (4, 5)] {
            lab.at(0, "f", &packet(n, last));
        }
        lab.at(1, "f", &packet(5, 2));
        lab.run_to(0);
        lab.0.step();
        assert_eq!(["t.length", "t.count", "t.drops"].map(|h| lab.0.read(h)), ["3", "4", "1"]);
        lab.0.write("t.insert", "10.0.0.3 2:0:0:0:0:3").unwrap();
        lab.0.write("t.delete", "10.0.0.4").unwrap();
        assert_eq!(lab.0.write("t.delete", "10.0.0.4"), Err("10.0.0.4 is not in the table".to_owned()));
        lab.0.write("t.clear", "").unwrap();
        lab.run();
        let mut sent = [numbers(&lab, "k"), numbers(&lab, "l")].concat();
        sent.sort_unstable();
        assert_eq!(sent, [2]);
        let mut lost = lab.losses();
        lost.retain(|l| !l.starts_with("q.unresolved_overflow = 1"));
        // Whichever querier is woken first carries it out; the last packet waits in vain.
        assert_eq!(lost, ["q.timeout = 1", "q.removed = 2"]);
        assert_eq!(lab.0.read("t.drops"), "4");
        lab.end();
    }

    #[test]
    fn mistakes() {
        let text = |arguments: &str| {
            errors(&format!(
                "c :: Idle; t :: ARPTable(TIMEOUT x);
                 Idle -> q :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1, {arguments}) -> Discard; Idle -> [1] q;"
            ))
        };
        let all = text("TABLE x, CAPACITY 5");
        for want in [
            "TIMEOUT: parse error",
            "TABLE: no element named 'x'",
            "CAPACITY: is for 'x' to say, whose table this is",
        ] {
            assert!(all.contains(want), "{want}\n{all}");
        }
        let config =
            "Idle -> q :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1, TABLE c) -> c :: Discard; Idle -> [1] q;";
        let text = errors(config);
        assert!(text.contains("While initializing 'q :: ARPQuerier': TABLE: not an ARPTable"), "{text}");
    }
}

//! `IPFragmenter`: cuts packets that are longer than the MTU into fragments.
//!
//! Only options with the copy bit go into later fragments; a malformed option ends the copying and does no other harm.
//! Packets must have a network header mark; bytes before it are in front of every fragment too, and do not count for
//! the MTU. Fragments have the marks and annotations of the packet.
//!
//! # Arguments
//! - `MTU`: the longest IP packet that may pass, in bytes; at least 28. Not with `ADJACENCIES`.
//! - `HONOR_DF`: false = cut packets that say "don't fragment" too; their fragments do not say it. Default true.
//! - `ADJACENCIES`: a name, as `AdjacencyRewrite` has it: the longest packet is that for the next hop that the packet was
//!   looked up for. For packets that an `AdjacencyRewrite` found too long, to which fragments then go back; those whose TTL
//!   is 1 or 0 are not cut.
//! - `VERBOSE`: true = a line on the standard error output for every packet that may not be cut. Default false.
//!
//! # Ports
//! One push input; packets and fragments leave by push output 0. Too long packets that say "don't fragment", or are not cut
//! because of their TTL, leave by push output 1 if that is connected.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `drops` | r | packets that were too long and might not be cut |
//! | `fragments` | r | fragments made |
//!
//! # Losses
//! - `dont_fragment`: the packet is too long and says "don't fragment".
//! - `no_header`: it is too long and has no sound IP header at its mark, or one that leaves no room for payload.
//! - `no_buffer`: there was no buffer for a fragment; the whole packet is lost.
//! - `bad_offset`: it is too long, and a fragment itself whose end lies behind the longest packet that there can be:
//!   the offset field cannot say where its pieces belong.
//! - `expired`: it is too long, and its TTL is 1 or 0; only with `ADJACENCIES`.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000064 00000000 40110000 0a000001 0b000002>, LENGTH 100, LIMIT 2)
//!   -> MarkIPHeader -> f :: IPFragmenter(68) -> c :: Counter -> Discard;
//! // c.count = 4
//! // c.byte_count = 240
//! // f.fragments = 4
//! ```

use super::fragments::{Cut, Header};
use epoch::{Count, PerWorker};
use fib::{Adjacencies, Forwarding};
use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, LocalCx, Loss, Out, Spec};
use io::say;
use packet::wire::ipv4::Ipv4;
use packet::{Batch, Packet, Pool};
use std::sync::Arc;

const DONT_FRAGMENT: Loss = Loss(0);
const NO_HEADER: Loss = Loss(1);
const NO_BUFFER: Loss = Loss(2);
const BAD_OFFSET: Loss = Loss(3);
const EXPIRED: Loss = Loss(4);
/// Where the last byte of a packet can be.
const MAX_PACKET: usize = 65_535;
/// Room for a header and eight bytes.
const MIN_MTU: usize = 28;

/// See the module.
#[derive(Debug)]
pub struct IPFragmenter {
    longest: Longest,
    honor_df: bool,
    verbose: bool,
    name: String,
    counts: PerWorker<[Count; 2]>,
}

/// What the longest packets depend on.
#[derive(Debug)]
enum Longest {
    Nothing(usize),
    NextHop(Arc<Adjacencies>),
}

/// The same at one moment.
#[derive(Clone, Copy)]
enum LongestNow<'a> {
    Nothing(usize),
    NextHop(&'a Forwarding),
}

impl LongestNow<'_> {
    /// The longest packet that may pass in place of this one.
    #[inline]
    fn of(self, packet: &Packet) -> usize {
        match self {
            LongestNow::Nothing(mtu) => mtu,
            // Without a neighbour it is nobody's business yet how long it is.
            LongestNow::NextHop(all) => all.longest(packet.next_hop()).map_or(MAX_PACKET, usize::from),
        }
    }

    #[inline]
    fn fits(self, packet: &Packet) -> bool {
        let mtu = self.of(packet);
        match self {
            LongestNow::Nothing(_) => packet.len() <= mtu || is_short(packet, mtu),
            // As `AdjacencyRewrite` sees it, to which what fits goes back: bytes behind the IP packet count.
            LongestNow::NextHop(_) => packet.network().is_none_or(|bytes| bytes.len() <= mtu),
        }
    }
}

/// Places in the counts.
const DROPS: usize = 0;
const FRAGMENTS: usize = 1;

/// One worker's part of [`IPFragmenter`].
#[derive(Debug)]
pub struct LocalIPFragmenter {
    shared: Arc<IPFragmenter>,
    worker: usize,
}

impl Class for IPFragmenter {
    const SPEC: Spec = Spec {
        losses: &["dont_fragment", "no_header", "no_buffer", "bad_offset", "expired"],
        ..Spec::new("IPFragmenter", "1/1-2", "h/h")
    };
    type Local = LocalIPFragmenter;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<IPFragmenter, ConfigErrors> {
        let longest = match args.keyword_if_given::<String>("ADJACENCIES") {
            Some(name) => Longest::NextHop(cx.tables.get_or(&name, Adjacencies::default)),
            None => Longest::Nothing(args.required("MTU")),
        };
        let honor_df = args.optional("HONOR_DF", true);
        let verbose = args.optional("VERBOSE", false);
        if matches!(longest, Longest::Nothing(mtu) if mtu < MIN_MTU) {
            args.error("MTU", format!("out of range, bound {MIN_MTU}"));
        }
        args.finish()?;
        let name = cx.name.to_owned();
        Ok(IPFragmenter { longest, honor_df, verbose, name, counts: PerWorker::new(cx.workers) })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalIPFragmenter {
        LocalIPFragmenter { shared: self.clone(), worker: cx.worker }
    }

    fn handlers(h: &mut Handlers<IPFragmenter>) {
        h.read("drops", |f| f.counts.sum(|c| c[DROPS].get()).to_string());
        h.read("fragments", |f| f.counts.sum(|c| c[FRAGMENTS].get()).to_string());
    }
}

/// One fragment in a packet of its own: what stands before the IP header of `whole`, then the header, then payload.
fn fragment(whole: &Packet, offset: usize, header: &Header, payload: &[u8], pool: &Pool) -> Option<Packet> {
    let mut packet = pool.alloc()?;
    let front = whole.data().get(..offset).unwrap_or_default();
    if !(packet.append(front) && packet.append(header.bytes()) && packet.append(payload)) {
        packet.free();
        return None;
    }
    packet.copy_annos(whole);
    whole.mac_offset().into_iter().for_each(|mac| packet.set_mac_offset(mac));
    packet.set_network_offset(offset);
    packet.set_transport_offset(offset + header.bytes().len());
    Some(packet)
}

impl LocalIPFragmenter {
    fn longest<'a>(&'a self, cx: &'a Cx<'_>) -> LongestNow<'a> {
        match &self.shared.longest {
            Longest::Nothing(mtu) => LongestNow::Nothing(*mtu),
            Longest::NextHop(all) => LongestNow::NextHop(all.read(cx.reader)),
        }
    }

    /// Cuts a packet that does not fit; the fragments go to `into`, which is sent on whenever it is full.
    fn cut(&self, packet: Packet, mtu: usize, into: &mut Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let counts = &self.shared.counts[self.worker];
        let offset = packet.network_offset().unwrap_or(0);
        let Some(ip) = packet.network().and_then(Ipv4::check) else { return out.lose(packet, NO_HEADER) };
        // An answer is to quote the packet, and not pieces of it.
        if matches!(self.shared.longest, Longest::NextHop(_)) && ip.ttl() <= 1 {
            return out.reject(1, packet, EXPIRED);
        }
        if self.shared.honor_df && ip.dont_fragment() {
            counts[DROPS].add(1);
            if self.shared.verbose {
                let (name, length) = (&self.shared.name, ip.total_len());
                say!("{name}: packet of {length} bytes must not be fragmented");
            }
            return out.reject(1, packet, DONT_FRAGMENT);
        }
        if ip.fragment_offset() + ip.payload().len() > MAX_PACKET {
            return out.lose(packet, BAD_OFFSET);
        }
        let Some(cut) = packet.network().and_then(|bytes| Cut::new(bytes, mtu)) else {
            return out.lose(packet, NO_HEADER);
        };
        let mut pieces = Vec::new();
        for (header, range) in cut.pieces() {
            let payload = ip.payload().get(range).unwrap_or_default();
            let Some(piece) = fragment(&packet, offset, &header, payload, cx.pool) else {
                pieces.into_iter().for_each(Packet::free);
                return out.lose(packet, NO_BUFFER);
            };
            pieces.push(piece);
        }
        counts[FRAGMENTS].add(pieces.len() as u64);
        out.made(pieces.len());
        for piece in pieces {
            append(into, piece, out);
        }
        out.consume(Batch::one(packet));
    }
}

/// For packets with something before or behind the IP packet.
fn is_short(packet: &Packet, mtu: usize) -> bool {
    let Some(bytes) = packet.network() else { return false };
    bytes.len() <= mtu || Ipv4::check(bytes).is_some_and(|ip| usize::from(ip.total_len()) <= mtu)
}

/// Appends to a batch; a full one is sent on first.
fn append(batch: &mut Batch, packet: Packet, out: &mut Out<'_>) {
    if batch.room() == 0 {
        out.emit(0, std::mem::take(batch));
    }
    batch.push(packet);
}

impl Element for LocalIPFragmenter {
    fn push(&mut self, _: usize, batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let longest = self.longest(cx);
        if batch.iter().all(|packet| longest.fits(packet)) {
            return out.emit(0, batch);
        }
        let mut ready = Batch::empty();
        for packet in batch {
            if longest.fits(&packet) {
                append(&mut ready, packet, out);
            } else {
                let mtu = longest.of(&packet);
                self.cut(packet, mtu, &mut ready, cx, out);
            }
        }
        out.emit(0, ready);
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Bench, Setup};
    use fib::{
        Adjacencies, Adjacency, AdjacencyChanges, Dir24_8, NextHop, Prefix, Route, RouteChange, RouteTable,
    };

    /// Runs `n` packets of `length` bytes with these flags through a fragmenter.
    fn run(fragmenter: &str, length: u16, flags: &str, more: &str) -> Bench {
        let config = format!(
            "InfiniteSource(DATA \\<45 00 {length:04x} 0001 {flags} 40110000 0a000001 0b000002>, LENGTH {length}, LIMIT 3)
               -> MarkIPHeader -> f :: IPFragmenter({fragmenter}) -> c :: Counter -> Discard; {more}"
        );
        let mut bench = Bench::new(&config, &Setup::default()).unwrap();
        bench.run().unwrap();
        bench
    }

    #[test]
    fn what_ends_behind_the_longest_packet_is_not_cut() {
        // It ends at byte 65,533, and at byte 65,541.
        for (word, fragments, lost) in [("1f53", "6", &[][..]), ("1f54", "0", &["f.bad_offset = 3"])] {
            let bench = run("1400", 1401, word, "");
            let losses: Vec<String> = bench.losses().into_iter().filter(|l| !l.ends_with("= 0")).collect();
            assert_eq!(
                (bench.read("f.fragments").as_str(), losses),
                (fragments, lost.iter().map(|l| (*l).to_owned()).collect())
            );
            bench.end().unwrap();
        }
    }

    #[test]
    fn dont_fragment_is_honoured_unless_told_otherwise() {
        let bench = run("1400", 1401, "4000", "f[1] -> e :: Counter -> Discard;");
        assert_eq!(
            (bench.read("f.drops"), bench.read("e.count"), bench.read("c.count")),
            ("3".into(), "3".into(), "0".into())
        );
        bench.end().unwrap();
        let bench = run("1400", 1401, "4000", "");
        assert!(bench.losses().contains(&"f.dont_fragment = 3".to_owned()));
        bench.end().unwrap();
        let bench = run("1400, HONOR_DF false", 1401, "4000", "");
        assert_eq!(
            (bench.read("f.fragments"), bench.read("c.byte_count")),
            ("6".into(), (3 * 1421).to_string())
        );
        bench.end().unwrap();
        let bench = run("1401", 1401, "4000", "");
        assert_eq!((bench.read("f.fragments"), bench.read("c.count")), ("0".into(), "3".into()));
        bench.end().unwrap();
    }

    #[test]
    fn more_fragments_than_a_batch_holds() {
        let bench = run("28", 2020, "0000", "");
        assert_eq!((bench.read("f.fragments"), bench.read("c.count")), ("750".into(), "750".into()));
        bench.end().unwrap();
    }

    #[test]
    fn the_longest_packet_may_depend_on_the_next_hop() {
        let setup = Setup::default();
        let hop = |port| NextHop { gateway: None, port };
        let routes = setup.tables.get_or("main", || RouteTable::<u32>::new(Dir24_8::new()));
        for (net, next_hop) in [(1, hop(1)), (2, hop(2)), (3, hop(1).narrowed(600)), (4, hop(7))] {
            let prefix = Prefix::new(10 << 24 | net << 16, 16).unwrap();
            routes.apply(&[RouteChange::Set(Route { prefix, next_hop })]).unwrap();
        }
        let all = setup.tables.get_or("main", Adjacencies::default);
        let adjacency = |output: u16| (hop(output.into()), Some(Adjacency { header: [2; 14], output }));
        let adjacencies = [1, 2].map(adjacency).into();
        all.change(AdjacencyChanges { adjacencies, ..Default::default() }, &routes.next_hop_list());
        all.set_links(&[0, 1400, 1000], 0, &routes.next_hop_list());
        let source = |net: usize, flags: &str| {
            format!(
                "InfiniteSource(DATA \\<45000514 0001{flags} 40110000 0a000001 0a0{net}0002>, LENGTH 1310, LIMIT 3)
                   -> MarkIPHeader -> GetIPAddress(16) -> rt;"
            )
        };
        let sources: String =
            (1..=4).flat_map(|net| ["0000", "4000"].map(|flags| source(net, flags))).collect();
        let config = format!(
            "rt :: DirectIPLookup(TABLE main, ONE_OUTPUT true); f :: IPFragmenter(ADJACENCIES main); rt -> f;
             f[0] -> a :: AdjacencyRewrite(rt, ADJACENCIES main, TOO_LONG 3, UNRESOLVED 4);
             a[0] -> Discard; a[1] -> c1 :: Counter -> Discard; a[2] -> c2 :: Counter -> Discard;
             a[3] -> c3 :: Counter -> f; a[4] -> c4 :: Counter -> Discard; f[1] -> df :: Counter -> Discard; {sources}"
        );
        let mut bench = Bench::new(&config, &setup).unwrap();
        bench.run().unwrap();
        let read = |name: &str| bench.read(name).parse::<u32>().unwrap();
        // 1,300 bytes of IP in pieces of at most 1,000 and 600, the ten behind them cut off.
        assert_eq!(["c1.count", "c2.count", "c3.count", "c4.count"].map(read), [6 + 9, 6, 0, 6]);
        assert_eq!((read("df.count"), read("f.fragments")), (6, 6 + 9));
        bench.end().unwrap();
    }

    #[test]
    fn frames_and_unsound_packets() {
        let config = "InfiniteSource(DATA \\<ffffffff 45000030 00010000 40110000 0a000001 0b000002>, LENGTH 52, LIMIT 1)
              -> MarkIPHeader(4) -> f :: IPFragmenter(48) -> c :: Counter -> Discard;
            InfiniteSource(DATA \\<ffffffff 45000031 00010000 40110000 0a000001 0b000002>, LENGTH 60, LIMIT 1)
              -> MarkIPHeader(4) -> g :: IPFragmenter(48) -> d :: Counter -> Discard;
            InfiniteSource(DATA abc, LENGTH 60, LIMIT 1) -> h :: IPFragmenter(48) -> Discard;";
        let mut bench = Bench::new(config, &Setup::default()).unwrap();
        bench.run().unwrap();
        assert_eq!((bench.read("f.fragments"), bench.read("c.byte_count")), ("0".into(), "52".into()));
        // 4 + 20 + 24 and 4 + 20 + 5.
        assert_eq!((bench.read("g.fragments"), bench.read("d.byte_count")), ("2".into(), "77".into()));
        assert!(bench.losses().contains(&"h.no_header = 1".to_owned()));
        bench.end().unwrap();
        let error = Bench::new("Idle -> IPFragmenter(27) -> Discard;", &Setup::default()).err().unwrap();
        assert!(error.contains("MTU: out of range, bound 28"));
    }
}

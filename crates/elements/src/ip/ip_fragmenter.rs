//! `IPFragmenter`: cuts packets that are longer than the MTU into fragments.
//!
//! Only options with the copy bit go into later fragments; a malformed option ends the copying and does no other harm.
//! Packets must have a network header mark; bytes before it are in front of every fragment too, and do not count for
//! the MTU. Fragments have the marks and annotations of the packet.
//!
//! # Arguments
//! - `MTU`: the longest IP packet that may pass, in bytes; at least 28.
//! - `HONOR_DF`: false = cut packets that say "don't fragment" too; their fragments do not say it. Default true.
//! - `VERBOSE`: true = a line on the standard error output for every packet that may not be cut. Default false.
//!
//! # Ports
//! One push input; packets and fragments leave by push output 0. Too long packets that say "don't fragment" leave by
//! push output 1 if that is connected.
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
use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, LocalCx, Loss, Out, Spec};
use packet::wire::ipv4::Ipv4;
use packet::{Batch, Packet, Pool};
use std::sync::Arc;

const DONT_FRAGMENT: Loss = Loss(0);
const NO_HEADER: Loss = Loss(1);
const NO_BUFFER: Loss = Loss(2);
const BAD_OFFSET: Loss = Loss(3);
/// Where the last byte of a packet can be.
const MAX_PACKET: usize = 65_535;
/// Room for a header and eight bytes.
const MIN_MTU: usize = 28;

/// See the module.
#[derive(Debug)]
pub struct IPFragmenter {
    mtu: usize,
    honor_df: bool,
    verbose: bool,
    name: String,
    counts: PerWorker<[Count; 2]>,
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
        losses: &["dont_fragment", "no_header", "no_buffer", "bad_offset"],
        ..Spec::new("IPFragmenter", "1/1-2", "h/h")
    };
    type Local = LocalIPFragmenter;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<IPFragmenter, ConfigErrors> {
        let mtu = args.required("MTU");
        let honor_df = args.optional("HONOR_DF", true);
        let verbose = args.optional("VERBOSE", false);
        if mtu < MIN_MTU {
            args.error("MTU", format!("out of range, bound {MIN_MTU}"));
        }
        args.finish()?;
        let name = cx.name.to_owned();
        Ok(IPFragmenter { mtu, honor_df, verbose, name, counts: PerWorker::new(cx.workers) })
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
    #[inline]
    fn fits(&self, packet: &Packet) -> bool {
        let mtu = self.shared.mtu;
        packet.len() <= mtu || self.is_short(packet)
    }

    /// For packets with something before or behind the IP packet.
    fn is_short(&self, packet: &Packet) -> bool {
        let Some(bytes) = packet.network() else { return false };
        bytes.len() <= self.shared.mtu
            || Ipv4::check(bytes).is_some_and(|ip| usize::from(ip.total_len()) <= self.shared.mtu)
    }

    /// Cuts a packet that does not fit; the fragments go to `into`, which is sent on whenever it is full.
    fn cut(&self, packet: Packet, into: &mut Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let counts = &self.shared.counts[self.worker];
        let offset = packet.network_offset().unwrap_or(0);
        let Some(ip) = packet.network().and_then(Ipv4::check) else { return out.lose(packet, NO_HEADER) };
        if self.shared.honor_df && ip.dont_fragment() {
            counts[DROPS].add(1);
            if self.shared.verbose {
                let (name, length) = (&self.shared.name, ip.total_len());
                eprintln!("{name}: packet of {length} bytes must not be fragmented");
            }
            return out.reject(1, packet, DONT_FRAGMENT);
        }
        if ip.fragment_offset() + ip.payload().len() > MAX_PACKET {
            return out.lose(packet, BAD_OFFSET);
        }
        let Some(cut) = packet.network().and_then(|bytes| Cut::new(bytes, self.shared.mtu)) else {
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

/// Appends to a batch; a full one is sent on first.
fn append(batch: &mut Batch, packet: Packet, out: &mut Out<'_>) {
    if batch.room() == 0 {
        out.emit(0, std::mem::take(batch));
    }
    batch.push(packet);
}

impl Element for LocalIPFragmenter {
    fn push(&mut self, _: usize, batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        if batch.iter().all(|packet| self.fits(packet)) {
            return out.emit(0, batch);
        }
        let mut ready = Batch::empty();
        for packet in batch {
            if self.fits(&packet) {
                append(&mut ready, packet, out);
            } else {
                self.cut(packet, &mut ready, cx, out);
            }
        }
        out.emit(0, ready);
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Bench, Setup};

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

//! `CheckIPHeader`: lets only packets with a valid IPv4 header pass, and notes where it is and where it wants to go.
//!
//! The checks are those of RFC 1812 §5.2.2: enough bytes, version 4, a header length of at least 20, a total length
//! that holds the header and is there, a right checksum, and a source address that may be one. A frame longer than the
//! IP packet (Ethernet padding) is cut to it. Good packets get network and transport header marks and their destination
//! address as annotation.
//!
//! # Arguments
//! - `OFFSET`: where the IP header begins, in bytes. Default 0. A positional argument of addresses before it is `BADSRC`.
//! - `INTERFACES`: the router's own addresses with their networks, such as `10.0.1.1/24 10.0.2.1/24`. Their broadcast
//!   addresses join `BADSRC`, the addresses themselves `GOODDST`.
//! - `BADSRC`: source addresses that are not legal, with spaces between; prefixes are accepted too. Default
//!   `0.0.0.0 255.255.255.255`.
//! - `GOODDST`: destination addresses for which the source address is not checked. Default none.
//! - `BADDST`: destination addresses and prefixes that are not legal, such as `0.0.0.0/8 127.0.0.0/8`. Default none.
//! - `OWN`: a name; packets from addresses that the router itself has are not legal, as long as somebody who knows of them has set
//!   them under this name. `routebricks router` sets those of Linux in `main`. Default none.
//! - `CHECKSUM`: false = do not check the checksum. Default true.
//! - `VERBOSE`: true = a line on the standard error output for every bad packet. Default false.
//! - `DETAILS`: accepted; details are always kept.
//!
//! # Ports
//! One input; good packets leave by output 0, push or pull. Bad packets leave by push output 1 if that is connected.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `count` | r | good packets |
//! | `drops` | r | bad packets |
//! | `drop_details` | r | bad packets by reason, a line each |
//! | `reset_counts` | w | all start from 0 again |
//!
//! # Losses
//! - `short`: fewer than 20 bytes.
//! - `bad_version`: the version is not 4.
//! - `bad_header_length`: the header length is below 20.
//! - `bad_length`: the total length is below the header length, or more than what came.
//! - `bad_checksum`: the header checksum is wrong.
//! - `bad_source`: the source address is in `BADSRC`.
//! - `bad_destination`: the destination address is in `BADDST`.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 40110000 0a000001 0a000002>, LIMIT 3)
//!   -> sums :: CheckIPHeader -> Discard;
//! InfiniteSource(DATA \<45000014 00000000 40110000 0a000001 0a000002 ffff>, LIMIT 5)
//!   -> CheckIPHeader(CHECKSUM false) -> cut :: Counter -> Discard;
//! // sums.drops = 3
//! // cut.byte_count = 100
//! ```

use super::addresses::{AddressSet, Few, Interfaces, Pair, broadcast};
use super::lookup::{LooksUp, next_lookup};
use super::own_addresses::{Own, OwnAddresses};
use epoch::{Count, PerWorker};
use fib::FirstLevel;
use graph::{
    Agnostic, Args, Class, ConfigErrors, Configure, Cx, FromArg, Handlers, Initialize, LocalCx, Loss, Out,
    Simple, Spec, Text,
};
use io::say;
use packet::lanes::{Lanes, Work, widest};
use packet::wire::checksum;
use packet::wire::ipv4::{self, Ipv4, MIN_HEADER_LEN};
use packet::wire::ipv4_lanes::Ipv4Lanes;
use packet::{Batch, Headers, Heads, Packet};
use std::cell::Cell;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};

/// What may be wrong; the numbers are those of the losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Short,
    Version,
    HeaderLength,
    Length,
    Checksum,
    Source,
    Destination,
}

const FAULTS: usize = 7;
const LOSSES: [&str; FAULTS] = [
    "short",
    "bad_version",
    "bad_header_length",
    "bad_length",
    "bad_checksum",
    "bad_source",
    "bad_destination",
];
const TEXTS: [&str; FAULTS] = [
    "tiny packet",
    "bad IP version",
    "bad IP header length",
    "bad IP length",
    "bad IP checksum",
    "bad source address",
    "bad destination address",
];

/// Good packets, and bad ones by [`Fault`].
#[derive(Debug, Default)]
struct Counts {
    good: Count,
    bad: [Count; FAULTS],
}

impl epoch::Accumulate for Counts {
    fn accumulate(&self, other: &Counts) {
        self.good.accumulate(&other.good);
        self.bad.accumulate(&other.bad);
    }
}

/// See the module. `SUM` false is `CheckIPHeader2`, which never looks at the checksum.
pub struct CheckIPHeader<const SUM: bool> {
    offset: usize,
    bad_source: AddressSet,
    good_destination: AddressSet,
    bad_destination: AddressSet,
    own: Option<Arc<OwnAddresses>>,
    checksum: bool,
    verbose: bool,
    name: String,
    counts: PerWorker<Counts>,
    /// Who looks up the routes of good packets.
    lookup: OnceLock<Arc<dyn LooksUp>>,
}

/// Batches after which it is asked anew where lookups begin, which takes as long as some packets do.
const ASK_EVERY: u32 = 64;

/// One worker's part of [`CheckIPHeader`].
pub struct LocalCheckIPHeader<const SUM: bool> {
    shared: Arc<CheckIPHeader<SUM>>,
    worker: usize,
    /// Where lookups began some batches ago: only a hint, to which an old one does no harm.
    routes: Option<FirstLevel>,
    /// Batches until that is asked for again.
    until_asked: u32,
}

impl<const SUM: bool> Class for CheckIPHeader<SUM> {
    const SPEC: Spec = Spec {
        losses: &LOSSES,
        ..Spec::new(if SUM { "CheckIPHeader" } else { "CheckIPHeader2" }, "1/1-2", "a/ah")
    };
    type Local = Agnostic<LocalCheckIPHeader<SUM>>;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<Self, ConfigErrors> {
        let interfaces: Interfaces = args.keyword("INTERFACES", Interfaces::default());
        let mut good_destination = args.keyword("GOODDST", AddressSet::new());
        let bad_destination = args.keyword("BADDST", AddressSet::new());
        let own: Option<String> = args.keyword_if_given("OWN");
        let own = own.map(|name| cx.tables.get_or(&name, OwnAddresses::default));
        let checksum = args.keyword("CHECKSUM", SUM);
        let verbose = args.keyword("VERBOSE", false);
        let _: bool = args.keyword("DETAILS", false);
        let (bad_source, offset) = positional(args);
        args.finish()?;
        let mut bad_source = bad_source.unwrap_or_else(|| {
            let mut set = AddressSet::new();
            set.add_host(0);
            set.add_host(u32::MAX);
            set
        });
        for prefix in interfaces.0 {
            broadcast(prefix).into_iter().for_each(|address| bad_source.add_host(address));
            good_destination.add_host(prefix.address.to_bits());
        }
        Ok(CheckIPHeader {
            offset,
            bad_source,
            good_destination,
            bad_destination,
            own,
            checksum,
            verbose,
            name: cx.name.to_owned(),
            counts: PerWorker::new(cx.workers),
            lookup: OnceLock::new(),
        })
    }

    fn initialize(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
        if let Some(lookup) = next_lookup(cx) {
            // Initialised once, before anything asks for it.
            let _ = self.lookup.set(lookup);
        }
        Ok(())
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> Self::Local {
        let shared = self.clone();
        Agnostic(LocalCheckIPHeader { shared, worker: cx.worker, routes: None, until_asked: 0 })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("count", |c| c.counts.sum(|n| n.good.get()).to_string());
        h.read("drops", |c| c.counts.sum(|n| n.bad.iter().map(Count::get).sum()).to_string());
        h.read("drop_details", Self::details);
        h.write("reset_counts", |c, _, _| {
            c.counts.rebase();
            Ok(())
        });
    }
}

/// `BADSRC` and `OFFSET`. A positional argument that looks like addresses is `BADSRC`, before `OFFSET`.
fn positional(args: &mut Args) -> (Option<AddressSet>, usize) {
    if let Some(named) = args.keyword_if_given("BADSRC") {
        return (Some(named), args.optional("OFFSET", 0));
    }
    let Some(first) = args.optional_if_given::<Text>("OFFSET") else { return (None, 0) };
    if first.text.contains('.') {
        let set = read(args, "BADSRC", &first);
        return (Some(set), args.optional("OFFSET", 0));
    }
    (None, read(args, "OFFSET", &first))
}

fn read<T: FromArg>(args: &mut Args, name: &str, text: &Text) -> T {
    T::from_arg(text).unwrap_or_else(|e| {
        args.error_at(e.span.unwrap_or(text.span), format!("{name}: {}", e.message));
        T::placeholder()
    })
}

impl<const SUM: bool> CheckIPHeader<SUM> {
    fn details(&self) -> String {
        let mut text = String::new();
        for (i, reason) in TEXTS.iter().enumerate() {
            let n = self.counts.sum(|counts| counts.bad[i].get());
            let _ = writeln!(text, "{n:>15}  {reason}");
        }
        text
    }

    /// Where the headers of usual packets are. No packet is long enough for an offset that needs more bits.
    fn headers(&self) -> Headers {
        let network = u16::try_from(self.offset).unwrap_or(u16::MAX);
        Headers { network, transport: network.wrapping_add(MIN_HEADER_LEN as u16) }
    }

    /// The destination of the packet if it is good and as nearly all are: its header has 20 bytes, its addresses are plainly
    /// in none of the sets. Else [`check`](Self::check) knows more.
    #[inline(always)]
    fn check_usual(&self, packet: &mut Packet, offset: usize, ttls: &PlainTtls) -> Option<u32> {
        let head = packet.head::<MIN_HEADER_LEN>(offset)?;
        let (total, room) = (usize::from(Ipv4::of(head).total_len()), packet.len() - offset);
        // One comparison for both bounds: below 20 this wraps.
        let plausible = total.wrapping_sub(MIN_HEADER_LEN) <= room - MIN_HEADER_LEN;
        if head[0] != 0x45 || !plausible || self.checksum && !checksum::is_valid_20(head) {
            return None;
        }
        let (words, _) = head.as_chunks::<4>();
        if self.bad_source.may_contain(&words[3]) || self.bad_destination.may_contain(&words[4]) {
            return None;
        }
        let destination = u32::from_be_bytes(words[4]);
        ttls.look(head);
        if total != room {
            packet.truncate(offset + total);
        }
        Some(destination)
    }

    /// The same, where packets from the router's own addresses are not legal.
    #[inline(always)]
    fn check_foreign(&self, packet: &mut Packet, offset: usize, own: &Own, ttls: &PlainTtls) -> Option<u32> {
        let source: [u8; 4] = *packet.head::<MIN_HEADER_LEN>(offset)?[12..].first_chunk()?;
        if own.may_contain(u32::from_ne_bytes(source)) {
            return None;
        }
        self.check_usual(packet, offset, ttls)
    }

    /// Looks at a batch; true if all packets that were seen together have plain TTLs.
    #[inline(always)]
    fn look_at(
        &self,
        batch: &mut Batch,
        routes: Option<FirstLevel>,
        second: impl FnMut(Packet) -> Option<Packet>,
        plain: &PlainTtls,
    ) -> bool {
        let headers = self.headers();
        let one = |packet: &mut Packet, offset| self.check_usual(packet, offset, plain);
        match (self.bad_source.few(), self.bad_destination.few()) {
            (Some(sources), Some(destinations)) if self.checksum => {
                match sources.pair().filter(|_| destinations.is_empty()) {
                    Some(illegal) => widest(Look { batch, headers, illegal, routes, one, second }),
                    None => {
                        let illegal = (sources, destinations);
                        widest(Look { batch, headers, illegal, routes, one, second })
                    }
                }
            }
            _ => {
                batch.find_each_header(headers, one, second);
                true
            }
        }
    }

    /// The same, where packets from the router's own addresses are not legal.
    #[inline(never)]
    fn look_at_foreign(
        &self,
        batch: &mut Batch,
        routes: Option<FirstLevel>,
        second: impl FnMut(Packet) -> Option<Packet>,
        (own, plain): (&Own, &PlainTtls),
    ) -> bool {
        let headers = self.headers();
        let one = |packet: &mut Packet, offset| self.check_foreign(packet, offset, own, plain);
        match (self.bad_source.few(), self.bad_destination.few()) {
            (Some(sources), Some(destinations)) if self.checksum => {
                let illegal = (sources, own.few(), destinations);
                widest(Look { batch, headers, illegal, routes, one, second })
            }
            _ => {
                batch.find_each_header(headers, one, second);
                true
            }
        }
    }

    /// All checks, one after the other; marks the header and notes the destination if there is no fault.
    fn check(&self, packet: &mut Packet, own: Option<&Own>) -> Result<(), Fault> {
        let bytes = packet.data().get(self.offset..).unwrap_or(&[]);
        let ip = Ipv4::new(bytes).ok_or(Fault::Short)?;
        let (header, total) = (ip.header_len(), usize::from(ip.total_len()));
        if ip.version() != 4 {
            return Err(Fault::Version);
        }
        if header < MIN_HEADER_LEN {
            return Err(Fault::HeaderLength);
        }
        if total < header || total > bytes.len() {
            return Err(Fault::Length);
        }
        if self.checksum && !ip.checksum_is_valid() {
            return Err(Fault::Checksum);
        }
        let (source, destination) = (ip.source(), ip.destination());
        if self.bad_source.contains(source) && !self.good_destination.contains(destination) {
            return Err(Fault::Source);
        }
        if own.is_some_and(|own| own.contains(source)) {
            return Err(Fault::Source);
        }
        if self.bad_destination.contains(destination) {
            return Err(Fault::Destination);
        }
        packet.truncate(self.offset + total);
        packet.set_network_offset(self.offset);
        packet.set_transport_offset(self.offset + header);
        packet.set_dst_ip(destination);
        Ok(())
    }

    fn reject(&self, packet: Packet, fault: Fault, counts: &Counts, out: &mut Out<'_>) {
        counts.bad[fault as usize].add(1);
        if self.verbose {
            say!("{}: IP header check failed: {}", self.name, TEXTS[fault as usize]);
        }
        out.reject(1, packet, Loss(fault as u16));
    }
}

/// Which addresses are not legal.
trait Illegal: Copy {
    /// Not 0 in the lanes of packets that have such addresses.
    fn lanes<V: Lanes<N>, const N: usize>(self, sources: V, destinations: V) -> V;
}

/// `BADSRC` of two members and no `BADDST`, as it is by default.
impl Illegal for Pair {
    #[inline(always)]
    fn lanes<V: Lanes<N>, const N: usize>(self, sources: V, _: V) -> V {
        self.contain(sources)
    }
}

/// `BADSRC` and `BADDST`.
impl Illegal for (Few<'_>, Few<'_>) {
    #[inline(always)]
    fn lanes<V: Lanes<N>, const N: usize>(self, sources: V, destinations: V) -> V {
        self.0.contain(sources) | self.1.contain(destinations)
    }
}

/// The same, and the router's own addresses.
impl Illegal for (Few<'_>, Few<'_>, Few<'_>) {
    #[inline(always)]
    fn lanes<V: Lanes<N>, const N: usize>(self, sources: V, destinations: V) -> V {
        self.0.contain(sources) | self.1.contain(sources) | self.2.contain(destinations)
    }
}

/// Whether all usual packets seen one by one have plain TTLs ([`ipv4::has_plain_ttl`]).
struct PlainTtls(Cell<bool>);

impl PlainTtls {
    #[inline(always)]
    fn look(&self, head: &[u8; MIN_HEADER_LEN]) {
        self.0.set(self.0.get() & ipv4::has_plain_ttl(head));
    }
}

/// [`check_usual`](CheckIPHeader::check_usual) of `N` packets: writes down where they want to go, asks for where their `routes` are
/// looked up, and returns their total lengths; `None` if one is not usual. `unplain`: gets bits in the lanes of packets without a
/// plain TTL.
#[inline(always)]
fn check_many<V: Lanes<N>, const N: usize>(
    heads: Heads<'_, V, N, MIN_HEADER_LEN>,
    destinations: &mut [u32; N],
    illegal: impl Illegal,
    routes: Option<FirstLevel>,
    unplain: &mut V,
) -> Option<V> {
    let heads = Ipv4Lanes::<V>::of(heads);
    let destination = heads.destination();
    // Two tests, so that what the first needs makes room in the registers for the second.
    if !(heads.unusual() | heads.bad_checksum()).is_zero() {
        return None;
    }
    if !illegal.lanes(heads.source(), destination).is_zero() {
        return None;
    }
    let to = destination.swap_bytes();
    to.store(destinations);
    if let Some(routes) = routes {
        to.shifted(routes.shift()).to_array().iter().for_each(|place| routes.ask(*place));
    }
    *unplain = *unplain | heads.unplain_ttls();
    Some(heads.total_len())
}

/// The look at a batch, several packets at a time. True if those seen together have plain TTLs.
struct Look<'a, I, One, Second> {
    batch: &'a mut Batch,
    headers: Headers,
    illegal: I,
    routes: Option<FirstLevel>,
    one: One,
    second: Second,
}

impl<I: Illegal, One, Second> Work for Look<'_, I, One, Second>
where
    One: FnMut(&mut Packet, usize) -> Option<u32>,
    Second: FnMut(Packet) -> Option<Packet>,
{
    type Output = bool;

    #[inline(always)]
    fn run<V: Lanes<N>, const N: usize>(self) -> bool {
        let Look { batch, headers, illegal, routes, one, second } = self;
        let mut unplain = V::splat(0);
        let many = |heads: Heads<'_, V, N, _>, destinations: &mut _| {
            check_many(heads, destinations, illegal, routes, &mut unplain)
        };
        batch.find_headers(headers, many, one, second);
        unplain.is_zero()
    }
}

impl<const SUM: bool> LocalCheckIPHeader<SUM> {
    /// Where the lookups of good packets begin.
    #[inline]
    fn routes(&mut self, cx: &Cx<'_>) -> Option<FirstLevel> {
        if self.until_asked == 0 {
            self.until_asked = ASK_EVERY;
            self.routes = self.shared.lookup.get().and_then(|lookup| lookup.first_level(cx.reader));
        }
        self.until_asked -= 1;
        self.routes
    }
}

impl<const SUM: bool> Simple for LocalCheckIPHeader<SUM> {
    fn act(&mut self, batch: &mut Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let routes = self.routes(cx);
        let shared = &*self.shared;
        let counts = &shared.counts[self.worker];
        let own = shared.own.as_ref().map(|own| own.read(cx.reader)).filter(|own| !own.is_empty());
        let second = |mut packet: Packet| match shared.check(&mut packet, own) {
            Ok(()) => Some(packet),
            Err(fault) => {
                shared.reject(packet, fault, counts, out);
                None
            }
        };
        let plain = PlainTtls(Cell::new(true));
        let many_plain = match own {
            None => shared.look_at(batch, routes, second, &plain),
            Some(own) => shared.look_at_foreign(batch, routes, second, (own, &plain)),
        };
        if many_plain & plain.0.get() {
            batch.note_plain_ttls();
        }
        counts.good.add(batch.len() as u64);
    }
}

#[cfg(test)]
mod tests;

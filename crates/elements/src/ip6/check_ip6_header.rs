//! `CheckIP6Header`: lets only packets with a valid IPv6 header pass, and notes where it is.
//!
//! The checks: enough bytes, version 6, a payload length that is there, a source address that may be one, and hop-by-hop options
//! that lie within the packet. Other extension headers are for the destination to judge (RFC 8200 §4, RFC 7045 §2.1): packets
//! pass whatever they are. A frame longer than the IP packet (Ethernet padding) is cut to it. Good packets get network and
//! transport header marks, the latter behind the extension headers; at the end of the packet if their chain runs past it, has
//! more than 16, or hop-by-hop options amid them. The destination annotation is cleared, which means: the destination address in
//! the header.
//!
//! # Arguments
//! - `BADADDRS` (or `BADSRC`): source addresses and prefixes that are not legal, with spaces between. Default `:: ff00::/8`.
//! - `OFFSET`: where the IPv6 header begins, in bytes. Default 0. May stand alone, without `BADADDRS` before it.
//! - `BADDST`: destination addresses and prefixes that are not legal, such as `::/127`. Default none.
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
//! - `short`: fewer than 40 bytes.
//! - `bad_version`: the version is not 6.
//! - `jumbogram`: the length stands in a jumbo payload option (RFC 2675); no buffer holds such a packet.
//! - `bad_length`: the payload length is more than what came.
//! - `bad_extension`: the hop-by-hop options in front run past the end.
//! - `bad_source`: the source address is in `BADADDRS`.
//! - `bad_destination`: the destination address is in `BADDST`.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b40 20010db8000000000000000000000001 20010db8000000000000000000000002 ffff>, LIMIT 5)
//!   -> good :: CheckIP6Header -> cut :: Counter -> Discard;
//! InfiniteSource(DATA \<60000000 00003b40 ff020000000000000000000000000001 20010db8000000000000000000000002>, LIMIT 3)
//!   -> bad :: CheckIP6Header -> Discard;
//! // good.count = 5
//! // cut.byte_count = 200
//! // bad.drops = 3
//! ```

use super::addresses::{AddressSet6, FewOctets, clear_destination};
use epoch::{Count, PerWorker};
use graph::{
    Agnostic, Args, Class, ConfigErrors, Configure, Cx, FromArg, Handlers, LocalCx, Loss, Out, Simple, Spec,
    Text,
};
use io::say;
use packet::lanes::{Lanes, Work, widest};
use packet::wire::ipv6::{HEADER_LEN, HOP_BY_HOP, Ipv6, is_extension};
use packet::wire::ipv6_lanes::Ipv6Lanes;
use packet::{Batch, Headers, Heads, Packet};
use std::fmt::Write;
use std::sync::Arc;

/// What may be wrong; the numbers are those of the losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Short,
    Version,
    Jumbogram,
    Length,
    Extension,
    Source,
    Destination,
}

const FAULTS: usize = 7;
const LOSSES: [&str; FAULTS] =
    ["short", "bad_version", "jumbogram", "bad_length", "bad_extension", "bad_source", "bad_destination"];
const TEXTS: [&str; FAULTS] = [
    "tiny packet",
    "bad IP version",
    "jumbogram",
    "bad payload length",
    "bad hop-by-hop options",
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

/// See the module.
#[derive(Debug)]
pub struct CheckIP6Header {
    offset: usize,
    bad_source: AddressSet6,
    bad_destination: AddressSet6,
    verbose: bool,
    name: String,
    counts: PerWorker<Counts>,
}

/// One worker's part of [`CheckIP6Header`].
#[derive(Debug)]
pub struct LocalCheckIP6Header {
    shared: Arc<CheckIP6Header>,
    worker: usize,
}

impl Class for CheckIP6Header {
    const SPEC: Spec = Spec { losses: &LOSSES, ..Spec::new("CheckIP6Header", "1/1-2", "a/ah") };
    type Local = Agnostic<LocalCheckIP6Header>;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<CheckIP6Header, ConfigErrors> {
        let bad_destination = args.keyword("BADDST", AddressSet6::new());
        let verbose = args.keyword("VERBOSE", false);
        let _: bool = args.keyword("DETAILS", false);
        let (bad_source, offset) = positional(args);
        args.finish()?;
        let bad_source = bad_source.unwrap_or_else(|| {
            let mut set = AddressSet6::new();
            set.add(0, u128::MAX);
            set.add(0xff << 120, 0xff << 120);
            set
        });
        let (name, counts) = (cx.name.to_owned(), PerWorker::new(cx.workers));
        Ok(CheckIP6Header { offset, bad_source, bad_destination, verbose, name, counts })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> Self::Local {
        Agnostic(LocalCheckIP6Header { shared: self.clone(), worker: cx.worker })
    }

    fn handlers(h: &mut Handlers<CheckIP6Header>) {
        h.read("count", |c| c.counts.sum(|n| n.good.get()).to_string());
        h.read("drops", |c| c.counts.sum(|n| n.bad.iter().map(Count::get).sum()).to_string());
        h.read("drop_details", Self::details);
        h.write("reset_counts", |c, _, _| {
            c.counts.rebase();
            Ok(())
        });
    }
}

/// `BADADDRS` and `OFFSET`. A positional argument that looks like addresses is `BADADDRS`, before `OFFSET`.
fn positional(args: &mut Args) -> (Option<AddressSet6>, usize) {
    for name in ["BADADDRS", "BADSRC"] {
        if let Some(named) = args.keyword_if_given(name) {
            return (Some(named), args.optional("OFFSET", 0));
        }
    }
    let Some(first) = args.optional_if_given::<Text>("OFFSET") else { return (None, 0) };
    if first.text.contains(':') {
        let set = read(args, "BADADDRS", &first);
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

impl CheckIP6Header {
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
        Headers { network, transport: network.wrapping_add(HEADER_LEN as u16) }
    }

    /// True if the packet is good and as nearly all are: without extension headers, its addresses plainly in none of the
    /// sets. Else [`check`](Self::check) knows more.
    #[inline(always)]
    fn is_usual(&self, packet: &mut Packet, offset: usize) -> bool {
        let Some(head) = packet.head::<HEADER_LEN>(offset) else { return false };
        let ip = Ipv6::of(head);
        let (total, room) = (ip.total_len(), packet.len() - offset);
        if ip.version() != 6 || total > room || is_extension(ip.next_header()) {
            return false;
        }
        if self.bad_source.may_contain(head[8]) || self.bad_destination.may_contain(head[24]) {
            return false;
        }
        if total != room {
            packet.truncate(offset + total);
        }
        true
    }

    /// Looks for the headers of all packets; those that are not usual are given to `second`.
    fn look(&self, batch: &mut Batch, second: impl FnMut(Packet) -> Option<Packet>) {
        let headers = self.headers();
        // No destination annotation: the address in the header counts.
        let one = |packet: &mut Packet, offset| self.is_usual(packet, offset).then_some(0);
        match (self.bad_source.few_octets(), self.bad_destination.few_octets()) {
            (Some(sources), Some(destinations)) => {
                widest(Look { batch, headers, bad: [sources, destinations], one, second });
            }
            _ => batch.find_each_header(headers, one, second),
        }
    }

    /// All checks, one after the other; marks the headers if there is no fault.
    fn check(&self, packet: &mut Packet) -> Result<(), Fault> {
        let bytes = packet.data().get(self.offset..).unwrap_or(&[]);
        let ip = Ipv6::new(bytes).ok_or(Fault::Short)?;
        let total = ip.total_len();
        if ip.version() != 6 {
            return Err(Fault::Version);
        }
        if ip.is_jumbogram() {
            return Err(Fault::Jumbogram);
        }
        if total > bytes.len() {
            return Err(Fault::Length);
        }
        if ip.next_header() == HOP_BY_HOP && ip.extensions().next().is_none() {
            return Err(Fault::Extension);
        }
        let transport = ip.upper_layer().map_or(total, |upper| upper.offset);
        if self.bad_source.contains(ip.source()) {
            return Err(Fault::Source);
        }
        if self.bad_destination.contains(ip.destination()) {
            return Err(Fault::Destination);
        }
        packet.truncate(self.offset + total);
        packet.set_network_offset(self.offset);
        packet.set_transport_offset(self.offset + transport);
        clear_destination(packet);
        Ok(())
    }

    fn reject(&self, packet: Packet, fault: Fault, counts: &Counts, out: &mut Out<'_>) {
        counts.bad[fault as usize].add(1);
        if self.verbose {
            say!("{}: IPv6 header check failed: {}", self.name, TEXTS[fault as usize]);
        }
        out.reject(1, packet, Loss(fault as u16));
    }
}

/// [`is_usual`](CheckIP6Header::is_usual) of `N` packets: their lengths from the header on; `None` if one is not usual.
#[inline(always)]
fn check_many<V: Lanes<N>, const N: usize>(
    heads: Heads<'_, V, N, HEADER_LEN>,
    [sources, destinations]: [FewOctets; 2],
) -> Option<V> {
    let heads = Ipv6Lanes::<V>::of(heads);
    let bad = sources.among(heads.source_octet()) | destinations.among(heads.destination_octet());
    (heads.unusual() | bad).is_zero().then(|| heads.total_len())
}

/// The look at a batch, several packets at a time.
struct Look<'a, One, Second> {
    batch: &'a mut Batch,
    headers: Headers,
    /// Sources, destinations.
    bad: [FewOctets; 2],
    one: One,
    second: Second,
}

impl<One, Second> Work for Look<'_, One, Second>
where
    One: FnMut(&mut Packet, usize) -> Option<u32>,
    Second: FnMut(Packet) -> Option<Packet>,
{
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes<N>, const N: usize>(self) {
        let Look { batch, headers, bad, one, second } = self;
        let many = |heads: Heads<'_, V, N, HEADER_LEN>, destinations: &mut [u32; N]| {
            *destinations = [0; N];
            check_many(heads, bad)
        };
        batch.find_headers(headers, many, one, second);
    }
}

impl Simple for LocalCheckIP6Header {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let shared = &*self.shared;
        let counts = &shared.counts[self.worker];
        let second = |mut packet: Packet| match shared.check(&mut packet) {
            Ok(()) => Some(packet),
            Err(fault) => {
                shared.reject(packet, fault, counts, out);
                None
            }
        };
        shared.look(batch, second);
        counts.good.add(batch.len() as u64);
    }
}

#[cfg(test)]
mod tests;

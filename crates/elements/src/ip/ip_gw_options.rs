//! `IPGWOptions`: works on the options of packets that a router forwards: record route and timestamp.
//!
//! As RFC 1812 §5.3.13 asks for. Packets must have a network header mark. Source routes are checked and passed on as
//! they are; following them is for whoever looks at packets to the router itself.
//!
//! # Arguments
//! - `MYADDR`: the router's address that is recorded: that of the link by which the packet leaves.
//! - `OTHERADDRS`: its other addresses, with spaces between, under which a timestamp option may name it. Default none.
//! - `SOURCE_ROUTE`: `pass` or `drop` packets with a source route. Default `pass`.
//!
//! # Ports
//! One input; packets leave by output 0, push or pull. Packets with a malformed option leave by push output 1 if that
//! is connected; the ICMP parameter problem annotation then says which byte is wrong, for
//! `ICMPError(..., parameterproblem)`.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `drops` | r | packets with a malformed option |
//!
//! # Losses
//! - `bad_option`: an option is malformed.
//! - `source_route`: there is a source route, and `SOURCE_ROUTE` is `drop`.
//! - `no_header`: the packet has no network header mark, or ends within the header.
//!
//! # Example
//! ```click
//! // A record route option whose pointer is 3.
//! InfiniteSource(DATA \<4700001c 00000000 40110000 0a000001 0b000002 07070300 00000000>, LIMIT 2)
//!   -> MarkIPHeader -> o :: IPGWOptions(10.0.0.254) -> Discard;
//! o[1] -> bad :: Counter -> Discard;
//! // o.drops = 2
//! // bad.count = 2
//! ```

use super::options::{self, Own};
use epoch::{Count, PerWorker};
use graph::{
    Agnostic, ArgError, Args, Class, ConfigErrors, Configure, Cx, FromArg, Handlers, LocalCx, Loss, Out,
    Simple, Spec, Text,
};
use lang::args::Words;
use packet::wire::ipv4::{self, Ipv4, MIN_HEADER_LEN};
use packet::{Batch, Packet, anno};
use std::net::Ipv4Addr;
use std::sync::Arc;

const BAD_OPTION: Loss = Loss(0);
const SOURCE_ROUTE: Loss = Loss(1);
const NO_HEADER: Loss = Loss(2);
const DAY_MILLIS: u64 = 86_400_000;

/// See the module.
#[derive(Debug)]
pub struct IPGWOptions {
    own: Own,
    drop_source_routes: bool,
    drops: PerWorker<Count>,
}

/// One worker's part of [`IPGWOptions`].
#[derive(Debug)]
pub struct LocalIPGWOptions {
    shared: Arc<IPGWOptions>,
    worker: usize,
}

/// Addresses with spaces between.
struct Addresses(Vec<u32>);

impl FromArg for Addresses {
    fn from_arg(arg: &Text) -> Result<Addresses, ArgError> {
        let mut words = Words::new(arg);
        let mut list = Vec::new();
        while !words.is_empty() {
            list.push(words.take::<Ipv4Addr>("address")?.to_bits());
        }
        Ok(Addresses(list))
    }

    fn placeholder() -> Addresses {
        Addresses(Vec::new())
    }
}

/// `pass` or `drop`.
struct Drop(bool);

impl FromArg for Drop {
    fn from_arg(arg: &Text) -> Result<Drop, ArgError> {
        match arg.text.as_str() {
            "pass" => Ok(Drop(false)),
            "drop" => Ok(Drop(true)),
            _ => Err(ArgError::parse().help("write `pass` or `drop`")),
        }
    }

    fn placeholder() -> Drop {
        Drop(false)
    }
}

impl Class for IPGWOptions {
    const SPEC: Spec = Spec {
        losses: &["bad_option", "source_route", "no_header"],
        ..Spec::new("IPGWOptions", "1/1-2", "a/ah")
    };
    type Local = Agnostic<LocalIPGWOptions>;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<IPGWOptions, ConfigErrors> {
        let address: Ipv4Addr = args.required("MYADDR");
        let others = args.optional("OTHERADDRS", Addresses(Vec::new()));
        let drop = args.keyword("SOURCE_ROUTE", Drop(false));
        args.finish()?;
        Ok(IPGWOptions {
            own: Own { address: address.to_bits(), others: others.0 },
            drop_source_routes: drop.0,
            drops: PerWorker::new(cx.workers),
        })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> Self::Local {
        Agnostic(LocalIPGWOptions { shared: self.clone(), worker: cx.worker })
    }

    fn handlers(h: &mut Handlers<IPGWOptions>) {
        h.read("drops", |o| o.drops.sum(Count::get).to_string());
    }
}

impl IPGWOptions {
    #[inline]
    fn handle(&self, packet: &mut Packet, millis: u32) -> Result<(), Loss> {
        let bytes = packet.network_mut().ok_or(NO_HEADER)?;
        match Ipv4::new(bytes).ok_or(NO_HEADER)?.header_len() {
            MIN_HEADER_LEN => Ok(()),
            len => self.options(packet, len, millis),
        }
    }

    fn options(&self, packet: &mut Packet, len: usize, millis: u32) -> Result<(), Loss> {
        let header = packet.network_mut().and_then(|bytes| bytes.get_mut(..len)).ok_or(NO_HEADER)?;
        match options::process(header, &self.own, millis) {
            Ok(walk) if walk.source_route && self.drop_source_routes => Err(SOURCE_ROUTE),
            Ok(walk) => {
                if walk.changed {
                    ipv4::set_checksum(header);
                }
                Ok(())
            }
            Err(pointer) => {
                // Options before the bad one may have been worked on.
                ipv4::set_checksum(header);
                // A header has at most 60 bytes.
                packet.set_anno_u8(anno::ICMP_PARAM_PROB, u8::try_from(pointer).unwrap_or(0));
                Err(BAD_OPTION)
            }
        }
    }
}

impl Simple for LocalIPGWOptions {
    fn act(&mut self, batch: &mut Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let shared = &*self.shared;
        let millis = u32::try_from(cx.now / 1_000_000 % DAY_MILLIS).unwrap_or(0);
        batch.retain_ok(
            |packet| shared.handle(packet, millis),
            |packet, loss| match loss {
                BAD_OPTION => {
                    shared.drops[self.worker].add(1);
                    out.reject(1, packet, BAD_OPTION);
                }
                other => out.lose(packet, other),
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Pool;

    #[test]
    fn headers_keep_valid_checksums() {
        let element = |drop| IPGWOptions {
            own: Own { address: 0x0a00_00fe, others: vec![] },
            drop_source_routes: drop,
            drops: PerWorker::new(1),
        };
        let run = |drop: bool, options: [u8; 8]| {
            let mut bytes =
                b"\x47\x00\x00\x1c\x00\x01\x00\x00\x40\x11\x00\x00\x0a\x00\x00\x01\x0a\x00\x00\x02".to_vec();
            bytes.extend(options);
            ipv4::set_checksum(&mut bytes);
            let mut packet = Pool::heap(4, 256).packet(&bytes).unwrap();
            packet.set_network_offset(0);
            let result = element(drop).handle(&mut packet, 7);
            assert!(Ipv4::new(packet.data()).unwrap().checksum_is_valid());
            let seen = (result, packet.data()[20..].to_vec(), packet.anno_u8(anno::ICMP_PARAM_PROB));
            packet.free();
            seen
        };
        assert_eq!(run(false, [7, 7, 4, 0, 0, 0, 0, 0]), (Ok(()), vec![7, 7, 8, 10, 0, 0, 254, 0], 0));
        let route = [131, 7, 4, 1, 2, 3, 4, 0];
        assert_eq!(run(false, route), (Ok(()), route.to_vec(), 0));
        assert_eq!(run(true, route).0, Err(SOURCE_ROUTE));
        assert_eq!(run(false, [0, 0, 0, 1, 0, 0, 0, 0]), (Ok(()), vec![0; 8], 0));
        let half = [7, 3, 4, 7, 99, 0, 0, 0];
        assert_eq!(run(false, half), (Err(BAD_OPTION), half.to_vec(), 23));
    }
}

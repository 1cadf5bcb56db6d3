//! `ARPResponder`: answers ARP requests for given addresses.
//!
//! # Arguments
//! One or more entries `IP[/MASK]... ETH`: requests for an address of one of these prefixes are answered with this
//! Ethernet address. The longest prefix that holds the address counts, of equal ones the first. A prefix longer than
//! one address makes it a proxy for a whole network.
//!
//! # Ports
//! One input, one output; push or pull. Packets are ARP requests with their Ethernet headers; each is made into its own
//! reply. What is not a request for one of the addresses leaves by push output 1 if that is connected.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `table` | r | the entries, `IP/MASK ETH`, longest prefix first |
//! | `lookup` | r | the Ethernet address for the address given as parameter |
//! | `add` | w | an entry as above; replaces those for the same prefixes |
//! | `remove` | w | a prefix `IP[/MASK]`, with all that belongs to it |
//!
//! # Losses
//! - `not_a_request`: not an ARP request for IPv4 over Ethernet.
//! - `not_for_us`: a request for another address.
//!
//! # Example
//! Who has 10.0.0.5? The address 02:00:00:00:00:09.
//! ```click
//! InfiniteSource(LIMIT 2, DATA \<ffffffffffff 020000000001 0806 0001 0800 06 04 0001
//!                                020000000001 0a000001 000000000000 0a000005>)
//!   -> r :: ARPResponder(10.0.0.5 10.1.0.0/16 02:00:00:00:00:09)
//!   -> Classifier(0/020000000001020000000009 20/0002 22/0200000000090a000005) -> c :: Counter -> Discard;
//! // c.count = 2
//! // c.byte_count = 84
//! ```

use epoch::Table;
use graph::{
    Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Loss, Out, Simple, Spec, value,
};
use lang::Text;
use lang::args::{ArgError, FromArg, Ipv4Prefix, Words};
use packet::wire::arp::{self, Arp};
use packet::wire::ethernet::{self, HEADER_LEN, Header, Mac};
use packet::{Batch, Packet};
use std::cmp::Reverse;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;

const NOT_A_REQUEST: Loss = Loss(0);
const NOT_FOR_US: Loss = Loss(1);

/// See the module.
#[derive(Debug)]
pub struct ARPResponder {
    answers: Table<Answers>,
}

/// One worker's part of [`ARPResponder`].
#[derive(Debug)]
pub struct LocalARPResponder {
    shared: Arc<ARPResponder>,
}

/// `IP[/MASK]... ETH`.
struct Entry {
    prefixes: Vec<Ipv4Prefix>,
    mac: Mac,
}

impl FromArg for Entry {
    fn from_arg(arg: &Text) -> Result<Entry, ArgError> {
        let mut words = Words::new(arg);
        let mut prefixes = Vec::new();
        while words.len() > 1 {
            prefixes.push(words.take("prefix")?);
        }
        if prefixes.is_empty() {
            return Err(ArgError::new("`IP[/MASK]... ETH` expected"));
        }
        Ok(Entry { prefixes, mac: words.take("Ethernet address")? })
    }

    fn placeholder() -> Entry {
        Entry { prefixes: Vec::new(), mac: [0; 6] }
    }
}

/// Prefixes and their addresses, longest prefix first.
#[derive(Clone, Debug, Default)]
struct Answers(Vec<(Ipv4Prefix, Mac)>);

impl Answers {
    fn new(entries: &[Entry]) -> Answers {
        let pairs = |e: &Entry| e.prefixes.iter().map(|p| (network(*p), e.mac)).collect::<Vec<_>>();
        let mut answers = Answers(entries.iter().flat_map(pairs).collect());
        // The sort is stable: among equal prefixes the first stays first.
        answers.0.sort_by_key(|(prefix, _)| Reverse(prefix.length));
        answers
    }

    fn lookup(&self, address: Ipv4Addr) -> Option<Mac> {
        self.0.iter().find(|(prefix, _)| prefix.contains(address)).map(|(_, mac)| *mac)
    }

    fn add(&mut self, entry: &Entry) {
        for prefix in entry.prefixes.iter().map(|p| network(*p)) {
            self.0.retain(|(p, _)| *p != prefix);
            let at = self.0.partition_point(|(p, _)| p.length >= prefix.length);
            self.0.insert(at, (prefix, entry.mac));
        }
    }

    fn text(&self) -> String {
        self.0.iter().fold(String::new(), |mut text, (prefix, mac)| {
            let _ = writeln!(text, "{}/{} {}", prefix.address, prefix.length, ethernet::text(mac));
            text
        })
    }
}

/// The prefix with its host bits cleared, so that equal networks are equal.
fn network(prefix: Ipv4Prefix) -> Ipv4Prefix {
    Ipv4Prefix { address: prefix.network(), ..prefix }
}

/// Makes a request into its reply.
fn answer(packet: &mut Packet, answers: &Answers) -> Result<(), Loss> {
    let header = Header::parse(packet.data()).filter(|h| h.ethertype == ethernet::ARP);
    let request = packet.data().get(HEADER_LEN..).and_then(Arp::parse);
    let (Some(_), Some(request)) = (header, request.filter(|a| a.operation == arp::REQUEST)) else {
        return Err(NOT_A_REQUEST);
    };
    let mac = answers.lookup(request.target_ip).ok_or(NOT_FOR_US)?;
    let reply = Arp {
        operation: arp::REPLY,
        sender_mac: mac,
        sender_ip: request.target_ip,
        target_mac: request.sender_mac,
        target_ip: request.sender_ip,
    };
    let frame = reply.frame(request.sender_mac);
    packet.truncate(frame.len());
    if let Some(bytes) = packet.data_mut().first_chunk_mut() {
        *bytes = frame;
    }
    packet.set_mac_offset(0);
    Ok(())
}

impl Class for ARPResponder {
    const SPEC: Spec =
        Spec { losses: &["not_a_request", "not_for_us"], ..Spec::new("ARPResponder", "1/1-2", "a/ah") };
    type Local = Agnostic<LocalARPResponder>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<ARPResponder, ConfigErrors> {
        let entries: Vec<Entry> = args.rest("ENTRY");
        args.finish()?;
        Ok(ARPResponder { answers: Table::new(Answers::new(&entries)) })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalARPResponder { shared: self.clone() })
    }

    fn handlers(h: &mut Handlers<ARPResponder>) {
        h.read("table", |r| r.answers.with(Answers::text));
        h.read_with("lookup", |r, text| {
            let address = value(text)?;
            Ok(r.answers.with(|a| a.lookup(address)).map_or_else(String::new, |mac| ethernet::text(&mac)))
        });
        h.write("add", |r, text, _| {
            let entry = value(text)?;
            r.answers.modify(|a| a.add(&entry));
            Ok(())
        });
        h.write("remove", |r, text, _| {
            let prefix = network(value(text)?);
            r.answers.try_edit(|old| {
                let mut new = old.clone();
                new.0.retain(|(p, _)| *p != prefix);
                if new.0.len() == old.0.len() { Err("no such entry".to_owned()) } else { Ok(new) }
            })
        });
    }
}

impl Simple for LocalARPResponder {
    fn act(&mut self, batch: &mut Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let answers = self.shared.answers.read(cx.reader);
        batch.retain_ok(|p| answer(p, answers), |p, reason| out.reject(1, p, reason));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Frame, Lab, errors, hex};

    fn request(target: [u8; 4]) -> Vec<u8> {
        Arp::request_frame([2, 0, 0, 0, 0, 1], Ipv4Addr::new(10, 0, 0, 1), target.into()).to_vec()
    }

    fn entries(text: &str) -> Answers {
        let entries: Vec<Entry> = text.split(',').map(|e| value(e).unwrap()).collect();
        Answers::new(&entries)
    }

    #[test]
    fn the_longest_prefix_counts_and_then_the_first() {
        let mut answers = entries("10.0.0.0/8 1:1:1:1:1:1, 10.1.0.5 2:2:2:2:2:2, 10.9.9.9/8 3:3:3:3:3:3");
        let look = |a: &Answers, ip: [u8; 4]| a.lookup(ip.into()).map(|m| m[0]);
        assert_eq!(look(&answers, [10, 1, 0, 5]), Some(2));
        assert_eq!(look(&answers, [10, 1, 0, 6]), Some(1));
        assert_eq!(look(&answers, [11, 1, 0, 6]), None);
        answers.add(&value::<Entry>("10.2.3.4/8 10.1.0.6 4:4:4:4:4:4").unwrap());
        assert_eq!(look(&answers, [10, 1, 0, 6]), Some(4));
        assert_eq!(
            answers.text(),
            "10.1.0.5/32 02-02-02-02-02-02\n10.1.0.6/32 04-04-04-04-04-04\n10.0.0.0/8 04-04-04-04-04-04\n"
        );
    }

    #[test]
    fn requests_become_replies_and_the_rest_goes_aside() {
        let config =
            "f :: Feed -> r :: ARPResponder(10.0.0.5 2:0:0:0:0:9) -> k :: Keep; r[1] -> other :: Keep;";
        let mut lab = Lab::new(config);
        let padded = [request([10, 0, 0, 5]), vec![0xee; 18]].concat();
        let mut reply = request([10, 0, 0, 5]);
        reply[21] = 2;
        let mut rarp = request([10, 0, 0, 5]);
        rarp[13] = 0x35;
        let cut = request([10, 0, 0, 5])[..41].to_vec();
        for frame in [&padded, &reply, &rarp, &cut, &request([10, 0, 0, 6]), &vec![]] {
            lab.at(0, "f", &Frame::new(frame));
        }
        lab.run();
        let want = "020000000001020000000009080600010800060400020200000000090a0000050200000000010a000001";
        assert_eq!(lab.kept_hex("k"), [want]);
        assert_eq!(
            lab.kept_hex("other"),
            [hex(&reply), hex(&rarp), hex(&cut), hex(&request([10, 0, 0, 6])), String::new()]
        );
        lab.end();
    }

    #[test]
    fn losses_are_named_and_handlers_change_the_table() {
        let mut lab = Lab::new("f :: Feed -> r :: ARPResponder(10.0.0.5 2:0:0:0:0:9) -> k :: Keep;");
        lab.0.write("r.add", "10.0.1.0/24 2:0:0:0:0:8").unwrap();
        lab.0.write("r.remove", "10.0.0.5").unwrap();
        assert_eq!(lab.0.write("r.remove", "10.0.0.5"), Err("no such entry".to_owned()));
        assert_eq!(lab.0.read("r.table"), "10.0.1.0/24 02-00-00-00-00-08\n");
        for target in [[10, 0, 0, 5], [10, 0, 1, 5]] {
            lab.at(0, "f", &Frame::new(&request(target)));
        }
        lab.at(0, "f", &Frame::new(&[0; 60]));
        lab.run();
        assert_eq!(lab.kept("k").len(), 1);
        assert_eq!(lab.losses(), ["r.not_a_request = 1", "r.not_for_us = 1"]);
        lab.end();
    }

    #[test]
    fn mistakes() {
        let text =
            errors("Idle -> ARPResponder(2:0:0:0:0:9, 10.0.0.5 x, 10.0.0.5/99 2:0:0:0:0:9) -> Discard;");
        for want in
            ["`IP[/MASK]... ETH` expected", "Ethernet address: parse error", "prefix length out of range"]
        {
            assert!(text.contains(want), "{text}");
        }
    }
}

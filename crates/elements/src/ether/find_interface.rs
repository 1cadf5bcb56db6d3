//! `FindInterface`: finds out by which VLAN frames with tags came in, and sorts them by what they carry.
//!
//! The number of the interface is noted on each packet, for lookups with `INTERFACES` behind it. Frames stay as they are,
//! tags included: one that has to go to Linux does so as it came. A tag with the number 0 only tells a priority: the frame
//! is one of the interface below.
//!
//! # Arguments
//! - `PORT`: the number of the port that frames come from.
//! - `INTERFACES`: a name; elements with the same one know the same interfaces. `routebricks router` publishes the VLANs
//!   of Linux in `main`.
//! - `INTERFACE`...: further interfaces, each `number name port tags address`: `tags` is a VLAN number, with `ad:` before it
//!   for one of IEEE 802.1ad, or two with a dot between; `address` is its Ethernet address. Numbers of ports are those of
//!   outputs, those of VLANs come behind them.
//!
//! # Ports
//! One push input; seven push outputs:
//! - 0 and 1: IPv4 and IPv6 to the interface's address, the network header at offset 14 plus 4 for one tag;
//! - 2 and 3: the same with two tags;
//! - 4: everything else for a known interface: ARP, multicast, DHCP, IPv6 with hop-by-hop options or from link-local
//!   addresses, packets of a family that Linux does not forward on the interface; and everything as long as nobody has told of any
//!   interface;
//! - 5 and 6: IPv4 as at 0 and 2 whose header is not one of version 4 without options.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `table` | r | the VLANs of the port, a line each: number, name, tags, address, MTU, `up` or `down`, VRF or `-`, table or `-`, frames and bytes received, the same sent |
//! | `port` | r | the port itself: name, address, MTU, `up` or `down` as it is set; empty as long as nobody has told of it |
//! | `vrf` | r | the VRF of the port itself, and its table; empty without one |
//!
//! # Losses
//! - `short`: the frame ends amid the headers.
//! - `unknown_vlan`: there is no interface for the tag.
//! - `down`: the interface is not set up.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<020000000001 020000000002 8100 0064 0800 450000140000000040110000 0a000001 0a010203>, LIMIT 5)
//!   -> in :: FindInterface(PORT 0, 1 eth0.100 0 100 2:0:0:0:0:1);
//! InfiniteSource(DATA \<020000000001 020000000002 8100 0065 0800 450000140000000040110000 0a000001 0a010203>, LIMIT 3)
//!   -> in;
//! in[0] -> ip :: Counter -> Discard;
//! in[1], in[2], in[3], in[4], in[5], in[6] -> Discard;
//! // ip.count = 5
//! // in.drops = 3
//! ```

use crate::ip::interfaces;
use fib::{Interface, InterfaceMap, InterfaceSettings, Interfaces, Tags};
use graph::{
    ArgError, Args, Class, ConfigErrors, Configure, Cx, Element, FromArg, Handlers, LocalCx, Loss, Out, Spec,
    Text, Way,
};
use lang::args::Words;
use packet::wire::ethernet::{self, HEADER_LEN, Mac};
use packet::wire::{ipv4, ipv6};
use packet::{Batch, Packet};
use std::fmt::Write;
use std::sync::Arc;

const SHORT: Loss = Loss(0);
const UNKNOWN_VLAN: Loss = Loss(1);
const DOWN: Loss = Loss(2);
/// The output of what is not routed.
const OTHERS: Way = Way::Port(4);
/// Bytes of a tag.
const TAG_LEN: usize = 4;
/// Offset of the first tag or EtherType.
const ETHERTYPE: usize = HEADER_LEN - 2;

/// See the module.
#[derive(Debug)]
pub struct FindInterface {
    port: u16,
    interfaces: Arc<Interfaces>,
}

/// One worker's part of [`FindInterface`].
#[derive(Debug)]
pub struct LocalFindInterface {
    shared: Arc<FindInterface>,
    worker: usize,
}

/// `number name port tags address`.
struct InterfaceArg {
    number: u16,
    name: String,
    port: u16,
    tags: TagsArg,
    mac: Mac,
}

impl FromArg for InterfaceArg {
    fn from_arg(arg: &Text) -> Result<InterfaceArg, ArgError> {
        let mut words = Words::new(arg);
        let (number, name) = (words.take("number")?, words.take("name")?);
        let (port, tags, mac) = (words.take("port")?, words.take("tags")?, words.take("address")?);
        words.end()?;
        Ok(InterfaceArg { number, name, port, tags, mac })
    }

    fn placeholder() -> InterfaceArg {
        InterfaceArg { number: 0, name: String::new(), port: 0, tags: TagsArg(Tags::NONE), mac: [0; 6] }
    }
}

/// Tags as [`Tags`] are printed.
struct TagsArg(Tags);

impl FromArg for TagsArg {
    fn from_arg(arg: &Text) -> Result<TagsArg, ArgError> {
        let one = |tags: Tags, text: &str| {
            let (protocol, id) = match text.strip_prefix("ad:") {
                Some(id) => (Tags::SERVICE, id),
                None => (Tags::CUSTOMER, text),
            };
            tags.then(protocol, id.parse().ok()?)
        };
        let tags = match arg.text.as_ref() {
            "-" => Some(Tags::NONE),
            text => text.split('.').try_fold(Tags::NONE, one),
        };
        tags.map(TagsArg)
            .ok_or_else(|| ArgError::new("expected -, or one or two VLAN numbers from 1 to 4094"))
    }

    fn placeholder() -> TagsArg {
        TagsArg(Tags::NONE)
    }
}

impl Class for FindInterface {
    const SPEC: Spec =
        Spec { losses: &["short", "unknown_vlan", "down"], ..Spec::new("FindInterface", "1/7", "h/h") };
    type Local = LocalFindInterface;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<FindInterface, ConfigErrors> {
        let port = args.keyword_if_given("PORT").unwrap_or_default();
        let interfaces = interfaces(args, cx).unwrap_or_else(|| Arc::new(Interfaces::new(cx.workers)));
        let given: Vec<InterfaceArg> = args.rest("INTERFACE");
        if given.iter().any(|one| usize::from(one.number) >= Interfaces::MOST) {
            args.error("INTERFACE", format!("numbers must be below {}", Interfaces::MOST));
        }
        args.finish()?;
        if !given.is_empty() {
            interfaces.set(with(&interfaces, given));
        }
        Ok(FindInterface { port, interfaces })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalFindInterface {
        LocalFindInterface { shared: self.clone(), worker: cx.worker }
    }

    fn handlers(h: &mut Handlers<FindInterface>) {
        h.read("table", FindInterface::table);
        h.read("port", |f| {
            let text = |one: &Interface| {
                let state = if one.up { "up" } else { "down" };
                format!("{} {} {} {state}", one.name, ethernet::text(&one.mac), one.mtu)
            };
            f.interfaces.with(|map| map.get(f.port.into()).map(text)).unwrap_or_default()
        });
        h.read("vrf", |f| {
            let text = |map: &InterfaceMap| {
                Some(map.vrf(f.port.into())?).map(|vrf| format!("{} {}", vrf.name, vrf.table))
            };
            f.interfaces.with(text).unwrap_or_default()
        });
    }
}

/// What is known already, and these.
fn with(interfaces: &Interfaces, given: Vec<InterfaceArg>) -> Vec<Option<Interface>> {
    let mut all: Vec<Option<Interface>> = Vec::new();
    let mut put = |number: usize, interface: Interface| {
        all.resize(all.len().max(number + 1), None);
        all[number] = Some(interface);
    };
    interfaces.with(|map| map.iter().for_each(|(number, one)| put(number as usize, one.clone())));
    for InterfaceArg { number, name, port, tags: TagsArg(tags), mac } in given {
        let counts = interfaces.counts();
        let settings = InterfaceSettings::default();
        let one = Interface { name, port, tags, mac, mtu: 0, up: true, settings, vrf: None, counts };
        put(number.into(), one);
    }
    all
}

impl FindInterface {
    fn table(&self) -> String {
        let line = |text: &mut String, number: u32, one: &Interface| {
            let [received, sent] = [&one.counts.received, &one.counts.sent].map(|tally| {
                format!("{} {}", tally.sum(epoch::Tally::packets), tally.sum(epoch::Tally::bytes))
            });
            let (name, tags, mac, mtu) = (&one.name, one.tags, ethernet::text(&one.mac), one.mtu);
            let state = if one.up { "up" } else { "down" };
            let vrf = one.vrf.as_ref().map_or("- -".to_owned(), |vrf| format!("{} {}", vrf.name, vrf.table));
            let _ = writeln!(text, "{number} {name} {tags} {mac} {mtu} {state} {vrf} {received} {sent}");
        };
        let mut text = String::new();
        self.interfaces.with(|map| {
            let ours = map.iter().filter(|(_, one)| one.port == self.port && !one.tags.is_empty());
            ours.for_each(|(number, one)| line(&mut text, number, one));
        });
        text
    }
}

/// The interface of a frame from a port, and the offset of the EtherType behind its tags.
#[inline]
fn find(port: u16, frame: &[u8], map: &InterfaceMap) -> Result<(u32, usize), Loss> {
    let (mut number, mut at) = (u32::from(port), ETHERTYPE);
    while at <= ETHERTYPE + Tags::MOST_BYTES - TAG_LEN {
        let [a, b, c, d] = frame.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(SHORT)?;
        let (protocol, tag) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        if ![Tags::CUSTOMER, Tags::SERVICE].contains(&protocol) {
            break;
        }
        let id = tag & 0xfff;
        if id != 0 {
            number = match map.above(number, protocol, id) {
                Some(number) => number,
                // Nobody has told of any interface, or another one has this one's frames: tags are Linux's.
                None if map.is_empty() || is_linux_s(map, port) => return Ok((port.into(), at)),
                None => return Err(UNKNOWN_VLAN),
            };
        }
        at += TAG_LEN;
    }
    Ok((number, at))
}

/// True if Linux gets the packets of both families that come in by a port.
fn is_linux_s(map: &InterfaceMap, port: u16) -> bool {
    map.get(port.into()).is_some_and(|one| one.settings.linux4 && one.settings.linux6)
}

/// The interface of a frame from a port.
pub(super) fn interface_of(port: u16, frame: &[u8], map: &InterfaceMap) -> Option<u32> {
    find(port, frame, map).ok().map(|(number, _)| number)
}

/// Where a frame goes whose EtherType is at this offset.
#[inline]
fn sort(frame: &[u8], at: usize, interface: &Interface) -> Way {
    let Some(&[a, b]) = frame.get(at..).and_then(|rest| rest.first_chunk()) else { return Way::Lost(SHORT) };
    let first = match at - ETHERTYPE {
        TAG_LEN => 0,
        Tags::MOST_BYTES => 2,
        _ => return OTHERS,
    };
    let settings = &interface.settings;
    let is_ours = |to: &Mac| *to == interface.mac || settings.has_virtual_mac(to);
    if !frame.first_chunk().is_some_and(is_ours) {
        return OTHERS;
    }
    let packet = frame.get(at + 2..).unwrap_or_default();
    match u16::from_be_bytes([a, b]) {
        ethernet::IPV4 if settings.linux4 => OTHERS,
        ethernet::IPV4 if is_dhcp(packet) => OTHERS,
        ethernet::IPV4 if packet.first() == Some(&ipv4::PLAIN) => Way::Port(first),
        // Behind the others: 5 with one tag, 6 with two.
        ethernet::IPV4 => Way::Port(5 + first / 2),
        ethernet::IPV6 if settings.linux6 => OTHERS,
        ethernet::IPV6 if is_for_linux(packet) => OTHERS,
        ethernet::IPV6 => Way::Port(first + 1),
        _ => OTHERS,
    }
}

/// Whether programs may wait for it with packet sockets, although it is sent to an address that nobody here has yet (RFC 2131 §4.1):
/// UDP to DHCP clients, servers and relays, in no fragment.
fn is_dhcp(packet: &[u8]) -> bool {
    let Some(head) = packet.first_chunk::<{ ipv4::MIN_HEADER_LEN + 4 }>() else { return false };
    let is_plain_udp = head[0] == ipv4::PLAIN && head[9] == ipv4::UDP && head[6] & 0x1f | head[7] == 0;
    is_plain_udp && head[22] == 0 && matches!(head[23], 67 | 68)
}

/// With hop-by-hop options, or from an address that means something on its own link only.
pub(super) fn is_for_linux(packet: &[u8]) -> bool {
    let Some(head) = packet.first_chunk::<{ ipv6::HEADER_LEN }>() else { return false };
    head[6] == ipv6::HOP_BY_HOP || (head[8] == 0xfe && head[9] & 0xc0 == 0x80)
}

impl Element for LocalFindInterface {
    fn push(&mut self, _: usize, batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let (shared, worker) = (&*self.shared, self.worker);
        let map = shared.interfaces.read(cx.reader);
        out.split(batch, |packet: &mut Packet| {
            let (number, at) = match find(shared.port, packet.data(), map) {
                Ok(found) => found,
                Err(loss) => return Way::Lost(loss),
            };
            let Some(interface) = map.get(number) else { return OTHERS };
            if let Some(tally) = interface.counts.received.iter().nth(worker) {
                tally.add(1, packet.len() as u64);
            }
            if !interface.up {
                return Way::Lost(DOWN);
            }
            packet.set_next_hop(number);
            sort(packet.data(), at, interface)
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab, bytes, errors};

    const IP: &str = "450000140000000040110000 0a000001 0a010203";

    const UDP: &str = "450000180000000040110000 0a000001 0a010203";

    fn ip6(next: &str, source: &str) -> String {
        format!("86dd 60000000 0000 {next} 40 {source}{} {}", "00".repeat(14), "20".repeat(16))
    }

    #[test]
    fn frames_are_sorted_by_vlan_and_contents() {
        let mut lab = Lab::new(
            "f :: Feed -> v :: FindInterface(PORT 1, 1 eth1 1 - 2:0:0:0:0:1, 2 eth1.100 1 100 2:0:0:0:0:9,
                                             3 eth1.7 1 ad:7 2:0:0:0:0:1, 4 eth1.7.5 1 ad:7.5 2:0:0:0:0:1, 5 eth2.8 2 8 2:0:0:0:0:1);
             v[0] -> k0 :: Keep; v[1] -> k1 :: Keep; v[2] -> k2 :: Keep; v[3] -> k3 :: Keep; v[4] -> k4 :: Keep; v[5] -> k5 :: Keep;
             v[6] -> k6 :: Keep;",
        );
        let (ours, vlans, other) = ("020000000001", "020000000009", "020000000002");
        let all = [
            (0, format!("{vlans} {other} 8100 6064 0800 {IP}")),
            (1, format!("{vlans} {other} 8100 0064 {}", ip6("3b", "2001"))),
            (4, format!("{vlans} {other} 8100 0064 {}", ip6("00", "2001"))),
            (4, format!("{vlans} {other} 8100 0064 {}", ip6("3b", "fea0"))),
            // To the port's address, not the VLAN's; ARP; broadcast.
            (4, format!("{ours} {other} 8100 0064 0800 {IP}")),
            (4, format!("{vlans} {other} 8100 0064 0806 0001")),
            (4, format!("ffffffffffff {other} 8100 0064 0800 {IP}")),
            // A priority alone.
            (0, format!("{ours} {other} 8100 6000 0800 {IP}")),
            (0, format!("{ours} {other} 88a8 0007 0800 {IP}")),
            (2, format!("{ours} {other} 88a8 0007 8100 0005 0800 {IP}")),
            (3, format!("{ours} {other} 88a8 0007 8100 0005 {}", ip6("3b", "2001"))),
            // A priority before the tag; three tags.
            (2, format!("{vlans} {other} 8100 6000 8100 0064 0800 {IP}")),
            (4, format!("{ours} {other} 88a8 0007 8100 0005 8100 0001 0800 {IP}")),
            // DHCP to a client, and a later fragment that looks like it.
            (4, format!("{vlans} {other} 8100 0064 0800 {UDP} 0043 0044")),
            (
                0,
                format!(
                    "{vlans} {other} 8100 0064 0800 {} 0043 0044",
                    UDP.replace("0000000040", "0000000140")
                ),
            ),
            (0, format!("{vlans} {other} 8100 0064 0800 {UDP} 0043 0045")),
            // With options, and with a header that is none.
            (5, format!("{vlans} {other} 8100 0064 0800 46{}", &IP[2..])),
            (5, format!("{vlans} {other} 8100 0064 0800 65{}", &IP[2..])),
            (6, format!("{ours} {other} 88a8 0007 8100 0005 0800 4f{}", &IP[2..])),
        ];
        for (_, frame) in &all {
            lab.at(0, "f", &Frame::new(&bytes(frame)));
        }
        // Unknown: the number, the protocol, the second tag, another port's.
        for tags in ["8100 0065", "88a8 0064", "88a8 0007 8100 0006", "8100 0008"] {
            lab.at(0, "f", &Frame::new(&bytes(&format!("{vlans} {other} {tags} 0800 {IP}"))));
        }
        lab.at(0, "f", &Frame::new(&bytes(&format!("{vlans} {other} 8100 00"))));
        lab.at(0, "f", &Frame::new(&bytes(&format!("{vlans} {other} 8100 0064 08"))));
        lab.run();
        for output in 0..7 {
            let of = |(to, _): &&(usize, String)| *to == output;
            let want: Vec<String> = all.iter().filter(of).map(|(_, frame)| frame.replace(' ', "")).collect();
            assert_eq!(lab.kept_hex(&format!("k{output}")), want, "{output}");
        }
        assert_eq!(lab.losses(), ["v.short = 2", "v.unknown_vlan = 4"]);
        let table = "2 eth1.100 100 02-00-00-00-00-09 0 up - - 13 552 0 0\n\
                     3 eth1.7 ad:7 02-00-00-00-00-01 0 up - - 1 38 0 0\n\
                     4 eth1.7.5 ad:7.5 02-00-00-00-00-01 0 up - - 4 192 0 0\n";
        assert_eq!(lab.0.read("v.table"), table);
        assert_eq!(lab.0.read("v.port"), "eth1 02-00-00-00-00-01 0 up");
        lab.end();
    }

    #[test]
    fn without_any_interface_all_goes_to_linux() {
        let mut lab = Lab::new(
            "f :: Feed -> v :: FindInterface(PORT 0); v[4] -> k :: Keep;
             v[0], v[1], v[2], v[3], v[5], v[6] -> Discard;",
        );
        let frame = format!("020000000001 020000000002 8100 0064 0800 {IP}").replace(' ', "");
        lab.at(0, "f", &Frame::new(&bytes(&frame)));
        lab.run();
        assert_eq!((lab.kept_hex("k"), lab.losses().len()), (vec![frame], 0));
        lab.end();
    }

    #[test]
    fn mistakes() {
        let error = |arg: &str| {
            errors(&format!(
                "Idle -> v :: FindInterface(PORT 0, {arg}); v[0], v[1], v[2], v[3], v[4], v[5], v[6] -> Discard;"
            ))
        };
        assert!(
            error("1 eth0.0 0 0 2:0:0:0:0:1")
                .contains("expected -, or one or two VLAN numbers from 1 to 4094")
        );
        assert!(error("1 x 0 1.2.3 2:0:0:0:0:1").contains("expected -, or one or two VLAN numbers"));
        assert!(error("40000 x 0 1 2:0:0:0:0:1").contains("numbers must be below 28672"));
    }
}

//! `PortInput`: sorts the frames that come in by a port into those that the data plane forwards and those for Linux.
//!
//! The port's own Ethernet address, whether it is set up, and what Linux has set for it are those of `INTERFACES`, and are
//! followed while packets flow.
//!
//! # Arguments
//! - `PORT`: the number of the port that frames come from.
//! - `INTERFACES`: a name; elements with the same one know the same interfaces. `routebricks router` publishes those of
//!   Linux in `main`.
//! - `ADDRESS`: the Ethernet address of the port as long as nobody has told of the interface.
//!
//! # Ports
//! One push input; six push outputs:
//! - 0 and 1: IPv4 and IPv6 to the port's address, or to one of its virtual routers;
//! - 2: IPv4 as on output 0, if Linux checks sources of packets on the interface (`rp_filter`); the number of the interface is
//!   noted on each packet, for elements with `INTERFACES` behind it;
//! - 3: frames with VLAN tags;
//! - 4: everything else: to other addresses, ARP, multicast, IPv6 with hop-by-hop options or from link-local addresses, and
//!   packets of a family that Linux does not forward on the interface;
//! - 5: IPv4 as on output 0 whose header is not one of version 4 without options.
//!
//! # Losses
//! - `down`: the interface is set down.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<020000000001 020000000002 0800 450000140000000040110000 0a000001 0a010203>, LIMIT 5)
//!   -> in :: PortInput(PORT 0, ADDRESS 2:0:0:0:0:1);
//! InfiniteSource(DATA \<ffffffffffff 020000000002 0806 0001>, LIMIT 3) -> in;
//! in[0] -> ip :: Counter -> Discard;
//! in[1], in[2], in[3], in[5] -> Discard;
//! in[4] -> others :: Counter -> Discard;
//! // ip.count = 5
//! // others.count = 3
//! ```

use super::find_interface::is_for_linux;
use crate::ip::interfaces;
use fib::{Interface, InterfaceSettings, Interfaces, SourceCheck};
use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, LocalCx, Loss, Out, Spec, Way};
use packet::Batch;
use packet::wire::ethernet::{self, HEADER_LEN, Mac};
use packet::wire::ipv4;
use std::sync::Arc;

const DOWN: Loss = Loss(0);
const IPV4: Way = Way::Port(0);
const IPV6: Way = Way::Port(1);
const CHECKED: Way = Way::Port(2);
const TAGGED: Way = Way::Port(3);
const OTHERS: Way = Way::Port(4);
const OPTIONS: Way = Way::Port(5);
/// Bytes that tell a plain IPv4 packet: the Ethernet header, and version and length of the next one.
const FRONT: usize = HEADER_LEN + 1;

/// See the module.
#[derive(Debug)]
pub struct PortInput {
    port: u16,
    interfaces: Arc<Interfaces>,
    address: Mac,
}

/// One worker's part of [`PortInput`].
#[derive(Debug)]
pub struct LocalPortInput {
    shared: Arc<PortInput>,
}

impl Class for PortInput {
    const SPEC: Spec = Spec { losses: &["down"], ..Spec::new("PortInput", "1/6", "h/h") };
    type Local = LocalPortInput;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<PortInput, ConfigErrors> {
        let port = args.keyword_if_given("PORT").unwrap_or_default();
        let interfaces = interfaces(args, cx).unwrap_or_else(|| Arc::new(Interfaces::new(cx.workers)));
        let address = args.required("ADDRESS");
        args.finish()?;
        Ok(PortInput { port, interfaces, address })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalPortInput {
        LocalPortInput { shared: self.clone() }
    }
}

/// What is the same for all frames of a batch.
struct Sorter<'a> {
    mac: u64,
    ipv4: Way,
    ipv6: Way,
    settings: Option<&'a InterfaceSettings>,
}

/// The destination in front of a frame as a number.
#[inline(always)]
fn destination<const N: usize>(head: &[u8; N]) -> u64 {
    let front = head.first_chunk().map_or(0, |front| u64::from_le_bytes(*front));
    front & 0xffff_ffff_ffff
}

impl Sorter<'_> {
    fn new(interface: Option<&Interface>, address: Mac) -> Sorter<'_> {
        let settings = interface.map(|interface| &interface.settings);
        let [a, b, c, d, e, f] = interface.map_or(address, |interface| interface.mac);
        let mac = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        let ipv4 = match settings {
            Some(settings) if settings.linux4 => OTHERS,
            Some(settings) if settings.sources != SourceCheck::Off => CHECKED,
            _ => IPV4,
        };
        let ipv6 = if settings.is_some_and(|settings| settings.linux6) { OTHERS } else { IPV6 };
        Sorter { mac, ipv4, ipv6, settings }
    }

    #[inline(always)]
    fn sort(&self, frame: &[u8]) -> Way {
        const PLAIN: [u8; 3] = {
            let [a, b] = ethernet::IPV4.to_be_bytes();
            [a, b, ipv4::PLAIN]
        };
        match frame.first_chunk::<FRONT>() {
            Some(front) if destination(front) == self.mac && front[HEADER_LEN - 2..] == PLAIN => self.ipv4,
            _ => self.sort_other(frame),
        }
    }

    #[inline]
    fn sort_other(&self, frame: &[u8]) -> Way {
        let Some(head) = frame.first_chunk::<HEADER_LEN>() else { return OTHERS };
        let ethertype = u16::from_be_bytes([head[12], head[13]]);
        if matches!(ethertype, ethernet::VLAN | ethernet::SERVICE_VLAN) {
            return TAGGED;
        }
        if destination(head) != self.mac && !self.is_virtual(head) {
            return OTHERS;
        }
        match ethertype {
            ethernet::IPV4 if self.ipv4 == OTHERS => OTHERS,
            ethernet::IPV4 if frame.get(HEADER_LEN) == Some(&ipv4::PLAIN) => self.ipv4,
            ethernet::IPV4 => OPTIONS,
            ethernet::IPV6 if is_for_linux(frame.get(HEADER_LEN..).unwrap_or_default()) => OTHERS,
            ethernet::IPV6 => self.ipv6,
            _ => OTHERS,
        }
    }

    fn is_virtual(&self, head: &[u8; HEADER_LEN]) -> bool {
        let mac = head.first_chunk();
        self.settings.zip(mac).is_some_and(|(settings, mac)| settings.has_virtual_mac(mac))
    }
}

impl Element for LocalPortInput {
    fn push(&mut self, _: usize, batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let PortInput { port, interfaces, address } = &*self.shared;
        let interface = interfaces.read(cx.reader).get((*port).into());
        if interface.is_some_and(|interface| !interface.up) {
            return out.lose_all(batch, DOWN);
        }
        let sorter = Sorter::new(interface, *address);
        if sorter.ipv4 == CHECKED {
            let number = u32::from(*port);
            return out.split(batch, |packet| {
                packet.set_next_hop(number);
                sorter.sort(packet.data())
            });
        }
        out.split(batch, |packet| sorter.sort(packet.data()));
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Bench, Setup};
    use crate::testing::{Frame, Lab, bytes};
    use fib::{Interface, InterfaceSettings, Interfaces, SourceCheck, Tags};
    use std::sync::Arc;

    const TEXT: &str = "f :: Feed -> p :: PortInput(PORT 1, INTERFACES main, ADDRESS 2:0:0:0:0:9);
        p[0] -> k0 :: Keep; p[1] -> k1 :: Keep; p[2] -> k2 :: Keep; p[3] -> k3 :: Keep; p[4] -> k4 :: Keep;
        p[5] -> k5 :: Keep;";

    /// Frames of each kind to two addresses; the last byte of each tells which it is.
    fn feed(lab: &mut Lab, at: u64) {
        let ip6 = |next: &str, source: &str| {
            format!("86dd 60000000 0000 {next} 40 {source}{} {}", "00".repeat(14), "20".repeat(16))
        };
        let ipv4 = "0800 450000140000000040110000 0a000001 0a010203".to_owned();
        let kinds = [ipv4, ip6("3b", "2001"), ip6("00", "2001"), ip6("3b", "fea0"), "0806 0001".to_owned()];
        for (i, to) in ["020000000009", "020000000001", "00005e000105"].into_iter().enumerate() {
            for (k, kind) in kinds.iter().enumerate() {
                lab.at(at, "f", &Frame::new(&bytes(&format!("{to} 020000000002 {kind} {i}{k}"))));
            }
        }
        for tag in ["8100 0064", "88a8 0064"] {
            lab.at(at, "f", &Frame::new(&bytes(&format!("020000000009 020000000002 {tag} 0800 99"))));
        }
        lab.at(at, "f", &Frame::new(&bytes("020000000009 ff")));
        lab.at(at, "f", &Frame::new(&bytes("020000000001 020000000002 0800 46 77")));
    }

    fn tags(lab: &Lab) -> [String; 6] {
        [0, 1, 2, 3, 4, 5].map(|k| {
            let last = |hex: &String| hex[hex.len() - 2..].to_owned();
            lab.kept_hex(&format!("k{k}")).iter().map(last).collect::<Vec<_>>().join(" ")
        })
    }

    fn run(one: Option<(bool, InterfaceSettings)>) -> (Lab, [String; 6]) {
        let setup = Setup::default();
        let all: Arc<Interfaces> = setup.tables.get_or("main", || Interfaces::new(1));
        if let Some((up, settings)) = one {
            let (name, counts) = ("eth1".to_owned(), all.counts());
            let mac = [2, 0, 0, 0, 0, 1];
            let one = Interface {
                name,
                port: 1,
                tags: Tags::NONE,
                mac,
                mtu: 1500,
                up,
                settings,
                vrf: None,
                counts,
            };
            all.set(vec![None, Some(one)]);
        }
        let mut lab = Lab(Bench::new(TEXT, &setup).unwrap_or_else(|e| panic!("{e}")));
        feed(&mut lab, 0);
        lab.run();
        let tags = tags(&lab);
        (lab, tags)
    }

    #[test]
    fn frames_are_sorted_by_address_and_contents() {
        let (lab, tags) = run(None);
        assert_eq!(tags, ["00", "01", "", "99 99", "02 03 04 10 11 12 13 14 20 21 22 23 24 ff 77", ""]);
        lab.end();
    }

    #[test]
    fn the_interface_says_which_addresses_and_families() {
        let (lab, tags) = run(Some((true, InterfaceSettings::default())));
        assert_eq!(tags, ["10", "11", "", "99 99", "00 01 02 03 04 12 13 14 20 21 22 23 24 ff", "77"]);
        lab.end();
        let virtual_macs: Arc<[_]> = [[0, 0, 0x5e, 0, 1, 5]].into();
        let settings = InterfaceSettings {
            linux6: true,
            virtual_macs: virtual_macs.clone(),
            ..InterfaceSettings::default()
        };
        let (lab, tags) = run(Some((true, settings)));
        assert_eq!(tags, ["10 20", "", "", "99 99", "00 01 02 03 04 11 12 13 14 21 22 23 24 ff", "77"]);
        lab.end();
        let settings =
            InterfaceSettings { sources: SourceCheck::Loose, virtual_macs, ..InterfaceSettings::default() };
        let (lab, tags) = run(Some((true, settings)));
        assert_eq!(tags, ["", "11 21", "10 20", "99 99", "00 01 02 03 04 12 13 14 22 23 24 ff", "77"]);
        lab.end();
        let settings = InterfaceSettings { linux4: true, ..InterfaceSettings::default() };
        let (lab, tags) = run(Some((true, settings)));
        assert_eq!(tags[..2], ["", "11"]);
        lab.end();
    }

    #[test]
    fn nothing_passes_that_is_down() {
        let (lab, tags) = run(Some((false, InterfaceSettings::default())));
        assert_eq!(tags, [""; 6]);
        assert_eq!(lab.losses(), ["p.down = 19"]);
        lab.end();
    }
}

//! Names of protocols, ports, ICMP types and TCP flags.

use packet::wire::{ipv4, tcp};

/// A protocol that is none: TCP and UDP together (`tcpudp`).
pub const TCP_UDP: u32 = 256;

const PROTOCOLS: &[(&str, u32)] = &[
    ("icmp", ipv4::ICMP as u32),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", ipv4::TCP as u32),
    ("egp", 8),
    ("udp", ipv4::UDP as u32),
    ("dccp", 33),
    ("ip6", 41),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("eigrp", 88),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
    ("tcpudp", TCP_UDP),
];

const PORTS: &[(&str, u32)] = &[
    ("echo", 7),
    ("discard", 9),
    ("daytime", 13),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("dns", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("finger", 79),
    ("www", 80),
    ("http", 80),
    ("pop3", 110),
    ("auth", 113),
    ("ntp", 123),
    ("imap2", 143),
    ("imap", 143),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("bgp", 179),
    ("irc", 194),
    ("imap3", 220),
    ("https", 443),
    ("route", 520),
    ("rip", 520),
    ("imaps", 993),
    ("pop3s", 995),
];

const TCP_FLAGS: &[(&str, u32)] = &[
    ("fin", tcp::FIN as u32),
    ("syn", tcp::SYN as u32),
    ("rst", tcp::RST as u32),
    ("psh", tcp::PSH as u32),
    ("ack", tcp::ACK as u32),
    ("urg", tcp::URG as u32),
    ("ece", 0x40),
    ("cwr", 0x80),
];

fn find(table: &[(&str, u32)], name: &str) -> Option<u32> {
    table.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
}

/// Number of a protocol, or [`TCP_UDP`].
pub fn protocol(name: &str) -> Option<u32> {
    find(PROTOCOLS, name)
}

/// Number of a well-known port.
pub fn port(name: &str) -> Option<u32> {
    find(PORTS, name)
}

/// Number of an ICMP type.
pub fn icmp_type(name: &str) -> Option<u32> {
    crate::icmp::names::type_number(name).map(u32::from)
}

/// Bit of a TCP flag.
pub fn tcp_flag(name: &str) -> Option<u32> {
    find(TCP_FLAGS, name)
}

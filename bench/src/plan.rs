//! What can be measured: the figures that have targets, and sweeps over one quantity each.

use clap::ValueEnum;
use fib::Family;
use fib::NextHop;
use std::fmt;
use std::net::Ipv4Addr;

/// A choice on the command line: a figure with a target, or a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Group {
    /// Everything that comes in goes out
    Io,
    /// Header check, lookup in a full table, TTL, link-layer addresses
    Ip,
    /// `io` with 65,536 packets in turn
    #[value(name = "io-64k")]
    Io64k,
    /// `ip` with 65,536 destinations
    #[value(name = "ip-64k")]
    Ip64k,
    /// `ip` with sixteen next hops on two ports
    #[value(name = "ip-2-ports")]
    TwoPorts,
    /// `ip-2-ports` with 65,536 destinations
    #[value(name = "ip-2-ports-64k")]
    TwoPorts64k,
    /// `ip` with IPv6: header check, lookup in a full table, hop limit, link-layer addresses
    Ip6,
    /// `ip6` with 65,536 destinations
    #[value(name = "ip6-64k")]
    Ip6_64k,
    /// An EtherEncap and a queue for each of four ports
    #[value(name = "classic-4-ports")]
    Classic,
    /// `ip` against the size of packets
    Size,
    /// `ip` against the size of the table
    Table,
    /// `ip` against the number of destinations
    Destinations,
    /// `ip` against the packets that move together
    Burst,
    /// `io` against the number of elements on the way
    Elements,
    /// `ip` against the number of workers
    Workers,
    /// Rate and added latency against the packets received, and sent, at a time
    Batching,
    /// Cycles per packet of `ip` against offered load, empty polls apart
    Load,
    /// Latency of `ip` at half of the most that it carries
    Latency,
    /// What the accounting of `show runtime` costs on `io` and `ip`
    Accounting,
    /// Queues shared and not, packets that change cores and that do not
    Cores,
    /// Frames from one process to another by our ring, next to net_memif
    Rings,
    /// IPv4 lookups alone, next to rte_fib and rte_lpm
    Lookups,
    /// IPv6 lookups alone, next to rte_fib6
    Lookups6,
    /// Four servers as one router: cycles at each node, throughput, order, latency, fairness, failure
    Cluster,
    /// Other programs on PATH, and Linux
    Others,
}

impl Group {
    /// Its name on the command line, in JSON and in the report.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Lengths of the frames of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// All of so many bytes in memory, without check sequence.
    Bytes(u16),
    /// Seven of 64 bytes, four of 594, one of 1518.
    Imix,
}

impl Frames {
    /// Of the `index`-th frame, in bytes.
    pub fn length(self, index: usize) -> u16 {
        const IMIX: [u16; 12] = [64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 64, 594];
        match self {
            Frames::Bytes(bytes) => bytes,
            Frames::Imix => IMIX[index % IMIX.len()],
        }
    }

    /// Of many frames, in bytes.
    pub fn mean(self) -> f64 {
        (0..12).map(|index| f64::from(self.length(index))).sum::<f64>() / 12.0
    }
}

impl fmt::Display for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Frames::Bytes(bytes) => write!(f, "{bytes}"),
            Frames::Imix => f.write_str("IMIX"),
        }
    }
}

/// Next hops of the routes, and the ports by which they are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hops {
    /// One, by the port that the packets come in by.
    OnePort,
    /// Sixteen, in turn by one and the other of two more ports.
    SixteenOnTwoPorts,
    /// Four, by the port that the packets come in by and by three more.
    FourPorts,
}

impl Hops {
    /// How many next hops there are.
    pub fn count(self) -> usize {
        match self {
            Hops::OnePort => 1,
            Hops::SixteenOnTwoPorts => 16,
            Hops::FourPorts => 4,
        }
    }

    /// The next hop of route `k`: each in turn.
    pub fn next_hop(self, k: usize) -> NextHop {
        let k = (k % self.count()) as u32;
        match self {
            Hops::OnePort | Hops::FourPorts => NextHop { gateway: None, port: k },
            Hops::SixteenOnTwoPorts => {
                let gateway = Ipv4Addr::from_bits(Ipv4Addr::new(192, 0, 2, 1).to_bits() + k);
                NextHop { gateway: Some(gateway.into()), port: k % 2 }
            }
        }
    }

    /// Ports beyond the one that the packets come in by: they send only.
    pub fn more_ports(self) -> usize {
        match self {
            Hops::OnePort => 0,
            Hops::SixteenOnTwoPorts => 2,
            Hops::FourPorts => 3,
        }
    }

    /// The arrangement's name.
    pub fn arrangement(self) -> &'static str {
        match self {
            Hops::OnePort => "one port",
            Hops::SixteenOnTwoPorts => "two ports, 16 next hops",
            Hops::FourPorts => "four ports, 4 next hops",
        }
    }
}

/// A figure that can be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it belongs to.
    pub group: Group,
    /// Where it stands in a sweep, as text and as a number.
    pub at: Option<(String, f64)>,
    /// The configuration's file.
    pub config: &'static str,
    /// Routes of the table that packets are looked up in; `None` if none are.
    pub routes: Option<usize>,
    /// Of packets and routes. Figures of IPv6 take the whole table, one port and 64 bytes.
    pub family: Family,
    /// Where the routes lead.
    pub hops: Hops,
    /// Destinations of the trace, one packet each.
    pub destinations: usize,
    /// Lengths of the frames.
    pub frames: Frames,
    /// Packets that move together, if not the program's own choice.
    pub burst: Option<u16>,
    /// Cores that forward, each with a receive queue of its own.
    pub workers: usize,
    /// The ratio to testpmd that must not be exceeded.
    pub target: Option<f64>,
}

const IO: &str = "conf/bench/io.click";
const IP: &str = "conf/bench/ip-path.click";
const IP_LARGE: &str = "conf/bench/ip-path-large-pool.click";
const IP6: &str = "conf/bench/ip6-path.click";
const IP6_LARGE: &str = "conf/bench/ip6-path-large-pool.click";
const CLASSIC: &str = "conf/bench/classic-4-ports.click";
const IP_2_PORTS: &str = "conf/bench/ip-path-2-ports.click";
const IO_MORE: [(usize, &str); 6] = [
    (0, IO),
    (1, "conf/bench/io-1-more.click"),
    (2, "conf/bench/io-2-more.click"),
    (4, "conf/bench/io-4-more.click"),
    (8, "conf/bench/io-8-more.click"),
    (16, "conf/bench/io-16-more.click"),
];
const MANY: usize = 65_536;
const ALL: Option<usize> = Some(usize::MAX);

impl Plan {
    /// A path through a router: 64-byte packets to 4,096 destinations of a full table.
    fn ip(group: Group) -> Plan {
        Plan {
            group,
            at: None,
            config: IP,
            routes: ALL,
            family: Family::Ipv4,
            hops: Hops::OnePort,
            destinations: 4096,
            frames: Frames::Bytes(64),
            burst: None,
            workers: 1,
            target: None,
        }
    }

    /// Packets that go out as they came in.
    fn io(group: Group) -> Plan {
        Plan { config: IO, routes: None, ..Plan::ip(group) }
    }

    fn at(self, value: usize) -> Plan {
        Plan { at: Some((value.to_string(), value as f64)), ..self }
    }

    /// Its own name.
    pub fn name(&self) -> String {
        match &self.at {
            Some((value, _)) => format!("{}-{}", self.group.name(), value.to_lowercase()),
            None => self.group.name(),
        }
    }
}

/// Figures of a group. Its sweep has all points that there are.
pub fn plans(group: Group) -> Vec<Plan> {
    let ip = || Plan::ip(group);
    let swept = |values: &[usize], plan: fn(Plan, usize) -> Plan| -> Vec<Plan> {
        values.iter().map(|&value| plan(ip(), value).at(value)).collect()
    };
    let two_ports = || Plan { config: IP_2_PORTS, hops: Hops::SixteenOnTwoPorts, ..ip() };
    let ip6 = || Plan { family: Family::Ipv6, ..ip() };
    match group {
        Group::Io => vec![Plan { target: Some(1.05), ..Plan::io(group) }],
        Group::Ip => vec![Plan { target: Some(1.45), ..ip() }],
        Group::Io64k => {
            vec![Plan { config: "conf/bench/io-large-pool.click", destinations: MANY, ..Plan::io(group) }]
        }
        Group::Ip64k => vec![Plan { config: IP_LARGE, destinations: MANY, target: Some(1.45), ..ip() }],
        Group::TwoPorts => vec![Plan { target: Some(1.8), ..two_ports() }],
        Group::TwoPorts64k => vec![Plan { destinations: MANY, target: Some(2.0), ..two_ports() }],
        Group::Ip6 => vec![Plan { config: IP6, ..ip6() }],
        Group::Ip6_64k => vec![Plan { config: IP6_LARGE, destinations: MANY, target: Some(1.7), ..ip6() }],
        Group::Classic => {
            vec![Plan { config: CLASSIC, hops: Hops::FourPorts, target: Some(2.2), ..ip() }]
        }
        Group::Size => {
            let sizes = [64, 128, 256, 512, 1024, 1280, 1518];
            let mut all = swept(&sizes, |plan, bytes| Plan { frames: Frames::Bytes(bytes as u16), ..plan });
            let at = Some(("IMIX".to_owned(), Frames::Imix.mean()));
            all.push(Plan { frames: Frames::Imix, at, ..ip() });
            all
        }
        Group::Table => {
            let mut all =
                swept(&[1000, 10_000, 100_000], |plan, routes| Plan { routes: Some(routes), ..plan });
            // How many that are is known when the table has been read.
            all.push(Plan { at: Some(("full".to_owned(), 1e6)), ..ip() });
            all
        }
        Group::Destinations => swept(&[1024, 4096, 16_384, MANY], |plan, destinations| Plan {
            destinations,
            // The same pool at all points, since its size has a price too.
            config: IP_LARGE,
            ..plan
        }),
        Group::Burst => {
            swept(&[1, 4, 8, 16, 32, 64, 128, 256], |plan, burst| Plan { burst: Some(burst as u16), ..plan })
        }
        Group::Elements => {
            let plan = |(n, config)| Plan { config, ..Plan::io(group) }.at(n);
            IO_MORE.map(plan).to_vec()
        }
        // They have ways of their own.
        Group::Accounting | Group::Batching | Group::Load | Group::Latency | Group::Cores | Group::Rings => {
            Vec::new()
        }
        Group::Lookups | Group::Lookups6 | Group::Cluster | Group::Others => Vec::new(),
        Group::Workers => swept(&[1, 2], |plan, workers| Plan { workers, ..plan }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn names_differ_and_configurations_exist() {
        let all: Vec<Plan> = Group::value_variants().iter().flat_map(|&group| plans(group)).collect();
        let names: BTreeSet<String> = all.iter().map(Plan::name).collect();
        assert_eq!(names.len(), all.len());
        assert!(names.contains("size-imix") && names.contains("ip-2-ports-64k"), "{names:?}");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert!(all.iter().all(|plan| root.join(plan.config).is_file()));
        // Only what has several ports has several next hops.
        let several = [IP_2_PORTS, CLASSIC];
        assert!(all.iter().all(|plan| several.contains(&plan.config) == (plan.hops != Hops::OnePort)));
    }

    #[test]
    fn imix_is_seven_to_four_to_one() {
        let count = |bytes| (0..12).filter(|&index| Frames::Imix.length(index) == bytes).count();
        assert_eq!([count(64), count(594), count(1518)], [7, 4, 1]);
        assert!((Frames::Imix.mean() - 361.833).abs() < 0.001);
    }
}

//! The configuration of a complete router, as a Click text.

use super::lookup::Lookup;
use super::twins::Port;
use graph::Router;
use std::fmt::Write;

/// Addresses that no packet may come from (RFC 1812 §5.3.7): this network, loopback, multicast, broadcast.
/// Nor from the router's own, nor go to 0.0.0.0.
const MARTIANS: &str = "0.0.0.0/8 127.0.0.0/8 224.0.0.0/4 255.255.255.255, BADDST 0.0.0.0, OWN main";
/// Unspecified, loopback, IPv4 addresses (RFC 4942 §2.2), multicast.
const MARTIANS6: &str = "::/127 ::ffff:0:0/96 ff00::/8";

/// Frames a second that Linux gets of each port at most, by kind; 0 = no limit, none = the default of `PuntLimiter`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PuntLimits {
    /// Routing protocols.
    pub protocols: Option<u32>,
    /// ARP and neighbour discovery.
    pub neighbours: Option<u32>,
    /// Everything else.
    pub others: Option<u32>,
}

impl PuntLimits {
    /// Sets these limits in a running router with so many ports.
    ///
    /// # Errors
    /// What the router says.
    pub fn apply(&self, router: &Router, ports: usize) -> Result<(), String> {
        let all = [("protocols", self.protocols), ("neighbours", self.neighbours), ("others", self.others)];
        for port in 0..ports {
            for (handler, limit) in all {
                let text = limit.map_or(String::new(), |limit| limit.to_string());
                router.write(&format!("punt{port}"), handler, &text).map_err(|e| e.to_string())?;
            }
        }
        Ok(())
    }

    /// The arguments of `PuntLimiter`, in parentheses if there are any.
    fn arguments(&self) -> String {
        let all = [("PROTOCOLS", self.protocols), ("NEIGHBOURS", self.neighbours), ("OTHERS", self.others)];
        let given = all.iter().filter_map(|(name, limit)| Some(format!("{name} {}", (*limit)?)));
        let given: Vec<String> = given.collect();
        if given.is_empty() { String::new() } else { format!("({})", given.join(", ")) }
    }
}

/// What elements that check sources are called, before the number of the port: of IPv4 and IPv6, of IPv4 with options, which
/// Linux forwards, then of these with tags.
const CHECKS: [&str; 6] = ["rpf", "rpf6_", "rpf_options", "vrpf_options", "vrpf", "vrpf6_"];

/// What elements that count packets by routes are called, in the same way.
const COUNTERS: [&str; 4] = ["count", "count6_", "vcount", "vcount6_"];

/// Which sources packets may have (uRPF, RFC 3704).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ReversePath {
    /// Those whose route leads out of the port that they come from.
    Strict,
    /// Those that there is a route to.
    Loose,
    /// All, until the settings say something else.
    Off,
}

impl ReversePath {
    fn name(self) -> &'static str {
        match self {
            ReversePath::Strict => "strict",
            ReversePath::Loose => "loose",
            ReversePath::Off => "off",
        }
    }

    /// From `strict`, `loose` or `off`.
    ///
    /// # Errors
    /// What it must be.
    pub fn of_word(text: &str) -> Result<ReversePath, String> {
        <ReversePath as clap::ValueEnum>::from_str(text, false).map_err(|_| "strict, loose or off".to_owned())
    }

    /// Sets it in a running router with so many ports that was started with some mode.
    ///
    /// # Errors
    /// What the router says.
    pub fn apply(self, router: &Router, ports: usize) -> Result<(), String> {
        for element in (0..ports).flat_map(|port| CHECKS.map(|name| format!("{name}{port}"))) {
            router.write(&element, "mode", self.name()).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// The element that checks it, with an arrow behind it.
    fn element(self, class: &str, lookup: &str, adjacencies: &str, from: &str) -> String {
        let mode = self.name();
        let nowhere = control::PUNT;
        format!("  -> {class}({lookup}, ADJACENCIES {adjacencies}, {from}, MODE {mode}, NOWHERE {nowhere})\n")
    }
}

/// What programs wait for with packet sockets although it is sent to addresses that the router does not have, or not yet: DHCP to
/// clients, servers and relays (RFC 2131 §4.1), in datagrams that are no fragments; the same of IPv6. To any unicast address:
/// Linux knows which are its own.
const SHOWN: [&str; 3] = [
    "12/0800 14/45 20/0000%1fff 23/11 36/0043",
    "12/0800 14/45 20/0000%1fff 23/11 36/0044",
    "12/86dd 20/11 56/0222%fffe",
];

/// Whether Linux gets, of all frames of a port in a running router, those that programs wait for with packet sockets.
///
/// # Errors
/// What the router says.
pub fn set_sockets(router: &Router, port: usize, listen: bool) -> Result<(), String> {
    let output = if listen { "1" } else { "0" };
    router.write(&format!("sockets{port}"), "switch", output).map_err(|e| e.to_string())
}

/// What packets pass beside what all pass, and what they are looked up in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// A check of sources.
    pub sources: Option<ReversePath>,
    /// A few of those that would leave by the interface that they came in by are left to Linux, which sends redirects.
    pub redirects: bool,
    /// Packets and bytes of each route are counted.
    pub counts: bool,
    /// What programs wait for with packet sockets goes to Linux while [`set_sockets`] says that there are some.
    pub sockets: bool,
    /// The structures of the tables.
    pub lookup: Lookup,
}

impl Extras {
    /// The element `name` of this class that checks sources with what `lookup` finds in `adjacencies`, with an arrow behind it;
    /// nothing if none is wanted.
    fn check(self, [class, name, lookup, adjacencies]: [&str; 4], i: usize, from: &str) -> String {
        let (class, lookup) = (format!("{name}{i} :: {class}"), format!("{lookup}{i}"));
        self.sources.map_or(String::new(), |mode| mode.element(&class, &lookup, adjacencies, from))
    }

    /// The element `name` of this class that counts what `lookup` looks up, with an arrow behind it; nothing if none is wanted.
    fn count(self, [class, name, lookup]: [&str; 3], i: usize, from: &str) -> String {
        if !self.counts {
            return String::new();
        }
        format!("  -> {name}{i} :: {class}({lookup}{i}, {from})\n")
    }

    /// Where the classifier gets its frames from, with an arrow behind it.
    fn source(self, i: usize) -> String {
        if !self.sockets {
            return format!("in{i} -> ");
        }
        let shown = SHOWN.map(|pattern| format!("0/00%01 {pattern}")).join(", ");
        format!(
            "in{i} -> sockets{i} :: Switch(0);\n\
             sockets{i}[1] -> shown{i} :: Classifier({shown}, -);\n\
             shown{i}[0], shown{i}[1], shown{i}[2] -> punt{i};\n\
             sockets{i}[0], shown{i}[3] -> ",
        )
    }

    /// The element that leaves some to Linux, if one is wanted, with an arrow before it; and that again, as what goes there.
    fn redirects(self, name: &str, adjacencies: &str, from: &str) -> [String; 2] {
        if !self.redirects {
            return [String::new(), String::new()];
        }
        let element = format!("\n  -> {name} :: DivertReturning(ADJACENCIES {adjacencies}, {from})");
        [element, format!(", {name}[1]")]
    }
}

/// The configuration for these ports, with these limits for each, and what is wanted beside that.
///
/// For each port: IPv4 and IPv6 packets to its address are checked, looked up in the tables that all ports share, and
/// leave with the header of their next hop, IPv4 packets that are too long for it in pieces. IPv4 packets with options that
/// pass the checks, everything else, and what is for the router itself, has no known neighbour, lived too long or is too long and may not be cut, goes to the twin as it came;
/// what Linux sends on the twin leaves by the port.
pub fn text(ports: &[Port], limits: PuntLimits, extras: Extras) -> String {
    let limits = limits.arguments();
    let mut text = String::from("// A router with Linux as its control plane.\n");
    for (i, port) in ports.iter().enumerate() {
        let Port { name, tap, .. } = port;
        let _ = write!(
            text,
            "\n// {name}: the port, and its twin in Linux.\n\
             in{i} :: FromDPDKDevice({name});\n\
             out{i} :: ToDPDKDevice({name});\n\
             punt{i} :: PuntLimiter{limits} -> twin{i} :: ToDPDKDevice(tap:{tap});\n\
             inject{i} :: FromDPDKDevice(tap:{tap}) -> out{i};\n",
        );
    }
    for (i, port) in ports.iter().enumerate() {
        text += &lookup((i, i), port, extras, ("SETTLE 10ms, ", ports.len()));
        for output in 0..ports.len() {
            let _ = writeln!(text, "next{i}[{output}], next6_{i}[{output}] -> out{output};");
        }
    }
    text
}

/// What packets from a port pass: classifier, checks, lookups, and the rewriting with these further arguments, and whatever
/// is wanted before and behind the lookups. What is rewritten leaves by the first `outputs` outputs of `next{i}` and
/// `next6_{i}`; too long IPv4 packets come back in pieces. The rest goes to `punt{i}`: what is not for the port's own address,
/// is nothing to be looked up, or cannot be rewritten. `number` is that of the port among interfaces.
pub fn lookup(
    (i, number): (usize, usize),
    port: &Port,
    extras: Extras,
    (rewrite, outputs): (&str, usize),
) -> String {
    let mac = port.mac.map(|byte| format!("{byte:x}")).join(":");
    let source = extras.source(i);
    let from = format!("INTERFACES main, PORT {number}");
    let [name4, name6, with_options, ..] = CHECKS;
    let check4 = extras.check(["CheckReversePath", name4, "rt", "main"], i, &from);
    let check_options = extras.check(["CheckReversePath", with_options, "rt", "main"], i, &from);
    let check6 = extras.check(["CheckIP6ReversePath", name6, "rt6_", "main6"], i, &from);
    let [count4, count6, ..] = COUNTERS;
    let count4 = extras.count(["RouteCounter", count4, "rt"], i, &from);
    let count6 = extras.count(["IP6RouteCounter", count6, "rt6_"], i, &from);
    let [back4, diverted4] = extras.redirects(&format!("back{i}"), "main", &format!("PORT {number}"));
    let [back6, diverted6] = extras.redirects(&format!("back6_{i}"), "main6", &format!("PORT {number}"));
    let [structure4, structure6] = extras.lookup.arguments(i);
    let rewrite = format!("{rewrite}UNRESOLVED {outputs}, EXPIRED {outputs}, TOO_LONG");
    let (punt, long) = (outputs, outputs + 1);
    let text = format!(
        "\n// From {name}: IPv4, IPv6, IPv4 whose sources Linux checks, VLANs, what is Linux's, and IPv4 with options.\n\
         {source}class{i} :: PortInput(PORT {number}, INTERFACES main, ADDRESS {mac});\n\
         class{i}[0] -> CheckIPHeader(BADSRC {MARTIANS}, OFFSET 14)\n\
         {check4}{count4}\x20 -> rt{i} :: DirectIPLookup(TABLE main, ONE_OUTPUT true, {structure4}{from}){back4}\n\
         \x20 -> next{i} :: AdjacencyRewrite(rt{i}, ADJACENCIES main, INTERFACES main, {rewrite} {long});\n\
         next{i}[{long}] -> cut{i} :: IPFragmenter(ADJACENCIES main) -> next{i};\n\
         class{i}[4] -> punt{i};\n\
         class{i}[5] -> CheckIPHeader(BADSRC {MARTIANS}, OFFSET 14)\n\
         {check_options}\x20 -> punt{i};\n\
         class{i}[1] -> CheckIP6Header(BADSRC {MARTIANS6}, OFFSET 14)\n\
         {check6}{count6}\x20 -> rt6_{i} :: LookupIP6Route(TABLE main, ONE_OUTPUT true, {structure6}{from}){back6}\n\
         \x20 -> next6_{i} :: IP6AdjacencyRewrite(rt6_{i}, ADJACENCIES main6, INTERFACES main, {rewrite} {punt});\n\
         next{i}[{punt}], next6_{i}[{punt}], cut{i}[1]{diverted4}{diverted6} -> punt{i};\n",
        name = port.name,
    );
    text + &tagged_lookup((i, number), port, extras)
}

/// What frames with VLAN tags pass: checks and lookups of their own, then what untagged ones do.
fn tagged_lookup((i, number): (usize, usize), port: &Port, extras: Extras) -> String {
    let [.., with_options, name4, name6] = CHECKS;
    let check4 = extras.check(["CheckReversePath", name4, "vrt", "main"], i, "INTERFACES main");
    let check_options = extras.check(["CheckReversePath", with_options, "vrt", "main"], i, "INTERFACES main");
    let first_options = extras.sources.map_or("punt", |_| with_options);
    let check6 = extras.check(["CheckIP6ReversePath", name6, "vrt6_", "main6"], i, "INTERFACES main");
    let [.., of4, of6] = COUNTERS;
    let count4 = extras.count(["RouteCounter", of4, "vrt"], i, "INTERFACES main");
    let count6 = extras.count(["IP6RouteCounter", of6, "vrt6_"], i, "INTERFACES main");
    let first6 = match extras {
        Extras { sources: Some(_), .. } => name6,
        Extras { counts: true, .. } => of6,
        _ => "vrt6_",
    };
    let nowhere = control::PUNT;
    let policy = control::BY_POLICY;
    let from = format!("PORT {number}, INTERFACES main");
    let [back4, diverted4] = extras.redirects(&format!("vback{i}"), "main", &from);
    let [back6, diverted6] = extras.redirects(&format!("vback6_{i}"), "main6", &from);
    format!(
        "// Of VLANs on {name}: with one tag, with two.\n\
         class{i}[3] -> vlan{i} :: FindInterface(PORT {number}, INTERFACES main);\n\
         vlan{i}[0] -> CheckIPHeader(BADSRC {MARTIANS}, OFFSET 18)\n\
         \x20 -> source{i} :: CheckReversePath(vrt{i}, ADJACENCIES main, INTERFACES main, MODE linux, NOWHERE {nowhere}, POLICY {policy})\n\
         {check4}{count4}\x20 -> vrt{i} :: DirectIPLookup(TABLE main, ONE_OUTPUT true, INTERFACES main){back4} -> next{i};\n\
         source{i}[1] -> punt{i};\n\
         vlan{i}[2] -> CheckIPHeader(BADSRC {MARTIANS}, OFFSET 22) -> source{i};\n\
         class{i}[2] -> CheckIPHeader(BADSRC {MARTIANS}, OFFSET 14) -> source{i};\n\
         vlan{i}[1] -> CheckIP6Header(BADSRC {MARTIANS6}, OFFSET 18)\n\
         {check6}{count6}\x20 -> vrt6_{i} :: LookupIP6Route(TABLE main, ONE_OUTPUT true, INTERFACES main){back6} -> next6_{i};\n\
         vlan{i}[3] -> CheckIP6Header(BADSRC {MARTIANS6}, OFFSET 22) -> {first6}{i};\n\
         vlan{i}[5] -> CheckIPHeader(BADSRC {MARTIANS}, OFFSET 18)\n\
         {check_options}\x20 -> punt{i};\n\
         vlan{i}[6] -> CheckIPHeader(BADSRC {MARTIANS}, OFFSET 22) -> {first_options}{i};\n\
         vlan{i}[4]{diverted4}{diverted6} -> punt{i};\n",
        name = port.name,
    )
}

#[cfg(test)]
mod tests {
    use super::super::lookup::Wanted;
    use super::*;
    use crate::config::Configuration;

    #[test]
    fn whatever_is_wanted_it_is_a_configuration() {
        let port = |n: u8| Port::idle(&format!("eth{n}"), [2, 0, 0, 0, 0, n]);
        let wanted = [
            (None, false, false),
            (Some(ReversePath::Off), true, false),
            (None, true, true),
            (Some(ReversePath::Loose), false, true),
        ];
        for (sources, redirects, counts) in wanted {
            let extras = Extras { sources, redirects, counts, ..Extras::default() };
            let text = text(&[port(1), port(2)], PuntLimits::default(), extras);
            let configuration = Configuration::of_text("router", text.clone()).unwrap();
            configuration.check_elements(1).unwrap();
            let count = |class: &str| text.matches(class).count();
            let expected = if sources.is_some() { CHECKS.len() } else { 0 };
            assert_eq!(
                (count("CheckReversePath(") + count("CheckIP6ReversePath("), sources),
                // Beside these, one for what Linux checks.
                (2 * (expected + 1), sources)
            );
            assert_eq!(count("DivertReturning("), if redirects { 8 } else { 0 });
            assert_eq!(count(":: RouteCounter(") + count(":: IP6RouteCounter("), if counts { 8 } else { 0 });
            assert_eq!(
                CHECKS.map(|name| text.contains(&format!("{name}1 ::"))),
                [sources.is_some(); CHECKS.len()]
            );
        }
    }

    #[test]
    fn a_structure_is_asked_for_once_and_elements_know_all() {
        let port = |n: u8| Port::idle(&format!("eth{n}"), [2, 0, 0, 0, 0, n]);
        let text =
            |lookup| text(&[port(1), port(2)], PuntLimits::default(), Extras { lookup, ..Extras::default() });
        assert!(!text(Lookup::default()).contains("STRUCTURE"));
        // None of these is what a table is in by itself.
        for name in Wanted::names::<u128>().filter(|name| *name != "range_tree") {
            let (ipv4, ipv6) = (Wanted::of_name::<u32>(name), Wanted::of_name::<u128>(name));
            let text = text(Lookup { ipv4: ipv4.unwrap(), ipv6: ipv6.unwrap() });
            for rt in ["rt0 :: DirectIPLookup", "rt6_0 :: LookupIP6Route"] {
                let told =
                    format!("{rt}(TABLE main, ONE_OUTPUT true, STRUCTURE {name}, INTERFACES main, PORT 0)");
                assert!(text.contains(&told), "{text}");
            }
            assert_eq!(text.matches("STRUCTURE").count(), 2);
            Configuration::of_text("router", text).unwrap().check_elements(1).unwrap();
        }
    }

    #[test]
    fn limits_are_arguments() {
        assert_eq!(PuntLimits::default().arguments(), "");
        let limits = PuntLimits { protocols: None, neighbours: Some(0), others: Some(7) };
        assert_eq!(limits.arguments(), "(NEIGHBOURS 0, OTHERS 7)");
    }
}

//! Where our router differs from Linux on purpose, and why.

use std::net::IpAddr;

use lab::Result;
use lab::netns::Namespace;
use lab::packets::Mac;
use serde_json::Value;

use crate::labs::{Output, mac_of, shown};
use crate::traffic::{PORTS, Packet};

/// What two routers made of one packet, when it is not the same.
pub struct Difference<'a> {
    pub packet: &'a Packet,
    pub theirs: &'a [Output],
    pub ours: &'a [Output],
    /// Where the reference is.
    pub linux: &'a Namespace,
    /// Whether each port is up and has a carrier.
    pub carriers: [bool; PORTS],
}

/// The name of what foresees a difference, if anything does.
pub fn find(d: &Difference<'_>) -> Result<Option<&'static str>> {
    let (source, destination) = d.packet.ends();
    if d.packet.has_times() && d.theirs.len() == d.ours.len() {
        return Ok(Some("times in timestamp options"));
    }
    if d.ours.is_empty() && is_no_source(source) {
        return Ok(Some("sources that are no host's"));
    }
    if d.ours.is_empty() && matches!(destination, IpAddr::V4(ip) if ip.is_unspecified()) {
        return Ok(Some("destination 0.0.0.0"));
    }
    if d.theirs.is_empty() && is_forwarded(d) && is_checked_in_full(d.linux, source) {
        return Ok(Some("sources under broadcast routes, or local ones that are no addresses"));
    }
    let ways = ways(d, destination)?;
    if ways.len() > 1 && !d.ours.is_empty() && d.ours.iter().all(|output| is_one_of(output, &ways)) {
        return Ok(Some("another way of the same route"));
    }
    if ways.len() == 1 && is_cut_more(d) && is_wide(d, destination) {
        return Ok(Some("a route's MTU above that of its link"));
    }
    if d.carriers.contains(&false) && d.theirs.iter().all(is_unreachable) && is_forwarded(d) {
        return Ok(Some("a backup in place of a way without a carrier"));
    }
    Ok(None)
}

/// `docs/linux-control-plane.md`: dropped as `bad_source` although Linux may forward from them.
fn is_no_source(source: IpAddr) -> bool {
    match source {
        IpAddr::V4(ip) => matches!(ip.octets()[0], 0 | 127),
        IpAddr::V6(ip) => ip.is_unspecified() || ip.to_ipv4_mapped().is_some(),
    }
}

/// Both sent the packet on by the same port, ours in more pieces.
fn is_cut_more(d: &Difference<'_>) -> bool {
    let port = |outputs: &[Output]| outputs.first().map(|(port, _)| *port);
    is_forwarded(d) && port(d.ours) == port(d.theirs) && d.ours.len() > d.theirs.len()
}

/// True if the reference's route has an MTU that is above the one of its interface.
fn is_wide(d: &Difference<'_>, destination: IpAddr) -> bool {
    let tos = format!("{:#x}", d.packet.tos());
    let words = ["route", "get", "fibmatch", &destination.to_string(), "tos", &tos];
    let route = shown(d.linux, &words).unwrap_or_default();
    let Some(device) = route[0]["dev"].as_str() else { return false };
    let link = shown(d.linux, &["link", "show", "dev", device]).unwrap_or_default();
    route[0]["metrics"][0]["mtu"].as_u64() > link[0]["mtu"].as_u64()
}

/// True for an address with a broadcast route, or one under a local route. Linux looks at these routes only if the packet
/// leaves by the interface that it came in by, or if there has ever been a local route that somebody made.
fn is_checked_in_full(linux: &Namespace, source: IpAddr) -> bool {
    let words = ["route", "show", "table", "local", "match", &source.to_string()];
    let found = shown(linux, &words).unwrap_or_default();
    let is_such = |route: &Value| matches!(route["type"].as_str(), Some("broadcast" | "local"));
    source.is_ipv4() && found.as_array().is_some_and(|routes| routes.iter().any(is_such))
}

/// All that came out of ours is the packet, sent on by ports that have a carrier.
fn is_forwarded(d: &Difference<'_>) -> bool {
    let (source, _) = d.packet.ends();
    !d.ours.is_empty() && d.ours.iter().all(|(_, frame)| source_of(frame) == Some(source))
}

fn source_of(frame: &[u8]) -> Option<IpAddr> {
    let frame = lab::view::Frame::parse(frame)?;
    frame.ip().map(|ip| ip.source().into()).or_else(|| frame.ip6().map(|ip| ip.source().into()))
}

/// Whether a frame is an ICMP message of this type and code, of one for each family.
fn is_icmp(frame: &[u8], four: (u8, u8), six: (u8, u8)) -> bool {
    let Some(frame) = lab::view::Frame::parse(frame) else { return false };
    let message4 = frame.ip().and_then(|ip| ip.icmp()).map(|message| (message.kind(), message.code()));
    let message6 = frame.ip6().and_then(|ip| ip.icmp6()).map(|message| (message.kind(), message.code()));
    message4 == Some(four) || message6 == Some(six)
}

/// An ICMP error that says that a host or an address cannot be reached.
fn is_unreachable((_, frame): &Output) -> bool {
    is_icmp(frame, (3, 1), (1, 3))
}

/// True if the frame left by one of these ways, or is an error about its length.
fn is_one_of((port, frame): &Output, ways: &[(usize, Option<Mac>)]) -> bool {
    let Some(parsed) = lab::view::Frame::parse(frame) else { return false };
    is_icmp(frame, (3, 4), (2, 0))
        || ways.iter().any(|(way, mac)| way == port && mac.is_none_or(|mac| mac == parsed.to))
}

/// The ways of the route that the reference takes, with the neighbours of those that have a gateway.
fn ways(d: &Difference<'_>, destination: IpAddr) -> Result<Vec<(usize, Option<Mac>)>> {
    let (source, _) = d.packet.ends();
    let (to, from) = (destination.to_string(), source.to_string());
    let input = format!("eth{}", d.packet.port + 1);
    let tos = format!("{:#x}", d.packet.tos());
    let words = ["route", "get", "fibmatch", &to, "from", &from, "iif", &input, "tos", &tos];
    let found = match shown(d.linux, &words) {
        Ok(found) => found,
        Err(_) => shown(d.linux, &["route", "get", "fibmatch", &to]).unwrap_or_default(),
    };
    let route = &found[0];
    let mut ways = Vec::new();
    match route["nhid"].as_u64() {
        Some(id) => add_object(d.linux, id, &mut ways)?,
        None => match route["nexthops"].as_array() {
            Some(hops) => hops.iter().for_each(|hop| ways.extend(way(d.linux, hop))),
            None => ways.extend(way(d.linux, route)),
        },
    }
    Ok(ways)
}

fn add_object(linux: &Namespace, id: u64, ways: &mut Vec<(usize, Option<Mac>)>) -> Result<()> {
    let found = shown(linux, &["nexthop", "show", "id", &id.to_string()])?;
    match found[0]["group"].as_array() {
        Some(members) => {
            for member in members.iter().filter_map(|member| member["id"].as_u64()) {
                add_object(linux, member, ways)?;
            }
        }
        None => ways.extend(way(linux, &found[0])),
    }
    Ok(())
}

fn way(linux: &Namespace, hop: &Value) -> Option<(usize, Option<Mac>)> {
    let name = hop["dev"].as_str()?;
    let port = name.strip_prefix("eth")?.parse::<usize>().ok()?.checked_sub(1)?;
    let gateway = hop["gateway"].as_str().or(hop["via"]["host"].as_str());
    let mac = gateway.and_then(|text| text.parse().ok()).map(|ip: IpAddr| {
        // A permanent neighbour is where it was said to be.
        let known = shown(linux, &["neighbour", "show", "to", &ip.to_string(), "dev", name]);
        let set = known.ok().and_then(|known| parse_mac(known[0]["lladdr"].as_str()?));
        set.unwrap_or_else(|| mac_of(port, ip))
    });
    Some((port, mac))
}

fn parse_mac(text: &str) -> Option<Mac> {
    let octets: Vec<u8> = text.split(':').map_while(|part| u8::from_str_radix(part, 16).ok()).collect();
    Some(Mac(octets.try_into().ok()?))
}

/// What the reference knows of a packet's source and destination, for whoever reads of a difference.
pub fn routes(linux: &Namespace, packet: &Packet) -> String {
    let (source, destination) = packet.ends();
    let asked = [source, destination].map(|address| {
        let words = ["route", "get", "fibmatch", &address.to_string()];
        let found = shown(linux, &words).map_or_else(|error| error.to_string(), |found| found.to_string());
        format!("  route to {address}: {found}\n")
    });
    asked.concat()
}

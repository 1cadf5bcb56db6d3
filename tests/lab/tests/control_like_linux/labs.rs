//! Two routers between silent hosts: a plain Linux and ours. The same is done to both, and the same sent into both.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use lab::capture::{RawPort, wait_for_frames};
use lab::netns::{Namespace, command};
use lab::packets::{ETHERTYPE_IP, Mac, arp_reply, checksum};
use lab::packets6::{ETHERTYPE_IP6, FRAGMENT, Neighbour};
use lab::twins::{LIMIT, Stage};
use lab::view::{Frame, Packet as Packet4};
use lab::wait::{go_on, wait_until};
use lab::{Context, Error, Result, hosts};

use crate::operations::{Step, base, state, sysctl_defaults};
use crate::traffic::{PORTS, Packet, number_in};

/// How long it must be quiet when both have sent the same.
const QUIET: Duration = Duration::from_millis(3);
/// How long ours may take for what it has not sent yet.
const GRACE: Duration = Duration::from_millis(60);
/// How long a neighbour behind a cable that is out is asked for, and a little more.
const UNREACHABLE: Duration = Duration::from_millis(260);

/// A frame that came out: port, all of it but what says nothing.
pub type Output = (usize, Vec<u8>);

/// What came out of one router, by number of the packet.
pub type Outputs = BTreeMap<u32, Vec<Output>>;

/// One router with its hosts.
pub struct Lab<'a> {
    /// Where its interfaces are.
    pub router: &'a Namespace,
    hosts: &'a [Namespace],
    ports: Vec<RawPort>,
    /// What has come out of it.
    pub outputs: Outputs,
}

/// Both routers.
pub struct Labs<'a> {
    /// The reference, and ours.
    pub both: [Lab<'a>; 2],
    stage: &'a Stage,
    macs: [Mac; PORTS],
    port_up: [bool; PORTS],
    cable_up: [bool; PORTS],
    next: u32,
    mark: u32,
}

/// A Linux router with as many hosts as a stage.
pub struct Reference {
    router: Namespace,
    hosts: Vec<Namespace>,
}

impl Reference {
    pub fn new() -> Result<Reference> {
        let router = Namespace::unique("linux")?;
        let ports: Vec<String> = (1..=PORTS).map(|n| format!("eth{n}")).collect();
        let hosts = hosts::behind(&router, &ports)?;
        Ok(Reference { router, hosts })
    }
}

impl<'a> Labs<'a> {
    /// Gives both routers the same settings, addresses and routes.
    pub fn new(reference: &'a Reference, stage: &'a Stage) -> Result<Labs<'a>> {
        let lab = |router: &'a Namespace, hosts: &'a [Namespace]| {
            for host in hosts {
                host.set("net/ipv6/conf/all/disable_ipv6", "1")?;
                host.ip("address flush dev eth0\n")?;
            }
            let ports = hosts.iter().map(|host| RawPort::open(host, "eth0")).collect::<Result<_>>()?;
            prepare(router)?;
            Ok(Lab { router, hosts, ports, outputs: Outputs::new() })
        };
        let both = [lab(&reference.router, &reference.hosts)?, lab(&stage.inside, &stage.hosts)?];
        for handler in ["others", "neighbours", "protocols"] {
            for port in 0..PORTS {
                stage.router.write(&format!("punt{port}"), handler, "0")?;
            }
        }
        let macs = [1, 2, 3].map(|n| Mac([2, 0, 0, 0, 0, n]));
        let mut labs =
            Labs { both, stage, macs, port_up: [true; PORTS], cable_up: [true; PORTS], next: 1, mark: 0 };
        let begin: Vec<Step> = (0..PORTS).flat_map(base).collect();
        labs.play(&begin)?;
        Ok(labs)
    }

    /// True if every port is up and has a carrier.
    pub fn is_whole(&self) -> bool {
        (0..PORTS).all(|port| self.has_carrier(port))
    }

    pub fn has_carrier(&self, port: usize) -> bool {
        self.port_up[port] && self.cable_up[port]
    }

    /// Does the same to both routers, which must answer alike, and waits until ours is in step.
    pub fn play(&mut self, steps: &[Step]) -> Result<()> {
        self.mark = self.mark % 60_000 + 1;
        let mark = self.mark;
        let prefix = |mark: u32| format!("198.18.{}.{}/32", mark >> 8, mark & 0xff);
        for step in steps {
            self.step(step)?;
        }
        let last = if mark == 1 { 60_000 } else { mark - 1 };
        let text = format!("route replace blackhole {}\nroute del {}\n", prefix(mark), prefix(last));
        for lab in &self.both {
            ip(lab.router, &text)?;
        }
        self.wait_for_carriers()?;
        let wanted = prefix(mark);
        let what = format!("our router to be in step after {}", describe(steps));
        let deadline = Instant::now() + LIMIT;
        while !self.is_in_step(&wanted)? {
            self.read()?;
            go_on()?;
            if Instant::now() > deadline {
                return Err(Error::new(format!("{what}: not within {LIMIT:?}")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Ip(words) => self.ip_alike(words),
            Step::Sysctl(name, value) => {
                let done: Vec<bool> =
                    self.both.iter().map(|lab| lab.router.set(name, value).is_ok()).collect();
                // Kernels differ in what they know, the two routers do not.
                if done[0] == done[1] { Ok(()) } else { Err(Error::new(format!("{step}: {done:?}"))) }
            }
            Step::Mac(port, octet) => {
                let n = *port as u8 + 1;
                self.macs[*port] = Mac([2, 0, 0, 0, *octet, n]);
                self.ip_alike(&format!("link set eth{n} address {}", self.macs[*port]))
            }
            Step::Port(port, up) => {
                self.port_up[*port] = *up;
                self.ip_alike(&format!("link set eth{} {}", port + 1, state(*up)))
            }
            Step::Cable(port, up) => {
                self.cable_up[*port] = *up;
                let text = format!("link set eth0 {}\n", state(*up));
                self.both.iter().try_for_each(|lab| lab.hosts[*port].ip(&text))
            }
        }
    }

    fn ip_alike(&self, words: &str) -> Result<()> {
        let [theirs, ours] = [0, 1].map(|i| ip(self.both[i].router, &format!("{words}\n")));
        let (theirs, ours) = (theirs?, ours?);
        if theirs == ours {
            return Ok(());
        }
        Err(Error::new(format!("ip {words}: Linux says {theirs:?}, on twins {ours:?}")))
    }

    /// The kernel tells of carriers up to a second late; of what it has told, the routes follow.
    fn wait_for_carriers(&mut self) -> Result<()> {
        for port in 0..PORTS {
            let wanted = self.has_carrier(port);
            for i in 0..2 {
                let router = self.both[i].router;
                let what = format!("eth{} of {} to have carrier: {wanted}", port + 1, router.name());
                wait_until(&what, LIMIT, || {
                    self.read()?;
                    let shown = operstate(router, port)?;
                    Ok(((shown == "UP" || shown == "UNKNOWN") == wanted).then_some(()))
                })?;
            }
        }
        Ok(())
    }

    fn is_in_step(&self, mark: &str) -> Result<bool> {
        let table = self.stage.router.handler("rt0", "table")?;
        if !table.lines().any(|line| line.contains(mark)) {
            return Ok(false);
        }
        let control = self.stage.router.api("control")?;
        Ok(control["rows"][0]["state"] == "in step")
    }

    /// Sends these packets into both, and collects what comes out: the number of each, in order.
    pub fn pass(&mut self, packets: &[&Packet]) -> Result<Vec<u32>> {
        let mut numbers = Vec::new();
        for packet in packets {
            let number = self.next;
            self.next += 1;
            numbers.push(number);
            if !self.has_carrier(packet.port) {
                continue;
            }
            let frame = packet.frame(number, self.macs[packet.port]);
            for lab in &self.both {
                lab.ports[packet.port].offer(&frame)?;
            }
            if number.is_multiple_of(16) {
                self.read()?;
            }
        }
        let begun = Instant::now();
        let least = if self.is_whole() { QUIET } else { UNREACHABLE };
        let (mut last, mut most) = (begun, GRACE.max(least));
        loop {
            go_on()?;
            let all: Vec<&RawPort> = self.both.iter().flat_map(|lab| &lab.ports).collect();
            wait_for_frames(&all, Duration::from_millis(1))?;
            if self.read()? {
                last = Instant::now();
            }
            let alike = numbers.iter().all(|number| self.alike(*number));
            if alike && last.elapsed() >= QUIET && begun.elapsed() >= least {
                return Ok(numbers);
            }
            if begun.elapsed() > most {
                // What still comes is waited for.
                most = most.max(GRACE);
                if last.elapsed() >= QUIET {
                    return Ok(numbers);
                }
            }
        }
    }

    /// What came out of the reference and of ours for a packet.
    pub fn outputs(&self, number: u32) -> [&[Output]; 2] {
        [0, 1].map(|i| self.both[i].outputs.get(&number).map_or(&[][..], Vec::as_slice))
    }

    pub fn alike(&self, number: u32) -> bool {
        let [theirs, ours] = self.outputs(number);
        theirs == ours
    }

    /// Forgets what came out for packets up to this one.
    pub fn forget(&mut self, number: u32) {
        for lab in &mut self.both {
            lab.outputs = lab.outputs.split_off(&(number + 1));
        }
    }

    /// Reads what has come, and answers for all neighbours. True if anything has.
    pub fn read(&mut self) -> Result<bool> {
        let mut any = false;
        for lab in &mut self.both {
            any |= lab.read()?;
        }
        Ok(any)
    }
}

impl Lab<'_> {
    fn read(&mut self) -> Result<bool> {
        let mut any = false;
        for port in 0..PORTS {
            while let Some(frame) = self.ports[port].receive()? {
                if self.answer(port, &frame)? {
                    continue;
                }
                if let Some(number) = number_in(&frame).filter(|_| !is_left_aside(&frame)) {
                    any = true;
                    let outputs = self.outputs.entry(number).or_default();
                    outputs.push((port, normal(&frame, number)?));
                    outputs.sort();
                }
            }
        }
        Ok(any)
    }

    /// Answers for whoever is asked for.
    fn answer(&self, port: usize, frame: &[u8]) -> Result<bool> {
        let Some(parsed) = Frame::parse(frame) else { return Ok(true) };
        if let Some((asker, asker_address, wanted)) = parsed.arp_request() {
            if asker_address != wanted && !asker_address.is_unspecified() {
                let mac = mac_of(port, wanted.into());
                self.ports[port].offer(&arp_reply(mac, wanted, asker, asker_address))?;
            }
            return Ok(true);
        }
        let Some(ip) = parsed.ip6().filter(|ip| ip.is_of_the_link()) else { return Ok(false) };
        if let Some(wanted) = ip.wanted().filter(|_| !ip.source().is_unspecified()) {
            let answer = Neighbour::tell(wanted, mac_of(port, wanted.into()), ip.source(), parsed.from);
            self.ports[port].offer(&answer)?;
        }
        Ok(true)
    }
}

/// The address of whoever has this one behind a port.
pub fn mac_of(port: usize, ip: IpAddr) -> Mac {
    let octets = match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let hash = octets
        .iter()
        .fold(0x811c_9dc5_u32, |hash, octet| (hash ^ u32::from(*octet)).wrapping_mul(0x0100_0193));
    let [a, b, c, _] = hash.to_be_bytes();
    Mac([2, 0xa0, port as u8, a, b, c])
}

/// Redirects, whose rate Linux limits, and reassembly that has taken too long.
fn is_left_aside(frame: &[u8]) -> bool {
    let Some(parsed) = Frame::parse(frame) else { return true };
    if let Some(message) = parsed.ip().and_then(|ip| ip.icmp()) {
        return message.kind() == 5 || (message.kind(), message.code()) == (11, 1);
    }
    let message = parsed.ip6().and_then(|ip| ip.icmp6());
    message.is_some_and(|message| message.kind() == 137 || (message.kind(), message.code()) == (3, 1))
}

/// The frame without what a router puts into its own packets as it likes.
fn normal(frame: &[u8], number: u32) -> Result<Vec<u8>> {
    let mut bytes = frame.to_vec();
    let ethertype = u16::from_be_bytes([bytes[12], bytes[13]]);
    if ethertype == ETHERTYPE_IP && bytes.len() >= 34 {
        let Some(ip) = Packet4::parse(&frame[14..]) else { return Ok(bytes) };
        if checksum(ip.header()) != 0 {
            return Err(Error::new(format!("a wrong checksum came out: {frame:02x?}")));
        }
        if ip.id() != number as u16 {
            bytes[18..20].fill(0);
            bytes[24..26].fill(0);
        }
    } else if ethertype == ETHERTYPE_IP6 && bytes.len() >= 54 {
        let label = u32::from_be_bytes([0, bytes[15], bytes[16], bytes[17]]) & 0xf_ffff;
        if label != number & 0xf_ffff {
            bytes[15] &= 0xf0;
            bytes[16..18].fill(0);
            // The identification of a packet that the router itself has cut.
            if bytes[20] == FRAGMENT && bytes.len() >= 62 {
                bytes[58..62].fill(0);
            }
        }
    }
    Ok(bytes)
}

fn prepare(router: &Namespace) -> Result<()> {
    // Not all kernels have all of these for a namespace.
    for (name, value) in [
        ("net/ipv4/icmp_ratelimit", "0"),
        ("net/ipv4/icmp_ratemask", "0"),
        ("net/ipv4/icmp_msgs_per_sec", "1000000"),
        ("net/ipv4/icmp_msgs_burst", "1000000"),
        ("net/ipv6/icmp/ratelimit", "0"),
        ("net/ipv6/auto_flowlabels", "0"),
        ("net/ipv4/icmp_echo_ignore_broadcasts", "1"),
    ] {
        let _ = router.set(name, value);
    }
    for name in ["all", "default", "eth1", "eth2", "eth3"] {
        router.set(&format!("net/ipv6/conf/{name}/accept_dad"), "0")?;
        router.set(&format!("net/ipv6/conf/{name}/dad_transmits"), "0")?;
    }
    for name in ["all", "eth1", "eth2", "eth3"] {
        for step in sysctl_defaults(name) {
            if let Step::Sysctl(variable, value) = step {
                let _ = router.set(&variable, &value);
            }
        }
    }
    for name in ["eth1", "eth2", "eth3"] {
        for family in ["ipv4", "ipv6"] {
            let neighbour = |variable: &str| format!("net/{family}/neigh/{name}/{variable}");
            // Whoever is not there is given up after 180 ms.
            router.set(&neighbour("retrans_time_ms"), "60")?;
            router.set(&neighbour("unres_qlen"), "1000")?;
            if family == "ipv4" {
                router.set(&neighbour("locktime"), "0")?;
            }
        }
        router.ip(&format!("address flush dev {name}\nlink set {name} up\n"))?;
    }
    Ok(())
}

/// Runs `ip` commands in a namespace: what it complains of.
pub fn ip(namespace: &Namespace, lines: &str) -> Result<String> {
    let mut child = command("ip")
        .args(["-n", namespace.name(), "-force", "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .cannot(|| "run ip".to_owned())?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(lines.as_bytes()).cannot(|| "write to ip".to_owned())?;
    }
    let output = child.wait_with_output().cannot(|| "wait for ip".to_owned())?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// What a command prints as JSON.
pub fn shown(namespace: &Namespace, words: &[&str]) -> Result<serde_json::Value> {
    let mut command = command("ip");
    command.args(["-n", namespace.name(), "-j"]).args(words);
    let text = lab::netns::succeed(&mut command)?;
    let text = if text.trim().is_empty() { "[]" } else { text.trim() };
    serde_json::from_str(text).cannot(|| format!("read what ip {words:?} prints"))
}

fn operstate(namespace: &Namespace, port: usize) -> Result<String> {
    let all = shown(namespace, &["link", "show", "dev", &format!("eth{}", port + 1)])?;
    Ok(all[0]["operstate"].as_str().unwrap_or_default().to_owned())
}

pub fn describe(steps: &[Step]) -> String {
    steps.iter().map(Step::to_string).collect::<Vec<_>>().join("; ")
}

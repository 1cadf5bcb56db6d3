//! A Linux router like that of a stage, and what the hosts of either get of the same frames.

use super::RAW_SOCKET;
use lab::netns::Namespace;
use lab::twins::LIMIT;
use lab::wait::wait_until;
use lab::{Context, Error, Result};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};

/// What programs that listen begin with: `frames`, what comes in with its control messages until none has come for three
/// seconds.
const LISTEN: &str = "
import socket, struct, zlib
seen = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
seen.setsockopt(263, 8, 1)
seen.setsockopt(263, 23, 1)
seen.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
seen.bind(('eth0', 3))
seen.settimeout(3)
print('ready', flush=True)
def frames():
    while True:
        try:
            frame, more, _, _ = seen.recvmsg(4096, 256)
        except socket.timeout:
            return
        yield frame, more
";

/// A process that listens.
struct Listener(Child, BufReader<ChildStdout>);

impl Listener {
    fn start(host: &Namespace, receive: &str) -> Result<Listener> {
        let mut command = host.command("python3");
        let mut child = command
            .args(["-c", &[LISTEN, receive].concat()])
            .stdout(Stdio::piped())
            .spawn()
            .cannot(|| "run python3".to_owned())?;
        let output = child.stdout.take().ok_or_else(|| Error::new("no output"))?;
        let mut output = BufReader::new(output);
        output.read_line(&mut String::new()).cannot(|| "read from python3".to_owned())?;
        Ok(Listener(child, output))
    }

    fn frames(mut self) -> Result<String> {
        let mut text = String::new();
        self.1.read_to_string(&mut text).cannot(|| "read from python3".to_owned())?;
        self.0.wait().cannot(|| "wait for python3".to_owned())?;
        Ok(text)
    }
}

/// The frames that both hosts get, with the number of the host: lines that the Python program `receive` prints of its `frames`
/// ([`LISTEN`]) at both, while the first runs `send`, which has a [`RAW_SOCKET`].
pub fn exchanged(hosts: [&Namespace; 2], send: &str, receive: &str) -> Result<BTreeSet<String>> {
    let listeners = [Listener::start(hosts[0], receive)?, Listener::start(hosts[1], receive)?];
    hosts[0].run("python3", &["-c", &[RAW_SOCKET, send].concat()])?;
    let mut all = BTreeSet::new();
    for (number, listener) in (1..).zip(listeners) {
        all.extend(listener.frames()?.lines().map(|line| format!("{number}: {line}")));
    }
    Ok(all)
}

/// A Linux router like that of the stage, with its hosts.
pub fn reference() -> Result<(Namespace, [Namespace; 2])> {
    let router = Namespace::unique("linux")?;
    router.set("net/ipv6/conf/all/disable_ipv6", "0")?;
    router.set("net/ipv6/conf/default/disable_ipv6", "0")?;
    router.set("net/ipv4/ip_forward", "1")?;
    router.set("net/ipv6/conf/all/forwarding", "1")?;
    let hosts = [Namespace::unique("l1")?, Namespace::unique("l2")?];
    for (host, n) in hosts.iter().zip(1..) {
        let name = host.name();
        router.ip(&format!(
            "link add eth{n} address 02:00:00:00:00:0{n} type veth peer name eth0 netns {name} address 02:00:00:00:00:1{n}\n\
             address add 10.{n}.0.1/24 dev eth{n}\naddress add 2001:db8:{n}::1/64 dev eth{n} nodad\nlink set eth{n} up\n"
        ))?;
        host.ip("link set eth0 up\n")?;
    }
    Ok((router, hosts))
}

/// Waits until all addresses of a router are its own: before that it sends no redirects.
pub fn wait_for_addresses(router: &Namespace) -> Result<()> {
    wait_until("duplicate address detection", LIMIT, || {
        let tentative = router.output("ip", &["-6", "address", "show", "tentative"])?;
        Ok(tentative.stdout.is_empty().then_some(()))
    })
}

/// Asserts that both routers' hosts got the same.
pub fn assert_alike(expected: &BTreeSet<String>, ours: &BTreeSet<String>) {
    let differ: Vec<_> = expected.symmetric_difference(ours).collect();
    assert!(
        differ.is_empty(),
        "{} frames, {} differ: {:#?}",
        expected.len(),
        differ.len(),
        &differ[..differ.len().min(12)]
    );
}

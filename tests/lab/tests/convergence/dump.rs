//! Reading everything again: what the kernel takes for it, what we do.

use std::time::Instant;

use control::netlink::numbers::{NLMSG_DONE, RTM_NEWROUTE};
use control::netlink::request::{Topic, dump};
use control::netlink::wire::{Builder, Messages};
use control::{Handle, NetlinkSocket, Settings, Source, Tables};
use fib::{Address, NextHop, synth};
use lab::netns::{self, Namespace};
use lab::wait::wait_until;
use lab::{Context, Error, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;

use crate::side::{MODES, Mode, Ours};
use crate::{LIMIT, PREFIXES, octets, used};

/// Times that everything is read again.
const ROUNDS: usize = 5;

/// Gives the kernel `count` routes of a family.
pub fn fill<A: Address>(socket: &NetlinkSocket, link: u32, count: usize, via: &[u8]) -> Result<()> {
    const CREATE: u16 = 0x400 | 1;
    let family = if via.len() == 4 { 2 } else { 10 };
    let hop = NextHop { gateway: None, port: 0 };
    let table = synth::<A>(count, 1, &[hop]).map_err(|error| Error::new(error.to_string()))?;
    let mut lot = Vec::new();
    for (route, n) in table.routes.iter().zip(1..) {
        let body = [family, route.prefix.len(), 0, 0, 254, 12, 0, 1, 0, 0, 0, 0];
        let message = Builder::new(RTM_NEWROUTE, CREATE, 0, &body)
            .with(1, &octets(route.prefix.first().to_ip()))
            .with(6, &32u32.to_ne_bytes())
            .with(5, via)
            .with(4, &link.to_ne_bytes());
        lot.extend(message.bytes());
        if n % 128 == 0 || n == count {
            socket.send(&lot).cannot(|| "add routes".to_owned())?;
            lot.clear();
        }
    }
    Ok(())
}

/// Reads everything and does nothing with it; how many messages it was.
fn read_only(socket: &NetlinkSocket) -> Result<usize> {
    let mut buffer = vec![0; 65536];
    let mut messages = 0;
    for topic in [Topic::Routes4, Topic::Routes6] {
        socket.send(&dump(topic, 1)).cannot(|| "ask for routes".to_owned())?;
        'dump: loop {
            match socket.read(&mut buffer).cannot(|| "read routes".to_owned())? {
                control::Read::Bytes(len) => {
                    for raw in Messages::new(&buffer[..len]).map_while(|raw| raw.ok()) {
                        messages += 1;
                        if raw.kind == NLMSG_DONE {
                            break 'dump;
                        }
                    }
                }
                _ => {
                    let mut ready = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
                    poll(&mut ready, PollTimeout::from(1000u16)).cannot(|| "wait for routes".to_owned())?;
                }
            }
        }
    }
    Ok(messages)
}

/// The least time of a few, and the least processor time.
fn best(mut work: impl FnMut() -> Result<()>) -> Result<(f64, f64)> {
    let mut best = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        let (begun, before) = (Instant::now(), used()?);
        work()?;
        best.0 = best.0.min(begun.elapsed().as_secs_f64());
        best.1 = best.1.min((used()? - before).as_secs_f64());
    }
    Ok(best)
}

/// Has everything read again: an address that goes may have taken routes with it.
fn again(namespace: &Namespace, handle: &Handle) -> Result<()> {
    let dumps = handle.status().netlink.dumps;
    namespace.ip("address add 192.0.2.1/32 dev lo\naddress del 192.0.2.1/32 dev lo\n")?;
    wait_until("the dumps", LIMIT, || {
        let status = handle.status();
        let complete = status.synced && status.published && status.netlink.dumps >= dumps + 3;
        Ok(complete.then_some(()))
    })
}

#[test]
#[ignore = "takes a minute and tells figures"]
fn everything_is_read_again() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let namespace = Namespace::unique("dump")?;
    namespace.set("net/ipv6/conf/all/disable_ipv6", "0")?;
    namespace.set("net/ipv6/conf/default/disable_ipv6", "0")?;
    namespace
        .ip("link set lo up\nlink add eth1 type veth peer name eth2\nlink set eth1 up\nlink set eth2 up\n\
         address add 10.1.0.1/24 dev eth1\naddress add 2001:db8:1::1/64 dev eth1 nodad\n")?;
    namespace.inside(|| {
        let link = control::link::link("eth1").cannot(|| "find eth1".to_owned())?.index;
        let socket = NetlinkSocket::open(0, 1 << 20).cannot(|| "open netlink".to_owned())?;
        fill::<u32>(&socket, link, PREFIXES[0], &[10, 1, 0, 2])?;
        let via: std::net::Ipv6Addr = "2001:db8:1::2".parse().cannot(|| "read an address".to_owned())?;
        fill::<u128>(&socket, link, PREFIXES[1], &via.octets())?;
        drop(socket);
        let socket = NetlinkSocket::open(0, 1 << 20).cannot(|| "open netlink".to_owned())?;
        let mut messages = 0;
        let alone = best(|| {
            messages = read_only(&socket)?;
            Ok(())
        })?;
        println!(
            "{messages} messages of a dump, only read: {:.2} s, {:.2} s of processor time",
            alone.0, alone.1
        );
        let settings = Settings { ports: vec![link], source: Source::Kernel, buffer: Settings::BUFFER };
        MODES.into_iter().try_for_each(|mode| dumps(mode, &namespace, &settings))
    })
}

/// The whole table into empty tables, and again over what is there.
fn dumps(mode: Mode, namespace: &Namespace, settings: &Settings) -> Result<()> {
    let start = |tables| Ours::start(mode, settings, tables);
    let first = best(|| match start(Tables::default())?.wait(LIMIT) {
        true => Ok(()),
        false => Err(Error::new("the dump did not end")),
    })?;
    println!("{mode:?}: into empty tables: {:.2} s, {:.2} s of processor time", first.0, first.1);
    let tables = Tables::default();
    let ours = start(tables.clone())?;
    let complete = ours.wait(LIMIT);
    let count = [tables.routes4.len(), tables.routes6.len()];
    if !complete || (0..2).any(|i| count[i] < PREFIXES[i]) {
        return Err(Error::new(format!("the dump has {count:?}")));
    }
    let changes = ours.handle.status().publish.route_changes;
    let time = best(|| again(namespace, &ours.handle))?;
    println!("{mode:?}: again: {:.2} s, {:.2} s of processor time", time.0, time.1);
    // All that came and went is the address's.
    let more = ours.handle.status().publish.route_changes - changes;
    assert!(more <= 4 * ROUNDS as u64, "{more} routes changed");
    Ok(())
}

//! Changes of routes at a rate: asked of the kernel, many in a message, or what it has told of them, told again.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use control::netlink::numbers::{RTM_DELROUTE, RTM_NEWROUTE};
use control::netlink::wire::Builder;
use control::{NetlinkSocket, Read};
use fib::{NextHop, Prefix, Random, synth};
use lab::{Context, Error, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, sendto, socket,
};

use crate::octets;

/// Prefixes that come and go; half of them are there at a time.
const PREFIXES: usize = 200_000;
/// Neighbours that routes lead to, from 10.0.0.2 on.
pub const GATEWAYS: u8 = 16;
/// Changes that are made in one go at most.
const BATCH: u64 = 256;
/// Changes with a marker before them, or as many as there are in a millisecond.
const EACH_MARKER: u64 = 256;
/// RTNLGRP_IPV4_ROUTE.
const GROUP: u32 = 1 << 6;
const NEW: u16 = 0x400 | 1;
const GONE: u16 = 1;

/// A route of the kernel's table main over `link`, as a message.
fn message(kind: u16, prefix: Prefix<u32>, gateway: u8, link: u32) -> Vec<u8> {
    // Family, lengths, service, table main, protocol static, scope universe, unicast, flags.
    let body = [2, prefix.len(), 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
    let flags = if kind == RTM_NEWROUTE { NEW } else { GONE };
    Builder::new(kind, flags, 0, &body)
        .with(1, &octets(IpAddr::from(Ipv4Addr::from(prefix.first()))))
        .with(5, &octets(IpAddr::from([10, 0, 0, 2 + gateway % GATEWAYS])))
        .with(4, &link.to_ne_bytes())
        .bytes()
}

/// The route of this number that is looked for in the tables: 200.a.b.0/24.
fn marker(n: u32) -> Result<Prefix<u32>> {
    Prefix::new(200 << 24 | (n & 0xffff) << 8, 24).ok_or_else(|| Error::new("no prefix"))
}

/// What is sent over and over: after the first round the table is at its end as it was at its beginning.
pub struct Storm {
    link: u32,
    changes: Vec<Vec<u8>>,
    next: usize,
    /// Markers sent so far.
    markers: u32,
}

/// How messages leave.
pub enum Out {
    /// To the kernel, which makes the changes and tells of them.
    Kernel(NetlinkSocket),
    /// To all that listen to the kernel, as if it told of them.
    Listeners(OwnedFd),
}

impl Out {
    /// A socket of the current network namespace that speaks to those who listen to the kernel.
    pub fn listeners() -> Result<Out> {
        let fd =
            socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute);
        let fd = fd.cannot(|| "open netlink".to_owned())?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0)).cannot(|| "bind netlink".to_owned())?;
        Ok(Out::Listeners(fd))
    }

    fn send(&self, messages: &[&[u8]]) -> Result<()> {
        match self {
            Out::Kernel(socket) => socket.send(&messages.concat()).cannot(|| "change routes".to_owned()),
            // The kernel tells of each by itself.
            Out::Listeners(fd) => messages.iter().try_for_each(|message| {
                // What is sent to a group is sent to an address, too, or the kernel takes it: nobody has this one.
                let to = NetlinkAddr::new(NOBODY, GROUP);
                match sendto(fd.as_raw_fd(), message, &to, MsgFlags::MSG_DONTWAIT) {
                    Ok(_) | Err(nix::errno::Errno::ECONNREFUSED) => Ok(()),
                    Err(error) => Err(error).cannot(|| "tell of a route".to_owned()),
                }
            }),
        }
    }
}

/// No process has this number, nor is it one that the kernel makes up.
const NOBODY: u32 = 0x7fff_fff0;

/// When markers were sent that have not been seen yet.
pub type Pending = VecDeque<(Prefix<u32>, Instant)>;

impl Storm {
    /// Changes of routes over this interface, in an order in which nothing lies beside what came before.
    pub fn new(link: u32) -> Result<Storm> {
        let hop = NextHop { gateway: None, port: 0 };
        let table = synth::<u32>(PREFIXES, 3, &[hop]).map_err(|error| Error::new(error.to_string()))?;
        let mut all: Vec<_> = table.routes.iter().map(|route| route.prefix).collect();
        all.retain(|prefix| prefix.first() >> 24 != 200 && prefix.first() >> 24 != 10);
        let mut random = Random::new(4);
        for last in (1..all.len()).rev() {
            all.swap(last, random.below(last + 1));
        }
        let mut changes = Vec::with_capacity(2 * all.len());
        for (i, prefix) in all.iter().enumerate() {
            let n = (i + all.len() / 2) % all.len();
            changes.push(message(RTM_NEWROUTE, *prefix, i as u8, link));
            changes.push(message(RTM_DELROUTE, all[n], n as u8, link));
        }
        Ok(Storm { link, changes, next: 0, markers: 0 })
    }

    /// Sends changes at `rate` a second for `time`, with a marker before every few. Returns how many were sent a second.
    pub fn run(
        &mut self,
        out: &Out,
        rate: u64,
        time: Duration,
        mut sent_marker: impl FnMut(Prefix<u32>, Instant),
    ) -> Result<f64> {
        let each = EACH_MARKER.min(rate / 1000).max(1);
        let (begun, mut sent) = (Instant::now(), 0u64);
        while begun.elapsed() < time {
            let due =
                u64::try_from(begun.elapsed().as_micros()).unwrap_or(0).saturating_mul(rate) / 1_000_000;
            let count = due.saturating_sub(sent).min(BATCH);
            if count == 0 {
                std::thread::sleep(Duration::from_micros(200));
                continue;
            }
            let mark = (sent == 0 || sent / each != (sent + count) / each).then_some(self.markers);
            let first = match mark {
                Some(n) => Some((marker(n)?, message(RTM_NEWROUTE, marker(n)?, 0, self.link))),
                None => None,
            };
            let others = (0..count as usize).map(|n| &self.changes[(self.next + n) % self.changes.len()][..]);
            let lot: Vec<&[u8]> = first.iter().map(|(_, message)| &message[..]).chain(others).collect();
            if let Some((prefix, _)) = &first {
                self.markers += 1;
                sent_marker(*prefix, Instant::now());
            }
            out.send(&lot)?;
            self.next = (self.next + count as usize) % self.changes.len();
            sent += count;
        }
        Ok(sent as f64 / begun.elapsed().as_secs_f64())
    }

    /// Has the kernel make all changes once, so that half of the routes are there.
    pub fn begin(&mut self, kernel: &Out) -> Result<()> {
        self.changes
            .chunks(128)
            .try_for_each(|some| kernel.send(&some.iter().map(Vec::as_slice).collect::<Vec<_>>()))
    }

    /// Takes what the kernel says of the changes in place of what it is asked: `listener` hears them.
    pub fn record(&mut self, kernel: &Out, listener: &NetlinkSocket) -> Result<()> {
        let mut heard = Vec::with_capacity(self.changes.len());
        let mut buffer = vec![0; 65536];
        for some in self.changes.chunks(128) {
            kernel.send(&some.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
            let enough = heard.len() + some.len();
            while heard.len() < enough {
                match listener.read(&mut buffer).cannot(|| "listen".to_owned())? {
                    Read::Bytes(len) => heard.push(buffer[..len].to_vec()),
                    Read::Nothing => {
                        let mut ready = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
                        let count = poll(&mut ready, PollTimeout::from(1000u16));
                        if count.cannot(|| "wait for the kernel".to_owned())? == 0 {
                            return Err(Error::new("the kernel has not told of all changes"));
                        }
                    }
                    Read::Overrun => return Err(Error::new("the kernel has lost events")),
                }
            }
        }
        self.changes = heard;
        Ok(())
    }
}

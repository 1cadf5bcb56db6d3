//! Settings of interfaces of which the kernel tells no change are asked for again and again.

use crate::kernel::Model;
use crate::netlink::request::dump_links_briefly;
use crate::netlink::wire::Messages;
use crate::netlink::{Message, decode, polled};
use crate::socket::{DATAGRAM, NetlinkSocket, Read};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// How often, up to [`FEW`] interfaces; with more of them it is asked less often, so that it takes the same time in all.
const PERIOD: Duration = Duration::from_secs(1);
const FEW: u32 = 256;
/// So long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of messages that may wait in the kernel.
const BUFFER: usize = 1 << 20;

/// See the module.
pub struct Recheck {
    socket: NetlinkSocket,
    buffer: Vec<u8>,
    /// When it is time to ask.
    next: Duration,
    /// An answer is coming, asked for at this time.
    coming: Option<Duration>,
}

impl Recheck {
    /// In the current network namespace.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open() -> io::Result<Recheck> {
        let socket = NetlinkSocket::open(0, BUFFER)?;
        Ok(Recheck { socket, buffer: vec![0; DATAGRAM], next: Duration::ZERO, coming: None })
    }

    /// How long there is nothing to do, if no answer comes.
    pub fn wait(&self, now: Duration) -> Duration {
        self.next.saturating_sub(now)
    }

    /// Asks if it is time to, and takes in what has come.
    pub fn step(&mut self, model: &mut Model, now: Duration) {
        let is_patient = self.coming.is_some_and(|asked| now.saturating_sub(asked) < PATIENCE);
        if now >= self.next && !is_patient {
            if self.socket.send(&dump_links_briefly(1)).is_ok() {
                model.begin_polled();
                self.coming = Some(now);
            }
            self.set_next(model, now);
        }
        while let Ok(Read::Bytes(len)) = self.socket.read(&mut self.buffer) {
            let bytes = self.buffer.get(..len).unwrap_or_default();
            for raw in Messages::new(bytes).map_while(Result::ok) {
                if let Some(one) = polled(&raw) {
                    model.set_polled(one);
                } else if let Message::Done { interrupted, .. } = decode(&raw)
                    && self.coming.take().is_some()
                    && !interrupted
                {
                    model.end_polled();
                }
            }
        }
    }

    fn set_next(&mut self, model: &Model, now: Duration) {
        let many = u32::try_from(model.links.len()).unwrap_or(u32::MAX) / FEW;
        self.next = now + PERIOD.saturating_mul(many.max(1));
    }
}

impl AsFd for Recheck {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

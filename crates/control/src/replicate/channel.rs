//! A TLS connection as a stream of frames, in one thread that also waits for other things.

use super::log::Waker;
use super::wire::{Frames, ProtocolError};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustls::Connection;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

/// Plain bytes that TLS takes before they are sent.
const BUFFER: usize = 256 * 1024;
/// Bytes that are read between two looks at what is to be written.
const READ: usize = 256 * 1024;

/// Why a connection has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The other side has closed it.
    #[error("closed by the other side")]
    Closed,
    /// The system says so.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Certificates, or what TLS is about.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// Not our protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The other side takes too long.
    #[error("{0} within {1:?}")]
    Late(&'static str, Duration),
    /// The control node does not want this node.
    #[error("refused: {0}")]
    Refused(String),
}

/// One connection.
pub struct Channel {
    tcp: TcpStream,
    tls: Connection,
    frames: Frames,
    out: Vec<u8>,
    sent: usize,
    buffer: Vec<u8>,
}

impl Channel {
    /// A connection over `tcp`.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(tcp: TcpStream, mut tls: Connection) -> io::Result<Channel> {
        tcp.set_nonblocking(true)?;
        tcp.set_nodelay(true)?;
        tls.set_buffer_limit(Some(BUFFER));
        Ok(Channel {
            tcp,
            tls,
            frames: Frames::default(),
            out: Vec::new(),
            sent: 0,
            buffer: vec![0; 16 * 1024],
        })
    }

    /// The TLS connection.
    pub fn tls(&self) -> &Connection {
        &self.tls
    }

    /// What is to be sent: add to it.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// True if all that was to be sent is on its way.
    pub fn is_idle(&self) -> bool {
        self.out.is_empty() && !self.tls.wants_write()
    }

    /// Sends and reads what can be without waiting; hands each frame that came to `take`, which may have something to be
    /// sent. True if something moved.
    ///
    /// # Errors
    /// When the connection has ended, or is to.
    pub fn turn(
        &mut self,
        mut take: impl FnMut(u8, &[u8], &mut Vec<u8>) -> Result<(), ChannelError>,
    ) -> Result<bool, ChannelError> {
        let wrote = self.write()?;
        let (mut read, mut closed) = (0, false);
        while read < READ {
            match self.tls.read_tls(&mut self.tcp) {
                Ok(0) => closed = true,
                Ok(count) => read += count,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e.into()),
            }
            if let Err(error) = self.tls.process_new_packets() {
                // Tells the other side why.
                let _ = self.tls.write_tls(&mut self.tcp);
                return Err(error.into());
            }
            self.take_plain(&mut take)?;
            if closed {
                return Err(ChannelError::Closed);
            }
        }
        let wrote_more = self.write()?;
        Ok(wrote || wrote_more || read > 0)
    }

    fn take_plain(
        &mut self,
        take: &mut impl FnMut(u8, &[u8], &mut Vec<u8>) -> Result<(), ChannelError>,
    ) -> Result<(), ChannelError> {
        loop {
            let count = match self.tls.reader().read(&mut self.buffer) {
                Ok(0) => return Err(ChannelError::Closed),
                Ok(count) => count,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e.into()),
            };
            let (out, mut failed) = (&mut self.out, None);
            let fed = self.frames.feed(self.buffer.get(..count).unwrap_or_default(), |kind, body| {
                take(kind, body, out).map_err(|error| match error {
                    ChannelError::Protocol(error) => error,
                    other => {
                        failed = Some(other);
                        ProtocolError::Turn("a frame")
                    }
                })
            });
            if let Some(error) = failed {
                return Err(error);
            }
            fed?;
        }
    }

    /// Sends as much as goes.
    fn write(&mut self) -> Result<bool, ChannelError> {
        let mut moved = false;
        loop {
            let rest = self.out.get(self.sent..).unwrap_or_default();
            if !rest.is_empty() {
                self.sent += self.tls.writer().write(rest)?;
            }
            if self.sent == self.out.len() {
                self.out.clear();
                self.sent = 0;
            }
            if !self.tls.wants_write() {
                return Ok(moved);
            }
            match self.tls.write_tls(&mut self.tcp) {
                Ok(count) => moved |= count > 0,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(moved),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Waits until something can be read, or written if there is something, or `waker` wakes, or so long.
    pub fn wait(&self, waker: &Waker, limit: Duration) {
        let mut events = PollFlags::POLLIN;
        events.set(PollFlags::POLLOUT, self.tls.wants_write());
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO);
        let mut fds =
            [PollFd::new(self.tcp.as_fd(), events), PollFd::new(waker.fd().as_fd(), PollFlags::POLLIN)];
        // Interrupted is as good as nothing there.
        let _ = poll(&mut fds, limit);
    }

    /// Says goodbye, if that goes without waiting.
    pub fn close(mut self) {
        self.tls.send_close_notify();
        let _ = self.write();
    }
}

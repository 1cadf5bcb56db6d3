//! A Unix socket as a stream of frames, in one thread that also waits for other things.

use crate::replicate::channel::ChannelError;
use crate::replicate::log::Waker;
use crate::replicate::wire::{Frames, ProtocolError};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Bytes that are read between two looks at what is to be written.
const READ: usize = 256 * 1024;

/// One end.
pub struct Pipe {
    stream: UnixStream,
    frames: Frames,
    /// What is to be sent, and how much of it was.
    out: Vec<u8>,
    sent: usize,
    buffer: Vec<u8>,
}

impl Pipe {
    /// An end of `stream`.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(stream: UnixStream) -> io::Result<Pipe> {
        stream.set_nonblocking(true)?;
        let buffer = vec![0; READ / 4];
        Ok(Pipe { stream, frames: Frames::default(), out: Vec::new(), sent: 0, buffer })
    }

    /// What is to be sent: add to it.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// True if all that was to be sent is on its way.
    pub fn is_idle(&self) -> bool {
        self.out.is_empty()
    }

    /// Sends and reads what can be without waiting; hands each frame that came to `take`, which may have something to be
    /// sent. True if something moved.
    ///
    /// # Errors
    /// When the connection has ended, or is to.
    pub fn turn(
        &mut self,
        mut take: impl FnMut(u8, &[u8], &mut Vec<u8>) -> Result<(), ProtocolError>,
    ) -> Result<bool, ChannelError> {
        let mut moved = self.write()?;
        let mut read = 0;
        while read < READ {
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(ChannelError::Closed),
                Ok(count) => {
                    read += count;
                    let out = &mut self.out;
                    let bytes = self.buffer.get(..count).unwrap_or_default();
                    self.frames.feed(bytes, |kind, body| take(kind, body, out))?;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // It has ended without having read everything.
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Err(ChannelError::Closed),
                Err(e) => return Err(e.into()),
            }
        }
        moved |= self.write()?;
        Ok(moved || read > 0)
    }

    /// Sends as much as goes.
    fn write(&mut self) -> Result<bool, ChannelError> {
        let mut moved = false;
        while let Some(rest) = self.out.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(count) => {
                    self.sent += count;
                    moved = true;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(moved),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                    return Err(ChannelError::Closed);
                }
                Err(e) => return Err(e.into()),
            }
        }
        self.sent = 0;
        // A whole table's memory is given back.
        if self.out.capacity() > 4 * READ {
            self.out = Vec::new();
        }
        self.out.clear();
        Ok(moved)
    }

    /// Waits until something can be read, or written if there is something, or `waker` wakes, or so long.
    pub fn wait(&self, waker: &Waker, limit: Duration) {
        let mut events = PollFlags::POLLIN;
        events.set(PollFlags::POLLOUT, !self.is_idle());
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO);
        let mut fds =
            [PollFd::new(self.stream.as_fd(), events), PollFd::new(waker.fd().as_fd(), PollFlags::POLLIN)];
        // Interrupted is as good as nothing there.
        let _ = poll(&mut fds, limit);
    }
}

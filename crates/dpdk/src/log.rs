//! What DPDK says, kept off the user's terminal until it explains a failure.
#![allow(unsafe_code)]

use crate::raw;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};

/// The most of DPDK's log that is looked at.
const MOST: usize = 8192;
/// Lines of an explanation.
const LINES: usize = 4;
/// Lines that say nothing about the failure at hand.
const NOISE: [&str; 12] = [
    "Invalid 'command line' arguments",
    "Bus (",
    "failed to initialize",
    "Failed to attach device",
    "cannot be hot-plugged",
    "Driver cannot attach the device",
    "Can't use dispatcher without a working bpffs",
    "Falling back to loading single prog without dispatcher",
    "skipping unrecognized data section",
    "No bpffs found at",
    "Failed to create xsk socket",
    "Failed to configure xdp socket",
];

/// Routes DPDK's log to memory; to the standard error as well if `echo`.
pub(crate) fn open(echo: bool) {
    // SAFETY: called once, before EAL starts; the stream it makes is never closed.
    // Without memory for a stream the log stays where EAL puts it, which harms nothing.
    let _ = unsafe { raw::rb_log_open(i32::from(echo)) };
}

/// Diverts standard output and error, onto which EAL and the libraries of drivers print, while DPDK is being told to
/// do something, and gathers what they and the log said. Output of other threads in this time is lost.
pub(crate) struct Listener {
    diverted: Option<Diverted>,
}

struct Diverted {
    saved: [OwnedFd; 2],
    text: File,
    // One at a time: a second one would save, and put back, what the first diverted to.
    _alone: MutexGuard<'static, ()>,
}

static DIVERTING: Mutex<()> = Mutex::new(());

impl Listener {
    /// Starts listening; diverts nothing if `echo`.
    pub(crate) fn start(echo: bool) -> Listener {
        take();
        Listener { diverted: if echo { None } else { Diverted::start().ok().flatten() } }
    }

    /// Ends listening: DPDK's own words about what went wrong, on one line; empty if it said nothing.
    pub(crate) fn words(mut self) -> String {
        let printed = self.diverted.take().map(Diverted::end).unwrap_or_default();
        pick(&format!("{}\n{printed}", take()))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(diverted) = self.diverted.take() {
            diverted.end();
        }
    }
}

impl Diverted {
    /// `None` if somebody else is at it.
    fn start() -> std::io::Result<Option<Diverted>> {
        let Ok(alone) = DIVERTING.try_lock() else { return Ok(None) };
        std::io::stdout().flush()?;
        let saved = [
            std::io::stdout().as_fd().try_clone_to_owned()?,
            std::io::stderr().as_fd().try_clone_to_owned()?,
        ];
        // SAFETY: the name is a NUL-terminated string; the result is checked.
        let fd = unsafe { libc::memfd_create(c"dpdk".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and nobody else owns it.
        let text = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        let null = OpenOptions::new().write(true).open("/dev/null")?;
        redirect(null.as_raw_fd(), 1);
        redirect(text.as_raw_fd(), 2);
        Ok(Some(Diverted { saved, text, _alone: alone }))
    }

    fn end(mut self) -> String {
        // SAFETY: NULL flushes all of C's streams, or what they hold would come out later.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        redirect(self.saved[0].as_raw_fd(), 1);
        redirect(self.saved[1].as_raw_fd(), 2);
        let mut bytes = Vec::new();
        // The text only embellishes a message: without it the message is shorter.
        let _ = self
            .text
            .rewind()
            .and_then(|()| Read::by_ref(&mut self.text).take(MOST as u64).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn redirect(from: i32, to: i32) {
    // SAFETY: plain system call on descriptors that this module keeps open; a failure leaves `to` as it was.
    unsafe { libc::dup2(from, to) };
}

/// Takes what the log gathered.
fn take() -> String {
    let mut text = vec![0_u8; MOST];
    // SAFETY: the buffer is valid for writes of MOST bytes.
    let n = unsafe { raw::rb_log_take(text.as_mut_ptr().cast(), MOST) };
    text.truncate(n);
    String::from_utf8_lossy(&text).into_owned()
}

/// The last few telling lines, without the component's name in front, each once.
fn pick(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let noise = |line: &str| NOISE.iter().any(|n| line.contains(n));
    // Noise is better than nothing.
    let telling = text.lines().any(|line| !line.trim().is_empty() && !noise(line));
    for line in text.lines() {
        // "EAL: text" or "net_pcap_open(): text": the component is one word.
        let line = match line.split_once(": ") {
            Some((component, rest)) if !component.trim().contains(' ') && !component.contains('/') => rest,
            _ => line,
        };
        // EAL prints what ends it twice, once like this.
        let line = line.trim().trim_start_matches("FATAL: ").trim_start_matches("Kernel error message: ");
        if !line.is_empty() && !lines.contains(&line) && (!telling || !noise(line)) {
            lines.push(line);
        }
    }
    lines[lines.len().saturating_sub(LINES)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_telling_lines_are_picked() {
        let text = "\nopen_single_rx_pcap(): Couldn't open /x: no such file\n\nEAL: Bus (vdev) probe failed.\nopen_single_rx_pcap(): Couldn't open /x: no such file\n";
        assert_eq!(pick(text), "Couldn't open /x: no such file");
        assert_eq!(pick("/x: No such file\n"), "/x: No such file");
        assert_eq!(pick("EAL: FATAL: Cannot init memory\nEAL: Cannot init memory\n"), "Cannot init memory");
        assert_eq!(pick("EAL: Bus (pci) probe failed.\n"), "Bus (pci) probe failed.");
        assert_eq!(pick("a: 1\nb: 2\nc: 3\nd: 4\ne: 5"), "2; 3; 4; 5");
    }
}

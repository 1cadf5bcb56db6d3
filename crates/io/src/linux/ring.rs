//! The memory that the kernel puts received frames into (`PACKET_RX_RING`, `TPACKET_V2`).
#![allow(unsafe_code)]

use super::socket::{RawSocket, Ring as Request};
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What the kernel puts before a frame: its header, the sender's address, padding.
const BEFORE: usize = 80;
/// Bytes of a block, which the kernel allocates at once; larger ones only for frames that need them.
const BLOCK: usize = 32 << 10;

/// Slots of equal size in blocks; the kernel fills them one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    slot: usize,
    block: usize,
    blocks: usize,
}

impl Geometry {
    /// Room for so many frames of so many bytes each, or a few more.
    pub(super) fn new(frames: usize, room: usize) -> Geometry {
        let slot = (BEFORE + room).next_multiple_of(libc::TPACKET_ALIGNMENT);
        let block = slot.next_power_of_two().max(BLOCK);
        Geometry { slot, block, blocks: frames.max(1).div_ceil(block / slot) }
    }

    fn slots_of_a_block(self) -> usize {
        self.block / self.slot
    }

    fn slots(self) -> usize {
        self.slots_of_a_block() * self.blocks
    }

    fn bytes(self) -> usize {
        self.block * self.blocks
    }

    fn offset(self, slot: usize) -> usize {
        let of_block = self.slots_of_a_block();
        slot / of_block * self.block + slot % of_block * self.slot
    }
}

/// A received frame, where the kernel has put it.
pub(super) struct Frame<'a> {
    /// What is in the slot; `None` if the frame was longer than that.
    pub bytes: Option<&'a [u8]>,
    /// The VLAN tag that Linux had taken out of the frame.
    pub tag: Option<[u8; 4]>,
}

/// The ring of one socket.
pub(super) struct Ring {
    memory: NonNull<u8>,
    geometry: Geometry,
    /// The slot that is read next.
    next: usize,
    _socket: Arc<RawSocket>,
}

// SAFETY: the memory belongs to the ring alone, apart from the kernel, and may be used by any thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Has the kernel make a ring for a socket that is not yet bound.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn new(socket: &Arc<RawSocket>, geometry: Geometry) -> Result<Ring> {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        socket.make_ring(&Request {
            block: number(geometry.block),
            blocks: number(geometry.blocks),
            slot: number(geometry.slot),
            slots: number(geometry.slots()),
        })?;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let fd = socket.fd().as_raw_fd();
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), geometry.bytes(), protection, flags, fd, 0) };
        if memory == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or_else(|| Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Ring { memory, geometry, next: 0, _socket: socket.clone() })
    }

    fn header(&self, slot: usize) -> NonNull<libc::tpacket2_hdr> {
        // SAFETY: every slot lies in the mapping, which is aligned to a page; slots are multiples of 16.
        unsafe { self.memory.add(self.geometry.offset(slot)) }.cast()
    }

    fn status(&self, slot: usize) -> &AtomicU32 {
        // SAFETY: the first field of the slot's header, which the kernel writes as one word; the mapping lives as long as
        // the borrow.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header(slot).as_ptr()).tp_status) }
    }

    fn is_ready(&self, slot: usize) -> bool {
        self.status(slot).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// How many frames wait, up to `most`.
    #[inline]
    pub(super) fn ready(&self, most: usize) -> usize {
        let slots = self.geometry.slots();
        (0..most.min(slots)).take_while(|i| self.is_ready((self.next + i) % slots)).count()
    }

    /// Shows `look` the next frame, and gives its slot back to the kernel; `None` if there is none.
    #[inline]
    pub(super) fn take<T>(&mut self, look: impl FnOnce(Frame<'_>) -> T) -> Option<T> {
        let slot = self.next;
        if !self.is_ready(slot) {
            return None;
        }
        // SAFETY: the slot is ours until its status is written; the kernel has filled in the header.
        let header = unsafe { self.header(slot).read() };
        let (from, length) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        let whole = header.tp_snaplen == header.tp_len && from + length <= self.geometry.slot;
        let bytes = whole.then(|| {
            // SAFETY: it lies within the slot, which the kernel leaves alone until it has it back.
            unsafe { std::slice::from_raw_parts(self.header(slot).cast::<u8>().add(from).as_ptr(), length) }
        });
        let is_valid = |flag: u32| header.tp_status & flag != 0;
        let tag = is_valid(libc::TP_STATUS_VLAN_VALID).then(|| {
            let known = is_valid(libc::TP_STATUS_VLAN_TPID_VALID);
            let kind = if known { header.tp_vlan_tpid } else { 0x8100 }.to_be_bytes();
            let id = header.tp_vlan_tci.to_be_bytes();
            [kind[0], kind[1], id[0], id[1]]
        });
        let result = look(Frame { bytes, tag });
        self.status(slot).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (slot + 1) % self.geometry.slots();
        Some(result)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, to which nothing points any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.geometry.bytes()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_lie_within_blocks() {
        for (frames, room) in [(1, 60), (1024, 2048), (512, 9856), (8, 65_535)] {
            let geometry = Geometry::new(frames, room);
            assert!(geometry.slots() >= frames && geometry.slot >= room + BEFORE, "{geometry:?}");
            assert!(geometry.block.is_multiple_of(4096));
            let mut end = 0;
            for slot in 0..geometry.slots() {
                let offset = geometry.offset(slot);
                assert!(offset >= end, "{geometry:?} {slot}");
                assert_eq!(offset / geometry.block, (offset + geometry.slot - 1) / geometry.block);
                end = offset + geometry.slot;
            }
            assert!(end <= geometry.bytes());
        }
    }
}

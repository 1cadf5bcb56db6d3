//! The memory that the two ends of a ring share.
//!
//! ```text
//!      0  magic, version, slots, bytes of a slot
//!     64  state of side 0        128  state of side 1
//!    256  from side 0: produced, 384: consumed         512  from side 1: produced, 640: consumed
//!   4096  slots from side 0, slots from side 1; each the length of a frame and the frame
//! ```
//!
//! Numbers are 32 bits in the machine's own order: both ends are on one machine. No pointer or offset is kept there.
#![allow(unsafe_code)]

use memmap2::MmapRaw;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};

/// One of the two ends of a ring: 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Whoever found both free.
    First,
    /// Whoever came then.
    Second,
}

impl Side {
    /// Both.
    pub const BOTH: [Side; 2] = [Side::First, Side::Second];

    /// The other end.
    pub fn other(self) -> Side {
        match self {
            Side::First => Side::Second,
            Side::Second => Side::First,
        }
    }
}

/// How a ring's memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Frames that can be under way in each direction: a power of two.
    pub slots: u32,
    /// Bytes of a slot, a multiple of [`LINE`].
    pub slot_bytes: u32,
}

/// What cache lines have.
const LINE: u32 = 64;
/// Frames under way in each direction, at most.
pub const MOST_SLOTS: u32 = 1 << 15;
/// What a slot has before its frame: the length. There, so that the ends never write and read the same cache line for different
/// frames; and short, so that the shortest frame and its length are in one.
const LENGTH: usize = size_of::<u32>();
/// Bytes of a slot, at most.
const MOST_BYTES: u32 = 1 << 16;

/// What begins the memory of a ring of any version.
const NAME: [u8; 6] = *b"RBRING";
/// The same with the version of this layout, as the first two words.
const MAGIC: [u32; 2] = [u32::from_ne_bytes(*b"RBRI"), u32::from_ne_bytes(*b"NG\0\x01")];
const SLOTS: usize = 8;
const SLOT_BYTES: usize = 12;
const STATES: usize = 64;
const WORDS: usize = 256;
const CONSUMED: usize = 128;
const FRAMES: usize = 4096;

impl Geometry {
    /// For frames of so many bytes.
    pub fn for_frames(slots: u32, bytes: u32) -> Geometry {
        let lines = (bytes + LENGTH as u32).div_ceil(LINE).min(MOST_BYTES / LINE - 1);
        // An odd number of cache lines apart they lie in all sets of a cache.
        Geometry { slots, slot_bytes: (lines | 1) * LINE }
    }

    /// Bytes of the longest frame.
    pub fn longest(self) -> usize {
        self.slot_bytes as usize - LENGTH
    }

    /// Bytes in all.
    pub fn bytes(self) -> usize {
        FRAMES + 2 * self.slots as usize * self.slot_bytes as usize
    }

    /// Whether there can be such a ring.
    fn is_sound(self) -> bool {
        let Geometry { slots, slot_bytes } = self;
        slots.is_power_of_two()
            && slots <= MOST_SLOTS
            && (LINE..=MOST_BYTES).contains(&slot_bytes)
            && slot_bytes % LINE == 0
    }
}

/// The memory of one ring, mapped.
#[derive(Debug)]
pub struct Memory {
    map: MmapRaw,
    geometry: Geometry,
}

impl Memory {
    /// Whether a file is empty, or was the memory of a ring, of whatever version.
    ///
    /// # Errors
    /// Those of the system.
    pub fn may_be_made(file: &File) -> io::Result<bool> {
        let mut start = [0; NAME.len()];
        let read = file.read_at(&mut start, 0)?;
        Ok(read == 0 || start == NAME)
    }

    /// Makes a file the memory of a new ring.
    ///
    /// # Errors
    /// Those of the system; there may be too little memory.
    pub fn make(file: &File, geometry: Geometry) -> io::Result<Memory> {
        let bytes = geometry.bytes();
        file.set_len(0)?;
        // What was begun and not done is known for what it is.
        file.write_all_at(&NAME, 0)?;
        let length = i64::try_from(bytes).map_err(io::Error::other)?;
        // Memory that is not there when it is touched would end the process.
        nix::fcntl::posix_fallocate(file, 0, length)?;
        let memory = Memory { map: MmapRaw::map_raw(file)?, geometry };
        let words =
            [(SLOTS, geometry.slots), (SLOT_BYTES, geometry.slot_bytes), (0, MAGIC[0]), (4, MAGIC[1])];
        words.iter().for_each(|(at, value)| memory.word(*at).store(*value, Ordering::Relaxed));
        Ok(memory)
    }

    /// Maps the memory of a ring that is there; `None` if it is none, or one of another version.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(file: &File) -> io::Result<Option<Memory>> {
        let length = file.metadata()?.len();
        let least = Geometry { slots: 1, slot_bytes: LINE };
        if length < least.bytes() as u64 {
            return Ok(None);
        }
        let mut memory = Memory { map: MmapRaw::map_raw(file)?, geometry: least };
        let [first, second, slots, slot_bytes] =
            [0, 4, SLOTS, SLOT_BYTES].map(|at| memory.word(at).load(Ordering::Relaxed));
        let geometry = Geometry { slots, slot_bytes };
        if [first, second] != MAGIC || !geometry.is_sound() || length != geometry.bytes() as u64 {
            return Ok(None);
        }
        memory.geometry = geometry;
        Ok(Some(memory))
    }

    /// How it is divided, read once.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// What a side says of itself: odd while somebody is there, and one more each time that somebody comes or goes.
    pub fn state(&self, side: Side) -> &AtomicU32 {
        self.word(STATES + STATES * side as usize)
    }

    /// Slots that a side has filled.
    #[inline]
    pub fn produced(&self, from: Side) -> &AtomicU32 {
        self.word(WORDS + 2 * CONSUMED * from as usize)
    }

    /// Slots filled by a side that the other one has read.
    #[inline]
    pub fn consumed(&self, from: Side) -> &AtomicU32 {
        self.word(WORDS + 2 * CONSUMED * from as usize + CONSUMED)
    }

    /// The length of the frame in a slot that a side fills.
    #[inline]
    pub fn length(&self, from: Side, slot: u32) -> &AtomicU32 {
        self.word(self.offset(from, slot))
    }

    /// Puts a frame into a slot. False if it is too long.
    #[inline]
    pub fn write(&self, from: Side, slot: u32, frame: &[u8]) -> bool {
        if frame.len() > self.geometry.longest() {
            return false;
        }
        let into = self.frame(from, slot);
        // SAFETY: the slot is within the map (`frame`) and as long as any frame, and `frame` is not part of the map, to which there
        // are no references but to words. By the rules nobody else touches a slot that is the sender's. Whoever breaks them
        // changes bytes, of which nothing here depends.
        unsafe { std::ptr::copy_nonoverlapping(frame.as_ptr(), into, frame.len()) };
        true
    }

    /// Takes the frame out of a slot: as many bytes as `frame` has. False if no slot has so many.
    #[inline]
    pub fn read(&self, from: Side, slot: u32, frame: &mut [u8]) -> bool {
        if frame.len() > self.geometry.longest() {
            return false;
        }
        let out_of = self.frame(from, slot);
        // SAFETY: as in `write`; what was copied is looked at in `frame` alone.
        unsafe { std::ptr::copy_nonoverlapping(out_of, frame.as_mut_ptr(), frame.len()) };
        true
    }

    /// Asks for the memory of a frame that is going to be written: the other end had it last.
    #[inline]
    pub fn expect_write(&self, from: Side, slot: u32, bytes: usize) {
        #[cfg(target_arch = "x86_64")]
        for line in self.lines(from, slot, bytes) {
            // SAFETY: a prefetch changes nothing, and processors without this one take it for no operation.
            unsafe {
                std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
            }
        }
    }

    /// Asks for the memory of a frame that is going to be read.
    #[inline]
    pub fn expect_read(&self, from: Side, slot: u32, bytes: usize) {
        #[cfg(target_arch = "x86_64")]
        for line in self.lines(from, slot, bytes) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch changes nothing.
            unsafe { _mm_prefetch(line.cast::<i8>(), _MM_HINT_T0) };
        }
    }

    /// The cache lines of a frame and its length.
    #[inline]
    fn lines(&self, from: Side, slot: u32, bytes: usize) -> impl Iterator<Item = *mut u8> {
        let start = self.map.as_mut_ptr().wrapping_add(self.offset(from, slot));
        let bytes = (LENGTH + bytes).min(self.geometry.slot_bytes as usize);
        (0..bytes).step_by(LINE as usize).map(move |at| start.wrapping_add(at))
    }

    /// Where a slot begins.
    #[inline]
    fn offset(&self, from: Side, slot: u32) -> usize {
        let Geometry { slots, slot_bytes } = self.geometry;
        FRAMES + (slots * from as u32 + (slot & (slots - 1))) as usize * slot_bytes as usize
    }

    #[inline]
    fn frame(&self, from: Side, slot: u32) -> *mut u8 {
        // SAFETY: there are twice as many slots as the geometry says, of which this is one, and the map is as long as it says.
        unsafe { self.map.as_mut_ptr().add(self.offset(from, slot) + LENGTH) }
    }

    /// The number at an offset, which is a multiple of four within the map.
    #[inline]
    fn word(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at.is_multiple_of(4) && at + 4 <= self.map.len());
        // SAFETY: offsets are constants below 4096, or of slots, which lie within the map as long as the geometry says. A map begins
        // at a page, so that they are aligned; it lives as long as the reference, and words are used as atomic numbers only.
        unsafe { AtomicU32::from_ptr(self.map.as_mut_ptr().add(at).cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_see_the_same() {
        let file = tempfile::tempfile().unwrap();
        let geometry = Geometry { slots: 4, slot_bytes: 128 };
        let ours = Memory::make(&file, geometry).unwrap();
        let theirs = Memory::open(&file).unwrap().unwrap();
        assert_eq!(theirs.geometry(), geometry);
        assert_eq!(file.metadata().unwrap().len(), 4096 + 2 * 4 * 128);
        let mut number = 0;
        for side in Side::BOTH {
            for slot in 0..4 {
                number += 1;
                assert!(ours.write(side, slot, &[number; 124]));
                ours.length(side, slot).store(number.into(), Ordering::Relaxed);
            }
            number += 1;
            [ours.produced(side), ours.consumed(side), ours.state(side)]
                .iter()
                .for_each(|word| word.store(number.into(), Ordering::Relaxed));
        }
        let read = |side, slot| {
            let mut frame = [0; 124];
            assert!(theirs.read(side, slot, &mut frame) && frame.iter().all(|byte| *byte == frame[0]));
            (u32::from(frame[0]), theirs.length(side, slot).load(Ordering::Relaxed))
        };
        assert_eq!([0, 1, 2, 3].map(|slot| read(Side::First, slot)), [(1, 1), (2, 2), (3, 3), (4, 4)]);
        assert_eq!([0, 1, 2, 3].map(|slot| read(Side::Second, slot)), [(6, 6), (7, 7), (8, 8), (9, 9)]);
        assert!(!ours.write(Side::First, 0, &[0; 125]) && !ours.read(Side::First, 0, &mut [0; 125]));
        assert_eq!(Side::BOTH.map(|side| theirs.consumed(side).load(Ordering::Relaxed)), [5, 10]);
    }

    #[test]
    fn what_is_no_ring_is_not_taken_for_one() {
        let file = tempfile::tempfile().unwrap();
        assert!(Memory::open(&file).unwrap().is_none() && Memory::may_be_made(&file).unwrap());
        file.write_at(b"RBRINX", 0).unwrap();
        assert!(!Memory::may_be_made(&file).unwrap());
        // As it is after an end in the midst of it.
        file.write_at(b"RBRING", 0).unwrap();
        assert!(Memory::may_be_made(&file).unwrap() && Memory::open(&file).unwrap().is_none());
        let geometry = Geometry { slots: 8, slot_bytes: 64 };
        let memory = Memory::make(&file, geometry).unwrap();
        for (at, wrong) in [(0, 7), (4, 2), (SLOTS, 3), (SLOTS, 1 << 20), (SLOT_BYTES, 65), (SLOT_BYTES, 128)]
        {
            let right = memory.word(at).swap(wrong, Ordering::Relaxed);
            assert!(Memory::open(&file).unwrap().is_none(), "{at} {wrong}");
            memory.word(at).store(right, Ordering::Relaxed);
        }
        assert!(Memory::open(&file).unwrap().is_some());
        assert!(Memory::may_be_made(&file).unwrap());
        file.set_len(geometry.bytes() as u64 - 1).unwrap();
        assert!(Memory::open(&file).unwrap().is_none());
    }
}

//! Asking for memory before it is needed.
#![allow(unsafe_code)]

/// Bytes of a cache line.
const LINE: usize = 64;

/// An array of which memory can be asked for ahead, whatever it holds, in parts of some bytes. It borrows nothing: asking for what is no
/// longer there does neither good nor harm.
#[derive(Debug, Clone, Copy)]
pub struct Ahead {
    /// Where the array is, which is never looked at.
    address: usize,
    bytes: usize,
}

impl Ahead {
    /// Parts of so many bytes.
    #[inline]
    pub fn of<T>(array: &[T], bytes: usize) -> Ahead {
        Ahead { address: array.as_ptr().addr(), bytes }
    }

    /// Where the part with this number begins.
    #[inline(always)]
    pub fn address(self, part: usize) -> usize {
        self.address.wrapping_add(part.wrapping_mul(self.bytes))
    }

    /// Asks the processor to bring the line in which the part with this number begins into its nearest cache.
    #[inline(always)]
    pub fn ask(self, part: usize) {
        ask_for_line(std::ptr::without_provenance(self.address(part)));
    }
}

/// Asks the processor to bring the first two lines of `array[index]` (one, if it has no more) into its nearest cache; an index beyond the end does
/// no harm. Many lines can be under way at once, however long the code is that runs until they are needed.
#[inline(always)]
pub fn prefetch<T>(array: &[T], index: usize) {
    let first = array.as_ptr().wrapping_add(index).cast::<i8>();
    ask_for_line(first);
    if size_of::<T>() > LINE {
        ask_for_line(first.wrapping_add(LINE));
    }
}

/// The line of this address, whatever is there.
#[inline(always)]
fn ask_for_line(at: *const i8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch of any address has no effect but on the cache.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at);
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

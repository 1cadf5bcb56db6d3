//! Asking for memory before it is needed.
#![allow(unsafe_code)]

/// Bytes of a cache line.
const LINE: usize = 64;

/// An array of which memory can be asked for ahead, whatever it holds. It borrows nothing: asking for what is no
/// longer there does neither good nor harm.
#[derive(Debug, Clone, Copy)]
pub struct Ahead {
    /// Where the array is, which is never looked at.
    address: usize,
}

impl Ahead {
    /// This array.
    #[inline]
    pub fn of<T>(array: &[T]) -> Ahead {
        Ahead { address: array.as_ptr().addr() }
    }

    /// The address so many bytes behind the beginning.
    #[inline(always)]
    pub fn address(self, offset: usize) -> usize {
        self.address.wrapping_add(offset)
    }

    /// Asks the processor to bring the line that is so many bytes behind the beginning into its nearest cache.
    #[inline(always)]
    pub fn ask(self, offset: usize) {
        ask_for_line(std::ptr::without_provenance(self.address(offset)));
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

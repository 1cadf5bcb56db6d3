//! Large arrays on large pages.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// An array of `count` default values for many readers at random places, on 2 MiB pages where the system has them to
/// give (Linux: transparent huge pages, `always` or `madvise`), else on the usual ones.
///
/// On 4 KiB pages nearly every access to an array of megabytes misses the TLB, and a page walk costs more than the
/// access, twice so in a virtual machine.
pub fn on_large_pages<T: Default>(count: usize) -> Box<[T]> {
    let mut values = Vec::with_capacity(count);
    ask_for_large_pages(values.spare_capacity_mut());
    values.resize_with(count, T::default);
    values.into_boxed_slice()
}

/// An array for many readers at random places, like that of [`on_large_pages`], but one that begins on a large page: of
/// an array of few pages that lies anywhere, the part before the first boundary would be on usual pages, and the part
/// after the last.
pub struct LargeArray<T> {
    first: NonNull<T>,
    len: usize,
}

/// The size of a large page.
const LARGE: usize = 2 << 20;

impl<T: Default> LargeArray<T> {
    /// `count` default values.
    pub fn new(count: usize) -> LargeArray<T> {
        let Some(layout) = layout::<T>(count) else {
            return LargeArray { first: NonNull::dangling(), len: 0 };
        };
        // SAFETY: the size is not 0.
        let memory = unsafe { alloc(layout) }.cast::<MaybeUninit<T>>();
        let Some(first) = NonNull::new(memory) else { handle_alloc_error(layout) };
        // SAFETY: `count` values fit into the layout, which has their alignment; uninitialised memory may hold
        // anything, and nobody else has it.
        let places = unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), count) };
        ask_for_large_pages(places);
        // From here on the array owns the values that are there; a panic in `default` leaves it at those.
        let mut array = LargeArray { first: first.cast(), len: 0 };
        for place in places {
            place.write(T::default());
            array.len += 1;
        }
        array
    }
}

/// The memory of an array: whole large pages, if it fills one. `None` if it takes no memory.
fn layout<T>(count: usize) -> Option<Layout> {
    let layout = Layout::array::<T>(count).ok().filter(|layout| layout.size() > 0)?;
    if layout.size() < LARGE { Some(layout) } else { layout.align_to(LARGE).ok() }
}

impl<T> std::ops::Deref for LargeArray<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` values that live as long as the array, or none.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> Drop for LargeArray<T> {
    fn drop(&mut self) {
        // SAFETY: these values are initialised, and nobody uses them any more.
        unsafe { std::ptr::drop_in_place(std::ptr::slice_from_raw_parts_mut(self.first.as_ptr(), self.len)) };
        if let Some(layout) = layout::<T>(self.len) {
            // SAFETY: the memory was allocated with this layout.
            unsafe { dealloc(self.first.as_ptr().cast(), layout) };
        }
    }
}

// SAFETY: the array owns its values as a `Vec` does.
unsafe impl<T: Send> Send for LargeArray<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for LargeArray<T> {}

#[cfg(target_os = "linux")]
fn ask_for_large_pages<T>(memory: &mut [T]) {
    // Pages have 4 KiB here; where they are larger the kernel refuses what is not aligned, and nothing is lost.
    const PAGE: usize = 4096;
    let range = memory.as_mut_ptr_range();
    let (first, end) = (range.start.addr().next_multiple_of(PAGE), range.end.addr() & !(PAGE - 1));
    if let Some(bytes) = end.checked_sub(first).filter(|&bytes| bytes > 0) {
        // SAFETY: the whole pages of a live allocation; the advice changes neither their content nor their validity.
        let _ = unsafe { libc::madvise(range.start.with_addr(first).cast(), bytes, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_for_large_pages<T>(_: &mut [T]) {}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn large_arrays_begin_on_large_pages_and_drop_their_values() {
        let value = Arc::new(());
        thread_local!(static VALUE: RefCell<Option<Arc<()>>> = const { RefCell::new(None) });
        struct Counted(Option<Arc<()>>);
        impl Default for Counted {
            fn default() -> Self {
                Counted(VALUE.with_borrow(Clone::clone))
            }
        }
        VALUE.set(Some(Arc::clone(&value)));
        for count in [0, 1, 1000, (LARGE / 8) + 1] {
            let array: LargeArray<Counted> = LargeArray::new(count);
            assert_eq!((array.len(), Arc::strong_count(&value)), (count, 2 + count));
            assert!(array.iter().all(|counted| counted.0.is_some()));
            let large = count * 8 >= LARGE;
            assert!(!large || array.as_ptr().addr().is_multiple_of(LARGE));
            drop(array);
            assert_eq!(Arc::strong_count(&value), 2);
        }
        assert_eq!(LargeArray::<()>::new(0).len(), 0);
    }

    #[test]
    fn arrays_of_any_size() {
        for count in [0, 1, 4095, 4096, 3 << 20] {
            let array: Box<[u16]> = on_large_pages(count);
            assert_eq!(array.len(), count);
            assert!(array.iter().all(|&v| v == 0));
        }
    }
}

//! Large arrays on large pages.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

/// Bytes of a large page, and where one may begin.
const LARGE: usize = 2 << 20;

/// An array of `count` default values for many readers at random places, on 2 MiB pages where the system has them to
/// give (Linux: transparent huge pages, `always` or `madvise`), else on the usual ones; so are up to 2 MiB at either
/// end (see [`LargeArray`]).
///
/// On 4 KiB pages nearly every access to an array of megabytes misses the TLB, and a page walk costs more than the
/// access, twice so in a virtual machine.
pub fn on_large_pages<T: Default>(count: usize) -> Box<[T]> {
    let mut values = Vec::with_capacity(count);
    ask_for_large_pages(values.spare_capacity_mut());
    values.resize_with(count, T::default);
    values.into_boxed_slice()
}

/// As [`on_large_pages`], for `N` values, and from the first one on: it begins where a large page does.
pub struct LargeArray<T, const N: usize> {
    /// `N` values in memory of [`Self::LAYOUT`], owned by this object.
    first: NonNull<T>,
    owns: PhantomData<T>,
}

impl<T, const N: usize> LargeArray<T, N> {
    const LAYOUT: Layout = {
        assert!(N > 0 && size_of::<T>() > 0, "an array has a size");
        let bytes = size_of::<[T; N]>();
        let align = if bytes < LARGE { align_of::<T>() } else { LARGE };
        assert!(align >= align_of::<T>() && bytes <= isize::MAX as usize - LARGE);
        match Layout::from_size_align(bytes, align) {
            Ok(layout) => layout,
            Err(_) => panic!("checked above"),
        }
    };

    /// Default values.
    pub fn new() -> LargeArray<T, N>
    where
        T: Default,
    {
        // SAFETY: the layout has a size.
        let memory = unsafe { alloc(Self::LAYOUT) };
        let Some(first) = NonNull::new(memory.cast::<T>()) else { handle_alloc_error(Self::LAYOUT) };
        // SAFETY: room for `N` values that nobody else knows of; uninitialized memory is valid for this type.
        let values =
            unsafe { std::slice::from_raw_parts_mut(first.as_ptr().cast::<std::mem::MaybeUninit<T>>(), N) };
        ask_for_large_pages(values);
        // If `default` panics the memory is lost, no more.
        for value in values {
            value.write(T::default());
        }
        LargeArray { first, owns: PhantomData }
    }
}

impl<T: Default, const N: usize> Default for LargeArray<T, N> {
    fn default() -> Self {
        LargeArray::new()
    }
}

impl<T, const N: usize> Deref for LargeArray<T, N> {
    type Target = [T; N];

    #[inline]
    fn deref(&self) -> &[T; N] {
        // SAFETY: `new` has written `N` values, which live as long as the object.
        unsafe { self.first.cast().as_ref() }
    }
}

impl<T, const N: usize> Drop for LargeArray<T, N> {
    fn drop(&mut self) {
        // SAFETY: `N` values that this object owns, never used again.
        unsafe { std::ptr::slice_from_raw_parts_mut(self.first.as_ptr(), N).drop_in_place() };
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.first.as_ptr().cast(), Self::LAYOUT) };
    }
}

// SAFETY: it owns its values, as a box does.
unsafe impl<T: Send, const N: usize> Send for LargeArray<T, N> {}
// SAFETY: sharing it shares its values, no more.
unsafe impl<T: Sync, const N: usize> Sync for LargeArray<T, N> {}

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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn arrays_of_any_size() {
        for count in [0, 1, 4095, 4096, 3 << 20] {
            let array: Box<[u16]> = on_large_pages(count);
            assert_eq!(array.len(), count);
            assert!(array.iter().all(|&v| v == 0));
        }
    }

    #[test]
    fn a_large_array_begins_with_a_large_page() {
        let array = LargeArray::<AtomicU16, { (2 << 20) + 3 }>::new();
        assert_eq!(array.as_ptr().addr() % LARGE, 0);
        assert!(array.iter().all(|value| value.load(Ordering::Relaxed) == 0));
        array[(2 << 20) + 2].store(7, Ordering::Relaxed);
        assert_eq!(array[(2 << 20) + 2].load(Ordering::Relaxed), 7);
        assert_eq!(LargeArray::<u64, 3>::new().iter().sum::<u64>(), 0);
    }

    #[test]
    fn values_are_dropped_once_and_on_any_thread() {
        #[derive(Default)]
        struct Counted(Option<Arc<AtomicUsize>>);
        impl Drop for Counted {
            fn drop(&mut self) {
                if let Some(count) = &self.0 {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        let count = Arc::new(AtomicUsize::new(0));
        // Values are shared, not changed: a lock stands in for what a table would have.
        let array = LargeArray::<std::sync::Mutex<Counted>, 5>::new();
        for value in array.iter() {
            value.lock().unwrap().0 = Some(Arc::clone(&count));
        }
        std::thread::spawn(move || drop(array)).join().unwrap();
        assert_eq!((count.load(Ordering::Relaxed), Arc::strong_count(&count)), (5, 1));
    }
}

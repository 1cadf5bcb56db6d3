//! Large arrays on large pages.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;

/// Bytes of a large page, and where one may begin.
const LARGE: usize = 2 << 20;

/// An array for many readers at random places, on 2 MiB pages where the system has them to give (Linux: transparent huge
/// pages, `always` or `madvise`), else on the usual ones.
///
/// On 4 KiB pages nearly every access to an array of megabytes misses the TLB, and a page walk costs more than the
/// access, twice so in a virtual machine. The array begins where a large page does: of one that lies anywhere, the part
/// before the first boundary would be on usual pages.
pub struct LargeSlice<T> {
    /// `len` values in memory of [`layout`], owned by this object; dangling if they take none.
    first: NonNull<T>,
    len: usize,
    owns: PhantomData<T>,
}

impl<T: Default> LargeSlice<T> {
    /// `len` default values.
    ///
    /// # Panics
    /// If they take more than `isize::MAX` bytes.
    pub fn new(len: usize) -> LargeSlice<T> {
        let Some(layout) = layout::<T>(len) else {
            let mut none = LargeSlice { first: NonNull::dangling(), len: 0, owns: PhantomData };
            // Values without a size, if any, are made and forgotten: dropping the slice drops as many.
            (0..len).for_each(|_| std::mem::forget(T::default()));
            none.len = len;
            return none;
        };
        // SAFETY: the layout has a size.
        let memory = unsafe { alloc(layout) };
        let Some(first) = NonNull::new(memory.cast::<T>()) else { handle_alloc_error(layout) };
        // SAFETY: room for `len` values that nobody else knows of; uninitialized memory is valid for this type.
        let places = unsafe { std::slice::from_raw_parts_mut(first.as_ptr().cast::<MaybeUninit<T>>(), len) };
        ask_for_large_pages(places);
        // If `default` panics the memory is lost, no more.
        for place in places {
            place.write(T::default());
        }
        LargeSlice { first, len, owns: PhantomData }
    }
}

/// The memory of `len` values: whole large pages, if they fill one. `None` if they take no memory.
fn layout<T>(len: usize) -> Option<Layout> {
    #[expect(clippy::expect_used, reason = "documented at `new`, which is the first to call this")]
    let layout = Layout::array::<T>(len).expect("an array that fits memory");
    match layout.size() {
        0 => None,
        1..LARGE => Some(layout),
        // An array that cannot be aligned so is as large as the address space.
        _ => layout.align_to(LARGE).ok(),
    }
}

impl<T> Deref for LargeSlice<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `new` has written `len` values, which live as long as the object.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> Drop for LargeSlice<T> {
    fn drop(&mut self) {
        // SAFETY: `len` values that this object owns, never used again.
        unsafe { std::ptr::slice_from_raw_parts_mut(self.first.as_ptr(), self.len).drop_in_place() };
        if let Some(layout) = layout::<T>(self.len) {
            // SAFETY: allocated in `new` with this layout.
            unsafe { dealloc(self.first.as_ptr().cast(), layout) };
        }
    }
}

// SAFETY: it owns its values, as a box does.
unsafe impl<T: Send> Send for LargeSlice<T> {}
// SAFETY: sharing it shares its values, no more.
unsafe impl<T: Sync> Sync for LargeSlice<T> {}

/// A [`LargeSlice`] of `N` values: what is below `N` is known to be within.
pub struct LargeArray<T, const N: usize>(LargeSlice<T>);

impl<T: Default, const N: usize> Default for LargeArray<T, N> {
    fn default() -> Self {
        LargeArray(LargeSlice::new(N))
    }
}

impl<T, const N: usize> Deref for LargeArray<T, N> {
    type Target = [T; N];

    #[inline]
    fn deref(&self) -> &[T; N] {
        // SAFETY: the slice has `N` values, which live as long as the object.
        unsafe { self.0.first.cast().as_ref() }
    }
}

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
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn arrays_of_any_size() {
        for count in [0, 1, 4095, 4096, 3 << 20] {
            let array = LargeSlice::<u16>::new(count);
            assert_eq!(array.len(), count);
            assert!(array.iter().all(|&v| v == 0));
            assert!(count * 2 < LARGE || array.as_ptr().addr().is_multiple_of(LARGE));
        }
        assert_eq!(LargeSlice::<()>::new(7).len(), 7);
    }

    #[test]
    fn a_large_array_begins_with_a_large_page() {
        let array = LargeArray::<AtomicU16, { (2 << 20) + 3 }>::default();
        assert_eq!(array.as_ptr().addr() % LARGE, 0);
        assert!(array.iter().all(|value| value.load(Ordering::Relaxed) == 0));
        array[(2 << 20) + 2].store(7, Ordering::Relaxed);
        assert_eq!(array[(2 << 20) + 2].load(Ordering::Relaxed), 7);
        assert_eq!(LargeArray::<u64, 3>::default().iter().sum::<u64>(), 0);
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
        let array = LargeArray::<Mutex<Counted>, 5>::default();
        for value in array.iter() {
            value.lock().unwrap().0 = Some(Arc::clone(&count));
        }
        std::thread::spawn(move || drop(array)).join().unwrap();
        assert_eq!((count.load(Ordering::Relaxed), Arc::strong_count(&count)), (5, 1));
    }
}

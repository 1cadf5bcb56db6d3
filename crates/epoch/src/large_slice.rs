//! Arrays that begin on a large page, of a length that is known at run time.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::pages::ask_for_large_pages;

/// An array for many readers at random places, like that of [`on_large_pages`](crate::on_large_pages), but one that begins on a large page: of
/// an array of few pages that lies anywhere, the part before the first boundary would be on usual pages, and the part
/// after the last.
pub struct LargeSlice<T> {
    first: NonNull<T>,
    len: usize,
}

/// The size of a large page.
const LARGE: usize = 2 << 20;

impl<T: Default> LargeSlice<T> {
    /// `count` default values.
    pub fn new(count: usize) -> LargeSlice<T> {
        let Some(layout) = layout::<T>(count) else {
            return LargeSlice { first: NonNull::dangling(), len: 0 };
        };
        // SAFETY: the size is not 0.
        let memory = unsafe { alloc(layout) }.cast::<MaybeUninit<T>>();
        let Some(first) = NonNull::new(memory) else { handle_alloc_error(layout) };
        // SAFETY: `count` values fit into the layout, which has their alignment; uninitialised memory may hold
        // anything, and nobody else has it.
        let places = unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), count) };
        ask_for_large_pages(places);
        // From here on the array owns the values that are there; a panic in `default` leaves it at those.
        let mut array = LargeSlice { first: first.cast(), len: 0 };
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

impl<T> std::ops::Deref for LargeSlice<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` values that live as long as the array, or none.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> Drop for LargeSlice<T> {
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
unsafe impl<T: Send> Send for LargeSlice<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for LargeSlice<T> {}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn large_slices_begin_on_large_pages_and_drop_their_values() {
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
            let array: LargeSlice<Counted> = LargeSlice::new(count);
            assert_eq!((array.len(), Arc::strong_count(&value)), (count, 2 + count));
            assert!(array.iter().all(|counted| counted.0.is_some()));
            let large = count * 8 >= LARGE;
            assert!(!large || array.as_ptr().addr().is_multiple_of(LARGE));
            drop(array);
            assert_eq!(Arc::strong_count(&value), 2);
        }
        assert_eq!(LargeSlice::<()>::new(0).len(), 0);
    }
}

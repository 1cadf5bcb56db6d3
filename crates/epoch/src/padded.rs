//! Values that have their cache lines for themselves.

use std::ops::{Deref, DerefMut};

/// A value alone on its cache lines (two, because of the adjacent-line prefetcher): for what one thread writes often,
/// beside what others read often.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Padded<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

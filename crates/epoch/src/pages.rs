//! Large arrays on large pages.
#![allow(unsafe_code)]

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

#[cfg(target_os = "linux")]
pub(crate) fn ask_for_large_pages<T>(memory: &mut [T]) {
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
pub(crate) fn ask_for_large_pages<T>(_: &mut [T]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_any_size() {
        for count in [0, 1, 4095, 4096, 3 << 20] {
            let array: Box<[u16]> = on_large_pages(count);
            assert_eq!(array.len(), count);
            assert!(array.iter().all(|&v| v == 0));
        }
    }
}

//! What this machine offers DPDK, without starting it.
#![allow(unsafe_code)]

use crate::raw;
use std::ffi::CStr;
use std::fs;
use std::path::Path;

/// Huge pages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePages {
    /// KiB of one page.
    pub size_kib: u64,
    /// Pages that the kernel has set aside.
    pub total: u64,
    /// Those that nobody uses.
    pub free: u64,
}

/// Facts for `doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// DPDK's name and version.
    pub version: String,
    /// Huge pages by size, smallest first.
    pub huge_pages: Vec<HugePages>,
}

/// Looks at the machine; starts nothing.
pub fn facts() -> Facts {
    // SAFETY: rte_version takes nothing and returns a static string.
    let version = unsafe { raw::rte_version() };
    // SAFETY: as above: not null, NUL-terminated, never freed.
    let version = unsafe { CStr::from_ptr(version) }.to_string_lossy().into_owned();
    Facts { version, huge_pages: huge_pages() }
}

/// The huge pages of the machine by size; empty if the kernel has none.
pub(crate) fn huge_pages() -> Vec<HugePages> {
    let Ok(entries) = fs::read_dir("/sys/kernel/mm/hugepages") else { return Vec::new() };
    let mut all: Vec<HugePages> = entries.flatten().filter_map(|e| read(&e.path())).collect();
    all.sort_by_key(|h| h.size_kib);
    all
}

fn read(dir: &Path) -> Option<HugePages> {
    let size = dir.file_name()?.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?;
    let number = |file: &str| fs::read_to_string(dir.join(file)).ok()?.trim().parse::<u64>().ok();
    Some(HugePages {
        size_kib: size.parse().ok()?,
        total: number("nr_hugepages")?,
        free: number("free_hugepages")?,
    })
}

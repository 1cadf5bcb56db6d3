//! `rte_fib` and `rte_lpm`, as safe values.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_uint};
use std::ptr::NonNull;

use fib::{NextHopId, Prefix4};

/// Groups of 256 addresses that the tables have room for.
const GROUPS: u32 = 1 << 14;

#[repr(C)]
struct RawFib {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawLpm {
    _opaque: [u8; 0],
}

// As in rivals.h.
unsafe extern "C" {
    fn rival_start(argc: c_int, argv: *mut *mut c_char) -> c_int;
    fn rival_fib(routes: u32, groups: u32) -> *mut RawFib;
    fn rival_fib_select(fib: *mut RawFib, how: c_int) -> c_int;
    fn rival_fib_add(fib: *mut RawFib, address: u32, length: u8, hop: u64) -> c_int;
    fn rival_fib_delete(fib: *mut RawFib, address: u32, length: u8) -> c_int;
    fn rival_fib_lookups(fib: *mut RawFib, addresses: *const u32, n: usize, burst: c_uint, hops: *mut u64);
    fn rival_lpm(routes: u32, groups: u32) -> *mut RawLpm;
    fn rival_lpm_add(lpm: *mut RawLpm, address: u32, length: u8, hop: u32) -> c_int;
    fn rival_lpm_lookups(lpm: *const RawLpm, addresses: *const u32, n: usize, burst: c_uint, hops: *mut u32);
    fn rival_memory() -> usize;
}

/// The started EAL: without it there is no table.
#[derive(Clone, Copy)]
pub struct Eal(());

impl Eal {
    /// Starts EAL with these arguments; once per process.
    pub fn start(arguments: &[&str]) -> Result<Eal, String> {
        let words: Result<Vec<CString>, _> = arguments.iter().map(|word| CString::new(*word)).collect();
        let words = words.map_err(|e| e.to_string())?;
        // EAL keeps the strings and reorders the array: both live for ever.
        let mut pointers: Vec<*mut c_char> = words.into_iter().map(CString::into_raw).collect();
        let count = c_int::try_from(pointers.len()).map_err(|e| e.to_string())?;
        pointers.push(std::ptr::null_mut());
        // SAFETY: a NULL-terminated array of `count` NUL-terminated, writable, never freed strings.
        let code = unsafe { rival_start(count, Vec::leak(pointers).as_mut_ptr()) };
        if code == 0 { Ok(Eal(())) } else { Err(format!("EAL does not start: {arguments:?}")) }
    }

    /// Bytes that DPDK's heap has given out.
    pub fn memory(self) -> usize {
        // SAFETY: EAL runs.
        unsafe { rival_memory() }
    }
}

/// How `rte_fib` looks up.
#[derive(Clone, Copy)]
pub enum How {
    Scalar = 0,
    Avx512 = 1,
}

/// `rte_fib`, DIR24_8, entries of 2 bytes, for its one writer. Lives as long as the process.
pub struct RteFib(NonNull<RawFib>);

/// The same table for those who look up in it, while it changes, too.
#[derive(Clone, Copy)]
pub struct RteFibReader(NonNull<RawFib>);

// SAFETY: DPDK ties a table to no thread, and lets many look up while one thread changes it.
unsafe impl Send for RteFibReader {}
// SAFETY: as above.
unsafe impl Sync for RteFibReader {}

impl RteFib {
    pub fn new(_: Eal, routes: usize) -> Result<RteFib, String> {
        let routes = u32::try_from(routes * 2).map_err(|e| e.to_string())?;
        // SAFETY: EAL runs.
        NonNull::new(unsafe { rival_fib(routes, GROUPS) }).map(RteFib).ok_or("rte_fib: no memory".to_owned())
    }

    pub fn reader(&self) -> RteFibReader {
        RteFibReader(self.0)
    }

    /// False where this way to look up does not exist. Nobody may be looking up.
    pub fn select(&mut self, how: How) -> bool {
        // SAFETY: the table lives.
        unsafe { rival_fib_select(self.0.as_ptr(), how as c_int) == 0 }
    }

    /// The next hop's bits must fit into 15; false if it cannot be added.
    pub fn set(&mut self, prefix: Prefix4, hop: NextHopId) -> bool {
        let bits = u64::from(NextHopId::bits(Some(hop)));
        // SAFETY: the table lives.
        unsafe { rival_fib_add(self.0.as_ptr(), prefix.first(), prefix.len(), bits) == 0 }
    }

    pub fn remove(&mut self, prefix: Prefix4) -> bool {
        // SAFETY: the table lives.
        unsafe { rival_fib_delete(self.0.as_ptr(), prefix.first(), prefix.len()) == 0 }
    }
}

impl RteFibReader {
    /// Looks up all addresses in bursts of `hops.len()`.
    pub fn lookups(self, addresses: &[u32], hops: &mut [u64]) {
        // SAFETY: the table lives; only whole bursts of `addresses` are read, and `hops` has room for one.
        unsafe {
            rival_fib_lookups(
                self.0.as_ptr(),
                addresses.as_ptr(),
                addresses.len(),
                hops.len() as c_uint,
                hops.as_mut_ptr(),
            );
        }
    }
}

/// `rte_lpm`. Lives as long as the process.
pub struct RteLpm(NonNull<RawLpm>);

impl RteLpm {
    pub fn new(_: Eal, routes: usize) -> Result<RteLpm, String> {
        let routes = u32::try_from(routes).map_err(|e| e.to_string())?;
        // SAFETY: EAL runs.
        NonNull::new(unsafe { rival_lpm(routes, GROUPS) }).map(RteLpm).ok_or("rte_lpm: no memory".to_owned())
    }

    pub fn add(&mut self, prefix: Prefix4, hop: NextHopId) -> bool {
        // SAFETY: the table lives.
        unsafe {
            rival_lpm_add(self.0.as_ptr(), prefix.first(), prefix.len(), NextHopId::bits(Some(hop))) == 0
        }
    }

    /// Looks up all addresses in bursts of `hops.len()`, which must be a multiple of 4.
    pub fn lookups(&self, addresses: &[u32], hops: &mut [u32]) {
        assert_eq!(hops.len() % 4, 0);
        // SAFETY: the table lives; only whole bursts of `addresses` are read, and `hops` has room for one.
        unsafe {
            rival_lpm_lookups(
                self.0.as_ptr(),
                addresses.as_ptr(),
                addresses.len(),
                hops.len() as c_uint,
                hops.as_mut_ptr(),
            );
        }
    }
}

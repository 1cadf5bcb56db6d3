//! Files that DPDK's drivers have open. A program that the router starts must not inherit them: a tap is there as long as
//! anybody has it open, be it the control side of a router that was killed.
#![allow(unsafe_code)]

/// The first descriptor that is none of the three standard ones.
const FIRST: libc::c_uint = 3;

/// Closes all files but the standard ones when a program is started. So does the standard library with those that it opens;
/// drivers do not. Kernels before 5.11 know no such call: there programs inherit them.
pub(crate) fn close_on_exec() {
    // SAFETY: it touches no memory, and of open files only a flag.
    unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

//! The functions that a port's queues are worked with, called without a detour.
//!
//! Where a queue has no callbacks, which is nearly always, the driver's function is all there is to
//! `rte_eth_rx_burst` and `rte_eth_tx_burst`.
#![allow(unsafe_code)]

use crate::raw::{self, rte_eth_fp_ops, rte_ethdev_qdata, rte_mbuf};
use std::ffi::c_void;

/// A driver's function for one queue.
type Burst = unsafe extern "C" fn(*mut c_void, *mut *mut rte_mbuf, u16) -> u16;

/// A port's functions.
#[derive(Clone, Copy)]
pub(crate) struct Ops(*const rte_eth_fp_ops);

// SAFETY: one of a table's rows that stay where they are, which any thread may read.
unsafe impl Send for Ops {}

impl Ops {
    /// Those of this port.
    pub fn new(port: u16) -> Ops {
        // SAFETY: the number is that of a port, all of which are in the table.
        Ops(unsafe { raw::rb_ops(port) })
    }

    /// As `rte_eth_rx_burst`.
    ///
    /// # Safety
    /// The port is open and has this receive queue, which nobody else uses meanwhile; there is room for `n` pointers.
    #[inline(always)]
    pub unsafe fn receive(self, queue: u16, packets: *mut *mut rte_mbuf, n: u16) -> u16 {
        // SAFETY: the row and its arrays are there while the port is open. Others write to them word by word, so each word is
        // read once.
        match unsafe { alone(&raw const (*self.0).rxq, &raw const (*self.0).rx_pkt_burst, queue) } {
            // SAFETY: as asked of the caller.
            Some((burst, data)) => unsafe { burst(data, packets, n) },
            // SAFETY: as asked of the caller.
            None => unsafe { raw::rb_rx_burst(self.0, queue, packets, n) },
        }
    }

    /// As `rte_eth_tx_burst`.
    ///
    /// # Safety
    /// The port is open and has this transmit queue, which nobody else uses meanwhile; there are `n` packets, which are the
    /// caller's, and the first of them, as many as is returned, no longer are.
    #[inline(always)]
    pub unsafe fn send(self, queue: u16, packets: *mut *mut rte_mbuf, n: u16) -> u16 {
        // SAFETY: as for `receive`.
        match unsafe { alone(&raw const (*self.0).txq, &raw const (*self.0).tx_pkt_burst, queue) } {
            // SAFETY: as asked of the caller.
            Some((burst, data)) => unsafe { burst(data, packets, n) },
            // SAFETY: as asked of the caller.
            None => unsafe { raw::rb_tx_burst(self.0, queue, packets, n) },
        }
    }
}

/// The driver's function and the queue that it wants, if nothing else is to be called.
///
/// # Safety
/// The pointers lead into the row of an open port, which has this queue.
#[inline(always)]
unsafe fn alone(
    queues: *const rte_ethdev_qdata,
    burst: *const Option<Burst>,
    queue: u16,
) -> Option<(Burst, *mut c_void)> {
    let queue = usize::from(queue);
    // SAFETY: as asked of the caller; both arrays have an entry for each queue, and a row of the table always has functions.
    unsafe {
        let callbacks = (&raw const (*queues).clbk).read_volatile().add(queue).read_volatile();
        let data = (&raw const (*queues).data).read_volatile().add(queue).read_volatile();
        // Never null: of a port that does not run, DPDK puts functions there that do nothing.
        callbacks.is_null().then(|| (burst.read_volatile().unwrap_unchecked(), data))
    }
}

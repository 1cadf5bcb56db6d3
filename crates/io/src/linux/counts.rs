//! What ports of Linux count, and which of their queues are taken.

use crate::port::{Limits, PortStats};
use crate::refusal::{Refusal, Refusals};
use packet::Batch;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Names of what receive queues give up, in this order.
pub(super) const RX_LOSSES: [&str; 2] = ["oversized", "no_buffer"];

/// Of one receive queue, which alone writes it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct RxCounts {
    packets: AtomicU64,
    bytes: AtomicU64,
    /// Frames longer than a buffer.
    oversized: AtomicU64,
    /// How often there was no buffer for a frame, which stayed in the kernel.
    no_buffer: AtomicU64,
}

/// Of one transmit queue, which alone writes it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct TxCounts {
    packets: AtomicU64,
    bytes: AtomicU64,
    refused: [AtomicU64; Refusal::ALL.len()],
}

/// Counts more, where nobody else writes.
fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Relaxed).wrapping_add(more), Relaxed);
}

impl RxCounts {
    pub(super) fn received(&self, batch: &Batch) {
        add(&self.packets, batch.len() as u64);
        add(&self.bytes, batch.bytes());
    }

    pub(super) fn oversized(&self) {
        add(&self.oversized, 1);
    }

    pub(super) fn no_buffer(&self) {
        add(&self.no_buffer, 1);
    }
}

impl TxCounts {
    pub(super) fn sent(&self, packets: u64, bytes: u64) {
        add(&self.packets, packets);
        add(&self.bytes, bytes);
    }

    pub(super) fn refused(&self, why: Refusal, packets: u64) {
        add(&self.refused[why as usize], packets);
    }

    pub(super) fn refusals(&self) -> Refusals {
        let mut refusals = Refusals::default();
        for (why, count) in Refusal::ALL.into_iter().zip(&self.refused) {
            refusals[why] = count.load(Relaxed);
        }
        refusals
    }
}

/// The counts of all queues, and which were handed out.
#[derive(Debug)]
pub(super) struct Queues {
    pub rx: Vec<Arc<RxCounts>>,
    pub tx: Vec<Arc<TxCounts>>,
    taken: Mutex<[Vec<bool>; 2]>,
}

impl Queues {
    pub(super) fn new(limits: Limits) -> Queues {
        let (rx, tx) = (usize::from(limits.rx_queues), usize::from(limits.tx_queues));
        Queues {
            rx: (0..rx).map(|_| Arc::default()).collect(),
            tx: (0..tx).map(|_| Arc::default()).collect(),
            taken: Mutex::new([vec![false; rx], vec![false; tx]]),
        }
    }

    pub(super) fn limits(&self) -> Limits {
        let number = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        Limits { rx_queues: number(self.rx.len()), tx_queues: number(self.tx.len()) }
    }

    fn take(&self, way: usize, queue: u16) -> Option<usize> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = taken[way].get_mut(usize::from(queue))?;
        (!std::mem::replace(slot, true)).then_some(usize::from(queue))
    }

    /// Hands out a receive queue, once.
    pub(super) fn take_rx(&self, queue: u16) -> Option<(usize, Arc<RxCounts>)> {
        let at = self.take(0, queue)?;
        Some((at, self.rx[at].clone()))
    }

    /// Hands out a transmit queue, once.
    pub(super) fn take_tx(&self, queue: u16) -> Option<(usize, Arc<TxCounts>)> {
        let at = self.take(1, queue)?;
        Some((at, self.tx[at].clone()))
    }

    /// What all of them have counted.
    pub(super) fn stats(&self) -> PortStats {
        let rx = |count: fn(&RxCounts) -> &AtomicU64| self.rx.iter().map(|q| count(q).load(Relaxed)).sum();
        let tx = |count: fn(&TxCounts) -> &AtomicU64| self.tx.iter().map(|q| count(q).load(Relaxed)).sum();
        PortStats {
            rx_packets: rx(|q| &q.packets),
            rx_bytes: rx(|q| &q.bytes),
            rx_missed: 0,
            rx_errors: rx(|q| &q.oversized),
            rx_no_buffer: rx(|q| &q.no_buffer),
            tx_packets: tx(|q| &q.packets),
            tx_bytes: tx(|q| &q.bytes),
            tx_errors: self.tx.iter().map(|q| q.refusals().sum()).sum(),
        }
    }

    /// What was given up, by name.
    pub(super) fn extended(&self) -> Vec<(String, u64)> {
        let oversized = self.rx.iter().map(|q| q.oversized.load(Relaxed)).sum();
        let refused = Refusal::ALL.into_iter().map(|why| {
            let all = self.tx.iter().map(|q| q.refusals()[why]).sum();
            (format!("tx_{}", why.name().trim_start_matches("tx_")), all)
        });
        std::iter::once(("rx_oversized".to_owned(), oversized)).chain(refused).collect()
    }
}

//! The one buffer pool of the process.
#![allow(unsafe_code)]

use crate::eal::{Eal, error_text};
use crate::raw;
use io::OpenError;
use packet::{Batch, BufferSource, ForeignPool, Header, PRIVATE_SIZE, install_foreign};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Buffers that each worker keeps for itself.
const CACHE: u32 = 256;
/// Bytes of headroom, which come on top of the data room.
pub(crate) const HEADROOM: u16 = 128;
const _: () = assert!(HEADROOM as usize == raw::RB_HEADROOM as usize);
/// The largest data room: lengths are 16 bits.
pub(crate) const MOST_DATA_ROOM: u16 = u16::MAX - HEADROOM - 63;

/// How large the pool is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub buffers: u32,
    /// Bytes of data that a fresh buffer takes.
    pub data_room: u16,
}

impl Size {
    /// Bytes of memory that a pool of this size takes, roughly: headers, alignment, and what rings take.
    pub(crate) fn memory(self) -> u64 {
        let per_buffer = u64::from(self.data_room) + u64::from(HEADROOM) + 128 + PRIVATE_SIZE as u64 + 128;
        u64::from(self.buffers) * per_buffer + (32 << 20)
    }
}

/// A memory pool of DPDK.
pub(crate) struct DpdkPool {
    raw: NonNull<raw::rte_mempool>,
    size: Size,
    /// Buffers that XDP sockets could not use and nobody gets, therefore.
    aside: usize,
    /// Buffers that XDP sockets cannot use and that others may get.
    beyond_xdp: usize,
    /// Buffers that went down with a driver.
    sunk: AtomicUsize,
    /// Buffers that go down with each receive queue of an XDP socket; 0 while there is none.
    xdp_queue: AtomicUsize,
    eal: Arc<Eal>,
}

// SAFETY: DPDK's default pool is a multi-producer, multi-consumer ring with per-lcore caches: any thread may use it.
unsafe impl Send for DpdkPool {}
// SAFETY: as for Send.
unsafe impl Sync for DpdkPool {}

impl DpdkPool {
    /// Makes the pool.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub(crate) fn new(eal: &Arc<Eal>, size: Size) -> Result<DpdkPool, OpenError> {
        let listener = eal.listen();
        // SAFETY: EAL runs; the name is NUL-terminated and is copied.
        let pool = unsafe {
            raw::rb_pool(
                c"routebricks".as_ptr(),
                size.buffers,
                CACHE.min(size.buffers * 2 / 3),
                PRIVATE_SIZE as u16,
                size.data_room + HEADROOM,
            )
        };
        // SAFETY: reads a thread-local number.
        let errno = unsafe { raw::rb_errno() };
        let words = listener.words();
        let Some(raw) = NonNull::new(pool) else {
            let said = if words.is_empty() { error_text(errno) } else { words };
            return Err(OpenError::new(
                format!("no memory for {} packet buffers of {} bytes: {said}", size.buffers, size.data_room),
                format!(
                    "{} MB are needed: free or set aside huge pages (sysctl vm.nr_hugepages=N), give --no-huge or a \
                     larger -m after -- on the command line, or ask for fewer buffers (DPDKInfo)",
                    size.memory() >> 20
                ),
            ));
        };
        install_foreign(&Taker);
        let mut aside = 0;
        // SAFETY: the pool is new, so that nobody uses any of it.
        let beyond = unsafe { raw::rb_beyond_xdp(raw.as_ptr(), &raw mut aside) };
        Ok(DpdkPool {
            raw,
            size,
            aside: aside as usize,
            beyond_xdp: beyond as usize,
            sunk: AtomicUsize::new(0),
            xdp_queue: AtomicUsize::new(0),
            eal: eal.clone(),
        })
    }

    /// A driver closed without giving back these buffers.
    pub(crate) fn sink(&self, buffers: usize) {
        self.sunk.fetch_add(buffers, Ordering::Relaxed);
    }

    /// Buffers that the driver of XDP sockets took for so many queues, and will not give back; `measured` is what went
    /// while it started. The first measurement holds: later ones may be made while packets come and go.
    pub(crate) fn xdp_takes(&self, queues: u16, measured: usize) -> usize {
        let queues = usize::from(queues.max(1));
        let known =
            self.xdp_queue.compare_exchange(0, measured / queues, Ordering::Relaxed, Ordering::Relaxed);
        known.map_or_else(|each| each * queues, |_| measured)
    }

    /// Buffers that somebody still owns, once all ports are closed.
    pub(crate) fn missing(&self) -> usize {
        self.in_use().saturating_sub(self.sunk.load(Ordering::Relaxed))
    }

    /// Why XDP sockets cannot use these buffers: packets in those that the kernel does not know would be lost without
    /// anybody counting them, and receiving would cease once it had been given enough of them.
    pub(crate) fn no_xdp(&self) -> Option<String> {
        let (beyond, all) = (self.beyond_xdp, self.size.buffers);
        (beyond > 0).then(|| {
            format!(
                "{beyond} of {all} buffers lie where XDP sockets cannot reach them (--iova-mode=va helps)"
            )
        })
    }

    pub(crate) fn raw(&self) -> NonNull<raw::rte_mempool> {
        self.raw
    }
}

impl Drop for DpdkPool {
    fn drop(&mut self) {
        if self.in_use() == 0 {
            // SAFETY: every buffer is back, and this was the last handle.
            unsafe { raw::rte_mempool_free(self.raw.as_ptr()) };
        } else {
            // Somebody may still own a buffer: the pool stays, for ever.
            self.eal.keep_memory();
        }
    }
}

impl BufferSource for DpdkPool {
    fn alloc_into(&self, batch: &mut Batch, n: usize) -> usize {
        let (old, n) = (batch.len(), n.min(batch.room()));
        let mut step = n;
        // The pool gives all or nothing; near its end, ask for less.
        while step > 0 {
            let before = batch.len();
            let fill = |slots: &mut [MaybeUninit<NonNull<Header>>]| self.alloc_raw(slots);
            // SAFETY: alloc_raw writes as many fresh buffers, each owned by nobody else, as it returns.
            unsafe { batch.fill_raw(step, fill) };
            if batch.len() == before {
                step /= 2;
            }
            step = step.min(n - (batch.len() - old));
        }
        for packet in &mut batch.as_mut_slice()[old..] {
            packet.clear_marks();
            packet.clear_annos();
            packet.set_flow_hash(0);
        }
        batch.len() - old
    }

    fn data_room(&self) -> usize {
        usize::from(self.size.data_room)
    }

    fn in_use(&self) -> usize {
        // SAFETY: the pool lives as long as we do.
        let out = unsafe { raw::rte_mempool_in_use_count(self.raw.as_ptr()) as usize };
        out.saturating_sub(self.aside)
    }

    fn capacity(&self) -> usize {
        self.size.buffers as usize - self.aside
    }
}

impl DpdkPool {
    /// Fills the slots with fresh buffers: all of them or none; returns how many.
    fn alloc_raw(&self, slots: &mut [MaybeUninit<NonNull<Header>>]) -> usize {
        let count = slots.len();
        // SAFETY: the slots are valid for writes of `count` pointers; on success all are written, not null.
        let code = unsafe { raw::rb_alloc(self.raw.as_ptr(), slots.as_mut_ptr().cast(), count as u32) };
        if code == 0 { count } else { 0 }
    }
}

/// Takes buffers back into the pool that their header names.
struct Taker;

// SAFETY: `free` gives every buffer back to the pool that it came from.
unsafe impl ForeignPool for Taker {
    fn free(&self, buffers: &mut [NonNull<Header>], same_pool: bool) {
        let step = if same_pool { buffers.len() } else { 1 };
        for group in buffers.chunks_mut(step.max(1)) {
            // SAFETY: the caller owns the buffers, so the header is live; a buffer that is out keeps its pool mapped.
            let pool = unsafe { group[0].as_ref().pool };
            // SAFETY: all of the group are of this pool. A packet is direct, unshared and of one segment, `next` is
            // NULL, so it may go back without the checks of rte_pktmbuf_free.
            unsafe { raw::rb_put(pool.cast(), group.as_mut_ptr().cast(), group.len() as u32) };
        }
    }
}

//! Where buffers come from and go back to.
//!
//! A process uses buffers of the heap ([`HeapPool`]) or, once DPDK is initialised, of a DPDK memory pool that the crate
//! `dpdk` plugs in as a [`ForeignPool`]. Freeing needs no handle: a buffer's header names its pool, and the lowest bit
//! of that pointer says whether it is one of ours (1) or foreign (0; memory pools of DPDK are cache-line aligned).
#![allow(unsafe_code)]

use crate::batch::Batch;
use crate::header::{Header, PRIVATE_SIZE, Private};
use crate::packet::Packet;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Headroom of a fresh packet in bytes (DPDK's default).
const HEADROOM: u16 = 128;
const OURS: usize = 1;
/// Buffers that the heap pool obtains from the allocator at once.
const SLAB: usize = 64;

/// A source of buffers for packets that elements make.
pub trait BufferSource: Send + Sync {
    /// Appends up to `n` fresh packets (empty, headroom set, marks and annotations clear) to `batch`; returns how many.
    fn alloc_into(&self, batch: &mut Batch, n: usize) -> usize;
    /// Bytes of data that a fresh packet can take.
    fn data_room(&self) -> usize;
    /// Buffers that are out of the pool now.
    fn in_use(&self) -> usize;
    /// Buffers that the pool has in all.
    fn capacity(&self) -> usize;
}

/// Takes back buffers that are not from a [`HeapPool`].
///
/// # Safety
/// `free` must take ownership of all buffers given, which were obtained from [`Packet::into_raw`].
pub unsafe trait ForeignPool: Send + Sync {
    /// Gives buffers back. `same_pool` is true if all have the same `pool`.
    fn free(&self, buffers: &mut [NonNull<Header>], same_pool: bool);
}

static FOREIGN: OnceLock<&'static dyn ForeignPool> = OnceLock::new();

/// Installs the one taker of foreign buffers of this process. False if there is one already.
pub fn install_foreign(foreign: &'static dyn ForeignPool) -> bool {
    FOREIGN.set(foreign).is_ok()
}

static HEAP_USED: AtomicBool = AtomicBool::new(false);

/// True once a [`HeapPool`] of this process has had a buffer. Whoever owns a packet and sees false knows that its buffer
/// is foreign: the packet cannot have come here without what happened before it came into being.
#[inline]
pub fn heap_used() -> bool {
    HEAP_USED.load(Ordering::Relaxed)
}

/// A handle to a source of buffers; cheap to clone.
#[derive(Clone)]
pub struct Pool(Arc<dyn BufferSource>);

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} of {} buffers in use)", self.in_use(), self.0.capacity())
    }
}

impl Pool {
    /// Wraps a source.
    pub fn new(source: Arc<dyn BufferSource>) -> Pool {
        Pool(source)
    }

    /// A heap pool of at most `capacity` buffers with room for `data_room` bytes each, headroom not counted.
    pub fn heap(capacity: usize, data_room: u16) -> Pool {
        Pool(Arc::new(HeapPool::new(capacity, data_room)))
    }

    /// One fresh packet; `None` if the pool is empty.
    pub fn alloc(&self) -> Option<Packet> {
        let mut batch = Batch::empty();
        self.0.alloc_into(&mut batch, 1);
        batch.pop()
    }

    /// Up to `n` (at most [`Batch::MAX`]) fresh packets.
    pub fn alloc_batch(&self, n: usize) -> Batch {
        let mut batch = Batch::empty();
        self.0.alloc_into(&mut batch, n.min(Batch::MAX));
        batch
    }

    /// A fresh packet that holds these bytes; `None` if the pool is empty or the bytes do not fit.
    pub fn packet(&self, bytes: &[u8]) -> Option<Packet> {
        let mut packet = self.alloc()?;
        if packet.append(bytes) {
            return Some(packet);
        }
        packet.free();
        None
    }

    /// Bytes of data that a fresh packet can take.
    pub fn data_room(&self) -> usize {
        self.0.data_room()
    }

    /// Buffers that are out of the pool now.
    pub fn in_use(&self) -> usize {
        self.0.in_use()
    }

    /// Buffers that the pool has in all.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

/// Gives buffers back to wherever they came from.
pub(crate) fn free(buffers: &mut [NonNull<Header>]) {
    let Some(first) = buffers.first() else { return };
    // SAFETY: the caller owns the buffers (they come from packets), so their headers are live.
    let pool_of = |b: &NonNull<Header>| unsafe { b.as_ref().pool };
    let pool = pool_of(first);
    if buffers.iter().all(|b| pool_of(b) == pool) {
        free_to(pool, buffers, true);
    } else {
        for one in buffers.chunks_mut(1) {
            free_to(pool_of(&one[0]), one, true);
        }
    }
}

fn free_to(pool: *mut c_void, buffers: &mut [NonNull<Header>], same_pool: bool) {
    if pool.addr() & OURS != 0 {
        let shared = pool.wrapping_byte_sub(OURS).cast::<HeapShared>();
        // SAFETY: a tagged pool pointer is set by HeapPool alone, and the shared part outlives every buffer in use.
        unsafe { HeapShared::take_back(shared, buffers) };
    } else if let Some(foreign) = FOREIGN.get() {
        foreign.free(buffers, same_pool);
    }
    // A foreign buffer without a taker cannot come into being: whoever makes one installs the taker first.
}

/// Buffers from the heap: for tests, files and every configuration without DPDK.
#[derive(Debug)]
pub struct HeapPool(NonNull<HeapShared>);

// SAFETY: the shared part is behind a mutex.
unsafe impl Send for HeapPool {}
// SAFETY: as for Send.
unsafe impl Sync for HeapPool {}

#[derive(Debug)]
struct HeapShared {
    capacity: usize,
    data_room: u16,
    state: Mutex<HeapState>,
}

#[derive(Debug, Default)]
struct HeapState {
    free: Vec<NonNull<Header>>,
    slabs: Vec<NonNull<u8>>,
    made: usize,
    in_use: usize,
    /// The pool handle is gone: whoever gives the last buffer back frees everything.
    orphaned: bool,
}

impl HeapPool {
    /// A pool of at most `capacity` buffers with room for `data_room` bytes each; memory is obtained as needed.
    pub fn new(capacity: usize, data_room: u16) -> HeapPool {
        let data_room = data_room.min(u16::MAX - HEADROOM);
        let shared = Box::new(HeapShared { capacity, data_room, state: Mutex::default() });
        HeapPool(NonNull::from(Box::leak(shared)))
    }

    fn shared(&self) -> &HeapShared {
        // SAFETY: the shared part lives until the handle is dropped and all buffers are back.
        unsafe { self.0.as_ref() }
    }
}

impl HeapShared {
    fn lock(&self) -> MutexGuard<'_, HeapState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stride(&self) -> usize {
        let data = usize::from(HEADROOM) + usize::from(self.data_room);
        size_of::<Header>() + PRIVATE_SIZE + data.next_multiple_of(64)
    }

    #[expect(clippy::expect_used, reason = "stride is at most 66 KB, so 64 of them cannot overflow a layout")]
    fn slab_layout(&self) -> Layout {
        Layout::from_size_align(self.stride() * SLAB, 64).expect("slab layout")
    }

    /// Obtains one more slab, within the capacity.
    fn grow(&self, state: &mut HeapState) {
        let count = SLAB.min(self.capacity - state.made);
        if count == 0 {
            return;
        }
        HEAP_USED.store(true, Ordering::Relaxed);
        let layout = self.slab_layout();
        // SAFETY: the layout has a size above zero.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(slab) = NonNull::new(memory) else { handle_alloc_error(layout) };
        state.slabs.push(slab);
        for i in 0..count {
            // SAFETY: i * stride is inside the slab, which is 64-byte aligned as is the stride.
            let header = unsafe { slab.add(i * self.stride()) }.cast::<Header>();
            self.init(header);
            state.free.push(header);
        }
        state.made += count;
    }

    /// Fills in the fields of a header that never change.
    fn init(&self, header: NonNull<Header>) {
        let pool = std::ptr::from_ref(self).cast_mut().cast::<c_void>().wrapping_byte_add(OURS);
        // SAFETY: the header lies in fresh zeroed memory of the slab, and zero is valid for all its fields.
        let h = unsafe { &mut *header.as_ptr() };
        h.buf_addr = Header::buffer(header.as_ptr());
        h.buf_len = HEADROOM + self.data_room;
        #[expect(clippy::cast_possible_truncation, reason = "64")]
        {
            h.priv_size = PRIVATE_SIZE as u16;
        }
        h.refcnt = 1;
        h.nb_segs = 1;
        h.pool = pool;
    }

    /// Takes buffers back; frees the whole pool if it was the last one of an orphaned pool.
    ///
    /// # Safety
    /// `this` is the shared part that the buffers belong to, and the caller owns the buffers.
    unsafe fn take_back(this: *mut HeapShared, buffers: &[NonNull<Header>]) {
        // SAFETY: at least one buffer is out, so the shared part lives.
        let shared = unsafe { &*this };
        let last = {
            let mut state = shared.lock();
            state.free.extend_from_slice(buffers);
            state.in_use -= buffers.len();
            state.orphaned && state.in_use == 0
        };
        if last {
            // SAFETY: the handle is gone and no buffer is out, so nobody else can reach it.
            unsafe { HeapShared::destroy(this) };
        }
    }

    /// # Safety
    /// Nobody else can reach `this`.
    unsafe fn destroy(this: *mut HeapShared) {
        // SAFETY: `this` came from Box::leak in `HeapPool::new`; the caller vouches for being alone.
        let shared = unsafe { Box::from_raw(this) };
        let layout = shared.slab_layout();
        for slab in &shared.lock().slabs {
            // SAFETY: each slab was allocated with this layout, and no buffer in it is in use.
            unsafe { dealloc(slab.as_ptr(), layout) };
        }
    }
}

impl Drop for HeapPool {
    fn drop(&mut self) {
        let alone = {
            let mut state = self.shared().lock();
            state.orphaned = true;
            state.in_use == 0
        };
        if alone {
            // SAFETY: no buffer is out and the only handle is being dropped.
            unsafe { HeapShared::destroy(self.0.as_ptr()) };
        }
    }
}

impl BufferSource for HeapPool {
    fn alloc_into(&self, batch: &mut Batch, n: usize) -> usize {
        let shared = self.shared();
        let mut state = shared.lock();
        let n = n.min(batch.room());
        let mut got = 0;
        while got < n {
            let Some(header) = state.free.pop() else {
                let before = state.made;
                shared.grow(&mut state);
                if state.made == before {
                    break;
                }
                continue;
            };
            reset(header);
            // SAFETY: the buffer was free, so this is its only owner; `init` and `reset` set up all fields.
            batch.push(unsafe { Packet::from_raw(header) });
            got += 1;
        }
        state.in_use += got;
        got
    }

    fn data_room(&self) -> usize {
        usize::from(self.shared().data_room)
    }

    fn in_use(&self) -> usize {
        self.shared().lock().in_use
    }

    fn capacity(&self) -> usize {
        self.shared().capacity
    }
}

/// Makes a free buffer a fresh, empty packet.
fn reset(header: NonNull<Header>) {
    // SAFETY: the buffer is free and this thread is about to own it.
    let h = unsafe { &mut *header.as_ptr() };
    h.data_off = HEADROOM;
    h.data_len = 0;
    h.pkt_len = 0;
    h.ol_flags = 0;
    h.packet_type = 0;
    h.port = 0;
    h.vlan_tci = 0;
    h.vlan_tci_outer = 0;
    h.hash_lo = 0;
    h.hash_hi = 0;
    // SAFETY: the private area lies right behind the header in the same slab.
    unsafe { header.add(1).cast::<Private>().write(Private::EMPTY) };
}

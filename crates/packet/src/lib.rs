//! What a packet is: a buffer with the mbuf's layout, header formats, annotations, batches.
//!
//! * [`Packet`] owns one buffer of a [`Pool`]. It is never shared and never cloned by reference, so its bytes can
//!   always be changed in place; [`Packet::duplicate`] copies.
//! * [`Batch`] owns up to [`Batch::MAX`] packets. It is the unit of work everywhere.
//! * [`wire`] holds header formats: parse once, then read fields that cannot be out of range.
//!
//! The buffer header has the layout of DPDK's `struct rte_mbuf` (checked at compile time by the crate `dpdk` against
//! the installed headers), so one code path serves buffers of the heap and of a DPDK memory pool.
//!
//! * [`lanes`] works on the same field of several packets at once.
//!
//! `unsafe` lives in `packet`, `marks`, `batch`, `pieces`, `deal`, `frame`, `due`, `settle`, `sift`, `together`, `pool`, `header`
//! and `lanes` only.

pub mod anno;
mod batch;
mod columns;
mod deal;
mod due;
mod frame;
mod header;
mod heads;
pub mod lanes;
mod marks;
mod packet;
mod pieces;
mod pool;
mod settle;
mod sift;
mod together;
pub mod wire;

pub use anno::PacketType;
pub use batch::{Batch, BatchIntoIter};
pub use columns::Columns;
pub use frame::Headers;
pub use header::{Header, PRIVATE_SIZE};
pub use packet::{Packet, held, unaccounted};
pub use pieces::Pieces;
pub use pool::{BufferSource, ForeignPool, HeapPool, Pool, heap_used, install_foreign};
pub use settle::{RX_RSS_HASH, Settle};
pub use together::Heads;

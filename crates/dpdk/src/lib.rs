//! DPDK made safe: EAL, the buffer pool, ports and queues, behind the traits of the crate `io`.
//!
//! [`DpdkDevices`] is all that a router needs. Nothing of DPDK runs before the first device is named, so a
//! configuration without devices needs neither privileges nor huge pages. Each worker thread calls
//! [`register_worker`], which gives it a buffer cache of its own.
//!
//! # What keeps memory valid
//! Everything that touches DPDK's memory (pool handles, ports, queues, registered workers) holds the EAL. EAL memory
//! is unmapped when the last of them is gone *and* every buffer is back; while one buffer is missing it stays mapped.

// They panic if nobody reads any more; `io::say!` does not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod args;
mod descriptors;
mod device;
mod devices;
mod driver;
mod eal;
mod facts;
mod log;
mod names;
mod ops;
mod plain;
mod pool;
mod port;
mod queue;
mod raw;
mod rss;
mod runtime_dir;

pub use devices::DpdkDevices;
pub use eal::{EalOptions, WorkerRegistration, register_worker};
pub use facts::{Facts, HugePages, facts};
pub use names::refuse as refuse_name;

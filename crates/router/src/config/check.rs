//! What can be said about a configuration without opening anything.

use crate::run::BURST;
use elements::classes;
use elements::harness::Names;
use graph::{Clock, Diagnostic, Options, Plan, Router};
use io::memory::MemoryDevices;
use io::{Devices, Limits, NoDevices, OpenError};
use lang::{ClassTable, Flat, SourceMap, compile};
use std::sync::Arc;

/// Queues that any device is said to have: one for each worker that `run` can have.
const QUEUES: u16 = 256;

/// Grants whatever a configuration asks of any device, and opens none.
fn any_device() -> Arc<dyn Devices> {
    let limits = Limits { rx_queues: QUEUES, tx_queues: QUEUES };
    Arc::new(MemoryDevices::any(NoDevices::new("").pool(), limits, refuse))
}

/// What is wrong with a device's name, whatever devices there are.
#[cfg(feature = "dpdk")]
fn refuse(name: &str) -> Option<OpenError> {
    io::ring::refuse(name).or_else(|| dpdk::refuse_name(name))
}

#[cfg(not(feature = "dpdk"))]
fn refuse(name: &str) -> Option<OpenError> {
    io::ring::refuse(name)
}

/// Mistakes and warnings that `run` with this many workers would show, as far as nothing must be opened for them.
pub fn elements(plan: &Plan, flat: &Flat, workers: usize) -> Vec<Diagnostic> {
    Router::check(plan, flat, &options(workers))
}

fn options(workers: usize) -> Options {
    let clock = Arc::new(Clock::simulated(0));
    Options { workers, burst: BURST.into(), clock, devices: any_device(), tables: graph::Tables::new() }
}

/// Any name is a class: for a look at the arguments of those that are.
struct AnyName;

impl ClassTable for AnyName {
    fn has(&self, _: &str) -> bool {
        true
    }

    fn names(&self) -> Vec<&str> {
        Names.names()
    }
}

/// If nothing but the names of classes or the use of ports is wrong: the mistakes in the arguments and ports of known
/// classes. How many workers there will be is not asked: as many as there can be.
pub fn despite_unknown_classes(
    sources: &mut SourceMap,
    main: u32,
    variables: &[(String, String)],
) -> Vec<Diagnostic> {
    // Texts are added once more: places in them stay valid, those of the first reading too.
    compile(sources, main, &super::source::load_library, &AnyName, variables)
        .map_or(Vec::new(), |flat| Router::mistakes(&flat, &classes(), &options(usize::from(QUEUES))))
}

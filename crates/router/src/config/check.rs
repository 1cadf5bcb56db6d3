//! What can be said about a configuration without opening anything.

use elements::classes;
use elements::harness::Names;
use graph::{AnyClass, AnyShared, Args, Clock, Configure, Diagnostic, NodeId, Options, Phase, Plan, Router};
use io::memory::MemoryDevices;
use io::{Devices, Limits, NoDevices, OpenError};
use lang::args::{Names as AddressNames, names_by_scope};
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
    dpdk::refuse_name(name)
}

#[cfg(not(feature = "dpdk"))]
fn refuse(_: &str) -> Option<OpenError> {
    None
}

/// Mistakes and warnings that `run` with this many workers would show, as far as nothing must be opened for them.
pub fn elements(plan: &Plan, flat: &Flat, workers: usize) -> Vec<Diagnostic> {
    let clock = Arc::new(Clock::simulated(0));
    Router::check(plan, flat, &Options { workers, burst: 64, clock, devices: any_device() })
}

/// Lets every element of a known class read its arguments.
fn arguments(flat: &Flat) -> Vec<Diagnostic> {
    let devices = any_device();
    let ports = ports(flat);
    let mut found = Vec::new();
    let mut names = Vec::new();
    for phase in [Phase::Info, Phase::Normal] {
        let mut values = Vec::new();
        for ((i, element), &(inputs, outputs)) in flat.elements.iter().enumerate().zip(&ports) {
            let Some(class) = classes().find(&element.class).filter(|c| c.spec().phase == phase) else {
                continue;
            };
            let cx = Configure {
                name: &element.name,
                inputs,
                outputs,
                workers: 1,
                active: &[0],
                devices: &devices,
                burst: 32,
                resolve: &|name| flat.resolve(i, name).map(NodeId::new),
            };
            match configure(flat, i, class, &cx, &names) {
                Ok(value) => values.push((i, value)),
                Err(errors) => found.extend(errors),
            }
        }
        names = names_by_scope(flat, values.iter().filter_map(|(i, value)| Some((*i, value.names()?))));
    }
    found
}

fn configure(
    flat: &Flat,
    i: usize,
    class: &'static dyn AnyClass,
    cx: &Configure<'_>,
    names: &[Option<Arc<AddressNames>>],
) -> Result<Arc<dyn AnyShared>, Vec<Diagnostic>> {
    let errors = match class.configure(&mut Args::of(flat, i, names), cx) {
        Ok(value) => return Ok(value),
        Err(errors) => errors.0,
    };
    let span = flat.elements.get(i).map(|e| e.span).unwrap_or_default();
    let within = |mut d: Diagnostic| {
        if d.context.is_none() {
            d = d.context(span, format!("While configuring '{} :: {}'", cx.name, class.spec().name));
            d.uses = flat.uses(i);
        }
        d
    };
    Err(errors.into_iter().map(within).collect())
}

/// Numbers of inputs and outputs that connections use, by element.
fn ports(flat: &Flat) -> Vec<(usize, usize)> {
    let mut ports = vec![(0, 0); flat.elements.len()];
    for c in &flat.connections {
        if let Some((_, outputs)) = ports.get_mut(c.from.0) {
            *outputs = (*outputs).max(c.from.1 as usize + 1);
        }
        if let Some((inputs, _)) = ports.get_mut(c.to.0) {
            *inputs = (*inputs).max(c.to.1 as usize + 1);
        }
    }
    ports
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
/// classes.
pub fn despite_unknown_classes(
    sources: &mut SourceMap,
    main: u32,
    variables: &[(String, String)],
) -> Vec<Diagnostic> {
    // Texts are added once more: places in them stay valid, those of the first reading too.
    compile(sources, main, &super::source::load_library, &AnyName, variables)
        .map_or(Vec::new(), |flat| [arguments(&flat), Plan::mistakes(&flat, &classes())].concat())
}

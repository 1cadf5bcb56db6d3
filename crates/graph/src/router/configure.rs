//! From a plan to configured elements.

use super::Options;
use crate::NodeId;
use crate::class::{AnyShared, ConfigErrors, Configure, Initialize};
use crate::engine::tasks::DEFAULT_TICKETS;
use crate::plan::{Groups, Homes, Plan, Queues, assign_homes};
use crate::spec::Phase;
use io::Devices;
use lang::args::{Args, Names, names_by_scope};
use lang::{Diagnostic, Flat, Span, Target};
use std::sync::Arc;

/// Configured elements, and what their configurations say about running them.
pub(super) struct Configured {
    pub shared: Vec<Arc<dyn AnyShared>>,
    pub homes: Homes,
    /// Each task's share, by element.
    pub tickets: Vec<u32>,
    pub warnings: Vec<Diagnostic>,
}

/// Configures all elements, information first, and settles who lives where.
///
/// # Errors
/// All mistakes, and the warnings.
pub(super) fn configure(plan: &Plan, flat: &Flat, options: &Options) -> Result<Configured, Vec<Diagnostic>> {
    let mut shared: Vec<Option<Arc<dyn AnyShared>>> = vec![None; plan.nodes.len()];
    let mut errors = Vec::new();
    let workers = options.workers.max(1);
    let step = Step { plan, flat, options };
    let unbound = Groups::new(plan, &[], &mut errors);
    step.configure(Phase::Info, &unbound, &[], &mut shared, &mut errors);
    let bound = placements(plan, flat, &shared, workers, &mut errors);
    let tickets = tickets(plan, flat, &shared, &mut errors);
    let groups = Groups::new(plan, &bound, &mut errors);
    let defined = shared.iter().enumerate().filter_map(|(i, s)| Some((i, s.as_ref()?.names()?)));
    let names = names_by_scope(flat, defined);
    step.configure(Phase::Normal, &groups, &names, &mut shared, &mut errors);
    // Elements of unknown classes have no value.
    if lang::has_errors(&errors) || shared.iter().any(Option::is_none) {
        return Err(errors);
    }
    let shared: Vec<Arc<dyn AnyShared>> = shared.into_iter().flatten().collect();
    let queues: Vec<Option<Queues>> = shared.iter().map(|s| s.queues()).collect();
    let homes = assign_homes(plan, workers, &groups, &queues);
    Ok(Configured { shared, homes, tickets, warnings: errors })
}

/// What all elements are configured by.
struct Step<'a> {
    plan: &'a Plan,
    flat: &'a Flat,
    options: &'a Options,
}

impl Step<'_> {
    fn configure(
        &self,
        phase: Phase,
        groups: &Groups,
        names: &[Option<Arc<Names>>],
        shared: &mut [Option<Arc<dyn AnyShared>>],
        errors: &mut Vec<Diagnostic>,
    ) {
        let Step { plan, flat, options } = self;
        let workers = options.workers.max(1);
        for id in plan.ids().filter(|id| plan.node(*id).spec().phase == phase) {
            let (node, i) = (plan.node(id), id.index());
            let cx = Configure {
                name: &node.name,
                inputs: node.inputs.len(),
                outputs: node.outputs.len(),
                workers,
                places: if groups.is_lone(plan, id) { 1 } else { workers },
                devices: &options.devices,
                tables: &options.tables,
                burst: options.burst,
                resolve: &|name| flat.resolve(i, name).map(NodeId::new),
            };
            let mut args = Args::of(flat, i, names);
            match node.class.configure(&mut args, &cx) {
                Ok(value) => {
                    shared[i] = Some(value);
                    errors.extend(args.take_warnings());
                }
                Err(e) => errors.extend(diagnostics(plan, flat, id, "configuring", e)),
            }
        }
    }
}

fn diagnostics(plan: &Plan, flat: &Flat, id: NodeId, doing: &str, errors: ConfigErrors) -> Vec<Diagnostic> {
    let node = plan.node(id);
    let make = |mut d: Diagnostic| {
        if d.context.is_none() {
            d = d.context(node.span, format!("While {doing} '{}'", node.title()));
            d.uses = flat.uses(id.index());
        }
        d
    };
    errors.0.into_iter().map(make).collect()
}

/// The worker to which each element is bound, and where that is said.
fn placements(
    plan: &Plan,
    flat: &Flat,
    shared: &[Option<Arc<dyn AnyShared>>],
    workers: usize,
    errors: &mut Vec<Diagnostic>,
) -> Vec<Option<(usize, Span)>> {
    let mut bound = vec![None; plan.nodes.len()];
    // Placements of a compound first, so that one of an element inside it wins.
    let mut single = Vec::new();
    for (id, value) in plan.ids().zip(shared) {
        for p in value.iter().flat_map(|v| v.placements()) {
            if p.worker >= workers {
                let text = format!("thread {} does not exist", p.worker);
                let help = format!("there are {workers}: numbers 0 to {}; more with -j", workers - 1);
                errors.push(Diagnostic::error(p.span, text).help(help));
                continue;
            }
            match target(flat, id, &p.element, p.span, errors) {
                Some(Target::Element(i)) => single.push((i, p.worker, p.span)),
                Some(Target::Compound(scope)) => {
                    flat.members(scope).for_each(|i| bound[i] = Some((p.worker, p.span)));
                }
                None => {}
            }
        }
    }
    for (i, worker, span) in single {
        bound[i] = Some((worker, span));
    }
    bound
}

/// The share of each element's task: what is said of it times what is said of the compounds that it is in.
fn tickets(
    plan: &Plan,
    flat: &Flat,
    shared: &[Option<Arc<dyn AnyShared>>],
    errors: &mut Vec<Diagnostic>,
) -> Vec<u32> {
    let mut said: Vec<(Target, f64)> = Vec::new();
    for (id, value) in plan.ids().zip(shared) {
        for share in value.iter().flat_map(|v| v.shares()) {
            let Some(target) = target(flat, id, &share.element, share.span, errors) else { continue };
            // Said twice, the last holds.
            said.retain(|(other, _)| *other != target);
            said.push((target, share.share));
        }
    }
    let mut shares = vec![1.0; plan.nodes.len()];
    for (target, share) in said {
        match target {
            Target::Element(i) => shares[i] *= share,
            Target::Compound(scope) => flat.members(scope).for_each(|i| shares[i] *= share),
        }
    }
    shares.into_iter().map(|s| (s * f64::from(DEFAULT_TICKETS)).round() as u32).collect()
}

/// What `name` stands for in the arguments of element `id`.
fn target(flat: &Flat, id: NodeId, name: &str, span: Span, errors: &mut Vec<Diagnostic>) -> Option<Target> {
    let target = flat.resolve_target(id.index(), name);
    if target.is_none() {
        errors.push(Diagnostic::error(span, format!("no element named '{name}'")));
    }
    target
}

/// Starts the devices and lets elements take what they need of them and of each other.
///
/// # Errors
/// The first thing that went wrong.
pub(super) fn initialize(
    plan: &Plan,
    flat: &Flat,
    shared: &[Arc<dyn AnyShared>],
    homes: &Homes,
    devices: &Arc<dyn Devices>,
) -> Result<(), Vec<Diagnostic>> {
    if let Err(e) = devices.start() {
        let span = plan.nodes.first().map_or(Span::default(), |n| n.span);
        let mut d = Diagnostic::error(span, e.message);
        if !e.help.is_empty() {
            d = d.help(e.help);
        }
        return Err(vec![d]);
    }
    each(plan, flat, |node| {
        shared[node.index()].initialize(&Initialize { devices, node, plan, homes, shared })
    })
}

/// Lets elements open their files.
///
/// # Errors
/// The first thing that went wrong.
pub(super) fn open(plan: &Plan, flat: &Flat, shared: &[Arc<dyn AnyShared>]) -> Result<(), Vec<Diagnostic>> {
    each(plan, flat, |id| shared[id.index()].open())
}

/// A step of initialisation, element by element, information first.
fn each(
    plan: &Plan,
    flat: &Flat,
    step: impl Fn(NodeId) -> Result<(), ConfigErrors>,
) -> Result<(), Vec<Diagnostic>> {
    for phase in [Phase::Info, Phase::Normal] {
        for id in plan.ids().filter(|id| plan.node(*id).spec().phase == phase) {
            step(id).map_err(|e| diagnostics(plan, flat, id, "initializing", e))?;
        }
    }
    Ok(())
}

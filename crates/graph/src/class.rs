//! What a class is to the router: how it is configured, what its instances share, what it offers to look at.

use crate::NodeId;
use crate::element::Element;
use crate::handlers::{Handler, Handlers};
use crate::notify::Notifier;
use crate::plan::{Homes, Plan, Queues, downstream};
use crate::spec::Spec;
use crate::tables::Tables;
use crate::time::Clock;
use io::{Devices, OpenError};
use lang::args::{Args, Names};
use lang::{Diagnostic, Span};
use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

/// The part of an element that all workers share, in an `Arc`: parsed configuration, tables, counters.
pub trait Class: Send + Sync + Sized + 'static {
    /// Name, ports, push or pull, losses.
    const SPEC: Spec;
    /// The part that each worker owns.
    type Local: Element;

    /// Reads the configuration. All mistakes are to be reported, not only the first.
    ///
    /// # Errors
    /// If the arguments are not valid.
    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<Self, ConfigErrors>;

    /// Takes queues of devices, and looks at other elements. Called once, after all elements were configured and the
    /// devices were started. Opens nothing: it is called to check a configuration, too, with devices that are none.
    ///
    /// # Errors
    /// If there is nothing to be had; the text says what to do.
    fn initialize(&self, _cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
        Ok(())
    }

    /// Opens files. Called once, after all elements were initialised.
    ///
    /// # Errors
    /// If one cannot be opened; the text says what to do.
    fn open(&self) -> Result<(), ConfigErrors> {
        Ok(())
    }

    /// Makes the part of one worker.
    fn local(self: &Arc<Self>, cx: &LocalCx) -> Self::Local;

    /// Offers handlers.
    fn handlers(_: &mut Handlers<Self>) {}

    /// A storage's notifier.
    fn notifier(&self) -> Option<&Arc<Notifier>> {
        None
    }

    /// Which elements are to live on which worker (`StaticThreadSched`).
    fn placements(&self) -> &[Placement] {
        &[]
    }

    /// How often whose task is to run (`ScheduleInfo`).
    fn shares(&self) -> &[Share] {
        &[]
    }

    /// Names for addresses in the arguments of others (`AddressInfo`).
    fn names(&self) -> Option<&Names> {
        None
    }

    /// Queues of a device that it reads or sends by. Which worker has which is said when it is initialised.
    fn queues(&self) -> Option<Queues> {
        None
    }

    /// True if the element may wait for the outside world for ever (a device, a socket), so that a router with
    /// nothing to do now is not finished.
    fn waits_for_outside(&self) -> bool {
        false
    }

    /// Called once after all workers have stopped: writes out what is buffered.
    ///
    /// # Errors
    /// If that fails; the text goes to the user.
    fn finish(&self) -> Result<(), String> {
        Ok(())
    }
}

/// An element, or all elements of a compound, bound to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Element or compound.
    pub element: String,
    /// Worker number.
    pub worker: usize,
    /// Where the configuration says so.
    pub span: Span,
}

/// How often the task of an element, or the tasks of a compound, run next to others.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Element or compound.
    pub element: String,
    /// 1 is a task's usual share, 2 is twice as often.
    pub share: f64,
    /// Where the configuration says so.
    pub span: Span,
}

/// What a class may know while it is being configured.
pub struct Configure<'a> {
    /// The element's name.
    pub name: &'a str,
    /// Its connected inputs.
    pub inputs: usize,
    /// Its connected outputs.
    pub outputs: usize,
    /// Number of workers.
    pub workers: usize,
    /// On how many workers its task may run: all of them, or one.
    pub places: usize,
    /// Where to get ports.
    pub devices: &'a Arc<dyn Devices>,
    /// Where to find tables by name.
    pub tables: &'a Tables,
    /// Packets at a time unless the element says otherwise.
    pub burst: usize,
    /// Finds an element by a name as written in this element's arguments.
    pub resolve: &'a dyn Fn(&str) -> Option<NodeId>,
}

impl Configure<'_> {
    /// Finds an element that an argument names.
    pub fn element(&self, name: &str) -> Option<NodeId> {
        (self.resolve)(name)
    }
}

/// What a class may use while it is being initialised.
pub struct Initialize<'a> {
    /// Where to get started ports.
    pub devices: &'a Arc<dyn Devices>,
    /// The element.
    pub(crate) node: NodeId,
    /// The graph.
    pub(crate) plan: &'a Plan,
    /// Which worker runs what.
    pub(crate) homes: &'a Homes,
    /// All class values, by element number.
    pub(crate) shared: &'a [Arc<dyn AnyShared>],
}

impl Initialize<'_> {
    /// Another element's class value, if it is of class `C`.
    pub fn peer<C: Class>(&self, node: NodeId) -> Option<Arc<C>> {
        self.shared.get(node.index())?.clone().into_any().downcast().ok()
    }

    /// The one worker on which its task runs, if there is one.
    pub fn home(&self) -> Option<usize> {
        self.homes.task.get(self.node.index()).copied().flatten()
    }

    /// The workers of its [queues](Class::queues), by queue: for each that it reads, for at most as many as it sends by.
    pub fn queue_workers(&self) -> &[usize] {
        self.homes.queues.get(self.node.index()).map_or(&[], |q| q)
    }

    /// The workers that what it receives is for: of those of its path the ones that take what leaves by output 0.
    pub fn share(&self) -> Vec<usize> {
        let Some(share) = self.homes.share.get(self.node.index()) else { return Vec::new() };
        let next = self.plan.connections.iter().find(|c| c.from == (self.node, 0)).map(|c| c.to.0);
        let takers = share.workers().map(|worker| next.map_or(worker, |to| self.homes.taker(to, worker)));
        let mut takers: Vec<usize> = takers.collect();
        takers.sort_unstable();
        takers.dedup();
        takers
    }

    /// The elements that packets of an output may get to by push connections, nearest first.
    pub fn downstream(&self, output: usize) -> Vec<NodeId> {
        downstream(self.plan, self.node, output)
    }
}

/// What a class may know while it makes the part of one worker.
#[derive(Clone, Debug)]
pub struct LocalCx {
    /// Number of the worker.
    pub worker: usize,
    /// Number of workers.
    pub workers: usize,
    /// The element.
    pub node: NodeId,
    /// True if the element's task lives on this worker.
    pub active: bool,
    /// Inputs.
    pub inputs: usize,
    /// Outputs.
    pub outputs: usize,
    /// True for each output that is push.
    pub push_outputs: Vec<bool>,
    /// True for each input that is push.
    pub push_inputs: Vec<bool>,
    /// True if receivers must clear the annotations in the private area.
    pub annotations: bool,
    /// The router's clock, for elements that need the time between rounds.
    pub clock: Arc<Clock>,
}

/// Mistakes in one element's configuration, or what went wrong while it was initialised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<Diagnostic>);

impl ConfigErrors {
    /// One mistake at `span` (for instance `args.span_of("DEVNAME")`).
    pub fn new(span: Span, message: impl Into<String>) -> ConfigErrors {
        ConfigErrors(vec![Diagnostic::error(span, message)])
    }

    /// A device that cannot be had, named at `span`.
    pub fn open(span: Span, error: OpenError) -> ConfigErrors {
        let d = Diagnostic::error(span, error.message).code("device");
        ConfigErrors(vec![if error.help.is_empty() { d } else { d.help(error.help) }])
    }
}

impl From<Vec<Diagnostic>> for ConfigErrors {
    fn from(list: Vec<Diagnostic>) -> ConfigErrors {
        ConfigErrors(list)
    }
}

impl From<Diagnostic> for ConfigErrors {
    fn from(one: Diagnostic) -> ConfigErrors {
        ConfigErrors(vec![one])
    }
}

/// The object-safe face of a class.
pub trait AnyClass: Sync + 'static {
    /// What the class says about itself.
    fn spec(&self) -> &'static Spec;
    /// See [`Class::configure`].
    ///
    /// # Errors
    /// If the arguments are not valid.
    fn configure(&self, args: &mut Args, cx: &Configure<'_>) -> Result<Arc<dyn AnyShared>, ConfigErrors>;
}

/// The object-safe face of a class value.
pub trait AnyShared: Send + Sync + 'static {
    /// See [`Class::initialize`].
    ///
    /// # Errors
    /// If something cannot be opened.
    fn initialize(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors>;
    /// See [`Class::open`].
    ///
    /// # Errors
    /// If a file cannot be opened.
    fn open(&self) -> Result<(), ConfigErrors>;
    /// See [`Class::local`].
    fn local(self: Arc<Self>, cx: &LocalCx) -> Box<dyn Element>;
    /// See [`Class::handlers`].
    fn handlers(&self) -> Vec<Handler>;
    /// See [`Class::notifier`].
    fn notifier(&self) -> Option<&Arc<Notifier>>;
    /// See [`Class::placements`].
    fn placements(&self) -> &[Placement];
    /// See [`Class::shares`].
    fn shares(&self) -> &[Share];
    /// See [`Class::names`].
    fn names(&self) -> Option<&Names>;
    /// See [`Class::queues`].
    fn queues(&self) -> Option<Queues>;
    /// See [`Class::waits_for_outside`].
    fn waits_for_outside(&self) -> bool;
    /// See [`Class::finish`].
    ///
    /// # Errors
    /// If what is buffered cannot be written out.
    fn finish(&self) -> Result<(), String>;
    /// For handlers.
    fn as_any(&self) -> &dyn Any;
    /// For peers.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<C: Class> AnyShared for C {
    fn initialize(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
        Class::initialize(self, cx)
    }

    fn open(&self) -> Result<(), ConfigErrors> {
        Class::open(self)
    }

    fn local(self: Arc<Self>, cx: &LocalCx) -> Box<dyn Element> {
        Box::new(Class::local(&self, cx))
    }

    fn handlers(&self) -> Vec<Handler> {
        let mut handlers = Handlers::new();
        <C as Class>::handlers(&mut handlers);
        handlers.into_list()
    }

    fn notifier(&self) -> Option<&Arc<Notifier>> {
        Class::notifier(self)
    }

    fn placements(&self) -> &[Placement] {
        Class::placements(self)
    }

    fn shares(&self) -> &[Share] {
        Class::shares(self)
    }

    fn names(&self) -> Option<&Names> {
        Class::names(self)
    }

    fn queues(&self) -> Option<Queues> {
        Class::queues(self)
    }

    fn waits_for_outside(&self) -> bool {
        Class::waits_for_outside(self)
    }

    fn finish(&self) -> Result<(), String> {
        Class::finish(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// A class as an entry of a [`ClassTable`].
#[derive(Debug)]
pub struct Of<C>(PhantomData<fn() -> C>);

/// The entry for class `C`.
pub const fn of<C: Class>() -> Of<C> {
    Of(PhantomData)
}

impl<C: Class> AnyClass for Of<C> {
    fn spec(&self) -> &'static Spec {
        &C::SPEC
    }

    fn configure(&self, args: &mut Args, cx: &Configure<'_>) -> Result<Arc<dyn AnyShared>, ConfigErrors> {
        C::configure(args, cx).map(|c| Arc::new(c) as Arc<dyn AnyShared>)
    }
}

/// The classes that configurations may use.
#[derive(Clone, Copy)]
pub struct ClassTable {
    /// All classes, by layer.
    pub layers: &'static [&'static [&'static dyn AnyClass]],
    /// Other names of classes: alias and name.
    pub aliases: &'static [(&'static str, &'static str)],
}

impl ClassTable {
    /// All classes.
    pub fn iter(&self) -> impl Iterator<Item = &'static dyn AnyClass> + use<> {
        self.layers.iter().flat_map(|layer| layer.iter().copied())
    }

    /// The class of this name or alias.
    pub fn find(&self, name: &str) -> Option<&'static dyn AnyClass> {
        let name = self.aliases.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
        self.iter().find(|c| c.spec().name == name)
    }

    /// All names and aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.iter().map(|c| c.spec().name).chain(self.aliases.iter().map(|(alias, _)| *alias))
    }
}

//! What an element is to its worker.

use crate::out::{Out, Up};
use crate::time::Nanos;
use epoch::Reader;
use packet::{Batch, Pool};
use std::any::Any;

/// What an element may read during one call. Lent shared, so a table read through it lives as long.
#[derive(Debug)]
pub struct Cx<'w> {
    /// The time at which this round of the worker began.
    pub now: Nanos,
    /// Number of the worker.
    pub worker: usize,
    /// For reading tables: `table.read(cx.reader)`.
    pub reader: &'w Reader,
    /// Where new packets come from.
    pub pool: &'w Pool,
    /// Packets that a source emits, and a mover pulls, at a time; 1 is Click order.
    pub burst: usize,
}

/// One of the reasons in `Spec::losses`, by its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss(pub u16);

/// The part of an element which one worker owns: never shared, so never locked.
pub trait Element: Send + Any {
    /// The worker is about to start: ask for a first run with [`Out::wake`] or [`Out::wake_at`] if there is a task.
    fn start(&mut self, _cx: &Cx<'_>, _out: &mut Out<'_>) {}

    /// Packets have come in at a push input. What to send on, lose, or wake goes into `out`; every packet must go
    /// somewhere.
    fn push(&mut self, _port: usize, batch: Batch, _cx: &Cx<'_>, _out: &mut Out<'_>) {
        // Only a class whose inputs are all pull gets here, and then nobody pushes.
        drop(batch);
    }

    /// Someone downstream asks for up to `max` packets at a pull output. An empty batch says nothing about later.
    fn pull(
        &mut self,
        _port: usize,
        _max: usize,
        _cx: &Cx<'_>,
        _up: &mut Up<'_>,
        _out: &mut Out<'_>,
    ) -> Batch {
        Batch::empty()
    }

    /// The element's task or timer is due. It does not run again unless it asks for it. True if it did useful work;
    /// false counts as an empty poll.
    fn run(&mut self, _cx: &Cx<'_>, _up: &mut Up<'_>, _out: &mut Out<'_>) -> bool {
        false
    }
}

/// One in, one out, the same whether pushed or pulled (Click's `simple_action`).
pub trait Simple: Send + 'static {
    /// Works on the packets in place. Packets that are not to go on are taken out of the batch and handed to
    /// [`Out::lose`] or [`Out::reject`].
    fn act(&mut self, batch: &mut Batch, cx: &Cx<'_>, out: &mut Out<'_>);
}

/// Makes an [`Element`] of a [`Simple`].
#[derive(Debug)]
pub struct Agnostic<S>(pub S);

impl<S: Simple> Element for Agnostic<S> {
    #[inline]
    fn push(&mut self, _: usize, mut batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        self.0.act(&mut batch, cx, out);
        out.emit(0, batch);
    }

    fn pull(&mut self, _: usize, max: usize, cx: &Cx<'_>, up: &mut Up<'_>, out: &mut Out<'_>) -> Batch {
        let mut batch = up.pull(0, max, cx, out);
        if !batch.is_empty() {
            self.0.act(&mut batch, cx, out);
        }
        batch
    }
}

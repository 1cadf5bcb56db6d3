//! Classes that send packets several ways.

use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, LocalCx, Out, Spec, Way};
use packet::Batch;
use std::sync::Arc;

/// `Fork`: number modulo the number of outputs chooses the output.
pub struct Fork(usize);
pub struct LocalFork(Arc<Fork>);
impl Class for Fork {
    const SPEC: Spec = Spec::new("Fork", "1/1-", "h/h");
    type Local = LocalFork;
    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<Fork, ConfigErrors> {
        args.finish()?;
        Ok(Fork(cx.outputs))
    }
    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalFork {
        LocalFork(self.clone())
    }
}
impl Element for LocalFork {
    fn push(&mut self, _: usize, batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        out.split(batch, |p| Way::Port(usize::from(p.data()[0]) % self.0.0));
    }
}

/// `Aim(BASE, KNOWN)`: sends packets with even and odd numbers to the output BASE and to the next one; of a batch only the first KNOWN
/// have a place.
pub struct Aim {
    base: u16,
    known: usize,
}
pub struct LocalAim(Arc<Aim>);
impl Class for Aim {
    const SPEC: Spec = Spec::new("Aim", "1/1-", "h/h");
    type Local = LocalAim;
    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Aim, ConfigErrors> {
        let (base, known) = (args.optional("BASE", 0), args.optional("KNOWN", Batch::MAX));
        args.finish()?;
        Ok(Aim { base, known })
    }
    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalAim {
        LocalAim(self.clone())
    }
}
impl Element for LocalAim {
    fn push(&mut self, _: usize, batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let of = |p: &packet::Packet| self.0.base + u16::from(p.data()[0] % 2);
        let outputs: Vec<u16> = batch.iter().take(self.0.known).map(of).collect();
        out.split_to(batch, &outputs);
    }
}

/// `Spread`: hands every second packet to worker 1.
pub struct Spread;
impl Class for Spread {
    const SPEC: Spec = Spec::new("Spread", "1/1", "h/h");
    type Local = Spread;
    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Spread, ConfigErrors> {
        args.finish()?;
        Ok(Spread)
    }
    fn local(self: &Arc<Self>, _: &LocalCx) -> Spread {
        Spread
    }
}
impl Element for Spread {
    fn push(&mut self, _: usize, mut batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let mut others = Batch::empty();
        batch.retain(|p| p.data()[0] % 2 == 0, |p| others.push(p));
        out.emit(0, batch);
        out.emit_on(1, 0, others);
    }
}

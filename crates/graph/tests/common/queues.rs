//! A class with queues, as of a device.

use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, Initialize, LocalCx, Out, Queues, Spec};
use packet::Batch;
use std::sync::{Arc, OnceLock};

/// `Taker(N)`: takes packets on at most N workers.
pub struct Taker(usize, OnceLock<Vec<usize>>);
pub struct LocalTaker(bool);
impl Class for Taker {
    const SPEC: Spec = Spec::new("Taker", "1/0", "h/h");
    type Local = LocalTaker;
    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Taker, ConfigErrors> {
        let n = args.required("N");
        args.finish()?;
        Ok(Taker(n, OnceLock::new()))
    }
    fn queues(&self) -> Option<Queues> {
        Some(Queues::Send(self.0))
    }
    fn initialize(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
        self.1.set(cx.queue_workers().to_vec()).unwrap();
        Ok(())
    }
    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalTaker {
        LocalTaker(self.1.get().unwrap().contains(&cx.worker))
    }
}
impl Element for LocalTaker {
    fn push(&mut self, _: usize, batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        assert!(self.0, "not a worker with a queue");
        out.consume(batch);
    }
}

//! A class that takes time.

use epoch::tsc;
use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, LocalCx, Out, Spec};
use packet::Batch;

/// `Burn(TICKS)`: passes each batch on after so many ticks of the time-stamp counter.
pub struct Burn(u64);
pub struct LocalBurn(u64);
impl Class for Burn {
    const SPEC: Spec = Spec::new("Burn", "1/1", "h/h");
    type Local = LocalBurn;
    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Burn, ConfigErrors> {
        let ticks = args.required("TICKS");
        args.finish()?;
        Ok(Burn(ticks))
    }
    fn local(self: &std::sync::Arc<Self>, _: &LocalCx) -> LocalBurn {
        LocalBurn(self.0)
    }
}
impl Element for LocalBurn {
    fn push(&mut self, _: usize, batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let began = tsc();
        while tsc() - began < self.0 {
            std::hint::spin_loop();
        }
        out.emit(0, batch);
    }
}

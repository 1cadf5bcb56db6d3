//! `Null`: passes packets on unchanged.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 3) -> Null -> d :: Discard;
//! // d.count = 3
//! ```

use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Out, Simple, Spec};
use packet::Batch;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct Null;

/// One worker's part of [`Null`].
#[derive(Debug)]
pub struct LocalNull;

impl Class for Null {
    const SPEC: Spec = Spec::new("Null", "1/1", "a/a");
    type Local = Agnostic<LocalNull>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Null, ConfigErrors> {
        args.finish()?;
        Ok(Null)
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalNull)
    }
}

impl Simple for LocalNull {
    fn act(&mut self, _: &mut Batch, _: &Cx<'_>, _: &mut Out<'_>) {}
}

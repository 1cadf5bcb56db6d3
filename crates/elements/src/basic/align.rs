//! `Align`: does nothing here: packets may begin at any address. It is there for configurations that contain it.
//!
//! # Arguments
//! - `MODULUS`: 2, 4 or 8.
//! - `OFFSET`: less than the modulus.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 3) -> Align(4, 2) -> c :: Counter -> Discard;
//! // c.count = 3
//! ```

use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Out, Simple, Spec};
use packet::Batch;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct Align;

/// One worker's part of [`Align`].
#[derive(Debug)]
pub struct LocalAlign;

impl Class for Align {
    const SPEC: Spec = Spec::new("Align", "1/1", "a/a");
    type Local = Agnostic<LocalAlign>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Align, ConfigErrors> {
        let modulus: u32 = args.required("MODULUS");
        let offset: u32 = args.required("OFFSET");
        if !matches!(modulus, 2 | 4 | 8) {
            args.error("MODULUS", "must be 2, 4 or 8");
        } else if offset >= modulus {
            args.error("OFFSET", "must be less than MODULUS");
        }
        args.finish()?;
        Ok(Align)
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalAlign)
    }
}

impl Simple for LocalAlign {
    fn act(&mut self, _: &mut Batch, _: &Cx<'_>, _: &mut Out<'_>) {}
}

#[cfg(test)]
mod tests {
    use crate::testing::errors;

    #[test]
    fn arguments_are_checked() {
        assert!(errors("Idle -> Align(3, 0) -> Discard;").contains("MODULUS: must be 2, 4 or 8"));
        assert!(errors("Idle -> Align(4, 4) -> Discard;").contains("OFFSET: must be less than MODULUS"));
        assert_eq!(errors("Idle -> Align(8, 7) -> Discard;"), "");
    }
}

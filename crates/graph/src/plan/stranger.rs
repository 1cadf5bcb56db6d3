//! What stands for an element of an unknown class while the rest of a configuration is looked at.

use crate::class::{AnyClass, AnyShared, ConfigErrors, Configure};
use crate::spec::Spec;
use lang::args::Args;
use std::sync::Arc;

/// A class that fits everywhere: any number of ports, each push or pull as its peer likes.
pub(super) struct Stranger;

static SPEC: Spec = Spec { flow: "x/y", ..Spec::new("?", "-/-", "a/a") };

/// True if the class is unknown.
pub(super) fn is_stranger(class: &dyn AnyClass) -> bool {
    std::ptr::eq(class.spec(), &raw const SPEC)
}

impl AnyClass for Stranger {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn configure(&self, _: &mut Args, _: &Configure<'_>) -> Result<Arc<dyn AnyShared>, ConfigErrors> {
        // The unknown class was reported where it stands.
        Err(ConfigErrors(Vec::new()))
    }
}

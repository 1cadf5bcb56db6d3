//! `CheckLength`: passes packets that are not too long.
//!
//! # Arguments
//! - `LENGTH`: bytes that a packet may have.
//! - `EXTRA_LENGTH`: true = the extra length annotation counts too. Default false.
//!
//! # Ports
//! One input, one output; push or pull. Longer packets leave by push output 1 if that is connected.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `length` | rw | see `LENGTH` |
//!
//! # Losses
//! - `too_long`: the packet is longer.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA "1234", LIMIT 3) -> l :: CheckLength(4) -> a :: Counter -> Discard;
//! InfiniteSource(DATA "12345", LIMIT 2) -> l;
//! l[1] -> b :: Counter -> Discard;
//! // a.count = 3
//! // b.count = 2
//! ```

use graph::{
    Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Loss, Out, Simple, Spec, value,
};
use packet::{Batch, anno};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const TOO_LONG: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct CheckLength {
    length: AtomicUsize,
    extra: bool,
}

/// One worker's part of [`CheckLength`].
#[derive(Debug)]
pub struct LocalCheckLength {
    shared: Arc<CheckLength>,
}

impl Class for CheckLength {
    const SPEC: Spec =
        Spec { losses: &["too_long"], annotations: true, ..Spec::new("CheckLength", "1/1-2", "a/ah") };
    type Local = Agnostic<LocalCheckLength>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<CheckLength, ConfigErrors> {
        let extra = args.keyword("EXTRA_LENGTH", false);
        let length = args.required("LENGTH");
        args.finish()?;
        Ok(CheckLength { length: AtomicUsize::new(length), extra })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalCheckLength { shared: self.clone() })
    }

    fn handlers(h: &mut Handlers<CheckLength>) {
        h.read("length", |c| c.length.load(Relaxed).to_string());
        h.write("length", |c, text, _| {
            c.length.store(value(text)?, Relaxed);
            Ok(())
        });
    }
}

impl Simple for LocalCheckLength {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let (max, extra) = (self.shared.length.load(Relaxed), self.shared.extra);
        batch.retain(
            |p| {
                let more = if extra { p.anno_u32(anno::EXTRA_LENGTH) as usize } else { 0 };
                p.len().saturating_add(more) <= max
            },
            |p| out.reject(1, p, TOO_LONG),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab, through};

    #[test]
    fn the_length_can_be_changed_and_may_count_what_was_cut_off() {
        let frames = [3, 4, 5].map(|n| Frame::new(&vec![0; n]));
        let lengths =
            |elements: &str| through(elements, &frames).0.iter().map(|f| f.bytes.len()).collect::<Vec<_>>();
        assert_eq!(lengths("CheckLength(4)"), [3, 4]);
        assert_eq!(lengths("Truncate(4) -> CheckLength(4)"), [3, 4, 4]);
        assert_eq!(lengths("Truncate(4) -> CheckLength(4, EXTRA_LENGTH true)"), [3, 4]);
        let mut lab = Lab::new("f :: Feed -> l :: CheckLength(4) -> k :: Keep;");
        lab.0.write("l.length", "2").unwrap();
        lab.at(0, "f", &frames[0]);
        lab.run();
        assert_eq!(
            (lab.losses(), lab.0.read("l.length")),
            (vec!["l.too_long = 1".to_owned()], "2".to_owned())
        );
        lab.end();
    }
}

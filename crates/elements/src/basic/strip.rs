//! `Strip`: removes bytes from the front of packets.
//!
//! # Arguments
//! - `LENGTH`: how many bytes.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Losses
//! - `short`: the packet has fewer bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA "12345678", LIMIT 10) -> Strip(6) -> c :: Counter -> Discard;
//! // c.byte_count = 20
//! ```

use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Loss, Out, Simple, Spec};
use packet::Batch;
use std::sync::Arc;

const SHORT: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct Strip {
    length: usize,
}

/// One worker's part of [`Strip`].
#[derive(Debug)]
pub struct LocalStrip {
    length: usize,
}

impl Class for Strip {
    const SPEC: Spec = Spec { losses: &["short"], ..Spec::new("Strip", "1/1", "a/a") };
    type Local = Agnostic<LocalStrip>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Strip, ConfigErrors> {
        let length = args.required("LENGTH");
        args.finish()?;
        Ok(Strip { length })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalStrip { length: self.length })
    }
}

impl Simple for LocalStrip {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        batch.strip(self.length, |p| out.lose(p, SHORT));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, errors, hex, through};

    #[test]
    fn bytes_go_and_marks_stay_at_their_bytes() {
        let frames = [&[1u8, 2, 3, 4][..], &[1, 2], &[1], &[]].map(|b| Frame::new(b).network(2));
        let (kept, losses) = through("Strip(2)", &frames);
        let got: Vec<(String, Option<usize>)> = kept.iter().map(|f| (hex(&f.bytes), f.network)).collect();
        assert_eq!(got, [("0304".to_owned(), Some(0)), (String::new(), Some(0))]);
        assert_eq!(losses, ["Strip@2.short = 2"]);
    }

    #[test]
    fn the_length_is_needed() {
        assert!(errors("Idle -> Strip -> Discard;").contains("LENGTH: required argument missing"));
    }
}

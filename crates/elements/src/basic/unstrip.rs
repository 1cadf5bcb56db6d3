//! `Unstrip`: gives packets back the bytes that `Strip` removed from their front.
//!
//! # Arguments
//! - `LENGTH`: how many bytes. If fewer were stripped, the others have any value.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Losses
//! - `no_room`: the buffer has no room for so many bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA "12345678", LIMIT 10) -> Strip(6) -> Unstrip(4) -> Classifier(0/33343536)
//!   -> c :: Counter -> Discard;
//! // c.byte_count = 60
//! ```

use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Loss, Out, Simple, Spec};
use packet::Batch;
use std::sync::Arc;

const NO_ROOM: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct Unstrip {
    length: usize,
}

/// One worker's part of [`Unstrip`].
#[derive(Debug)]
pub struct LocalUnstrip {
    length: usize,
}

impl Class for Unstrip {
    const SPEC: Spec = Spec { losses: &["no_room"], ..Spec::new("Unstrip", "1/1", "a/a") };
    type Local = Agnostic<LocalUnstrip>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Unstrip, ConfigErrors> {
        let length = args.required("LENGTH");
        args.finish()?;
        Ok(Unstrip { length })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalUnstrip { length: self.length })
    }
}

impl Simple for LocalUnstrip {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        batch.retain(|p| p.push(self.length), |p| out.lose(p, NO_ROOM));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, hex, through};

    #[test]
    fn stripped_bytes_come_back() {
        let (kept, losses) = through("Strip(3) -> Unstrip(2)", &[Frame::new(&[1, 2, 3, 4]).network(1)]);
        assert_eq!((hex(&kept[0].bytes), kept[0].network), ("020304".to_owned(), Some(0)));
        assert!(losses.is_empty());
    }

    #[test]
    fn a_buffer_has_an_end() {
        let (kept, losses) = through("Unstrip(65000)", &[Frame::new(&[1])]);
        assert_eq!((kept, losses), (vec![], vec!["Unstrip@2.no_room = 1".to_owned()]));
    }
}

//! `EtherRewrite`: sets source and destination address of Ethernet frames.
//!
//! # Arguments
//! - `SRC`: source address.
//! - `DST`: destination address.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `src`, `dst` | rw | see the arguments |
//!
//! # Losses
//! - `short`: too short for an Ethernet header.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<ffffffffffff ffffffffffff 0800>, LIMIT 3) -> EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2)
//!   -> Classifier(0/020000000002020000000001 12/0800) -> c :: Counter -> Discard;
//! // c.count = 3
//! ```

use epoch::Table;
use graph::{
    Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Loss, Out, Simple, Spec, value,
};
use packet::Batch;
use packet::wire::ethernet::{self, HEADER_LEN, Mac};
use std::sync::Arc;

const SHORT: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct EtherRewrite {
    addresses: Table<Addresses>,
}

/// As they stand in a frame.
#[derive(Clone, Copy, Debug)]
struct Addresses([Mac; 2]);

const DESTINATION: usize = 0;
const SOURCE: usize = 1;

impl Addresses {
    fn with(mut self, which: usize, address: Mac) -> Addresses {
        self.0[which] = address;
        self
    }

    /// The first eight bytes and the last four, in the order of memory: pieces that fit registers.
    fn pieces(&self) -> (u64, u32) {
        let [[a, b, c, d, e, f], [g, h, back @ ..]] = self.0;
        (u64::from_ne_bytes([a, b, c, d, e, f, g, h]), u32::from_ne_bytes(back))
    }
}

/// One worker's part of [`EtherRewrite`].
#[derive(Debug)]
pub struct LocalEtherRewrite {
    shared: Arc<EtherRewrite>,
}

impl Class for EtherRewrite {
    const SPEC: Spec = Spec { losses: &["short"], ..Spec::new("EtherRewrite", "1/1", "a/a") };
    type Local = Agnostic<LocalEtherRewrite>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<EtherRewrite, ConfigErrors> {
        let source = args.required("SRC");
        let destination = args.required("DST");
        args.finish()?;
        Ok(EtherRewrite { addresses: Table::new(Addresses([destination, source])) })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalEtherRewrite { shared: self.clone() })
    }

    fn handlers(h: &mut Handlers<EtherRewrite>) {
        h.read("src", |e| e.addresses.with(|a| ethernet::text(&a.0[SOURCE])));
        h.write("src", |e, text, _| {
            let source = value(text)?;
            e.addresses.edit(|a| a.with(SOURCE, source));
            Ok(())
        });
        h.read("dst", |e| e.addresses.with(|a| ethernet::text(&a.0[DESTINATION])));
        h.write("dst", |e, text, _| {
            let destination = value(text)?;
            e.addresses.edit(|a| a.with(DESTINATION, destination));
            Ok(())
        });
    }
}

impl Simple for LocalEtherRewrite {
    fn act(&mut self, batch: &mut Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let (front, back) = self.shared.addresses.read(cx.reader).pieces();
        let change = |header: &mut [u8; HEADER_LEN]| {
            header[..8].copy_from_slice(&front.to_ne_bytes());
            header[8..12].copy_from_slice(&back.to_ne_bytes());
        };
        batch.change_front(change, |p| out.lose(p, SHORT));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab, bytes};

    #[test]
    fn addresses_are_set_and_can_be_changed() {
        let mut lab = Lab::new("f :: Feed -> e :: EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2) -> k :: Keep;");
        lab.0.write("e.dst", "2:0:0:0:0:3").unwrap();
        lab.0.write("e.src", "2:0:0:0:0:4").unwrap();
        assert_eq!(
            (lab.0.read("e.src"), lab.0.read("e.dst")),
            ("02-00-00-00-00-04".into(), "02-00-00-00-00-03".into())
        );
        lab.at(0, "f", &Frame::new(&[7; 15]));
        lab.at(0, "f", &Frame::new(&[7; 13]));
        lab.run();
        assert_eq!(lab.kept("k")[0].bytes, bytes("020000000003 020000000004 070707"));
        assert_eq!(lab.losses(), ["e.short = 1"]);
        lab.end();
    }
}

//! `EtherEncap`: puts an Ethernet header before packets.
//!
//! # Arguments
//! - `ETHERTYPE`: what the packets are, as 0x0800 for IPv4.
//! - `SRC`: source address.
//! - `DST`: destination address.
//!
//! # Ports
//! One input, one output; push or pull. The MAC header is marked.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `src`, `dst` | rw | see the arguments |
//! | `ethertype`, `etht` | rw | see `ETHERTYPE`; printed in decimal |
//!
//! # Losses
//! - `no_room`: the buffer has no room for a header.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 5) -> e :: EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02)
//!   -> Classifier(0/020000000002 6/020000000001 12/0800) -> c :: Counter -> Discard;
//! // c.byte_count = 390
//! // e.src = 02-00-00-00-00-01
//! // e.ethertype = 2048
//! ```

use epoch::Table;
use graph::{
    Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Loss, Out, Simple, Spec, value,
};
use packet::Batch;
use packet::wire::ethernet::{self, HEADER_LEN, Header};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const NO_ROOM: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct EtherEncap {
    header: Table<Header>,
    /// Goes up after each change of the header.
    version: AtomicU64,
}

/// One worker's part of [`EtherEncap`].
#[derive(Debug)]
pub struct LocalEtherEncap {
    shared: Arc<EtherEncap>,
    /// The bytes of the header, as they were at this version; nearer than those that all workers share.
    bytes: [u8; HEADER_LEN],
    version: u64,
}

impl Class for EtherEncap {
    const SPEC: Spec = Spec { losses: &["no_room"], ..Spec::new("EtherEncap", "1/1", "a/a") };
    type Local = Agnostic<LocalEtherEncap>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<EtherEncap, ConfigErrors> {
        let ethertype = args.required("ETHERTYPE");
        let source = args.required("SRC");
        let destination = args.required("DST");
        args.finish()?;
        let header = Table::new(Header { destination, source, ethertype });
        Ok(EtherEncap { header, version: AtomicU64::new(1) })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalEtherEncap { shared: self.clone(), bytes: [0; HEADER_LEN], version: 0 })
    }

    fn handlers(h: &mut Handlers<EtherEncap>) {
        h.read("src", |e| e.header.with(|h| ethernet::text(&h.source)));
        h.write("src", |e, text, _| {
            let source = value(text)?;
            e.edit(|h| Header { source, ..*h });
            Ok(())
        });
        h.read("dst", |e| e.header.with(|h| ethernet::text(&h.destination)));
        h.write("dst", |e, text, _| {
            let destination = value(text)?;
            e.edit(|h| Header { destination, ..*h });
            Ok(())
        });
        for name in ["ethertype", "etht"] {
            h.read(name, |e| e.header.with(|h| h.ethertype.to_string()));
            h.write(name, |e, text, _| {
                let ethertype = value(text)?;
                e.edit(|h| Header { ethertype, ..*h });
                Ok(())
            });
        }
    }
}

impl EtherEncap {
    fn edit(&self, make: impl FnOnce(&Header) -> Header) {
        self.header.edit(make);
        self.version.fetch_add(1, Ordering::Release);
    }
}

impl Simple for LocalEtherEncap {
    fn act(&mut self, batch: &mut Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        // Who sees a version sees the header of that version, or a later one.
        let version = self.shared.version.load(Ordering::Acquire);
        if version != self.version {
            (self.bytes, self.version) = (self.shared.header.read(cx.reader).bytes(), version);
        }
        batch.put_link(&self.bytes, |p| out.lose(p, NO_ROOM));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab, bytes, through};

    #[test]
    fn a_header_is_put_before_and_marked() {
        let encap = "EtherEncap(0x86dd, 2:0:0:0:0:1, DST ff:ff:ff:ff:ff:ff)";
        let (kept, losses) = through(encap, &[Frame::new(&[0x60, 0])]);
        assert_eq!(kept[0].bytes, bytes("ffffffffffff 020000000001 86dd 6000"));
        assert_eq!((kept[0].mac, losses), (Some(0), vec![]));
    }

    #[test]
    fn handlers_change_the_header() {
        let mut lab = Lab::new("f :: Feed -> e :: EtherEncap(0x800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> k :: Keep;");
        lab.0.write("e.src", "4:0:0:0:0:0a").unwrap();
        lab.0.write("e.dst", "06-00-00-00-00-0b").unwrap();
        lab.0.write("e.etht", "0x88b5").unwrap();
        assert_eq!(lab.0.write("e.dst", "x"), Err("parse error".to_owned()));
        assert_eq!(
            ["src", "dst", "ethertype", "etht"].map(|h| lab.0.read(&format!("e.{h}"))),
            ["04-00-00-00-00-0A", "06-00-00-00-00-0B", "34997", "34997"]
        );
        lab.at(0, "f", &Frame::new(&[1]));
        lab.run();
        assert_eq!(lab.kept_hex("k"), ["06000000000b04000000000a88b501"]);
        lab.end();
    }
}

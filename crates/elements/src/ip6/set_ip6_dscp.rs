//! `SetIP6DSCP`: sets the differentiated services field of IPv6 packets (RFC 2474). ECN bits stay as they are.
//!
//! # Arguments
//! - `DSCP`: 0 to 63.
//!
//! # Ports
//! One input, one output; push or pull. Packets must have a network header mark; without one they pass as they are.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `dscp` | rw | see `DSCP` |
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<61100000 00003b40 20010db8000000000000000000000001 20010db8000000000000000000000002>, LIMIT 2)
//!   -> CheckIP6Header -> s :: SetIP6DSCP(46) -> Classifier(0/6b90) -> c :: Counter -> Discard;
//! // c.count = 2
//! // s.dscp = 46
//! ```

use graph::{
    Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Out, Simple, Spec, value,
};
use packet::Batch;
use packet::wire::ipv6::{self, HEADER_LEN, Ipv6};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const MAX: u8 = 63;

/// See the module.
#[derive(Debug)]
pub struct SetIP6DSCP {
    dscp: AtomicU8,
}

/// One worker's part of [`SetIP6DSCP`].
#[derive(Debug)]
pub struct LocalSetIP6DSCP {
    shared: Arc<SetIP6DSCP>,
}

impl Class for SetIP6DSCP {
    const SPEC: Spec = Spec::new("SetIP6DSCP", "1/1", "a/a");
    type Local = Agnostic<LocalSetIP6DSCP>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<SetIP6DSCP, ConfigErrors> {
        let dscp: u8 = args.required("DSCP");
        if dscp > MAX {
            args.error("DSCP", format!("out of range, bound {MAX}"));
        }
        args.finish()?;
        Ok(SetIP6DSCP { dscp: AtomicU8::new(dscp) })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalSetIP6DSCP { shared: self.clone() })
    }

    fn handlers(h: &mut Handlers<SetIP6DSCP>) {
        h.read("dscp", |s| s.dscp.load(Ordering::Relaxed).to_string());
        h.write("dscp", |s, text, _| {
            let dscp: u8 = value(text)?;
            if dscp > MAX {
                return Err(format!("out of range, bound {MAX}"));
            }
            s.dscp.store(dscp, Ordering::Relaxed);
            Ok(())
        });
    }
}

impl Simple for LocalSetIP6DSCP {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, _: &mut Out<'_>) {
        let dscp = self.shared.dscp.load(Ordering::Relaxed);
        for packet in batch.iter_mut() {
            let Some(head) = packet.network_head_mut::<HEADER_LEN>() else { continue };
            let ecn = Ipv6::of(head).traffic_class() & 3;
            ipv6::set_traffic_class(head, dscp << 2 | ecn);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Lab, errors};

    #[test]
    fn range() {
        assert!(errors("Idle -> SetIP6DSCP(64) -> Discard;").contains("DSCP: out of range, bound 63"));
        let lab = Lab::new("Idle -> s :: SetIP6DSCP(1) -> Discard;");
        assert_eq!(lab.0.write("s.dscp", "64"), Err("out of range, bound 63".to_owned()));
        lab.0.write("s.dscp", "63").unwrap();
        assert_eq!(lab.0.read("s.dscp"), "63");
        lab.end();
    }
}

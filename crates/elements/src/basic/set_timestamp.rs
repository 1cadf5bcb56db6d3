//! `SetTimestamp`: notes the time on packets.
//!
//! # Arguments
//! - `TIMESTAMP`: the time to note, in seconds since the Unix epoch. Default: now.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 3) -> SetTimestamp -> c :: Counter -> Discard;
//! // c.count = 3
//! ```

use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Nanos, Out, Simple, Spec};
use packet::Batch;
use std::sync::Arc;
use std::time::Duration;

/// See the module.
#[derive(Debug)]
pub struct SetTimestamp {
    time: Option<Nanos>,
}

/// One worker's part of [`SetTimestamp`].
#[derive(Debug)]
pub struct LocalSetTimestamp {
    time: Option<Nanos>,
}

impl Class for SetTimestamp {
    const SPEC: Spec = Spec { annotations: true, ..Spec::new("SetTimestamp", "1/1", "a/a") };
    type Local = Agnostic<LocalSetTimestamp>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<SetTimestamp, ConfigErrors> {
        let time: Option<Duration> = args.optional_if_given("TIMESTAMP");
        args.finish()?;
        Ok(SetTimestamp { time: time.map(|t| Nanos::try_from(t.as_nanos()).unwrap_or(Nanos::MAX)) })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalSetTimestamp { time: self.time })
    }
}

impl Simple for LocalSetTimestamp {
    fn act(&mut self, batch: &mut Batch, cx: &Cx<'_>, _: &mut Out<'_>) {
        let time = self.time.unwrap_or(cx.now);
        batch.iter_mut().for_each(|p| p.set_timestamp(time));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab};

    /// The timestamp that `Print` shows of a packet sent after so many milliseconds.
    fn stamped(arguments: &str, ms: u64) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut lab = Lab::new(&format!(
            "f :: Feed -> SetTimestamp({arguments}) -> Print(TIMESTAMP true, CONTENTS NONE, OUTFILE {}) -> Keep;",
            path.display()
        ));
        lab.at(ms, "f", &Frame::new(&[1]));
        lab.run();
        lab.end();
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn now_or_a_given_time() {
        assert!(stamped("", 2500).starts_with("1000000002.5000000"), "{}", stamped("", 2500));
        assert_eq!(stamped("12.25", 0), "12.250000000:    1\n");
    }
}

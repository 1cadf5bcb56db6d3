//! `IP6Print`: writes a line about each IPv6 packet, in the manner of tcpdump, and passes it on.
//!
//! The line is `LABEL: time: source.port > destination.port: what`. Packets must have a network header mark.
//!
//! # Arguments
//! - `LABEL`: text at the front of the line. Default none.
//! - `CONTENTS`: `NONE`, `HEX` or `ASCII` (also false or true): show the bytes from the IPv6 header on. Default `NONE`.
//! - `NBYTES` (or `MAXLENGTH`): bytes shown at most. Default 1500.
//! - `HLIM`, `CLASS`, `FLOW`, `LENGTH`: true = show hop limit, traffic class, flow label, payload length too. Default
//!   false.
//! - `TIMESTAMP`: false = do not show the packet's timestamp. Default true.
//! - `OUTFILE`: file to write to; `-` is the standard output. Default: the standard error output.
//! - `ACTIVE`: false = write nothing. Default true.
//!
//! # Ports
//! One input, one output; push or pull. Lives on one worker, so that lines come in order.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `active` | rw | see `ACTIVE` |
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b40 20010db8000000000000000000000001 20010db8000000000000000000000002>, LIMIT 3)
//!   -> MarkIP6Header -> p :: IP6Print(hello, HLIM true, OUTFILE /dev/null) -> c :: Counter -> Discard;
//! // c.count = 3
//! // p.active = true
//! ```

use super::ip_line::{self, Dump};
use super::ip6_line::{self, Fields};
use super::lines::Lines;
use graph::{
    Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Out, Simple, Spec, State, value,
};
use packet::{Batch, Packet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module.
pub struct IP6Print {
    label: String,
    contents: Dump,
    bytes: usize,
    fields: Fields,
    timestamp: bool,
    active: AtomicBool,
    to: Lines,
}

/// One worker's part of [`IP6Print`].
pub struct LocalIP6Print {
    shared: Arc<IP6Print>,
    text: String,
}

impl Class for IP6Print {
    const SPEC: Spec = Spec { annotations: true, state: State::Home, ..Spec::new("IP6Print", "1/1", "a/a") };
    type Local = Agnostic<LocalIP6Print>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<IP6Print, ConfigErrors> {
        let fields = Fields {
            hop_limit: args.keyword("HLIM", false),
            class: args.keyword("CLASS", false),
            flow: args.keyword("FLOW", false),
            length: args.keyword("LENGTH", false),
        };
        let bytes = args.keyword("MAXLENGTH", 1500usize);
        let timestamp = args.keyword("TIMESTAMP", true);
        let out_file: Option<PathBuf> = args.keyword_if_given("OUTFILE");
        let active = args.keyword("ACTIVE", true);
        let label = args.optional("LABEL", String::new());
        let contents = args.optional("CONTENTS", Dump::None);
        let bytes = args.optional("NBYTES", bytes);
        args.finish()?;
        let to = Lines::new(out_file.map(|path| (path, args.span_of("OUTFILE"))));
        let active = AtomicBool::new(active);
        Ok(IP6Print { label, contents, bytes, fields, timestamp, active, to })
    }

    fn open(&self) -> Result<(), ConfigErrors> {
        self.to.open()
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalIP6Print { shared: self.clone(), text: String::new() })
    }

    fn handlers(h: &mut Handlers<IP6Print>) {
        h.read("active", |p| p.active.load(Ordering::Relaxed).to_string());
        h.write("active", |p, text, _| {
            p.active.store(value(text)?, Ordering::Relaxed);
            Ok(())
        });
    }

    fn finish(&self) -> Result<(), String> {
        self.to.finish()
    }
}

impl IP6Print {
    /// Appends the packet's line (or lines, if bytes are to be shown).
    fn line(&self, text: &mut String, packet: &Packet) -> fmt::Result {
        if !self.label.is_empty() {
            text.push_str(&self.label);
            text.push_str(": ");
        }
        if self.timestamp {
            ip_line::time(text, packet.timestamp())?;
            text.push_str(": ");
        }
        let bytes = packet.network();
        match bytes {
            None => text.push_str("no IPv6 header mark"),
            Some(bytes) => ip6_line::describe(text, bytes, self.fields)?,
        }
        let bytes = bytes.unwrap_or_default();
        ip_line::dump(text, &bytes[..bytes.len().min(self.bytes)], self.contents)?;
        text.push('\n');
        Ok(())
    }
}

impl Simple for LocalIP6Print {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, _: &mut Out<'_>) {
        if !self.shared.active.load(Ordering::Relaxed) {
            return;
        }
        self.text.clear();
        for packet in batch.iter() {
            // Writing to a string does not fail.
            let _ = self.shared.line(&mut self.text, packet);
        }
        self.shared.to.write(&self.text);
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Bench, Setup};

    fn printed(arguments: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        let text = format!(
            "InfiniteSource(DATA \\<60000000 00081140 {:032x} {:032x} 00350043 00080000>, LIMIT 2)
               -> MarkIP6Header -> IP6Print({arguments}, OUTFILE {}) -> Discard;",
            0x2001 << 112 | 1_u128,
            0x2002 << 112 | 2_u128,
            path.display()
        );
        let mut bench = Bench::new(&text, &Setup::default()).unwrap();
        bench.run().unwrap();
        bench.end().unwrap();
        std::fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn lines() {
        let what = "2001::1.53 > 2002::2.67: udp 0\n";
        assert_eq!(printed("a label"), format!("a label: 0.000000: {what}").repeat(2));
        assert_eq!(printed("TIMESTAMP false, HLIM true"), format!("hlim 64 {what}").repeat(2));
        assert_eq!(printed("x, ACTIVE false"), "");
        let dumped = printed("x, ASCII, 2, TIMESTAMP false");
        assert_eq!(dumped, format!("x: {what}  `.\n").repeat(2));
    }
}

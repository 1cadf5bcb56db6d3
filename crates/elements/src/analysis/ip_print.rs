//! `IPPrint`: writes a line about each IPv4 packet, in the manner of tcpdump, and passes it on.
//!
//! The line is `LABEL: time: source.port > destination.port: what`, for TCP with flags, sequence range, acknowledgement
//! and window. Lengths are those that the headers claim. Packets must have a network header mark.
//!
//! # Arguments
//! - `LABEL`: text at the front of the line. Default none.
//! - `CONTENTS`: `NONE`, `HEX` or `ASCII` (also false or true): show the bytes from the IP header on. Default `NONE`.
//! - `PAYLOAD`: likewise, the bytes after the IP header only.
//! - `NBYTES` (or `MAXLENGTH`): bytes shown at most. Default 1500.
//! - `ID`, `TTL`, `TOS`, `LENGTH`: true = show this header field too. Default false.
//! - `TIMESTAMP`: false = do not show the packet's timestamp. Default true.
//! - `SWAP`: true = length and fragment fields are in the other byte order. Default false.
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
//! InfiniteSource(DATA \<45000014 00000000 40590000 0a000001 0b000002>, LIMIT 3)
//!   -> MarkIPHeader -> p :: IPPrint(hello, TTL true, OUTFILE /dev/null) -> c :: Counter -> Discard;
//! // c.count = 3
//! // p.active = true
//! ```

use super::ip_line::{self, Dump, Fields};
use super::lines::Lines;
use graph::{
    Agnostic, ArgError, Args, Class, ConfigErrors, Configure, Cx, FromArg, Handlers, LocalCx, Out, Simple,
    Spec, State, Text, value,
};
use packet::wire::ipv4::{Ipv4, MIN_HEADER_LEN};
use packet::{Batch, Packet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const KEYWORDS: &[&str] = &[
    "CONTENTS",
    "PAYLOAD",
    "NBYTES",
    "MAXLENGTH",
    "ID",
    "TTL",
    "TOS",
    "LENGTH",
    "TIMESTAMP",
    "SWAP",
    "OUTFILE",
    "ACTIVE",
];

/// See the module.
pub struct IPPrint {
    label: String,
    contents: Dump,
    payload: Dump,
    bytes: usize,
    fields: Fields,
    timestamp: bool,
    swap: bool,
    active: AtomicBool,
    to: Lines,
}

/// One worker's part of [`IPPrint`].
pub struct LocalIPPrint {
    shared: Arc<IPPrint>,
    text: String,
}

impl FromArg for Dump {
    fn from_arg(arg: &Text) -> Result<Dump, ArgError> {
        match arg.text.to_ascii_lowercase().as_str() {
            "none" | "no" | "false" | "0" => Ok(Dump::None),
            "hex" | "yes" | "true" | "1" => Ok(Dump::Hex),
            "ascii" => Ok(Dump::Ascii),
            _ => Err(ArgError::parse().help("write `NONE`, `HEX` or `ASCII`")),
        }
    }

    fn placeholder() -> Dump {
        Dump::None
    }
}

impl Class for IPPrint {
    const SPEC: Spec = Spec { annotations: true, state: State::Home, ..Spec::new("IPPrint", "1/1", "a/a") };
    type Local = Agnostic<LocalIPPrint>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<IPPrint, ConfigErrors> {
        args.keywords(KEYWORDS);
        let contents = args.keyword("CONTENTS", Dump::None);
        let payload = args.keyword("PAYLOAD", Dump::None);
        let bytes = args.keyword("MAXLENGTH", 1500usize);
        let bytes = args.keyword("NBYTES", bytes);
        let fields = Fields {
            id: args.keyword("ID", false),
            ttl: args.keyword("TTL", false),
            tos: args.keyword("TOS", false),
            length: args.keyword("LENGTH", false),
        };
        let timestamp = args.keyword("TIMESTAMP", true);
        let swap = args.keyword("SWAP", false);
        let out_file: Option<PathBuf> = args.keyword_if_given("OUTFILE");
        let active = args.keyword("ACTIVE", true);
        let label = args.optional("LABEL", String::new());
        args.finish()?;
        Ok(IPPrint {
            label,
            contents,
            payload,
            bytes,
            fields,
            timestamp,
            swap,
            active: AtomicBool::new(active),
            to: Lines::new(out_file.map(|path| (path, args.span_of("OUTFILE")))),
        })
    }

    fn open(&self) -> Result<(), ConfigErrors> {
        self.to.open()
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalIPPrint { shared: self.clone(), text: String::new() })
    }

    fn handlers(h: &mut Handlers<IPPrint>) {
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

impl IPPrint {
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
        match packet.network() {
            None => text.push_str("no IP header mark"),
            Some(bytes) if self.swap => ip_line::describe(text, &swapped(bytes), self.fields)?,
            Some(bytes) => ip_line::describe(text, bytes, self.fields)?,
        }
        let bytes = packet.network().unwrap_or_default();
        let header = Ipv4::new(bytes).map_or(0, |ip| ip.header_len());
        let shown = |bytes: &'_ [u8]| bytes.len().min(self.bytes);
        ip_line::dump(text, &bytes[..shown(bytes)], self.contents)?;
        let payload = bytes.get(header..).unwrap_or_default();
        ip_line::dump(text, &payload[..shown(payload)], self.payload)?;
        text.push('\n');
        Ok(())
    }
}

/// The packet with its length and fragment fields in the other byte order.
fn swapped(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= MIN_HEADER_LEN {
        bytes.swap(2, 3);
        bytes.swap(6, 7);
    }
    bytes
}

impl Simple for LocalIPPrint {
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
            "InfiniteSource(DATA \\<4503001c 00070000 40110000 01000001 02000002 00350043 00080000>, LIMIT 2)
               -> MarkIPHeader -> IPPrint({arguments}, OUTFILE {}) -> Discard;",
            path.display()
        );
        let mut bench = Bench::new(&text, &Setup::default()).unwrap();
        bench.run().unwrap();
        bench.end().unwrap();
        std::fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn lines() {
        let what = "1.0.0.1.53 > 2.0.0.2.67: udp 0\n";
        assert_eq!(printed("a label"), format!("a label: 0.000000: {what}").repeat(2));
        assert_eq!(printed("TIMESTAMP false, TTL true"), format!("ttl 64 {what}").repeat(2));
        assert_eq!(printed("\"TTL x\", TIMESTAMP false, ACTIVE false"), "");
        let dumped = printed("TIMESTAMP false, PAYLOAD HEX");
        assert_eq!(dumped, format!("{what}  0000:  0035 0043 0008 0000\n").repeat(2));
        let dumped = printed("TIMESTAMP false, CONTENTS ascii, NBYTES 3");
        assert_eq!(dumped, format!("{what}  E..\n").repeat(2));
        assert!(printed("LENGTH true, SWAP true").contains(": length 7168 "));
    }

    #[test]
    fn an_unwritable_file_is_an_error_at_the_start() {
        let text = "Idle -> IPPrint(OUTFILE /nowhere/lines) -> Discard;";
        let error = Bench::new(text, &Setup::default()).err().unwrap();
        assert!(error.contains("OUTFILE: cannot write /nowhere/lines: No such file or directory"), "{error}");
        let mut full = Bench::new(
            "InfiniteSource(LIMIT 1) -> IPPrint(OUTFILE /dev/full) -> Discard;",
            &Setup::default(),
        )
        .unwrap();
        full.run().unwrap();
        assert_eq!(
            full.end().unwrap_err(),
            "IPPrint@2: output is incomplete: No space left on device (os error 28)"
        );
    }
}

//! `Print`: prints a line for each packet and passes it on.
//!
//! The line is `LABEL: LENGTH | BYTES`: the length in bytes, right-aligned to four places, and the first bytes in groups.
//!
//! # Arguments
//! - `LABEL`: text before each line. Default: none.
//! - `MAXLENGTH`, `NBYTES`: bytes to print, at most; -1 = all. Default 24.
//! - `CONTENTS`: `HEX`: groups of four bytes; `ASCII`: groups of eight characters, a dot for what cannot be printed;
//!   `NONE`. Default `HEX`.
//! - `TIMESTAMP`: true = print the packet's timestamp annotation. Default false.
//! - `PRINTANNO`: true = print the annotation bytes at the end. Default false.
//! - `CPU`: true = print the number of the worker. Default false.
//! - `HEADROOM`: true = print the free bytes before and behind the packet's in its buffer. Default false.
//! - `ACTIVE`: false = print nothing. Default true.
//! - `OUTFILE`: a file to print to; `-` is the standard output. Default: the standard error output.
//!
//! Lines for the standard error output are dropped, and counted there, while its reader has taken nothing for a second. A
//! file or a standard output that takes nothing makes the worker wait: what is written there is complete.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `active` | rw | see `ACTIVE` |
//!
//! # Example
//! Prints `in:    5 | 68656c6c 6f` to the standard output, twice:
//! ```click
//! InfiniteSource(DATA "hello", LIMIT 2) -> Print(in, OUTFILE -) -> c :: Counter -> Discard;
//! // c.count = 2
//! ```

use graph::{
    Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Out, SECOND, Simple, Spec, value,
};
use io::tell_patiently;
use lang::args::{ArgError, FromArg};
use lang::{Span, Text};
use packet::{Batch, Packet, anno};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Debug)]
pub struct Print {
    format: Format,
    active: AtomicBool,
    file: Option<(PathBuf, Span)>,
    sink: Mutex<Sink>,
}

/// Where lines go.
#[derive(Debug)]
enum Sink {
    Stderr,
    Stdout,
    File(BufWriter<File>),
    /// Nothing more can be written; told at the end.
    Failed(String),
}

/// What a line shows.
#[derive(Clone, Debug)]
struct Format {
    label: String,
    max: usize,
    contents: Contents,
    timestamp: bool,
    annotations: bool,
    cpu: bool,
    headroom: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
    None,
    Hex,
    Ascii,
}

impl FromArg for Contents {
    fn from_arg(arg: &Text) -> Result<Contents, ArgError> {
        match arg.text.to_ascii_uppercase().as_str() {
            "NONE" => Ok(Contents::None),
            "HEX" => Ok(Contents::Hex),
            "ASCII" => Ok(Contents::Ascii),
            _ => Err(ArgError::parse().help("`HEX`, `ASCII` or `NONE`")),
        }
    }

    fn placeholder() -> Contents {
        Contents::Hex
    }
}

/// One worker's part of [`Print`].
#[derive(Debug)]
pub struct LocalPrint {
    shared: Arc<Print>,
    worker: usize,
    /// Reused from batch to batch.
    lines: String,
}

impl Format {
    fn line(&self, packet: &Packet, worker: usize, text: &mut String) {
        text.push_str(&self.label);
        if self.cpu {
            let _ = write!(text, "({worker})");
        }
        if self.cpu || !self.label.is_empty() {
            text.push_str(": ");
        }
        if self.timestamp {
            let (seconds, nanos) = (packet.timestamp() / SECOND, packet.timestamp() % SECOND);
            let _ = write!(text, "{seconds}.{nanos:09}: ");
        }
        let _ = write!(text, "{:4}", packet.len());
        if self.headroom {
            let _ = write!(text, " (h{} t{})", packet.headroom(), packet.tailroom());
        }
        let data = packet.data();
        let shown = &data[..data.len().min(self.max)];
        match self.contents {
            Contents::None => {}
            Contents::Hex => groups(shown, 4, text, hex),
            Contents::Ascii => groups(shown, 8, text, |b, text| {
                text.push(if b.is_ascii_graphic() || b == b' ' { char::from(b) } else { '.' });
            }),
        }
        if self.annotations {
            let mut bytes = [0; anno::SIZE];
            packet.read_anno(0, &mut bytes);
            groups(&bytes, anno::SIZE, text, hex);
        }
        text.push('\n');
    }
}

fn hex(byte: u8, text: &mut String) {
    let _ = write!(text, "{byte:02x}");
}

/// ` | ` and bytes in groups with a space between.
fn groups(bytes: &[u8], size: usize, text: &mut String, show: impl Fn(u8, &mut String)) {
    text.push_str(" | ");
    for (i, &byte) in bytes.iter().enumerate() {
        if i > 0 && i % size == 0 {
            text.push(' ');
        }
        show(byte, text);
    }
}

impl Class for Print {
    const SPEC: Spec = Spec { annotations: true, ..Spec::new("Print", "1/1", "a/a") };
    type Local = Agnostic<LocalPrint>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Print, ConfigErrors> {
        args.keywords(&[
            "LABEL",
            "MAXLENGTH",
            "NBYTES",
            "CONTENTS",
            "TIMESTAMP",
            "PRINTANNO",
            "CPU",
            "HEADROOM",
            "ACTIVE",
            "OUTFILE",
        ]);
        let label = args.optional("LABEL", String::new());
        let nbytes: i64 = args.keyword("NBYTES", 24);
        let max: i64 = args.optional("MAXLENGTH", nbytes);
        let format = Format {
            label,
            max: usize::try_from(max).unwrap_or(usize::MAX),
            contents: args.keyword("CONTENTS", Contents::Hex),
            timestamp: args.keyword("TIMESTAMP", false),
            annotations: args.keyword("PRINTANNO", false),
            cpu: args.keyword("CPU", false),
            headroom: args.keyword("HEADROOM", false),
        };
        let active = args.keyword("ACTIVE", true);
        let file: Option<PathBuf> = args.keyword_if_given("OUTFILE");
        let span = args.span_of("OUTFILE");
        args.finish()?;
        let sink =
            if file.as_ref().is_some_and(|f| f.as_os_str() == "-") { Sink::Stdout } else { Sink::Stderr };
        let file = file.filter(|f| f.as_os_str() != "-").map(|f| (f, span));
        Ok(Print { format, active: AtomicBool::new(active), file, sink: Mutex::new(sink) })
    }

    fn open(&self) -> Result<(), ConfigErrors> {
        if let Some((path, span)) = &self.file {
            let file = File::create(path)
                .map_err(|e| ConfigErrors::new(*span, format!("{}: {e}", path.display())))?;
            *self.sink() = Sink::File(BufWriter::new(file));
        }
        Ok(())
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> Self::Local {
        Agnostic(LocalPrint { shared: self.clone(), worker: cx.worker, lines: String::new() })
    }

    fn handlers(h: &mut Handlers<Print>) {
        h.read("active", |p| p.active.load(Relaxed).to_string());
        h.write("active", |p, text, _| {
            p.active.store(value(text)?, Relaxed);
            Ok(())
        });
    }

    fn finish(&self) -> Result<(), String> {
        let mut sink = self.sink();
        if let Sink::File(file) = &mut *sink
            && let Err(e) = file.flush()
        {
            *sink = Sink::Failed(e.to_string());
        }
        match (&*sink, &self.file) {
            (Sink::Failed(e), Some((path, _))) => Err(format!("{}: {e}", path.display())),
            (Sink::Failed(e), None) => Err(e.clone()),
            _ => Ok(()),
        }
    }
}

impl Print {
    fn sink(&self) -> MutexGuard<'_, Sink> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, lines: &str) {
        let mut sink = self.sink();
        let result = match &mut *sink {
            Sink::Stderr => {
                // A worker does not wait for ever for whoever reads this.
                tell_patiently(lines);
                Ok(())
            }
            Sink::Stdout => stdout().write_all(lines.as_bytes()),
            Sink::File(file) => file.write_all(lines.as_bytes()),
            Sink::Failed(_) => Ok(()),
        };
        if let Err(e) = result {
            *sink = Sink::Failed(e.to_string());
        }
    }
}

impl Simple for LocalPrint {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, _: &mut Out<'_>) {
        if !self.shared.active.load(Relaxed) {
            return;
        }
        self.lines.clear();
        for packet in batch.iter() {
            self.shared.format.line(packet, self.worker, &mut self.lines);
        }
        self.shared.write(&self.lines);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab, errors};

    /// The lines printed for a packet, with these arguments.
    fn printed(arguments: &str, frame: &Frame) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut lab = Lab::new(&format!(
            "f :: Feed -> Print({arguments}, OUTFILE \"{}\") -> k :: Keep;",
            path.display()
        ));
        lab.at(0, "f", frame);
        lab.run();
        assert_eq!(lab.kept("k").len(), 1);
        lab.end();
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn lines_are_as_documented() {
        let long = Frame::new(&(0..30).collect::<Vec<u8>>());
        let all24 = "00010203 04050607 08090a0b 0c0d0e0f 10111213 14151617";
        assert_eq!(printed("ok", &long), format!("ok:   30 | {all24}\n"));
        assert_eq!(printed("LABEL ok, MAXLENGTH 5", &long), "ok:   30 | 00010203 04\n");
        assert_eq!(printed("ok, 0", &long), "ok:   30 | \n");
        assert_eq!(printed("ok, -1", &long), format!("ok:   30 | {all24} 18191a1b 1c1d\n"));
        assert_eq!(printed("ok, NBYTES 4", &long), "ok:   30 | 00010203\n");
        assert_eq!(printed("ok, CONTENTS NONE", &long), "ok:   30\n");
        assert_eq!(printed("\"a b\", CPU true, CONTENTS NONE", &long), "a b(0):   30\n");
        assert_eq!(printed("TIMESTAMP true, CONTENTS NONE", &long), "0.000000000:   30\n");
        let text = Frame::new(b"GET /index\r\n\xff");
        assert_eq!(printed("CONTENTS ASCII", &text), "  13 | GET /ind ex...\n");
        assert_eq!(printed("MAXLENGTH 1", &Frame::new(&[])), "   0 | \n");
        let annotated = Frame { paint: 0xab, ..Frame::new(&[1]) }.to([10, 0, 0, 1]);
        assert_eq!(
            printed("PRINTANNO true", &annotated),
            format!("   1 | 01 | 0a000001{}ab{}\n", "0".repeat(24), "0".repeat(62))
        );
    }

    #[test]
    fn it_can_be_silenced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let config =
            format!("f :: Feed -> p :: Print(a, ACTIVE false, OUTFILE {}) -> k :: Keep;", path.display());
        let mut lab = Lab::new(&config);
        lab.at(0, "f", &Frame::new(&[1]));
        lab.run();
        lab.0.write("p.active", "true").unwrap();
        lab.at(0, "f", &Frame::new(&[2]));
        lab.run();
        lab.end();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "a:    1 | 02\n");
    }

    #[test]
    fn mistakes() {
        let text = errors("Idle -> Print(OUTFILE /nonexistent/file) -> Discard;");
        assert!(text.contains("/nonexistent/file: No such file or directory"), "{text}");
        let text = errors("Idle -> Print(a, CONTENTS BINARY) -> Discard;");
        assert!(
            text.contains("CONTENTS: parse error") && text.contains("`HEX`, `ASCII` or `NONE`"),
            "{text}"
        );
    }
}

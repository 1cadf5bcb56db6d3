//! `ToDump`: writes packets to a capture file (pcap, timestamps in nanoseconds).
//!
//! # Arguments
//! - `FILENAME`: the file; `-` is the standard output.
//! - `SNAPLEN`: bytes of each packet that are written at most; 0 = all. Default 0.
//! - `ENCAP`: what packets begin with: `ETHER`, `IP`, or the number of a link type. Default `ETHER`.
//! - `USE_ENCAP_FROM`: names of `FromDump` elements, separated by spaces: `ENCAP` is what their files hold.
//! - `EXTRA_LENGTH`: true = the length in the file counts what the extra-length annotation says was cut off. Default true.
//! - `UNBUFFERED`: true = everything is written at once. Default false.
//! - `BURST`: when it pulls, packets at a time. Default: the router's burst.
//!
//! `NANO` and `PER_NODE` have no effect here; a warning says so.
//!
//! # Ports
//! One input, push or pull. Packets go on by the output if that is connected, else they end here. A packet without
//! timestamp is written with the present time.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `count` | r | packets written |
//! | `reset_counts` | w | start from 0 again |
//! | `filename` | r | the file |
//!
//! # Losses
//! - `write_error`: the file cannot be written, for instance because the disk is full. A message says why, nothing
//!   more is written, and the router ends with an error. With an output packets go on all the same.
//!
//! # Example
//! ```click
//! // The file holds ten UDP packets.
//! FromDump(in.pcap) -> f :: ToDump(out.pcap, SNAPLEN 34);
//! // f.count = 10
//! ```

use super::from_dump::FromDump;
use super::keywords::ignore;
use graph::{
    ArgError, Args, Class, ConfigErrors, Configure, Cx, Element, FromArg, Handlers, Initialize, LocalCx,
    Loss, NodeId, Out, Span, Spec, State, Text, Up,
};
use io::pcap::{LinkType, PcapError, SNAP_LEN, Writer};
use io::say;
use packet::{Batch, anno};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

const WRITE_ERROR: Loss = Loss(0);

/// What packets begin with, as an argument.
struct Encap(LinkType);

impl FromArg for Encap {
    fn from_arg(arg: &Text) -> Result<Encap, ArgError> {
        match arg.text.as_str() {
            "ETHER" => Ok(Encap(LinkType::Ethernet)),
            "IP" => Ok(Encap(LinkType::RawIp)),
            other => match other.parse() {
                Ok(n) => Ok(Encap(LinkType::Other(n))),
                Err(_) => Err(ArgError::parse().help("`ETHER`, `IP`, or the number of a link type")),
            },
        }
    }

    fn placeholder() -> Encap {
        Encap(LinkType::Ethernet)
    }
}

/// See the module.
pub struct ToDump {
    name: String,
    file: PathBuf,
    span: Span,
    encap: LinkType,
    encap_from: Vec<NodeId>,
    /// The same, once they are known to be such.
    sources: OnceLock<Vec<Arc<FromDump>>>,
    snap_len: u32,
    extra_length: bool,
    unbuffered: bool,
    burst: usize,
    count: AtomicU64,
    unwritten: AtomicU64,
    /// `None` before the file is open and after it has failed.
    writer: Mutex<Option<Writer>>,
}

impl ToDump {
    fn writer<R>(&self, f: impl FnOnce(&mut Option<Writer>) -> R) -> R {
        f(&mut self.writer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The link type of the elements that are to say it.
    fn link(&self) -> Result<LinkType, ConfigErrors> {
        let mut link = None;
        for source in self.sources.get().into_iter().flatten() {
            let theirs = source.link_type()?;
            if link.is_some_and(|l| l != theirs) {
                return Err(ConfigErrors::new(self.span, "USE_ENCAP_FROM: the files' link types differ"));
            }
            link = Some(theirs);
        }
        Ok(link.unwrap_or(self.encap))
    }

    /// Writes packets as long as the file can be written; returns how many, from the first on, were written.
    fn write(&self, batch: &Batch, now: u64) -> usize {
        let (written, result) = self.writer(|slot| {
            let Some(writer) = slot else { return (0, Ok(())) };
            let (written, result) = self.write_to(writer, batch, now);
            if result.is_err() {
                *slot = None;
            }
            (written, result)
        });
        if let Err(e) = result {
            say!("{}: {e}", self.name);
        }
        self.count.fetch_add(written as u64, Relaxed);
        self.unwritten.fetch_add((batch.len() - written) as u64, Relaxed);
        written
    }

    fn write_to(&self, writer: &mut Writer, batch: &Batch, now: u64) -> (usize, Result<(), PcapError>) {
        for (i, packet) in batch.iter().enumerate() {
            let time = if packet.timestamp() == 0 { now } else { packet.timestamp() };
            let extra = if self.extra_length { packet.anno_u32(anno::EXTRA_LENGTH) } else { 0 };
            let length = u32::try_from(packet.len()).unwrap_or(u32::MAX).saturating_add(extra);
            if let Err(e) = writer.write(time, length, packet.data()) {
                return (i, Err(e));
            }
        }
        if self.unbuffered
            && let Err(e) = writer.flush()
        {
            return (0, Err(e));
        }
        (batch.len(), Ok(()))
    }
}

impl Class for ToDump {
    const SPEC: Spec = Spec {
        losses: &["write_error"],
        state: State::Home,
        annotations: true,
        ..Spec::new("ToDump", "1/0-1", "a/a")
    };
    type Local = LocalToDump;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<ToDump, ConfigErrors> {
        let file = args.required("FILENAME");
        let snap_len: u32 = args.optional("SNAPLEN", 0);
        let encap: Encap = args.optional("ENCAP", Encap(LinkType::Ethernet));
        let from: Option<String> = args.keyword_if_given("USE_ENCAP_FROM");
        let extra_length = args.keyword("EXTRA_LENGTH", true);
        let unbuffered = args.keyword("UNBUFFERED", false);
        let burst: usize = args.keyword("BURST", cx.burst);
        ignore(args, &["NANO", "PER_NODE"]);
        let mut encap_from = Vec::new();
        for name in from.as_deref().unwrap_or_default().split_ascii_whitespace() {
            match cx.element(name) {
                Some(node) => encap_from.push(node),
                None => args.error("USE_ENCAP_FROM", format!("no element named '{name}'")),
            }
        }
        let span = args.span_of("FILENAME");
        args.finish()?;
        Ok(ToDump {
            name: cx.name.to_owned(),
            file,
            span,
            encap: encap.0,
            encap_from,
            sources: OnceLock::new(),
            snap_len: if snap_len == 0 { SNAP_LEN } else { snap_len },
            extra_length,
            unbuffered,
            burst: burst.clamp(1, Batch::MAX),
            count: AtomicU64::new(0),
            unwritten: AtomicU64::new(0),
            writer: Mutex::default(),
        })
    }

    fn initialize(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
        let text = "USE_ENCAP_FROM: only FromDump elements know a link type";
        let source = |node: &NodeId| cx.peer(*node).ok_or_else(|| ConfigErrors::new(self.span, text));
        // Initialised once, so it cannot be set yet.
        let _ = self.sources.set(self.encap_from.iter().map(source).collect::<Result<_, _>>()?);
        Ok(())
    }

    fn open(&self) -> Result<(), ConfigErrors> {
        let link = self.link()?;
        let failed = |e: PcapError| ConfigErrors::new(self.span, e.to_string());
        let writer = Writer::create(&self.file, link, self.snap_len).map_err(failed)?;
        self.writer(|slot| *slot = Some(writer));
        Ok(())
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalToDump {
        LocalToDump {
            shared: self.clone(),
            pulls: cx.outputs == 0 && cx.push_inputs == [false],
            passes_on: cx.outputs > 0,
        }
    }

    fn handlers(h: &mut Handlers<ToDump>) {
        h.read("count", |d| d.count.load(Relaxed).to_string());
        h.write("reset_counts", |d, _, _| {
            d.count.store(0, Relaxed);
            Ok(())
        });
        h.read("filename", |d| d.file.display().to_string());
    }

    fn finish(&self) -> Result<(), String> {
        let flushed = self.writer(|slot| slot.as_mut().map_or(Ok(()), Writer::flush));
        let unwritten = self.unwritten.load(Relaxed);
        if unwritten > 0 {
            return Err(format!("{unwritten} packets could not be written to {}", self.file.display()));
        }
        flushed.map_err(|e| e.to_string())
    }
}

/// One worker's part of [`ToDump`].
pub struct LocalToDump {
    shared: Arc<ToDump>,
    pulls: bool,
    passes_on: bool,
}

impl LocalToDump {
    /// Writes packets whose way ends here.
    fn take(&self, mut batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let written = self.shared.write(&batch, cx.now);
        out.lose_all(batch.split_off(written), WRITE_ERROR);
        out.consume(batch);
    }
}

impl Element for LocalToDump {
    fn start(&mut self, _: &Cx<'_>, out: &mut Out<'_>) {
        if self.pulls {
            out.wake();
        }
    }

    fn push(&mut self, _: usize, batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        if self.passes_on {
            self.shared.write(&batch, cx.now);
            out.emit(0, batch);
        } else {
            self.take(batch, cx, out);
        }
    }

    fn pull(&mut self, _: usize, max: usize, cx: &Cx<'_>, up: &mut Up<'_>, out: &mut Out<'_>) -> Batch {
        let batch = up.pull(0, max, cx, out);
        self.shared.write(&batch, cx.now);
        batch
    }

    fn run(&mut self, cx: &Cx<'_>, up: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        if !self.pulls {
            return false;
        }
        let batch = up.pull(0, self.shared.burst, cx, out);
        if batch.is_empty() {
            up.wait(out);
            return false;
        }
        self.take(batch, cx, out);
        out.wake();
        true
    }
}

//! `FromDump`: reads packets from a capture file (pcap or pcapng).
//!
//! # Arguments
//! - `FILENAME`: the file; `-` is the standard input.
//! - `STOP`: true = stop the router after the last packet. Default false.
//! - `TIMING`: true = packets come at the pace at which they were captured. Default false: as fast as possible.
//! - `SAMPLE`: probability with which each packet is taken. Default 1.
//! - `FORCE_IP`: take IP packets only, with the IP header marked. Default false.
//! - `START`, `START_AFTER`: skip packets before this time: seconds since 1970, or since the first packet.
//! - `END`, `END_AFTER`, `INTERVAL`: end at this time: seconds since 1970, since the first packet, or since the start.
//! - `BURST`: packets at a time. Default: the router's burst.
//! - `ACTIVE`: false = wait until told to begin. Default true.
//!
//! `MMAP` and `PER_NODE` have no effect here; a warning says so.
//!
//! # Ports
//! One output, push or pull; with `FORCE_IP` a second, push, for packets that are not IP. Packets carry their timestamp,
//! and in the extra-length annotation how many of their bytes are not in the file. While all queues downstream are
//! full it sleeps.
//!
//! Of a pcapng file all blocks are read or skipped, and each interface has its own resolution and offset of timestamps. A
//! packet of a Simple Packet Block has no timestamp: it comes with the one before it (`TIMING`), and `START` and
//! `START_AFTER` skip it. All packets must have the link type of the first one.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `count` | r | packets read and sent on |
//! | `reset_counts` | w | start from 0 again |
//! | `active` | rw | see `ACTIVE` |
//! | `stop` | w | as if the file ended here |
//! | `filename`, `filesize` | r | name, and size in bytes (`-` if it has none) |
//! | `encap` | r | what packets begin with: `ETHER`, `IP`, or the number of the link type |
//! | `sampling_prob` | r | see `SAMPLE` |
//!
//! # Losses
//! - `too_big`: the packet is larger than a buffer.
//! - `not_ip`: not an IP packet, `FORCE_IP` is true, and output 1 is not connected.
//! - `damaged`: 1 if the file turned out to be damaged or cut: nothing after that place is read, and the run ends with
//!   an error that says where it is.
//! - `invalid`: what the file says of the packet cannot be: an interface that it does not describe, or more bytes than
//!   its block has.
//! - `other_link`: the packet has another link type than the first one, which `encap` tells.
//!
//! # Example
//! ```click
//! // The file holds ten UDP packets.
//! f :: FromDump(in.pcap, FORCE_IP true) -> c :: Counter -> Discard;
//! // f.count = 10
//! // f.encap = ETHER
//! // c.byte_count = 600
//! ```

use super::force_ip::mark_ip;
use super::keywords::ignore;
use crate::shape::random::{Random, threshold};
use graph::{
    Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, LocalCx, Loss, Nanos, Out, Span, Spec,
    State, Up, value,
};
use io::pcap::{LinkType, Reader, Record};
use packet::{Batch, Packet, anno};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const TOO_BIG: Loss = Loss(0);
const NOT_IP: Loss = Loss(1);
const DAMAGED: Loss = Loss(2);
const INVALID: Loss = Loss(3);
const OTHER_LINK: Loss = Loss(4);

/// See the module.
pub struct FromDump {
    file: PathBuf,
    span: Span,
    settings: Settings,
    active: AtomicBool,
    stopped: AtomicBool,
    count: AtomicU64,
    state: Mutex<File>,
}

/// The file before the worker takes it.
#[derive(Default)]
struct File {
    link: Option<LinkType>,
    reader: Option<Reader>,
    size: Option<u64>,
    /// Where the file turned out to be damaged.
    damage: Option<String>,
}

#[derive(Clone, Debug)]
struct Settings {
    burst: usize,
    stop: bool,
    timing: bool,
    sample: f64,
    force_ip: bool,
    window: Window,
}

/// Which part of the file is wanted; times are nanoseconds since 1970, lengths nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    start: Option<Nanos>,
    start_after: Option<Nanos>,
    end: Option<Nanos>,
    end_after: Option<Nanos>,
    interval: Option<Nanos>,
}

impl Window {
    fn read(args: &mut Args) -> Window {
        let mut time = |name: &str| {
            let given: Option<Duration> = args.keyword_if_given(name);
            given.map(|d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
        };
        Window {
            start: time("START"),
            start_after: time("START_AFTER"),
            end: time("END"),
            end_after: time("END_AFTER"),
            interval: time("INTERVAL"),
        }
    }

    /// First and last time wanted, the last one excluded, in a file whose first packet has this time.
    fn bounds(&self, first: Nanos) -> (Nanos, Nanos) {
        let after = |t: Option<Nanos>| t.map(|t| first.saturating_add(t));
        let start = self.start.or(after(self.start_after));
        let interval = self.interval.map(|i| start.unwrap_or(first).saturating_add(i));
        let ends = [self.end, after(self.end_after), interval];
        (start.unwrap_or(0), ends.into_iter().flatten().min().unwrap_or(u64::MAX))
    }
}

impl FromDump {
    /// Opens the file unless it is open; says what its packets begin with.
    ///
    /// # Errors
    /// If it cannot be read or is not a capture.
    pub fn link_type(&self) -> Result<LinkType, ConfigErrors> {
        let mut file = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = file.link {
            return Ok(link);
        }
        let reader = Reader::open(&self.file).map_err(|e| ConfigErrors::new(self.span, e.to_string()))?;
        let link = reader.link_type();
        let size = std::fs::metadata(&self.file).ok().filter(std::fs::Metadata::is_file).map(|m| m.len());
        *file = File { link: Some(link), reader: Some(reader), size, damage: None };
        Ok(link)
    }

    fn file<R>(&self, f: impl FnOnce(&mut File) -> R) -> R {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How `encap` names a link type.
pub(super) fn encap_name(link: LinkType) -> String {
    match link {
        LinkType::Ethernet => "ETHER".to_owned(),
        LinkType::RawIp => "IP".to_owned(),
        LinkType::Other(n) => n.to_string(),
    }
}

impl Class for FromDump {
    const SPEC: Spec = Spec {
        losses: &["too_big", "not_ip", "damaged", "invalid", "other_link"],
        state: State::Home,
        annotations: true,
        ..Spec::new("FromDump", "0/1-2", "a/ah")
    };
    type Local = LocalFromDump;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<FromDump, ConfigErrors> {
        let file = args.required("FILENAME");
        let burst: usize = args.keyword("BURST", cx.burst);
        let settings = Settings {
            burst: burst.clamp(1, Batch::MAX),
            stop: args.keyword("STOP", false),
            timing: args.keyword("TIMING", false),
            sample: args.keyword("SAMPLE", 1.0),
            force_ip: args.keyword("FORCE_IP", false),
            window: Window::read(args),
        };
        let active = args.keyword("ACTIVE", true);
        ignore(args, &["MMAP", "PER_NODE"]);
        if !(0.0..=1.0).contains(&settings.sample) {
            args.error("SAMPLE", "a probability is between 0 and 1");
        }
        if cx.outputs == 2 && !settings.force_ip {
            args.warn("FORCE_IP", "false, so nothing leaves by output 1");
        }
        let span = args.span_of("FILENAME");
        args.finish()?;
        Ok(FromDump {
            file,
            span,
            settings,
            active: AtomicBool::new(active),
            stopped: AtomicBool::new(false),
            count: AtomicU64::new(0),
            state: Mutex::default(),
        })
    }

    fn open(&self) -> Result<(), ConfigErrors> {
        self.link_type().map(drop)
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalFromDump {
        let link = self.file(|f| f.link).unwrap_or(LinkType::Ethernet);
        LocalFromDump {
            reader: if cx.active { self.file(|f| f.reader.take()) } else { None },
            link,
            pushes: cx.push_outputs.first() == Some(&true),
            random: Random::new(cx.clock.now()),
            sample: threshold(self.settings.sample),
            invalid: 0,
            bounds: None,
            began: None,
            ahead: None,
            shared: self.clone(),
        }
    }

    fn handlers(h: &mut Handlers<FromDump>) {
        h.read("count", |f| f.count.load(Relaxed).to_string());
        h.write("reset_counts", |f, _, _| {
            f.count.store(0, Relaxed);
            Ok(())
        });
        h.read("active", |f| f.active.load(Relaxed).to_string());
        h.write("active", |f, text, cx| {
            f.active.store(value(text)?, Relaxed);
            cx.wake();
            Ok(())
        });
        h.write("stop", |f, _, cx| {
            f.stopped.store(true, Relaxed);
            cx.wake();
            Ok(())
        });
        h.read("filename", |f| f.file.display().to_string());
        h.read("filesize", |f| f.file(|f| f.size).map_or_else(|| "-".to_owned(), |s| s.to_string()));
        h.read("encap", |f| f.file(|f| f.link).map_or_else(String::new, encap_name));
        h.read("sampling_prob", |f| f.settings.sample.to_string());
    }

    fn finish(&self) -> Result<(), String> {
        match self.file(|f| f.damage.take()) {
            Some(damage) => Err(format!("{damage}; what is before that was read")),
            None => Ok(()),
        }
    }
}

/// One worker's part of [`FromDump`].
pub struct LocalFromDump {
    shared: Arc<FromDump>,
    /// `None` after the end of the file.
    reader: Option<Reader>,
    link: LinkType,
    /// Packets that the reader has skipped, as far as they are counted.
    invalid: usize,
    pushes: bool,
    random: Random,
    sample: u64,
    /// The wanted part of the file, once its first packet is known.
    bounds: Option<(Nanos, Nanos)>,
    /// With `TIMING`: time of the first packet that was wanted, and when it was sent.
    began: Option<(Nanos, Nanos)>,
    /// A packet that is read but cannot be sent yet.
    ahead: Option<Record>,
}

/// What comes next.
enum Next {
    Record(Record),
    /// Not before this time.
    Later(Nanos),
    End,
}

impl LocalFromDump {
    /// The next packet that is wanted.
    fn next(&mut self, cx: &Cx<'_>, out: &mut Out<'_>) -> Next {
        loop {
            let Some(record) = self.ahead.take().or_else(|| self.read(out)) else { return Next::End };
            let (start, end) = self.bounds(&record);
            let time = record.timestamp.unwrap_or(0);
            if time >= end {
                return Next::End;
            }
            if time < start {
                continue;
            }
            let due = self.due(&record, cx.now);
            if due > cx.now {
                self.ahead = Some(record);
                return Next::Later(due);
            }
            return Next::Record(record);
        }
    }

    /// The wanted part of the file: times count from the first packet that has one.
    fn bounds(&mut self, record: &Record) -> (Nanos, Nanos) {
        let window = self.shared.settings.window;
        match (self.bounds, record.timestamp) {
            (Some(bounds), _) => bounds,
            (None, Some(first)) => *self.bounds.insert(window.bounds(first)),
            (None, None) => window.bounds(0),
        }
    }

    /// When to send a packet: at once, unless it comes at the pace of the capture and has a time.
    fn due(&mut self, record: &Record, now: Nanos) -> Nanos {
        let Some(time) = record.timestamp.filter(|_| self.shared.settings.timing) else { return now };
        let (first, when) = *self.began.get_or_insert((time, now));
        when.saturating_add(time.saturating_sub(first))
    }

    /// The next packet of the file that can be used.
    fn read(&mut self, out: &mut Out<'_>) -> Option<Record> {
        loop {
            let reader = self.reader.as_mut()?;
            let next = reader.next_record();
            let invalid = reader.invalid() - self.invalid;
            if invalid > 0 {
                self.invalid += invalid;
                out.made(invalid);
                out.count_loss(INVALID, invalid);
            }
            match next {
                Ok(Some(record)) if record.link != self.link => {
                    out.made(1);
                    out.count_loss(OTHER_LINK, 1);
                }
                Ok(record) => return record,
                Err(e) => {
                    self.shared.file(|f| f.damage = Some(e.to_string()));
                    out.made(1);
                    out.count_loss(DAMAGED, 1);
                    return None;
                }
            }
        }
    }

    /// Up to `max` packets; and when to ask again if there were fewer but the file goes on.
    fn make(&mut self, max: usize, cx: &Cx<'_>, out: &mut Out<'_>) -> (Batch, Option<Nanos>) {
        let mut batch = Batch::empty();
        let mut when = Some(cx.now);
        while batch.len() < max && self.reader.is_some() {
            let record = match self.next(cx, out) {
                Next::Record(record) => record,
                Next::Later(time) => {
                    when = Some(time);
                    break;
                }
                Next::End => {
                    self.end(out);
                    break;
                }
            };
            // Sampled when nothing else can hold it up, so that each is sampled once.
            if record.data.len() > cx.pool.data_room() {
                out.made(1);
                out.count_loss(TOO_BIG, 1);
            } else if let Some(packet) = cx.pool.packet(&record.data) {
                if self.random.chance(self.sample) {
                    out.made(1);
                    self.add(packet, &record, &mut batch, out);
                } else {
                    packet.free();
                }
            } else {
                // Until others give buffers back.
                self.ahead = Some(record);
                break;
            }
        }
        self.shared.count.fetch_add(batch.len() as u64, Relaxed);
        (batch, when.filter(|_| self.reader.is_some()))
    }

    fn add(&self, mut packet: Packet, record: &Record, batch: &mut Batch, out: &mut Out<'_>) {
        packet.set_timestamp(record.timestamp.unwrap_or(0));
        let captured = u32::try_from(record.data.len()).unwrap_or(u32::MAX);
        packet.set_anno_u32(anno::EXTRA_LENGTH, record.wire_len.saturating_sub(captured));
        if self.link == LinkType::Ethernet {
            packet.set_mac_offset(0);
        }
        if self.shared.settings.force_ip && !mark_ip(&mut packet, self.link) {
            return out.reject(1, packet, NOT_IP);
        }
        batch.push(packet);
    }

    fn end(&mut self, out: &mut Out<'_>) {
        self.reader = None;
        self.ahead = None;
        if self.shared.settings.stop {
            out.stop_driver();
        }
    }

    /// True if there is something to do; ends the file if that was asked for.
    fn is_on(&mut self, out: &mut Out<'_>) -> bool {
        if self.reader.is_some() && self.shared.stopped.load(Relaxed) {
            self.end(out);
        }
        self.reader.is_some() && self.shared.active.load(Relaxed)
    }
}

impl Element for LocalFromDump {
    fn start(&mut self, _: &Cx<'_>, out: &mut Out<'_>) {
        if self.pushes {
            out.wake();
        }
    }

    fn pull(&mut self, _: usize, max: usize, cx: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> Batch {
        if !self.is_on(out) {
            return Batch::empty();
        }
        let (batch, when) = self.make(max.min(self.shared.settings.burst), cx, out);
        if let Some(when) = when.filter(|w| *w > cx.now) {
            out.retry_at(when);
        }
        batch
    }

    fn run(&mut self, cx: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        if !self.pushes || !self.is_on(out) {
            return false;
        }
        let room = out.room();
        if room == 0 {
            return false;
        }
        let (batch, when) = self.make(room.min(self.shared.settings.burst), cx, out);
        let useful = !batch.is_empty();
        out.emit(0, batch);
        match when {
            Some(when) if when > cx.now => out.wake_at(when),
            Some(_) => out.wake(),
            None => {}
        }
        useful
    }
}

//! For tests of elements: packets in by hand, packets out to look at.
//!
//! `Feed` sends frames at given times; `Keep` keeps what comes, to be read back.

use crate::harness::{Bench, Setup};
use graph::{
    AnyClass, Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, LocalCx, Nanos, Out,
    SIMULATED_START, Spec, State, Up, of,
};
use packet::{Batch, PacketType, anno};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// The classes of this file.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[&of::<Feed>(), &of::<Keep>()];

/// A packet with the notes that travel with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub bytes: Vec<u8>,
    pub dst: u32,
    pub paint: u8,
    pub packet_type: u8,
    /// Offsets of MAC and network header.
    pub mac: Option<usize>,
    pub network: Option<usize>,
}

impl Frame {
    /// A frame without notes.
    pub fn new(bytes: &[u8]) -> Frame {
        Frame { bytes: bytes.to_vec(), ..Frame::default() }
    }

    /// With a destination address.
    pub fn to(mut self, dst: [u8; 4]) -> Frame {
        self.dst = u32::from_be_bytes(dst);
        self
    }

    /// With a mark on the network header.
    pub fn network(mut self, offset: usize) -> Frame {
        self.network = Some(offset);
        self
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}

/// Hexadecimal digits, with spaces anywhere, as bytes.
pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_whitespace().collect();
    (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// A configuration under test.
pub(crate) struct Lab(pub Bench);

impl Lab {
    pub fn new(config: &str) -> Lab {
        Lab(Bench::new(config, &Setup::default()).unwrap_or_else(|e| panic!("{e}")))
    }

    pub fn with_workers(config: &str, workers: usize) -> Lab {
        Lab(Bench::new(config, &Setup { workers, ..Setup::default() }).unwrap_or_else(|e| panic!("{e}")))
    }

    /// Has a `Feed` send a frame so many milliseconds after the start.
    pub fn at(&self, ms: u64, feed: &str, f: &Frame) {
        let network = f.network.map_or(-1, |o| o as i64);
        let text = format!(
            "{} {} {} {} {network} {}.",
            SIMULATED_START + ms * 1_000_000,
            f.dst,
            f.paint,
            f.packet_type,
            hex(&f.bytes)
        );
        self.0.write(&format!("{feed}.send"), &text).unwrap();
    }

    /// What a `Keep` has kept since the last look.
    pub fn kept(&self, keep: &str) -> Vec<Frame> {
        self.0.read(&format!("{keep}.frames")).lines().map(parse_kept).collect()
    }

    /// The bytes of what a `Keep` has kept since the last look, in hexadecimal digits.
    pub fn kept_hex(&self, keep: &str) -> Vec<String> {
        self.kept(keep).iter().map(|f| hex(&f.bytes)).collect()
    }

    /// Runs to the end of all that is to come.
    pub fn run(&mut self) {
        self.0.run().unwrap();
    }

    /// Runs up to so many milliseconds after the start. A `Feed` must have something to send then or later.
    pub fn run_to(&mut self, ms: u64) {
        self.0.run_for(ms * 1_000_000);
    }

    /// Losses that are not zero.
    pub fn losses(&self) -> Vec<String> {
        self.0.losses().into_iter().filter(|l| !l.ends_with(" = 0")).collect()
    }

    /// Checks the books.
    pub fn end(self) {
        self.0.end().unwrap();
    }
}

/// Sends frames through `f :: Feed -> ELEMENTS -> k :: Keep` and returns what arrives and what is lost.
pub(crate) fn through(elements: &str, frames: &[Frame]) -> (Vec<Frame>, Vec<String>) {
    let mut lab = Lab::new(&format!("f :: Feed -> {elements} -> k :: Keep;"));
    frames.iter().for_each(|f| lab.at(0, "f", f));
    lab.run();
    let result = (lab.kept("k"), lab.losses());
    lab.end();
    result
}

/// The text of the errors in a configuration.
pub(crate) fn errors(config: &str) -> String {
    Bench::new(config, &Setup::default()).err().unwrap_or_default()
}

fn parse_kept(line: &str) -> Frame {
    let words: Vec<&str> = line.split(' ').collect();
    let offset = |w: &str| w.parse::<i64>().ok().and_then(|o| usize::try_from(o).ok());
    Frame {
        dst: words[0].parse().unwrap(),
        paint: words[1].parse().unwrap(),
        packet_type: words[2].parse().unwrap(),
        mac: offset(words[3]),
        network: offset(words[4]),
        bytes: bytes(words[5].trim_end_matches('.')),
    }
}

/// `send TIME DST PAINT TYPE NETWORK HEX.`
struct Feed {
    queue: Mutex<VecDeque<(Nanos, Frame)>>,
}

struct LocalFeed(Arc<Feed>);

impl Class for Feed {
    const SPEC: Spec = Spec { state: State::Home, annotations: true, ..Spec::new("Feed", "0/1", "h/h") };
    type Local = LocalFeed;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Feed, ConfigErrors> {
        args.finish()?;
        Ok(Feed { queue: Mutex::default() })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalFeed {
        LocalFeed(self.clone())
    }

    fn handlers(h: &mut Handlers<Feed>) {
        h.write("send", |feed, text, cx| {
            let words: Vec<&str> = text.split(' ').collect();
            let frame = Frame {
                dst: words[1].parse().unwrap(),
                paint: words[2].parse().unwrap(),
                packet_type: words[3].parse().unwrap(),
                network: words[4].parse().ok(),
                mac: None,
                bytes: bytes(words[5].trim_end_matches('.')),
            };
            let mut queue = feed.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.push_back((words[0].parse().unwrap(), frame));
            cx.wake();
            Ok(())
        });
    }
}

impl Element for LocalFeed {
    fn run(&mut self, cx: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        let mut queue = self.0.queue.lock().unwrap();
        let mut batch = Batch::empty();
        while let Some((time, _)) = queue.front()
            && *time <= cx.now
            && batch.room() > 0
            && let Some((_, frame)) = queue.pop_front()
        {
            let mut packet = cx.pool.packet(&frame.bytes).unwrap();
            packet.clear_annos();
            packet.set_dst_ip(frame.dst);
            packet.set_anno_u8(anno::PAINT, frame.paint);
            packet.set_packet_type(PacketType::from_u8(frame.packet_type));
            frame.network.iter().for_each(|&o| packet.set_network_offset(o));
            batch.push(packet);
        }
        match queue.front() {
            Some((time, _)) if *time <= cx.now => out.wake(),
            Some((time, _)) => out.wake_at(*time),
            None => {}
        }
        out.made(batch.len());
        out.emit(0, batch);
        true
    }
}

/// Keeps the bytes and notes of packets.
struct Keep {
    frames: Mutex<String>,
}

struct LocalKeep(Arc<Keep>);

impl Class for Keep {
    const SPEC: Spec = Spec { state: State::Home, annotations: true, ..Spec::new("Keep", "1/0", "h/h") };
    type Local = LocalKeep;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Keep, ConfigErrors> {
        args.finish()?;
        Ok(Keep { frames: Mutex::default() })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalKeep {
        LocalKeep(self.clone())
    }

    fn handlers(h: &mut Handlers<Keep>) {
        h.read("frames", |k| std::mem::take(&mut *k.frames.lock().unwrap()));
    }
}

impl Element for LocalKeep {
    fn push(&mut self, _: usize, batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let mut text = self.0.frames.lock().unwrap();
        for p in batch.iter() {
            let offset = |o: Option<usize>| o.map_or(-1, |o| o as i64);
            let _ = writeln!(
                text,
                "{} {} {} {} {} {}.",
                p.dst_ip(),
                p.anno_u8(anno::PAINT),
                p.packet_type() as u8,
                offset(p.mac_offset()),
                offset(p.network_offset()),
                hex(p.data())
            );
        }
        out.consume(batch);
    }
}

//! What each fuzz target does with any bytes. Here and not in the targets, so that a plain `cargo test` can run them too.

use cluster::header::{Header, SEQUENCES};
use cluster::message::Message;
use cluster::news;
use cluster::resequence::Resequencer;
use cluster::topology::Topology;
use control::fpm::Session;
use control::replicate::{Frames, Replica};
use control::{Model, Tables};
use elements::harness::{Bench, Setup};
use fib::{Interfaces, Radix, RouteChange, RouteFile, Vrf};
use io::memory::MemoryDevices;
use io::pcap::Reader;
use io::{Devices, Limits};
use lang::args::{Args, FromArg, Ipv4Prefix, Ipv6Prefix};
use lang::{SourceMap, Span, Text, expand_within, parse, render};
use packet::Pool;
use packet::wire::{arp, checksum, ethernet, ipv4, tcp, udp};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

/// Paths of a stream; frames name one more.
const PATHS: usize = 3;
/// Numbers that a stream keeps.
const WINDOW: usize = 64;

/// Header formats: every view over any bytes, every field of it, and what rewrites headers in place.
pub fn wire(bytes: &[u8]) {
    if let Some(frame) = ethernet::Header::parse(bytes) {
        assert_eq!(frame.bytes(), bytes[..ethernet::HEADER_LEN]);
    }
    let _ = (arp::Arp::parse(bytes), tcp::Header::parse(bytes));
    if let Some(datagram) = udp::Header::parse(bytes) {
        assert_eq!(datagram.bytes(), bytes[..udp::HEADER_LEN]);
    }
    if let Some(ip) = ipv4::Ipv4::new(bytes) {
        let _ = (ip.fragment_offset(), ip.is_first_fragment(), ip.checksum_is_valid());
        // Options lie within the header, one behind the other.
        let mut end = ipv4::MIN_HEADER_LEN;
        for item in ipv4::options(&ip) {
            if let ipv4::OptionItem::Option(option) = item {
                assert!(option.offset >= end);
                end = option.offset + option.bytes.len();
                assert!(end <= ip.header_len());
            }
        }
    }
    if let Some(ip) = ipv4::Ipv4::check(bytes) {
        assert!(ip.header_len() + ip.payload().len() == usize::from(ip.total_len()));
        let mut copy = bytes.to_vec();
        assert!(ipv4::set_checksum(&mut copy));
        assert!(ipv4::Ipv4::new(&copy).is_some_and(|ip| ip.checksum_is_valid()));
        if copy.first_chunk_mut().is_some_and(ipv4::decrement_ttl) {
            assert!(ipv4::Ipv4::new(&copy).is_some_and(|ip| ip.checksum_is_valid()));
        }
    }
    assert_eq!(checksum::is_valid(bytes), checksum::checksum(bytes) == 0);
}

/// Capture files: any bytes as a file, read to the end or to the first error.
pub fn pcap(bytes: &[u8]) {
    let Ok(mut file) = tempfile::NamedTempFile::new() else { return };
    if file.write_all(bytes).is_err() {
        return;
    }
    let Ok(mut reader) = Reader::open(file.path()) else { return };
    while let Ok(Some(record)) = reader.next_record() {
        assert!(record.data.len() <= bytes.len(), "a record is longer than its file");
    }
}

/// The language: any text is parsed, printed, expanded within limits; what is wrong with it is told.
pub fn language(bytes: &[u8]) {
    let limits = lang::Limits { elements: 500, connections: 2_000, depth: 20, config_bytes: 20_000 };
    let mut sources = SourceMap::new();
    let source = sources.add("fuzz", bytes);
    let (ast, mut diagnostics) = parse(&mut sources, source);
    let printed = lang::print::format(&ast);
    if !lang::has_errors(&diagnostics) {
        // The canonical form is sound, and is its own canonical form.
        let again = sources.add("printed", &printed);
        let (again, errors) = parse(&mut sources, again);
        assert!(!lang::has_errors(&errors), "{printed}");
        assert_eq!(lang::print::format(&again), printed);
        match expand_within(&ast, &elements::harness::Names, &[("A".into(), "1".into())], limits) {
            Ok(flat) => {
                lang::print::flat_text(&flat);
            }
            Err(more) => diagnostics.extend(more),
        }
    }
    render(&diagnostics, &sources, true);
}

/// Arguments: any text as a configuration string, split, and read as every type there is.
pub fn arguments(bytes: &[u8]) {
    let text = Text::verbatim(String::from_utf8_lossy(bytes), Span::default());
    for argument in lang::args::split(&text) {
        read::<bool>(&argument);
        read::<u8>(&argument);
        read::<i64>(&argument);
        read::<f64>(&argument);
        read::<Duration>(&argument);
        read::<lang::args::Bandwidth>(&argument);
        read::<String>(&argument);
        read::<Vec<u8>>(&argument);
        read::<[u8; 6]>(&argument);
        read::<Ipv4Addr>(&argument);
        read::<Ipv6Addr>(&argument);
        read::<IpAddr>(&argument);
        read::<Ipv4Prefix>(&argument);
        read::<Ipv6Prefix>(&argument);
    }
    let mut args = Args::new(&text);
    let _: (u32, String, bool) =
        (args.required("A"), args.optional("B", String::new()), args.keyword("C", true));
    let left = args.remaining();
    let rest: Vec<Ipv4Prefix> = args.rest("D");
    assert!(rest.len() <= left);
    if let Err(diagnostics) = args.finish() {
        assert!(!diagnostics.is_empty());
    }
}

fn read<T: FromArg>(text: &Text) {
    if let Err(error) = T::from_arg(text) {
        assert!(!error.message.is_empty());
    }
}

/// Route files: any bytes, with and without a default port. What was read is written and read again.
pub fn routes(bytes: &[u8]) {
    for port in [None, Some(7)] {
        match RouteFile::parse(bytes, port) {
            Ok(file) => {
                let mut text = Vec::new();
                assert!(file.write(&mut text).is_ok());
                assert_eq!(RouteFile::parse(&text, None).as_ref(), Ok(&file));
            }
            Err(errors) => {
                assert!(!errors.first.is_empty() && errors.first.len() <= errors.total);
                assert!(!errors.to_string().is_empty());
            }
        }
    }
    for line in String::from_utf8_lossy(bytes).lines() {
        let _ = (line.parse::<RouteChange<u32>>(), line.parse::<RouteChange<u128>>());
    }
}

/// MRT dumps: any bytes. The routes that were read are written and read again.
pub fn mrt(bytes: &[u8]) {
    let Ok(dump) = fib::read_mrt(bytes, 7) else { return };
    let mut written = Vec::new();
    assert!(fib::write_mrt(&mut written, &dump.routes, 0).is_ok());
    let again = fib::read_mrt(&written[..], 7).map(|dump| dump.routes);
    assert_eq!(again.ok(), Some(dump.routes));
}

/// What forwards and answers in a router, with a way back into the lookup. Broken packets end at named losses.
const GRAPH: &str = "
    from :: FromDPDKDevice(eth0);
    to :: ToDPDKDevice(eth0);
    rt :: StaticIPLookup(10.0.0.0/8 0, 0.0.0.0/1 1, 128.0.0.0/1 2);
    kind :: Classifier(12/0806 20/0001, 12/0800, -);
    from -> kind;
    kind[0] -> ARPResponder(10.0.0.1 2:0:0:0:0:1) -> to;
    kind[1] -> Strip(14) -> CheckIPHeader -> rt;
    kind[2] -> Discard;
    rt[0] -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> to;
    rt[1] -> GetIPAddress(16) -> Queue(8) -> Unqueue -> Unstrip(14) -> to;
    rt[2] -> Tee -> Discard;
";

/// Packets through a graph: the bytes are lengths and frames. All packets are accounted for, and no buffer is missing.
pub fn graph(bytes: &[u8]) {
    let limits = Limits { rx_queues: 1, tx_queues: 1 };
    let devices = Arc::new(MemoryDevices::new(Pool::heap(256, 2048), &["eth0"], limits));
    let setup = Setup { workers: 1, burst: 4, devices: devices.clone(), ..Setup::default() };
    let mut bench = Bench::new(GRAPH, &setup).unwrap_or_else(|e| panic!("{e}"));
    let port = devices.memory("eth0").unwrap_or_else(|| panic!("a port that was named"));
    let mut rest = bytes;
    while let Some((&length, frames)) = rest.split_first() {
        let (frame, after) = frames.split_at(frames.len().min(usize::from(length)));
        port.inject(&devices.pool(), 0, frame);
        rest = after;
    }
    port.finish();
    assert_eq!(bench.run(), Ok(()));
    assert_eq!(bench.end(), Ok(()));
    assert_eq!(packet::unaccounted(), 0);
}

/// FRR's connection: any bytes as a stream of frames with netlink messages, cut anywhere: the model that comes of it does
/// not depend on the cuts.
pub fn fpm(bytes: &[u8]) {
    let models = [1, 5, bytes.len().max(1)].map(|piece| {
        let mut model = Model::default();
        let mut session = Session::new(&mut model, Duration::ZERO);
        for bytes in bytes.chunks(piece) {
            if session.feed(bytes, &mut model, Duration::ZERO).is_err() {
                break;
            }
        }
        (model, session.messages)
    });
    assert_eq!(models[0], models[1]);
    assert_eq!(models[0], models[2]);
}

/// The connection to the control node: any bytes as what it says, cut anywhere. The tables that come of it do not depend on
/// the cuts.
pub fn replicate(bytes: &[u8]) {
    let all = [1, 7, bytes.len().max(1)].map(|piece| {
        let interfaces = Arc::new(Interfaces::new(1));
        let tables = Tables::new(Radix::new(), Radix::new()).with_interfaces(interfaces.clone());
        let (mut replica, mut frames) = (Replica::new(tables.clone()), Frames::default());
        replica.hello("b");
        for bytes in bytes.chunks(piece) {
            if frames.feed(bytes, |kind, body| replica.take(kind, body).map(drop)).is_err() {
                break;
            }
        }
        let near = [&tables.adjacencies4, &tables.adjacencies6].map(|all| all.snapshot(|| ()));
        let scope = interfaces.snapshot(|vrfs| {
            let routes = |vrf: &Arc<Vrf>| (format!("{vrf:?}"), vrf.routes4.routes(), vrf.routes6.routes());
            vrfs.iter().map(routes).collect::<Vec<_>>()
        });
        let scope = format!("{scope:?}");
        (tables.routes4.routes(), tables.routes6.routes(), near, scope, replica.position(), replica.counts)
    });
    assert_eq!(all[0], all[1]);
    assert_eq!(all[0], all[2]);
}

/// What comes over an internal link of a cluster: any bytes as a header, a message and news, and as frames of a stream that is put
/// in order again. What is delivered is in order and has come before, and the state is one window.
pub fn cluster(bytes: &[u8]) {
    if let Ok(header) = Header::decode(bytes) {
        let encoded = header.encode();
        assert_eq!(encoded.as_ref().map(|bytes| Header::decode(bytes)), Ok(Ok(header)));
        assert_eq!(
            encoded.as_ref().map(|encoded| Some(&encoded[..]) == bytes.get(..encoded.len())),
            Ok(true)
        );
    }
    if let Ok(message) = Message::decode(bytes) {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
    for (radix, columns) in [(2, 2), (45, 2)] {
        if let Ok(fly) = Topology::fly(radix, columns)
            && let Ok(mut records) = news::read(&fly, bytes)
            && !records.is_empty()
        {
            let mut written = Vec::new();
            news::write(&fly, &records, &mut written);
            assert_eq!(news::read(&fly, &written).as_ref(), Ok(&records));
            // Of the octets that say who drains some bits mean nothing.
            records.iter_mut().for_each(|record| record.drains = false);
            written.clear();
            news::write(&fly, &records, &mut written);
            assert_eq!(bytes.get(..written.len()), Some(&written[..]));
        }
    }
    let (mut stream, mut out, mut came) = (Resequencer::new(PATHS, WINDOW, 1000, 0), Vec::new(), 0);
    for (now, &[what, path, high, low]) in (0u64..).step_by(100).zip(bytes.as_chunks::<4>().0) {
        let (path, sequence) = (usize::from(path % 4), u32::from(high) << 16 | u32::from(low));
        let before = stream.counts().moved;
        match what % 8 {
            0 => stream.path_down(path, &mut out),
            1 => stream.path_up(path),
            2 => stream.poll(now, &mut out),
            3 => {
                let _ = stream.marker(path, what >> 7, sequence, now, &mut out);
            }
            _ => {
                came += 1;
                let _ = stream.accept(path, what >> 7, sequence, sequence, now, &mut out);
            }
        }
        assert!(stream.held() <= WINDOW);
        if stream.counts().moved != before {
            out.clear();
        }
        let ahead = |pair: &[u32]| pair[1].wrapping_sub(pair[0]) % SEQUENCES;
        assert!(out.windows(2).all(|pair| (1..SEQUENCES / 2).contains(&ahead(pair))), "{out:?}");
    }
    let counts = stream.counts();
    assert!(counts.delivered + stream.held() as u64 <= came, "{counts:?}");
}

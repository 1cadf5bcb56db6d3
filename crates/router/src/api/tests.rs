//! Over real sockets, with real graphs.

use super::client::Client;
use super::*;
use ::io::Devices;
use ::io::memory::MemoryDevices;
use elements::harness::{Bench, Setup};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

const CONFIG: &str =
    "InfiniteSource(LIMIT 40) -> in :: { input -> c :: Counter -> output } -> q :: Queue(40) -> Idle;
    InfiniteSource(LIMIT 60) -> sink :: Idle;";

struct Rig {
    server: Server,
    router: Arc<Router>,
    client: Client,
    _dir: tempfile::TempDir,
}

fn rig(config: &str) -> Rig {
    let mut bench = Bench::new(config, &Setup::default()).unwrap();
    bench.run().unwrap();
    let Bench { router, .. } = bench;
    let router = Arc::new(router);
    let dir = tempfile::tempdir().unwrap();
    let http = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let server = Server::start_in(Some(dir.path()), router.clone(), router.devices().ports(), http).unwrap();
    let client = Client::new(server.socket().unwrap());
    Rig { server, router, client, _dir: dir }
}

fn find<'a>(rows: &'a [Value], element: &str) -> &'a Value {
    rows.iter().find(|r| r["element"] == element).unwrap()
}

fn without(mut rows: Vec<Value>, keys: &[&str]) -> Vec<Value> {
    for row in rows.iter_mut().filter_map(Value::as_object_mut) {
        keys.iter().for_each(|k| assert!(row.remove(*k).is_some(), "{k}"));
    }
    rows
}

#[test]
fn handlers_are_read_and_written() {
    let rig = rig(CONFIG);
    assert_eq!(rig.client.read("in/c", "count").as_deref(), Ok("40"));
    assert_eq!(rig.client.read("q", "length").as_deref(), Ok("40"));
    assert_eq!(rig.client.read("x", "count"), Err("no element named 'x'".to_owned()));
    assert_eq!(rig.client.read("in/c", "x"), Err("no 'in/c.x' handler".to_owned()));
    assert_eq!(rig.client.read("in/c", "reset"), Err("'in/c.reset' is not readable".to_owned()));
    assert_eq!(put(&rig, "/handlers/in/c/reset", "").0, 204);
    assert_eq!(rig.router.read("in/c", "count", "").as_deref(), Ok("0"));
    assert_eq!(put(&rig, "/handlers/in/c/count", "5"), (405, "'in/c.count' is not writable\n".to_owned()));
    assert_eq!(put(&rig, "/handlers/c", "5"), (404, "a path is /handlers/ELEMENT/NAME\n".to_owned()));
    let rows = rig.client.table("/handlers").unwrap();
    assert_eq!(rows.len(), 6);
    let counter = json!({ "name": "count", "read": true, "write": false });
    assert_eq!(find(&rows, "in/c")["handlers"][0], counter);
}

#[test]
fn tables_tell_what_happened() {
    let rig = rig(CONFIG);
    let drops = rig.client.table("/api/drops").unwrap();
    let want =
        json!({ "element": "sink", "class": "Idle", "reason": "idle", "loss": "sink.idle", "packets": 60 });
    assert_eq!(drops, [want]);
    let elements = rig.client.table("/api/elements").unwrap();
    assert_eq!(
        *find(&elements, "q"),
        json!({ "element": "q", "class": "Queue", "config": "40", "inputs": ["push"], "outputs": ["pull"],
                "worker": 0, "packets": 40, "lost_packets": 0 })
    );
    let measured = [
        "cycles_per_packet",
        "cycles_per_call",
        "cycles",
        "share_of_cycles",
        "empty_polls",
        "empty_poll_cycles",
        "share_of_cycles_in_empty_polls",
    ];
    let runtime = without(rig.client.table("/api/runtime").unwrap(), &measured);
    assert_eq!(
        *find(&runtime, "in/c"),
        json!({ "element": "in/c", "class": "Counter", "calls": 2, "packets": 40, "packets_per_call": 20.0 })
    );
    let refused = rig.client.get("/api/x");
    assert_eq!(
        refused,
        Err("no such table; there are: interfaces, elements, runtime, drops, control".to_owned())
    );
}

#[test]
fn interfaces_have_their_counters() {
    let limits = ::io::Limits { rx_queues: 1, tx_queues: 1 };
    let devices = MemoryDevices::new(packet::Pool::heap(16, 2048), &["eth1"], limits);
    let bench = Bench::new("Idle -> Discard;", &Setup::default()).unwrap();
    devices.claim("eth1", ::io::Claim { rx_queues: 1, mtu: 1400, ..Default::default() }).unwrap();
    let ports = devices.ports();
    let server =
        Server::start_in(None, Arc::new(bench.router), ports, Some(([127, 0, 0, 1], 0).into())).unwrap();
    let (status, body) =
        request(&mut TcpStream::connect(server.http().unwrap()).unwrap(), "GET", "/api/interfaces", "");
    assert_eq!(status, 200);
    let table: Value = serde_json::from_str(&body).unwrap();
    let row = &table["rows"][0];
    assert_eq!(
        (&row["name"], &row["rx_queues"], &row["mtu_bytes"]),
        (&json!("eth1"), &json!(1), &json!(1400))
    );
    assert_eq!((&row["tx_packets"], &row["link_up"]), (&json!(0), &json!(true)));
    assert_eq!(server.socket(), None);
}

#[test]
fn metrics_are_what_prometheus_reads() {
    let rig = rig(CONFIG);
    let text = rig.client.get("/metrics").unwrap();
    for line in [
        "# TYPE routebricks_packets_made_total counter",
        "routebricks_packets_made_total 100",
        "routebricks_packets_lost_total 60",
        "routebricks_element_packets_total{element=\"in/c\",class=\"Counter\"} 40",
        "routebricks_element_lost_packets_total{element=\"sink\",class=\"Idle\",reason=\"idle\"} 60",
        "routebricks_element_lost_packets_total{element=\"in/c\",class=\"Counter\",reason=\"loop\"} 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(series.starts_with("routebricks_") && value.parse::<u64>().is_ok(), "{line}");
    }
}

#[test]
fn what_comes_in_is_bounded() {
    let rig = rig(CONFIG);
    assert_eq!(put(&rig, "/handlers/q/reset", &"x".repeat(routes::MAX_BODY + 1)).0, 413);
    assert_eq!(
        raw(&rig, b"PUT /handlers/q/reset HTTP/1.0\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n\xff").0,
        400
    );
    assert_eq!(raw(&rig, b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n").0, 403);
    assert_eq!(raw(&rig, b"GET / HTTP/1.1\r\nHost: localhost:1\r\nConnection: close\r\n\r\n").0, 200);
    assert_eq!(raw(&rig, b"POST /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").0, 405);
    assert_eq!(raw(&rig, b"GET /x HTTP/1.0\r\nHost: localhost\r\n\r\n").0, 404);
    assert_eq!(raw(&rig, b"\x00\x01\x02\r\n\r\n").0, 400);
}

#[test]
fn nothing_is_left_behind() {
    let Rig { server, router, client, _dir } = rig(CONFIG);
    // A connection that stays open keeps nothing alive.
    let _open = TcpStream::connect(server.http().unwrap()).unwrap();
    assert!(client.socket().exists());
    let http = server.http().unwrap();
    drop(server);
    assert_eq!(Arc::strong_count(&router), 1);
    assert!(!client.socket().exists());
    assert!(TcpStream::connect(http).is_err());
}

#[test]
fn an_address_in_use_is_explained() {
    let rig = rig(CONFIG);
    let http = rig.server.http();
    let error = Server::start_in(None, rig.router, Vec::new(), http).unwrap_err();
    let want = format!(
        "cannot serve HTTP on {}: Address already in use; another program serves there: choose another port",
        http.unwrap()
    );
    assert_eq!(error.to_string(), want);
}

fn put(rig: &Rig, path: &str, body: &str) -> (u16, String) {
    request(&mut TcpStream::connect(rig.server.http().unwrap()).unwrap(), "PUT", path, body)
}

fn request(stream: &mut TcpStream, method: &str, path: &str, body: &str) -> (u16, String) {
    let head =
        format!("{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n", body.len());
    // The server may refuse a body before it has read it.
    let _ = stream.write_all((head + body).as_bytes());
    answer(stream)
}

fn raw(rig: &Rig, bytes: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(rig.server.http().unwrap()).unwrap();
    stream.write_all(bytes).unwrap();
    answer(&mut stream)
}

fn answer(stream: &mut TcpStream) -> (u16, String) {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

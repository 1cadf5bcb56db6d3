//! Four nodes whose ports are joined by wires in memory, and the packets that cross them.

use super::ports::{Ports, Wire, on};
use elements::harness::flatten;
use graph::{Clock, Engine, Options, Router, SIMULATED_START, Tables};
use lang::render;
use packet::wire::ipv4;
use packet::{Packet, Pool};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::hint::black_box;
use std::sync::Arc;

pub const NODES: usize = 4;
/// Packets at a time.
pub const BURST: usize = 64;
/// Flows, one after the other.
const FLOWS: u32 = 1 << 16;
/// Bytes of a frame, without its check sequence.
const FRAME: usize = 60;
/// Where a frame carries the time at which it came in, and behind it by how many relays it went.
const STAMP: usize = 42;
const RELAYS: usize = STAMP + 8;
/// How far time moves from one batch to the next: 13 million packets a second.
const INTERVAL: u64 = 5_000;
/// Before anything is counted links come up, in so many steps of so many nanoseconds.
const LINKS_UP: (u64, u64) = (1_000, 50_000);
/// Batches behind that: tables are filled, with all flows twice.
const FILL: u64 = 2 * FLOWS as u64 / BURST as u64;

/// Where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrix {
    /// To all other nodes alike, so that everything goes directly.
    Uniform,
    /// All to one node, so that half of it goes by relays.
    One,
}

/// What the nodes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The first node routes and rewrites, over as many outputs; the second rewrites and forwards.
    Baseline,
    Spray,
    Flowlet,
    Strict,
}

impl Matrix {
    pub const ALL: [Matrix; 2] = [Matrix::Uniform, Matrix::One];

    pub fn name(self) -> &'static str {
        match self {
            Matrix::Uniform => "uniform",
            Matrix::One => "one",
        }
    }
}

impl Mode {
    pub const ALL: [Mode; 4] = [Mode::Baseline, Mode::Spray, Mode::Flowlet, Mode::Strict];

    pub fn name(self) -> &'static str {
        match self {
            Mode::Baseline => "baseline",
            Mode::Spray => "spray",
            Mode::Flowlet => "flowlet",
            Mode::Strict => "strict",
        }
    }
}

/// Whether packets go by relays.
pub fn has_relays(matrix: Matrix, mode: Mode) -> bool {
    matrix == Matrix::One && mode != Mode::Baseline
}

/// What a node is to a packet.
pub const ROLES: [&str; 3] = ["input", "relay", "output"];

struct Node {
    engine: Engine,
    router: Router,
    rx: Vec<Wire>,
    line: Wire,
}

/// Nodes, wires, and the packets that come in by the line of node 0.
pub struct Net {
    matrix: Matrix,
    mode: Mode,
    pool: Pool,
    clock: Arc<Clock>,
    nodes: Vec<Node>,
    line: Wire,
    flow: u32,
    frame: [u8; FRAME],
}

/// Lets a node do all that it can do now; one function for each role, so that a profile tells them apart.
macro_rules! role {
    ($name:ident, $number:literal) => {
        #[inline(never)]
        fn $name(engine: &mut Engine) {
            black_box($number);
            engine.round();
        }
    };
}
role!(counted_at_input, 0);
role!(counted_at_relay, 1);
role!(counted_at_output, 2);
role!(warming_up, 3);

impl Net {
    pub fn new(matrix: Matrix, mode: Mode) -> Result<Net, String> {
        let pool = Pool::heap(1 << 12, 2048);
        let clock = Arc::new(Clock::simulated(SIMULATED_START));
        let wires: Vec<Vec<Wire>> =
            (0..NODES).map(|_| (0..=NODES).map(|_| Wire::default()).collect()).collect();
        let line = Wire::default();
        let mut nodes = Vec::new();
        for (me, sends) in wires.iter().enumerate() {
            let mut ports = BTreeMap::new();
            let rx = if me == 0 { line.clone() } else { Wire::default() };
            ports.insert("line".to_owned(), (rx, sends[NODES].clone()));
            for peer in (0..NODES).filter(|&peer| peer != me) {
                ports.insert(format!("to{peer}"), (wires[peer][me].clone(), sends[peer].clone()));
            }
            let rx = ports.values().map(|(rx, _)| rx.clone()).collect();
            let (flat, sources) = flatten(&config(matrix, mode, me))?;
            let options = Options {
                workers: 1,
                burst: BURST,
                clock: clock.clone(),
                devices: Arc::new(Ports { pool: pool.clone(), wires: ports }),
                tables: Tables::new(),
            };
            let router = Router::new(flat, &elements::classes(), &options);
            let router = router.map_err(|d| render(&d, &sources, false))?;
            let mut engine = router.engines().pop().ok_or("no engine")?;
            engine.start();
            nodes.push(Node { engine, router, rx, line: sends[NODES].clone() });
        }
        let mut net = Net { matrix, mode, pool, clock, nodes, line, flow: 0, frame: frame() };
        let (steps, interval) = LINKS_UP;
        for _ in 0..steps {
            net.clock.advance(net.clock.now() + interval);
            net.cross(&mut |_, engine| warming_up(engine), &mut |line| line.drain(..).for_each(Packet::free));
        }
        (0..FILL).for_each(|_| net.step(&mut |_, engine| warming_up(engine)));
        Ok(net)
    }

    /// Sends a batch from one end to the other; `run` is to let the node of a role have a round.
    fn step(&mut self, run: &mut dyn FnMut(usize, &mut Engine)) {
        self.clock.advance(self.clock.now() + INTERVAL);
        self.fill(BURST, 0);
        self.cross(run, &mut |line| line.drain(..).for_each(Packet::free));
    }

    /// Lets what has come in cross all nodes; `leave` is to take what goes out by a line.
    fn cross(
        &mut self,
        run: &mut dyn FnMut(usize, &mut Engine),
        leave: &mut dyn FnMut(&mut VecDeque<Packet>),
    ) {
        for me in [0, 2, 3, 1] {
            let role = match (me, self.matrix, self.mode) {
                (0, ..) => 0,
                (2 | 3, matrix, mode) if has_relays(matrix, mode) => 1,
                _ => 2,
            };
            let Node { engine, rx, line, .. } = &mut self.nodes[me];
            if role == 2 {
                // What its second and third link bring has come by a relay.
                for wire in rx.iter().skip(2) {
                    on(wire).iter_mut().for_each(|packet| packet.data_mut()[RELAYS] = 1);
                }
            }
            loop {
                run(role, engine);
                if rx.iter().all(|wire| on(wire).is_empty()) {
                    break;
                }
            }
            leave(&mut on(line));
        }
    }

    /// Sends batches of so many packets, and gives how many cycles each packet took from one end to the other, of those that went
    /// directly and of those that went by a relay.
    pub fn latencies(&mut self, burst: usize, batches: u64) -> [Vec<f64>; 2] {
        let mut found = [Vec::new(), Vec::new()];
        for _ in 0..batches {
            self.clock.advance(self.clock.now() + INTERVAL);
            self.fill(burst, epoch::tsc());
            self.cross(&mut |_, engine| warming_up(engine), &mut |line| {
                let now = epoch::tsc();
                for packet in line.drain(..) {
                    let stamp = packet.data()[STAMP..].first_chunk().map_or(now, |s| u64::from_ne_bytes(*s));
                    let relays = usize::from(packet.data()[RELAYS]);
                    found[relays].push(now.saturating_sub(stamp) as f64);
                    packet.free();
                }
            });
        }
        found
    }

    /// Sends batches, and gives the cycles a packet that each role took.
    pub fn time(&mut self, batches: u64) -> [f64; 3] {
        let mut cycles = [0; 3];
        for _ in 0..batches {
            self.step(&mut |role, engine| {
                let began = epoch::tsc();
                warming_up(engine);
                cycles[role] += epoch::tsc() - began;
            });
        }
        cycles.map(|cycles| cycles as f64 / (batches * BURST as u64) as f64)
    }

    /// Sends batches through functions that tell roles apart.
    pub fn count(&mut self, batches: u64) {
        for _ in 0..batches {
            self.step(&mut |role, engine| match role {
                0 => counted_at_input(engine),
                1 => counted_at_relay(engine),
                _ => counted_at_output(engine),
            });
        }
    }

    /// Losses that are not 0, by node.
    pub fn losses(&self) -> Vec<String> {
        let rows = |(number, node): (usize, &Node)| {
            let rows = node.router.loss_rows().into_iter().filter(|row| row.packets > 0);
            rows.map(|row| format!("node {number}: {}.{} = {}", row.element, row.reason, row.packets))
                .collect::<Vec<_>>()
        };
        self.nodes.iter().enumerate().flat_map(rows).collect()
    }

    /// Puts the next packets on the line of node 0, with this time.
    fn fill(&mut self, burst: usize, now: u64) {
        let mut line = on(&self.line);
        self.frame[STAMP..RELAYS].copy_from_slice(&now.to_ne_bytes());
        for _ in 0..burst {
            self.flow = (self.flow + 1) % FLOWS;
            // Flows in no order that anything could be learned from.
            let mixed = self.flow.wrapping_mul(0x9E37_79B1);
            let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x85EB_CA77) ^ mixed >> 7;
            let to = match self.matrix {
                Matrix::One => 1,
                Matrix::Uniform => 1 + (mixed >> 24) % (NODES as u32 - 1),
            };
            let ip = &mut self.frame[14..];
            ip[16..20].copy_from_slice(&(10 << 24 | to << 16 | mixed & 0xFFFF).to_be_bytes());
            ip[20..22].copy_from_slice(&(self.flow as u16).to_be_bytes());
            ipv4::set_checksum(&mut ip[..20]);
            line.extend(self.pool.packet(&self.frame));
        }
    }
}

fn frame() -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 9, 9, 8, 0]);
    let ip = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 9, 9];
    frame[14..14 + ip.len()].copy_from_slice(&ip);
    frame[39] = 53;
    frame[41] = 26;
    frame
}

/// The configuration of a node.
fn config(matrix: Matrix, mode: Mode, me: usize) -> String {
    let others: Vec<usize> = (0..NODES).filter(|&node| node != me).collect();
    let mut text = String::new();
    let is_routed = mode != Mode::Baseline || me == 0;
    if is_routed {
        // As many outputs with as many packets each as the cluster's links have.
        let routes = match (mode, matrix) {
            (Mode::Baseline, Matrix::One) => {
                "10.1.0.0/17 192.168.1.1 1, 10.1.128.0/18 192.168.2.1 2, 10.1.192.0/18 192.168.3.1 3"
                    .to_owned()
            }
            _ => {
                (1..NODES).map(|n| format!("10.{n}.0.0/16 192.168.{n}.1 {n}")).collect::<Vec<_>>().join(", ")
            }
        };
        let next: Vec<String> =
            (1..NODES).map(|n| format!("{n} 192.168.{n}.1 2:0:0:0:{n}:1 2:0:0:0:{n}:2")).collect();
        let one = mode != Mode::Baseline;
        let _ = writeln!(
            text,
            "FromDPDKDevice(line) -> CheckIPHeader(OFFSET 14) -> rt :: DirectIPLookup({routes}, ONE_OUTPUT true)
               -> next :: AdjacencyRewrite(rt, {}, ADJACENCIES main, ONE_OUTPUT {one});",
            next.join(", ")
        );
    }
    if mode != Mode::Baseline {
        let policy = if matrix == Matrix::One { "vlb" } else { "adaptive" };
        let _ = writeln!(
            text,
            "next -> cluster :: ClusterSwitch(NODE {me}, NODES {NODES}, LINE_RATE 1000000Tbps,
               LINK_RATE 1000000Tbps, POLICY {policy}, ORDER {});
             cluster[0] -> ToDPDKDevice(line);",
            mode.name()
        );
        for (place, peer) in (1..).zip(others) {
            let _ = writeln!(
                text,
                "FromDPDKDevice(to{peer}) -> [{place}] cluster[{place}] -> ToDPDKDevice(to{peer});"
            );
        }
    } else if is_routed {
        text.push_str("next[0] -> ToDPDKDevice(line);\n");
        for peer in others {
            let _ = writeln!(
                text,
                "next[{peer}] -> ToDPDKDevice(to{peer}); FromDPDKDevice(to{peer}) -> Discard;"
            );
        }
    } else {
        text.push_str("rewrite :: EtherRewrite(2:0:0:0:1:1, 2:0:0:0:1:2) -> ToDPDKDevice(line);\n");
        text.push_str("FromDPDKDevice(line) -> rewrite;\n");
        for peer in others {
            let _ = writeln!(text, "FromDPDKDevice(to{peer}) -> rewrite;");
        }
    }
    text
}

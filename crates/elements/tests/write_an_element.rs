//! The element of the manual's chapter "Writing an element", compiled and run.

// ANCHOR: imports
use elements::classes;
use elements::harness::{Bench, Setup};
use graph::{
    Agnostic, AnyClass, Args, Class, ClassTable, ConfigErrors, Configure, Cx, Handlers, LocalCx, Loss, Out,
    Simple, Spec, of, value,
};
use packet::wire::ipv4::Ipv4;
use packet::{Batch, Packet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
// ANCHOR_END: imports

// ANCHOR: class
const TTL_LOW: Loss = Loss(0);
const NO_HEADER: Loss = Loss(1);

/// What all workers share.
struct CheckTTL {
    min: AtomicU8,
}

/// What one worker owns.
struct LocalCheckTTL {
    shared: Arc<CheckTTL>,
}

impl Class for CheckTTL {
    const SPEC: Spec = Spec { losses: &["ttl_low", "no_header"], ..Spec::new("CheckTTL", "1/1-2", "a/ah") };
    type Local = Agnostic<LocalCheckTTL>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<CheckTTL, ConfigErrors> {
        let min = args.optional("MIN", 255);
        args.finish()?;
        Ok(CheckTTL { min: AtomicU8::new(min) })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalCheckTTL { shared: self.clone() })
    }

    fn handlers(h: &mut Handlers<CheckTTL>) {
        h.read("min", |c| c.min.load(Ordering::Relaxed).to_string());
        h.write("min", |c, text, _| {
            c.min.store(value(text)?, Ordering::Relaxed);
            Ok(())
        });
    }
}
// ANCHOR_END: class

// ANCHOR: local
impl Simple for LocalCheckTTL {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let min = self.shared.min.load(Ordering::Relaxed);
        batch.retain(
            |packet| ttl(packet).is_some_and(|ttl| ttl >= min),
            |packet| match ttl(&packet) {
                Some(_) => out.reject(1, packet, TTL_LOW),
                None => out.lose(packet, NO_HEADER),
            },
        );
    }
}

fn ttl(packet: &Packet) -> Option<u8> {
    Some(Ipv4::new(packet.network()?)?.ttl())
}
// ANCHOR_END: local

// ANCHOR: table
static MINE: &[&dyn AnyClass] = &[&of::<CheckTTL>()];

/// The classes of the vocabulary, and ours.
fn table() -> ClassTable {
    let mut layers = classes().layers.to_vec();
    layers.push(MINE);
    ClassTable { layers: layers.leak(), ..classes() }
}
// ANCHOR_END: table

fn bench(config: &str) -> Result<Bench, String> {
    Bench::with_classes(config, &Setup::default(), &table())
}

// ANCHOR: test
/// Three packets with TTL 255, two with TTL 64, one that is too short for an IP header.
const CONFIG: &str = r"
    ip :: MarkIPHeader -> check :: CheckTTL(254) -> near :: Counter -> Discard;
    InfiniteSource(DATA \<45000014 00000000 ff110000 c6120001 c6130001>, LIMIT 3) -> ip;
    InfiniteSource(DATA \<45000014 00000000 40110000 c6120001 c6130001>, LIMIT 2) -> ip;
    InfiniteSource(DATA \<45000014>, LIMIT 1) -> ip;
";

#[test]
fn packets_from_afar_are_lost_by_name() {
    let mut bench = bench(CONFIG).unwrap();
    bench.run().unwrap();
    assert_eq!(bench.read("near.count"), "3");
    assert_eq!(bench.losses(), ["check.ttl_low = 2", "check.no_header = 1"]);
    bench.end().unwrap();
}

#[test]
fn or_they_leave_by_the_second_output() {
    let mut bench = bench(&format!("{CONFIG} check[1] -> far :: Counter -> Discard;")).unwrap();
    bench.run().unwrap();
    assert_eq!(bench.read("far.count"), "2");
    assert_eq!(bench.losses(), ["check.no_header = 1"]);
    bench.end().unwrap();
}
// ANCHOR_END: test

#[test]
fn the_limit_can_be_changed_while_it_runs() {
    let mut bench = bench(CONFIG).unwrap();
    assert_eq!(bench.read("check.min"), "254");
    bench.write("check.min", "64").unwrap();
    assert!(bench.write("check.min", "256").is_err());
    bench.run().unwrap();
    assert_eq!(bench.read("near.count"), "5");
    bench.end().unwrap();
}

#[test]
fn it_works_pulled_too() {
    let mut bench = bench(
        r"InfiniteSource(DATA \<45000014 00000000 40110000 c6120001 c6130001>, LIMIT 4)
            -> MarkIPHeader -> Queue -> check :: CheckTTL -> Unqueue -> near :: Counter -> Discard;",
    )
    .unwrap();
    bench.run().unwrap();
    assert_eq!(bench.read("near.count"), "0");
    assert_eq!(bench.losses(), ["check.ttl_low = 4"]);
    bench.end().unwrap();
}

#[test]
fn a_wrong_argument_is_shown_where_it_stands() {
    let error = bench("Idle -> CheckTTL(256) -> Discard;").err().unwrap();
    assert!(error.contains("config:1:18"), "{error}");
    assert!(error.contains("MIN"), "{error}");
}

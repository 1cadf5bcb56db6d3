//! Random operations on the control planes of a plain Linux router and of ours, and after each the same random packets into
//! both: what comes out is the same, but for what `foreseen.rs` names.
//!
//! `LAB_SEED`, `LAB_OPERATIONS` and `LAB_PACKETS` (after each operation) choose another run; `LAB_FIRST` the number of the
//! first operation. A failure prints what repeats it, and tries to do so with the last operations alone.

mod foreseen;
mod labs;
mod operations;
mod tables;
mod traffic;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lab::twins::Stage;
use lab::{Error, Result, netns};

use foreseen::Difference;
use labs::{Labs, Output, Reference, describe};
use operations::{Step, operation};
use traffic::{PORTS, Packet, packets};

/// How long our router may take to do as Linux: settings of which the kernel does not tell are looked at every second.
const LIMIT: Duration = Duration::from_secs(3);
/// So often the tables of both kernels, and ours, are compared.
const COMPARE: u64 = 10;
/// So many of the last operations are tried alone after a failure, each twice as many as the one before.
const SHRINK: [u64; 4] = [2, 6, 20, 60];

/// What to play.
#[derive(Clone, Copy, Debug)]
struct Run {
    seed: u64,
    first: u64,
    operations: u64,
    packets: usize,
    /// It goes on until there have been so many.
    failures: u64,
}

impl Run {
    fn of_environment(operations: u64, packets: usize) -> Run {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        Run {
            seed: number("LAB_SEED").unwrap_or(1),
            first: number("LAB_FIRST").unwrap_or(0),
            operations: number("LAB_OPERATIONS").unwrap_or(operations),
            packets: number("LAB_PACKETS").map_or(packets, |count| count as usize),
            failures: number("LAB_FAILURES").unwrap_or(1),
        }
    }
}

/// What has been seen.
#[derive(Debug, Default)]
struct Seen {
    failures: u64,
    packets: usize,
    answered: usize,
    foreseen: BTreeMap<&'static str, usize>,
    /// Differences that went away by themselves, and the longest time that took.
    passing: usize,
    longest: Duration,
}

/// Plays it, and says what was seen; or why it failed, and at which operation.
fn play(run: Run, log: &mut Vec<String>) -> std::result::Result<Seen, (u64, Error)> {
    let mut at = run.first;
    let mut seen = Seen::default();
    play_to_end(run, log, &mut seen, &mut at).map(|()| seen).map_err(|error| (at, error))
}

fn play_to_end(run: Run, log: &mut Vec<String>, seen: &mut Seen, at: &mut u64) -> Result<()> {
    let reference = Reference::new()?;
    let stage = Stage::new(PORTS as u8, &[])?;
    let mut labs = Labs::new(&reference, &stage)?;
    let mut undo: BTreeMap<u64, Vec<Step>> = BTreeMap::new();
    for number in run.first..run.first + run.operations {
        *at = number;
        let operation = operation(run.seed, number);
        let mut steps: Vec<Step> = undo.remove(&number).unwrap_or_default();
        steps.extend(operation.steps);
        if !operation.undo.is_empty() {
            undo.entry(number + operation.after).or_default().extend(operation.undo);
        }
        log.push(format!("{number}: {}", describe(&steps)));
        labs.play(&steps)?;
        let batch = packets(run.seed ^ number << 20, run.packets);
        if let Err(error) = compare(&mut labs, &batch, seen, &steps) {
            seen.failures += 1;
            if seen.failures >= run.failures {
                return Err(error);
            }
            println!("{number}: {error}");
        }
        if number % COMPARE == COMPARE - 1 {
            tables::compare(&labs, &stage)?;
        }
    }
    tables::compare(&labs, &stage)?;
    drop(labs);
    stage.end()
}

/// Passes packets through both until those that they treated otherwise are treated alike.
fn compare(labs: &mut Labs<'_>, batch: &[Packet], seen: &mut Seen, steps: &[Step]) -> Result<()> {
    let begun = Instant::now();
    let mut left: Vec<&Packet> = batch.iter().collect();
    seen.packets += batch.len();
    loop {
        let numbers = labs.pass(&left)?;
        let carriers = [0, 1, 2].map(|port| labs.has_carrier(port));
        let mut differ = Vec::new();
        let mut first = None;
        for (number, packet) in numbers.iter().zip(&left) {
            let [theirs, ours] = labs.outputs(*number);
            seen.answered += usize::from(!theirs.is_empty());
            if theirs == ours {
                continue;
            }
            let difference = Difference { packet, theirs, ours, linux: labs.both[0].router, carriers };
            match foreseen::find(&difference)? {
                Some(name) => *seen.foreseen.entry(name).or_default() += 1,
                None => {
                    first.get_or_insert_with(|| {
                        told(packet, theirs, ours) + &foreseen::routes(labs.both[0].router, packet)
                    });
                    differ.push(*packet);
                }
            }
        }
        if let Some(last) = numbers.last() {
            labs.forget(*last);
        }
        if differ.is_empty() {
            break;
        }
        if begun.elapsed() > LIMIT {
            return Err(Error::new(format!(
                "after {}: {} packets are treated otherwise, such as\n{}",
                describe(steps),
                differ.len(),
                first.unwrap_or_default()
            )));
        }
        seen.passing += differ.len();
        left = differ;
    }
    if left.len() < batch.len() {
        seen.longest = seen.longest.max(begun.elapsed());
        if begun.elapsed() > Duration::from_millis(300) {
            println!("alike only {:?} after {}", begun.elapsed(), describe(steps));
        }
    }
    Ok(())
}

fn told(packet: &Packet, theirs: &[Output], ours: &[Output]) -> String {
    let tell = |outputs: &[Output]| match outputs {
        [] => "    nothing\n".to_owned(),
        some => some.iter().map(line).collect(),
    };
    format!("  {packet}\n  Linux:\n{}  ours:\n{}", tell(theirs), tell(ours))
}

fn line((port, frame): &Output) -> String {
    let start: String = frame.iter().take(70).map(|octet| format!("{octet:02x}")).collect();
    format!("    by port {}, {} octets: {start}\n", port + 1, frame.len())
}

/// Plays it; a failure is tried again with fewer operations.
fn judge(run: Run) -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let begun = Instant::now();
    let mut log = Vec::new();
    let (at, error) = match play(run, &mut log) {
        Ok(seen) => {
            println!("{run:?} in {:?}: {seen:#?}", begun.elapsed());
            return Ok(());
        }
        Err(failure) => failure,
    };
    for line in &log[log.len().saturating_sub(40)..] {
        println!("{line}");
    }
    for count in SHRINK.into_iter().take_while(|count| *count < at - run.first) {
        let short = Run { first: at + 1 - count, operations: count, failures: 1, ..run };
        let mut log = Vec::new();
        if let Err((_, error)) = play(short, &mut log) {
            return Err(Error::new(format!("{run:?}, also {short:?}:\n{}\n{error}", log.join("\n"))));
        }
    }
    Err(Error::new(format!("{run:?} fails at operation {at}: {error}")))
}

#[test]
fn after_random_operations_packets_leave_as_they_leave_linux() -> Result<()> {
    judge(Run::of_environment(200, 24))
}

#[test]
#[ignore = "half an hour: make differential"]
fn after_ten_thousand_operations_a_million_packets_leave_as_they_leave_linux() -> Result<()> {
    judge(Run::of_environment(10_000, 100))
}

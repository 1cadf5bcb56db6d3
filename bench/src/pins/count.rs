//! Counts the instructions that a router spends on a packet: a whole router under valgrind's callgrind.
//!
//! Callgrind writes what each thread did every so many basic blocks. Parts from the middle of a run hold no start-up and
//! no poll that found nothing, since `net_pcap` is never out of packets: instructions by packets is exact but for the
//! burst at either end.

use super::profile::{self, Profile};
use crate::pairs::Bench;
use crate::plan::Plan;
use crate::program::{Program, pause};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Basic blocks of a part, about 100,000 packets.
const PART: u64 = 5_000_000;
/// Parts that are counted.
const PARTS: u64 = 4;
/// The parts must be there within this time, and it must end within as much: valgrind is slow, and more so beside others.
const PATIENCE: Duration = Duration::from_secs(120);
/// Polls that may find nothing, before the port has begun and when it has ended.
const EMPTY: u64 = 4;
/// Part of the name of the library whose port receives.
const DRIVER: &str = "librte_net_pcap";

/// Instructions for each packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    /// In the router's own program, the lookup structures among them.
    pub router: f64,
    /// In the lookup structures.
    pub lookup: f64,
    /// In libraries: DPDK's drivers, foremost.
    pub libraries: f64,
}

/// Counts for a plan. Gives the name of the router's DPDK, too.
///
/// # Errors
/// If the router does not run, or does not run as it should.
pub fn count(bench: &Bench<'_>, plan: &Plan) -> Result<(Count, String), String> {
    let folder = tempfile::tempdir_in(bench.folder).map_err(|e| format!("cannot make a folder: {e}"))?;
    let mut start = bench.router_start(plan)?;
    let problem = |e: std::io::Error| format!("{}: {e}", bench.router.display());
    let own = bench.router.canonicalize().map_err(problem)?.to_string_lossy().into_owned();
    let valgrind = [
        "valgrind".to_owned(),
        "--tool=callgrind".to_owned(),
        "--separate-threads=yes".to_owned(),
        format!("--dump-every-bb={PART}"),
        format!("--callgrind-out-file={}/out", folder.path().display()),
    ];
    start.command.splice(..0, valgrind);
    let program = Program::start(&start)?;
    let dpdk = program.version().to_owned();
    // The part in which the first packets flow is not over yet.
    let first = last_part(folder.path())? + 2;
    let deadline = Instant::now() + PATIENCE;
    while last_part(folder.path())? < first + PARTS {
        if Instant::now() > deadline {
            return Err(format!("{}: callgrind wrote too little within {PATIENCE:?}", plan.name()));
        }
        pause(Duration::from_millis(50))?;
    }
    program.stop_within(PATIENCE)?;
    let said = fs::read_to_string(bench.folder.join("router.log")).unwrap_or_default();
    let packets = packets(&said).ok_or_else(|| format!("the router does not count packets:\n{said}"))?;
    let parts = read(folder.path(), &own)?;
    let burst = burst(packets, parts.values().map(|part| part.bursts).sum())?;
    let steady: Vec<Part> = parts.range(first..first + PARTS).map(|(_, part)| *part).collect();
    Ok((per_packet(&steady, burst), dpdk))
}

/// What the thread that forwards did during one part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    bursts: u64,
    router: u64,
    lookup: u64,
    libraries: u64,
}

fn part(profile: &Profile, own: &str) -> Part {
    let mut part = Part::default();
    for ((object, function), instructions) in &profile.instructions {
        if object != own {
            part.libraries += instructions;
            continue;
        }
        part.router += instructions;
        // `fib::…` and `<fib::… as …>::…`.
        if function.trim_start_matches('<').starts_with("fib::") {
            part.lookup += instructions;
        }
    }
    // It receives once a burst, and sends not more often.
    let into_driver = profile.calls.iter().filter(|((from, (to, _)), _)| from == own && to.contains(DRIVER));
    part.bursts = into_driver.map(|(_, calls)| *calls).max().unwrap_or(0);
    part
}

/// Instructions by packets of several parts together.
fn per_packet(parts: &[Part], burst: u64) -> Count {
    let packets = (parts.iter().map(|part| part.bursts).sum::<u64>() * burst) as f64;
    let by_packet = |of: fn(&Part) -> u64| parts.iter().map(of).sum::<u64>() as f64 / packets;
    Count {
        router: by_packet(|part| part.router),
        lookup: by_packet(|part| part.lookup),
        libraries: by_packet(|part| part.libraries),
    }
}

/// Packets of each burst, if all bursts but a few at the ends of the run were full.
fn burst(packets: u64, bursts: u64) -> Result<u64, String> {
    let whole = packets.checked_add(bursts.saturating_sub(1)).and_then(|sum| sum.checked_div(bursts));
    match whole {
        Some(burst) if burst > 0 && (burst * bursts - packets) / burst <= EMPTY => Ok(burst),
        _ => Err(format!("{packets} packets came in {bursts} bursts: not all were full")),
    }
}

/// Packets that the router received, by its last words.
fn packets(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.strip_prefix("routebricks: stopped: "))?;
    line.split(' ').next()?.parse().ok()
}

/// Part and thread of a name such as `out.12-05`.
fn numbers(name: &str) -> Option<(u64, u64)> {
    let (part, thread) = name.strip_prefix("out.")?.split_once('-')?;
    Some((part.parse().ok()?, thread.parse().ok()?))
}

fn names(folder: &Path) -> Result<Vec<String>, String> {
    let problem = |e: std::io::Error| format!("{}: {e}", folder.display());
    let entries = fs::read_dir(folder).map_err(problem)?;
    let name =
        |entry: std::io::Result<fs::DirEntry>| entry.map(|e| e.file_name().to_string_lossy().into_owned());
    entries.map(|entry| name(entry).map_err(problem)).collect()
}

fn last_part(folder: &Path) -> Result<u64, String> {
    Ok(names(folder)?.iter().filter_map(|name| numbers(name)).map(|(part, _)| part).max().unwrap_or(0))
}

/// The parts of the thread that forwards: the one that receives most, since another one empties the queues in the end.
fn read(folder: &Path, own: &str) -> Result<BTreeMap<u64, Part>, String> {
    let mut threads: BTreeMap<u64, BTreeMap<u64, Part>> = BTreeMap::new();
    for name in names(folder)? {
        let Some((number, thread)) = numbers(&name) else { continue };
        let path = folder.join(&name);
        let text = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let profile = profile::parse(&String::from_utf8_lossy(&text))
            .map_err(|e| format!("{}: {e}", path.display()))?;
        threads.entry(thread).or_default().insert(number, part(&profile, own));
    }
    let bursts = |parts: &BTreeMap<u64, Part>| parts.values().map(|part| part.bursts).sum::<u64>();
    Ok(threads.into_values().max_by_key(bursts).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_code_lookups_and_libraries_are_told_apart() {
        let text = "ob=(1) /r\nfn=(1) rx\n1 10\ncob=(2) /x/librte_net_pcap.so.23.0\ncfn=(9) a\ncalls=5 0\n1 50\n\
                    cob=(2)\ncfn=(8) b\ncalls=4 0\n1 40\nfn=(2) <fib::Dir24_8 as fib::Fib<u32>>::lookup_batch\n1 7\n\
                    fn=(3) fib::simd::x\n2 3\nob=(2)\nfn=(9)\n1 50\ncfn=(7) c\ncalls=99 0\n1 1\nfn=(8)\n1 40\n";
        let found = part(&profile::parse(text).unwrap(), "/r");
        assert_eq!(found, Part { bursts: 5, router: 20, lookup: 10, libraries: 90 });
        let count = per_packet(&[found, found], 2);
        assert_eq!(count, Count { router: 2.0, lookup: 1.0, libraries: 9.0 });
        assert_eq!(part(&profile::parse(text).unwrap(), "/s").bursts, 0);
    }

    #[test]
    fn bursts_must_be_full() {
        assert_eq!([burst(320, 10), burst(319, 10), burst(64 * 1999, 2000)], [Ok(32), Ok(32), Ok(64)]);
        assert!(burst(64 * 1990, 2000).is_err() && burst(64 * 2000 + 1, 2000).is_err());
        assert!(burst(0, 10).is_err() && burst(5, 0).is_err());
    }

    #[test]
    fn names_and_last_words() {
        assert_eq!([numbers("out.12-05"), numbers("out"), numbers("out.x-1")], [Some((12, 5)), None, None]);
        let said = "ready\nroutebricks: stopped: 640 packets in, 640 out, 0 lost\n";
        assert_eq!((packets(said), packets("ready\n")), (Some(640), None));
    }
}

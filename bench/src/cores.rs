//! The six scenarios of paper 1, Fig. 6: what it costs when queues are shared and packets change cores.

use crate::pairs::{Bench, MEMORY, Patience, list, measure_lossy};
use crate::plan::{Frames, Group};
use crate::program::Start;
use crate::value::Measured;
use serde_json::json;
use std::fs;
use std::path::Path;

/// One scenario: its letter and what happens in it, the configuration with words behind it, and receive queues of each
/// port that receives.
struct Scenario {
    name: &'static str,
    config: &'static str,
    words: &'static [&'static str],
    queues: &'static [usize],
    sender: bool,
    workers: usize,
}

const PARALLEL: &str = "conf/bench/cores-parallel.click";
const OVERLAP: &str = "conf/bench/cores-overlap.click";
const IO: &str = "conf/bench/io.click";

const SCENARIOS: [Scenario; 6] = [
    Scenario {
        name: "(a) pipeline: one core receives, one sends",
        config: "conf/bench/cores-pipeline.click",
        words: &[],
        queues: &[1],
        sender: false,
        workers: 2,
    },
    Scenario {
        name: "(b) parallel: two paths, a core each",
        config: PARALLEL,
        words: &[],
        queues: &[1, 1],
        sender: false,
        workers: 2,
    },
    Scenario {
        name: "(c) split: one receive queue, two cores",
        config: IO,
        words: &[],
        queues: &[1],
        sender: false,
        workers: 2,
    },
    Scenario {
        name: "(d) split: two receive queues, two cores",
        config: IO,
        words: &[],
        queues: &[2],
        sender: false,
        workers: 2,
    },
    Scenario {
        name: "(e) overlap: two paths, one send queue",
        config: OVERLAP,
        words: &["QUEUES=1"],
        queues: &[1, 1],
        sender: true,
        workers: 2,
    },
    Scenario {
        name: "(f) overlap: two paths, a send queue each",
        config: OVERLAP,
        words: &["QUEUES=2"],
        queues: &[1, 1],
        sender: true,
        workers: 2,
    },
];

/// Where the kernel describes processors.
const PROCESSORS: &str = "/sys/devices/system/cpu";

/// A scenario on two processors.
struct Place<'a> {
    scenario: &'a Scenario,
    name: String,
    cores: [usize; 2],
    /// Whether they have their L3 cache in common; `None` if the kernel does not say.
    shared: Option<bool>,
}

/// All scenarios on the first two processors; the pipeline also on two that are as close as those are not. What this
/// machine cannot show is said.
fn places(sysfs: &Path, cores: &[usize]) -> Result<Vec<Place<'static>>, String> {
    let &[first, second, ..] = cores else { return Err("it needs two processors".to_owned()) };
    let (pair, shared) = ([first, second], share_a_cache(sysfs, [first, second]));
    let mut all: Vec<Place<'static>> = SCENARIOS
        .iter()
        .map(|scenario| Place { scenario, name: scenario.name.to_owned(), cores: pair, shared })
        .collect();
    let wanted = shared == Some(false);
    let how = if wanted { "with a common L3" } else { "without a common L3" };
    match other_pair(sysfs, cores, wanted) {
        Some(cores) => {
            let name = format!("{}, cores {how}", SCENARIOS[0].name);
            all.push(Place { scenario: &SCENARIOS[0], name, cores, shared: Some(wanted) });
        }
        None => eprintln!("{:<18} pipeline between cores {how}: left out, this machine shows none", "cores"),
    }
    Ok(all)
}

/// Rates and cycles of all scenarios.
///
/// # Errors
/// If there are fewer than two processors, or a scenario does not run.
pub fn measure_all(bench: &Bench<'_>, patience: Patience) -> Result<Vec<Measured>, String> {
    let places = places(Path::new(PROCESSORS), &bench.cores)?;
    let (trace, _) = bench.table.trace(usize::MAX, 4096, Frames::Bytes(64), bench.folder)?;
    let mut rates = vec![(Vec::new(), Vec::new()); places.len()];
    // In turn, so that a disturbance of the machine meets all of them.
    for _ in 0..patience.pairs {
        for (place, (rate, cycles)) in places.iter().zip(&mut rates) {
            let start = start(bench, place.scenario, &place.cores, &trace.to_string_lossy());
            // A core that receives for another one may outrun it.
            let run = measure_lossy(&start, place.scenario.workers, patience.time)
                .map_err(|e| format!("{}: {e}", place.name))?;
            rate.push(run.wall_mpps);
            cycles.push(run.cycles);
        }
    }
    let mut all = Vec::new();
    for (place, (rate, cycles)) in places.iter().zip(rates) {
        for (what, unit, values) in
            [("rate", "Mpps", rate), ("cycles per packet, both cores", "cycles", cycles)]
        {
            let map = json!({
                "config": place.scenario.config, "cores": place.cores, "cores_share_l3": place.shared,
            });
            all.push(Measured {
                group: "cores",
                at: None,
                what: what.to_owned(),
                of: place.name.clone(),
                unit,
                values,
                target: None,
                arrangement: map.as_object().cloned().unwrap_or_default(),
            });
        }
    }
    Ok(all)
}

fn start<'a>(bench: &Bench<'a>, scenario: &Scenario, cores: &[usize], trace: &str) -> Start<'a> {
    let prefix = format!("bench-{}-{}", std::process::id(), Group::Cores.name());
    let mut command = bench.router_on(cores, scenario.workers, None, scenario.config);
    command.extend(scenario.words.iter().map(|word| (*word).to_owned()));
    command.push("--".to_owned());
    for (port, queues) in scenario.queues.iter().enumerate() {
        let queues = format!(",rx_pcap={trace}").repeat(*queues);
        command.push(format!("--vdev=net_pcap{port}{queues},infinite_rx=1"));
    }
    if scenario.sender {
        command.push("--vdev=net_null0,no-rx=1".to_owned());
    }
    command.extend([format!("--file-prefix={prefix}"), "--no-pci".to_owned()]);
    command.extend(bench.memory.eal_args(MEMORY >> 20));
    Start { name: "router", command, cores: list(cores), prefix, folder: bench.folder }
}

/// Whether two processors have their L3 cache in common; `None` if the kernel does not say.
fn share_a_cache(sysfs: &Path, cores: [usize; 2]) -> Option<bool> {
    let l3 = |core: usize| {
        let folder = sysfs.join(format!("cpu{core}/cache"));
        (0..8).find_map(|index| {
            let read = |name: &str| fs::read_to_string(folder.join(format!("index{index}/{name}"))).ok();
            (read("level")?.trim() == "3").then(|| read("shared_cpu_list")).flatten()
        })
    };
    Some(l3(cores[0])? == l3(cores[1])?)
}

/// The first two of these processors of which that is so.
fn other_pair(sysfs: &Path, cores: &[usize], shared: bool) -> Option<[usize; 2]> {
    let pairs =
        cores.iter().enumerate().flat_map(|(at, &one)| cores[at + 1..].iter().map(move |&two| [one, two]));
    pairs.into_iter().find(|&pair| share_a_cache(sysfs, pair) == Some(shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree in which processors have their L3 in common with those of the same list.
    fn tree(lists: &[(usize, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (core, list) in lists {
            for (index, level, shared) in [(0, "1", *list), (1, "2", "0-99"), (3, "3", *list)] {
                let folder = root.path().join(format!("cpu{core}/cache/index{index}"));
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("level"), format!("{level}\n")).unwrap();
                fs::write(folder.join("shared_cpu_list"), format!("{shared}\n")).unwrap();
            }
        }
        root
    }

    /// The processors of the last place, if it is one more than the scenarios are, and its name's end.
    fn more(sysfs: &Path, cores: &[usize]) -> Option<([usize; 2], Option<bool>, String)> {
        let places = places(sysfs, cores).unwrap();
        assert!(places[..6].iter().all(|place| place.cores[..] == cores[..2]));
        let more = places.get(6)?;
        Some((more.cores, more.shared, more.name.rsplit(", ").next().unwrap().to_owned()))
    }

    #[test]
    fn a_pipeline_between_caches_where_there_are_two() {
        let two = tree(&[(0, "0-1"), (1, "0-1"), (4, "4-5"), (5, "4-5")]);
        let apart = Some(([5, 1], Some(false), "cores without a common L3".to_owned()));
        assert_eq!(more(two.path(), &[5, 4, 1, 0]), apart);
        let together = Some(([5, 4], Some(true), "cores with a common L3".to_owned()));
        assert_eq!(more(two.path(), &[5, 1, 4]), together);
        assert_eq!(more(two.path(), &[1, 0]), None);
        assert_eq!(more(two.path(), &[1, 5]), None, "the pair itself is all there is");
        assert_eq!(places(two.path(), &[1, 5]).unwrap()[0].shared, Some(false));
        assert!(places(two.path(), &[1]).is_err());
    }

    #[test]
    fn a_kernel_that_says_nothing_of_caches() {
        let none = tree(&[]);
        assert_eq!(more(none.path(), &[1, 0]), None);
        assert_eq!(places(none.path(), &[1, 0]).unwrap()[0].shared, None);
    }
}

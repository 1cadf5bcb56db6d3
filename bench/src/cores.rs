//! The six scenarios of paper 1, Fig. 6: what it costs when queues are shared and packets change cores.

use crate::pairs::{Bench, MEMORY, Patience, list, measure_lossy};
use crate::plan::{Frames, Group};
use crate::program::Start;
use crate::value::Measured;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;

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

/// Rates and cycles of all scenarios; what this machine cannot show is said.
///
/// # Errors
/// If there are fewer than two processors, or a scenario does not run.
pub fn measure_all(bench: &Bench<'_>, patience: Patience) -> Result<Vec<Measured>, String> {
    let Some(cores) = bench.cores.get(..2) else { return Err("it needs two processors".to_owned()) };
    let shared = share_a_cache(cores);
    if shared != Some(false) {
        eprintln!(
            "{:<18} pipeline between cores without a common L3: left out, this machine shows none",
            "cores"
        );
    }
    let (trace, _) = bench.table.trace(usize::MAX, 4096, Frames::Bytes(64), bench.folder)?;
    let mut rates = vec![(Vec::new(), Vec::new()); SCENARIOS.len()];
    // In turn, so that a disturbance of the machine meets all of them.
    for _ in 0..patience.pairs {
        for (scenario, (rate, cycles)) in SCENARIOS.iter().zip(&mut rates) {
            let start = start(bench, scenario, cores, &trace.to_string_lossy());
            // A core that receives for another one may outrun it.
            let run = measure_lossy(&start, scenario.workers, patience.time)
                .map_err(|e| format!("{}: {e}", scenario.name))?;
            rate.push(run.wall_mpps);
            cycles.push(run.cycles);
        }
    }
    let mut all = Vec::new();
    for (scenario, (rate, cycles)) in SCENARIOS.iter().zip(rates) {
        for (what, unit, values) in
            [("rate", "Mpps", rate), ("cycles per packet, both cores", "cycles", cycles)]
        {
            let map = json!({"config": scenario.config, "cores": cores, "cores_share_l3": shared});
            all.push(Measured {
                group: "cores",
                at: None,
                what: what.to_owned(),
                of: scenario.name.to_owned(),
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

/// Whether processors have their L3 cache in common; `None` if the kernel does not say.
fn share_a_cache(cores: &[usize]) -> Option<bool> {
    let l3 = |core: &usize| {
        let folder = format!("/sys/devices/system/cpu/cpu{core}/cache");
        (0..8).find_map(|index| {
            let read = |name: &str| fs::read_to_string(format!("{folder}/index{index}/{name}")).ok();
            (read("level")?.trim() == "3").then(|| read("shared_cpu_list")).flatten()
        })
    };
    let lists: Option<BTreeSet<String>> = cores.iter().map(l3).collect();
    lists.map(|lists| lists.len() == 1)
}

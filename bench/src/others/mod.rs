//! Other programs that forward, for comparison: those that are on PATH, and Linux always.
//!
//! DPDK programs run on the port that the router runs on; the invocations are those of their manuals.

mod grout;
mod linux;
mod told;
mod vpp;

use crate::figure::Spread;
use crate::pairs::{Bench, Patience, measure};
use crate::plan::{Group, Plan, plans};
use serde_json::{Value, json};
use told::Router;

/// How a program is known here.
enum Adapter {
    /// Runs on the same ports as the router, with these arguments behind EAL's.
    Dpdk { configuration: &'static str, arrangement: &'static str },
    /// The same port; a client of its own gives it the whole table.
    Told(Router),
}

impl Adapter {
    /// What has to be on PATH besides the program itself.
    fn also(&self) -> Option<&'static str> {
        match self {
            Adapter::Dpdk { .. } => None,
            Adapter::Told(router) => Some(router.programs()[1]),
        }
    }

    fn arrangement(&self) -> &'static str {
        match self {
            Adapter::Dpdk { arrangement, .. } => arrangement,
            Adapter::Told(_) => {
                "one port, 4,096 destinations; all routes of the table by one next hop; buffers and rings of its own \
                 choice"
            }
        }
    }
}

/// Programs by the name that they have on PATH.
const PROGRAMS: [(&str, Adapter); 5] = [
    (
        "dpdk-l3fwd",
        Adapter::Dpdk {
            configuration: "",
            arrangement: "one port, 4,096 destinations; its own table of a few routes, lookup by FIB; what has no route \
                          goes back",
        },
    ),
    (
        "click",
        Adapter::Dpdk {
            configuration: "conf/bench/io.click",
            arrangement: "FastClick with DPDK; conf/bench/io.click, one port",
        },
    ),
    (
        "click",
        Adapter::Dpdk {
            configuration: "conf/bench/ip-path.click",
            arrangement: "FastClick with DPDK; conf/bench/ip-path.click with the routes in the text, one port, 4,096 \
                          destinations",
        },
    ),
    ("vpp", Adapter::Told(Router::Vpp)),
    ("grout", Adapter::Told(Router::Grout)),
];

/// A JSON line for each program.
pub fn measure_all(bench: &Bench<'_>, patience: Patience) -> Vec<Value> {
    let mut lines = Vec::new();
    for (name, adapter) in &PROGRAMS {
        let missing = lab::netns::missing_program(&[name]).is_some();
        let client = adapter.also().filter(|client| lab::netns::missing_program(&[client]).is_some());
        let cycles = match (missing, client, adapter) {
            (true, _, _) => Err("not found".to_owned()),
            (false, Some(client), _) => Err(format!("{client}, its client, was not found")),
            (false, None, Adapter::Dpdk { configuration, .. }) => dpdk(bench, name, configuration, patience),
            (false, None, Adapter::Told(router)) => {
                plan_of(Group::Ip).and_then(|plan| router.measure(bench, &plan, patience))
            }
        };
        lines.push(match cycles {
            Ok(cycles) => line(name, "measured", adapter.arrangement(), Some(&cycles)),
            Err(why) if missing => line(name, &why, adapter.arrangement(), None),
            Err(why) => line(name, &format!("failed: {why}"), adapter.arrangement(), None),
        });
    }
    let name = format!("Linux {}", linux::release());
    lines.push(match linux::measure(&bench.table, bench.cores.first().copied(), patience) {
        Ok(costs) => {
            let mut row = line(&name, "measured", linux::ARRANGEMENT, Some(&costs.forwarding));
            row["sender_tsc_cycles_per_packet"] = json!(Spread::of(&costs.sender).map(Spread::json));
            row
        }
        Err(why) => line(&name, &format!("not measured: {why}"), linux::ARRANGEMENT, None),
    });
    lines
}

fn plan_of(group: Group) -> Result<Plan, String> {
    plans(group).into_iter().next().ok_or_else(|| "nothing is planned".to_owned())
}

fn line(program: &str, status: &str, arrangement: &str, cycles: Option<&[f64]>) -> Value {
    json!({
        "schema": "routebricks.bench-other/1",
        "program": program,
        "status": status,
        "arrangement": arrangement,
        "tsc_cycles_per_packet": cycles.and_then(Spread::of).map(Spread::json),
    })
}

/// Runs a DPDK program on the port of the figures `io` and `ip`.
fn dpdk(
    bench: &Bench<'_>,
    name: &'static str,
    configuration: &str,
    patience: Patience,
) -> Result<Vec<f64>, String> {
    let group = if configuration.ends_with("io.click") { Group::Io } else { Group::Ip };
    let plan = plan_of(group)?;
    let core = bench.cores.first().copied().unwrap_or_default();
    let file = match configuration {
        "" => None,
        configuration => Some(click_file(bench, configuration)?),
    };
    let mut cycles = Vec::new();
    for _ in 0..patience.pairs {
        let start = bench.start_other(&plan, name, |eal| arguments(name, core, eal, file.as_deref()))?;
        cycles.push(measure(&start, 1, patience.time)?.cycles);
    }
    Ok(cycles)
}

/// Arguments behind the program's name, of what it is to tell EAL.
fn arguments(name: &str, core: usize, eal: Vec<String>, configuration: Option<&str>) -> Vec<String> {
    let mut words = Vec::new();
    match configuration {
        Some(file) => {
            words.push("--dpdk".to_owned());
            words.push(format!("--lcores=0@{core}"));
            words.extend(eal);
            words.extend(["--", file].map(str::to_owned));
        }
        None => {
            debug_assert_eq!(name, "dpdk-l3fwd");
            words.push(format!("--lcores=0@{core}"));
            words.extend(eal);
            let own = ["--", "-p", "0x1", "-P", "--lookup=fib", "--parse-ptype", "--config=(0,0,0)"];
            words.extend(own.map(str::to_owned));
        }
    }
    words
}

/// A configuration for Click, whose lookup takes routes as arguments only.
fn click_file(bench: &Bench<'_>, configuration: &str) -> Result<String, String> {
    let path = bench.root.join(configuration);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    if !text.contains("FILE $TABLE") {
        return Ok(path.to_string_lossy().into_owned());
    }
    let routes: Vec<String> = bench.table.prefixes(usize::MAX).map(|prefix| format!("{prefix} 0")).collect();
    let path = bench.folder.join("click.click");
    std::fs::write(&path, text.replace("FILE $TABLE", &routes.join(",\n")))
        .map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stand_where_the_manuals_want_them() {
        let eal = || vec!["--vdev=x".to_owned()];
        assert_eq!(
            arguments("dpdk-l3fwd", 3, eal(), None).join(" "),
            "--lcores=0@3 --vdev=x -- -p 0x1 -P --lookup=fib --parse-ptype --config=(0,0,0)"
        );
        assert_eq!(
            arguments("click", 3, eal(), Some("io.click")).join(" "),
            "--dpdk --lcores=0@3 --vdev=x -- io.click"
        );
    }

    #[test]
    fn a_program_that_is_not_there_is_said_not_to_be() {
        let row = line("vpp", "not found", "", None);
        assert_eq!((&row["status"], &row["tsc_cycles_per_packet"]), (&json!("not found"), &Value::Null));
    }
}

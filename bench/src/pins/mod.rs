//! Instructions per packet, pinned: a change that costs some, or saves some, shows, whatever else the machine does.
//!
//! The pins are in `bench/pins.json`. They hold for one version of the compiler and of DPDK, and for processors with
//! AVX2 (callgrind has nothing newer); elsewhere there is nothing to compare.

mod count;
mod profile;

use crate::huge_pages::Memory;
use crate::pairs::Bench;
use crate::plan::{Group, Plan, plans};
use crate::trace::Table;
use crate::trace6::Table6;
use clap::Args;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

/// Arguments of `pins`.
#[derive(Debug, Args)]
pub struct PinsArgs {
    /// Write down what was counted, in place of comparing
    #[arg(long)]
    update: bool,

    /// The router; $ROUTEBRICKS or target/release/routebricks if not given
    #[arg(long, value_name = "PATH")]
    router: Option<PathBuf>,
}

/// The pins' file in the repository.
const FILE: &str = "bench/pins.json";
/// The paths that are counted.
const PATHS: [Group; 5] = [Group::Io, Group::Ip, Group::TwoPorts, Group::Classic, Group::Ip6];
/// Paths whose lookups are pinned alone, too.
const LOOKUPS: [(Group, &str); 2] = [(Group::Ip, "lookup-ipv4"), (Group::Ip6, "lookup-ipv6")];
/// A count may differ by this part of its pin.
const TOLERANCE: f64 = 0.03;
/// Routes of the made-up tables: more cost time under callgrind, and change no path.
const ROUTES: usize = 10_000;

/// A count, and what it was pinned to.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    counted: f64,
    /// Where it belongs to a whole path.
    libraries: Option<f64>,
    pinned: Option<f64>,
}

impl Row {
    /// What it differs by, as a part of the pin.
    fn difference(&self) -> Option<f64> {
        self.pinned.map(|pinned| self.counted / pinned - 1.0)
    }

    fn holds(&self) -> bool {
        self.difference().is_some_and(|by| by.abs() <= TOLERANCE)
    }

    fn line(&self) -> String {
        let number = |value: Option<f64>| value.map_or("–".to_owned(), |v| format!("{v:.2}"));
        let (difference, verdict) = match self.difference() {
            Some(by) if by.abs() <= TOLERANCE => (format!("{:+.1} %", by * 100.0), "holds"),
            Some(by) if by > 0.0 => (format!("{:+.1} %", by * 100.0), "MORE THAN PINNED"),
            Some(by) => (format!("{:+.1} %", by * 100.0), "FEWER THAN PINNED"),
            None => ("–".to_owned(), "NOT PINNED"),
        };
        format!(
            "{:<23} {:>9.2} {:>9} {:>9}   {verdict:<17} {:>9}",
            self.name,
            self.counted,
            number(self.pinned),
            difference,
            number(self.libraries)
        )
    }
}

fn header() -> String {
    let columns = ["counted", "pinned", "differs"].map(|name| format!("{name:>9}")).join(" ");
    format!("{:<23} {columns}   {:<17} {:>9}", "path", "within 3 %", "libraries")
}

/// Counts, and compares or writes down. True if all pins hold, or cannot be compared here.
///
/// # Errors
/// If something cannot be counted, or the file is not there or not sound.
pub fn pins(args: &PinsArgs) -> Result<bool, String> {
    let path = crate::root().join(FILE);
    let rustc = version_of("rustc")?;
    let pinned = if args.update { read(&path).ok() } else { Some(read(&path)?) };
    let compared = pinned.as_ref().filter(|_| !args.update);
    let other = compared.and_then(|p| differs("Rust", &p["rustc"], &rustc));
    if let Some(reason) = unavailable().or(other) {
        println!("skipped: {reason}");
        return Ok(true);
    }
    let (counts, dpdk) = count_all(args)?;
    if let Some(reason) = compared.and_then(|p| differs("DPDK", &p["dpdk"], &dpdk)) {
        println!("skipped: {reason}");
        return Ok(true);
    }
    let per_packet = pinned.as_ref().map(|p| &p["instructions_per_packet"]);
    println!(
        "Instructions per packet, of the router's own code; what libraries (DPDK's drivers) add is not pinned."
    );
    println!("{}", header());
    let mut good = true;
    let mut written = Map::new();
    for mut row in counts {
        row.pinned = per_packet.and_then(|p| p[&row.name].as_f64());
        println!("{}", row.line());
        good &= row.holds();
        written.insert(row.name, json!((row.counted * 100.0).round() / 100.0));
    }
    if args.update {
        let all =
            json!({"rustc": rustc, "dpdk": dpdk, "tolerance": TOLERANCE, "instructions_per_packet": written});
        let text = format!("{all:#}\n");
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("{}", path.display());
    } else if !good {
        println!("If that is meant to be so: `make pins` writes down what was counted.");
    }
    Ok(good || args.update)
}

fn read(path: &std::path::Path) -> Result<Value, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Why nothing can be counted here.
fn unavailable() -> Option<String> {
    #[cfg(target_arch = "x86_64")]
    let avx2 = std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    let avx2 = false;
    if !avx2 {
        return Some("the pins are of the AVX2 path".to_owned());
    }
    lab::netns::missing_program(&["valgrind"]).map(|program| format!("{program} is not installed"))
}

/// Why pins cannot be compared, if they are of another version.
fn differs(what: &str, pinned: &Value, here: &str) -> Option<String> {
    let pinned = pinned.as_str().unwrap_or("?");
    (pinned != here).then(|| format!("the pins are of {what} {pinned}, here is {here}"))
}

fn version_of(program: &str) -> Result<String, String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.map_err(|e| format!("cannot run {program}: {e}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.split(' ').nth(1).map(str::to_owned).ok_or_else(|| format!("{program} --version says {said}"))
}

/// The first two numbers of DPDK's name for itself: later ones change nothing that is compiled into the router.
fn short(dpdk: &str) -> String {
    let number = dpdk.trim_start_matches("DPDK ");
    number.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// Counts all paths; gives DPDK's version, too.
fn count_all(args: &PinsArgs) -> Result<(Vec<Row>, String), String> {
    let folder = tempfile::tempdir().map_err(|e| format!("cannot make a folder for traces: {e}"))?;
    let bench = Bench {
        router: crate::router(args.router.as_deref()),
        self_check: false,
        memory: Memory::ordinary(),
        cores: crate::cores(None)?,
        table: Table::made_up(ROUTES)?,
        table6: Table6::made_up(ROUTES)?,
        folder: folder.path(),
        root: crate::root(),
    };
    // Neither disturbs what the other counts, and each takes a minute or two.
    let (paths, cluster) = thread::scope(|scope| {
        let cluster = scope.spawn(|| crate::cluster::instructions(crate::root()));
        let paths = count_paths(&bench);
        (paths, cluster.join())
    });
    let (mut rows, version) = paths?;
    let cluster = cluster.map_err(|_| "counting what the cluster costs panicked".to_owned())??;
    rows.extend(cluster.into_iter().map(|(name, counted)| Row {
        name: name.to_owned(),
        counted,
        libraries: None,
        pinned: None,
    }));
    Ok((rows, version))
}

/// Counts [`PATHS`], and their lookups.
fn count_paths(bench: &Bench<'_>) -> Result<(Vec<Row>, String), String> {
    let (mut rows, mut version) = (Vec::new(), String::new());
    for group in PATHS {
        let plan: Plan = plans(group).into_iter().next().ok_or("nothing is planned")?;
        let (count, dpdk) = count::count(bench, &plan)?;
        version = short(&dpdk);
        let name = plan.name();
        rows.push(Row { name, counted: count.router, libraries: Some(count.libraries), pinned: None });
        if let Some((_, name)) = LOOKUPS.iter().find(|(of, _)| *of == group) {
            rows.push(Row { name: (*name).to_owned(), counted: count.lookup, libraries: None, pinned: None });
        }
    }
    Ok((rows, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(counted: f64, pinned: Option<f64>) -> Row {
        Row { name: "io".to_owned(), counted, libraries: Some(9.0), pinned }
    }

    #[test]
    fn three_per_cent_either_way() {
        let holds = |counted, pinned| row(counted, pinned).holds();
        assert!(holds(102.9, Some(100.0)) && holds(97.1, Some(100.0)));
        assert!(!holds(103.1, Some(100.0)) && !holds(96.9, Some(100.0)) && !holds(1.0, None));
        assert!(!holds(f64::NAN, Some(1.0)) && !holds(1.0, Some(0.0)));
    }

    #[test]
    fn columns_stand_below_each_other() {
        let line = row(104.0, Some(100.0)).line();
        assert_eq!(
            line,
            "io                         104.00    100.00    +4.0 %   MORE THAN PINNED       9.00"
        );
        assert_eq!(header().chars().count(), line.chars().count());
        assert!(row(1.0, None).line().contains("NOT PINNED"));
    }

    #[test]
    fn versions() {
        assert_eq!([short("DPDK 22.11.7"), short("DPDK 24.11.0-rc1")], ["22.11", "24.11"]);
        assert_eq!(differs("Rust", &json!("1.95.0"), "1.95.0"), None);
        assert!(differs("Rust", &Value::Null, "1.95.0").is_some());
    }

    #[test]
    fn the_file_pins_what_is_counted() {
        let file = read(&crate::root().join(FILE)).unwrap();
        let mut names: Vec<String> = PATHS.iter().map(|group| group.name()).collect();
        names.extend(LOOKUPS.iter().map(|(_, name)| (*name).to_owned()));
        names.extend(crate::cluster::PINS.map(str::to_owned));
        names.sort();
        let pins = file["instructions_per_packet"].as_object().unwrap();
        let mut pinned: Vec<String> = pins.keys().cloned().collect();
        pinned.sort();
        assert_eq!(pinned, names);
        assert_eq!(file["tolerance"], TOLERANCE);
    }
}

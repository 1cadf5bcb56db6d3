//! What the manual's page says under "Try it" is typed.

use std::fs;
use std::path::Path;
use std::process::Command;

use lab::cluster::{LIMIT, NODES, START};
use lab::netns::{self, Namespace, missing_program, succeed};
use lab::process::Process;
use lab::routebricks::binary;
use lab::wait::wait_until;
use lab::{Context, Error, Result};

use crate::alone;

/// The commands of the section, in order.
fn commands(page: &str) -> Vec<String> {
    let section = page.split("\n## ").find(|section| section.starts_with("Try it\n")).unwrap_or_default();
    let mut blocks = section.split("\n```");
    blocks.next();
    blocks.filter_map(|block| block.strip_prefix("sh\n")).flat_map(str::lines).map(str::to_owned).collect()
}

/// The hosts that the page's commands make.
struct Hosts(String);

impl Drop for Hosts {
    fn drop(&mut self) {
        for n in 1..=4 {
            let _ = Command::new("ip").args(["netns", "del", &format!("{}h{n}", self.0)]).output();
        }
    }
}

#[test]
fn the_page_does_what_it_says() -> Result<()> {
    if netns::skipped() || missing_program(&["traceroute", "nsenter"]).is_some() {
        println!("skipped: no traceroute");
        return Ok(());
    }
    let _one = alone();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| fs::read_to_string(root.join(name)).cannot(|| format!("read {name}"));
    let (page, file) = (read("docs/cluster.md")?, read("deploy/cluster.toml")?);
    let control = Namespace::unique("control")?;
    control.set("net/ipv6/conf/all/disable_ipv6", "0")?;
    control.set("net/ipv6/conf/default/disable_ipv6", "0")?;
    // Other names than the page's: there may be such a cluster, and such hosts, on this machine.
    let name = netns::unique_prefix();
    let hosts = Hosts(format!("{name}-"));
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let ours = directory.path().join("cluster.toml");
    fs::write(&ours, file.replace("name = \"rb4\"", &format!("name = \"{name}\"")))
        .cannot(|| "write".to_owned())?;
    let binary = binary()?.display().to_string();
    let inside = |line: &str| {
        let mut command = netns::command("nsenter");
        command.args([&format!("--net=/run/netns/{}", control.name()), "sh", "-c", line]);
        command
    };
    let mut running: Option<Process> = None;
    for line in commands(&page) {
        let line =
            line.replace("h$n", &format!("{}h$n", hosts.0)).replace(" h1 ", &format!(" {}h1 ", hosts.0));
        let line = line.replace("deploy/cluster.toml", &ours.display().to_string());
        let line = match line.strip_prefix("routebricks cluster ") {
            Some(rest) if rest.starts_with("up ") => {
                let mut process =
                    Process::spawn(inside(&format!("exec {binary} cluster {rest}")), "up", directory.path())?;
                process.wait_for_line(": up: 4 nodes, 4 lines", START)?;
                running = Some(process);
                continue;
            }
            Some(rest) if rest.starts_with("check ") => format!("{binary} cluster {rest}"),
            Some(rest) => format!("{binary} cluster {rest} --cluster {name}"),
            None => line,
        };
        // Neighbours may have to be found out first.
        let mut last = None;
        let printed = wait_until(&line, LIMIT, || {
            let printed = succeed(&mut inside(&line));
            let fine = printed.as_ref().is_ok_and(|printed| holds(&line, printed));
            let result = printed.as_ref().ok().filter(|_| fine).cloned();
            last = Some(printed);
            Ok(result)
        });
        printed.map_err(|error| Error::new(format!("{error}: {last:?}")))?;
    }
    let Some(mut running) = running else { panic!("the page starts no cluster") };
    assert!(wait_until("its end", LIMIT, || running.ended())?.success(), "{}", running.last_lines());
    for node in NODES {
        let _ = fs::remove_file(format!("/run/routebricks/cluster-{name}.{node}.life"));
    }
    Ok(())
}

/// What a command must have printed.
fn holds(line: &str, printed: &str) -> bool {
    let has = |words: &[&str]| words.iter().all(|word| printed.contains(word));
    if line.contains(" ping ") {
        has(&[" 3 received"])
    } else if line.contains(" traceroute ") {
        has(&[" 1  10.1.0.1 ", " 2  10.4.0.2 "]) && !printed.contains(" 3 ")
    } else if line.contains("ext2") {
        has(&["10.2.0.1/24", "2001:db8:2::1/64"])
    } else if line.contains(" status ") {
        has(&["internal links\n", "lost packets\n", "\nd  "])
    } else {
        true
    }
}

//! `[lookup]` and the handlers `structure`: tables move from one structure to another while packets flow and routes change.

use std::fs;

use super::control_side::killed_in_a_change;
use super::service::reload;
use super::vlans::printed;
use lab::netns;
use lab::twins::Stage;
use lab::wait::wait_until;
use lab::{Context, Error, Result};

/// Pings that are under way while tables move, ten milliseconds apart.
const PINGS: usize = 800;
/// Enough for a second measurement.
const MANY: usize = 5000;
/// What the router says when it has taken its settings.
const TAKEN: &str = "limits of punting are as the settings say now";

/// The first lines of what the tables of IPv4 and IPv6 are looked up in, as the second port's VLANs see it.
fn structures(stage: &Stage) -> Result<[String; 2]> {
    let first = |element| -> Result<String> {
        let text = stage.router.handler(element, "structure")?;
        Ok(text.lines().next().unwrap_or_default().to_owned())
    };
    Ok([first("vrt1")?, first("vrt6_1")?])
}

/// Routes come, are used, and go.
fn routes_change(stage: &Stage) -> Result<()> {
    let both = ["10.9.0.1", "2001:db8:9::1"];
    stage.inside.ip("route add 10.9.0.0/16 via 10.2.0.2\nroute add 2001:db8:9::/48 via 2001:db8:2::2\n")?;
    both.iter().try_for_each(|to| stage.wait_for_ping(0, to, true))?;
    stage.inside.ip("route del 10.9.0.0/16\nroute del 2001:db8:9::/48\n")?;
    both.iter().try_for_each(|to| stage.wait_for_ping(0, to, false))
}

/// A stage with these settings, and more addresses on the second host.
fn stage(file: &str, text: &str) -> Result<Stage> {
    fs::write(file, text).cannot(|| format!("write {file}"))?;
    let stage = Stage::new(2, &["--settings", file])?;
    stage.hosts[1]
        .ip("link set lo up\naddress add 10.9.0.1/32 dev lo\naddress add 2001:db8:9::1/128 dev lo nodad\n")?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    stage.wait_for_ping(0, "2001:db8:2::2", true)?;
    Ok(stage)
}

/// Tables move by handlers, again and again, and no ping of those that are under way is lost.
fn tables_move(stage: &Stage) -> Result<()> {
    let flood = |to| {
        let count = PINGS.to_string();
        printed(&stage.hosts[0], &["-c", &count, "-i", "0.01", "-q", to])
    };
    std::thread::scope(|scope| -> Result<()> {
        let floods = ["10.2.0.2", "2001:db8:2::2"].map(|to| scope.spawn(move || flood(to)));
        let names = ["poptrie", "radix", "linear", "range_tree"];
        for name in names.iter().cycle() {
            for element in ["rt0", "rt6_1"] {
                stage.router.write(element, "structure", name)?;
            }
            assert_eq!(structures(stage)?, [*name; 2]);
            routes_change(stage)?;
            if floods.iter().all(|flood| flood.is_finished()) {
                break;
            }
        }
        for flood in floods {
            let seen = flood.join().unwrap_or_else(|_| Err(Error::new("a flood panicked")))?;
            assert!(seen.contains(&format!("{PINGS} received")), "{seen}");
        }
        Ok(())
    })
}

#[test]
fn tables_move_while_packets_flow_and_routes_change() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let directory = tempfile::tempdir().cannot(|| "make a directory".to_owned())?;
    let file = directory.path().join("router.toml").display().to_string();
    for control in ["process", "thread"] {
        let control = format!("control = \"{control}\"\n");
        let stage = stage(&file, &format!("{control}[lookup]\nipv6 = \"radix\"\n"))?;
        assert_eq!(structures(&stage)?, ["dir24_8", "radix"]);
        tables_move(&stage)?;
        // What is wrong, or something else that cannot change, leaves them where they are.
        let before = structures(&stage)?;
        let wrong = format!("{control}[lookup]\nipv4 = \"poptri\"\n");
        reload(&stage, &file, &wrong, "the settings cannot be used; everything stays as it is")?;
        assert!(
            stage
                .router
                .process()
                .printed()?
                .contains("router.toml:3:8: error: no structure for IPv4 `poptri`; did you mean `poptrie`?")
        );
        let fixed = format!("redirects = true\n{control}[lookup]\nipv4 = \"quickest\"\n");
        reload(&stage, &file, &fixed, "the settings differ in redirects; everything stays as it is")?;
        assert_eq!(structures(&stage)?, before);
        reload(&stage, &file, &format!("{control}[lookup]\nipv4 = \"radix\"\nipv6 = \"poptrie\"\n"), TAKEN)?;
        assert_eq!(structures(&stage)?, ["radix", "poptrie"]);
        routes_change(&stage)?;
        // Nothing said is what there is without settings.
        reload(&stage, &file, &control, TAKEN)?;
        assert_eq!(structures(&stage)?, ["dir24_8", "range_tree"]);
        routes_change(&stage)?;
        stage.end()?;
    }
    Ok(())
}

/// What the last measurement found: cycles, times and sizes, which no two have alike.
fn measured(stage: &Stage) -> Result<String> {
    let text = stage.router.handler("rt0", "structure")?;
    match text.split_once('\n') {
        Some((_, costs)) if costs.contains("range_tree ") => Ok(costs.to_owned()),
        _ => Err(Error::new(format!("no measurement: {text}"))),
    }
}

#[test]
fn the_quickest_is_measured_again_when_routes_have_come_and_stays_when_the_control_side_goes() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let directory = tempfile::tempdir().cannot(|| "make a directory".to_owned())?;
    let file = directory.path().join("router.toml").display().to_string();
    let text = "[lookup]\nipv4 = \"quickest\"\nipv6 = \"poptrie\"\n";
    let stage = stage(&file, text)?;
    let empty = measured(&stage)?;
    let routes = |verb: &str| -> String {
        (0..MANY)
            .map(|n| format!("route {verb} 10.{}.{}.0/24 via 10.2.0.2\n", 100 + n / 256, n % 256))
            .collect()
    };
    let wait_for = |count: &dyn Fn(usize) -> bool| {
        wait_until("routes", lab::twins::LIMIT, || Ok(count(stage.fib()?[0]).then_some(())))
    };
    stage.inside.ip(&routes("add"))?;
    wait_for(&|count| count > MANY)?;
    let full = measured(&stage)?;
    assert_ne!(full, empty);
    routes_change(&stage)?;
    let before = structures(&stage)?;
    assert!(before[0].ends_with(" quickest") && before[1] == "poptrie", "{before:?}");
    killed_in_a_change(&stage, || stage.inside.ip("route add 10.8.0.0/16 via 10.2.0.2\n"))?;
    assert_eq!(structures(&stage)?, before);
    routes_change(&stage)?;
    stage.inside.ip(&routes("del"))?;
    wait_for(&|count| count < MANY / 8)?;
    assert_ne!(measured(&stage)?, full);
    // By a reload as well, however few have come.
    reload(&stage, &file, text, TAKEN)?;
    let few = measured(&stage)?;
    stage.inside.ip(&routes("add").lines().take(900).map(|line| format!("{line}\n")).collect::<String>())?;
    wait_for(&|count| count > 900)?;
    assert_eq!(measured(&stage)?, few);
    reload(&stage, &file, text, TAKEN)?;
    assert_ne!(measured(&stage)?, few);
    stage.end()
}

//! `routebricks router` with real routing daemons on its twins.
//!
//! The neighbours n1 and n2 have a network each: 10.101.0.0/24 and 2001:db8:101::/48, and the same with 102. All of its
//! addresses are theirs, and each is reached only if the daemons say so.

mod bgp;
mod control_side;
mod floods;
mod fpm;
mod igp;
mod restart;

use std::sync::{Mutex, MutexGuard, PoisonError};

use lab::Result;
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;

/// One test at a time: daemons, routers and probes share few processors, and some tests fill tables that the machine has
/// only once.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A router with two neighbours, which know no routes but those of their links.
fn stage(arguments: &[&str]) -> Result<Stage> {
    let stage = Stage::new(2, arguments)?;
    for (host, n) in stage.hosts.iter().zip(1..) {
        host.ip(&format!(
            "route del default\nroute del ::/0 via 2001:db8:{n}::1\n\
             route add local 10.10{n}.0.0/24 dev lo\nroute add local 2001:db8:10{n}::/48 dev lo\n\
             address add 10.10{n}.0.1/32 dev lo\naddress add 2001:db8:10{n}::1/128 dev lo nodad\n"
        ))?;
    }
    Ok(stage)
}

/// The networks of both neighbours reach each other, and packets do not pass Linux.
fn networks_reach_each_other(stage: &Stage) -> Result<()> {
    let both = [("10.101.0.1", "10.102.0.1", "next0"), ("2001:db8:101::1", "2001:db8:102::1", "next6_0")];
    for (from, to, element) in both {
        wait_until(&format!("{to} to answer {from}"), LIMIT, || {
            let words = ["-c1", "-W1", "-I", from, to];
            Ok(stage.hosts[0].output("ping", &words)?.status.success().then_some(()))
        })?;
        // Routers may still be finding out neighbours of the way back.
        wait_until(&format!("packets from {from} to {to} not to pass Linux"), LIMIT, || {
            let before = (stage.packets(element)?, stage.packets("punt0")?);
            let printed = stage.hosts[0].run("ping", &["-c100", "-i0.005", "-q", "-I", from, to])?;
            let after = (stage.packets(element)?, stage.packets("punt0")?);
            let holds =
                printed.contains("100 received") && after.0 - before.0 >= 100 && after.1 - before.1 < 50;
            Ok(holds.then_some(()))
        })?;
    }
    Ok(())
}

/// The next hop of a prefix in the table of the first port's lookup; `None` if there is no such route.
fn next_hop(stage: &Stage, prefix: &str) -> Result<Option<String>> {
    let rows = stage.router.rows("routes")?;
    let row = rows.iter().find(|row| row["prefix"] == prefix);
    Ok(row.map(|row| format!("{} {}", row["gateway"].as_str().unwrap_or("-"), row["port"])))
}

/// Waits until there is a route of this prefix, or none.
fn wait_for_route(stage: &Stage, prefix: &str, there: bool) -> Result<()> {
    let what = format!("a route to {prefix}: {there}");
    wait_until(&what, LIMIT, || Ok((next_hop(stage, prefix)?.is_some() == there).then_some(())))
}

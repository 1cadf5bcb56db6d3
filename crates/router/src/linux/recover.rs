//! Gives interfaces back that routers left which were killed with all their processes.

use super::keeper::give_back;
use super::pin::{DIRECTORY, Identity, Pin, Record, enter_first_mounts};
use ::io::say;
use control::link::link;
use nix::sched::{CloneFlags, setns};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// How often, and how far apart, it looks whether others have given back what they keep.
const LOOKS: u32 = 250;
const PAUSE: Duration = Duration::from_millis(20);
/// The command for it.
pub const COMMAND: &str = "recover";

/// Before a router starts: has a process of its own do so, if there may be something.
pub fn before_start() {
    let may_be = fs::read_dir(DIRECTORY).is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("ports-"))
    });
    if may_be && let Err(e) = Command::new("/proc/self/exe").arg(COMMAND).status() {
        say!("warning: cannot look for interfaces of killed routers: {e}");
    }
}

/// Gives everything back that no living router holds: to the network namespace that it came from; with `here`, to the current one
/// if that is gone. For a process of one thread.
///
/// # Errors
/// What to tell the user: something stays where it is.
pub fn recover(here: bool) -> Result<(), String> {
    let own = File::open("/proc/self/ns/net").map_err(|e| e.to_string())?;
    enter_first_mounts();
    wait_for_keepers();
    let mut result = Ok(());
    for pin in Pin::all() {
        let Some(record) = pin.read() else { continue };
        if record.processes.iter().any(|process| process.lives()) {
            continue;
        }
        let done = one(&pin, &record, &own, here);
        if let Err(e) = setns(&own, CloneFlags::CLONE_NEWNET) {
            return Err(format!("cannot return to the network namespace: {e}"));
        }
        match done {
            Ok(()) => pin.remove(),
            Err(e) => result = Err(e),
        }
    }
    result
}

/// Who keeps the ports of a router that was killed a moment ago is giving them back: nobody shall take them without their addresses.
fn wait_for_keepers() {
    let is_giving_back = |record: &Record| {
        let lives = || record.processes.iter().map(|process| process.lives());
        lives().any(|lives| lives) && !lives().all(|lives| lives)
    };
    for _ in 0..LOOKS {
        if !Pin::all().iter().any(|pin| pin.read().is_some_and(|record| is_giving_back(&record))) {
            return;
        }
        sleep(PAUSE);
    }
}

fn one(pin: &Pin, record: &Record, own: &File, here: bool) -> Result<(), String> {
    let names: Vec<&str> = record.ports.iter().map(|port| &port.name[..]).collect();
    let names = names.join(", ");
    let entered = File::open(pin.namespace()).map(|private| setns(&private, CloneFlags::CLONE_NEWNET));
    if !matches!(entered, Ok(Ok(()))) {
        say!("warning: a killed router left {names}, and the network namespace where they were is gone");
        return Ok(());
    }
    let from = match namespace(record.caller, own) {
        Some(from) => from,
        None if here => own.try_clone().map_err(|e| e.to_string())?,
        None if are_virtual(record) => {
            say!(
                "routebricks: {names} of a killed router went with the network namespace that they came from"
            );
            return Ok(());
        }
        None => {
            return Err(format!(
                "{names} of a killed router stay in {}: the network namespace that they came from is gone; \
                 `routebricks {COMMAND} --here` gives them to the current one",
                pin.namespace().display()
            ));
        }
    };
    say!("routebricks: giving back what a killed router left: {names}");
    give_back(&record.ports, &from)
        .map_err(|e| format!("{e}; what was not given back stays in {}", pin.namespace().display()))
}

/// True if the kernel destroys all of these ports, which are in the current namespace, with a namespace that they are in, as it
/// does with virtual ones. Others go to the first namespace.
fn are_virtual(record: &Record) -> bool {
    record.ports.iter().all(|port| link(&port.name).map_or(true, |found| !found.kind.is_empty()))
}

/// A namespace, wherever it can be found: the current one, a named one, or that of a process.
fn namespace(wanted: Identity, own: &File) -> Option<File> {
    let is_it = |file: &File| Identity::of(file).is_ok_and(|found| found == wanted);
    if is_it(own) {
        return own.try_clone().ok();
    }
    let entries = |directory: &str| fs::read_dir(Path::new(directory)).into_iter().flatten().flatten();
    let named = entries("/run/netns").map(|entry| entry.path());
    let of_processes = entries("/proc").map(|entry| entry.path().join("ns/net"));
    let candidates: Vec<PathBuf> = named.chain(of_processes).collect();
    candidates.iter().filter_map(|path| File::open(path).ok()).find(is_it)
}

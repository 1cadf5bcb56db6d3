//! What the manual tells people to type is typed, and what it says that comes of it is compared.

mod page;
mod ports;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::routebricks::{binary, conf};
use lab::{Context, Error, Result};
use page::{Shown, shown};

/// Those with commands that need network namespaces; `ports.rs` runs them.
const PORTS_PAGE: &str = "docs/operations.md";
/// What `linux_router.rs` beside this folder types, with FRR and BIRD beside it.
const LINUX_PAGE: &str = "docs/linux-control-plane.md";

/// All commands of that page; of a line that only shows what to add to a daemon's own, the line.
const LINUX_COMMANDS: &[&str] = &[
    "routebricks router",
    "routebricks router eth1 eth2",
    "routebricks router eth1 eth2 --print-config",
    "routebricks router eth1 eth2 --fpm",
    "routebricks router --settings router.toml",
    "ip route add 10.50.0.0/16 via 10.2.0.2 mtu 1300",
    "routebricks recover",
    "routebricks show routes",
    "routebricks show routes --vrf red",
    "routebricks show interfaces",
    "routebricks show punt",
    "routebricks show neighbours",
    "routebricks show elements",
    "routebricks show drops",
    "routebricks show control",
    "routebricks restart-control",
    "ip address add 10.1.0.1/24 dev eth1",
    "ip address add 10.2.0.1/24 dev eth2",
    "ip route add 10.9.0.0/16 via 10.2.0.2",
    "ip link add link eth1 name eth1.100 type vlan id 100",
    "ip link set eth1.100 up",
    "ip address add 10.100.0.1/24 dev eth1.100",
    "ip route add 10.101.0.0/16 via 10.100.0.2",
    "ip link add red type vrf table 10",
    "ip link set red up",
    "ip route add table 10 unreachable default metric 4278198272",
    "ip link set eth1.100 master red",
    "zebra -M dplane_fpm_nl …",
    "ip route add 10.9.0.0/16 via 10.2.0.2 metric 10",
    "ip route add 10.9.0.0/16 via 10.3.0.2 metric 20",
];

/// What `cluster/page.rs` beside this folder types: its section "Try it".
const CLUSTER_PAGE: &str = "docs/cluster.md";

/// Typed by `cluster/raw_links.rs`, with the node's namespace.
const CLUSTER_LOOK: &str = "nsenter --net=NAMESPACE-OF-C tcpdump -n -e -i to-a";

/// What of that page `cluster/vlans.rs` types, where Linux has VLANs and VRFs, and `linux_router` of any router.
const CLUSTER_VLANS: &[&str] = &[
    "ip link add link ext2 name ext2.100 type vlan id 100",
    "ip link set ext2.100 up",
    "ip address add 10.60.0.1/24 dev ext2.100",
    "ip link add red type vrf table 10",
    "ip link set red up",
    "ip link add link ext2 name ext2.301 type vlan id 301",
    "ip link set ext2.301 master red",
    "routebricks show interfaces",
];

/// Made of the elements' references, whose examples are tests of their own.
const MADE_PAGE: &str = "docs/elements.md";

type Holds = fn(&str) -> bool;

/// Commands, their exit codes, and what must hold for all that they print.
const COMMANDS: &[(&str, i32, Holds)] = &[
    (
        "routebricks run -e 'FastUDPSource(1000, 3, 60, 02:00:00:00:00:01, 10.0.1.2, 1234, 02:00:00:00:01:01, \
         10.0.2.2, 5678, STOP true) -> ToDump(in.pcap);'",
        0,
        str::is_empty,
    ),
    ("routebricks run -e 'FromDump(in.pcap) -> CheckIPHeader(14) -> Print -> ToDump(out.pcap);'", 0, |out| {
        out.lines().count() == 3
    }),
    ("routebricks run -e 'FromDump(in.pcap) -> c :: Counter -> Discard;' --read c.count", 0, |out| {
        out == "3\n"
    }),
    ("routebricks check -e 'FromDump(in.pcap) -> CheckIPHeadr(14) -> Discard;'", 1, |out| {
        out.starts_with("config:1:22: error: ")
    }),
    ("routebricks fmt conf/print.click", 0, |out| {
        out.contains("\n\nFromDump($FILE, STOP true) -> kind :: Classifier(12/0800, -);\nkind [0] -> check")
    }),
    ("routebricks graph conf/print.click -o print.svg", 0, str::is_empty),
    ("routebricks elements", 0, |out| {
        out.starts_with("analysis\n") && out.contains("\n  CheckIPHeader         ")
    }),
    ("routebricks elements CheckIPHeader", 0, |out| out.starts_with("CheckIPHeader: lets only packets with")),
    ("routebricks table synth --count 1000 -o routes.txt", 0, |out| {
        out == "hole: 198.18.0.0/15 (no route leads there)\n"
    }),
    ("routebricks table stat routes.txt", 0, |out| {
        out.starts_with("family     IPv4\nroutes     1000\nnext hops  1\n")
    }),
    ("routebricks doctor", 0, |out| out.contains("  huge pages of ") && out.ends_with(" bad\n")),
];

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Everything that a page shows.
fn shown_in(page: &str) -> Result<Vec<Shown>> {
    let path = root().join(page);
    Ok(shown(page, &fs::read_to_string(&path).cannot(|| format!("read {}", path.display()))?))
}

/// The manual's pages; the one for newcomers first, as the others use the files that its commands make.
fn pages() -> Result<Vec<String>> {
    let folder = root().join("docs");
    let mut pages = BTreeSet::new();
    for entry in fs::read_dir(&folder).cannot(|| format!("list {}", folder.display()))? {
        let name = entry.cannot(|| format!("list {}", folder.display()))?.file_name();
        pages.insert(format!("docs/{}", name.to_string_lossy()));
    }
    pages.retain(|page| {
        page.ends_with(".md") && ![PORTS_PAGE, LINUX_PAGE, MADE_PAGE].contains(&page.as_str())
    });
    let first = "docs/first-run.md";
    assert!(pages.remove(first), "there is no {first}");
    Ok([first.to_owned(), "README.md".to_owned()].into_iter().chain(pages).collect())
}

/// A shell in `directory`, in which `routebricks` is the binary under test.
fn shell(directory: &Path, line: &str) -> Result<Command> {
    let program = binary()?;
    let path = std::env::var("PATH").unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new("/")).display();
    let mut shell = Command::new("sh");
    // What goes to the standard error in the order in which people see it.
    shell.args(["-c", &format!("{{ {line}\n}} 2>&1"), "sh"]).current_dir(directory);
    shell.env("PATH", format!("{folder}:{path}")).env("NO_COLOR", "1").env_remove("CLICKPATH");
    Ok(shell)
}

/// Runs a line; its exit code and all that it printed.
fn typed(directory: &Path, line: &str) -> Result<(Option<i32>, String)> {
    let output = shell(directory, line)?.output().cannot(|| format!("run {line}"))?;
    Ok((output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

#[test]
fn commands_of_the_page_on_linux_are_those_that_its_own_test_types() -> Result<()> {
    for Shown { place, command, .. } in shown_in(LINUX_PAGE)? {
        assert!(
            LINUX_COMMANDS.contains(&&*command),
            "{place} shows `{command}`: type it in tests/lab/tests/linux_router"
        );
    }
    Ok(())
}

/// Whether a page shows a command in the section that `cluster/page.rs` types.
fn in_try_it(page: &str, command: &str) -> Result<bool> {
    let path = root().join(page);
    let text = fs::read_to_string(&path).cannot(|| format!("read {}", path.display()))?;
    let section = text.split("\n## ").find(|section| section.starts_with("Try it\n")).unwrap_or_default();
    Ok(section.lines().any(|line| line == command))
}

/// `routebricks cluster`, or `routebricks cluster COMMAND …` of those that there are.
fn is_cluster_command(command: &str) -> bool {
    let known = ["check", "print-config", "up", "status", "drain", "start", "reload", "down"];
    let mut words = command.split(' ').skip(1);
    words.next() == Some("cluster") && words.next().is_none_or(|word| known.contains(&word))
}

#[test]
fn commands_of_the_manual_do_what_it_says() -> Result<()> {
    let stage = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let directory = stage.path();
    symlink(conf("").canonicalize().cannot(|| "find conf".to_owned())?, directory.join("conf"))
        .cannot(|| "link conf".to_owned())?;
    let makefile = fs::read_to_string(root().join("Makefile")).cannot(|| "read Makefile".to_owned())?;
    let mut used = BTreeSet::new();
    for page in pages()? {
        for Shown { place, command, prints } in shown_in(&page)? {
            if let Some(target) = command.strip_prefix("make ") {
                // `.ci/run` makes them; here only that they are there.
                let target = target.split(' ').next().unwrap_or(target);
                assert!(makefile.contains(&format!("\n{target}: ")), "{place}");
                continue;
            }
            // Of one within the text only that there is such a thing.
            if page == CLUSTER_PAGE && (in_try_it(&page, &command)? || is_cluster_command(&command)) {
                continue;
            }
            if page == CLUSTER_PAGE && (CLUSTER_VLANS.contains(&&*command) || command == CLUSTER_LOOK) {
                continue;
            }
            if command == "export PATH=$PWD/target/release:$PATH" {
                continue;
            }
            let known = COMMANDS.iter().find(|(text, ..)| *text == command);
            if known.is_none() && command.split(' ').count() == 2 {
                let (code, out) = typed(directory, &format!("{command} --help"))?;
                assert_eq!(code, Some(0), "{place}: {command}: {out}");
                continue;
            }
            let Some((_, expected, holds)) = known else {
                panic!("{place} shows `{command}`, which no test runs: add it to {}", file!());
            };
            let (code, out) = typed(directory, &command)?;
            assert_eq!(code, Some(*expected), "{place}: {command}: {out}");
            assert!(holds(&out), "{place}: {command}: {out}");
            if let Some(prints) = prints {
                assert_eq!(out, prints, "{place}: {command}");
            }
            used.insert(command);
        }
    }
    for (command, ..) in COMMANDS {
        assert!(used.contains(*command), "no page shows `{command}` any more");
    }
    let file = |name: &str| fs::read(directory.join(name)).cannot(|| format!("read {name}"));
    assert!(file("print.svg")?.starts_with(b"<svg "));
    assert_eq!(file("in.pcap")?, file("out.pcap")?);
    assert_eq!(file("routes.txt")?.iter().filter(|octet| **octet == b'\n').count(), 1000);
    Ok(())
}

/// The first lines of every configuration say how to run it; with these arguments it must be sound.
#[test]
fn configurations_take_the_arguments_that_they_show() -> Result<()> {
    let stage = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let directory = stage.path();
    symlink(conf("").canonicalize().cannot(|| "find conf".to_owned())?, directory.join("conf"))
        .cannot(|| "link conf".to_owned())?;
    fs::write(directory.join("routes.txt"), "10.0.0.0/8 0\n").cannot(|| "write routes.txt".to_owned())?;
    for entry in fs::read_dir(conf("")).cannot(|| "list conf".to_owned())? {
        let path = entry.cannot(|| "list conf".to_owned())?.path();
        if !path.is_file() {
            continue;
        }
        let text = fs::read_to_string(&path).cannot(|| format!("read {}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = format!("conf/{name}");
        let command =
            text.lines().find(|line| line.starts_with("//   routebricks run ") && line.contains(&file));
        let Some(command) = command else { panic!("{name} does not say how to run it") };
        let values: Vec<&str> = command.split_whitespace().filter(|word| word.contains('=')).collect();
        for value in &values {
            let variable = value.split('=').next().unwrap_or_default();
            assert!(text.contains(&format!("${variable} ")), "{name}: there is no ${variable}");
        }
        let check = format!("routebricks check {file} {}", values.join(" "));
        let (code, out) = typed(directory, &check)?;
        assert_eq!(code, Some(0), "{name}: {check}: {out}");
    }
    Ok(())
}

//! The page for operators: its commands in network namespaces, the names of ports, the requests.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lab::netns::{self, Namespace};
use lab::packets::Mac;
use lab::routebricks::{Launch, Routebricks, binary};
use lab::router::Router;
use lab::veth::{self, End};
use lab::{Context, Error, Result, trace};

use crate::page::{Shown, code};
use crate::{PORTS_PAGE, root, shown_in, typed};

/// A router's namespace with ports `eth1` and `eth2`, and the host at the other ends.
struct Network {
    router: Namespace,
    host: Namespace,
    directory: tempfile::TempDir,
}

impl Network {
    fn build() -> Result<Network> {
        let (router, host) = (Namespace::unique("router")?, Namespace::unique("host")?);
        let end = |namespace, interface, number| End {
            namespace,
            interface,
            mac: Mac([2, 0, 0, 0, 0, number]),
            mtu: 1500,
        };
        veth::connect(&[
            (end(&router, "eth1", 1), end(&host, "eth0", 2)),
            (end(&router, "eth2", 3), end(&host, "eth9", 4)),
        ])?;
        let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
        trace::write(&directory.path().join("in.pcap"), [&[0x5a_u8; 60][..]].into_iter())?;
        Ok(Network { router, host, directory })
    }

    fn start(&self, arguments: &[&str]) -> Result<Routebricks> {
        let launch = Launch::conf("forward.click", &[])?;
        let arguments = arguments.iter().map(|&word| word.to_owned()).collect();
        Routebricks::start(&self.router, Launch { arguments, ..launch }, self.directory.path())
    }

    /// Starts a router with the arguments of a command, `run conf/…`.
    fn start_shown(&self, command: &str) -> Result<Routebricks> {
        let root = root().display().to_string();
        let path = |word: &str| match word.strip_prefix("conf/") {
            Some(file) => format!("{root}/conf/{file}"),
            None => word.to_owned(),
        };
        let words: Vec<String> = command.split_whitespace().skip(1).map(path).collect();
        self.start(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

fn stop(mut router: Routebricks) -> Result<()> {
    for check in router.stop()? {
        // Nothing may have come in, so the books need not be more than empty.
        assert!(check.holds || check.name == "its books at the end", "{check:?}");
    }
    Ok(())
}

#[test]
fn commands_for_operators_do_what_they_say() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let network = Network::build()?;
    let mut running: Option<Routebricks> = None;
    for Shown { place, command, prints } in shown_in(PORTS_PAGE)? {
        let within =
            |text: &str| text.replace("HOST", network.host.name()).replace("ROUTER", network.router.name());
        if command.starts_with("routebricks run ") {
            running.take().map_or(Ok(()), stop)?;
            running = Some(network.start_shown(&command).cannot(|| place.clone())?);
        } else if let Some(what) = command.strip_prefix("routebricks show ") {
            let Some(router) = &running else { panic!("{place}: no router runs") };
            let out = show(router, what, network.directory.path())?;
            let expected: &[&str] = match what {
                "interfaces" => &["\neth1  ", "\neth2  "],
                "elements" | "runtime" => &["\nFromDPDKDevice@1  ", "\nToDPDKDevice@4  "],
                "drops" => &["element  class  reason  packets\n"],
                "punt" => &["element  port  kind  passed  lost  limit/s\n"],
                "routes" => &["element  VRF  prefix  gateway  port  interface  MTU\n"],
                "neighbours" => &["element  address  MAC  interface  state\n"],
                "control" => &["runs as  state  process  for s  restarts  messages  "],
                _ => panic!("{place}: {command}"),
            };
            assert!(expected.iter().all(|text| out.contains(text)), "{place}: {command}: {out}");
        } else if command == "routebricks top" {
            let out = typed(network.directory.path(), "routebricks top --once --interval 0.2")?;
            // It finds a router by itself, but here others may run: then it says so and names them.
            assert!(out.0 == Some(0) || out.1.contains("--pid"), "{place}: {out:?}");
        } else if command == "routebricks doctor" {
            assert_eq!(typed(network.directory.path(), &command)?.0, Some(0), "{place}");
        } else if let Some(variable) = command.strip_prefix("sysctl -w vm.nr_hugepages=") {
            // The machine's pages are not this test's to change: the figure that is there is set, where that may be.
            assert_eq!(variable, "512", "{place}");
            let file = "/proc/sys/vm/nr_hugepages";
            let now = fs::read_to_string(file).cannot(|| format!("read {file}"))?;
            if fs::OpenOptions::new().write(true).open(file).is_ok() {
                run(&place, &command.replace(variable, now.trim()))?;
            }
        } else if command.starts_with("grep Huge ") {
            assert!(!run(&place, &command)?.is_empty(), "{place}: {command}");
        } else if command.starts_with("ip netns exec ") {
            // ethtool speaks only of what changed unasked.
            run(&place, &within(&command))?;
        } else {
            panic!("{place} shows `{command}`, which no test runs: add it to {}", file!());
        }
        assert_eq!(prints, None, "{place}: what is printed is not compared here");
    }
    let Some(router) = running else { panic!("{PORTS_PAGE} starts no router") };
    requests(&network)?;
    stop(router)
}

/// Runs a line that must succeed; what it printed.
fn run(place: &str, line: &str) -> Result<String> {
    netns::succeed(Command::new("sh").args(["-c", line])).cannot(|| place.to_owned())
}

fn show(router: &Routebricks, what: &str, runtime: &Path) -> Result<String> {
    let mut command = netns::command(binary()?);
    command.args(["show", what, "--pid", &router.process().id().to_string()]).env("XDG_RUNTIME_DIR", runtime);
    netns::succeed(&mut command)
}

/// The requests of the page's table, sent to the router that serves on port 8080.
fn requests(network: &Network) -> Result<()> {
    let page = fs::read_to_string(root().join(PORTS_PAGE)).cannot(|| format!("read {PORTS_PAGE}"))?;
    let mut sent = 0;
    for line in page.lines().filter(|line| line.starts_with("| `GET ") || line.starts_with("| `PUT ")) {
        let mut words = code(line);
        let first = words.next().unwrap_or_default();
        let others = words.map(|name| format!("GET /api/{name}"));
        for request in std::iter::once(first.to_owned()).chain(others) {
            let body = if request.starts_with("PUT ") { "true" } else { "" };
            let request = request.replace("ELEMENT/NAME", "FromDPDKDevice@1/active");
            let answer = network.router.inside(|| http(&request, body))?;
            let expected =
                if body.is_empty() { "HTTP/1.1 200 OK\r\n" } else { "HTTP/1.1 204 No Content\r\n" };
            assert!(answer.starts_with(expected), "{request}: {answer}");
            sent += 1;
        }
    }
    assert_eq!(sent, 9);
    Ok(())
}

fn http(request: &str, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect("127.0.0.1:8080").cannot(|| "connect to port 8080".to_owned())?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).cannot(|| "set a time limit".to_owned())?;
    let length = body.len();
    let head = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).cannot(|| format!("send {request}"))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).cannot(|| format!("read the answer to {request}"))?;
    Ok(answer)
}

/// The names of the table of ports, and the arguments for EAL.
#[test]
fn ports_have_the_names_that_the_manual_says() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let network = Network::build()?;
    let page = fs::read_to_string(root().join(PORTS_PAGE)).cannot(|| format!("read {PORTS_PAGE}"))?;
    let rows = page.lines().skip_while(|line| *line != "| Name | Port | Remarks |").skip(2);
    let mut opened = 0;
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cell = row.split('|').nth(1).unwrap_or_default();
        // There is no such PCI device here.
        for name in code(cell).filter(|name| *name != "0000:3b:00.0") {
            let folder = network.directory.path().display();
            let name = name.replace("in.pcap", &format!("{folder}/in.pcap"));
            let name = name.replace("out.pcap", &format!("{folder}/out.pcap"));
            let text = format!("FromDPDKDevice({name}) -> ToDPDKDevice({name});");
            let eal: &[&str] = if name == "0" { &["--", "--vdev=net_null0"] } else { &[] };
            let router = network.start(&[&["run", "-e", &text][..], eal].concat()).cannot(|| name.clone())?;
            stop(router)?;
            opened += 1;
        }
    }
    assert_eq!(opened, 9);
    let eal = page.lines().find(|line| line.starts_with("--no-huge "));
    let Some(eal) = eal else { panic!("{PORTS_PAGE} has no line of arguments for EAL") };
    stop(network.start_shown(&format!("routebricks run conf/forward.click A=eth1 B=eth2 -- {eal}"))?)
}

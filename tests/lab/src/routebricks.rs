//! Our router: the `routebricks` binary in the router's namespace.

use std::collections::BTreeMap;
use std::env;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use serde_json::Value;

use crate::checks::Check;
use crate::netns::{self, Namespace};
use crate::process::Process;
use crate::router::Router;
use crate::topology::Topology;
use crate::{Context, Error, Result};

/// How long it may take to end after SIGTERM.
const END: Duration = Duration::from_secs(10);
/// How long it may take to read a million routes and open its ports.
const START: Duration = Duration::from_secs(60);
/// What it prints at the end when every packet buffer is back in its pool.
const NO_LEAK: &str = "0 buffers missing";
/// The environment variable that names the binary.
const VARIABLE: &str = "ROUTEBRICKS";
/// The environment variable that names an ordinary user's directory for sockets.
const RUNTIME: &str = "XDG_RUNTIME_DIR";

/// How to start it.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The binary.
    pub program: PathBuf,
    /// What starts it, if something does, such as `env NAME=VALUE`.
    pub starter: Vec<String>,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// It is ready when it has printed a line that contains this.
    pub ready: String,
    /// How long that may take.
    pub limit: Duration,
    /// Arguments with which the same binary, run beside it, prints its counters: a list for each table. `--pid` and
    /// its process id are put behind each.
    pub show: Vec<Vec<String>>,
}

impl Launch {
    /// The file `name` of `conf/`, unchanged, with values for its variables (`NAME=value`) and other arguments of
    /// `run`.
    ///
    /// # Errors
    /// If there is no binary.
    pub fn conf(name: &str, arguments: &[&str]) -> Result<Launch> {
        let file = conf(name).display().to_string();
        let words = [&["run", file.as_str()], arguments].concat();
        Ok(Launch {
            program: binary()?,
            starter: Vec::new(),
            arguments: words.into_iter().map(str::to_owned).collect(),
            ready: "routebricks: ready:".to_owned(),
            limit: START,
            show: Vec::new(),
        })
    }

    /// A router of `conf/` at all ports of a topology, with its routes from a file.
    ///
    /// # Errors
    /// If there is no binary.
    pub fn router(name: &str, topology: &Topology, routes: &Path) -> Result<Launch> {
        let mut words = vec![format!("TABLE={}", routes.display())];
        words.extend(topology.links().map(|link| format!("DEV{}={}", link.port, link.router_interface())));
        Launch::conf(name, &words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The same with more arguments.
    #[must_use]
    pub fn with(mut self, arguments: &[&str]) -> Launch {
        self.arguments.extend(arguments.iter().map(|&word| word.to_owned()));
        self
    }

    /// The same, with `routebricks show WHAT` for each of `tables` as its counters.
    #[must_use]
    pub fn showing(mut self, tables: &[&str]) -> Launch {
        self.show = tables.iter().map(|what| vec!["show".to_owned(), (*what).to_owned()]).collect();
        self
    }
}

/// The path of a file of `conf/`.
pub fn conf(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf").join(name)
}

/// A running `routebricks` process.
#[derive(Debug)]
pub struct Routebricks {
    launch: Launch,
    process: Process,
    /// Where an ordinary user's routers have their sockets.
    runtime: PathBuf,
}

impl Routebricks {
    /// Starts it and waits until it is ready. Its log is `DIRECTORY/routebricks.log`.
    pub fn start(namespace: &Namespace, launch: Launch, directory: &Path) -> Result<Routebricks> {
        let program = launch.program.display().to_string();
        let command = match launch.starter.split_first() {
            Some((starter, rest)) => {
                let mut command = namespace.command(starter);
                command.args(rest).arg(program);
                command
            }
            None => namespace.command(&program),
        };
        Routebricks::spawn(command, launch, directory)
    }

    /// Starts it outside any namespace, without its starter, and waits until it is ready.
    pub fn start_here(launch: Launch, directory: &Path) -> Result<Routebricks> {
        Routebricks::spawn(netns::command(&launch.program), launch, directory)
    }

    fn spawn(mut command: Command, launch: Launch, directory: &Path) -> Result<Routebricks> {
        let runtime = directory.to_owned();
        command.args(&launch.arguments).env(RUNTIME, &runtime);
        let mut process = Process::spawn(command, "routebricks", directory)?;
        process.wait_for_line(&launch.ready, launch.limit)?;
        Ok(Routebricks { launch, process, runtime })
    }

    /// The rows of one of its tables: `routebricks show WHAT --json`.
    pub fn rows(&self, what: &str) -> Result<Vec<Value>> {
        let printed = self.beside(&["show".to_owned(), what.to_owned(), "--json".to_owned()])?;
        let mut table: Value = serde_json::from_str(&printed).cannot(|| format!("read the table {what}"))?;
        match table["rows"].take() {
            Value::Array(rows) => Ok(rows),
            _ => Err(Error::new(format!("the table {what} has no rows"))),
        }
    }

    /// What there is to see of its control side.
    pub fn control(&self) -> Result<Value> {
        let row = self.rows("control")?.into_iter().next();
        row.ok_or_else(|| Error::new("there is no control side"))
    }

    /// `routebricks restart-control`: what it prints.
    pub fn restart_control(&self) -> Result<String> {
        self.beside(&["restart-control".to_owned()])
    }

    /// Packets lost so far, by element and reason: `element.reason`.
    pub fn losses(&self) -> Result<BTreeMap<String, u64>> {
        let loss = |row: &Value| Some((row["loss"].as_str()?.to_owned(), row["packets"].as_u64()?));
        Ok(self.rows("drops")?.iter().filter_map(loss).filter(|(_, packets)| *packets > 0).collect())
    }

    /// What a handler says, such as `rt0.count`, asked by the router's own socket: quicker than a process.
    pub fn handler(&self, element: &str, handler: &str) -> Result<String> {
        self.ask("GET", element, handler, "")
    }

    /// Writes a value to a handler in the same way.
    pub fn write(&self, element: &str, handler: &str, value: &str) -> Result<()> {
        self.ask("PUT", element, handler, value).map(drop)
    }

    /// One of its tables by the same socket, for example `control`: `/api/WHAT`.
    pub fn api(&self, what: &str) -> Result<Value> {
        let text = self.request("GET", &format!("/api/{what}"), "")?;
        serde_json::from_str(&text).cannot(|| format!("read /api/{what}"))
    }

    fn ask(&self, method: &str, element: &str, handler: &str, value: &str) -> Result<String> {
        self.request(method, &format!("/handlers/{element}/{handler}"), value)
    }

    fn request(&self, method: &str, url: &str, value: &str) -> Result<String> {
        let name = format!("routebricks/{}.sock", self.process.id());
        let root = nix::unistd::geteuid().is_root();
        let path = if root { Path::new("/run").join(name) } else { self.runtime.join(name) };
        let what = || format!("{method} {url}");
        let mut socket = UnixStream::connect(&path).cannot(what)?;
        let length = value.len();
        let request = format!(
            "{method} {url} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n{value}"
        );
        socket.write_all(request.as_bytes()).cannot(what)?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).cannot(what)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        match head.starts_with("HTTP/1.1 2") {
            true => Ok(body.trim_end().to_owned()),
            false => Err(Error::new(format!("{url}: {answer}"))),
        }
    }

    /// What the same binary, run beside it with `--pid`, prints.
    pub fn beside(&self, arguments: &[String]) -> Result<String> {
        let mut command = netns::command(&self.launch.program);
        let id = self.process.id().to_string();
        command.args(arguments).args(["--pid", &id]).env(RUNTIME, &self.runtime);
        netns::succeed(&mut command)
    }

    /// The running process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Kills it: it has no time to clean up.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// What it said of its buffers and their memory when it was ready.
    pub fn memory(&self) -> String {
        let printed = self.process.printed().unwrap_or_default();
        let line = printed.lines().find(|line| line.contains(&self.launch.ready));
        line.unwrap_or("nothing said").to_owned()
    }

    fn ending(&self, status: ExitStatus) -> Result<Vec<Check>> {
        let printed = self.process.printed()?;
        let seen = printed.lines().rev().find(|line| line.contains("buffers missing"));
        let leak = Check::that(
            "packet buffers at the end",
            NO_LEAK,
            seen.map_or("nothing said", |line| line.rsplit(", ").next().unwrap_or(line)).trim(),
            seen.is_some_and(|line| {
                line.trim_start().starts_with(NO_LEAK) || line.contains(&format!(" {NO_LEAK}"))
            }),
        );
        let mut checks = vec![Check::same("how the router ended", "exit status: 0", status), leak];
        checks.extend(seen.and_then(|line| balance("its books at the end", line)));
        Ok(checks)
    }
}

/// `A packets in, B out, C lost, D held`: whether the books balance.
pub(crate) fn balance(name: &str, line: &str) -> Option<Check> {
    let figure = |behind: &str| {
        let before = line.split_once(behind)?.0;
        before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    let (entered, left) = (figure(" packets in")?, figure(" out")?);
    let (lost, held) = (figure(" lost")?, figure(" held")?);
    let seen = format!("{entered} in, {left} out, {lost} lost, {held} held");
    let holds = entered == left + lost + held && entered > 0;
    Some(Check::that(name, "in = out + lost + held", seen, holds))
}

impl Router for Routebricks {
    fn title(&self) -> &str {
        "routebricks"
    }

    fn live_table(&mut self) -> Result<Option<String>> {
        let tables: Vec<String> =
            self.launch.show.iter().map(|arguments| self.beside(arguments)).collect::<Result<_>>()?;
        Ok((!tables.is_empty()).then(|| tables.join("\n")))
    }

    fn losses(&self) -> Result<Option<BTreeMap<String, u64>>> {
        Routebricks::losses(self).map(Some)
    }

    fn stop(&mut self) -> Result<Vec<Check>> {
        let status = self.process.terminate(END)?;
        self.ending(status)
    }
}

/// The binary: `$ROUTEBRICKS`, or the newest build beside the running program's own.
///
/// # Errors
/// If there is none; says how to get one.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = env::var_os(VARIABLE).map(PathBuf::from) {
        let missing = || Error::new(format!("{VARIABLE} is {}, which is no file", path.display()));
        return if path.is_file() { Ok(path) } else { Err(missing()) };
    }
    let own = env::current_exe().unwrap_or_default();
    // The program is target/PROFILE/NAME, a test target/PROFILE/deps/NAME.
    let target = own
        .ancestors()
        .skip(1)
        .find(|path| path.join("../release").exists() || path.join("../debug").exists());
    let builds = target.into_iter().flat_map(|path| {
        ["release", "debug"].map(|profile| path.join("..").join(profile).join("routebricks"))
    });
    let changed = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    builds.filter(|path| path.is_file()).max_by_key(changed).ok_or_else(|| {
        Error::new(format!(
            "there is no routebricks binary: build it (cargo build -p router --features dpdk) or set {VARIABLE}"
        ))
    })
}

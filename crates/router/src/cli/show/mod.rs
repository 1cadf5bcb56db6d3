//! `show`: looks into a running router.

mod columns;
mod texts;

use super::{Done, Output, failed, json_rows};
use crate::api::{client::Client, socket};
use crate::config::Reported;
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// What to look at
    #[arg(value_enum)]
    what: What,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// The router with this process number, if several are running
    #[arg(long, conflicts_with = "socket")]
    pid: Option<u32>,

    /// The router with this Unix socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Print again every second
    #[arg(long)]
    watch: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Ports: link, packets and bytes, what devices lost
    Interfaces,
    /// Elements: class, ports, worker, configuration
    Elements,
    /// Where calls, packets and cycles go
    Runtime,
    /// Packets lost, by element and reason
    Drops,
    /// Routes of the lookup elements
    #[value(alias = "fib")]
    Routes,
    /// Link-layer addresses of neighbours
    Neighbours,
}

/// Between two pictures of `--watch`.
const EVERY: Duration = Duration::from_secs(1);
/// Cursor to the upper left corner, and nothing on the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Asks the router, and prints what it says.
pub fn show(args: &ShowArgs) -> Done {
    let client = Client::new(find(args)?);
    loop {
        let text = picture(args, &client).map_err(failed)?;
        let mut out = Output::stdout();
        if args.watch && !args.json {
            out.text(CLEAR);
        }
        out.text(&text);
        let open = out.is_open();
        out.done()?;
        if !args.watch || !open {
            return Ok(());
        }
        std::thread::sleep(EVERY);
    }
}

fn picture(args: &ShowArgs, client: &Client) -> Result<String, String> {
    let (name, columns) = match args.what {
        What::Interfaces => ("interfaces", columns::INTERFACES),
        What::Elements => ("elements", columns::ELEMENTS),
        What::Runtime => ("runtime", columns::RUNTIME),
        What::Drops => ("drops", columns::DROPS),
        What::Routes => ("routes", columns::ROUTES),
        What::Neighbours => ("neighbours", columns::NEIGHBOURS),
    };
    let rows = match args.what {
        What::Routes => texts::routes(client)?,
        What::Neighbours => texts::neighbours(client)?,
        _ => client.table(&format!("/api/{name}"))?,
    };
    if args.json {
        return Ok(json_rows(name, &rows));
    }
    let heading: Vec<&str> = columns.iter().map(|c| c.heading).collect();
    let cells = |row: &Value| columns.iter().map(|c| (c.cell)(row)).collect();
    Ok(super::columns(&heading, &rows.iter().map(cells).collect::<Vec<_>>()))
}

/// The socket of the router that is meant: the only one, unless one is named.
fn find(args: &ShowArgs) -> Result<PathBuf, Reported> {
    if let Some(path) = &args.socket {
        return Ok(path.clone());
    }
    let Some(directory) = socket::directory() else {
        return Err(failed("no router found: XDG_RUNTIME_DIR is not set; name its socket with --socket"));
    };
    choose(&socket::running(&directory), args.pid).map_err(|e| {
        let advice = match nix::unistd::geteuid().is_root() {
            true => "",
            false => "; a router that root runs is seen by root only",
        };
        failed(format_args!("{e} (looked in {}){advice}", directory.display()))
    })
}

fn choose(running: &[(u32, PathBuf)], pid: Option<u32>) -> Result<PathBuf, String> {
    let list = || running.iter().map(|(pid, _)| pid.to_string()).collect::<Vec<_>>().join(", ");
    match (running, pid) {
        ([], _) => Err("no router is running".to_owned()),
        (_, Some(pid)) => match running.iter().find(|(p, _)| *p == pid) {
            Some((_, path)) => Ok(path.clone()),
            None => Err(format!("process {pid} is not a running router; there are: {}", list())),
        },
        ([(_, path)], None) => Ok(path.clone()),
        (_, None) => Err(format!("several routers are running: choose one with --pid: {}", list())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_router_that_is_meant() {
        let one = [(7, PathBuf::from("7.sock"))];
        let two = [(7, PathBuf::from("7.sock")), (9, PathBuf::from("9.sock"))];
        assert_eq!(choose(&[], None), Err("no router is running".to_owned()));
        assert_eq!(choose(&one, None), Ok("7.sock".into()));
        assert_eq!(choose(&two, Some(9)), Ok("9.sock".into()));
        let several = "several routers are running: choose one with --pid: 7, 9";
        assert_eq!(choose(&two, None), Err(several.to_owned()));
        let wrong = "process 8 is not a running router; there are: 7, 9";
        assert_eq!(choose(&two, Some(8)), Err(wrong.to_owned()));
    }
}

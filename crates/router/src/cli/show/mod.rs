//! `show`: looks into a running router.

mod columns;
mod interfaces;
mod texts;

use super::which::Which;
use super::{Done, Output, failed, json_rows};
use crate::api::client::Client;
use clap::error::ErrorKind;
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::io::IsTerminal;
use std::time::Duration;

/// Arguments of `show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// What to look at
    #[arg(value_enum)]
    what: What,

    /// Of routes, only those of this VRF; `main` = those outside all VRFs
    #[arg(long, value_name = "NAME")]
    vrf: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    router: Which,

    /// Print again every second
    #[arg(long)]
    watch: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Ports and VLANs: link, packets and bytes, what devices lost
    Interfaces,
    /// Elements: class, ports, worker, configuration
    Elements,
    /// Where calls, packets and cycles go
    Runtime,
    /// Packets lost, by element and reason
    Drops,
    /// Packets for Linux, by port and kind: passed, lost, and the limit
    Punt,
    /// Routes of the lookup elements
    #[value(alias = "fib")]
    Routes,
    /// Link-layer addresses of neighbours
    Neighbours,
    /// The control side of `routebricks router`: its process, since when, how often it was started again
    Control,
}

/// Between two pictures of `--watch`.
const EVERY: Duration = Duration::from_secs(1);
/// Cursor to the upper left corner, and nothing on the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Asks the router, and prints what it says.
pub fn show(args: &ShowArgs) -> Done {
    if args.vrf.is_some() && args.what != What::Routes {
        let message = "--vrf is for `show routes`";
        super::command().error(ErrorKind::ArgumentConflict, message).exit();
    }
    let client = args.router.client()?;
    loop {
        let text = picture(args, &client).map_err(failed)?;
        let mut out = Output::stdout();
        if args.watch && !args.json && std::io::stdout().is_terminal() {
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
        What::Punt => ("punt", columns::PUNT),
        What::Routes => ("routes", columns::ROUTES),
        What::Neighbours => ("neighbours", columns::NEIGHBOURS),
        What::Control => ("control", columns::CONTROL),
    };
    let rows = match args.what {
        What::Punt => texts::punt(client)?,
        What::Interfaces => interfaces::interfaces(client)?,
        What::Routes => texts::routes(client, args.vrf.as_deref())?,
        What::Neighbours => texts::neighbours(client)?,
        _ => client.table(&format!("/api/{name}"))?,
    };
    if args.json {
        return Ok(json_rows(name, &rows));
    }
    let is_counted = matches!(args.what, What::Routes) && rows.iter().any(|row| !row["packets"].is_null());
    let columns = || columns.iter().chain(if is_counted { columns::ROUTE_COUNTS } else { &[] });
    let heading: Vec<&str> = columns().map(|c| c.heading).collect();
    let cells = |row: &Value| columns().map(|c| (c.cell)(row)).collect();
    Ok(super::columns(&heading, &rows.iter().map(cells).collect::<Vec<_>>()))
}

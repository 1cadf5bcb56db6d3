//! `table`: routing tables as files. A file is text, one `prefix [gateway] port` a line, or an MRT dump (RFC 6396).

use super::{Done, Output, columns, failed, json_rows};
use crate::config::{Reported, reason};
use clap::{Args, Subcommand, ValueEnum};
use fib::{
    Address, Family, MrtDump, NextHop, ReadError, RouteFile, RouteFileErrors, Synth, TableStat, read_mrt,
    stat4, stat6, synth, write_mrt,
};
use io::say;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Commands on tables.
#[derive(Debug, Subcommand)]
pub enum TableCommand {
    /// Make up a table with the lengths and the nesting of the real one
    Synth(SynthArgs),
    /// Say what a table is like
    Stat(StatArgs),
    /// Convert between text and MRT dumps (FILE.mrt)
    Convert(ConvertArgs),
}

/// Arguments of `table synth`.
#[derive(Debug, Args)]
pub struct SynthArgs {
    /// Routes
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    count: usize,

    /// The same seed gives the same table
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// IP version
    #[arg(long, value_enum, default_value_t = Version::Four)]
    family: Version,

    /// Where routes lead, such as 10.0.2.2@1 (gateway and port) or -@0 (no gateway); may be given several times
    #[arg(long = "next-hop", value_name = "GATEWAY@PORT", value_parser = next_hop)]
    #[arg(default_value = "-@0", allow_hyphen_values = true)]
    next_hops: Vec<NextHop>,

    /// Where to put it, instead of standard output; FILE.mrt makes a dump
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Version {
    #[value(name = "4")]
    Four,
    #[value(name = "6")]
    Six,
}

/// Arguments of `table stat`.
#[derive(Debug, Args)]
pub struct StatArgs {
    /// The table
    file: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `table convert`.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// The table to read
    input: PathBuf,

    /// The table to write; FILE.mrt makes a dump, - is standard output
    output: PathBuf,

    /// Output port of routes that do not name one, as those of dumps
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u32,
}

/// Does what the command says.
pub fn table(command: &TableCommand) -> Done {
    match command {
        TableCommand::Synth(args) => make(args),
        TableCommand::Stat(args) => stat(args),
        TableCommand::Convert(args) => write(&read(&args.input, args.port)?, Some(&args.output)),
    }
}

/// `10.0.2.2@1`, `-@0`.
fn next_hop(text: &str) -> Result<NextHop, String> {
    let wrong = || "a gateway and a port, such as 10.0.2.2@1, or -@0 without gateway".to_owned();
    let (gateway, port) = text.split_once('@').ok_or_else(wrong)?;
    let gateway: Option<IpAddr> = match gateway {
        "-" => None,
        address => Some(address.parse().map_err(|_| wrong())?),
    };
    // As in files of routes: an address of zeros is none, and a port has no sign.
    let gateway = gateway.filter(|address| !address.is_unspecified());
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    Ok(NextHop { gateway, port: port.parse().ok().filter(|_| digits).ok_or_else(wrong)? })
}

fn make(args: &SynthArgs) -> Done {
    let (file, hole) = match args.family {
        Version::Four => {
            let Synth { routes, hole } = made(args)?;
            (RouteFile { v4: routes, ..RouteFile::default() }, hole.to_string())
        }
        Version::Six => {
            let Synth { routes, hole } = made(args)?;
            (RouteFile { v6: routes, ..RouteFile::default() }, hole.to_string())
        }
    };
    write(&file, args.output.as_deref())?;
    say!("hole: {hole} (no route leads there)");
    Ok(())
}

/// The table of one family. Gateways of the other are refused, as the elements that look routes up do.
fn made<A: Address>(args: &SynthArgs) -> Result<Synth<A>, Reported> {
    let gateways = args.next_hops.iter().filter_map(|hop| Some((hop.gateway?, hop.port)));
    if let Some((gateway, port)) = gateways.into_iter().find(|(gateway, _)| A::from_ip(*gateway).is_none()) {
        let number = match A::FAMILY {
            Family::Ipv4 => 4,
            Family::Ipv6 => 6,
        };
        return Err(failed(format_args!(
            "--next-hop {gateway}@{port}: the gateway is not an {} address, as it must be with --family {number}",
            A::FAMILY
        )));
    }
    synth(args.count, args.seed, &args.next_hops).map_err(failed)
}

fn is_dump(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("mrt"))
}

fn write(file: &RouteFile, to: Option<&Path>) -> Done {
    let mut out = Output::to(to)?;
    if to.is_some_and(is_dump) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        // Dumps have 32 bits for the time (RFC 6396 §2), which suffice until 2106.
        let now = u32::try_from(now).unwrap_or(u32::MAX);
        out.bytes(|to| write_mrt(to, file, now));
    } else {
        out.bytes(|to| file.write(to));
    }
    out.done()
}

fn read(path: &Path, port: u32) -> Result<RouteFile, Reported> {
    let shown = path.display();
    let bytes = RouteFile::unpacked(path).map_err(|e| match e {
        ReadError::Io(e) => failed(format_args!("cannot read {shown}: {}", reason(&e))),
        e => failed(format_args!("{shown}: {e}")),
    })?;
    // A record of a dump begins with a time and its type, 13; a text has no such control characters.
    if bytes.get(4..6) == Some(&[0, 13]) || is_dump(path) {
        let dump = read_mrt(bytes.as_slice(), port).map_err(|e| failed(format_args!("{shown}: {e}")))?;
        if let Some(passed_over) = passed_over(&dump) {
            say!("note: {shown}: passed over {passed_over}");
        }
        return Ok(dump.routes);
    }
    RouteFile::parse(&bytes, Some(port)).map_err(|RouteFileErrors { first, total }| {
        for wrong in &first {
            say!("{shown}:{}: error: {}", wrong.line, wrong.error);
        }
        if total > first.len() {
            say!("... and {} more lines with errors", total - first.len());
        }
        Reported
    })
}

/// What of a dump gave no route, if there is some.
fn passed_over(dump: &MrtDump) -> Option<String> {
    let counted = |count: usize, one: &str, many: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {many}")),
    };
    let records = counted(
        dump.other_records,
        "record that holds no unicast routes",
        "records that hold no unicast routes",
    );
    let prefixes = counted(dump.without_next_hop, "prefix without a next hop", "prefixes without a next hop");
    let all: Vec<String> = records.into_iter().chain(prefixes).collect();
    (!all.is_empty()).then(|| all.join(" and "))
}

fn stat(args: &StatArgs) -> Done {
    let file = read(&args.file, 0)?;
    let mut stats = Vec::new();
    if !file.v4.is_empty() || file.v6.is_empty() {
        stats.push(stat4(&file.v4).map_err(failed)?);
    }
    if !file.v6.is_empty() {
        stats.push(stat6(&file.v6).map_err(failed)?);
    }
    let mut out = Output::stdout();
    if args.json {
        let rows: Result<Vec<_>, _> = stats.iter().map(serde_json::to_value).collect();
        out.text(&json_rows("table", &rows.map_err(failed)?));
    } else {
        let texts: Vec<String> = stats.iter().map(describe).collect();
        out.text(&texts.join("\n"));
    }
    out.done()
}

fn describe(stat: &TableStat) -> String {
    let mut out = String::new();
    let share = |part: usize| if stat.routes == 0 { 0.0 } else { part as f64 * 100.0 / stat.routes as f64 };
    let _ = writeln!(out, "family     {}", stat.family);
    let _ = writeln!(out, "routes     {}", stat.routes);
    let _ = writeln!(out, "next hops  {}", stat.next_hops);
    let _ = writeln!(out, "nested     {} ({:.1} %)", stat.nested_routes, share(stat.nested_routes));
    let _ = writeln!(out, "covered    {:.4} % of all addresses", stat.covered_share * 100.0);
    let lengths = stat.lengths.iter();
    let rows: Vec<_> = lengths
        .map(|l| vec![format!("/{}", l.length), l.routes.to_string(), format!("{:.2} %", share(l.routes))])
        .collect();
    let _ = write!(out, "\n{}", columns(&["length", "routes", "share"], &rows));
    let memory = stat.memory.iter();
    let rows: Vec<_> =
        memory.map(|m| vec![m.structure.to_owned(), m.part.to_owned(), m.bytes.to_string()]).collect();
    let _ = write!(out, "\n{}", columns(&["structure", "part", "bytes"], &rows));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_hops() {
        let via = NextHop { gateway: Some([10, 0, 2, 2].into()), port: 1 };
        assert_eq!(next_hop("10.0.2.2@1"), Ok(via));
        assert_eq!(next_hop("-@0"), Ok(NextHop { gateway: None, port: 0 }));
        assert_eq!(next_hop("fe80::1@3").unwrap().port, 3);
        assert_eq!(next_hop("0.0.0.0@2"), next_hop("-@2"));
        for text in ["", "10.0.2.2", "@1", "10.0.2@1", "-@", "-@-1", "-@+1", "-@4294967296"] {
            assert!(next_hop(text).is_err(), "{text}");
        }
    }
}

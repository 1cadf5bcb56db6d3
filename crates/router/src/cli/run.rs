//! `run`: a configuration until its end.

use super::{Done, Workers};
use crate::api::Server;
use crate::config::{ConfigArgs, Configuration, Reported};
use crate::run::{BURST, RunOptions, Service};
use clap::Args;
use graph::{Nanos, SECOND};
use io::say;
use std::net::SocketAddr;
use std::sync::Arc;

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    config: ConfigArgs,

    #[command(flatten)]
    workers: Workers,

    /// Packets that move together; 1 gives exactly Click's order
    #[arg(long, value_name = "N", default_value_t = BURST)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    burst: u16,

    /// Processors to bind the workers to, in turn, such as 2,4-7
    #[arg(long, value_name = "LIST", value_parser = processors)]
    cpus: Option<Processors>,

    /// Do not measure cycles: `show runtime` says calls and packets only
    #[arg(long)]
    no_accounting: bool,

    /// Serve handlers, tables and metrics by HTTP; a port alone means 127.0.0.1
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = http_address)]
    http: Option<SocketAddr>,

    /// Simulated time: it passes when nothing else is to do, and starts at TIME, in seconds since 1970
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "1000000000", value_parser = seconds)]
    simtime: Option<Nanos>,

    /// Print this handler's value after the run
    #[arg(long, value_name = "ELEMENT.HANDLER")]
    read: Vec<String>,

    /// Arguments for DPDK's EAL
    #[arg(last = true, value_name = "EAL ARGUMENTS")]
    eal: Vec<String>,
}

/// Runs a configuration until all its sources are exhausted, or something asks it to stop.
pub fn run(args: &RunArgs) -> Done {
    let Configuration { flat, sources, .. } = Configuration::load(&args.config)?;
    let options = RunOptions {
        workers: args.workers.count(),
        burst: args.burst.into(),
        cpus: args.cpus.as_ref().map_or(Vec::new(), |p| p.0.clone()),
        accounting: !args.no_accounting,
        simulated: args.simtime,
        eal: args.eal.clone(),
        read: args.read.clone(),
        tables: graph::Tables::new(),
        reloads: false,
        service: Arc::new(Service::from_environment()),
    };
    let serve = |router: &Arc<graph::Router>| {
        let server = Server::start(router.clone(), router.devices().ports(), args.http);
        server.inspect(announce).map_err(|e| e.to_string())
    };
    crate::run::run(flat, &sources, &options, serve).map_err(|_| Reported)
}

/// Tells where HTTP is served: with port 0 the system chose.
pub(super) fn announce(server: &Server) {
    if let Some(address) = server.http() {
        say!("routebricks: serving http://{address}/");
    }
}

/// A list of processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Processors(pub(crate) Vec<usize>);

/// `2,4-7`: as the kernel writes lists of processors.
pub(crate) fn processors(text: &str) -> Result<Processors, String> {
    let wrong = || "a list of processors such as 2,4-7".to_owned();
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u16>(), last.parse::<u16>());
        match (first, last) {
            (Ok(first), Ok(last)) if first <= last && last < 4096 => {
                list.extend((first..=last).map(usize::from));
            }
            _ => return Err(wrong()),
        }
    }
    Ok(Processors(list))
}

/// `8080`, `:8080`, `localhost:8080`, `0.0.0.0:8080`, `[::1]:8080`.
pub(super) fn http_address(text: &str) -> Result<SocketAddr, String> {
    let port_alone = text.strip_prefix("localhost").unwrap_or(text);
    let port_alone = port_alone.strip_prefix(':').unwrap_or(port_alone);
    if let Ok(port) = port_alone.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    text.parse()
        .map_err(|_| "a port, or an address and a port such as 127.0.0.1:8080 or [::1]:8080".to_owned())
}

/// Seconds, perhaps with a fraction, up to the year 2286.
fn seconds(text: &str) -> Result<Nanos, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.0..1e10).contains(&s) => Ok((s * SECOND as f64) as Nanos),
        _ => Err("seconds since 1970, from 0 to 9999999999".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_is_local_unless_told_otherwise() {
        for text in ["80", ":80", "localhost:80", "127.0.0.1:80"] {
            assert_eq!(http_address(text), Ok("127.0.0.1:80".parse().unwrap()), "{text}");
        }
        assert_eq!(http_address("0.0.0.0:80"), Ok("0.0.0.0:80".parse().unwrap()));
        assert_eq!(http_address("[::]:80"), Ok("[::]:80".parse().unwrap()));
        for text in ["", "x", "65536", "host:80", "127.0.0.1", "localhost"] {
            assert!(http_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn simulated_time_starts_at_seconds() {
        assert_eq!(seconds("1.5"), Ok(1_500_000_000));
        assert_eq!(seconds("1000000000"), Ok(graph::SIMULATED_START));
        for text in ["", "-1", "NaN", "inf", "1e10", "x"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(processors("3"), Ok(Processors(vec![3])));
        assert_eq!(processors("2,4-6"), Ok(Processors(vec![2, 4, 5, 6])));
        for text in ["", "1,", "5-3", "a", "1-2-3", "0-4096", "-1"] {
            assert!(processors(text).is_err(), "{text}");
        }
    }
}

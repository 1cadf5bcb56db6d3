//! The arguments of `run`.

use crate::config::ConfigArgs;
use clap::Args;
use graph::{Nanos, SECOND};
use std::net::SocketAddr;

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The configuration.
    #[command(flatten)]
    pub config: ConfigArgs,

    /// Workers: threads that each own their queues and their instances of the elements
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: u16,

    /// Packets that move together; 1 gives exactly Click's order
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub burst: u16,

    /// Serve handlers, tables and metrics by HTTP; a port alone means 127.0.0.1
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = http_address)]
    pub http: Option<SocketAddr>,

    /// Simulated time, which passes when nothing else is to do; starts at TIME (seconds since 1970)
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "1000000000", value_parser = seconds)]
    pub simtime: Option<Nanos>,

    /// Processors to bind workers to, in turn; otherwise the system places them
    #[arg(long, value_name = "CPU,...", value_delimiter = ',')]
    pub cpus: Vec<usize>,

    /// Print what this handler says when the router has ended; may be given several times
    #[arg(long, value_name = "ELEMENT.HANDLER")]
    pub read: Vec<String>,

    /// Arguments for DPDK's EAL
    #[arg(last = true, value_name = "EAL ARGUMENTS")]
    pub eal: Vec<String>,
}

/// `8080`, `:8080`, `localhost:8080`, `0.0.0.0:8080`, `[::1]:8080`.
fn http_address(text: &str) -> Result<SocketAddr, String> {
    let port_alone = text.strip_prefix(':').unwrap_or(text);
    let port_alone = port_alone.strip_prefix("localhost:").unwrap_or(port_alone);
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
}

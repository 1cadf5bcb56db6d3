//! The settings of a complete router in one TOML file, read with all mistakes at once.
//!
//! ```toml
//! ports = ["eth1", "eth2"]
//! workers = 2
//! [punt]
//! others = 2000
//! [lookup]
//! ipv4 = "quickest"
//! ```

use super::MOST_WORKERS;
use super::run::{http_address, processors};
use crate::config::Reported;
use crate::linux::{Extras, Lookup, Mode, PuntLimits, ReversePath};
use crate::toml_file::{self, Reader, Value, repeated};
use clap::ValueEnum;
use lang::Diagnostic;
use std::net::SocketAddr;
use std::path::Path;
use toml::de::DeTable;

/// What the file may say. What it does not say is none or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Names of Linux interfaces, in the order of their port numbers.
    pub ports: Vec<String>,
    /// Number of workers, from 1 to [`MOST_WORKERS`].
    pub workers: Option<u16>,
    /// Processors to bind workers to.
    pub cpus: Option<Vec<usize>>,
    /// Where zebra connects.
    pub fpm: Option<SocketAddr>,
    /// Which sources packets may have.
    pub rpf: Option<ReversePath>,
    /// Whether Linux sends redirects.
    pub redirects: bool,
    /// Whether packets of each route are counted.
    pub count_routes: bool,
    /// Where the control side runs.
    pub control: Option<Mode>,
    /// Where HTTP is served.
    pub http: Option<SocketAddr>,
    /// What Linux gets at most.
    pub punt: PuntLimits,
    /// What the tables are looked up in.
    pub lookup: Lookup,
    /// Arguments for DPDK's EAL.
    pub eal: Vec<String>,
}

const SETTINGS: [&str; 12] = [
    "ports",
    "workers",
    "cpus",
    "fpm",
    "rpf",
    "redirects",
    "count_routes",
    "control",
    "http",
    "eal",
    "punt",
    "lookup",
];
const KINDS: [&str; 3] = ["protocols", "neighbours", "others"];

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or is not valid; all mistakes were printed.
    pub fn load(file: &Path) -> Result<Settings, Reported> {
        toml_file::load(file, Settings::parse)
    }

    /// Reads a text, which is number `source` of a map.
    ///
    /// # Errors
    /// All mistakes, in the order of the text: those against TOML, or else those against the settings.
    pub fn parse(text: &str, source: u32) -> Result<Settings, Vec<Diagnostic>> {
        toml_file::parse(text, source, Settings::read)
    }
}

impl Settings {
    /// What packets pass beside what all pass, and what they are looked up in.
    pub fn extras(&self) -> Extras {
        Extras {
            sources: self.rpf,
            redirects: self.redirects,
            counts: self.count_routes,
            lookup: self.lookup,
            sockets: true,
        }
    }

    /// What differs from others and cannot change in a router that runs with these.
    pub fn fixed_differences(&self, other: &Settings) -> Vec<&'static str> {
        let same = [
            ("ports", self.ports == other.ports),
            ("workers", self.workers == other.workers),
            ("cpus", self.cpus == other.cpus),
            ("fpm", self.fpm == other.fpm || self.control.unwrap_or_default() == Mode::Process),
            // Without it there is nothing that checks, not even something that lets all pass.
            ("rpf", self.rpf.is_some() || other.rpf.is_none_or(|mode| mode == ReversePath::Off)),
            ("redirects", self.redirects == other.redirects),
            ("count_routes", self.count_routes == other.count_routes),
            ("control", self.control == other.control),
            ("eal", self.eal == other.eal),
        ];
        same.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
    }
}

/// `127.0.0.1:2620`, `[::1]:2620`.
fn fpm_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "an address and a port such as 127.0.0.1:2620".to_owned())
}

/// `process`, `thread`.
fn mode(text: &str) -> Result<Mode, String> {
    Mode::from_str(text, false).map_err(|_| "process or thread".to_owned())
}

impl Settings {
    fn read(reader: &mut Reader, table: &DeTable<'_>) -> Settings {
        let mut settings = Settings::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "ports" => settings.ports = ports(reader, value),
                "workers" => {
                    let number = reader.number("workers", value, 1..=MOST_WORKERS.into());
                    settings.workers = number.and_then(|number| number.try_into().ok());
                }
                "cpus" => settings.cpus = reader.word("cpus", value, processors).map(|list| list.0),
                "fpm" => settings.fpm = reader.word("fpm", value, fpm_address),
                "rpf" => settings.rpf = reader.word("rpf", value, ReversePath::of_word),
                "redirects" => settings.redirects = reader.flag("redirects", value),
                "count_routes" => settings.count_routes = reader.flag("count_routes", value),
                "control" => settings.control = reader.word("control", value, mode),
                "http" => settings.http = reader.word("http", value, http_address),
                "eal" => {
                    settings.eal = reader.words("eal", value).into_iter().map(|(word, _)| word).collect();
                }
                "punt" => settings.punt = punt(reader, value),
                "lookup" => settings.lookup = Lookup::read(reader, value),
                _ => reader.unknown(key.span(), key.get_ref(), "setting", SETTINGS),
            }
        }
        settings
    }
}

fn punt(reader: &mut Reader, value: &Value<'_>) -> PuntLimits {
    let mut limits = PuntLimits::default();
    let Some(table) = value.get_ref().as_table() else {
        reader.wrong_type("punt", "a table", value);
        return limits;
    };
    for (key, value) in table {
        let limit = match key.get_ref().as_ref() {
            "protocols" => &mut limits.protocols,
            "neighbours" => &mut limits.neighbours,
            "others" => &mut limits.others,
            name => {
                reader.unknown(key.span(), name, "kind of packets", KINDS);
                continue;
            }
        };
        *limit = reader.number(key.get_ref(), value, 0..=u32::MAX);
    }
    limits
}

fn ports(reader: &mut Reader, value: &Value<'_>) -> Vec<String> {
    let (names, places): (Vec<_>, Vec<_>) = reader.words("ports", value).into_iter().unzip();
    for (name, place) in names.iter().zip(&places) {
        reader.interface(name, place.clone());
    }
    for (again, first) in repeated(&names) {
        let what = format!("port `{}`", names[again]);
        reader.twice(&what, places[again].clone(), places[first].clone());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::Wanted;
    use lang::SourceMap;

    fn mistakes(text: &str) -> Vec<String> {
        let mut sources = SourceMap::new();
        let source = sources.add("r.toml", text);
        let found = Settings::parse(text, source).err().unwrap_or_default();
        let printed = lang::render(&found, &sources, false);
        printed.lines().filter(|line| line.starts_with("r.toml:")).map(str::to_owned).collect()
    }

    #[test]
    fn everything_that_may_be_said() {
        let text = "ports = ['eth1', \"eth2.100\"]\nworkers = 0x2\ncpus = '2,4-5'\nfpm = '[::1]:2620'\nrpf = 'loose'\nredirects = true\ncount_routes = true\ncontrol = 'thread'\n\
                    http = '8080'\n\
                    eal = ['--no-huge']\n[punt]\nprotocols = 0\nneighbours = 1_000\n[lookup]\nipv4 = 'quickest'\n";
        let expected = Settings {
            ports: vec!["eth1".to_owned(), "eth2.100".to_owned()],
            workers: Some(2),
            cpus: Some(vec![2, 4, 5]),
            fpm: Some("[::1]:2620".parse().unwrap()),
            rpf: Some(ReversePath::Loose),
            redirects: true,
            count_routes: true,
            control: Some(Mode::Thread),
            http: Some("127.0.0.1:8080".parse().unwrap()),
            punt: PuntLimits { protocols: Some(0), neighbours: Some(1000), others: None },
            lookup: Lookup { ipv4: Wanted::of_name::<u32>("quickest").unwrap(), ..Lookup::default() },
            eal: vec!["--no-huge".to_owned()],
        };
        assert_eq!(Settings::parse(text, 0), Ok(expected));
        assert_eq!(Settings::parse("", 0), Ok(Settings::default()));
    }

    #[test]
    fn all_mistakes_at_once() {
        let text = "prots = ['eth1']\nports = ['eth1', 2, 'eth1', 'a b']\nworkers = 257\ncpus = [1]\nfpm = '::1:2620'\n\
                    http = 'x'\neal = '-n'\nrpf = 'Loose'\ncontrol = 'none'\ntimeout = 3\nredirects = 1\ncount_routes = 'no'\n[punt]\nother = 1\nneighbours = -1\nprotocols = 'many'\n";
        assert_eq!(
            mistakes(text),
            [
                "r.toml:1:1: error: no setting `prots`; did you mean `ports`?",
                "r.toml:2:18: error: `ports` is an array of strings, not an integer",
                "r.toml:2:21: error: port `eth1` is given twice",
                "r.toml:2:10: note: first here",
                "r.toml:2:29: error: no interface of Linux can be called `a b`",
                "r.toml:3:11: error: `workers` is a whole number from 1 to 256",
                "r.toml:4:8: error: `cpus` is a string, not an array",
                "r.toml:5:7: error: `fpm` is an address and a port such as 127.0.0.1:2620",
                "r.toml:6:8: error: `http` is a port, or an address and a port such as 127.0.0.1:8080 or [::1]:8080",
                "r.toml:7:7: error: `eal` is an array of strings, not a string",
                "r.toml:8:7: error: `rpf` is strict, loose or off",
                "r.toml:9:11: error: `control` is process or thread",
                "r.toml:10:1: error: no setting `timeout`",
                "r.toml:11:13: error: `redirects` is true or false, not an integer",
                "r.toml:12:16: error: `count_routes` is true or false, not a string",
                "r.toml:14:1: error: no kind of packets `other`; did you mean `others`?",
                "r.toml:15:14: error: `neighbours` is a whole number from 0 to 4294967295",
                "r.toml:16:13: error: `protocols` is a whole number from 0 to 4294967295, not a string",
            ]
        );
        assert_eq!(mistakes("punt = 3\n"), ["r.toml:1:8: error: `punt` is a table, not an integer"]);
        let text = "[lookup]\nipv4 = 'poptri'\nip6 = 'radix'\nipv6 = 'dir24_8'\n";
        assert_eq!(
            mistakes(text),
            [
                "r.toml:2:8: error: no structure for IPv4 `poptri`; did you mean `poptrie`?",
                "r.toml:3:1: error: no address family `ip6`; did you mean `ipv6`?",
                "r.toml:4:8: error: no structure for IPv6 `dir24_8`",
            ]
        );
        assert_eq!(mistakes("lookup = 'radix'\n"), ["r.toml:1:10: error: `lookup` is a table, not a string"]);
        assert_eq!(mistakes("lookup.ipv4 = 4\n"), ["r.toml:1:15: error: `ipv4` is a string, not an integer"]);
    }

    #[test]
    fn mistakes_against_toml() {
        let found = mistakes("ports = ['eth1'\nworkers = 1\nworkers = 2 3\n");
        assert!(!found.is_empty() && found.iter().all(|line| line.contains(": error: ")), "{found:?}");
        assert_eq!(mistakes("workers = 1\nworkers = 2\n"), ["r.toml:2:1: error: duplicate key"]);
    }

    #[test]
    fn the_example_is_valid() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/router.toml");
        let settings = Settings::load(&file).unwrap();
        assert_eq!(settings.ports, ["eth1", "eth2"]);
        // Everything that may be said is in it, if only as a comment, and is right there too.
        let text = std::fs::read_to_string(file).unwrap();
        let is_setting = |line: &&str| line.split(' ').nth(1) == Some("=");
        let uncommented = |line| str::strip_prefix(line, "# ").filter(is_setting).unwrap_or(line);
        let all: String = text.lines().flat_map(|line| [uncommented(line), "\n"]).collect();
        for name in SETTINGS.iter().chain(&KINDS).chain(&Lookup::FAMILIES) {
            let said = |line: &str| line.starts_with(&format!("{name} = ")) || line == format!("[{name}]");
            assert!(all.lines().any(said), "{name}");
        }
        let settings = Settings::parse(&all, 0).unwrap();
        assert_eq!((settings.workers, settings.eal.len(), settings.punt.others), (Some(2), 1, Some(10_000)));
    }
}

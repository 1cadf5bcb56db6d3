//! Made-up tables of the Internet, for BIRD to announce.

use std::fmt::Write;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::netns;
use crate::routebricks::binary;
use crate::{Context, Error, Result};

/// An IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    fn number(self) -> &'static str {
        match self {
            Family::V4 => "4",
            Family::V6 => "6",
        }
    }
}

/// A table of `routebricks table synth` as a file for BIRD to include: static routes to be announced.
#[derive(Clone, Debug)]
pub struct SynthTable {
    prefixes: Vec<(IpAddr, u8)>,
    family: Family,
    file: PathBuf,
}

impl SynthTable {
    /// Makes one of `count` prefixes.
    pub fn make(directory: &Path, family: Family, count: usize) -> Result<SynthTable> {
        let number = family.number();
        let mut synth = netns::command(binary()?);
        synth.args(["table", "synth", "--seed", "1", "--family", number, "--count", &count.to_string()]);
        let text = netns::succeed(&mut synth)?;
        let prefixes: Vec<(IpAddr, u8)> = text.lines().map(prefix).collect::<Result<_>>()?;
        let mut config = format!("protocol static table{number} {{ ipv{number};\n");
        for (address, length) in &prefixes {
            let _ = writeln!(config, "route {address}/{length} blackhole;");
        }
        config.push_str("}\n");
        let file = directory.join(format!("table{number}.conf"));
        fs::write(&file, config).cannot(|| format!("write {}", file.display()))?;
        Ok(SynthTable { prefixes, family, file })
    }

    /// The line of BIRD's configuration that makes it the static protocol `table4` or `table6`.
    pub fn include(&self) -> String {
        format!("include \"{}\";\n", self.file.display())
    }

    /// How many prefixes there are.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// Which IP version.
    pub fn family(&self) -> Family {
        self.family
    }

    /// So many addresses, each in another prefix, from all over the table.
    pub fn addresses(&self, count: usize) -> Vec<IpAddr> {
        let step = (self.prefixes.len() / count.max(1)).max(1);
        let inside = |address: IpAddr| match address {
            IpAddr::V4(address) => IpAddr::V4((u32::from(address) | 1).into()),
            IpAddr::V6(address) => IpAddr::V6((u128::from(address) | 1).into()),
        };
        self.prefixes.iter().step_by(step).take(count).map(|(first, _)| inside(*first)).collect()
    }
}

/// The first word of a line of a route file.
fn prefix(line: &str) -> Result<(IpAddr, u8)> {
    let word = line.split_whitespace().next().unwrap_or_default();
    let parsed = word.split_once('/').and_then(|(a, len)| Some((a.parse().ok()?, len.parse().ok()?)));
    parsed.ok_or_else(|| Error::new(format!("{line:?} is no line of a route file")))
}

//! `[etcd]`: where the control node is elected.

use super::words::duration;
use crate::toml_file::{Reader, Value};
use std::path::PathBuf;
use std::time::Duration;

/// All settings there are.
pub const ETCD: [&str; 9] =
    ["endpoints", "prefix", "ttl", "hold", "authority", "certificate", "key", "user", "password_file"];

/// How long a lease may last without being renewed: etcd gives none that is shorter than 2 s.
const TTL: std::ops::RangeInclusive<u64> = 2..=60;
/// The longest that what a new control node does not know may stay, in seconds.
const MOST_HOLD: u64 = 3600;

/// How to reach etcd, and how the control node is elected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Etcd {
    /// Members of etcd, as URLs; asked in turn.
    pub endpoints: Vec<String>,
    /// What all keys begin with, before the name of the cluster.
    pub prefix: String,
    /// A node that etcd has not heard for so long is gone.
    pub ttl: Duration,
    /// So long a new control node keeps what it does not know itself.
    pub hold: Duration,
    /// Who signed the certificates of etcd.
    pub authority: Option<PathBuf>,
    /// By which we prove who we are.
    pub certificate: Option<PathBuf>,
    /// The key of that.
    pub key: Option<PathBuf>,
    /// As whom we ask.
    pub user: Option<String>,
    /// A file with the password of that, without the end of its last line.
    pub password: Option<PathBuf>,
}

impl Default for Etcd {
    fn default() -> Etcd {
        Etcd {
            endpoints: Vec::new(),
            prefix: "/routebricks".to_owned(),
            ttl: Duration::from_secs(3),
            hold: Duration::from_secs(60),
            authority: None,
            certificate: None,
            key: None,
            user: None,
            password: None,
        }
    }
}

impl Etcd {
    /// What is wrong with how its settings fit together.
    pub fn mistake(&self) -> Option<&'static str> {
        let is_tls = |endpoint: &String| endpoint.starts_with("https://");
        let tls = self.endpoints.iter().any(is_tls);
        if self.endpoints.is_empty() {
            Some("etcd lacks `endpoints`")
        } else if tls && !self.endpoints.iter().all(is_tls) {
            Some("the endpoints of etcd are all https or all http")
        } else if tls && self.authority.is_none() {
            Some("etcd by https needs the `authority` that signed its certificates")
        } else if !tls && (self.authority.is_some() || self.certificate.is_some()) {
            Some("certificates are for endpoints of etcd by https")
        } else if self.certificate.is_some() != self.key.is_some() {
            Some("a `certificate` for etcd and its `key` belong together")
        } else if self.user.is_some() != self.password.is_some() {
            Some("a `user` of etcd and the `password_file` belong together")
        } else {
            None
        }
    }
}

/// The table `[etcd]`.
pub fn read(reader: &mut Reader, value: &Value<'_>) -> Option<Etcd> {
    let Some(table) = value.get_ref().as_table() else {
        reader.wrong_type("etcd", "a table", value);
        return None;
    };
    let (mut etcd, mut is_sound) = (Etcd::default(), true);
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "endpoints" => {
                let words = reader.words("endpoints", value);
                if words.is_empty() {
                    is_sound = false;
                    reader.mistake(value.span(), "`endpoints` names at least one member of etcd");
                }
                for (text, at) in words {
                    match endpoint(&text) {
                        Ok(endpoint) => etcd.endpoints.push(endpoint),
                        Err(must) => {
                            is_sound = false;
                            reader.mistake(at, format!("`endpoints` is a list, each {must}"));
                        }
                    }
                }
            }
            "prefix" => etcd.prefix = reader.word("prefix", value, prefix).unwrap_or_default(),
            "ttl" => etcd.ttl = reader.word("ttl", value, ttl).unwrap_or_default(),
            "hold" => etcd.hold = reader.word("hold", value, hold).unwrap_or_default(),
            "authority" => etcd.authority = super::read::file(reader, "authority", value),
            "certificate" => etcd.certificate = super::read::file(reader, "certificate", value),
            "key" => etcd.key = super::read::file(reader, "key", value),
            "user" => etcd.user = reader.word("user", value, user),
            "password_file" => etcd.password = super::read::file(reader, "password_file", value),
            name => reader.unknown(key.span(), name, "setting of etcd", ETCD),
        }
    }
    if let Some(mistake) = etcd.mistake().filter(|_| is_sound) {
        reader.mistake(value.span(), mistake);
    }
    Some(etcd)
}

/// `http://127.0.0.1:2379`, `https://[2001:db8::1]:2379`.
///
/// # Errors
/// What it must be.
pub fn endpoint(text: &str) -> Result<String, String> {
    parts(text).map(|_| text.trim_end_matches('/').to_owned())
}

/// Whether by TLS, the host, and the port of an endpoint.
///
/// # Errors
/// What it must be.
pub fn parts(text: &str) -> Result<(bool, String, u16), String> {
    let must = || "a URL with a host and a port such as http://192.0.2.1:2379".to_owned();
    let (tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ => return Err(must()),
    };
    let (host, port) = rest.trim_end_matches('/').rsplit_once(':').ok_or_else(must)?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').filter(|ip| ip.parse::<std::net::Ipv6Addr>().is_ok()),
        None => {
            let fine = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-' || c == '_';
            Some(host).filter(|host| !host.is_empty() && host.chars().all(fine))
        }
    };
    let port = port.parse().ok().filter(|port| *port != 0 && text.len() < 512);
    match (host, port) {
        (Some(host), Some(port)) => Ok((tls, host.to_owned(), port)),
        _ => Err(must()),
    }
}

fn prefix(text: &str) -> Result<String, String> {
    let fine = |c: char| c.is_ascii_graphic() && c != '\\';
    let is_path =
        text.starts_with('/') && !text.ends_with('/') && text.len() <= 256 && text.chars().all(fine);
    if is_path { Ok(text.to_owned()) } else { Err("the beginning of keys such as /routebricks".to_owned()) }
}

fn user(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("the name of a user of etcd".to_owned()) } else { Ok(text.to_owned()) }
}

fn ttl(text: &str) -> Result<Duration, String> {
    let nanos = duration(text).filter(|nanos| nanos % 1_000_000_000 == 0);
    let seconds = nanos.map(|nanos| nanos / 1_000_000_000).filter(|seconds| TTL.contains(seconds));
    let must = || format!("a time of whole seconds from {}s to {}s, such as 3s", TTL.start(), TTL.end());
    seconds.map(Duration::from_secs).ok_or_else(must)
}

fn hold(text: &str) -> Result<Duration, String> {
    let nanos = duration(text).filter(|nanos| *nanos <= MOST_HOLD * 1_000_000_000);
    nanos.map(Duration::from_nanos).ok_or_else(|| format!("a time up to {MOST_HOLD}s, such as 60s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_urls() {
        let good = [
            ("http://127.0.0.1:2379", (false, "127.0.0.1", 2379)),
            ("https://etcd-1.example.net:443/", (true, "etcd-1.example.net", 443)),
            ("http://[2001:db8::1]:2379", (false, "2001:db8::1", 2379)),
        ];
        for (text, (tls, host, port)) in good {
            assert_eq!(parts(text), Ok((tls, host.to_owned(), port)), "{text}");
        }
        for text in [
            "127.0.0.1:2379",
            "http://:2379",
            "http://a",
            "http://a:0",
            "http://a:99999",
            "ftp://a:1",
            "http://a b:1",
            "http://[::1:2379",
            "http://a/b:1",
            "http://user@a:1",
            "",
        ] {
            assert!(parts(text).is_err(), "{text}");
        }
    }
}

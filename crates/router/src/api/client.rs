//! The other end: asks a running router over its Unix socket.

use crate::config::reason;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Longest answer, in bytes: a full table of routes is below 100 MB.
const MAX_ANSWER: u64 = 1 << 30;
/// How long a router may take to answer: a large table takes a while.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to answer what costs it nothing.
const GREETING: Duration = Duration::from_secs(5);

/// A running router.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// The router with this socket.
    pub fn new(socket: impl Into<PathBuf>) -> Client {
        Client { socket: socket.into() }
    }

    /// Finds out whether there is a router that answers at all, before anything is asked that may take long.
    ///
    /// # Errors
    /// If there is no answer, or not one that is understood.
    pub fn greet(&self) -> Result<(), String> {
        self.answer(&get_request("/"), GREETING).map(drop)
    }

    /// The rows of a table.
    ///
    /// # Errors
    /// If there is no answer, or not one that is understood.
    pub fn table(&self, path: &str) -> Result<Vec<Value>, String> {
        let text = self.get(path)?;
        let mut table: Value =
            serde_json::from_str(&text).map_err(|e| format!("the router's answer: {e}"))?;
        match table.get_mut("rows").map(Value::take) {
            Some(Value::Array(rows)) => Ok(rows),
            _ => Err("the router's answer has no rows".to_owned()),
        }
    }

    /// A handler's value.
    ///
    /// # Errors
    /// If there is no answer, or it is a refusal.
    pub fn read(&self, element: &str, handler: &str) -> Result<String, String> {
        self.get(&format!("/handlers/{}/{}", encoded(element), encoded(handler)))
    }

    /// Writes to a handler.
    ///
    /// # Errors
    /// If there is no answer, or it is a refusal.
    pub fn write(&self, element: &str, handler: &str, value: &str) -> Result<(), String> {
        self.put(&format!("/handlers/{}/{}", encoded(element), encoded(handler)), value)
    }

    /// Puts something at a path.
    ///
    /// # Errors
    /// If there is no answer, or it is a refusal.
    pub fn put(&self, path: &str, value: &str) -> Result<(), String> {
        let length = value.len();
        let head = format!("PUT {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
        match self.answer(&(head + value), PATIENCE)? {
            (200 | 204, _) => Ok(()),
            (_, refusal) => Err(refusal.trim_end().to_owned()),
        }
    }

    /// What the router answers to `GET path`.
    ///
    /// # Errors
    /// If there is no answer, or it is a refusal.
    pub fn get(&self, path: &str) -> Result<String, String> {
        match self.answer(&get_request(path), PATIENCE)? {
            (200, body) => Ok(body),
            (_, refusal) => Err(refusal.trim_end().to_owned()),
        }
    }

    /// Status and body of the answer to a request.
    fn answer(&self, request: &str, patience: Duration) -> Result<(u16, String), String> {
        let answer = self.exchange(request, patience).map_err(|e| {
            let socket = self.socket.display();
            match e.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    format!("no answer from {socket} within {} s", patience.as_secs())
                }
                _ => format!("no answer from {socket}: {}", reason(&e)),
            }
        })?;
        if answer.is_empty() {
            return Err(format!("no answer from {}: the connection was closed", self.socket.display()));
        }
        let (status, body) = parse(&answer).ok_or("the router's answer is not HTTP")?;
        Ok((status, body.to_owned()))
    }

    fn exchange(&self, request: &str, patience: Duration) -> std::io::Result<String> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.take(MAX_ANSWER).read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Its socket.
    #[cfg(test)]
    pub fn socket(&self) -> &std::path::Path {
        &self.socket
    }
}

/// HTTP/1.0 (RFC 1945): the answer ends with the connection, and is not sent in chunks.
fn get_request(path: &str) -> String {
    format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")
}

/// Status and body of an answer.
fn parse(answer: &str) -> Option<(u16, &str)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?;
    Some((status.parse().ok()?, body))
}

/// Percent encoding of everything that has a meaning in a path (RFC 3986 §3.3) but the slash.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/@:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        assert_eq!(parse("HTTP/1.0 200 OK\r\nA: b\r\n\r\nbody\r\n\r\n"), Some((200, "body\r\n\r\n")));
        assert_eq!(parse("HTTP/1.1 404 Not Found\r\n\r\n"), Some((404, "")));
        for text in ["", "HTTP/1.0 200 OK\r\n", "SSH-2.0 x\r\n\r\n", "HTTP/1.0 OK\r\n\r\n"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn paths_are_encoded() {
        assert_eq!(encoded("a/b@1"), "a/b@1");
        assert_eq!(encoded("a b?ü%"), "a%20b%3F%C3%BC%25");
    }
}

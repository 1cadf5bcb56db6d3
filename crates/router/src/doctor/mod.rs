//! `doctor`: what this machine lacks for fast packets, and how to mend it. Looks only; changes nothing.

mod cpu;
mod host;
mod kernel;
mod memory;
mod nic;
mod pci;
mod rights;

use crate::cli::{Done, Output, json_rows};
use clap::Args;
use host::Host;
use serde::Serialize;
use std::fmt::Write;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What a finding means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// Works, but slower or with less.
    Warn,
    /// Something will not work.
    Bad,
    /// Does not matter here, or cannot be told.
    #[serde(rename = "n.a.")]
    NotApplicable,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Bad => "bad",
            Verdict::NotApplicable => "n.a.",
        }
    }

    fn tint(self) -> &'static str {
        match self {
            Verdict::Ok => "\x1b[32m",
            Verdict::Warn => "\x1b[33m",
            Verdict::Bad => "\x1b[31m",
            Verdict::NotApplicable => "\x1b[2m",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// What.
    pub what: String,
    /// What was found.
    pub found: String,
    /// What that means.
    pub verdict: Verdict,
    /// What to type, or to do, about it.
    pub mend: Option<String>,
}

impl Row {
    fn new(what: impl Into<String>, found: impl Into<String>, verdict: Verdict) -> Row {
        Row { what: what.into(), found: found.into(), verdict, mend: None }
    }

    fn mend(mut self, mend: impl Into<String>) -> Row {
        self.mend = Some(mend.into());
        self
    }
}

/// Looks at everything.
fn examine(host: &Host) -> Vec<Row> {
    let nics = nic::nics(host);
    let mut rows = memory::rows(host);
    rows.extend(cpu::rows(host));
    rows.extend(rights::rows(host));
    rows.extend(kernel::rows(host, !nics.is_empty()));
    rows.extend(nic::rows(host, &nics));
    rows
}

/// Prints what was found; exits 0 whatever that is.
pub fn doctor(args: &DoctorArgs) -> Done {
    let rows = examine(&Host::this());
    let mut out = Output::stdout();
    if args.json {
        let values: Vec<_> = rows.iter().filter_map(|r| serde_json::to_value(r).ok()).collect();
        out.text(&json_rows("doctor", &values));
    } else {
        out.text(&describe(&rows, Output::is_colorful()));
    }
    out.done()
}

/// A line for each row, its mend below it, and a count.
fn describe(rows: &[Row], color: bool) -> String {
    let width = rows.iter().map(|r| r.what.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for row in rows {
        let (on, off) = if color { (row.verdict.tint(), "\x1b[0m") } else { ("", "") };
        let _ = writeln!(out, "{on}{:4}{off}  {:width$}  {}", row.verdict.word(), row.what, row.found);
        if let Some(mend) = &row.mend {
            let _ = writeln!(out, "{:4}  {:width$}  -> {mend}", "", "");
        }
    }
    let count = |v| rows.iter().filter(|r| r.verdict == v).count();
    let (ok, warn, bad) = (count(Verdict::Ok), count(Verdict::Warn), count(Verdict::Bad));
    let _ = writeln!(out, "\n{ok} ok, {warn} to improve, {bad} bad");
    out
}

#[cfg(test)]
mod tests;

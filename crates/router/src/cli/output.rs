//! Standard output and files as commands write to them; aligned tables.

use super::{Done, failed};
use crate::config::reason;
use std::fmt::{Arguments, Write as _};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

/// Where a command's result goes. The first error ends the writing and is reported by [`Output::done`]; a reader who
/// has seen enough (a closed pipe) is no error.
pub struct Output {
    to: Box<dyn Write>,
    name: String,
    error: Option<io::Error>,
}

impl Output {
    /// Standard output.
    pub fn stdout() -> Output {
        let to = Box::new(BufWriter::new(io::stdout()));
        Output { to, name: "standard output".to_owned(), error: None }
    }

    /// A file if one is named, else standard output.
    pub fn to(file: Option<&Path>) -> Result<Output, super::Reported> {
        let Some(path) = file.filter(|p| p.as_os_str() != "-") else { return Ok(Output::stdout()) };
        let name = path.display().to_string();
        match std::fs::File::create(path) {
            Ok(file) => Ok(Output { to: Box::new(BufWriter::new(file)), name, error: None }),
            Err(e) => Err(failed(format_args!("cannot write {name}: {}", reason(&e)))),
        }
    }

    /// True if people read along on standard output and colours are welcome.
    pub fn is_colorful() -> bool {
        io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
    }

    /// Writes a text.
    pub fn text(&mut self, text: &str) {
        self.bytes(|to| to.write_all(text.as_bytes()));
    }

    /// Writes a line.
    pub fn line(&mut self, line: Arguments<'_>) {
        self.bytes(|to| writeln!(to, "{line}"));
    }

    /// Lets a function write.
    pub fn bytes(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if self.error.is_none() {
            self.error = write(&mut self.to).err();
        }
    }

    /// True as long as somebody reads.
    pub fn is_open(&mut self) -> bool {
        self.bytes(|to| to.flush());
        self.error.is_none()
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// If not everything could be written; that was printed.
    pub fn done(mut self) -> Done {
        self.bytes(|to| to.flush());
        match self.error {
            Some(e) if e.kind() != io::ErrorKind::BrokenPipe => {
                Err(failed(format_args!("cannot write {}: {}", self.name, reason(&e))))
            }
            _ => Ok(()),
        }
    }
}

/// Which side of its column a cell keeps to.
fn is_number(cell: &str) -> bool {
    let number = cell.strip_suffix(" %").unwrap_or(cell);
    number == "-" || number.parse::<f64>().is_ok()
}

/// Rows under a heading, in columns two spaces apart; columns of numbers are aligned to the right.
pub fn columns(heading: &[&str], rows: &[Vec<String>]) -> String {
    let length = |text: &str| text.chars().count();
    let column = |i: usize| rows.iter().filter_map(move |r| r.get(i));
    let widths: Vec<usize> = (heading.iter().enumerate())
        .map(|(i, h)| column(i).map(|c| length(c)).max().unwrap_or(0).max(length(h)))
        .collect();
    let right: Vec<bool> = (0..heading.len())
        .map(|i| column(i).next().is_some() && column(i).all(|c| is_number(c)) && column(i).any(|c| c != "-"))
        .collect();
    let mut out = String::new();
    let mut write = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for ((cell, width), right) in cells.zip(&widths).zip(&right) {
            let pad = width - length(cell);
            let (before, after) = if *right { (pad, 0) } else { (0, pad) };
            let _ = write!(line, "{:before$}{cell}{:after$}  ", "", "");
        }
        let _ = writeln!(out, "{}", line.trim_end());
    };
    write(&mut heading.iter().copied());
    for row in rows {
        write(&mut row.iter().map(String::as_str));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_aligned_to_the_right() {
        let rows = [["a", "5", "-", "x"], ["long", "1234", "1.5", ""]];
        let rows = rows.map(|r| r.map(str::to_owned).to_vec());
        assert_eq!(
            columns(&["name", "packets", "cyc", "note"], &rows),
            "name  packets  cyc  note\n\
             a           5    -  x\n\
             long     1234  1.5\n"
        );
    }

    #[test]
    fn an_empty_table_is_its_heading() {
        assert_eq!(columns(&["a", "b"], &[]), "a  b\n");
    }
}

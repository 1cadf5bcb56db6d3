//! Plain tables for people, and bars for those who wait.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// A table with a heading: columns are as wide as their widest cell, figures stand to the right.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let columns = headings.len();
    let cell = |row: &[String], column: usize| row.get(column).map_or("", String::as_str).to_owned();
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.chars().count()).collect();
    let mut figures = vec![!rows.is_empty(); columns];
    for row in rows {
        for column in 0..columns {
            let text = cell(row, column);
            widths[column] = widths[column].max(text.chars().count());
            figures[column] &= is_figure(&text);
        }
    }
    let mut text = String::new();
    let heading: Vec<String> = headings.iter().map(|&heading| heading.to_owned()).collect();
    let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
    for row in [&heading, &rule].into_iter().chain(rows) {
        let mut line = String::new();
        for column in 0..columns {
            let (text, width) = (cell(row, column), widths[column]);
            let aligned = if figures[column] { format!("{text:>width$}") } else { format!("{text:<width$}") };
            line.push_str(&aligned);
            line.push_str("  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn is_figure(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_digit() || c == ',' || c == '.')
}

/// A number with commas: 1,234,567.
pub fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A bar that fills while something is done; for those who cannot watch, lines now and then.
#[derive(Debug)]
pub struct ProgressBar {
    what: String,
    total: usize,
    terminal: bool,
    begun: Instant,
    shown: Option<(Instant, usize)>,
}

impl ProgressBar {
    /// Characters of a full bar.
    const WIDTH: usize = 40;

    /// An empty one.
    pub fn new(what: &str, total: usize) -> ProgressBar {
        let terminal = io::stdout().is_terminal();
        ProgressBar { what: what.to_owned(), total, terminal, begun: Instant::now(), shown: None }
    }

    /// So much is done. Shows it if the last time was a while ago.
    pub fn set(&mut self, done: usize) {
        let pause = Duration::from_millis(if self.terminal { 100 } else { 2000 });
        let old = self.shown.map(|(_, done)| done);
        let is_due = self.shown.is_none_or(|(then, _)| then.elapsed() >= pause);
        if old != Some(done) && (is_due || done >= self.total) {
            self.shown = Some((Instant::now(), done));
            let line = self.line(done, self.begun.elapsed());
            let end = if self.terminal { "\r" } else { "\n" };
            print!("  {line}{end}");
            // Somebody may be watching; if nobody can, it does not matter.
            let _ = io::stdout().flush();
        }
    }

    /// Nothing more will be shown.
    pub fn end(&self) {
        if self.terminal && self.shown.is_some() {
            println!();
        }
    }

    fn line(&self, done: usize, time: Duration) -> String {
        let full = (done.min(self.total) * Self::WIDTH).checked_div(self.total).unwrap_or(Self::WIDTH);
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(Self::WIDTH - full));
        let (now, all) = (thousands(done), thousands(self.total));
        let width = all.len();
        format!("{bar} {now:>width$} of {all} {} {:5.1} s", self.what, time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".to_owned(), "1,000".to_owned()], vec!["longer".to_owned(), "7".to_owned()]];
        let expected = "what    count\n------  -----\na       1,000\nlonger      7\n";
        assert_eq!(table(&["what", "count"], &rows), expected);
    }

    #[test]
    fn a_bar_fills() {
        let bar = ProgressBar::new("routes", 2000);
        let line = |done| bar.line(done, Duration::from_millis(1250));
        assert_eq!(line(999), format!("{}{}   999 of 2,000 routes   1.2 s", "█".repeat(19), "░".repeat(21)));
        assert_eq!(line(2001), format!("{} 2,001 of 2,000 routes   1.2 s", "█".repeat(40)));
        assert_eq!(ProgressBar::new("", 0).line(0, Duration::ZERO).chars().next(), Some('█'));
    }

    #[test]
    fn numbers_get_commas() {
        let written: Vec<String> = [0, 999, 1000, 1_234_567].into_iter().map(thousands).collect();
        assert_eq!(written, ["0", "999", "1,000", "1,234,567"]);
    }
}

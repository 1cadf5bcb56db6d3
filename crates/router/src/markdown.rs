//! The small part of Markdown that references are written in, for a terminal: headings, tables, code, lists.

use std::fmt::Write;

const BOLD: &str = "\x1b[1m";
const CYAN: &str = "\x1b[36m";
const RESET: &str = "\x1b[0m";

/// Makes text for a terminal; without colours it is plain text.
pub fn render(text: &str, color: bool) -> String {
    let style = Style { color };
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            for code in lines.by_ref().take_while(|l| !l.starts_with("```")) {
                let _ = writeln!(out, "{}", format!("    {code}").trim_end());
            }
        } else if line.starts_with('|') {
            let mut rows = vec![cells(line)];
            while let Some(row) = lines.next_if(|l| l.starts_with('|')) {
                rows.push(cells(row));
            }
            style.table(&mut out, &rows);
        } else if let Some(heading) = line.strip_prefix('#') {
            let heading = heading.trim_start_matches('#').trim();
            let _ = writeln!(out, "{}", style.paint(BOLD, heading));
        } else {
            let _ = writeln!(out, "{}", style.inline(line));
        }
    }
    out
}

/// The cells of a table's row. `\|` is a bar within a cell.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|');
    let row = row.strip_suffix('|').unwrap_or(row).replace("\\|", "\u{0}");
    row.split('|').map(|c| c.trim().replace('\u{0}', "|")).collect()
}

struct Style {
    color: bool,
}

impl Style {
    fn paint(&self, tint: &str, text: &str) -> String {
        if self.color { format!("{tint}{text}{RESET}") } else { text.to_owned() }
    }

    /// Code in backticks is tinted; without colours it is just written. Stars of `**strong**` go.
    fn inline(&self, line: &str) -> String {
        let parts = line.split('`').enumerate();
        let paint = |(i, part): (usize, &str)| match i % 2 {
            1 => self.paint(CYAN, part),
            _ => part.replace("**", ""),
        };
        parts.map(paint).collect()
    }

    /// Rows in columns, two spaces apart; the line of dashes goes, and so does an empty heading.
    fn table(&self, out: &mut String, rows: &[Vec<String>]) {
        let is_ruler =
            |r: &[String]| r.iter().all(|c| !c.is_empty() && c.bytes().all(|b| b"-: ".contains(&b)));
        let is_named = |r: &[String]| r.iter().skip(1).any(|c| !c.is_empty());
        let ruled = rows.get(1).is_some_and(|r| is_ruler(r));
        let rows = rows.iter().enumerate();
        let rows: Vec<_> = rows.filter(|(i, r)| !(ruled && (*i == 1 || *i == 0 && !is_named(r)))).collect();
        let length = |cell: &str| cell.replace("**", "").chars().filter(|c| *c != '`').count();
        let columns = rows.iter().map(|(_, r)| r.len()).max().unwrap_or(0);
        let width =
            |i: usize| rows.iter().filter_map(|(_, r)| r.get(i)).map(|c| length(c)).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (_, row) in &rows {
            let mut line = String::from("  ");
            for (cell, width) in row.iter().zip(&widths) {
                let _ = write!(
                    line,
                    "{}{:pad$}  ",
                    self.inline(cell),
                    "",
                    pad = width.saturating_sub(length(cell))
                );
            }
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "`Counter`: counts.\n\n# Arguments\n- `N`: **how** many\n\n# Handlers\n| name | | |\n|---|---|---|\n\
        | `count` | r | packets |\n| `reset` | w | a \\| b |\n\n# Example\n```click\nIdle -> c;\n\n```\nEnd\n";

    #[test]
    fn plain() {
        assert_eq!(
            render(TEXT, false),
            "Counter: counts.\n\nArguments\n- N: how many\n\nHandlers\n  count  r  packets\n  reset  w  a | b\n\n\
             Example\n    Idle -> c;\n\nEnd\n"
        );
    }

    #[test]
    fn a_heading_with_names_stays() {
        assert_eq!(render("| a | b |\n|---|---|\n| longer | 1 |\n", false), "  a       b\n  longer  1\n");
    }

    #[test]
    fn colors_do_not_move_columns() {
        let colored = render(TEXT, true);
        let mut plain = colored.clone();
        for code in [BOLD, CYAN, RESET] {
            plain = plain.replace(code, "");
        }
        assert_eq!(plain, render(TEXT, false));
        assert!(colored.contains("\x1b[1mArguments\x1b[0m") && colored.contains("\x1b[36mcount\x1b[0m"));
    }
}

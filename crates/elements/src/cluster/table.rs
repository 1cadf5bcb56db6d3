//! Tables that handlers show: as text in columns, and as JSON.

use std::fmt::Write;

/// What stands in a place of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// A number.
    Number(u64),
    /// Plain words without quotes, control characters and backslashes.
    Word(&'static str),
    /// The same, made at run time.
    Text(String),
}

impl From<u64> for Cell {
    fn from(number: u64) -> Cell {
        Cell::Number(number)
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Cell {
        Cell::Number(number as u64)
    }
}

impl From<u16> for Cell {
    fn from(number: u16) -> Cell {
        Cell::Number(number.into())
    }
}

/// A table.
#[derive(Debug)]
pub struct Table {
    /// The name of its schema.
    pub name: &'static str,
    /// Headings, which are the keys of the JSON.
    pub columns: &'static [&'static str],
    /// Rows, each with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// As a handler with this parameter shows it.
    ///
    /// # Errors
    /// If the parameter is neither empty nor `json`.
    pub fn show(&self, parameter: &str) -> Result<String, String> {
        match parameter.trim() {
            "" => Ok(self.text()),
            "json" => Ok(self.json()),
            other => Err(format!("'{other}': only json is known")),
        }
    }

    /// Headings and rows in columns, two spaces apart; numbers to the right.
    fn text(&self) -> String {
        let words: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(text).collect()).collect();
        let width = |column: usize| {
            let cells = words.iter().filter_map(|row| row.get(column)).map(String::len);
            cells.chain([self.columns[column].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let headings: Vec<String> = self.columns.iter().map(|&heading| heading.to_owned()).collect();
        let mut out = String::new();
        for row in std::iter::once(&headings).chain(&words) {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(word, width)| format!("{word:>width$}")).collect();
            let _ = writeln!(out, "{}", cells.join("  "));
        }
        out
    }

    fn json(&self) -> String {
        let cell = |(column, cell): (&&str, &Cell)| match cell {
            Cell::Number(number) => format!("\"{column}\":{number}"),
            Cell::Word(word) => format!("\"{column}\":\"{word}\""),
            Cell::Text(text) => format!("\"{column}\":\"{text}\""),
        };
        let row = |row: &Vec<Cell>| {
            let cells: Vec<String> = self.columns.iter().zip(row).map(cell).collect();
            format!("{{{}}}", cells.join(","))
        };
        let rows: Vec<String> = self.rows.iter().map(row).collect();
        format!("{{\"schema\":\"routebricks.{}/1\",\"rows\":[{}]}}\n", self.name, rows.join(","))
    }
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Number(number) => number.to_string(),
        Cell::Word(word) => (*word).to_owned(),
        Cell::Text(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_text_and_json() {
        let rows = vec![
            vec![Cell::from(7_u64), Cell::Word("up")],
            vec![Cell::from(1234_u16), Cell::Text("down".to_owned())],
        ];
        let table = Table { name: "things", columns: &["id", "state"], rows };
        assert_eq!(table.show(""), Ok("  id  state\n   7     up\n1234   down\n".to_owned()));
        let json =
            r#"{"schema":"routebricks.things/1","rows":[{"id":7,"state":"up"},{"id":1234,"state":"down"}]}"#;
        assert_eq!(table.show(" json\n"), Ok(format!("{json}\n")));
        assert_eq!(table.show("xml"), Err("'xml': only json is known".to_owned()));
    }
}

//! Plain tables for people.

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
    fn numbers_get_commas() {
        let written: Vec<String> = [0, 999, 1000, 1_234_567].into_iter().map(thousands).collect();
        assert_eq!(written, ["0", "999", "1,000", "1,234,567"]);
    }
}

//! Reads a page of the manual: commands in blocks of `sh` and within the text, and what they print.

/// A command that a page shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// `PAGE:LINE`.
    pub place: String,
    /// As it is to be typed, without a comment behind it.
    pub command: String,
    /// The block of `text` right behind its block, if there is one.
    pub prints: Option<String>,
}

/// The commands of a page in order.
pub fn shown(page: &str, text: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    let mut lines = (1..).zip(text.lines());
    // Whether nothing has come since a block of commands.
    let mut behind = false;
    while let Some((number, line)) = lines.next() {
        let block: Vec<(usize, &str)> = match line.starts_with("```") {
            true => lines.by_ref().take_while(|(_, line)| *line != "```").collect(),
            false => Vec::new(),
        };
        match line {
            "```sh" => {
                found.extend(block.into_iter().filter(|(_, line)| !line.is_empty()).map(|(number, line)| {
                    Shown {
                        place: format!("{page}:{number}"),
                        command: line.split("  #").next().unwrap_or(line).trim_end().to_owned(),
                        prints: None,
                    }
                }));
                behind = true;
            }
            "```text" if behind => {
                let text = block.into_iter().map(|(_, line)| format!("{line}\n")).collect();
                if let Some(last) = found.last_mut() {
                    last.prints = Some(text);
                }
                behind = false;
            }
            _ if line.starts_with("```") => behind = false,
            _ => {
                behind &= line.is_empty();
                found.extend(code(line).filter(|code| code.starts_with("routebricks ")).map(|code| Shown {
                    place: format!("{page}:{number}"),
                    command: code.to_owned(),
                    prints: None,
                }));
            }
        }
    }
    found
}

/// What stands between backticks in a line.
pub fn code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[test]
fn commands_and_what_they_print_are_read() {
    let text = "`routebricks a` and `other`\n```sh\nmake b   # why\nc 'd  e'\n```\n\n```text\n1\n\n2\n```\n\
                ```text\nno\n```\n```rust,ignore\n`routebricks x`\n```\n```sh\nf\n```\nwords\n```text\nno\n```\n";
    let shown: Vec<_> = shown("p", text).into_iter().map(|s| (s.place, s.command, s.prints)).collect();
    let expected = [
        ("p:1", "routebricks a", None),
        ("p:3", "make b", None),
        ("p:4", "c 'd  e'", Some("1\n\n2\n")),
        ("p:19", "f", None),
    ];
    let owned = |text: &str| text.to_owned();
    assert_eq!(
        shown,
        expected.map(|(place, command, prints)| (owned(place), owned(command), prints.map(owned)))
    );
}

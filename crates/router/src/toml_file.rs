//! TOML files that people write, read with all mistakes at once, each with its place.

use crate::config::{Reported, reason, report};
use lang::{Diagnostic, SourceMap, Span, nearest};
use std::fs::File;
use std::io::{self, Read};
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and where it stands.
pub type Value<'a> = Spanned<DeValue<'a>>;

/// A longer file is a mistake.
const MOST_BYTES: usize = 1 << 20;

/// Reads a file.
///
/// # Errors
/// If it cannot be read, or `parse` finds mistakes; all were printed.
pub fn load<T>(
    file: &Path,
    parse: impl FnOnce(&str, u32) -> Result<T, Vec<Diagnostic>>,
) -> Result<T, Reported> {
    let name = file.display().to_string();
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|f| f.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes));
    let text = text(read, bytes).map_err(|e| crate::cli::failed(format!("{name}: {e}")))?;
    let mut sources = SourceMap::new();
    let source = sources.add(name, &text);
    // As the map has it, without a byte order mark: places are those in there.
    let text = sources.get(source).map_or(&*text, |source| &source.text);
    parse(text, source).map_err(|mistakes| {
        report(&mistakes, &sources);
        Reported
    })
}

fn text(read: io::Result<usize>, bytes: Vec<u8>) -> Result<String, String> {
    match read {
        Err(e) => Err(reason(&e)),
        Ok(_) if bytes.len() > MOST_BYTES => Err(format!("longer than {MOST_BYTES} bytes")),
        Ok(_) => String::from_utf8(bytes).map_err(|e| {
            format!("byte {} is not UTF-8, in which TOML is written", e.utf8_error().valid_up_to())
        }),
    }
}

/// Reads a text, which is number `source` of a map.
///
/// # Errors
/// All mistakes, in the order of the text: those against TOML, or else those that `read` found.
pub fn parse<T: Default>(
    text: &str,
    source: u32,
    read: impl FnOnce(&mut Reader, &DeTable<'_>) -> T,
) -> Result<T, Vec<Diagnostic>> {
    let (table, broken) = DeTable::parse_recoverable(text);
    let mut reader = Reader { source, mistakes: Vec::new() };
    // What the parser makes of a broken text would give mistakes that are none.
    let result = if broken.is_empty() { read(&mut reader, table.get_ref()) } else { T::default() };
    for error in broken {
        reader.mistake(error.span().unwrap_or(0..0), error.message().trim_end());
    }
    reader.mistakes.sort_by_key(|mistake| mistake.span().start);
    if reader.mistakes.is_empty() { Ok(result) } else { Err(reader.mistakes) }
}

/// Takes values out of a table, and notes what is wrong with them.
pub struct Reader {
    source: u32,
    mistakes: Vec<Diagnostic>,
}

impl Reader {
    /// A place in the text.
    pub fn span(&self, at: Range<usize>) -> Span {
        Span::new(self.source, at)
    }

    /// Notes a mistake.
    pub fn mistake(&mut self, at: Range<usize>, message: impl Into<String>) {
        self.note(Diagnostic::error(self.span(at), message));
    }

    /// Notes a mistake that was already described.
    pub fn note(&mut self, mistake: Diagnostic) {
        self.mistakes.push(mistake);
    }

    /// Notes that a name is none of those that there are.
    pub fn unknown<'a>(
        &mut self,
        at: Range<usize>,
        name: &str,
        what: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) {
        let known: Vec<&str> = known.into_iter().collect();
        let wrong = format!("no {what} `{name}`");
        let at = self.span(at);
        let mistake = match (nearest(name, known.iter().copied()), known.split_last()) {
            (Some(near), _) => Diagnostic::error(at, format!("{wrong}; did you mean `{near}`?")),
            (None, None) => Diagnostic::error(at, wrong),
            (None, Some((only, []))) => Diagnostic::error(at, wrong).help(format!("there is only {only}")),
            (None, Some((last, most))) => {
                Diagnostic::error(at, wrong).help(format!("there are {} and {last}", most.join(", ")))
            }
        };
        self.note(mistake);
    }

    /// Notes that a value is not of the type that it must have.
    pub fn wrong_type(&mut self, name: &str, what: &str, value: &Value<'_>) {
        let is = match value.get_ref().type_str() {
            is @ ("array" | "integer") => format!("an {is}"),
            is => format!("a {is}"),
        };
        self.mistake(value.span(), format!("`{name}` is {what}, not {is}"));
    }

    /// `true` or `false`.
    pub fn flag(&mut self, name: &str, value: &Value<'_>) -> bool {
        value.get_ref().as_bool().unwrap_or_else(|| {
            self.wrong_type(name, "true or false", value);
            false
        })
    }

    /// A whole number within a range.
    pub fn number(&mut self, name: &str, value: &Value<'_>, range: RangeInclusive<u32>) -> Option<u32> {
        let what = format!("a whole number from {} to {}", range.start(), range.end());
        let Some(number) = value.get_ref().as_integer() else {
            self.wrong_type(name, &what, value);
            return None;
        };
        let number = u32::from_str_radix(number.as_str(), number.radix()).ok();
        let within = number.filter(|number| range.contains(number));
        if within.is_none() {
            self.mistake(value.span(), format!("`{name}` is {what}"));
        }
        within
    }

    /// A string that means something; what it must be is the error of `read`.
    pub fn word<T>(
        &mut self,
        name: &str,
        value: &Value<'_>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(name, "a string", value);
            return None;
        };
        read(text).map_err(|must| self.mistake(value.span(), format!("`{name}` is {must}"))).ok()
    }

    /// An array of strings, and where each stands.
    pub fn words(&mut self, name: &str, value: &Value<'_>) -> Vec<(String, Range<usize>)> {
        let mut words = Vec::new();
        for item in self.array(name, "an array of strings", value) {
            match item.get_ref().as_str() {
                Some(word) => words.push((word.to_owned(), item.span())),
                None => self.wrong_type(name, "an array of strings", item),
            }
        }
        words
    }

    /// The elements of an array, which is `what`; none of anything else.
    pub fn array<'a, 'b>(&mut self, name: &str, what: &str, value: &'b Value<'a>) -> &'b [Value<'a>] {
        match value.get_ref().as_array() {
            Some(array) => array,
            None => {
                self.wrong_type(name, what, value);
                &[]
            }
        }
    }

    /// An interface of Linux.
    pub fn interface(&mut self, name: &str, at: Range<usize>) {
        let odd = |c: char| c.is_whitespace() || c.is_control() || c == '/' || c == ':';
        let taken = [".", ".."].contains(&name);
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains(odd) || taken {
            self.mistake(at, format!("no interface of Linux can be called `{name}`"));
        }
    }

    /// Notes that `what` stands twice in the text.
    pub fn twice(&mut self, what: &str, again: Range<usize>, first: Range<usize>) {
        let [again, first] = [again, first].map(|at| self.span(at));
        self.note(Diagnostic::error(again, format!("{what} is given twice")).note(first, "first here"));
    }
}

/// Bytes of an interface's name: the kernel's `IFNAMSIZ` without the zero at its end.
pub const LONGEST_NAME: usize = 15;

/// Where a name stands again that stood before, and where that was.
pub fn repeated<T: AsRef<str>>(names: &[T]) -> impl Iterator<Item = (usize, usize)> {
    (1..names.len()).filter_map(|i| {
        let same = |name: &T| name.as_ref() == names[i].as_ref();
        Some((i, names[..i].iter().position(same)?))
    })
}

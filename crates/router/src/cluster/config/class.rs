//! Classes of packets: the tables `[[class]]`.

use super::read::{Word, named, table};
use super::words::{Named, Order};
use super::{Class, check};
use crate::toml_file::{Reader, Value};
use std::collections::BTreeMap;
use std::ops::Range;

/// What there is in such a table.
pub const CLASS: [&str; 3] = ["name", "order", "dscp"];

/// As many as headers of internal links have room for, beside the usual one.
const MOST: usize = 3;
/// What nodes call the class of all other packets.
const USUAL: &str = "default";
/// What a code point must be.
const CODE: &str = "a list of code points, each from 0 to 63 or a name such as ef, af41 or cs5";

/// Reads all of them.
pub fn read(reader: &mut Reader, value: &Value<'_>) -> Vec<Class> {
    let (mut classes, mut names, mut codes) = (Vec::new(), Vec::new(), BTreeMap::new());
    let all = reader.array("class", "an array of tables: [[class]]", value);
    for (place, value) in all.iter().enumerate() {
        if place == MOST {
            reader.mistake(value.span(), format!("there can be {MOST} classes"));
        }
        let Some(class) = one(reader, value, &mut codes) else { continue };
        names.extend(class.1.map(|name| (name.text, name.at)));
        classes.push(class.0);
    }
    check::unique(reader, "class", &names);
    classes
}

/// One class, and where its name stands. `codes`: where each code point stands that was read.
fn one(
    reader: &mut Reader,
    value: &Value<'_>,
    codes: &mut BTreeMap<u8, Range<usize>>,
) -> Option<(Class, Option<Word>)> {
    let (mut class, mut name) = (Class::default(), None);
    let table = table(reader, "class", value)?;
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "name" => {
                let text = reader.word("name", value, class_name);
                class.name = text.clone().unwrap_or_default();
                name = text.map(|text| Word { text, at: value.span() });
            }
            "order" => class.order = named::<Order>(reader, "order", value),
            "dscp" => class.codes = code_points(reader, value, codes),
            name => reader.unknown(key.span(), name, "setting of a class", CLASS),
        }
    }
    for name in CLASS.into_iter().filter(|name| !table.contains_key(*name)) {
        reader.mistake(value.span(), format!("this class lacks `{name}`"));
    }
    Some((class, name))
}

/// Of nodes, but it begins with a letter.
fn class_name(text: &str) -> Result<String, String> {
    let name = check::name(text)?;
    if name == USUAL {
        Err(format!("not `{USUAL}`, which is what belongs to no class"))
    } else if name.starts_with(|c: char| c.is_ascii_digit()) {
        Err("one that begins with a letter".to_owned())
    } else {
        Ok(name)
    }
}

fn code_points(reader: &mut Reader, value: &Value<'_>, known: &mut BTreeMap<u8, Range<usize>>) -> Vec<u8> {
    let items = reader.array("dscp", CODE, value);
    if items.is_empty() && value.get_ref().as_array().is_some() {
        reader.mistake(value.span(), "`dscp` is empty: nothing belongs to this class");
    }
    let mut codes = Vec::new();
    for item in items {
        let number = item.get_ref().as_integer();
        let number = number.and_then(|number| u8::from_str_radix(number.as_str(), number.radix()).ok());
        let named = || item.get_ref().as_str().and_then(code_of);
        let Some(code) = number.filter(|number| *number < 64).or_else(named) else {
            reader.mistake(item.span(), format!("`dscp` is {CODE}"));
            continue;
        };
        match known.get(&code) {
            Some(first) => reader.twice(&format!("code point {code}"), item.span(), first.clone()),
            None => {
                known.insert(code, item.span());
                codes.push(code);
            }
        }
    }
    codes
}

/// The code point of a name, in letters of any case: those of RFC 2474 (`cs0` to `cs7`, and `df`), 2597 (`af11` to `af43`), 3246
/// (`ef`), 5865 (`va`) and 8622 (`le`).
fn code_of(name: &str) -> Option<u8> {
    let name = name.to_ascii_lowercase();
    let digit = |byte: u8, range: std::ops::RangeInclusive<u8>| {
        Some(byte.wrapping_sub(b'0')).filter(|digit| range.contains(digit))
    };
    match name.as_bytes() {
        b"df" => Some(0),
        b"le" => Some(1),
        b"va" => Some(44),
        b"ef" => Some(46),
        [b'c', b's', class] => Some(digit(*class, 0..=7)? * 8),
        [b'a', b'f', class, drop] => Some(digit(*class, 1..=4)? * 8 + digit(*drop, 1..=3)? * 2),
        _ => None,
    }
}

impl Class {
    /// As `ClusterSwitch` takes it.
    pub fn text(&self) -> String {
        let codes = self.codes.iter().map(|code| format!(" {code}"));
        format!("{} {}{}", self.name, self.order.name(), codes.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of RFC 4594, section 2.3, and what came later.
    #[test]
    fn code_points_have_names() {
        let all = [
            ("df", 0),
            ("cs0", 0),
            ("le", 1),
            ("cs1", 8),
            ("af11", 10),
            ("af12", 12),
            ("AF13", 14),
            ("cs2", 16),
            ("af21", 18),
            ("af22", 20),
            ("af23", 22),
            ("cs3", 24),
            ("af31", 26),
            ("af32", 28),
            ("af33", 30),
            ("cs4", 32),
            ("af41", 34),
            ("af42", 36),
            ("af43", 38),
            ("cs5", 40),
            ("va", 44),
            ("EF", 46),
            ("cs6", 48),
            ("CS7", 56),
        ];
        for (name, code) in all {
            assert_eq!(code_of(name), Some(code), "{name}");
        }
        for name in ["", "ef ", "cs", "cs8", "cs-1", "af", "af1", "af14", "af01", "af51", "af411", "46"] {
            assert_eq!(code_of(name), None, "{name}");
        }
    }
}

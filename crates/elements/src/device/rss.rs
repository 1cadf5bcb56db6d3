//! The arguments about receive-side scaling.

use super::rx::LATER;
use graph::{ArgError, Args, Configure, FromArg, Text};
use io::{Rss, RssFields, RssKey, RssKeyBytes};
use lang::nearest;

/// Words that are no fields.
const ALL: &str = "all";
const NONE: &str = "none";

/// The value of `RSS`.
struct Fields(RssFields);

impl FromArg for Fields {
    fn from_arg(arg: &Text) -> Result<Fields, ArgError> {
        let text = String::from_arg(arg)?;
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            [ALL] => return Ok(Fields(RssFields::ALL)),
            [NONE] => return Ok(Fields(RssFields::NONE)),
            [] => return Err(ArgError::new(format!("what to hash is wanted, or {NONE}"))),
            _ => {}
        }
        let (mut fields, mut at) = (RssFields::NONE, 0);
        for word in text.split(|c: char| c.is_ascii_whitespace()) {
            let place = at..at + word.len();
            at = place.end + 1;
            match RssFields::of(word) {
                Some(field) => fields = fields.or(field),
                None if word.is_empty() => {}
                // In quotes it stands elsewhere.
                None if text == arg.text => return Err(unknown(word).at(arg.span_of(place))),
                None => return Err(unknown(word)),
            }
        }
        Ok(Fields(fields))
    }

    fn placeholder() -> Fields {
        Fields(RssFields::ALL)
    }
}

fn unknown(word: &str) -> ArgError {
    if [ALL, NONE].contains(&word) {
        return ArgError::new(format!("`{word}` stands alone"));
    }
    let known = || RssFields::known().chain([ALL, NONE]);
    let help = match nearest(word, known()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are: {}", known().collect::<Vec<_>>().join(" ")),
    };
    ArgError::new(format!("cannot hash `{word}`")).help(help)
}

/// The value of `RSS_KEY`.
struct Key(RssKey);

impl FromArg for Key {
    fn from_arg(arg: &Text) -> Result<Key, ArgError> {
        let text = String::from_arg(arg)?;
        match text.trim() {
            "default" => Ok(Key(RssKey::Default)),
            "symmetric" => Ok(Key(RssKey::Symmetric)),
            digits => hex(digits).map(|key| Key(RssKey::Bytes(key))),
        }
    }

    fn placeholder() -> Key {
        Key(RssKey::Default)
    }
}

/// Bytes as hexadecimal digits, with or without spaces or colons between them.
fn hex(text: &str) -> Result<RssKeyBytes, ArgError> {
    let wrong =
        || ArgError::new("neither `default` nor `symmetric` nor bytes of two hexadecimal digits each");
    let digit = |c: char| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()).ok_or_else(wrong);
    let digits = text.chars().filter(|c| !c.is_whitespace() && *c != ':');
    let digits = digits.map(digit).collect::<Result<Vec<u8>, _>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return Err(wrong());
    }
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    let most = RssKeyBytes::MOST;
    RssKeyBytes::new(&bytes).ok_or_else(|| ArgError::new(format!("no device takes more than {most} bytes")))
}

/// Reads `RSS`, `RSS_KEY` and `RSS_QUEUES`, and compares them with what the device says it has, if it can be asked.
pub fn rss_arguments(args: &mut Args, device: &str, cx: &Configure<'_>) -> Rss {
    let rss = Rss {
        fields: args.keyword_if_given::<Fields>("RSS").map(|fields| fields.0),
        key: args.keyword_if_given::<Key>("RSS_KEY").map(|key| key.0),
        queues: args.keyword_if_given("RSS_QUEUES"),
    };
    if rss.queues == Some(0) {
        args.error("RSS_QUEUES", "at least one queue is wanted");
    }
    for (name, given) in [("RSS_KEY", rss.key.is_some()), ("RSS_QUEUES", rss.queues.is_some())] {
        if rss.fields == Some(RssFields::NONE) && given {
            args.error(name, "of no use with RSS none");
        }
    }
    if rss != Rss::UNSAID
        && device != LATER
        && let Some(offer) = cx.devices.rss(device)
    {
        if let Err((name, text)) = rss.check(offer) {
            args.error(name, text);
        }
        if let Some((name, text)) = rss.warning(offer) {
            args.warn(name, text);
        }
    }
    rss
}

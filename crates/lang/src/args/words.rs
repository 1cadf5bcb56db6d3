//! Arguments that consist of several words, such as a route.

use super::value::{ArgError, FromArg};
use crate::text::{Text, Unit, unit_at};

/// Reads an argument word by word; spaces within quotes do not separate.
///
/// ```
/// use lang::args::{ArgError, Ipv4Prefix, Words};
/// use lang::{Span, Text};
///
/// # fn main() -> Result<(), ArgError> {
/// let route = Text::verbatim("10.0.0.0/8 192.0.2.1 2", Span::default());
/// let mut words = Words::new(&route);
/// let prefix: Ipv4Prefix = words.take("prefix")?;
/// let gateway: std::net::Ipv4Addr = words.take("gateway")?;
/// let port: u32 = words.take("port")?;
/// words.end()?;
/// # assert_eq!((prefix.length, gateway.octets()[3], port), (8, 1, 2));
/// # Ok(())
/// # }
/// ```
pub struct Words {
    words: std::collections::VecDeque<Text>,
    whole: Text,
}

impl Words {
    /// The words of `arg`.
    pub fn new(arg: &Text) -> Words {
        Words { words: arg.words().into(), whole: arg.clone() }
    }

    /// How many words are left.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The next word, which stays.
    pub fn peek(&self) -> Option<&Text> {
        self.words.front()
    }

    /// Takes the next word as a `T`; `what` names it in messages.
    ///
    /// # Errors
    /// `WHAT missing`, or what is wrong with the word, located at it.
    pub fn take<T: FromArg>(&mut self, what: &str) -> Result<T, ArgError> {
        let Some(word) = self.words.pop_front() else {
            let end = self.whole.text.len();
            return Err(ArgError::new(format!("{what} missing")).at(self.whole.span_of(end..end)));
        };
        T::from_arg(&word).map_err(|mut e| {
            e.message = format!("{what}: {}", e.message);
            e.at(word.span)
        })
    }

    /// Makes sure that nothing is left.
    ///
    /// # Errors
    /// `unexpected 'WORD'`, located at the first word that is left.
    pub fn end(self) -> Result<(), ArgError> {
        match self.words.front() {
            Some(word) => Err(ArgError::new(format!("unexpected '{}'", word.text)).at(word.span)),
            None => Ok(()),
        }
    }
}

impl Text {
    /// The words of the text; spaces within quotes do not separate.
    pub fn words(&self) -> Vec<Text> {
        let bytes = self.text.as_bytes();
        let mut words = Vec::new();
        let (mut pos, mut start) = (0, None);
        while pos < bytes.len() {
            let (unit, end, _) = unit_at(bytes, pos);
            let space = match unit {
                Unit::Plain => bytes[pos].is_ascii_whitespace(),
                Unit::Comment => true,
                _ => false,
            };
            match (space, start) {
                (true, Some(from)) => {
                    words.push(self.slice(from..pos));
                    start = None;
                }
                (false, None) => start = Some(pos),
                _ => {}
            }
            pos = end;
        }
        words.extend(start.map(|from| self.slice(from..bytes.len())));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Span;
    use std::net::Ipv4Addr;

    fn text(s: &str) -> Text {
        Text::verbatim(s, Span::new(0, 10..10 + s.len()))
    }

    #[test]
    fn words_keep_quotes_together() {
        let all: Vec<String> = text(" a \"b c\"d 'e f'/* */g ").words().into_iter().map(|w| w.text).collect();
        assert_eq!(all, ["a", "\"b c\"d", "'e f'", "g"]);
    }

    #[test]
    fn errors_point_at_the_word() {
        let route = text("10.0.0.1 x");
        let mut words = Words::new(&route);
        assert_eq!(words.take("gateway"), Ok(Ipv4Addr::new(10, 0, 0, 1)));
        let e = words.take::<u32>("port").unwrap_err();
        assert_eq!((e.message.as_str(), e.span), ("port: invalid number", Some(Span::new(0, 19..20))));
        let e = words.take::<u32>("port").unwrap_err();
        assert_eq!((e.message.as_str(), e.span), ("port missing", Some(Span::new(0, 20..20))));
        let e = Words::new(&route).end().unwrap_err();
        assert_eq!(e.message, "unexpected '10.0.0.1'");
    }
}

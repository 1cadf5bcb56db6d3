//! From the text of a pattern to words and signs.

use std::ops::Range;

/// A word or a sign, and where it stands in the pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The word or sign itself.
    pub text: String,
    /// Byte range.
    pub at: Range<usize>,
}

impl Token {
    /// True for a word, false for a sign.
    pub fn is_word(&self) -> bool {
        self.text == "-" || self.text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
    }
}

const SIGNS: &[&str] =
    &["&&", "||", "==", "!=", "<=", ">=", "(", ")", "[", "]", "!", "&", "?", ":", "=", "<", ">"];

/// Splits a pattern.
///
/// # Errors
/// The place of a character that begins neither a word nor a sign.
pub fn lex(text: &str) -> Result<Vec<Token>, Range<usize>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|r| !r.is_empty()) {
        let Some(first) = rest.chars().next() else { break };
        if first.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let len = match SIGNS.iter().find(|s| rest.starts_with(**s)) {
            Some(sign) => sign.len(),
            None => word_len(rest),
        };
        if len == 0 {
            return Err(at..at + first.len_utf8());
        }
        tokens.push(Token { text: rest[..len].to_owned(), at: at..at + len });
        at += len;
    }
    Ok(tokens)
}

/// Length of the word at the front. A colon belongs to it between letters and digits (`0:1b:21:3c:4d:5e`, `6:2`).
fn word_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let in_word = |i: usize| match bytes.get(i) {
        Some(b':') => i > 0 && bytes.get(i + 1).is_some_and(u8::is_ascii_alphanumeric),
        Some(b) => b.is_ascii_alphanumeric() || b"_./-".contains(b),
        None => false,
    };
    (0..).take_while(|&i| in_word(i)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_signs() {
        let words = |text: &str| lex(text).map(|all| all.into_iter().map(|t| t.text).collect::<Vec<_>>());
        assert_eq!(words("src port!=80&&(tcp)").unwrap(), ["src", "port", "!=", "80", "&&", "(", "tcp", ")"]);
        assert_eq!(words("ip[6:2] & 0x1fff = 0").unwrap(), ["ip", "[", "6:2", "]", "&", "0x1fff", "=", "0"]);
        assert_eq!(words("ether host 0:1b:2:3:4:5 ? a : b").unwrap().len(), 7);
        assert_eq!(words("-").unwrap(), ["-"]);
        assert_eq!(lex("tcp $ x"), Err(4..5));
        assert_eq!(lex("é"), Err(0..2));
    }
}

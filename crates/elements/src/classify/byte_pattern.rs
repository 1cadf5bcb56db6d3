//! The patterns of `Classifier`: bytes at offsets.

use lang::Text;
use lang::args::{ArgError, FromArg, Words};

/// The last byte that a clause may look at: no packet is longer.
const MAX_END: usize = 65_535;

/// `[!]OFFSET/VALUE[%MASK]`: true if the packet has these bytes there (`!`: if it has not).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// Where the value stands in the packet.
    pub offset: usize,
    /// The bits that count.
    pub mask: Vec<u8>,
    /// As long as the mask, 0 where that is 0.
    pub value: Vec<u8>,
    /// True for `!`.
    pub negated: bool,
}

/// Clauses that must all be true; none (`-`) = every packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern(pub Vec<Clause>);

impl Clause {
    /// One behind the last byte that the clause looks at. A packet that ends before it does not have the value.
    pub fn end(&self) -> usize {
        self.offset + self.value.len()
    }

    fn parse(text: &str, negated: bool) -> Result<Clause, ArgError> {
        let (offset, rest) = text.split_once('/').ok_or_else(|| {
            ArgError::parse().help("clauses are written `OFFSET/VALUE` or `OFFSET/VALUE%MASK`, as `12/0800`")
        })?;
        if offset.is_empty() || !offset.bytes().all(|b| b.is_ascii_digit()) {
            return Err(ArgError::new("the offset is not a number"));
        }
        let too_far = || ArgError::range(MAX_END);
        let offset: usize = offset.parse().ok().filter(|o| *o <= MAX_END).ok_or_else(too_far)?;
        let (value, mask) = rest.split_once('%').map_or((rest, None), |(v, m)| (v, Some(m)));
        let (mut value, mut care) = digits(value, "value")?;
        if let Some(mask) = mask {
            if mask.contains('?') {
                return Err(ArgError::new("the mask has a `?`"));
            }
            let (mask, _) = digits(mask, "mask")?;
            if mask.len() != care.len() {
                return Err(ArgError::new("value and mask are not of the same length"));
            }
            care.iter_mut().zip(mask).for_each(|(c, m)| *c &= m);
        }
        value.iter_mut().zip(&care).for_each(|(v, c)| *v &= c);
        if offset + value.len() > MAX_END {
            return Err(too_far());
        }
        Ok(Clause { offset, mask: care, value, negated })
    }
}

/// Hexadecimal digits, `?` for any, as bytes and the bits that are not `?`.
fn digits(text: &str, what: &str) -> Result<(Vec<u8>, Vec<u8>), ArgError> {
    let mut nibbles = Vec::new();
    for c in text.chars() {
        match (c, c.to_digit(16)) {
            ('?', _) => nibbles.push((0, 0)),
            (_, Some(digit)) => nibbles.push((u8::try_from(digit).unwrap_or(0), 0xf)),
            _ => return Err(ArgError::new(format!("the {what} has `{c}`, which is no hexadecimal digit"))),
        }
    }
    if nibbles.is_empty() {
        return Err(ArgError::new(format!("the {what} is empty")));
    }
    let (pairs, rest) = nibbles.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(ArgError::new(format!("the {what} has an odd number of digits")));
    }
    Ok(pairs.iter().map(|[(h, hm), (l, lm)]| (h << 4 | l, hm << 4 | lm)).unzip())
}

impl FromArg for Pattern {
    fn from_arg(arg: &Text) -> Result<Pattern, ArgError> {
        let mut words = Words::new(arg);
        if words.is_empty() {
            return Err(ArgError::new("the pattern is empty").help("`-` matches every packet"));
        }
        if arg.text.trim() == "-" {
            return Ok(Pattern::default());
        }
        let mut clauses = Vec::new();
        while !words.is_empty() {
            let mut word: Text = words.take("clause")?;
            let negated = word.text.starts_with('!');
            if negated && word.text.len() == 1 {
                word = words.take("clause")?;
            } else if negated {
                word = word.slice(1..word.text.len());
            }
            clauses.push(Clause::parse(&word.text, negated).map_err(|e| e.at(word.span))?);
        }
        Ok(Pattern(clauses))
    }

    fn placeholder() -> Pattern {
        Pattern::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lang::Span;

    fn parse(text: &str) -> Result<Pattern, String> {
        Pattern::from_arg(&Text::verbatim(text, Span::default())).map_err(|e| e.message)
    }

    fn clause(offset: usize, mask: &[u8], value: &[u8], negated: bool) -> Clause {
        Clause { offset, mask: mask.to_vec(), value: value.to_vec(), negated }
    }

    #[test]
    fn clauses_are_read() {
        assert_eq!(parse("-"), Ok(Pattern(vec![])));
        assert_eq!(
            parse("12/0806  !20/0001%00ff"),
            Ok(Pattern(vec![
                clause(12, &[0xff, 0xff], &[8, 6], false),
                clause(20, &[0, 0xff], &[0, 1], true)
            ]))
        );
        assert_eq!(parse("! 0/4?"), Ok(Pattern(vec![clause(0, &[0xf0], &[0x40], true)])));
        assert_eq!(parse("3/aB%0F"), Ok(Pattern(vec![clause(3, &[0x0f], &[0x0b], false)])));
        assert_eq!(parse("0/??12%f0ff"), Ok(Pattern(vec![clause(0, &[0, 0xff], &[0, 0x12], false)])));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, want) in [
            ("", "the pattern is empty"),
            ("x", "parse error"),
            ("12/", "the value is empty"),
            ("12/080", "the value has an odd number of digits"),
            ("12/08%ffff", "value and mask are not of the same length"),
            ("12/08%f?", "the mask has a `?`"),
            ("12/0g", "the value has `g`, which is no hexadecimal digit"),
            ("-1/08", "the offset is not a number"),
            ("+1/08", "the offset is not a number"),
            ("65535/08", "out of range, bound 65535"),
            ("99999999999999999999/08", "out of range, bound 65535"),
            ("12/08 !", "clause missing"),
            ("12/08 -", "parse error"),
        ] {
            assert_eq!(parse(text), Err(want.to_owned()), "{text}");
        }
    }
}

//! One-byte annotations as arguments: an offset, `OFFSET/1`, or a name.

use graph::{ArgError, FromArg, Text};
use packet::anno;

/// Names that stand for one byte.
const NAMES: &[(&str, usize)] =
    &[("PAINT", anno::PAINT), ("ICMP_PARAM_PROB", anno::ICMP_PARAM_PROB), ("FIX_IP_SRC", anno::FIX_IP_SRC)];

/// Offset of an annotation byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteAnno(pub usize);

impl ByteAnno {
    /// The paint annotation.
    pub const PAINT: ByteAnno = ByteAnno(anno::PAINT);
}

impl FromArg for ByteAnno {
    fn from_arg(arg: &Text) -> Result<ByteAnno, ArgError> {
        let text = arg.text.as_str();
        if let Some((_, offset)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(ByteAnno(*offset));
        }
        let (offset, size) = text.split_once('/').unwrap_or((text, "1"));
        if lang::args::unsigned(size, u64::MAX)? != 1 {
            return Err(ArgError::new(format!("annotation of 1 byte wanted, not {size}")));
        }
        let offset = lang::args::unsigned(offset, anno::SIZE as u64 - 1)?;
        Ok(ByteAnno(usize::try_from(offset).unwrap_or(0)))
    }

    fn placeholder() -> ByteAnno {
        ByteAnno::PAINT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lang::Span;

    #[test]
    fn offsets_and_names() {
        let read = |text: &str| {
            ByteAnno::from_arg(&Text::verbatim(text, Span::default())).map(|a| a.0).map_err(|e| e.message)
        };
        assert_eq!((read("PAINT"), read("0"), read("47/1")), (Ok(16), Ok(0), Ok(47)));
        assert_eq!(read("48"), Err("out of range, bound 47".to_owned()));
        assert_eq!(read("20/4"), Err("annotation of 1 byte wanted, not 4".to_owned()));
        assert_eq!(read("NOTHING"), Err("invalid number".to_owned()));
    }
}

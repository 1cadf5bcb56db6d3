//! Annotations as arguments: a byte offset, `offset/size`, or a name.

use graph::{ArgError, FromArg, Text};
use packet::anno;

/// Names, offsets and sizes of annotations.
const NAMES: &[(&str, usize, usize)] = &[
    ("DST_IP", anno::DST_IP, 4),
    ("DST_IP6", anno::DST_IP6, 16),
    ("PAINT", anno::PAINT, 1),
    ("ICMP_PARAM_PROB", anno::ICMP_PARAM_PROB, 1),
    ("FIX_IP_SRC", anno::FIX_IP_SRC, 1),
    ("AGGREGATE", anno::AGGREGATE, 4),
    ("EXTRA_PACKETS", anno::EXTRA_PACKETS, 4),
    ("EXTRA_LENGTH", anno::EXTRA_LENGTH, 4),
    ("FIRST_TIMESTAMP", anno::FIRST_TIMESTAMP, 8),
    ("PACKET_NUMBER", anno::PACKET_NUMBER, 4),
];

/// Offset of an annotation of `SIZE` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnnoOffset<const SIZE: usize>(pub usize);

impl AnnoOffset<1> {
    /// The paint annotation.
    pub const PAINT: AnnoOffset<1> = AnnoOffset(anno::PAINT);
}

impl<const SIZE: usize> FromArg for AnnoOffset<SIZE> {
    fn from_arg(arg: &Text) -> Result<AnnoOffset<SIZE>, ArgError> {
        let text = arg.text.as_str();
        let number = |text: &str| {
            lang::args::unsigned(text, u64::MAX).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
        };
        let (offset, size) = match NAMES.iter().find(|(name, ..)| *name == text) {
            Some(&(_, offset, size)) => (offset, size),
            None => match text.split_once('/') {
                Some((offset, size)) => (number(offset)?, number(size)?),
                None => (number(text)?, SIZE),
            },
        };
        if size != SIZE {
            let plural = if SIZE == 1 { "" } else { "s" };
            return Err(ArgError::new(format!("annotation of {SIZE} byte{plural} wanted, not {size}")));
        }
        if offset > anno::SIZE - SIZE {
            return Err(ArgError::range(anno::SIZE - SIZE));
        }
        Ok(AnnoOffset(offset))
    }

    fn placeholder() -> AnnoOffset<SIZE> {
        AnnoOffset(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lang::Span;

    #[test]
    fn offsets_and_names() {
        fn read_as<const SIZE: usize>(text: &str) -> Result<usize, String> {
            let text = Text::verbatim(text, Span::default());
            AnnoOffset::<SIZE>::from_arg(&text).map(|a| a.0).map_err(|e| e.message)
        }
        let read = read_as::<4>;
        assert_eq!((read("DST_IP"), read("24"), read("20/4"), read("44")), (Ok(0), Ok(24), Ok(20), Ok(44)));
        assert_eq!(read("45"), Err("out of range, bound 44".to_owned()));
        assert_eq!(read("PAINT"), Err("annotation of 4 bytes wanted, not 1".to_owned()));
        assert_eq!(read("NOTHING"), Err("invalid number".to_owned()));
        let read = read_as::<1>;
        assert_eq!((read("PAINT"), read("0"), read("47/1")), (Ok(16), Ok(0), Ok(47)));
        for far in ["48", "49", "99999999999999999999"] {
            assert!(read(far).is_err_and(|e| e.starts_with("out of range, bound")), "{far}");
        }
        assert_eq!(read("48"), Err("out of range, bound 47".to_owned()));
        assert_eq!(read("20/4"), Err("annotation of 1 byte wanted, not 4".to_owned()));
    }
}

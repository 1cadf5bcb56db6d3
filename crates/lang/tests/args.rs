//! Arguments: any text can be read as any type without a panic, and values that are written out read back.

use lang::args::{Args, Bandwidth, FromArg, Ipv4Prefix, Ipv6Prefix, Words, nanoseconds, split, unquote};
use lang::{Span, Text};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

fn text(s: &str) -> Text {
    Text::verbatim(s, Span::new(0, 0..s.len()))
}

fn read<T: FromArg>(s: &str) -> Option<T> {
    T::from_arg(&text(s)).ok()
}

fn read_as_everything(s: &str) {
    let _ = (read::<bool>(s), read::<f64>(s), read::<u8>(s), read::<i8>(s), read::<u64>(s), read::<i64>(s));
    let _ = (read::<Duration>(s), read::<Bandwidth>(s), read::<Ipv4Addr>(s), read::<Ipv4Prefix>(s));
    let _ = (read::<Ipv6Addr>(s), read::<Ipv6Prefix>(s), read::<IpAddr>(s), read::<[u8; 6]>(s));
    let _ = (read::<String>(s), read::<Vec<u8>>(s), read::<std::path::PathBuf>(s));
    let whole = text(s);
    for word in whole.words() {
        assert_eq!(s.get(word.span.range()), Some(word.text.as_str()));
    }
    let mut words = Words::new(&whole);
    let _ = (words.take::<u32>("a"), words.take::<Ipv4Prefix>("b"), words.end());
}

proptest! {
    #[test]
    fn no_text_is_too_strange(s in "\\PC{0,40}") {
        read_as_everything(&s);
    }

    #[test]
    fn nor_a_nearly_right_one(s in "[-+]?[0-9a-fxX.:/]{0,20} ?(k|M|bps|B/s|ms|min)?") {
        read_as_everything(&s);
    }

    #[test]
    fn splitting_never_panics_and_reading_reports_within_the_text(s in "[A-Z a-z0-9,'\"\\\\<>/*\n]{0,60}") {
        let config = text(&s);
        for argument in split(&config) {
            prop_assert_eq!(argument.text.trim_ascii(), argument.text.as_str());
            unquote(&argument.text);
        }
        let mut args = Args::new(&config);
        let _: (u8, bool, Vec<Ipv4Prefix>) = (args.required("A"), args.keyword("B", true), args.rest("C"));
        for d in args.finish().err().unwrap_or_default() {
            prop_assert!(s.get(d.span().range()).is_some());
        }
    }

    #[test]
    fn integers_as_the_standard_library_reads_them(n in any::<i64>(), s in "[0-9]{1,25}") {
        prop_assert_eq!(read::<i64>(&n.to_string()), Some(n));
        prop_assert_eq!(read::<i32>(&n.to_string()), i32::try_from(n).ok());
        prop_assert_eq!(read::<u16>(&format!("{n:#x}")), u16::try_from(n).ok());
        prop_assert_eq!(read::<u64>(&format!("0{n:o}")), Some(n as u64));
        let decimal = format!("1{s}");
        prop_assert_eq!(read::<u64>(&decimal), decimal.parse().ok());
    }

    #[test]
    fn addresses_and_prefixes_read_back(a in any::<u32>(), b in any::<u128>(), l in 0u8..=32, m in 0u8..=128, e in any::<[u8; 6]>()) {
        let p = Ipv4Prefix { address: Ipv4Addr::from_bits(a), length: l };
        prop_assert_eq!(read(&format!("{}/{l}", p.address)), Some(p));
        prop_assert_eq!(read(&format!("{}/{}", p.address, p.mask())), Some(p));
        let bits = (0..32).filter(|i| i < &u32::from(l)).fold(0u32, |m, i| m | 1 << (31 - i));
        prop_assert_eq!(p.mask().to_bits(), bits);
        let p = Ipv6Prefix { address: Ipv6Addr::from_bits(b), length: m };
        prop_assert_eq!(read(&format!("{}/{m}", p.address)), Some(p));
        prop_assert_eq!(read(&format!("{}/{}", p.address, p.mask())), Some(p));
        let hex: Vec<String> = e.iter().map(|x| format!("{x:x}")).collect();
        prop_assert_eq!(read(&hex.join(":")), Some(e));
        prop_assert_eq!(read(&hex.join("-").to_uppercase()), Some(e));
    }

    #[test]
    fn times_read_back(s in 0u64..10_000_000_000, ns in 0u64..1_000_000_000) {
        prop_assert_eq!(nanoseconds(&format!("{s}.{ns:09}")).ok(), Some(s * 1_000_000_000 + ns));
        prop_assert_eq!(nanoseconds(&format!("{ns}us")).ok(), Some(ns * 1000));
    }
}

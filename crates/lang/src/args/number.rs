//! Truth values, numbers, times and rates.

use super::value::{ArgError, FromArg};
use crate::text::Text;
use std::time::Duration;

/// Reads `0 1 f t n y false true no yes`, lower case only.
///
/// # Errors
/// `parse error` for anything else.
pub fn boolean(text: &str) -> Result<bool, ArgError> {
    match text {
        "1" | "t" | "y" | "true" | "yes" => Ok(true),
        "0" | "f" | "n" | "false" | "no" => Ok(false),
        _ => Err(ArgError::parse().help("write `true` or `false`")),
    }
}

/// Sign and size of an integer: decimal, `0x` hexadecimal, or octal with a leading 0. Sizes beyond `u128` are
/// cut to its maximum.
fn integer(text: &str) -> Result<(bool, u128), ArgError> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        (16, hex)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (8, &digits[1..])
    } else {
        (10, digits)
    };
    if digits.is_empty() {
        return Err(ArgError::number());
    }
    let mut value = 0u128;
    for c in digits.chars() {
        let digit = c.to_digit(radix).ok_or_else(ArgError::number)?;
        value = value.saturating_mul(u128::from(radix)).saturating_add(u128::from(digit));
    }
    Ok((negative, value))
}

/// Reads an integer of at most `bound`.
///
/// # Errors
/// `invalid number`, or `out of range, bound N` with the bound that is exceeded.
pub fn unsigned(text: &str, bound: u64) -> Result<u64, ArgError> {
    match integer(text)? {
        (true, value) if value > 0 => Err(ArgError::range(0)),
        (_, value) => u64::try_from(value).ok().filter(|v| *v <= bound).ok_or_else(|| ArgError::range(bound)),
    }
}

/// Reads an integer from `low` to `high`.
///
/// # Errors
/// `invalid number`, or `out of range, bound N` with the bound that is exceeded.
pub fn signed(text: &str, low: i64, high: i64) -> Result<i64, ArgError> {
    let (negative, size) = integer(text)?;
    let size = i128::try_from(size).unwrap_or(i128::MAX);
    let value = if negative { -size } else { size };
    if value < i128::from(low) {
        return Err(ArgError::range(low));
    }
    i64::try_from(value).ok().filter(|v| *v <= high).ok_or_else(|| ArgError::range(high))
}

/// Reads a real number such as `0.5`, `.5`, `5.` or `1e-3`.
///
/// # Errors
/// `invalid number`, also for infinities.
pub fn real(text: &str) -> Result<f64, ArgError> {
    let shape = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    let value = if shape { text.parse::<f64>().ok() } else { None };
    value.filter(|v| v.is_finite()).ok_or_else(ArgError::number)
}

/// Reads `5`, `.5s`, `10ms`, `3min`, `1h`, ... as nanoseconds; without a unit: seconds. Digits beyond the
/// nanosecond are dropped.
///
/// # Errors
/// `parse error`, or `out of range` beyond 2^64 nanoseconds (584 years).
pub fn nanoseconds(text: &str) -> Result<u64, ArgError> {
    let (digits, unit) = quantity(text)?;
    let scale: u128 = match unit {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
        "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => 1_000_000,
        "us" | "usec" | "usecs" | "microsecond" | "microseconds" => 1_000,
        "ns" | "nsec" | "nsecs" | "nanosecond" | "nanoseconds" => 1,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
        "h" | "hr" | "hour" | "hours" => 3_600_000_000_000,
        "d" | "day" | "days" => 86_400_000_000_000,
        _ => return Err(ArgError::parse().help("times are written `5`, `.5s`, `10ms`, `3min`, `1h`")),
    };
    scaled(digits, scale, 1)
}

/// Reads `10Mbps`, `1.5MB/s`, `64kbit/s`, ... as bytes per second; a bare number is bytes per second. Prefixes
/// are decimal (k = 1000).
///
/// # Errors
/// `parse error`, or `out of range` beyond 2^64 bytes per second.
pub fn bandwidth(text: &str) -> Result<u64, ArgError> {
    let (digits, unit) = quantity(text)?;
    let (scale, unit): (u128, &str) = match unit.as_bytes() {
        [b'k' | b'K', ..] => (1_000, &unit[1..]),
        [b'M' | b'm', ..] => (1_000_000, &unit[1..]),
        [b'G' | b'g', ..] => (1_000_000_000, &unit[1..]),
        [b'T' | b't', ..] => (1_000_000_000_000, &unit[1..]),
        _ => (1, unit),
    };
    let divisor = match unit {
        "" | "B" | "Bps" | "B/s" | "byte/s" | "bytes/s" => 1,
        "b" | "bps" | "b/s" | "bit/s" | "bits/s" | "baud" => 8,
        _ => return Err(ArgError::parse().help("rates are written `1000` (bytes/s), `10Mbps`, `1.5MB/s`")),
    };
    scaled(digits, scale, divisor)
}

/// Splits a number (digits with at most one point) from the unit behind it.
fn quantity(text: &str) -> Result<((&str, &str), &str), ArgError> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(ArgError::parse());
    }
    Ok(((whole, fraction), unit.trim_ascii()))
}

fn scaled((whole, fraction): (&str, &str), scale: u128, divisor: u128) -> Result<u64, ArgError> {
    let out_of_range = || ArgError::range(u64::MAX);
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| out_of_range())? };
    let mut total = whole.checked_mul(scale).ok_or_else(out_of_range)?;
    // Digits behind the point beyond the 18th are worth less than any unit.
    let mut worth = scale * 1_000_000_000_000_000_000;
    let mut small = 0u128;
    for digit in fraction.bytes().take(18) {
        worth /= 10;
        small += worth * u128::from(digit - b'0');
    }
    total = total.checked_add(small / 1_000_000_000_000_000_000).ok_or_else(out_of_range)?;
    u64::try_from(total / divisor).map_err(|_| out_of_range())
}

/// A rate in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bandwidth(pub u64);

impl FromArg for Bandwidth {
    fn from_arg(arg: &Text) -> Result<Bandwidth, ArgError> {
        bandwidth(&arg.text).map(Bandwidth)
    }
    fn placeholder() -> Bandwidth {
        Bandwidth(0)
    }
}

impl FromArg for Duration {
    fn from_arg(arg: &Text) -> Result<Duration, ArgError> {
        nanoseconds(&arg.text).map(Duration::from_nanos)
    }
    fn placeholder() -> Duration {
        Duration::ZERO
    }
}

impl FromArg for bool {
    fn from_arg(arg: &Text) -> Result<bool, ArgError> {
        boolean(&arg.text)
    }
    fn placeholder() -> bool {
        false
    }
}

impl FromArg for f64 {
    fn from_arg(arg: &Text) -> Result<f64, ArgError> {
        real(&arg.text)
    }
    fn placeholder() -> f64 {
        0.0
    }
}

macro_rules! integers {
    ($read:ident, $wide:ty: $($t:ty),*) => {$(
        impl FromArg for $t {
            fn from_arg(arg: &Text) -> Result<$t, ArgError> {
                let value = $read!(arg, $t, $wide)?;
                <$t>::try_from(value).map_err(|_| ArgError::range(<$t>::MAX))
            }
            fn placeholder() -> $t {
                0
            }
        }
    )*};
}
macro_rules! read_unsigned {
    ($arg:ident, $t:ty, $wide:ty) => {
        unsigned(&$arg.text, <$t>::MAX as $wide)
    };
}
macro_rules! read_signed {
    ($arg:ident, $t:ty, $wide:ty) => {
        signed(&$arg.text, <$t>::MIN as $wide, <$t>::MAX as $wide)
    };
}
integers!(read_unsigned, u64: u8, u16, u32, u64, usize);
integers!(read_signed, i64: i8, i16, i32, i64);

#[cfg(test)]
mod tests {
    use super::*;

    fn text<T>(r: Result<T, ArgError>) -> String {
        r.err().map_or("ok".to_string(), |e| e.message)
    }

    #[test]
    fn booleans_are_lower_case() {
        for t in ["1", "t", "y", "true", "yes"] {
            assert_eq!(boolean(t), Ok(true));
        }
        for f in ["0", "f", "n", "false", "no"] {
            assert_eq!(boolean(f), Ok(false));
        }
        for bad in ["TRUE", "2", "", "on"] {
            assert_eq!(text(boolean(bad)), "parse error");
        }
    }

    #[test]
    fn integers() {
        assert_eq!(unsigned("255", 255), Ok(255));
        assert_eq!(unsigned("0xfF", 255), Ok(255));
        assert_eq!(unsigned("0377", 255), Ok(255));
        assert_eq!(unsigned("0", 255), Ok(0));
        assert_eq!(unsigned("-0", 255), Ok(0));
        assert_eq!(text(unsigned("256", 255)), "out of range, bound 255");
        assert_eq!(text(unsigned("-1", 255)), "out of range, bound 0");
        assert_eq!(text(unsigned(&"9".repeat(60), u64::MAX)), "out of range, bound 18446744073709551615");
        for bad in ["", "x", "0x", "08", "1 2", "1.5", "--1", "é", "-"] {
            assert_eq!(text(unsigned(bad, 9)), "invalid number", "{bad}");
        }
        assert_eq!(signed("-128", -128, 127), Ok(-128));
        assert_eq!(text(signed("-129", -128, 127)), "out of range, bound -128");
        assert_eq!(text(signed("128", -128, 127)), "out of range, bound 127");
        assert_eq!(signed("-0x8000000000000000", i64::MIN, i64::MAX), Ok(i64::MIN));
    }

    #[test]
    fn reals() {
        assert_eq!(real(".5"), Ok(0.5));
        assert_eq!(real("1e3"), Ok(1000.0));
        for bad in ["", "inf", "nan", "1e999", ".", "x"] {
            assert_eq!(text(real(bad)), "invalid number", "{bad}");
        }
    }

    #[test]
    fn times() {
        let s = 1_000_000_000;
        for (t, want) in [
            ("5", 5 * s),
            (".5s", s / 2),
            ("10ms", s / 100),
            ("3min", 180 * s),
            ("1h", 3600 * s),
            ("1.5 sec", 3 * s / 2),
            ("1us", 1000),
            ("2ns", 2),
            ("0.0000000019", 1),
            ("1d", 86400 * s),
        ] {
            assert_eq!(nanoseconds(t), Ok(want), "{t}");
        }
        for bad in ["", "s", ".", "1.2.3", "5x", "-1"] {
            assert_eq!(text(nanoseconds(bad)), "parse error", "{bad}");
        }
        assert_eq!(text(nanoseconds("99999999999999")), "out of range, bound 18446744073709551615");
        assert_eq!(text(nanoseconds(&"9".repeat(99))), "out of range, bound 18446744073709551615");
    }

    #[test]
    fn rates() {
        for (t, want) in [
            ("1000", 1000),
            ("8kbps", 1000),
            ("10Mbps", 1_250_000),
            ("1.5MB/s", 1_500_000),
            ("1Gb/s", 125_000_000),
            ("2 kBps", 2000),
            ("9baud", 1),
            ("0.001MB/s", 1000),
        ] {
            assert_eq!(bandwidth(t), Ok(want), "{t}");
        }
        assert_eq!(text(bandwidth("1 furlong")), "parse error");
    }
}

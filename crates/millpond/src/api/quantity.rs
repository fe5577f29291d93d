//! Parsing and formatting sizes, durations and numbers for people: used by the program and its laboratory.
//!
//! Sizes and times are parsed as in settings (`settings/value.rs`), with bounds and a full sentence for errors. Numbers
//! are printed with three significant digits, because the spread between runs exceeds that precision.

use crate::settings::Value;
use crate::settings::value::{bytes, nanoseconds};
use millpond_core::units::{Bytes, Nanos};

/// The largest size, 8192T: beyond 2^53 a float can't represent every byte count.
const SIZE_MAX: Bytes = Bytes(1 << 53);

/// The longest time: a day is longer than any experiment, and far from where nanoseconds overflow.
const TIME_MAX: Nanos = Nanos::from_secs(86_400);

/// Parses a size such as `512M`, `1.5G`, `64KiB` or `100MB`.
///
/// # Errors
/// A sentence that names the text and what is allowed.
pub fn parse_size(text: &str) -> Result<Bytes, String> {
    match bytes(text.trim()) {
        Some(bytes) if bytes <= u128::from(SIZE_MAX.0) => Ok(Bytes(bytes as u64)),
        Some(_) => Err(format!("`{text}` is too large: sizes go up to 8192T")),
        None => Err(format!(
            "`{text}` is not a size: give a number with K, M, G or T, such as 512M, 1.5G or 64KiB"
        )),
    }
}

/// Parses a duration such as `40ms`, `2s`, `500us` or `1.5s`.
///
/// # Errors
/// A sentence that names the text and what is allowed.
pub fn parse_time(text: &str) -> Result<Nanos, String> {
    match nanoseconds(text.trim()) {
        Some(span) if span <= u128::from(TIME_MAX.0) => Ok(Nanos(span as u64)),
        Some(_) => Err(format!("`{text}` is too long: times go up to 24h")),
        None => Err(format!(
            "`{text}` is not a time: give a number with us, ms, s, min or h, such as 40ms or 2s"
        )),
    }
}

/// Formats a number with three significant digits, never in exponent form: `0.0123`, `1.23`, `123`, `12345`.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return "0".into();
    }
    // the rounding itself may carry into the next decade: 9.996 is 10.0
    let digits = 2 - magnitude.log10().floor() as i32;
    let rounded = format!("{value:.*}", digits.clamp(0, 9) as usize);
    let carried: f64 = rounded.parse().unwrap_or(value);
    let digits = 2 - carried.abs().max(f64::MIN_POSITIVE).log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 9) as usize)
}

/// Formats a time given in microseconds in the unit that fits: `41.0 us`, `9.63 ms`, `1.20 s`.
pub fn micros(us: f64) -> String {
    match us {
        _ if us >= 999_500.0 => format!("{} s", number(us / 1e6)),
        _ if us >= 999.5 => format!("{} ms", number(us / 1e3)),
        _ => format!("{} us", number(us)),
    }
}

/// Formats a time without trailing zeros, for the ticks of an axis: `50 ms`, `0.5 s`.
pub fn micros_tick(us: f64) -> String {
    match us {
        _ if us >= 999_500.0 => format!("{} s", number_tick(us / 1e6)),
        _ if us >= 999.5 => format!("{} ms", number_tick(us / 1e3)),
        _ => format!("{} us", number_tick(us)),
    }
}

/// Formats a number without trailing zeros, for the ticks of an axis: `0.5`, `200`.
pub fn number_tick(value: f64) -> String {
    let text = number(value);
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a duration in seconds: `0.410 s`, `89.4 s`.
pub fn seconds(s: f64) -> String {
    format!("{} s", number(s))
}

/// Formats a size in the largest binary unit in which it is at least 1, with three digits: `1.50 GiB`, `512 MiB`.
pub fn size(bytes: Bytes) -> String {
    let n = bytes.0 as f64;
    match bytes.0 {
        b if b >= 1 << 40 => format!("{} TiB", trimmed(n / (1_u64 << 40) as f64)),
        b if b >= 1 << 30 => format!("{} GiB", trimmed(n / (1 << 30) as f64)),
        b if b >= 1 << 20 => format!("{} MiB", trimmed(n / (1 << 20) as f64)),
        b if b >= 1 << 10 => format!("{} KiB", trimmed(n / 1024.0)),
        b => format!("{b} B"),
    }
}

/// Formats a size for typing it again, such as `512M`; in bytes, without a unit, if no unit divides it.
pub fn size_typed(bytes: Bytes) -> String {
    let typed = Value::Size(bytes).to_string();
    typed.strip_suffix('B').unwrap_or(&typed).to_owned()
}

fn trimmed(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        number(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_binary_unless_they_say_otherwise() {
        let good = [
            ("0", 0),
            ("4096", 4096),
            ("512M", 512 << 20),
            ("512m", 512 << 20),
            ("1.5G", 3 << 29),
            ("64KiB", 64 << 10),
            ("100MB", 100_000_000),
            (" 2 T ", 2 << 40),
        ];
        for (text, bytes) in good {
            assert_eq!(parse_size(text), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "M", "12Q", "-1M", "1e3", "0x10", "1..2M", "M512"] {
            let error = parse_size(text).unwrap_err();
            assert!(error.contains(&format!("`{text}` is not a size")), "{error}");
        }
        for text in ["9999999T", "20000000T", "99999999999999999999.999999999T"] {
            let error = parse_size(text).unwrap_err();
            assert!(error.contains(&format!("`{text}` is too large")), "{error}");
        }
    }

    #[test]
    fn times_name_their_unit() {
        assert_eq!(parse_time("40ms"), Ok(Nanos::from_millis(40)));
        assert_eq!(parse_time("1.5s"), Ok(Nanos::from_millis(1500)));
        assert_eq!(parse_time("500us"), Ok(Nanos::from_micros(500)));
        assert_eq!(parse_time("2min"), Ok(Nanos::from_secs(120)));
        assert_eq!(parse_time("1h"), Ok(Nanos::from_secs(3600)));
        for text in ["40", "ms", "-4ms", "4 fortnights"] {
            assert!(parse_time(text).unwrap_err().contains("not a time"), "{text}");
        }
        for text in ["1441min", "99999999999999999999s"] {
            assert!(parse_time(text).unwrap_err().contains("too long"), "{text}");
        }
    }

    #[test]
    fn printed_numbers_have_three_digits() {
        let table = [
            (0.0, "0"),
            (0.001234, "0.00123"),
            (0.5, "0.500"),
            (9.996, "10.0"),
            (99.96, "100"),
            (123.4, "123"),
            (35_580.4, "35580"),
            (-1.5, "-1.50"),
        ];
        for (value, text) in table {
            assert_eq!(number(value), text);
        }
        assert_eq!(micros(41.0), "41.0 us");
        assert_eq!(micros(999.7), "1.00 ms");
        assert_eq!(micros(181_400.0), "181 ms");
        assert_eq!(micros(1_200_000.0), "1.20 s");
        assert_eq!(size(Bytes(3 << 29)), "1.50 GiB");
        assert_eq!(size(Bytes(512 << 20)), "512 MiB");
        assert_eq!(micros_tick(50_000.0), "50 ms");
        assert_eq!(number_tick(0.5), "0.5");
        assert_eq!(number_tick(200.0), "200");
    }

    proptest! {
        #[test]
        fn quantities_printed_for_typing_are_read_back(bytes in 0_u64..1 << 50) {
            prop_assert_eq!(parse_size(&size_typed(Bytes(bytes))), Ok(Bytes(bytes)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,12}") {
            let _ = parse_size(&text);
            let _ = parse_time(&text);
        }
    }
}

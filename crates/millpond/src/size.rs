//! Sizes as people read them.

use std::fmt;

/// A size as people write one: `200G`, `772K`, `1000 bytes`. Exact if that takes no more than four digits, else three of
/// them.
pub(crate) struct Size(pub(crate) u64);

/// Those below count in bytes.
const UNITS: [(&str, u32); 4] = [("K", 10), ("M", 20), ("G", 30), ("T", 40)];

/// A size shown with another: in bytes where they are so close that rounding would make them equal and hide which is
/// larger.
pub(crate) fn apart(bytes: u64, other: u64) -> String {
    let rounded = Size(bytes).to_string();
    match bytes != other && value(&rounded) == value(&Size(other).to_string()) {
        true => format!("{bytes} bytes"),
        false => rounded,
    }
}

/// The number and the unit, without zeros after the point: `20.0M` is as large as `20M`.
fn value(size: &str) -> (&str, &str) {
    let (number, unit) = size.split_at(size.len() - 1);
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    (number, unit)
}

impl Size {
    /// The next size that is written to the last digit: one that is enough, as it is read, where `bytes` are needed.
    pub(crate) fn enough(bytes: u64) -> Size {
        let unit = UNITS
            .iter()
            .find(|(_, shift)| bytes.div_ceil(1 << shift) < 10_000);
        let shift = unit.map_or(0, |(_, shift)| *shift);
        Size(bytes.checked_next_multiple_of(1 << shift).unwrap_or(bytes))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0;
        let exact = UNITS.iter().rev().find(|(_, shift)| {
            let unit = 1_u64 << shift;
            bytes >= unit && bytes.is_multiple_of(unit) && bytes >> shift < 10_000
        });
        if let Some((name, shift)) = exact {
            return write!(f, "{}{name}", bytes >> shift);
        }
        let Some((name, shift)) = UNITS
            .iter()
            .rev()
            .find(|(_, shift)| bytes >= 1 << shift)
            .filter(|_| bytes > 99_999)
        else {
            return write!(f, "{bytes} bytes");
        };
        // To the nearest: in so many parts of a unit.
        let in_parts = |parts: u128| (u128::from(bytes) * parts + (1 << (shift - 1))) >> shift;
        match (in_parts(100), in_parts(10)) {
            (hundredths @ ..1000, _) => write!(f, "{}.{:02}{name}", hundredths / 100, hundredths % 100),
            (_, tenths @ ..1000) => write!(f, "{}.{}{name}", tenths / 10, tenths % 10),
            _ => write!(f, "{}{name}", in_parts(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_people_type_them() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1000, "1000 bytes"),
            (4096, "4K"),
            (64 << 20, "64M"),
            (200 << 30, "200G"),
            (1000 << 20, "1000M"),
            (25_276_502_016, "23.5G"),
            (790_464, "772K"),
            (10_480_000, "9.99M"),
            (10_485_759, "10.0M"),
            (u64::MAX, "16777216T"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
        assert_eq!(Size::enough(790_464).to_string(), "772K");
        let alike = |bytes, other| [apart(bytes, other), apart(other, bytes)];
        assert_eq!(
            alike(20 << 20, (20 << 20) + 4096),
            ["20971520 bytes", "20975616 bytes"]
        );
        assert_eq!(alike(20 << 20, 21 << 20), ["20M", "21M"]);
        // Not 12.3M, which is less.
        assert_eq!(Size::enough(12_936_000).to_string(), "13M");
        for bytes in [1, 5000, 10_239_001, (9999 << 20) + 1, 1 << 44, u64::MAX] {
            let enough = Size::enough(bytes);
            assert!(enough.0 >= bytes && !enough.to_string().contains('.'), "{enough}");
        }
    }
}

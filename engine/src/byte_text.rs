//! Numbers of bytes for people.

/// From this many of a unit on, parts of one are left out.
const ENOUGH: u64 = 10;

/// Bytes that are needed: exact, or rounded up.
pub(crate) fn up(bytes: u64) -> String {
    let (unit, size) = unit(bytes);
    format!("{} {unit}", bytes.div_ceil(size))
}

/// Bytes that there are: exact, or rounded down.
pub(crate) fn down(bytes: u64) -> String {
    let (unit, size) = unit(bytes);
    format!("{} {unit}", bytes / size)
}

/// The largest unit that there is a whole number of, or at least [`ENOUGH`].
fn unit(bytes: u64) -> (&'static str, u64) {
    let serves = |size: u64| bytes >= ENOUGH * size || (bytes >= size && bytes.is_multiple_of(size));
    let units = [("MiB", 1 << 20), ("KiB", 1 << 10)];
    units.into_iter().find(|(_, size)| serves(*size)).unwrap_or(("B", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_not_rounded_to_much_or_nothing() {
        const MIB: u64 = 1 << 20;
        let cases = [
            (0, "0 B", "0 B"),
            (1000, "1000 B", "1000 B"),
            (1024, "1 KiB", "1 KiB"),
            (1025, "1025 B", "1025 B"),
            (10_241, "11 KiB", "10 KiB"),
            (MIB, "1 MiB", "1 MiB"),
            (MIB + 1, "1025 KiB", "1024 KiB"),
            (3 * MIB / 2, "1536 KiB", "1536 KiB"),
            (20 * MIB, "20 MiB", "20 MiB"),
            (20 * MIB + 1, "21 MiB", "20 MiB"),
            (u64::MAX, "17592186044416 MiB", "17592186044415 MiB"),
        ];
        for (bytes, least, most) in cases {
            assert_eq!((up(bytes).as_str(), down(bytes).as_str()), (least, most), "{bytes}");
        }
    }
}

//! Quantities as acts write them: grouped figures, percentages, codes and small numbers in words.
//!
//! Everything is formed by integer arithmetic, so that no platform can differ.

use super::sampler::Sampler;

/// Writes `value` with its thousands set apart by spaces, as in `12 500`.
pub(super) fn grouped(value: u32) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// Draws a round quantity between ten and about two million, spread evenly over the magnitudes.
pub(super) fn round_quantity(sampler: &mut Sampler) -> u32 {
    let scale = [10, 100, 500, 1_000, 5_000, 10_000][sampler.index(6)];
    scale * sampler.between(1, 200)
}

/// Draws a percentage, whole in most cases, with a decimal comma in the others.
pub(super) fn percentage(sampler: &mut Sampler) -> String {
    if sampler.chance(70) {
        return format!("{} %", [5, 10, 15, 20, 25, 30, 40, 50, 60, 75, 80, 90][sampler.index(12)]);
    }
    format!("{},{} %", sampler.between(0, 39), sampler.between(1, 9))
}

/// Draws an amount per unit with two decimals, as in `34,07`.
pub(super) fn unit_amount(sampler: &mut Sampler, limit: u32) -> String {
    format!("{},{:02}", sampler.below(limit), sampler.below(100))
}

/// The currency of account of `year`.
pub(super) fn currency(year: u32) -> &'static str {
    match year {
        ..=1978 => "UA",
        1979..=1998 => "ECU",
        _ => "EUR",
    }
}

/// A product code of eight digits under `chapter`. The heading follows from `thing`, so that one
/// product has one heading in every act, and the subheading is drawn.
pub(super) fn product_code(sampler: &mut Sampler, chapter: u32, thing: &str) -> String {
    let mix = thing.bytes().fold(7_u32, |sum, byte| (sum * 31 + u32::from(byte)) % 9973);
    let heading = mix % 24 + 1;
    let first = [10, 11, 19, 20, 30, 90][sampler.index(6)];
    let second = [0, 10, 20, 50, 90, 99][sampler.index(6)];
    format!("{chapter:02}{heading:02} {first} {second:02}")
}

/// `a`, `b` and so on for the points of a list.
pub(super) fn letter(place: usize) -> char {
    char::from(b'a' + (place % 26) as u8)
}

/// Roman numeral of a small number, for annexes.
pub(super) fn roman(value: usize) -> &'static str {
    ["I", "II", "III", "IV", "V"].get(value.saturating_sub(1)).copied().unwrap_or("VI")
}

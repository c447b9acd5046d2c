//! The codes of a format as a device finds them: by search for a rounded value among all values.
//!
//! Values are searched as integers that ascend with them: all bits of a negative f32 inverted, the sign bit of another.
//! Between two values that follow each other lies a boundary, their middle. A value that is off by the rounding of a
//! product or two is therefore found too.

#[cfg(feature = "gpu")]
use altgrad_loader::FormatPlugin;
#[cfg(feature = "gpu")]
use altgrad_plugin_api::QuantParams;

/// Codes of the widest format that has a table.
pub const CODES: usize = 256;
/// Words of a table: the boundaries, the codes between them, and the codes of NaN of either sign.
pub const WORDS: usize = 2 * CODES + 2;
/// The code of a value without one.
pub const NO_CODE: u32 = u32::MAX;

/// The sorted thresholds that are searched, and the codes that the plugin's CPU function gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeTable {
    /// The first integer of each value but the first, ascending.
    boundaries: Vec<u32>,
    /// By place of the value.
    codes: Vec<u32>,
    /// Codes of NaN, without and with sign.
    nan: [u32; 2],
}

/// An integer that ascends with the value; -0 lies below 0.
fn ascending(x: f32) -> u32 {
    let bits = x.to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

impl CodeTable {
    /// The table of a format with these values of its codes; `None` if it has more than [`CODES`], or gives no codes.
    #[cfg(feature = "gpu")]
    #[must_use]
    pub fn of(plugin: &FormatPlugin, decoded: &[f32]) -> Option<Self> {
        let encode = |values: &[f32]| -> Option<Vec<u32>> {
            let codes = plugin.encode(values, &QuantParams::IDENTITY).ok()?;
            Some(codes.into_iter().map(u32::from).collect())
        };
        let values = searched(decoded)?;
        let codes = encode(&values)?;
        let of_nan = |nan: f32| encode(&[nan]).map_or(NO_CODE, |codes| codes[0]);
        Some(Self { boundaries: boundaries(&values), codes, nan: [f32::NAN, -f32::NAN].map(of_nan) })
    }

    /// The table as a device reads it: boundaries and codes filled up to [`CODES`] each, then NaN's.
    #[must_use]
    pub fn words(&self) -> [u32; WORDS] {
        let mut words = [NO_CODE; WORDS];
        words[..self.boundaries.len()].copy_from_slice(&self.boundaries);
        words[CODES..CODES + self.codes.len()].copy_from_slice(&self.codes);
        words[2 * CODES..].copy_from_slice(&self.nan);
        words
    }
}

/// The values of codes, ascending, each once and without NaN; `None` for no or too many codes.
fn searched(decoded: &[f32]) -> Option<Vec<f32>> {
    let mut values: Vec<f32> = decoded.iter().copied().filter(|value| !value.is_nan()).collect();
    values.sort_by(f32::total_cmp);
    values.dedup_by_key(|value| value.to_bits());
    (decoded.len() <= CODES && !values.is_empty()).then_some(values)
}

/// The boundaries between values that ascend.
fn boundaries(values: &[f32]) -> Vec<u32> {
    let between = |pair: &[f32]| {
        let middle = f64::midpoint(pair[0].into(), pair[1].into()) as f32;
        // A middle may round to the lower value.
        ascending(middle).max(ascending(pair[0]) + 1)
    };
    values.windows(2).map(between).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{Domain, grid::MinifloatGrid, grid::minifloat};

    use super::*;

    /// A table in which every value has the code it was found at.
    fn table(decoded: &[f32]) -> CodeTable {
        let values = searched(decoded).unwrap();
        let code = |value: &f32| decoded.iter().position(|x| x.to_bits() == value.to_bits()).unwrap() as u32;
        CodeTable {
            boundaries: boundaries(&values),
            codes: values.iter().map(code).collect(),
            nan: [NO_CODE; 2],
        }
    }

    /// The search of the kernel.
    fn find(words: &[u32; WORDS], x: f32) -> u32 {
        let (boundaries, codes) = words.split_at(CODES);
        let mut place = 0;
        for step in [128, 64, 32, 16, 8, 4, 2, 1] {
            if boundaries[place + step - 1] <= ascending(x) {
                place += step;
            }
        }
        codes[place]
    }

    #[test]
    fn rounded_values_are_found_under_their_codes() {
        for (e, m, domain) in
            [(4, 3, Domain::FN), (5, 2, Domain::IEEE), (7, 0, Domain::FIN), (0, 7, Domain::FIN)]
        {
            let grid = MinifloatGrid::new(minifloat(e, m, domain).unwrap()).unwrap();
            let decoded: Vec<f32> = (0..=255).map(|code| grid.decode(code)).collect();
            let words = table(&decoded).words();
            for (code, &value) in decoded.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
                // There and back by any scale: two roundings.
                for scale in [1.0, 0.37, 1e-9, 448.0 / 3.0] {
                    let found = find(&words, value * (1.0 / scale) * scale);
                    assert_eq!(found, code as u32, "E{e}M{m}: {value} by {scale}");
                }
            }
        }
    }

    #[test]
    fn zeros_are_told_apart_where_they_have_two_codes() {
        let both = table(&[0.0, 1.0, -0.0, -1.0]).words();
        assert_eq!([0.0, -0.0, 0.4, -0.4, 1.5].map(|x| find(&both, x)), [0, 2, 0, 2, 1]);
        let one = table(&[0.0, 1.0, f32::NAN, -1.0]).words();
        assert_eq!([0.0, -0.0, 0.4, -0.4, -0.6].map(|x| find(&one, x)), [0, 0, 0, 0, 3]);
    }

    #[test]
    fn neighbours_among_subnormals_are_told_apart() {
        let least = f32::from_bits(1);
        let words = table(&[0.0, least, 2.0 * least, -least]).words();
        assert_eq!([0.0, least, 2.0 * least, -least].map(|x| find(&words, x)), [0, 1, 2, 3]);
    }

    #[test]
    fn wide_formats_have_no_table() {
        assert_eq!(searched(&[0.0; CODES + 1]), None);
        assert_eq!(searched(&[]), None);
    }
}

//! Numbers that are f32 in the program: one that does not fit is refused as it is written, not as what it would become.

use serde::{Deserialize, Deserializer, de::Error};

/// For `deserialize_with`: an f32.
pub(super) fn f32<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
    narrow(f64::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// The same for a key that may be missing.
pub(super) fn some_f32<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f32>, D::Error> {
    f32(deserializer).map(Some)
}

fn narrow(wide: f64) -> Result<f32, &'static str> {
    let narrow = wide as f32;
    let is_lost = (narrow.is_infinite() && wide.is_finite()) || (narrow == 0.0 && wide != 0.0);
    if is_lost { Err("must fit 32 bits: 0, or a magnitude from 1.4e-45 to 3.4e38") } else { Ok(narrow) }
}

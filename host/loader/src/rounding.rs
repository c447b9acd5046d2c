//! Rounding modes: the run file's names and the plugins' values, in one table.

use altgrad_config::RoundingChoice;
use altgrad_plugin_api::Rounding;

const MODES: [(RoundingChoice, Rounding); 4] = [
    (RoundingChoice::NearestEven, Rounding::NEAREST_EVEN),
    (RoundingChoice::NearestAway, Rounding::NEAREST_AWAY),
    (RoundingChoice::TowardZero, Rounding::TOWARD_ZERO),
    (RoundingChoice::Stochastic, Rounding::STOCHASTIC),
];

/// The requested mode.
#[must_use]
pub fn rounding_mode(choice: RoundingChoice) -> Rounding {
    MODES.iter().find(|(name, _)| *name == choice).map_or(Rounding::NEAREST_EVEN, |(_, mode)| *mode)
}

/// The name of a mode in run files.
#[must_use]
pub fn rounding_name(mode: Rounding) -> &'static str {
    MODES.iter().find(|(_, other)| *other == mode).map_or("unknown", |(name, _)| name.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_run_file_has_a_mode_of_its_own() {
        let modes = RoundingChoice::NAMES.iter().map(|name| rounding_mode(name.parse().unwrap()));
        assert!(modes.map(rounding_name).eq(RoundingChoice::NAMES.iter().copied()));
    }
}

//! The random bits of updates and of states that are rounded stochastically: each has bits of its own.

use altgrad_plugin_api::RandomKey;

use crate::model::layout::ParamId;

/// The random bits of states are those of tensors from this number on: roundings of a step use lower ones. Numbers are
/// below 2^32.
const FIRST_TENSOR: u64 = 1 << 31;
/// The random bits of updates are those of tensors from this number on.
const FIRST_UPDATE: u64 = FIRST_TENSOR + (1 << 30);
/// Tensor numbers of a parameter. Further states use the bits of later elements of these tensors.
const STATES: usize = 16;
/// The distance between the elements of states with the same tensor number; no state has as many.
const STATE_OFFSET: u64 = 1 << 40;

/// The random bits of an update of a parameter.
pub(super) fn update_key(seed: u64, step: u64, id: ParamId) -> RandomKey {
    RandomKey { seed, step, tensor: FIRST_UPDATE + id as u64, offset: 0 }
}

/// The random bits of state number `index` of a parameter.
pub(super) fn random_key(seed: u64, step: u64, (id, index): (ParamId, usize)) -> RandomKey {
    RandomKey {
        seed,
        step,
        tensor: FIRST_TENSOR + (id * STATES + index % STATES) as u64,
        offset: STATE_OFFSET * (index / STATES) as u64,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_state_of_every_parameter_has_random_bits_of_its_own() {
        let key = |id, index| random_key(7, 9, (id, index));
        let keys = (0..500).flat_map(|id| (0..40).map(move |index| key(id, index)));
        // Words depend on the number modulo 2^32; those of sites are below 2^31.
        assert!(keys.clone().all(|key| key.tensor as u32 >= 1 << 31));
        let words: BTreeSet<(u32, u64)> = keys.map(|key| (key.tensor as u32, key.offset)).collect();
        assert_eq!(words.len(), 500 * 40);
        let updates: BTreeSet<(u32, u64)> =
            (0..500).map(|id| (update_key(7, 9, id).tensor as u32, 0)).collect();
        assert!(updates.len() == 500 && updates.is_disjoint(&words));
        // Those of recorded runs.
        let recorded = |tensor| RandomKey { seed: 7, step: 9, tensor, offset: 0 };
        assert_eq!(key(0, 0), recorded(1 << 31));
        assert_eq!(key(3, 15), recorded((1 << 31) + 63));
        assert_eq!(key(4, 0), recorded((1 << 31) + 64));
    }
}

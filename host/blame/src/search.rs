//! The descent from all causes to single ones.
//!
//! A group is tested in two ways: the run without its rounding, against the run as it is, and the unrounded
//! baseline with only its rounding, against the baseline. The first misses a cause beside another that suffices
//! alone; the second one that acts only together with another. Groups with a material effect of either kind are
//! divided further.
//!
//! A material difference that the first seeds leave open is tested again with twice as many, and with four times as
//! many if most seeds have it. Tests of level `l` of the tree share the level `0.05 / 2^l` by Bonferroni's
//! correction, so that the probability of any false cause is at most 5 %.

use serde::Serialize;

use crate::{
    cause::{Cause, CauseGroup},
    lab::{Effect, Halt, Lab, Look, MATERIAL},
    trial::Setting,
};

/// The effects of a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tested {
    /// The name of the group.
    pub name: String,
    /// Its causes, by index.
    pub members: Vec<usize>,
    /// The loss as it is minus the loss with the group undone.
    pub undone: Effect,
    /// The loss of the baseline with only this group minus the baseline's.
    pub alone: Effect,
    /// True if one of them is material.
    pub is_material: bool,
    /// True if it is not divided further: it is a single cause, or none of its parts is material.
    pub is_end: bool,
}

/// The difference between the run and its unrounded baseline.
///
/// # Errors
/// See [`Halt`].
pub fn total(causes: usize, lab: &mut Lab<'_>) -> Result<Effect, Halt> {
    lab.decided(&Setting::default(), &Setting::without(0..causes), 1, 0.0)
}

/// Tests groups level by level, and adds each level to `levels`: of the last one, if runs are missing, those groups
/// whose runs are done.
///
/// # Errors
/// See [`Halt`].
pub fn descend(
    causes: &[Cause],
    total: Effect,
    lab: &mut Lab<'_>,
    levels: &mut Vec<Vec<Tested>>,
) -> Result<(), Halt> {
    let mut parents = vec![CauseGroup::root(causes)];
    loop {
        let parts: Vec<Vec<CauseGroup>> = parents.iter().map(|parent| parent.parts(causes)).collect();
        let groups: Vec<&CauseGroup> = parts.iter().flatten().collect();
        if groups.is_empty() {
            return Ok(());
        }
        // Two of each group.
        let tests = 2 * groups.len() * (1 << (levels.len() + 1));
        let settings: Vec<Setting> =
            groups.iter().flat_map(|group| [without(group), only(group, causes.len())]).collect();
        // All at once, so that they run side by side.
        let mut made = lab.make(&settings, Look::First);
        if matches!(made, Err(Halt::Fault(_))) {
            return made;
        }
        let mut level = Vec::new();
        for group in &groups {
            match test(group, causes.len(), total, tests, lab) {
                Ok(tested) => level.push(tested),
                Err(fault @ Halt::Fault(_)) => return Err(fault),
                Err(Halt::Unfinished) => made = Err(Halt::Unfinished),
            }
        }
        if made.is_err() {
            levels.push(level);
            return made;
        }
        let is_material =
            |group: &CauseGroup| level.iter().any(|tested| tested.name == group.name && tested.is_material);
        let next: Vec<CauseGroup> =
            groups.iter().copied().filter(|group| is_material(group)).cloned().collect();
        // A parent whose parts have no effect is an end itself.
        for (parent, parts) in parents.iter().zip(&parts) {
            if !parts.is_empty() && !parts.iter().any(is_material) {
                let of_parent = levels.last_mut().into_iter().flatten();
                of_parent.filter(|tested| tested.name == parent.name).for_each(|tested| tested.is_end = true);
            }
        }
        levels.push(level);
        parents = next;
    }
}

fn without(group: &CauseGroup) -> Setting {
    Setting::without(group.members.iter().copied())
}

fn only(group: &CauseGroup, causes: usize) -> Setting {
    Setting::without((0..causes).filter(|index| !group.members.contains(index)))
}

fn test(
    group: &CauseGroup,
    causes: usize,
    total: Effect,
    tests: usize,
    lab: &mut Lab<'_>,
) -> Result<Tested, Halt> {
    let least = MATERIAL * total.mean;
    let undone = lab.decided(&Setting::default(), &without(group), tests, least)?;
    let alone = lab.decided(&only(group, causes), &Setting::without(0..causes), tests, least)?;
    let is_material = undone.is_material(total) || alone.is_material(total);
    Ok(Tested {
        name: group.name.clone(),
        members: group.members.clone(),
        undone,
        alone,
        is_material,
        is_end: is_material && group.members.len() == 1,
    })
}

/// The ends of the descent, the largest effect first.
#[must_use]
pub fn found(levels: &[Vec<Tested>]) -> Vec<Tested> {
    let ends = levels.iter().flatten().filter(|tested| tested.is_material && tested.is_end);
    let mut found: Vec<Tested> = ends.cloned().collect();
    let size = |tested: &Tested| tested.undone.mean.max(tested.alone.mean);
    found.sort_by(|a, b| size(b).total_cmp(&size(a)));
    found
}

/// All found causes as one group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Together {
    /// The loss as it is minus the loss without them.
    pub undone: Effect,
    /// The loss of the baseline with only them minus the baseline's.
    pub alone: Effect,
}

/// Tests the found causes together.
///
/// # Errors
/// See [`Halt`].
pub fn together(
    causes: usize,
    members: &[usize],
    total: Effect,
    lab: &mut Lab<'_>,
) -> Result<Together, Halt> {
    let least = MATERIAL * total.mean;
    let baseline = Setting::without(0..causes);
    let others = (0..causes).filter(|index| !members.contains(index));
    let undone = Setting::without(members.iter().copied());
    Ok(Together {
        undone: lab.decided(&Setting::default(), &undone, 2, least)?,
        alone: lab.decided(&Setting::without(others), &baseline, 2, least)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Options,
        lab::{Losses, TrialLoss},
    };
    use altgrad_base::diagnostic::Diagnostic;
    use altgrad_metrics::Role;

    /// A run whose loss is a function of the causes that act, with a little noise by seed.
    struct Planted<F>(usize, F);

    impl<F: Fn(&dyn Fn(usize) -> bool) -> f64> Losses for Planted<F> {
        fn losses(&mut self, trials: &[(Setting, u64)]) -> Result<Vec<TrialLoss>, Diagnostic> {
            let loss = |(setting, seed): &(Setting, u64)| {
                let base = 2.0 + 0.1 * (*seed as f64 * 0.7).sin();
                let count = (0..self.0).filter(|index| !setting.undone.contains(index)).count();
                let noise = 1e-4 * ((*seed as f64) * (1.3 + count as f64)).sin();
                TrialLoss::Known(base + noise + (self.1)(&|index| !setting.undone.contains(&index)))
            };
            Ok(trials.iter().map(loss).collect())
        }
    }

    fn causes() -> Vec<Cause> {
        let layers = (0..3)
            .flat_map(|block| ["attn.c_attn", "mlp.c_fc"].map(|kind| format!("h.{block}.{kind}.weight")));
        let layers = layers.chain(["lm_head.weight".into()]);
        let casts = layers.flat_map(|layer| {
            [Role::Weight, Role::Activation, Role::Grad]
                .map(|role| Cause::Cast { roles: vec![role], layer: layer.clone() })
        });
        casts.chain([Cause::State("exp_avg_sq".into())]).collect()
    }

    fn search(effect: impl Fn(&dyn Fn(usize) -> bool) -> f64) -> (Vec<Tested>, usize) {
        let (levels, runs, is_done) = search_within(10_000, effect);
        assert!(is_done);
        (found(&levels), runs)
    }

    fn search_within(
        budget: usize,
        effect: impl Fn(&dyn Fn(usize) -> bool) -> f64,
    ) -> (Vec<Vec<Tested>>, usize, bool) {
        let causes = causes();
        let mut planted = Planted(causes.len(), effect);
        let options = Options { seeds: 5, from: 0, steps: 100, budget };
        let mut lab = Lab::new(1, options, &mut planted);
        let total = total(causes.len(), &mut lab).unwrap();
        let mut levels = Vec::new();
        let is_done = !total.is_positive || descend(&causes, total, &mut lab, &mut levels).is_ok();
        (levels, lab.runs(), is_done)
    }

    fn index(name: &str) -> usize {
        causes().iter().position(|cause| cause.to_string() == name).unwrap()
    }

    fn names(found: &[Tested]) -> Vec<&str> {
        found.iter().map(|tested| tested.name.as_str()).collect()
    }

    #[test]
    fn a_single_cause_is_found_with_few_runs() {
        let head = index("grad:lm_head.weight");
        let (found, runs) = search(|acts| if acts(head) { 0.8 } else { 0.0 });
        assert_eq!(names(&found), ["grad:lm_head.weight"]);
        assert!((found[0].undone.mean - 0.8).abs() < 1e-3 && (found[0].alone.mean - 0.8).abs() < 1e-3);
        // Each of 22 causes in both ways would take 230.
        assert!(runs <= 90, "{runs}");
        let (found, _) = search(|acts| if acts(index("optimizer.states.exp_avg_sq")) { 0.3 } else { 0.0 });
        assert_eq!(names(&found), ["optimizer.states.exp_avg_sq"]);
    }

    #[test]
    fn causes_that_act_only_together_are_found_by_undoing_them() {
        let (a, b) = (index("weight:h.1.mlp.c_fc.weight"), index("activation:h.2.attn.c_attn.weight"));
        let (found, _) = search(|acts| if acts(a) && acts(b) { 0.5 } else { 0.0 });
        let mut names = names(&found);
        names.sort_unstable();
        assert_eq!(names, ["activation:h.2.attn.c_attn.weight", "weight:h.1.mlp.c_fc.weight"]);
        assert!(found.iter().all(|tested| !tested.alone.is_positive));
    }

    #[test]
    fn causes_each_of_which_suffices_are_found_by_adding_them() {
        let (a, b) = (index("weight:h.1.mlp.c_fc.weight"), index("grad:lm_head.weight"));
        let (found, _) = search(|acts| if acts(a) || acts(b) { 0.5 } else { 0.0 });
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|tested| !tested.undone.is_positive && tested.alone.is_positive));
    }

    #[test]
    fn a_search_out_of_budget_keeps_the_groups_that_are_done() {
        let head = index("grad:lm_head.weight");
        let effect = |acts: &dyn Fn(usize) -> bool| if acts(head) { 0.8 } else { 0.0 };
        let (whole, all, _) = search_within(10_000, effect);
        for budget in 10..all {
            let (part, runs, is_done) = search_within(budget, effect);
            assert!(!is_done && runs <= budget, "{runs} of {budget}");
            for (part, whole) in part.iter().zip(&whole) {
                assert!(part.iter().all(|tested| whole.iter().any(|other| other.undone == tested.undone)));
            }
        }
        let count = |levels: &[Vec<Tested>]| levels.iter().flatten().count();
        let (part, ..) = search_within(all - 1, effect);
        assert_eq!(count(&part) + 1, count(&whole), "one run lacks, of the last group");
    }

    #[test]
    fn a_healthy_run_has_no_cause() {
        let (found, runs) = search(|_| 0.0);
        assert_eq!((found.len(), runs), (0, 10));
    }
}

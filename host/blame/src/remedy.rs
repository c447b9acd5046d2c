//! Cheaper casts instead of those that were found: current scaling, stochastic rounding, a scale for 32 elements.
//! A remedy that recovers 90 % of the effect is confirmed on fresh seeds.

use serde::Serialize;

use crate::{
    cause::Cause,
    lab::{Effect, Halt, Lab, Look},
    trial::Setting,
};

/// A part of the effect that a remedy must recover.
const ENOUGH: f64 = 0.9;

/// A kind of remedy: its name, and the keys of the cast, as TOML.
const KINDS: [(&str, &str); 3] = [
    ("current scaling", "scaling = { amax = \"dynamic\" }"),
    ("stochastic rounding", "rounding = \"stochastic\""),
    ("a scale for 32 elements", "block = 32"),
];

/// A remedy and its effect.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Remedy {
    /// Its name.
    pub name: String,
    /// Its rules, each an entry of `[[quant.layer]]` as TOML; empty: the casts are left out.
    pub rules: Vec<String>,
    /// The loss as it is minus the loss with the remedy. Missing: the run file is refused.
    pub effect: Option<Effect>,
    /// The same on fresh seeds, for the first remedy that recovers enough.
    pub confirmed: Option<Effect>,
    /// The loss with the remedy minus the baseline's, on fresh seeds.
    pub left: Option<Effect>,
}

/// Tries remedies in the order of their cost until one recovers enough; leaving out the casts is the last.
///
/// # Errors
/// See [`Halt`].
pub fn tried(
    causes: &[Cause],
    members: &[usize],
    undone: Effect,
    lab: &mut Lab<'_>,
) -> Result<Vec<Remedy>, Halt> {
    let as_it_is = Setting::default();
    let mut tried = Vec::new();
    let kinds = KINDS.map(|(name, keys)| (name, Some(keys)));
    for (name, keys) in kinds.into_iter().chain([("no rounding there", None)]) {
        let setting = match keys {
            Some(keys) => Setting { rules: rules(causes, members, keys), ..Setting::default() },
            None => Setting::without(members.iter().copied()),
        };
        let effect = lab.difference(&as_it_is, &setting, KINDS.len() + 1, Look::First)?;
        let mut remedy =
            Remedy { name: name.into(), rules: setting.rules.clone(), effect, confirmed: None, left: None };
        let is_enough =
            effect.is_some_and(|effect| effect.is_positive && effect.mean >= ENOUGH * undone.mean);
        if is_enough || keys.is_none() {
            let baseline = Setting::without(0..causes.len());
            remedy.confirmed = lab.difference(&as_it_is, &setting, 2, Look::Fresh)?;
            remedy.left = lab.difference(&setting, &baseline, 2, Look::Fresh)?;
            tried.push(remedy);
            break;
        }
        tried.push(remedy);
    }
    Ok(tried)
}

/// A rule for each cast.
fn rules(causes: &[Cause], members: &[usize], keys: &str) -> Vec<String> {
    let casts = members.iter().flat_map(|index| match &causes[*index] {
        Cause::Cast { roles, layer } => roles.iter().map(|role| (role, layer)).collect::<Vec<_>>(),
        Cause::MasterWeights | Cause::State(_) => Vec::new(),
    });
    casts.map(|(role, layer)| format!("match = {layer:?}\ncast.{} = {{ {keys} }}\n", role.name())).collect()
}

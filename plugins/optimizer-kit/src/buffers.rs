//! A parameter, its gradient and its states, checked to fit together; [`Buffers`] are those of Adam.

use altgrad_plugin_api::{PluginError, Scales, Step};

use crate::{rule::Rule, simd};

/// A parameter, its gradient and its `N` states, `[n]` each.
pub type Checked<'a, const N: usize> = (&'a mut [f32], &'a [f32], [&'a mut [f32]; N]);

/// The buffers of a step.
///
/// # Errors
/// Another number of states, lengths that differ, or an update 0.
pub fn checked<'a, const N: usize>(step: Step<'a>) -> Result<Checked<'a, N>, PluginError> {
    let Step { info, param, grad, states, scalars, .. } = step;
    if scalars.update == 0 {
        return Err(PluginError::config("updates count from 1, this one is 0"));
    }
    let lens: Vec<usize> = [grad.len()].into_iter().chain(states.iter().map(|state| state.len())).collect();
    let count = states.len();
    let states: &'a mut [&'a mut [f32]; N] = match states.try_into() {
        Ok(states) => states,
        Err(_) => {
            return Err(PluginError::shape(format!("`{}` needs {N} states, has {count}", info.name)));
        }
    };
    if lens.iter().any(|&len| len != param.len()) {
        let message = format!("`{}` has {} elements, gradient and states {lens:?}", info.name, param.len());
        return Err(PluginError::shape(message));
    }
    Ok((param, grad, states.each_mut().map(|state| &mut **state)))
}

/// The buffers of one pass. All `[n]` f32.
#[derive(Debug)]
pub struct Buffers<'a> {
    pub(crate) param: &'a mut [f32],
    pub(crate) grad: &'a [f32],
    pub(crate) exp_avg: &'a mut [f32],
    pub(crate) exp_avg_sq: &'a mut [f32],
}

impl<'a> Buffers<'a> {
    /// The buffers of a step.
    ///
    /// # Errors
    /// Not two states, lengths that differ, or an update 0.
    pub fn of(step: Step<'a>) -> Result<Self, PluginError> {
        let (param, grad, [exp_avg, exp_avg_sq]) = checked(step)?;
        Ok(Self { param, grad, exp_avg, exp_avg_sq })
    }

    /// The parameter as it is before the update.
    #[must_use]
    pub fn param(&self) -> &[f32] {
        self.param
    }

    /// Updates every element.
    pub fn update<R: Rule>(self, rule: &R) {
        simd::update(rule, self);
    }

    /// Updates every element by the rule of its block's scale and inverse.
    pub fn update_blocks<R: Rule>(self, scales: &Scales<'_>, rule: impl Fn([f32; 2]) -> R) {
        let Self { param, grad, exp_avg, exp_avg_sq } = self;
        for (range, pair) in scales.runs(param.len()) {
            let block = Buffers {
                param: &mut param[range.clone()],
                grad: &grad[range.clone()],
                exp_avg: &mut exp_avg[range.clone()],
                exp_avg_sq: &mut exp_avg_sq[range],
            };
            block.update(&rule(pair));
        }
    }
}

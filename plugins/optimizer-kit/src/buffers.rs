//! A parameter, its gradient and Adam's two states, checked to fit together.

use altgrad_plugin_api::{PluginError, Scales, Step};

use crate::{rule::Rule, simd};

/// What one pass reads and writes. All `[n]` f32.
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
        let Step { info, param, grad, states, scalars, .. } = step;
        if scalars.update == 0 {
            return Err(PluginError::config("updates count from 1, this one is 0"));
        }
        let [exp_avg, exp_avg_sq] = states else {
            return Err(PluginError::shape(format!("`{}` needs 2 states, has {}", info.name, states.len())));
        };
        let lens = [grad.len(), exp_avg.len(), exp_avg_sq.len()];
        if lens != [param.len(); 3] {
            let message =
                format!("`{}` has {} elements, gradient and states {lens:?}", info.name, param.len());
            return Err(PluginError::shape(message));
        }
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

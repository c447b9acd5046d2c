//! A parameter, its gradient and Adam's two states, checked to fit together.

use altgrad_plugin_api::{PluginError, Step};
use rayon::prelude::*;

use crate::{rule::Rule, simd};

/// Elements a thread takes at once.
const PART: usize = 1 << 16;

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

    /// Updates every element, on all threads.
    pub fn update<R: Rule>(self, rule: &R) {
        let Self { param, grad, exp_avg, exp_avg_sq } = self;
        let params = param.par_chunks_mut(PART).zip(grad.par_chunks(PART));
        let states = exp_avg.par_chunks_mut(PART).zip(exp_avg_sq.par_chunks_mut(PART));
        params.zip(states).for_each(|((param, grad), (exp_avg, exp_avg_sq))| {
            simd::update(rule, Self { param, grad, exp_avg, exp_avg_sq });
        });
    }
}

//! The optimizer phase: hands every parameter, its gradient and its states to the plugin.
//!
//! States are host-owned buffers the plugin declared; the host stores them without knowing what they mean.

use altgrad_plugin_api::{DType, StepScalars};
use burn::tensor::Tensor;

use crate::{
    diagnostic::Diagnostic,
    metrics::updates::{Step, Update},
    model::{Layout, Params, layout::ParamId, params},
    plugins::{FormatPlugin, OptimizerPlugin, instance::ParamUpdate},
};

/// An optimizer and its states.
pub struct OptimizerRun {
    plugin: OptimizerPlugin,
    /// `[parameter][state][element]`.
    states: Vec<Vec<Vec<f32>>>,
    /// Updates done.
    updates: u64,
}

impl OptimizerRun {
    /// Allocates the states of every parameter.
    ///
    /// # Errors
    /// The plugin failed, or wants a state of a type the host does not have.
    pub fn new(plugin: OptimizerPlugin, layout: &Layout) -> Result<Self, Diagnostic> {
        let mut states = Vec::with_capacity(layout.specs.len());
        for spec in &layout.specs {
            let mut buffers = Vec::new();
            for state in plugin.states(&spec.name, &extents(&spec.shape))? {
                if state.dtype != DType::F32 {
                    let message = format!(
                        "optimizer `{}` wants state `{}` not in f32",
                        plugin.identity.name, state.name
                    );
                    return Err(Diagnostic::plugin(message).at(&plugin.identity.library));
                }
                buffers.push(vec![state.initial as f32; spec.len()]);
            }
            states.push(buffers);
        }
        Ok(Self { plugin, states, updates: 0 })
    }

    /// Updates all parameters in place; `stored` knows the rounded ones' formats and scales. With `measure`, also what
    /// the step did, one entry a parameter. Reads the device once a parameter where that is not the CPU.
    ///
    /// # Errors
    /// The plugin failed; parameters before the one at fault are updated, the others are not.
    pub fn step<'a>(
        &mut self,
        params: &mut Params,
        grads: Vec<Tensor<1>>,
        stored: impl Fn(ParamId) -> Option<(&'a FormatPlugin, f32)>,
        lr: f64,
        measure: bool,
    ) -> Result<Vec<Update>, Diagnostic> {
        self.updates += 1;
        let mut updates = Vec::new();
        let scalars = StepScalars { lr, update: self.updates };
        for (id, (grad, states)) in grads.into_iter().zip(&mut self.states).enumerate() {
            let spec = &params.layout.specs[id];
            let device = params.values[id].device();
            // Taken out, so that the CPU's buffer has one owner and is updated without a copy.
            let value = std::mem::replace(&mut params.values[id], Tensor::empty([0], &device));
            let (mut param, grad) = (params::read_f32(value)?, params::read_f32(grad)?);
            let before = measure.then(|| param.clone());
            let stored = stored(id);
            let result = self.plugin.step(ParamUpdate {
                name: &spec.name,
                shape: &extents(&spec.shape),
                param: &mut param,
                grad: &grad,
                states: states.iter_mut().map(Vec::as_mut_slice).collect(),
                scalars,
                grid: stored.map(|(format, scale)| (&format.spec, scale)),
            });
            if let Some(before) = before {
                updates.push(Update::of(Step { before: &before, after: &param, grad: &grad }, stored));
            }
            params.values[id] = params::flat(param, &device);
            result.map_err(|error| error.at(&spec.name))?;
        }
        Ok(updates)
    }
}

fn extents(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|&extent| extent as u64).collect()
}

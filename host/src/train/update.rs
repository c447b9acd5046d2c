//! The optimizer phase: hands every parameter, its gradient and its states to the plugin.
//!
//! States are host-owned buffers the plugin declared; the host stores them without knowing what they mean.

use altgrad_plugin_api::{DType, StepScalars};
use burn::tensor::Tensor;

use crate::{
    diagnostic::Diagnostic,
    metrics::{meter::Meter, updates::Step},
    model::{
        Layout, Params,
        layout::{ParamId, ParamSpec},
        params,
    },
    plugins::{
        FormatPlugin, OptimizerPlugin,
        instance::{Identity, ParamUpdate},
    },
    quant::{Quant, Seen},
};

/// The instances of a run's optimizer, and which of them updates a parameter.
pub struct Groups {
    plugins: Vec<OptimizerPlugin>,
    /// By parameter: the instance, and what the learning rate is multiplied by.
    of: Vec<(usize, f64)>,
}

impl Groups {
    /// One instance for all parameters.
    #[must_use]
    pub fn one(plugin: OptimizerPlugin, layout: &Layout) -> Self {
        Self { plugins: vec![plugin], of: vec![(0, 1.0); layout.specs.len()] }
    }

    /// Another instance for some parameters.
    pub fn add(&mut self, plugin: OptimizerPlugin, lr_scale: f64, members: &[ParamId]) {
        self.plugins.push(plugin);
        for &id in members {
            self.of[id] = (self.plugins.len() - 1, lr_scale);
        }
    }

    /// What the optimizer is called and where it comes from.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.plugins[0].identity
    }

    /// Which instance updates a parameter, the instance, and what the learning rate is multiplied by.
    pub(super) fn of(&self, id: ParamId) -> (usize, &OptimizerPlugin, f64) {
        let (plugin, lr_scale) = self.of[id];
        (plugin, &self.plugins[plugin], lr_scale)
    }
}

/// An optimizer and its states.
pub struct OptimizerRun {
    pub(super) groups: Groups,
    /// `[parameter][state][element]`; without those that are on a GPU.
    pub(super) states: Vec<Vec<Vec<f32>>>,
    /// `[parameter][state]`: `h.0.attn.c_attn.weight/exp_avg`.
    names: Vec<Vec<String>>,
    /// Elements by parameter.
    lens: Vec<usize>,
    /// Updates done.
    pub(super) updates: u64,
    /// What runs on a GPU.
    #[cfg(feature = "gpu")]
    pub(super) device: Option<super::update_device::DeviceRun>,
}

impl OptimizerRun {
    /// Allocates the states of every parameter.
    ///
    /// # Errors
    /// The plugin failed, or wants a state of a type the host does not have.
    pub fn new(groups: Groups, layout: &Layout) -> Result<Self, Diagnostic> {
        let (mut states, mut names) = (Vec::with_capacity(layout.specs.len()), Vec::new());
        for (id, spec) in layout.specs.iter().enumerate() {
            let (_, plugin, _) = groups.of(id);
            let (mut buffers, mut named) = (Vec::new(), Vec::new());
            for state in plugin.states(&spec.name, &extents(&spec.shape))? {
                if state.dtype != DType::F32 {
                    let message = format!(
                        "optimizer `{}` wants state `{}` not in f32",
                        plugin.identity.name, state.name
                    );
                    return Err(Diagnostic::plugin(message).at(&plugin.identity.library));
                }
                buffers.push(vec![state.initial as f32; spec.len()]);
                named.push(format!("{}/{}", spec.name, state.name));
            }
            states.push(buffers);
            names.push(named);
        }
        Ok(Self {
            groups,
            states,
            names,
            lens: layout.specs.iter().map(ParamSpec::len).collect(),
            updates: 0,
            #[cfg(feature = "gpu")]
            device: None,
        })
    }

    /// Updates done.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Every state by name, `parameter/state`, in the layout's order: `[n]` each. Reads a GPU.
    ///
    /// # Errors
    /// The device failed.
    pub fn state_tensors(&self) -> Result<Vec<(String, Vec<f32>)>, Diagnostic> {
        let mut all = Vec::new();
        for (id, names) in self.names.iter().enumerate() {
            let states = self.states_of(id)?;
            all.extend(names.iter().cloned().zip(states));
        }
        Ok(all)
    }

    #[cfg(not(feature = "gpu"))]
    fn states_of(&self, id: ParamId) -> Result<Vec<Vec<f32>>, Diagnostic> {
        Ok(self.states[id].clone())
    }

    #[cfg(feature = "gpu")]
    fn states_of(&self, id: ParamId) -> Result<Vec<Vec<f32>>, Diagnostic> {
        match &self.device {
            Some(device) if self.states[id].is_empty() => device.read_states(id),
            _ => Ok(self.states[id].clone()),
        }
    }

    /// Goes on from `updates` updates with these states, as [`Self::state_tensors`] gave them. What counts updates for metrics begins anew.
    ///
    /// # Errors
    /// [`Fault::Config`](crate::diagnostic::Fault::Config): names or lengths are others than this optimizer's; nothing has changed then.
    pub fn load_state(&mut self, states: Vec<(String, Vec<f32>)>, updates: u64) -> Result<(), Diagnostic> {
        let lens: Vec<(&String, usize)> = self
            .names
            .iter()
            .zip(&self.lens)
            .flat_map(|(names, &len)| names.iter().map(move |name| (name, len)))
            .collect();
        let given: Vec<(&String, usize)> = states.iter().map(|(name, values)| (name, values.len())).collect();
        if let Some(at) = (0..lens.len().max(given.len())).find(|&at| lens.get(at) != given.get(at)) {
            let say = |state: Option<&(&String, usize)>| {
                state.map_or("nothing".to_string(), |(name, len)| format!("`{name}` of {len} elements"))
            };
            let message = format!(
                "these are not the states of optimizer `{}`: {} where {} is expected",
                self.groups.identity().name,
                say(given.get(at)),
                say(lens.get(at))
            );
            return Err(
                Diagnostic::config(message).hint("resume with the model and the optimizer the states are of")
            );
        }
        let mut values = states.into_iter().map(|(_, values)| values);
        for (own, names) in self.states.iter_mut().zip(&self.names) {
            *own = values.by_ref().take(names.len()).collect();
        }
        self.updates = updates;
        Ok(())
    }

    /// Updates all parameters in place, after a pass with `quant` that saw `seen`: the scales it used are the grids
    /// that optimizers are told. Without master weights the update ends with a rounding. `meter` sees every step. Reads
    /// the device once a parameter where that is not the CPU.
    ///
    /// # Errors
    /// The plugin failed; parameters before the one at fault are updated, the others are not.
    pub fn step(
        &mut self,
        params: &mut Params,
        grads: Vec<Tensor<1>>,
        (quant, seen): (&Quant, &[Option<Seen>]),
        lr: f64,
        meter: &mut Meter,
    ) -> Result<(), Diagnostic> {
        #[cfg(feature = "gpu")]
        if let Some(mut device) = self.device.take() {
            let result = self.step_on_device(&mut device, params, grads, (quant, seen), lr, meter);
            self.device = Some(device);
            return result;
        }
        self.updates += 1;
        // Before the scales move on.
        let stored: Vec<_> = (0..grads.len()).map(|id| quant.stored(id, seen)).collect();
        quant.record(seen);
        for (id, grad) in grads.into_iter().enumerate() {
            self.step_in_memory(id, params, grad, (quant, stored[id]), lr, meter)?;
        }
        Ok(())
    }

    /// One parameter's update by the plugin's CPU function; `stored` is its format and scale.
    pub(super) fn step_in_memory(
        &mut self,
        id: ParamId,
        params: &mut Params,
        grad: Tensor<1>,
        (quant, stored): (&Quant, Option<(&FormatPlugin, f32)>),
        lr: f64,
        meter: &mut Meter,
    ) -> Result<(), Diagnostic> {
        let spec = &params.layout.specs[id];
        let (_, plugin, lr_scale) = self.groups.of(id);
        let device = params.values[id].device();
        // Taken out, so that the CPU's buffer has one owner and is updated without a copy.
        let value = std::mem::replace(&mut params.values[id], Tensor::empty([0], &device));
        let (mut param, grad) = (params::read_f32(value)?, params::read_f32(grad)?);
        meter.gradient(id, &grad);
        let before = meter.wants_weights().then(|| param.clone());
        let result = plugin.step(ParamUpdate {
            name: &spec.name,
            shape: &extents(&spec.shape),
            param: &mut param,
            grad: &grad,
            states: self.states[id].iter_mut().map(Vec::as_mut_slice).collect(),
            scalars: StepScalars { lr: lr * lr_scale, update: self.updates },
            grid: stored.map(|(format, scale)| (&format.spec, scale)),
        });
        let value = params::flat(param, &device);
        let mut value = settle(quant, id, &spec.shape, value, quant.step() + 1);
        if let Some(before) = before {
            let after = params::read_f32(value)?;
            meter.update(id, spec, Step { before: &before, after: &after, grad: &grad }, stored);
            value = params::flat(after, &device);
        }
        params.values[id] = value;
        result.map_err(|error| error.at(&spec.name))
    }
}

/// [`Quant::settle`] of a flat parameter.
pub(super) fn settle(quant: &Quant, id: ParamId, shape: &[usize], value: Tensor<1>, step: u64) -> Tensor<1> {
    let &[rows, columns] = shape else { return value };
    quant.settle(id, value.reshape([rows, columns]), step).reshape([rows * columns])
}

pub(super) fn extents(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|&extent| extent as u64).collect()
}

//! Updates by an optimizer plugin: of a whole parameter, of its parts on all threads, or with the host's services.

use altgrad_base::diagnostic::{Diagnostic, Fault};
use altgrad_plugin_api::{
    ErrorKind, Grid, ParamInfo, PluginError, Scope, StateSpec, StepScalars, TensorView, TensorViewMut,
    abi::{
        ServedParam, ServiceCall, ServicesObject, StepCall,
        stable::std_types::{ROption, RSlice, RSliceMut},
    },
};
use rayon::prelude::*;

use super::{calls::Call, instance::OptimizerPlugin};

/// Elements per part. The number is fixed, so that parts do not depend on the number of threads; four buffers of a part
/// fit into a second-level cache.
const PART: usize = 1 << 16;

/// One parameter's update, in plain slices, `[n]` each unless a state has a shape of its own.
#[derive(Debug)]
pub struct ParamUpdate<'a> {
    /// The parameter.
    pub info: ParamInfo<'a>,
    /// Updated in place.
    pub param: &'a mut [f32],
    /// Accumulated and clipped.
    pub grad: &'a [f32],
    /// Updated in place, in the order of [`OptimizerPlugin::states`].
    pub states: Vec<&'a mut [f32]>,
    /// Learning rate, update count, random key.
    pub scalars: StepScalars,
    /// The parameter's grid, if it is quantized.
    pub grid: Option<Grid<'a>>,
}

impl<'a> ParamUpdate<'a> {
    /// The same update in parts of `PART` consecutive elements; the last may be shorter.
    fn parts(self) -> Vec<Self> {
        let Self { info, param, grad, states, scalars, grid } = self;
        let mut states: Vec<_> = states.into_iter().map(|state| state.chunks_mut(PART)).collect();
        let parts = param.chunks_mut(PART).zip(grad.chunks(PART));
        parts
            .enumerate()
            .map(|(index, (param, grad))| {
                let states = states.iter_mut().filter_map(Iterator::next).collect();
                let first = (index * PART) as u64;
                let (grid, scalars) = (grid.map(|grid| grid.skip(first)), scalars.skip(first));
                Self { info, param, grad, states, scalars, grid }
            })
            .collect()
    }
}

/// An update with services: handles of matrices of `services`.
pub struct ServiceUpdate<'a> {
    /// The compute services.
    pub services: &'a ServicesObject,
    /// The parameters: one, or all of a group.
    pub params: &'a [ServedParam<'a>],
    /// The states of the whole optimizer, in the order of [`OptimizerPlugin::shared_states`]; none for one parameter.
    pub shared: &'a [u64],
    /// The number of the gradient evaluation before this update, from 1.
    pub evaluation: u32,
}

impl OptimizerPlugin {
    /// The scope of a parameter's updates.
    ///
    /// # Errors
    /// The plugin failed, or requests a scope that this host lacks.
    pub fn scope(&self, param: &ParamInfo<'_>) -> Result<Scope, Diagnostic> {
        let scope = self.object.call(Call::Scope, |object| object.scope(param));
        let scope = self.identity.start_failure(scope)?;
        if [Scope::WHOLE, Scope::ELEMENTS, Scope::SERVICES, Scope::GROUP].contains(&scope) {
            return Ok(scope);
        }
        let message =
            format!("optimizer `{}` wants scope {} of `{}`", self.identity.name, scope.0, param.name);
        Err(Diagnostic::plugin(message).at(&self.identity.library).hint("it was built for a newer host"))
    }

    /// The rule that updates a parameter, in words, on a grid without scales; empty if there is only one rule.
    ///
    /// # Errors
    /// The plugin cannot update such a parameter, or failed.
    pub fn rule(&self, param: &ParamInfo<'_>, grid: Option<Grid<'_>>) -> Result<String, Diagnostic> {
        match self.object.call(Call::Rule, |object| object.rule(param, grid.into())).into_result() {
            Ok(rule) => Ok(rule.into()),
            Err(error) if error.kind == ErrorKind::UNSUPPORTED => {
                Err(self.identity.failure(Fault::Config, &error))
            }
            Err(error) => Err(self.identity.failure(Fault::Plugin, &error)),
        }
    }

    /// Updates one parameter and its states: with [`Scope::ELEMENTS`] in parts, on all threads, which gives the same
    /// bits.
    ///
    /// # Errors
    /// [`Fault::Run`]: lengths differ, or the plugin failed.
    pub fn step(&self, scope: Scope, update: ParamUpdate<'_>) -> Result<(), Diagnostic> {
        let one_call = scope != Scope::ELEMENTS
            || update.param.len() <= PART
            || update.states.iter().any(|state| state.len() != update.param.len());
        let result = if one_call { self.call(update) } else { self.call_in_parts(update.parts()) };
        result.map_err(|error| self.identity.failure(Fault::Run, &error))
    }

    fn call_in_parts(&self, parts: Vec<ParamUpdate<'_>>) -> Result<(), PluginError> {
        let results: Vec<_> = parts.into_par_iter().map(|part| self.call(part)).collect();
        let errors = || results.iter().filter_map(|result| result.as_ref().err());
        // After a panic in one part, the others are refused: the panic is the reason.
        let first = errors().find(|error| error.kind != ErrorKind::POISONED).or_else(|| errors().next());
        first.map_or(Ok(()), |error| Err(error.clone()))
    }

    fn call(&self, update: ParamUpdate<'_>) -> Result<(), PluginError> {
        let elements = [update.param.len() as u64];
        let lengths: Vec<[u64; 1]> = update.states.iter().map(|state| [state.len() as u64]).collect();
        let mut states = Vec::with_capacity(update.states.len());
        for (state, length) in update.states.into_iter().zip(&lengths) {
            states.push(TensorViewMut::new(state, length)?);
        }
        let call = StepCall {
            info: update.info,
            param: TensorViewMut::new(update.param, &elements)?,
            grad: TensorView::new(update.grad, &elements)?,
            states: RSliceMut::from_mut_slice(&mut states),
            scalars: update.scalars,
            grid: ROption::from(update.grid),
        };
        self.object.call(Call::Step, |object| object.step(call)).into_result()
    }

    /// The states of the whole optimizer.
    ///
    /// # Errors
    /// The plugin failed.
    pub fn shared_states(&self) -> Result<Vec<StateSpec>, Diagnostic> {
        let states = self.object.call(Call::States, |object| object.shared_states());
        Ok(self.identity.start_failure(states)?.into_vec())
    }

    /// The number of gradient evaluations of an update, at least 1.
    ///
    /// # Errors
    /// The plugin failed.
    pub fn evaluations(&self) -> Result<u32, Diagnostic> {
        let count = self.object.call(Call::States, |object| object.evaluations());
        Ok(self.identity.start_failure(count)?.max(1))
    }

    /// Updates one parameter whose scope is [`Scope::SERVICES`], or those of a group whose scope is [`Scope::GROUP`].
    ///
    /// # Errors
    /// [`Fault::Run`]: the plugin failed.
    pub fn step_with_services(&self, update: &ServiceUpdate<'_>) -> Result<(), Diagnostic> {
        let call = ServiceCall {
            services: update.services,
            params: RSlice::from_slice(update.params),
            shared: RSlice::from_slice(update.shared),
            evaluation: update.evaluation,
        };
        let result = self.object.call(Call::StepWithServices, |object| object.step_with_services(call));
        self.identity.run_failure(result)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{Config, Descriptor, Optimizer, PluginKind, Step, adapters};

    use super::*;
    use crate::{
        calls::{self, Marked},
        instance::Identity,
        vet::Checked,
    };

    /// Counts elements into its state, adds gradients, and fails for these gradients: -1 with an error, -2 with a
    /// panic.
    struct Adds;

    impl Optimizer for Adds {
        const DESCRIPTOR: Descriptor = Descriptor::optimizer("adds", "0", "");

        fn new(_: &Config) -> Result<Self, PluginError> {
            Ok(Self)
        }
        fn states(&self, _: &ParamInfo<'_>) -> Vec<StateSpec> {
            vec![StateSpec::zeros("calls")]
        }
        fn step(&self, step: Step<'_>) -> Result<(), PluginError> {
            assert_eq!(step.info.rank(), 2, "the whole parameter's shape");
            let size = step.param.len() as f32;
            for ((w, g), s) in step.param.iter_mut().zip(step.grad).zip(step.states[0].iter_mut()) {
                (*w, *s) = (*w + g, size);
                assert!(*g != -2.0, "asked to");
                if *g == -1.0 {
                    return Err(PluginError::unsupported("asked to"));
                }
            }
            Ok(())
        }
    }

    fn plugin() -> OptimizerPlugin {
        let config = Config::resolve(&[], []).unwrap();
        let object = adapters::optimizer_object::<Adds>(&config).unwrap();
        let [name, version, library, sha256] = ["adds", "0", "here", ""].map(String::from);
        let (kind, checked) = (PluginKind::OPTIMIZER, Checked::Unchecked);
        let identity = Identity { kind, name, version, library, sha256, checked };
        OptimizerPlugin { identity, config, object: Marked::new(calls::plugin("adds", "here"), object) }
    }

    /// One step; parameter and state.
    fn stepped(scope: Scope, grad: &[f32]) -> (Vec<f32>, Vec<f32>, Result<(), Diagnostic>) {
        let (mut param, mut state) = (vec![1.0; grad.len()], vec![0.0; grad.len()]);
        let result = plugin().step(
            scope,
            ParamUpdate {
                info: ParamInfo::new("w", &[1, grad.len() as u64]),
                param: &mut param,
                grad,
                states: vec![&mut state],
                scalars: StepScalars::new(1.0, 1),
                grid: None,
            },
        );
        (param, state, result)
    }

    #[test]
    fn parts_are_cut_where_the_plugin_allows_it() {
        let grad: Vec<f32> = (0..2 * PART + 7).map(|i| i as f32).collect();
        let (whole, calls, result) = stepped(Scope::WHOLE, &grad);
        assert!(result.is_ok() && calls.iter().all(|&size| size == grad.len() as f32));
        let (parts, calls, result) = stepped(Scope::ELEMENTS, &grad);
        assert!(result.is_ok() && parts == whole);
        assert_eq!((calls[0], calls[2 * PART - 1], calls[2 * PART]), (PART as f32, PART as f32, 7.0));
        assert!(stepped(Scope::ELEMENTS, &[]).2.is_ok());
    }

    #[test]
    fn the_reason_of_a_failure_is_found_in_any_part() {
        for (value, reason) in [(-1.0, "adds`: asked to"), (-2.0, "panicked in `step`")] {
            let mut grad = vec![0.0; 9 * PART];
            grad[8 * PART] = value;
            let message = stepped(Scope::ELEMENTS, &grad).2.unwrap_err().message;
            assert!(message.contains(reason), "{message}");
        }
    }
}

//! The optimizer contract: one fused pass over parameter, gradient and states.
//!
//! The host owns every buffer, checkpoints the states without knowing their meaning, and clips and
//! accumulates gradients before the call.

use crate::{
    Config, Descriptor, Grid, KernelOp, KernelTarget, KernelText, Launch, ParamInfo, PluginError, Scope,
    ServiceStep, StateSpec, StepScalars,
};

/// The update of one parameter, or of some of its elements: all inputs and outputs of the pass.
#[derive(Debug)]
pub struct Step<'a> {
    /// The parameter; its shape is the whole parameter's.
    pub info: ParamInfo<'a>,
    /// `[n]` f32, updated in place: all elements, unless its [`Scope`] is [`Scope::ELEMENTS`].
    pub param: &'a mut [f32],
    /// `[n]` f32, already accumulated and clipped.
    pub grad: &'a [f32],
    /// f32, in the order of [`Optimizer::states`], updated in place, independent of their stored type; `[n]` each
    /// unless it has a shape of its own.
    pub states: &'a mut [&'a mut [f32]],
    /// Learning rate, update count, random key.
    pub scalars: StepScalars,
    /// The parameter's grid, if it is quantized.
    pub grid: Option<Grid<'a>>,
}

/// An optimizer.
///
/// Threads: `[any-thread]`; the host may update different parameters from several threads at once. All mutable data are
/// in the state buffers. A method that panics poisons its instance.
pub trait Optimizer: Send + Sync + Sized + 'static {
    /// Name, version, hyper-parameters.
    const DESCRIPTOR: Descriptor;

    /// Makes an instance from complete, range-checked options. `[main-thread]`
    ///
    /// # Errors
    /// If an option value is invalid although its declared type, range and choices allow it.
    fn new(config: &Config) -> Result<Self, PluginError>;

    /// The state buffers of one parameter. The result for a parameter never changes. `[main-thread]`
    fn states(&self, param: &ParamInfo<'_>) -> Vec<StateSpec>;

    /// The state buffers of the whole instance, which [`Scope::GROUP`] passes to its updates, each with a shape. The
    /// host records those of one number with every step, as the metric `optimizer/NAME`. `[main-thread]`
    fn shared_states(&self) -> Vec<StateSpec> {
        Vec::new()
    }

    /// The number of gradient evaluations of an update, 1 or more. Before the last one, the host calls
    /// [`Self::step_with_services`] for the parameters of [`Scope::GROUP`] after each: it moves them to where the next
    /// gradient is evaluated, at the same data. `[main-thread]`
    fn evaluations(&self) -> u32 {
        1
    }

    /// The scope of a parameter's updates. The result for a parameter never changes. `[main-thread]`
    fn scope(&self, param: &ParamInfo<'_>) -> Scope {
        let _ = param;
        Scope::WHOLE
    }

    /// The rule that updates a parameter, in a few words for the run's record: `adamw: not quantized`. `grid` is the
    /// grid of the later updates, without scales. Empty: the optimizer has one rule only. `[main-thread]`
    ///
    /// # Errors
    /// [`ErrorKind::UNSUPPORTED`](crate::ErrorKind::UNSUPPORTED): the optimizer cannot update such a parameter; the
    /// host refuses the run and shows the reason.
    fn rule(&self, param: &ParamInfo<'_>, grid: Option<Grid<'_>>) -> Result<String, PluginError> {
        let _ = (param, grid);
        Ok(String::new())
    }

    /// Updates one parameter and its states in place. `[any-thread]`
    ///
    /// # Errors
    /// The reason why no update is possible; the host then stops the run.
    fn step(&self, step: Step<'_>) -> Result<(), PluginError>;

    /// The text of a device kernel, or `None`; see [`Format::kernel`](crate::Format::kernel). `[main-thread]`
    ///
    /// # Errors
    /// The reason why an existing kernel cannot be returned.
    fn kernel(&self, op: KernelOp, target: &KernelTarget) -> Result<Option<KernelText>, PluginError> {
        let _ = (op, target);
        Ok(None)
    }

    /// Updates one parameter whose scope is [`Scope::SERVICES`], or all whose scope is [`Scope::GROUP`].
    /// `[main-thread]`
    ///
    /// # Errors
    /// The reason why no update is possible; the host then stops the run.
    fn step_with_services(&self, step: ServiceStep<'_>) -> Result<(), PluginError> {
        let _ = step;
        Err(PluginError::unsupported("it updates nothing with services"))
    }

    /// The kernels that perform [`Self::step`] on a device, in launch order; the last one updates. `None`: there are
    /// none for this parameter, and the host updates it in main memory. Called for each update, with the grid of the
    /// whole parameter. `[any-thread]`
    ///
    /// # Errors
    /// As [`Self::step`].
    fn launches(
        &self,
        param: &ParamInfo<'_>,
        scalars: StepScalars,
        grid: Option<Grid<'_>>,
    ) -> Result<Option<Vec<Launch>>, PluginError> {
        let _ = (param, scalars, grid);
        Ok(None)
    }
}

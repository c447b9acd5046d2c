//! The channel by which the optimizer's step shows each parameter's update, in the order of the parameters. The
//! optimizer reads and copies nothing that its subscriber does not want.

#[cfg(feature = "gpu")]
use altgrad_base::diagnostic::Diagnostic;
#[cfg(feature = "gpu")]
use burn::tensor::Tensor;

#[cfg(feature = "gpu")]
use crate::quant::Quantizer;
use crate::{
    model::layout::{ParamId, ParamSpec},
    quant::WeightGrid,
};

/// The parts of the updates that a subscriber wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// The gradient of each parameter.
    pub gradients: bool,
    /// The gradient of each parameter, and its values before and after the update.
    pub values: bool,
}

/// The update of one parameter in main memory.
#[derive(Debug)]
pub struct UpdateEvent<'a> {
    /// The parameter.
    pub id: ParamId,
    /// Its name and shape.
    pub spec: &'a ParamSpec,
    /// The gradient that the optimizer received, `[n]`; empty if it is not wanted and stays on the device.
    pub grad: &'a [f32],
    /// The values, if they are wanted.
    pub values: Option<UpdatedValues<'a>>,
}

/// The values of one parameter's update, `[n]` each.
#[derive(Debug)]
pub struct UpdatedValues<'a> {
    /// Before.
    pub before: &'a [f32],
    /// As the optimizer left them, before the rounding that may end the update.
    pub intended: &'a [f32],
    /// After.
    pub after: &'a [f32],
    /// True if the update ended with a rounding.
    pub is_rounded: bool,
    /// True if the optimizer's rule depends on the parameter's grid.
    pub has_grid_rule: bool,
    /// The momentum before and after, if the rule depends on the grid and there is one.
    pub momentum: Option<[&'a [f32]; 2]>,
    /// The rounding residual before and after, if the update ended with a rounding and there is one.
    pub residuals: Option<[&'a [f32]; 2]>,
    /// The grid to which the parameter was rounded, and the one on which it is stored afterwards.
    pub grids: [Option<&'a WeightGrid<'a>>; 2],
}

/// The update of one parameter on a GPU. All tensors are `[n]`.
#[cfg(feature = "gpu")]
#[derive(Debug)]
pub struct DeviceUpdate {
    /// The parameter.
    pub id: ParamId,
    /// Before the update, if that is wanted.
    pub before: Option<Tensor<1>>,
    /// As the optimizer left it, if a rounding ended the update.
    pub intended: Option<Tensor<1>>,
    /// After.
    pub after: Tensor<1>,
    /// The gradient that the optimizer received.
    pub grad: Tensor<1>,
}

/// The receiver of the updates of a step.
pub trait UpdateSubscriber {
    /// The parts that it wants of this step's updates in main memory.
    fn wants(&self) -> Wanted;

    /// Receives the update of a parameter; every step, for every parameter that is updated in main memory.
    fn updated(&mut self, event: &UpdateEvent<'_>);

    /// Whether it wants the values before the update of a parameter on a GPU, on this grid; `None` if it cannot measure
    /// there, so that the update goes through main memory.
    #[cfg(feature = "gpu")]
    fn wants_on_device(&self, id: ParamId, grid: Option<&WeightGrid<'_>>) -> Option<bool>;

    /// Receives value and gradient, `[n]`, of a parameter before its update on a GPU.
    ///
    /// # Errors
    /// The device failed.
    #[cfg(feature = "gpu")]
    fn begins_on_device(
        &mut self,
        parameter: (ParamId, &ParamSpec),
        value_and_grad: [&Tensor<1>; 2],
        grid: Option<&WeightGrid<'_>>,
    ) -> Result<(), Diagnostic>;

    /// Receives the update of a parameter on a GPU, on this grid.
    #[cfg(feature = "gpu")]
    fn updated_on_device(&mut self, update: DeviceUpdate, grid: Option<&WeightGrid<'_>>);

    /// Receives the end of a step's updates on a GPU. `grids` are those before the updates, by parameter.
    ///
    /// # Errors
    /// The device failed.
    #[cfg(feature = "gpu")]
    fn ends_on_device(
        &mut self,
        specs: &[ParamSpec],
        quant: &mut Quantizer,
        grids: &[Option<WeightGrid<'_>>],
    ) -> Result<(), Diagnostic>;
}

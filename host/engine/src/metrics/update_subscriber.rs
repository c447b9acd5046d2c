//! The measurements of the optimizer's step: [`UpdateMetrics`] subscribes to the updates of parameters.

#[cfg(feature = "gpu")]
use altgrad_base::diagnostic::Diagnostic;
#[cfg(feature = "gpu")]
use burn::tensor::Tensor;

use super::update_metrics::UpdateMetrics;
#[cfg(feature = "gpu")]
use super::{device_counts::DeviceCounts, update_loss::UpdateLoss};
use crate::optimizer::{UpdateEvent, UpdateSubscriber, Wanted};
#[cfg(feature = "gpu")]
use crate::{
    model::layout::{ParamId, ParamSpec},
    optimizer::DeviceUpdate,
    quant::{Quantizer, WeightGrid},
    tensor,
};

impl UpdateSubscriber for UpdateMetrics {
    fn wants(&self) -> Wanted {
        Wanted { gradients: self.wants_gradients(), values: self.wants_weights() }
    }

    fn updated(&mut self, event: &UpdateEvent<'_>) {
        self.gradient(event.id, event.grad);
        if let Some(values) = &event.values {
            self.update(event, values);
        }
    }

    #[cfg(feature = "gpu")]
    fn wants_on_device(&self, id: ParamId, grid: Option<&WeightGrid<'_>>) -> Option<bool> {
        Some(self.counting(id, grid.and_then(WeightGrid::one_scale))?.counts())
    }

    #[cfg(feature = "gpu")]
    fn begins_on_device(
        &mut self,
        (id, spec): (ParamId, &ParamSpec),
        [value, grad]: [&Tensor<1>; 2],
        grid: Option<&WeightGrid<'_>>,
    ) -> Result<(), Diagnostic> {
        if self.measures_weights() {
            let (before, grad) = (tensor::read_f32(value.clone())?, tensor::read_f32(grad.clone())?);
            self.measure_weights(id, spec, (&before, &grad), grid);
        }
        self.gradient_on_device(id);
        Ok(())
    }

    #[cfg(feature = "gpu")]
    fn updated_on_device(&mut self, update: DeviceUpdate, grid: Option<&WeightGrid<'_>>) {
        let counting = self.counting(update.id, grid.and_then(WeightGrid::one_scale));
        if let (Some(counting), Some(counts)) = (counting, &mut self.device) {
            counts.add(update, counting);
        }
    }

    #[cfg(feature = "gpu")]
    fn ends_on_device(
        &mut self,
        specs: &[ParamSpec],
        quant: &mut Quantizer,
        grids: &[Option<WeightGrid<'_>>],
    ) -> Result<(), Diagnostic> {
        let Some(mut counts) = self.device.take() else { return Ok(()) };
        let read = self.read_counts(&mut counts, specs, (quant, grids));
        self.device = Some(counts);
        read
    }
}

#[cfg(feature = "gpu")]
impl UpdateMetrics {
    /// Counts the updates that need the grids after all updates, and reads all counts of the step.
    fn read_counts(
        &mut self,
        counts: &mut DeviceCounts,
        specs: &[ParamSpec],
        (quant, grids): (&mut Quantizer, &[Option<WeightGrid<'_>>]),
    ) -> Result<(), Diagnostic> {
        let later = counts.take_later();
        if !later.is_empty() {
            quant.read_weight_scales()?;
        }
        for (before, DeviceUpdate { id, after, grad, .. }) in later {
            let new_grid = quant.state.stored_grid(&quant.plan, id, &specs[id].shape)?;
            let values = || tensor::read_f32(before.clone()).ok();
            self.scales([grids[id].as_ref(), new_grid.as_ref()], id, specs[id].len(), values);
            if let Some(counting) = self.counting(id, new_grid.as_ref().and_then(WeightGrid::one_scale)) {
                counts.count(id, [before, after, grad], counting);
            }
        }
        let (counted, lost) = counts.read()?;
        for (id, counts) in counted {
            let stored = grids[id].as_ref().and_then(WeightGrid::one_scale);
            self.counted(id, &specs[id], &counts, stored.is_some());
        }
        for (id, UpdateLoss { realized, intended }) in lost {
            let elements = specs[id].len() as f64;
            self.lost(id, UpdateLoss { realized: realized * elements, intended: intended * elements });
        }
        Ok(())
    }
}

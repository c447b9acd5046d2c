//! The counts of a step's updates on a GPU, from kernels of the engine after each update: requested by parameter, read at once.

use altgrad_base::diagnostic::Diagnostic;
use burn::tensor::Tensor;

use super::{device_run::DeviceRun, update::stored_grid};
use crate::{
    metrics::{
        count_op, ops,
        update_counts::{Counting, UpdateCounts},
        update_loss::UpdateLoss,
        update_metrics::UpdateMetrics,
    },
    model::{Layout, layout::ParamId},
    quant::{QuantContext, WeightGrid},
    read_back::{ReadBack, Slot},
    tensor,
};

/// A parameter before and after its update, and its gradient.
pub(super) struct Updated {
    pub(super) id: ParamId,
    pub(super) before: Tensor<1>,
    pub(super) value: Tensor<1>,
    pub(super) grad: Tensor<1>,
}

/// Requested counts.
struct Asked {
    id: ParamId,
    words: Slot,
    sums: Slot,
}

/// The requests of a step.
#[derive(Default)]
pub(super) struct Requests {
    read_back: ReadBack,
    counts: Vec<Asked>,
    /// Updates that are counted on the grids after all updates.
    later: Vec<Updated>,
    /// Sums over intended and realized changes, of parameters that are rounded.
    lost: Vec<(ParamId, Slot)>,
}

impl Requests {
    /// Counts the effects of an update, and requests what is counted.
    pub(super) fn count(&mut self, run: &DeviceRun, update: Updated, counting: Counting) {
        let Updated { id, before, value, grad } = update;
        let [words, sums] = count_op::count_update([before, value, grad], counting, run.memories[id].clone());
        if counting.counts() {
            let (words, sums) = (self.read_back.ask(words), self.read_back.ask(sums));
            self.counts.push(Asked { id, words, sums });
        }
    }

    /// Counts an update without master weights: in [`Self::ask_counts`], because its codes are those of the grid after the update.
    pub(super) fn count_later(&mut self, update: Updated) {
        self.later.push(update);
    }

    /// Requests the sums of [`UpdateLoss`]: of a parameter before its update, as the optimizer left it, and rounded.
    pub(super) fn lost(&mut self, id: ParamId, before: &Tensor<1>, [intended, rounded]: [Tensor<1>; 2]) {
        let [intended, realized] = [intended, rounded].map(|after| after - before.clone());
        self.lost.push((id, self.read_back.ask(ops::agreement(&intended, &realized))));
    }

    /// Requests the counts that need the grids after the update.
    pub(super) fn ask_counts(
        &mut self,
        run: &DeviceRun,
        layout: &Layout,
        (quant, grids): (&QuantContext, &[Option<WeightGrid<'_>>]),
        meter: &mut UpdateMetrics,
    ) -> Result<(), Diagnostic> {
        let later = std::mem::take(&mut self.later);
        if !later.is_empty() {
            quant.read_weight_scales()?;
        }
        for update in later {
            let (id, spec) = (update.id, &layout.specs[update.id]);
            let new_grid = stored_grid(quant, id, &spec.shape)?;
            let before = || tensor::read_f32(update.before.clone()).ok();
            meter.scales([grids[id].as_ref(), new_grid.as_ref()], id, spec.len(), before);
            if let Some(counting) = meter.counting(id, new_grid.as_ref().and_then(WeightGrid::one_scale)) {
                self.count(run, update, counting);
            }
        }
        Ok(())
    }

    /// Reads all requested results and gives them to the meter.
    pub(super) fn take_counts(
        self,
        run: &DeviceRun,
        layout: &Layout,
        grids: &[Option<WeightGrid<'_>>],
        meter: &mut UpdateMetrics,
    ) -> Result<(), Diagnostic> {
        let values = self.read_back.read();
        run.check()?;
        let values = values?;
        for Asked { id, words, sums } in self.counts {
            let words: Vec<u32> = values.get(words)?.iter().map(|word| word.to_bits()).collect();
            let counts = UpdateCounts::new(&words, values.get(sums)?)?;
            let stored = grids[id].as_ref().and_then(WeightGrid::one_scale);
            meter.counted(id, &layout.specs[id], &counts, stored.is_some());
        }
        for (id, slot) in self.lost {
            let elements = layout.specs[id].len() as f64;
            let [realized, intended, ..] = ops::means(values.rows(slot)?).map(|mean| mean * elements);
            meter.lost(id, UpdateLoss { realized, intended });
        }
        Ok(())
    }
}

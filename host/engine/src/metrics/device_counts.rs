//! The counts of a step's updates on a GPU, from kernels of the engine after each update: requested by parameter, read
//! at once.

use std::ops::Range;

use altgrad_base::diagnostic::Diagnostic;
use burn::tensor::{Device, Tensor};

use super::{
    count_op::{self, CountCall, CountMemory},
    element_memory::ElementMemory,
    ops,
    update_counts::{Counting, UpdateCounts, WORDS},
    update_loss::UpdateLoss,
};
use crate::{
    device_faults,
    kernel_text::cubes,
    model::layout::ParamId,
    optimizer::DeviceUpdate,
    read_back::{ReadBack, Slot},
    tensor::batch::MOST,
};

/// The requested counts of an update: parts of tensors of several updates.
#[derive(Debug)]
struct RequestedCounts {
    id: ParamId,
    words: (Slot, Range<usize>),
    sums: (Slot, Range<usize>),
}

/// An update that is to be counted: before, after, and the gradient.
struct Uncounted {
    id: ParamId,
    tensors: [Tensor<1>; 3],
    counting: Counting,
}

/// The counting of a run on a GPU.
pub(super) struct DeviceCounts {
    device: Device,
    /// What the device remembers of elements, by parameter.
    memories: Vec<CountMemory>,
    requests: Requests,
}

/// The requests of a step.
#[derive(Default)]
struct Requests {
    read_back: ReadBack,
    uncounted: Vec<Uncounted>,
    counts: Vec<RequestedCounts>,
    /// Updates that are counted on the grids after all updates, with the values before them.
    later: Vec<(Tensor<1>, DeviceUpdate)>,
    /// Sums over intended and realized changes, of parameters that are rounded.
    lost: Vec<(ParamId, Slot)>,
}

impl std::fmt::Debug for DeviceCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceCounts").field("memories", &self.memories).finish_non_exhaustive()
    }
}

impl DeviceCounts {
    /// Before the first step.
    pub(super) fn new(device: Device, params: usize) -> Self {
        let memories = (0..params).map(|_| CountMemory::default()).collect();
        Self { device, memories, requests: Requests::default() }
    }

    /// Continues counting from this memory of a parameter's elements.
    pub(super) fn restore(&self, id: ParamId, memory: &ElementMemory) {
        self.memories[id].restore(memory);
    }

    /// What is remembered of a parameter's elements, read back after queued operations, which may still write it;
    /// `None` if nothing was counted.
    pub(super) fn memory(&self, id: ParamId) -> Result<Option<ElementMemory>, Diagnostic> {
        let synced = self.device.sync().map_err(|error| error.to_string());
        let read = synced.and_then(|()| self.memories[id].read());
        device_faults::check()?;
        read.map_err(|why| device_faults::failed("the memory of metrics was not read", why))
    }

    /// Counts an update; one without master weights after all updates, because its codes are those of the grid after
    /// the update.
    pub(super) fn add(&mut self, update: DeviceUpdate, counting: Counting) {
        let DeviceUpdate { id, before, intended, after, grad } = update;
        if let (Some(before), Some(intended)) = (&before, &intended) {
            let [intended, realized] = [intended, &after].map(|after| after.clone() - before.clone());
            self.requests
                .lost
                .push((id, self.requests.read_back.request(ops::agreement(&intended, &realized))));
        }
        if !counting.is_due() {
            return;
        }
        // If nothing is counted, only the gradient is kept; `before` has no influence.
        let before = before.unwrap_or_else(|| after.clone());
        if intended.is_some() && counting.counts() {
            let update = DeviceUpdate { id, before: None, intended: None, after, grad };
            self.requests.later.push((before, update));
        } else {
            self.count(id, [before, after, grad], counting);
        }
    }

    /// Counts an update with others, before the results are read.
    pub(super) fn count(&mut self, id: ParamId, tensors: [Tensor<1>; 3], counting: Counting) {
        self.requests.uncounted.push(Uncounted { id, tensors, counting });
    }

    /// Counts the updates that are not counted yet, several in a launch, and requests what is counted.
    fn count_all(&mut self) {
        let mut uncounted = std::mem::take(&mut self.requests.uncounted);
        while !uncounted.is_empty() {
            let some: Vec<Uncounted> = uncounted.drain(..uncounted.len().min(MOST)).collect();
            let updates = some.iter().map(|update| (update.counting, self.memories[update.id].clone()));
            let call = CountCall { updates: updates.collect() };
            let tensors = some.iter().map(|update| update.tensors.clone()).collect();
            let [words, sums] = count_op::count_updates(tensors, call);
            if !some.iter().any(|update| update.counting.counts()) {
                continue;
            }
            let read_back = &mut self.requests.read_back;
            let (words, sums) = (read_back.request(words), read_back.request(sums));
            let mut slot = 0;
            for (index, Uncounted { id, tensors, counting }) in some.into_iter().enumerate() {
                let slots = slot..slot + cubes(tensors[0].shape().num_elements());
                slot = slots.end;
                if counting.counts() {
                    let words = (words, index * WORDS..(index + 1) * WORDS);
                    self.requests.counts.push(RequestedCounts { id, words, sums: (sums, slots) });
                }
            }
        }
    }

    /// Removes and returns the updates that are counted on the grids after all updates, with the values before them.
    pub(super) fn take_later(&mut self) -> Vec<(Tensor<1>, DeviceUpdate)> {
        std::mem::take(&mut self.requests.later)
    }

    /// Reads all results of a step: the counts, and the means of [`ops::agreement`] over intended and realized changes.
    pub(super) fn read(&mut self) -> Result<(Counts, Lost), Diagnostic> {
        self.count_all();
        let Requests { read_back, counts, lost, .. } = std::mem::take(&mut self.requests);
        let values = read_back.read()?;
        let counts = counts.into_iter().map(|RequestedCounts { id, words, sums }| {
            let part = |(slot, range): (Slot, Range<usize>)| -> Result<&[f32], Diagnostic> {
                Ok(values.get(slot)?.get(range).unwrap_or_default())
            };
            let words: Vec<u32> = part(words)?.iter().map(|word| word.to_bits()).collect();
            Ok((id, UpdateCounts::new(&words, part(sums)?)?))
        });
        let counts = counts.collect::<Result<_, Diagnostic>>()?;
        let lost = lost.into_iter().map(|(id, slot)| {
            let [realized, intended, ..] = ops::means(values.rows(slot)?);
            Ok((id, UpdateLoss { realized, intended }))
        });
        Ok((counts, lost.collect::<Result<_, Diagnostic>>()?))
    }
}

/// Counts by parameter.
type Counts = Vec<(ParamId, UpdateCounts)>;
/// Mean rounding losses by parameter.
type Lost = Vec<(ParamId, UpdateLoss)>;

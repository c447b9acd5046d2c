//! Reading tensors back from the device: many at once, with one synchronisation.

use altgrad_base::diagnostic::Diagnostic;
use burn::tensor::{Tensor, TensorData, Transaction};

use crate::device_faults;

/// Tensors that will be read together.
#[derive(Default)]
pub struct ReadBack {
    transaction: Transaction,
    requested: usize,
}

/// Index of a tensor in a [`ReadBack`] and its [`Values`].
#[derive(Debug, Clone, Copy)]
pub struct Slot(usize);

/// The elements of all tensors of a [`ReadBack`].
#[derive(Debug)]
pub struct Values(Vec<TensorData>);

impl ReadBack {
    /// Requests a tensor: `[n]` f32, outside of any autodiff graph.
    pub fn request(&mut self, tensor: Tensor<1>) -> Slot {
        self.transaction = std::mem::take(&mut self.transaction).register(tensor);
        self.requested += 1;
        Slot(self.requested - 1)
    }

    /// Reads them all: one synchronisation, or none if nothing was requested.
    ///
    /// # Errors
    /// [`Fault::Device`](altgrad_base::diagnostic::Fault::Device): the device failed.
    pub fn read(self) -> Result<Values, Diagnostic> {
        if self.requested == 0 {
            return Ok(Values(Vec::new()));
        }
        tracing::debug!("read back: {} tensors at once", self.requested);
        let data = self.transaction.try_execute();
        device_faults::check()?;
        data.map(Values).map_err(|error| device_faults::failed("a step's results were not read", error))
    }
}

impl Values {
    /// The elements of a tensor of the same [`ReadBack`].
    ///
    /// # Errors
    /// [`Fault::Run`](altgrad_base::diagnostic::Fault::Run): the device returned another number of values.
    pub fn get(&self, slot: Slot) -> Result<&[f32], Diagnostic> {
        let wrong =
            |what: String| Diagnostic::run(format!("the device did not return what was asked for: {what}"));
        let data =
            self.0.get(slot.0).ok_or_else(|| wrong(format!("tensor {} of {}", slot.0, self.0.len())))?;
        data.as_slice::<f32>().map_err(|error| wrong(format!("{error:?}")))
    }

    /// The elements as rows of `N`, at least one.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn rows<const N: usize>(&self, slot: Slot) -> Result<&[[f32; N]], Diagnostic> {
        let values = self.get(slot)?;
        match values.as_chunks() {
            (rows @ [_, ..], []) => Ok(rows),
            _ => {
                Err(Diagnostic::run(format!("the device returned {} numbers, not rows of {N}", values.len())))
            }
        }
    }
}

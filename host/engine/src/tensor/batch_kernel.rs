//! Launches over several tensors: which cubes work on which tensor.

use burn_cubecl::tensor::CubeTensor;
use cubecl::{client::Client, prelude::*};

use super::batch::MOST;
use crate::{cube_parts::elements, kernel_text::cubes};

/// Most tensors of a launch on a device, beside a result and the launch's own buffer of scalars.
pub(crate) fn most(client: &Client) -> usize {
    (client.properties().hardware.max_bindings as usize).saturating_sub(2).clamp(1, MOST)
}

/// The distribution of the cubes of a launch.
#[derive(Debug)]
pub(crate) struct Work {
    elements: Vec<u32>,
    /// The first cube of each tensor, and the number of all cubes.
    starts: Vec<u32>,
}

impl Work {
    /// Each tensor has as many cubes as in a launch of its own.
    pub(crate) fn of(tensors: &[CubeTensor]) -> Self {
        Self::of_lens(tensors.iter().map(|tensor| elements(tensor) as usize))
    }

    /// The same for tensors of these lengths.
    pub(crate) fn of_lens(lens: impl IntoIterator<Item = usize>) -> Self {
        let (mut elements, mut starts) = (Vec::new(), vec![0]);
        for len in lens {
            elements.push(len as u32);
            starts.push(starts[starts.len() - 1] + cubes(len) as u32);
        }
        Self { elements, starts }
    }

    /// The number of all cubes.
    pub(crate) fn len(&self) -> u32 {
        self.starts[self.starts.len() - 1]
    }

    /// The cubes of the launch.
    pub(crate) fn cubes(&self) -> CubeCount {
        CubeCount::new_1d(self.len())
    }

    /// The elements of each tensor and the first cubes, as arguments of a kernel.
    pub(crate) fn arguments(&self) -> (SequenceArg<u32>, SequenceArg<u32>) {
        (self.elements.iter().copied().collect(), self.starts.iter().copied().collect())
    }
}

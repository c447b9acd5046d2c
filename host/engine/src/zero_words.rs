//! Words that are zero before a launch counts in them: parts of one buffer, so that few launches of their own serve
//! many.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicU64, Ordering},
};

use burn::backend::TensorMetadata as _;
use burn::tensor::{DType, Shape};
use burn_cubecl::{CubeDevice, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::{
    cube_parts::{UNITS, elements},
    kernel_text::cubes,
    tensor::flat_places::{ALIGNMENT, part},
};

/// Words of a buffer.
const BUFFER: usize = 1 << 16;
/// The rest of a buffer: the words from the second field on are zero and not given away. The third field is the time
/// of [`TIMES`] at which it was begun.
type Rest = (CubeTensor, usize, u64);

/// How often [`begin`] was called.
static TIMES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The rest for each device. Operations of a device run on one thread.
    static REST: RefCell<Vec<Rest>> = const { RefCell::new(Vec::new()) };
}

/// Operations from now on use no words of a buffer before: launches that are recorded need words that a recorded
/// launch has set to zero, and others need words that no replay sets.
pub fn begin() {
    TIMES.fetch_add(1, Ordering::Relaxed);
}

/// `[words]` zeros, which nothing else uses.
#[must_use]
pub fn zero_words(device: &CubeDevice, words: usize) -> CubeTensor {
    let zeros = |words: usize| {
        let shape = Shape::from([words]);
        let buffer = empty_device_contiguous_dtype(device.client(), device.clone(), shape, DType::F32);
        let (count, dim) = (CubeCount::new_1d(cubes(words) as u32), CubeDim::new_1d(UNITS));
        set_to_zero::launch(&buffer.client, count, dim, buffer.clone().into_buffer_arg(), elements(&buffer));
        buffer
    };
    if words > BUFFER / 8 {
        return zeros(words);
    }
    REST.with_borrow_mut(|all| {
        let now = TIMES.load(Ordering::Relaxed);
        let index = match all.iter().position(|(buffer, ..)| buffer.device() == *device) {
            Some(index) => index,
            None => {
                all.push((zeros(BUFFER), 0, now));
                all.len() - 1
            }
        };
        let (buffer, next, begun) = &mut all[index];
        if *next + words > BUFFER || *begun != now {
            (*buffer, *next, *begun) = (zeros(BUFFER), 0, now);
        }
        let zeros = part(buffer, *next, [words]);
        *next += words.next_multiple_of(ALIGNMENT);
        zeros
    })
}

#[cube(launch)]
fn set_to_zero(words: &mut [f32], elements: u32) {
    let mut place = ABSOLUTE_POS;
    while place < elements as usize {
        words[place] = 0.0f32;
        place += CUBE_COUNT * (CUBE_DIM as usize);
    }
}

//! Words that are zero before a launch counts in them: parts of one buffer, so that few uploads serve many launches.

use std::cell::RefCell;

use burn::backend::TensorMetadata as _;
use burn::tensor::{DType, Shape};
use burn_cubecl::{CubeBackend, CubeDevice, tensor::CubeTensor};

use crate::kernel_text::upload;

/// Words of a buffer.
const BUFFER: usize = 1 << 16;
/// Words between two possible places: devices bind parts of buffers at multiples of up to 512 bytes.
const ALIGNMENT: usize = 128;

/// The rest of a buffer: the words from the second field on are zero and not given away.
type Rest = (CubeTensor, usize);

thread_local! {
    /// The rest for each device. Operations of a device run on one thread.
    static REST: RefCell<Vec<Rest>> = const { RefCell::new(Vec::new()) };
}

/// `[words]` zeros, which nothing else uses.
#[must_use]
pub fn zero_words(device: &CubeDevice, words: usize) -> CubeTensor {
    let zeros = |words: usize| upload::<CubeBackend>(device, Shape::from([words]), vec![0.0; words]);
    if words > BUFFER / 8 {
        return zeros(words);
    }
    REST.with_borrow_mut(|all| {
        let index = match all.iter().position(|(buffer, _)| buffer.device() == *device) {
            Some(index) => index,
            None => {
                all.push((zeros(BUFFER), 0));
                all.len() - 1
            }
        };
        let (buffer, next) = &mut all[index];
        if *next + words > BUFFER {
            (*buffer, *next) = (zeros(BUFFER), 0);
        }
        let bytes = |words: usize| 4 * words as u64;
        let end = buffer.handle.size_in_used() - bytes(*next + words);
        let handle = buffer.handle.clone().offset_start(bytes(*next)).offset_end(end);
        *next += words.next_multiple_of(ALIGNMENT);
        let shape = Shape::from([words]);
        CubeTensor::new_contiguous(buffer.client.clone(), device.clone(), shape, handle, DType::F32)
    })
}

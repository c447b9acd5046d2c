//! Values that casts take from the host in each step, in memory of the device: the step of random keys, and scales of
//! earlier steps. Kernels read them there, so that a recorded launch uses those of the step at which it is replayed.

use std::cell::RefCell;

use burn::tensor::Shape;
use burn_cubecl::{CubeBackend, CubeDevice, tensor::CubeTensor};
use parking_lot::Mutex;

use crate::{
    kernel_text::upload,
    tensor::flat_places::{ALIGNMENT, part},
};

/// Scale and inverse of a cast without scales.
const ONE: [f32; 2] = [1.0, 1.0];

thread_local! {
    /// The last step of launches on each device, and its word. Operations of a device run on one thread.
    static STEPS: RefCell<Vec<(CubeDevice, u32, CubeTensor)>> = const { RefCell::new(Vec::new()) };
    /// The pair [`ONE`] on each device.
    static ONES: RefCell<Vec<(CubeDevice, CubeTensor)>> = const { RefCell::new(Vec::new()) };
}

/// The words that launches read while they are recorded.
static OF_RECORDING: Mutex<Option<CubeTensor>> = Mutex::new(None);

/// The words of a step: the step, and scale and inverse of some sites by their number.
#[must_use]
pub fn words(step: u64, pairs: impl Iterator<Item = Option<[f32; 2]>>) -> Vec<f32> {
    // Keys have the low bits of a step.
    let mut words = vec![f32::from_bits(step as u32)];
    for pair in pairs {
        words.resize(words.len().next_multiple_of(ALIGNMENT), 0.0);
        words.extend(pair.unwrap_or_default());
    }
    words
}

/// Operations from now on read these words of a step, which change from replay to replay; with none, values of their
/// own.
pub fn begin(words: Option<CubeTensor>) {
    *OF_RECORDING.lock() = words;
}

/// Words of the recording that is made on a device.
fn of_recording(device: &CubeDevice, start: usize, shape: Shape) -> Option<CubeTensor> {
    let words = OF_RECORDING.lock();
    words.as_ref().filter(|words| words.device == *device).map(|words| part(words, start, shape))
}

/// The bits of a step, `[1]`.
#[must_use]
pub fn step_word(device: &CubeDevice, step: u64) -> CubeTensor {
    if let Some(word) = of_recording(device, 0, Shape::from([1])) {
        return word;
    }
    let step = step as u32;
    STEPS.with_borrow_mut(|all| {
        if let Some((_, _, word)) = all.iter().find(|(of, last, _)| (of, *last) == (device, step)) {
            return word.clone();
        }
        let word = upload::<CubeBackend>(device, Shape::from([1]), vec![f32::from_bits(step)]);
        all.retain(|(of, ..)| of != device);
        all.push((device.clone(), step, word.clone()));
        word
    })
}

/// Scale and inverse, `[1, 2]`; `site` is the number of the site in the words of a step, if they have it.
#[must_use]
pub fn scale_pair(device: &CubeDevice, pair: [f32; 2], site: Option<usize>) -> CubeTensor {
    let shape = Shape::from([1, 2]);
    if let Some(pair) = site.and_then(|site| of_recording(device, ALIGNMENT * (1 + site), shape.clone())) {
        return pair;
    }
    let new = || upload::<CubeBackend>(device, shape, pair.to_vec());
    if pair != ONE {
        return new();
    }
    ONES.with_borrow_mut(|all| {
        if let Some((_, one)) = all.iter().find(|(of, _)| of == device) {
            return one.clone();
        }
        let one = new();
        all.push((device.clone(), one.clone()));
        one
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_where_kernels_are_given_them() {
        let words = words(3, [None, Some([4.0, 0.25])].into_iter());
        assert_eq!((words[0].to_bits(), &words[ALIGNMENT..ALIGNMENT + 2]), (3, &[0.0, 0.0][..]));
        assert_eq!(words[2 * ALIGNMENT..], [4.0, 0.25]);
    }
}

//! Values that kernels take from the host in each step, in memory of the device: the step of random keys, the
//! micro-batch of dropout masks, and scales of earlier steps. Kernels read them there, so that a recorded launch uses
//! those of the step at which it is replayed.

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
    /// The last step of launches on each device, and the last micro-batch, with their words. Operations of a device run
    /// on one thread.
    static LAST: RefCell<Vec<(CubeDevice, Vec<u32>, CubeTensor)>> = const { RefCell::new(Vec::new()) };
    /// The pair [`ONE`] on each device.
    static ONES: RefCell<Vec<(CubeDevice, CubeTensor)>> = const { RefCell::new(Vec::new()) };
}

/// The words that launches read while they are recorded.
static OF_RECORDING: Mutex<Option<CubeTensor>> = Mutex::new(None);

/// The words of a step: the step and its first micro-batch, and scale and inverse of some sites by their number.
#[must_use]
pub fn words([step, micro_batch]: [u64; 2], pairs: impl Iterator<Item = Option<[f32; 2]>>) -> Vec<f32> {
    let mut words: Vec<f32> = bits_of(step, micro_batch).map(f32::from_bits).to_vec();
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

/// The low bits of a step, which keys have, and the lower and upper half of a micro-batch's number.
fn bits_of(step: u64, micro_batch: u64) -> [u32; 3] {
    [step as u32, micro_batch as u32, (micro_batch >> 32) as u32]
}

/// The bits of a step, `[1]`.
#[must_use]
pub fn step_word(device: &CubeDevice, step: u64) -> CubeTensor {
    last_or_new(device, &bits_of(step, 0)[..1])
}

/// The step's first micro-batch, `[3]`: its halves are the last two words.
#[must_use]
pub fn micro_batch_words(device: &CubeDevice, micro_batch: u64) -> CubeTensor {
    last_or_new(device, &bits_of(0, micro_batch))
}

/// Words of the recording; else these, uploaded if they are not the last ones of their kind.
fn last_or_new(device: &CubeDevice, bits: &[u32]) -> CubeTensor {
    let shape = Shape::from([bits.len()]);
    if let Some(words) = of_recording(device, 0, shape.clone()) {
        return words;
    }
    LAST.with_borrow_mut(|all| {
        if let Some((.., words)) = all.iter().find(|(of, last, _)| of == device && last == bits) {
            return words.clone();
        }
        let words = upload::<CubeBackend>(device, shape, bits.iter().copied().map(f32::from_bits).collect());
        all.retain(|(of, last, _)| of != device || last.len() != bits.len());
        all.push((device.clone(), bits.to_vec(), words.clone()));
        words
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
        let words = words([3, (5 << 32) + 7], [None, Some([4.0, 0.25])].into_iter());
        let bits: Vec<u32> = words[..3].iter().map(|word| word.to_bits()).collect();
        assert_eq!((bits, &words[ALIGNMENT..ALIGNMENT + 2]), (vec![3, 7, 5], &[0.0, 0.0][..]));
        assert_eq!(words[2 * ALIGNMENT..], [4.0, 0.25]);
    }
}

//! Tensors one after the other in one buffer on a GPU, so that one launch works on all of them.

use burn::tensor::{DType, Shape};
use burn_cubecl::{ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::client::Client;

/// Elements between two possible places: devices bind parts of buffers at multiples of up to 512 bytes.
pub(crate) const ALIGNMENT: usize = 128;
/// Most elements of a buffer of several tensors: kernels address elements with 31 bits.
const MOST_ELEMENTS: usize = 1 << 30;

/// The first element and the number of elements of each tensor `[n]` in a buffer of f32.
#[derive(Debug)]
pub(crate) struct FlatPlaces(Vec<[usize; 2]>);

/// The part of a flat tensor from element `start` on, in the same memory.
pub(crate) fn part(of: &CubeTensor, start: usize, shape: impl Into<Shape>) -> CubeTensor {
    let (shape, size) = (shape.into(), of.elem_size());
    let bytes = |elements: usize| (elements * size) as u64;
    let end = of.handle.size_in_used() - bytes(start + shape.num_elements());
    let handle = of.handle.clone().offset_start(bytes(start)).offset_end(end);
    CubeTensor::new_contiguous(of.client.clone(), of.device.clone(), shape, handle, of.dtype)
}

/// The elements of a buffer that a tensor of this length takes.
fn room(len: usize) -> usize {
    len.next_multiple_of(ALIGNMENT)
}

/// Most elements of a buffer of a device.
pub(crate) fn most_elements(client: &Client) -> usize {
    MOST_ELEMENTS.min(client.properties().memory.max_page_size as usize / 4)
}

/// The ends of the parts into which tensors of these lengths are divided, so that each part fits into a buffer of
/// `most` elements and has at most `count` tensors.
pub(crate) fn ends_of_buffers(lens: &[usize], most: usize, count: usize) -> Vec<usize> {
    let (mut ends, mut first, mut elements) = (Vec::new(), 0, 0);
    for (index, len) in lens.iter().enumerate() {
        if index > first && (elements + room(*len) > most || index - first == count) {
            ends.push(index);
            (first, elements) = (index, 0);
        }
        elements += room(*len);
    }
    ends.push(lens.len());
    ends
}

impl FlatPlaces {
    /// The places of tensors of these lengths.
    pub(crate) fn new(lens: &[usize]) -> Self {
        let mut next = 0;
        let place = |&len: &usize| {
            let place = [next, len];
            next += room(len);
            place
        };
        Self(lens.iter().map(place).collect())
    }

    /// The number of elements of each tensor.
    pub(crate) fn lens(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|[_, len]| *len)
    }

    /// The first element of each tensor.
    pub(crate) fn starts(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|[start, _]| *start)
    }

    /// The elements of the buffer.
    pub(crate) fn elements(&self) -> usize {
        self.0.last().map_or(0, |[start, len]| start + room(*len))
    }

    /// A buffer without values, on the device of a tensor.
    pub(crate) fn empty(&self, beside: &CubeTensor) -> CubeTensor {
        let shape = Shape::from([self.elements()]);
        empty_device_contiguous_dtype(beside.client.clone(), beside.device.clone(), shape, DType::F32)
    }

    /// A tensor's part of a buffer.
    pub(crate) fn part(&self, of: &CubeTensor, index: usize) -> CubeTensor {
        let [start, len] = self.0[index];
        part(of, start, [len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_divided_by_elements_and_by_number() {
        assert_eq!(FlatPlaces::new(&[3, 128, 129]).0, [[0, 3], [128, 128], [256, 129]]);
        assert_eq!(ends_of_buffers(&[3, 128, 129, 1], 512, 10), [3, 4]);
        assert_eq!(ends_of_buffers(&[1, 1, 1, 1, 1], 512, 2), [2, 4, 5]);
        assert_eq!(ends_of_buffers(&[4096, 1], 512, 2), [1, 2], "a tensor is not divided");
    }
}

//! Views of tensors that cross the boundary: pointer, element type, shape, strides, device.
//!
//! The layout follows DLPack 1.0 (element types and device numbers), so that device tensors can cross later without a
//! new type. Views borrow and never free. The host makes them, and plugins read them through checked accessors.

use std::marker::PhantomData;

use crate::stable::{StableAbi, std_types::RSlice};

use crate::{ErrorKind, PluginError};

/// Element type: DLPack's `DLDataType`.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Eq)]
pub struct DType {
    /// DLPack type code: 0 signed integer, 1 unsigned integer, 2 float, 4 bfloat.
    pub code: u8,
    /// Bits per element.
    pub bits: u8,
    /// Number of lanes of a vector type; 1 here.
    pub lanes: u16,
}

impl DType {
    /// IEEE 754 binary32.
    pub const F32: Self = Self { code: 2, bits: 32, lanes: 1 };
    /// bfloat16.
    pub const BF16: Self = Self { code: 4, bits: 16, lanes: 1 };
    /// Unsigned 16-bit integer, the type of number-format codes.
    pub const U16: Self = Self { code: 1, bits: 16, lanes: 1 };
    /// Unsigned 32-bit integer, the type of codes and counters in kernels.
    pub const U32: Self = Self { code: 1, bits: 32, lanes: 1 };
}

/// The place of a tensor's memory: DLPack's `DLDevice`.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceRef {
    /// DLPack device type: 1 CPU, 2 CUDA.
    pub kind: i32,
    /// The index among devices of that type, from 0.
    pub index: i32,
}

impl DeviceRef {
    /// Main memory.
    pub const CPU: Self = Self { kind: 1, index: 0 };
}

/// A tensor to read.
///
/// Owner: the host, for the length of the call it is passed to.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct TensorView<'a> {
    data: *const u8,
    dtype: DType,
    device: DeviceRef,
    shape: RSlice<'a, u64>,
    strides: RSlice<'a, i64>,
    borrow: PhantomData<&'a u8>,
}

/// A tensor to write. No other view of a call overlaps it.
///
/// Owner: the host, for the length of the call it is passed to.
#[repr(C)]
#[derive(StableAbi, Debug)]
pub struct TensorViewMut<'a> {
    data: *mut u8,
    dtype: DType,
    device: DeviceRef,
    shape: RSlice<'a, u64>,
    strides: RSlice<'a, i64>,
    borrow: PhantomData<&'a mut u8>,
}

/// An element type that Rust code can access as a slice.
///
/// Sealed: implemented for `f32` and `u16`, whose every bit pattern is a value.
pub trait Element: Copy + sealed::Sealed + 'static {
    /// The element type's DLPack name.
    const DTYPE: DType;
}

impl Element for f32 {
    const DTYPE: DType = DType::F32;
}

impl Element for u16 {
    const DTYPE: DType = DType::U16;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for u16 {}
}

/// Elements of a contiguous tensor, or the reason why it is no slice of `T` in main memory.
fn checked_len<T: Element>(
    data: *const u8,
    dtype: DType,
    device: DeviceRef,
    shape: &[u64],
    strides: &[i64],
) -> Result<usize, PluginError> {
    if dtype != T::DTYPE {
        return Err(PluginError::new(
            ErrorKind::DTYPE,
            format!("tensor has element type {dtype:?}, the call needs {:?}", T::DTYPE),
        ));
    }
    if device != DeviceRef::CPU {
        return Err(PluginError::new(ErrorKind::DEVICE, "tensor is not in main memory"));
    }
    let mut len = 1u64;
    for (axis, &extent) in shape.iter().enumerate().rev() {
        let contiguous = strides.is_empty() || strides.get(axis) == Some(&(len as i64)) || extent <= 1;
        if !contiguous {
            return Err(PluginError::shape(format!("tensor of shape {shape:?} is not contiguous")));
        }
        len = len
            .checked_mul(extent)
            .filter(|len| *len <= isize::MAX as u64 / size_of::<T>() as u64)
            .ok_or_else(|| PluginError::shape(format!("shape {shape:?} is larger than memory")))?;
    }
    if len > 0 && (data.is_null() || !(data as usize).is_multiple_of(align_of::<T>())) {
        return Err(PluginError::shape("tensor data is null or not aligned to its element type"));
    }
    Ok(len as usize)
}

impl<'a> TensorView<'a> {
    /// A contiguous view of `data` with the given shape (row-major, extents in elements).
    ///
    /// # Errors
    /// [`ErrorKind::SHAPE`] if the shape's product is not `data.len()`.
    pub fn new<T: Element>(data: &'a [T], shape: &'a [u64]) -> Result<Self, PluginError> {
        check_product(shape, data.len())?;
        Ok(Self {
            data: data.as_ptr().cast(),
            dtype: T::DTYPE,
            device: DeviceRef::CPU,
            shape: RSlice::from_slice(shape),
            strides: RSlice::from_slice(&[]),
            borrow: PhantomData,
        })
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Extents in elements, outermost first.
    #[must_use]
    pub fn shape(&self) -> &'a [u64] {
        self.shape.as_slice()
    }

    /// The elements, row-major.
    ///
    /// # Errors
    /// [`ErrorKind::DTYPE`], [`ErrorKind::DEVICE`] or [`ErrorKind::SHAPE`] if the tensor is of another
    /// element type, elsewhere, or not contiguous and aligned.
    pub fn as_slice<T: Element>(&self) -> Result<&'a [T], PluginError> {
        let len = checked_len::<T>(
            self.data,
            self.dtype,
            self.device,
            self.shape.as_slice(),
            self.strides.as_slice(),
        )?;
        if len == 0 {
            return Ok(&[]);
        }
        // SAFETY: the host made this view of `len` live elements of `T` in main memory for `'a`
        // (its owner, borrowed for the call); dtype, alignment and non-null were checked above, and
        // every bit pattern of an `Element` is a value.
        Ok(unsafe { std::slice::from_raw_parts(self.data.cast(), len) })
    }
}

impl<'a> TensorViewMut<'a> {
    /// A contiguous view of `data` with the given shape (row-major, extents in elements).
    ///
    /// # Errors
    /// [`ErrorKind::SHAPE`] if the shape's product is not `data.len()`.
    pub fn new<T: Element>(data: &'a mut [T], shape: &'a [u64]) -> Result<Self, PluginError> {
        check_product(shape, data.len())?;
        Ok(Self {
            data: data.as_mut_ptr().cast(),
            dtype: T::DTYPE,
            device: DeviceRef::CPU,
            shape: RSlice::from_slice(shape),
            strides: RSlice::from_slice(&[]),
            borrow: PhantomData,
        })
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Extents in elements, outermost first.
    #[must_use]
    pub fn shape(&self) -> &'a [u64] {
        self.shape.as_slice()
    }

    /// The elements, row-major.
    ///
    /// # Errors
    /// As [`TensorView::as_slice`].
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], PluginError> {
        let len = checked_len::<T>(
            self.data,
            self.dtype,
            self.device,
            self.shape.as_slice(),
            self.strides.as_slice(),
        )?;
        if len == 0 {
            return Ok(&mut []);
        }
        // SAFETY: as in `TensorView::as_slice`; the view was made from a `&'a mut` borrow that no
        // other code holds during the call, and the slice borrows `self` mutably, so it is unique.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.data.cast(), len) })
    }
}

fn check_product(shape: &[u64], len: usize) -> Result<(), PluginError> {
    let product = shape.iter().try_fold(1u64, |product, &extent| product.checked_mul(extent));
    if product == Some(len as u64) {
        return Ok(());
    }
    Err(PluginError::shape(format!("shape {shape:?} does not describe {len} elements")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_read_back_as_what_it_was_made_of() {
        let data = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let view = TensorView::new(&data, &[2, 3]).unwrap();
        assert_eq!(view.as_slice::<f32>().unwrap(), data);
        assert_eq!(view.as_slice::<u16>().unwrap_err().kind, ErrorKind::DTYPE);
        assert_eq!(TensorView::new(&data, &[2, 2]).unwrap_err().kind, ErrorKind::SHAPE);
    }

    #[test]
    fn strides_that_skip_elements_are_refused() {
        let data = [1.0f32; 6];
        let mut view = TensorView::new(&data, &[2, 3]).unwrap();
        view.strides = RSlice::from_slice(&[3, 1]);
        assert_eq!(view.as_slice::<f32>().unwrap().len(), 6);
        view.strides = RSlice::from_slice(&[1, 2]);
        assert_eq!(view.as_slice::<f32>().unwrap_err().kind, ErrorKind::SHAPE);
    }

    #[test]
    fn empty_and_unaligned_and_foreign_tensors() {
        assert!(TensorView::new::<f32>(&[], &[0]).unwrap().as_slice::<f32>().unwrap().is_empty());
        let data = [0f32; 4];
        let mut view = TensorView::new(&data, &[4]).unwrap();
        view.data = view.data.wrapping_add(1);
        assert_eq!(view.as_slice::<f32>().unwrap_err().kind, ErrorKind::SHAPE);
        let mut view = TensorView::new(&data, &[4]).unwrap();
        view.device = DeviceRef { kind: 2, index: 0 };
        assert_eq!(view.as_slice::<f32>().unwrap_err().kind, ErrorKind::DEVICE);
    }
}

//! Tensors of a run's state in a file: held without copying, written as safetensors, read back and compared with the
//! expected shapes.
//!
//! On the CPU a held tensor shares its buffer with the training, which copies a buffer before it changes it while a
//! checkpoint holds it. On a GPU the training thread reads the tensors: reads by another thread would change the fusion
//! of its operations.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use altgrad_base::diagnostic::Diagnostic;
use burn::tensor::Tensor;
use safetensors::{
    Dtype, SafeTensorError, SafeTensors,
    tensor::{Metadata, TensorInfo},
};

use crate::{fused_ops, packed_ints::PackedInts, tensor};

/// The hint for tensors that do not fit.
pub const OTHER_RUN: &str = "is it of a run with the same model, optimizer and formats?";
/// Elements that are converted to bytes at once.
const PART: usize = 1 << 16;

/// The place of a tensor's elements.
#[derive(Debug, Clone)]
pub enum TensorElements {
    /// On the CPU, as a tensor: `[n]` f32.
    Shared(Box<Tensor<1>>),
    /// In main memory.
    F32(Arc<Vec<f32>>),
    /// Small whole numbers in main memory.
    U16(Arc<Vec<u16>>),
    /// Bits of bf16 in main memory.
    Bf16(Arc<Vec<u16>>),
    /// Codes in main memory.
    U8(Arc<Vec<u8>>),
}

impl TensorElements {
    /// The elements of a tensor `[n]`, to be written on any thread.
    ///
    /// # Errors
    /// The device failed.
    pub fn of(tensor: Tensor<1>) -> Result<Self, Diagnostic> {
        if fused_ops::is_available(&tensor.device()) {
            return Ok(Self::Shared(Box::new(tensor)));
        }
        Ok(Self::F32(Arc::new(tensor::read_f32(tensor)?)))
    }
}

impl From<&PackedInts> for TensorElements {
    /// Without a copy.
    fn from(numbers: &PackedInts) -> Self {
        match numbers {
            PackedInts::Bytes(numbers) => Self::U8(numbers.clone()),
            PackedInts::Words(numbers) => Self::U16(numbers.clone()),
        }
    }
}

/// A tensor with its name and shape.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its key in the file.
    pub name: String,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// The elements, row-major.
    pub values: TensorElements,
}

impl Entry {
    fn dtype(&self) -> Dtype {
        match self.values {
            TensorElements::Shared(_) | TensorElements::F32(_) => Dtype::F32,
            TensorElements::U16(_) => Dtype::U16,
            TensorElements::Bf16(_) => Dtype::BF16,
            TensorElements::U8(_) => Dtype::U8,
        }
    }

    fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype().bitsize() / 8
    }

    fn write(self, out: &mut impl Write) -> io::Result<()> {
        match self.values {
            TensorElements::Shared(tensor) => {
                let values = tensor::read_f32(*tensor).map_err(|error| io::Error::other(error.message))?;
                write_values(&values, f32::to_le_bytes, out)
            }
            TensorElements::F32(values) => write_values(&values, f32::to_le_bytes, out),
            TensorElements::U16(values) | TensorElements::Bf16(values) => {
                write_values(&values, u16::to_le_bytes, out)
            }
            TensorElements::U8(values) => out.write_all(&values),
        }
    }
}

fn write_values<T: Copy, const N: usize>(
    values: &[T],
    to_bytes: impl Fn(T) -> [u8; N],
    out: &mut impl Write,
) -> io::Result<()> {
    let mut buffer = vec![0; PART * N];
    for part in values.chunks(PART) {
        let bytes = &mut buffer[..part.len() * N];
        for (bytes, value) in bytes.as_chunks_mut().0.iter_mut().zip(part) {
            *bytes = to_bytes(*value);
        }
        out.write_all(bytes)?;
    }
    Ok(())
}

/// The key of a file's note in its metadata.
pub const NOTE: &str = "altgrad";

/// Writes tensors as a safetensors file; each is released as soon as it is written. The metadata have a `note`, if
/// there is one.
///
/// # Errors
/// `out` cannot be written, or the device failed.
pub fn write(mut entries: Vec<Entry>, note: Option<&str>, out: &mut impl Write) -> io::Result<()> {
    // Wide elements first, so that all are aligned; then by name. The library's own order.
    entries.sort_by(|a, b| b.dtype().cmp(&a.dtype()).then_with(|| a.name.cmp(&b.name)));
    let mut end = 0;
    let infos = entries.iter().map(|entry| {
        let start = end;
        end += entry.bytes();
        let info =
            TensorInfo { dtype: entry.dtype(), shape: entry.shape.clone(), data_offsets: (start, end) };
        (entry.name.clone(), info)
    });
    let tensors = serde_json::to_string(&Metadata::new(None, infos.collect()).map_err(io::Error::other)?)?;
    // The library writes metadata in an order of chance.
    let metadata: BTreeMap<_, _> =
        [("format", "pt")].into_iter().chain(note.map(|note| (NOTE, note))).collect();
    let separator = if entries.is_empty() { "" } else { "," };
    let metadata = serde_json::to_string(&metadata)?;
    let header = format!("{{\"__metadata__\":{metadata}{separator}{}", tensors.trim_start_matches('{'));
    let mut header = header.into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    entries.into_iter().try_for_each(|entry| entry.write(out))
}

/// A tensor file in memory, its header checked.
pub struct TensorFile<'a> {
    path: &'a Path,
    tensors: SafeTensors<'a>,
}

impl<'a> TensorFile<'a> {
    /// Reads the header of the file `bytes` came from.
    ///
    /// # Errors
    /// The file is not a safetensors file, or is truncated.
    pub fn parse(path: &'a Path, bytes: &'a [u8]) -> Result<Self, SafeTensorError> {
        Ok(Self { path, tensors: SafeTensors::deserialize(bytes)? })
    }

    /// The elements of a tensor; `None` if the file lacks it.
    ///
    /// # Errors
    /// The tensor has another type or shape.
    pub fn f32(&self, name: &str, shape: &[usize]) -> Result<Option<Vec<f32>>, Diagnostic> {
        let data = self.data(name, Dtype::F32, shape)?;
        Ok(data.map(|data| data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()))
    }

    /// The elements of a tensor of small whole numbers, of one byte each or of two; `None` if the file lacks it.
    ///
    /// # Errors
    /// As [`Self::f32`].
    pub fn packed_ints(&self, name: &str, shape: &[usize]) -> Result<Option<PackedInts>, Diagnostic> {
        if self.tensors.tensor(name).is_ok_and(|view| view.dtype() == Dtype::U8) {
            let data = self.data(name, Dtype::U8, shape)?;
            return Ok(data.map(|data| PackedInts::Bytes(Arc::new(data.to_vec()))));
        }
        let data = self.data(name, Dtype::U16, shape)?;
        let wide = |data: &[u8]| data.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
        Ok(data.map(|data| PackedInts::new(wide(data))))
    }

    fn data(&self, name: &str, dtype: Dtype, shape: &[usize]) -> Result<Option<&'a [u8]>, Diagnostic> {
        let Ok(view) = self.tensors.tensor(name) else { return Ok(None) };
        if view.dtype() == dtype && view.shape() == shape {
            return Ok(Some(view.data()));
        }
        let message = format!(
            "`{name}` is {:?} {:?} in the checkpoint, the run has {dtype:?} {shape:?}",
            view.dtype(),
            view.shape()
        );
        Err(Diagnostic::config(message).at(self.path.display()).hint(OTHER_RUN))
    }

    /// [`Self::f32`] of a tensor that must be there.
    ///
    /// # Errors
    /// The file lacks the tensor, or the tensor has another type or shape.
    pub fn required(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Diagnostic> {
        self.f32(name, shape)?.ok_or_else(|| self.lacks(name))
    }

    /// The bits of a bf16 tensor that must be there.
    ///
    /// # Errors
    /// As [`Self::required`].
    pub fn required_bf16(&self, name: &str, shape: &[usize]) -> Result<Vec<u16>, Diagnostic> {
        let data = self.data(name, Dtype::BF16, shape)?.ok_or_else(|| self.lacks(name))?;
        Ok(data.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect())
    }

    /// The codes of a tensor that must be there.
    ///
    /// # Errors
    /// As [`Self::required`].
    pub fn required_u8(&self, name: &str, shape: &[usize]) -> Result<Vec<u8>, Diagnostic> {
        Ok(self.data(name, Dtype::U8, shape)?.ok_or_else(|| self.lacks(name))?.to_vec())
    }

    fn lacks(&self, name: &str) -> Diagnostic {
        Diagnostic::config(format!("the checkpoint lacks `{name}`")).at(self.path.display()).hint(OTHER_RUN)
    }
}

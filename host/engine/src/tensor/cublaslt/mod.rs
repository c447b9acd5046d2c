//! Matrix products by NVIDIA's cuBLASLt, for processes that ask for it (`ALTGRAD_BLAS=cublaslt`).
//!
//! The library is loaded when the first product asks for it; without it the kernels of [`super::product_strategy`] and
//! [`super::fp32`] compute. For each shape cuBLASLt's heuristics choose an algorithm once. They depend on the library
//! and the device; sums that are split over terms are added in a step of their own. An algorithm must first compute a
//! product of whole numbers of the same shape and layout exactly.

#[allow(unsafe_code)]
mod ffi;
mod trial;

use std::{
    collections::BTreeMap,
    env,
    sync::{Arc, LazyLock},
};

use burn::backend::TensorMetadata as _;
use burn::tensor::DType;
use burn_cubecl::{kernel::matmul::init_matmul_output, tensor::CubeTensor};
use parking_lot::Mutex;

use super::product_shape::Problem;
use crate::device_faults::catch_panic;

/// The variable of the environment that asks for cuBLASLt.
const VARIABLE: &str = "ALTGRAD_BLAS";
/// Its only value.
const CUBLASLT: &str = "cublaslt";

/// True if the process is asked for cuBLASLt and can load it.
static IS_USED: LazyLock<bool> = LazyLock::new(|| {
    let Some(name) = env::var_os(VARIABLE) else { return false };
    let problem = match name == CUBLASLT {
        true if ffi::is_present() => return true,
        true => "libcublasLt cannot be loaded",
        false => "the only library is cublaslt",
    };
    tracing::warn!("{VARIABLE}={} has no effect: {problem}", name.display());
    false
});

/// What computes each product so far, `None` for the host's own kernels. A process computes on one GPU.
static PLANS: Mutex<BTreeMap<Call, Option<Arc<ffi::Plan>>>> = Mutex::new(BTreeMap::new());

/// The algorithms of the products so far, as text.
pub(crate) fn choices() -> BTreeMap<String, String> {
    let plans = PLANS.lock();
    plans.iter().filter_map(|(call, plan)| Some((call.to_string(), plan.as_ref()?.to_string()))).collect()
}

/// The product `a b` of two matrices of bf16 or f32, added in f32: f32. `None` if cuBLASLt is not asked for, or cannot
/// compute it.
pub(crate) fn matmul(a: &CubeTensor, b: &CubeTensor) -> Option<CubeTensor> {
    let is_cuda = a.client.properties().identity.fingerprint.starts_with("ptx_");
    if !is_cuda || !*IS_USED {
        return None;
    }
    let y = init_matmul_output(a, b, DType::F32);
    let call = Call::of(a, b, &y)?;
    let known = PLANS.lock().get(&call).cloned();
    let plan = known.unwrap_or_else(|| {
        let plan = catch_panic(|| {
            let plan = ffi::plan(&call, a)?;
            trial::check(&call, &plan, a)?;
            Ok(plan)
        });
        let plan =
            plan.map_err(|why| tracing::warn!("the product {call} is not computed by cuBLASLt: {why}"));
        PLANS.lock().entry(call).or_insert(plan.ok()).clone()
    });
    ffi::launch(&plan?, [a, b, &y]);
    Some(y)
}

/// A product by its memory: what cuBLASLt chooses an algorithm for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    problem: Problem,
    /// Elements from the beginning of a row, or of a column of a transposed factor, to the next; of the result last.
    leading: [usize; 3],
    /// Of the factors: bf16 or f32.
    is_bf16: bool,
}

impl Call {
    /// `None` for tensors of other types or ranks, and for views whose elements are not beside each other.
    fn of(a: &CubeTensor, b: &CubeTensor, y: &CubeTensor) -> Option<Self> {
        let is_bf16 = a.dtype == DType::BF16;
        let is_known = |x: &CubeTensor| x.dtype == a.dtype && x.shape().num_dims() == 2;
        if !is_known(a) || !is_known(b) || !(is_bf16 || a.dtype == DType::F32) {
            return None;
        }
        let ([m, k], [_, n]) = (a.shape().dims::<2>(), b.shape().dims::<2>());
        let layouts = [a, b, y].map(|x| layout(x.shape().dims(), [x.meta.strides()[0], x.meta.strides()[1]]));
        let [Some((a, a_leading)), Some((b, b_leading)), Some((false, y_leading))] = layouts else {
            return None;
        };
        let problem = Problem { sides: [m, n, k], transposed: [a, b] };
        Some(Self { problem, leading: [a_leading, b_leading, y_leading], is_bf16 })
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.problem, if self.is_bf16 { "" } else { " in f32" })
    }
}

/// Whether a matrix is stored by columns, and the elements from one row, or column, to the next. `None` if the elements
/// of neither are beside each other.
fn layout([rows, columns]: [usize; 2], [row, column]: [usize; 2]) -> Option<(bool, usize)> {
    let by_rows = (column == 1 || columns == 1) && (row >= columns || rows == 1);
    let by_columns = (row == 1 || rows == 1) && (column >= rows || columns == 1);
    match (by_rows, by_columns) {
        (true, _) => Some((false, row.max(columns))),
        (_, true) => Some((true, column.max(rows))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::layout;

    #[test]
    fn layouts_are_by_rows_or_by_columns() {
        assert_eq!(layout([3, 5], [8, 1]), Some((false, 8)));
        assert_eq!(layout([3, 5], [1, 4]), Some((true, 4)));
        assert_eq!(layout([1, 5], [1, 1]), Some((false, 5)));
        assert_eq!(layout([3, 1], [1, 3]), Some((false, 1)));
        // Every second element; one row for all.
        assert_eq!(layout([3, 5], [16, 2]), None);
        assert_eq!(layout([3, 5], [0, 1]), None);
    }
}

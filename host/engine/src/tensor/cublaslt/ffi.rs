//! The calls of cuBLASLt, on the stream of the tensor library.
//!
//! cuBLASLt's matrices are stored by columns. A matrix stored by rows is its transpose there, and `y = a b` is computed
//! as `y^T = b^T a^T`. Functions and constants: cuBLAS library documentation, "Using the cuBLASLt API".

use std::{
    ffi::c_void,
    fmt,
    ptr::{from_ref, null_mut},
    sync::{Arc, OnceLock},
};

use burn_cubecl::tensor::CubeTensor;
use cubecl::{
    cuda::CudaRuntime,
    device_handle::DeviceHandle,
    server::{BufferBinding, Handle, ServerError, ServerStorage as _},
};
use cubecl_environment::stream::StreamId;
use cubecl_runtime::{id::KernelId, runtime::Runtime};
use cubecl_server::stream::{ExecuteScope, WriteScoped as _};
use cudarc::cublaslt::{result, sys};

use super::Call;

type Server = <CudaRuntime as Runtime>::Server;

/// Bytes that an algorithm may use beside its matrices: what cuBLAS itself takes on an H100.
const MOST_WORKSPACE: usize = 32 << 20;
/// Bytes of which the address of every matrix is a multiple.
const ALIGNMENT: u32 = 16;

/// True if cuBLASLt can be loaded.
pub(super) fn is_present() -> bool {
    // SAFETY: it opens a library and closes it.
    unsafe { sys::is_culib_present() }
}

/// How a product is computed. Its objects are made once and never freed: there is one for each shape of a model.
#[derive(Debug)]
pub(super) struct Plan {
    library: sys::cublasLtHandle_t,
    product: sys::cublasLtMatmulDesc_t,
    /// Of `b`, `a` and `y`.
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace: Option<Handle>,
    workspace_bytes: usize,
    name: String,
}

// SAFETY: cuBLASLt's handle may be used by several threads at a time, and a plan's other objects are only read.
unsafe impl Send for Plan {}
// SAFETY: the same.
unsafe impl Sync for Plan {}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The algorithm for a product of tensors on the device of `x`.
///
/// # Errors
/// cuBLASLt has no algorithm.
pub(super) fn plan(call: &Call, x: &CubeTensor) -> Result<Arc<Plan>, String> {
    let (call, binding, stream) = (*call, x.handle.clone().binding(), StreamId::current());
    let mut plan = server(x)
        .submit_blocking(move |server| {
            // It makes the device's context that of the thread.
            server.get_resource(binding, stream).map_err(|error| error.to_string())?;
            choose(&call).map_err(|error| error.to_string())
        })
        .map_err(|error| format!("{error:?}"))??;
    if plan.workspace_bytes > 0 {
        static WORKSPACE: OnceLock<Handle> = OnceLock::new();
        plan.workspace = Some(WORKSPACE.get_or_init(|| x.client.empty(MOST_WORKSPACE)).clone());
    }
    Ok(Arc::new(plan))
}

fn server(x: &CubeTensor) -> DeviceHandle<Server> {
    DeviceHandle::new(x.device.to_id())
}

/// Asks the heuristics.
fn choose(call: &Call) -> Result<Plan, result::CublasError> {
    let [m, n, k] = call.problem.sides;
    let [a_transposed, b_transposed] = call.problem.transposed;
    let factor =
        if call.is_bf16 { sys::cudaDataType_t::CUDA_R_16BF } else { sys::cudaDataType_t::CUDA_R_32F };
    let float = sys::cudaDataType_t::CUDA_R_32F;
    let stored = |is_transposed: bool, rows: usize, columns: usize| {
        if is_transposed { [rows, columns] } else { [columns, rows] }
    };
    let matrices = [
        (factor, stored(b_transposed, k, n), call.leading[1]),
        (factor, stored(a_transposed, m, k), call.leading[0]),
        (float, [n, m], call.leading[2]),
    ];
    let mut layouts = [null_mut(); 3];
    for (layout, (element, [rows, columns], leading)) in layouts.iter_mut().zip(matrices) {
        *layout = result::create_matrix_layout(element, rows as u64, columns as u64, leading as i64)?;
    }
    let [b, a, y] = layouts;
    // Without TF32: factors of f32 are multiplied in f32.
    let product = result::create_matmul_desc(sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, float)?;
    // CUBLAS_OP_N and CUBLAS_OP_T.
    let operation = |is_transposed: bool| i32::from(is_transposed);
    use sys::cublasLtMatmulDescAttributes_t as Description;
    let operations = [
        (Description::CUBLASLT_MATMUL_DESC_TRANSA, operation(b_transposed)),
        (Description::CUBLASLT_MATMUL_DESC_TRANSB, operation(a_transposed)),
    ];
    for (attribute, value) in operations {
        // SAFETY: 32 bits, as these attributes have; copied.
        unsafe {
            result::set_matmul_desc_attribute(
                product,
                attribute,
                from_ref(&value).cast(),
                size_of_val(&value),
            )?
        };
    }
    let preference = result::create_matmul_pref()?;
    use sys::cublasLtMatmulPreferenceAttributes_t as Preference;
    // SAFETY: 64 bits of bytes, as the attribute has; copied.
    unsafe {
        let bytes = MOST_WORKSPACE as u64;
        let attribute = Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        result::set_matmul_pref_attribute(
            preference,
            attribute,
            from_ref(&bytes).cast(),
            size_of_val(&bytes),
        )?;
    }
    // Partial sums are stored in the workspace in f32, and added in a step of their own.
    let scheme = sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
    let words = [
        (Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, scheme),
        (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, ALIGNMENT),
        (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, ALIGNMENT),
        (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, ALIGNMENT),
        (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, ALIGNMENT),
    ];
    for (attribute, value) in words {
        // SAFETY: 32 bits, as these attributes have; copied.
        unsafe {
            result::set_matmul_pref_attribute(
                preference,
                attribute,
                from_ref(&value).cast(),
                size_of_val(&value),
            )?;
        }
    }
    let library = library()?;
    // SAFETY: all objects were made above and are not freed; the preference is not used after it is.
    let found = unsafe {
        let found = result::get_matmul_algo_heuristic(library, product, b, a, y, y, preference);
        result::destroy_matmul_pref(preference)?;
        found?
    };
    let name = name(&found.algo)?;
    let (algorithm, workspace_bytes) = (found.algo, found.workspaceSize);
    Ok(Plan { library, product, layouts, algorithm, workspace: None, workspace_bytes, name })
}

/// The library's state for the device, made once.
fn library() -> Result<sys::cublasLtHandle_t, result::CublasError> {
    struct Library(sys::cublasLtHandle_t);
    // SAFETY: it may be used by several threads at a time.
    unsafe impl Send for Library {}
    // SAFETY: the same.
    unsafe impl Sync for Library {}
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library.0);
    }
    let library = Library(result::create_handle()?);
    Ok(LIBRARY.get_or_init(|| library).0)
}

/// The version of the library and the numbers of the algorithm, which decide the order of sums.
fn name(algorithm: &sys::cublasLtMatmulAlgo_t) -> Result<String, result::CublasError> {
    use sys::cublasLtMatmulAlgoConfigAttributes_t as Attribute;
    let value = |attribute: Attribute| {
        let (mut value, mut written) = (0u32, 0usize);
        // SAFETY: all attributes that are asked for have 32 bits.
        let status = unsafe {
            let to = (&raw mut value).cast::<c_void>();
            sys::cublasLtMatmulAlgoConfigGetAttribute(
                algorithm,
                attribute,
                to,
                size_of_val(&value),
                &raw mut written,
            )
        };
        status.result().map(|()| value)
    };
    // SAFETY: it takes nothing and returns a number.
    let version = unsafe { sys::cublasLtGetVersion() };
    Ok(format!(
        "cuBLASLt {version}, algorithm {}, tile {}, stages {}, {} parts",
        value(Attribute::CUBLASLT_ALGO_CONFIG_ID)?,
        value(Attribute::CUBLASLT_ALGO_CONFIG_TILE_ID)?,
        value(Attribute::CUBLASLT_ALGO_CONFIG_STAGES_ID)?,
        value(Attribute::CUBLASLT_ALGO_CONFIG_SPLITK_NUM)?,
    ))
}

/// Queues the product `y = a b`, after the kernels that were launched before and before those that follow. A failure
/// is that of a kernel: a reading of `y` fails.
pub(super) fn launch(plan: &Arc<Plan>, matrices: [&CubeTensor; 3]) {
    let (plan, stream) = (Arc::clone(plan), StreamId::current());
    let bindings = matrices.map(|x| x.handle.clone().binding());
    server(matrices[0]).submit(move |server| {
        let mut written = server.write_set();
        written.push(bindings[2].clone());
        // Before the scope, in which `y` counts as not written.
        let addresses = addresses(server, &plan, &bindings, stream);
        let kernel = KernelId::new::<Plan>();
        let _ = ExecuteScope::launching(server, kernel, stream, bindings[..2].iter(), written)
            .execute(|server| queue(server, &plan, addresses?, stream));
    });
}

/// The addresses of the matrices and of the workspace.
fn addresses(
    server: &mut Server,
    plan: &Plan,
    matrices: &[BufferBinding; 3],
    stream: StreamId,
) -> Result<([u64; 3], u64), ServerError> {
    let mut address = |binding: BufferBinding| -> Result<u64, ServerError> {
        Ok(server.get_resource(binding, stream)?.resource().ptr)
    };
    let mut addresses = [0; 3];
    for (to, binding) in addresses.iter_mut().zip(matrices) {
        *to = address(binding.clone())?;
    }
    let workspace = plan.workspace.clone().map_or(Ok(0), |handle| address(handle.binding()))?;
    Ok((addresses, workspace))
}

fn queue(
    server: &mut Server,
    plan: &Plan,
    (addresses, workspace): ([u64; 3], u64),
    stream: StreamId,
) -> Result<(), ServerError> {
    let failed = |reason: String| ServerError::Generic { reason, backtrace: Default::default() };
    if let Some(address) = addresses.iter().find(|address| **address % u64::from(ALIGNMENT) != 0) {
        return Err(failed(format!("a matrix at {address:#x} is not aligned to {ALIGNMENT} bytes")));
    }
    let queued = server.write_streams().try_stream_mut(&stream).map(|stream| stream.sys);
    let queued = queued.ok_or_else(|| failed("a product has no stream".into()))?;
    let [a, b, y] = addresses.map(|address| address as *mut c_void);
    let (one, zero) = (1.0f32, 0.0f32);
    // SAFETY: the plan's objects live as long as the process. The addresses are those of buffers that the server keeps
    // until the work queued so far has ended; their layouts are those of the plan. Factors of f32 are on the host.
    let computed = unsafe {
        result::matmul(
            plan.library,
            plan.product,
            from_ref(&one).cast(),
            from_ref(&zero).cast(),
            b,
            plan.layouts[0],
            a,
            plan.layouts[1],
            y,
            plan.layouts[2],
            y,
            plan.layouts[2],
            &plan.algorithm,
            workspace as *mut c_void,
            plan.workspace_bytes,
            queued.cast(),
        )
    };
    computed.map_err(|error| failed(format!("cublasLtMatmul: {error}")))
}

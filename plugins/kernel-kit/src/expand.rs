//! From a kernel's definition to CUDA C++ or WGSL, without a device.

use std::sync::Arc;

use altgrad_plugin_api::{KernelLanguage, kernel::rules::UpdateRule};
use cubecl_core::{
    Compiler, CubeKernel,
    frontend::BufferCompilationArg,
    ir::{DeviceIdentity, DeviceProperties, HardwareProperties, MemoryDeviceProperties},
    prelude::*,
};
use cubecl_cpp::{
    shared::{CompilationOptions, CppCompiler, CppSupportedFeatures},
    target::Cuda,
};

use crate::{
    kernels,
    recipe::Recipe,
    rounder::{Mode, Rounder},
    tally::UNITS,
    update::{self, recipe::Update},
};

/// Largest vector a text is made for.
pub const MAX_VECTOR: usize = 4;

/// A text and the places of its arguments.
pub struct Expanded {
    /// Name of the entry function.
    pub entry: String,
    /// The text.
    pub source: String,
    /// Byte offsets of the scalars in the info block, in order.
    pub scalars: Vec<u32>,
    /// Byte offsets of the buffers' lengths, in order.
    pub lengths: Vec<u32>,
    /// Size of the info block in u64 words.
    pub info_words: u32,
    /// Shared memory a cube uses, bytes; it is declared in the text.
    pub shared_bytes: u32,
}

/// Compiles the definition of a kernel.
///
/// # Panics
/// If cubecl refuses it: this runs in no plugin, and the author needs the message.
#[must_use]
pub fn expand(recipe: &Recipe, definition: KernelDefinition, language: KernelLanguage) -> Expanded {
    let name = &recipe.name;
    assert!(!definition.info.has_dynamic_meta, "{name}: the ABI has no dynamic metadata");
    let entry = definition.settings.kernel_name.clone();
    let info_words = (definition.info.dynamic_meta_offset / 8) as u32;
    let (scalars, lengths) = offsets(recipe, &definition);
    let refused = |e: String| -> String { panic!("{name}: {e}") };
    let (source, shared_bytes) = if language == KernelLanguage::CUDA {
        match CppCompiler::<Cuda>::default().compile(definition, &cuda_options()) {
            Ok(text) => {
                (static_shared_memory(&text.to_string(), text.shared_memory_size), text.shared_memory_size)
            }
            Err(e) => (refused(e.to_string()), 0),
        }
    } else {
        match cubecl_wgpu::WgslCompiler.compile(definition, &Default::default()) {
            Ok(text) => (text.to_string(), text.shared_memory_size),
            Err(e) => (refused(e.to_string()), 0),
        }
    };
    Expanded { entry, source, scalars, lengths, info_words, shared_bytes: shared_bytes as u32 }
}

fn cuda_options() -> CompilationOptions {
    CompilationOptions {
        warp_size: 32,
        supports_features: CppSupportedFeatures { grid_constants: true, ..Default::default() },
        ..Default::default()
    }
}

/// Gives the shared array its size: cubecl leaves that to the launch, but a plugin's text must
/// contain it.
fn static_shared_memory(source: &str, bytes: usize) -> String {
    const DYNAMIC: &str = "extern __shared__ ";
    let found = source.matches(DYNAMIC).count();
    assert_eq!(found, usize::from(bytes > 0), "declarations of shared memory");
    let Some((before, declaration)) = source.split_once(DYNAMIC) else { return source.to_string() };
    let Some((name, after)) = declaration.split_once("[];") else {
        panic!("shared memory is declared with a size: {declaration:.80}");
    };
    format!("{before}__shared__ {name}[{bytes}];{after}")
}

/// The offsets at which cubecl puts each scalar and buffer length, from the definition itself.
fn offsets(recipe: &Recipe, definition: &KernelDefinition) -> (Vec<u32>, Vec<u32>) {
    let (info, name, count) = (&definition.info, &recipe.name, recipe.scalars.len());
    let first = match info.scalars.as_slice() {
        [] => 0,
        [group] => group.offset,
        groups => panic!("{name}: scalars of {} types", groups.len()),
    };
    assert_eq!(info.scalars.iter().map(|group| group.count).sum::<usize>(), count, "{name}: scalars");
    let scalars = (0..count).map(|i| (first + 4 * i) as u32).collect();
    let Some(lengths) = info.sized_meta else { panic!("{name}: buffers have no lengths") };
    let lengths =
        (0..recipe.buffers.len()).map(|i| (lengths.offset + 4 * info.buffer_len_index(i)) as u32).collect();
    (scalars, lengths)
}

/// The arguments of a kernel's constructor for a buffer and for a scalar: empty.
macro_rules! argument {
    (buffer) => {
        BufferCompilationArg { inplace: None }
    };
    (scalar) => {
        ()
    };
}

/// The definition of a kernel from the kinds of its arguments.
macro_rules! define {
    ($kernel:path: $($argument:ident)*; $($comptime:expr),*; $($format:ty)?) => {{
        use $kernel as Kernel;
        let dim = CubeDim::new_1d(UNITS);
        let settings = KernelSettings::new(dim.into(), ExecutionMode::Checked, AddressType::U32);
        let (device, target) = (Arc::new(properties()), Arc::new(TargetProperties::default()));
        Kernel$(::<$format>)?::new(settings, device, target, $(argument!($argument)),*, $($comptime),*).define()
    }};
}

/// The definition of a format's kernel.
#[rustfmt::skip] // One line an argument would hide the kernel.
pub fn fake_quant<R: Rounder>(mode: Mode, vector: usize) -> KernelDefinition {
    if mode == Mode::Stochastic {
        return define!(kernels::fake_quant_random::FakeQuantRandom: buffer buffer buffer buffer buffer buffer
            scalar scalar scalar scalar scalar scalar scalar scalar scalar scalar scalar; vector; R);
    }
    define!(kernels::fake_quant::FakeQuant: buffer buffer buffer buffer buffer
        scalar scalar scalar scalar scalar scalar scalar scalar scalar scalar scalar scalar; vector, mode; R)
}

/// The definition of an update's kernel.
#[rustfmt::skip] // As above.
pub fn update(kernel: Update, vector: usize) -> KernelDefinition {
    match kernel {
        Update::Step(UpdateRule::Plain) => define!(update::plain_step::PlainStep: buffer buffer buffer buffer
            scalar scalar scalar scalar scalar scalar scalar scalar; vector;),
        Update::Step(UpdateRule::Power) => define!(update::power_step::PowerStep: buffer buffer buffer buffer buffer buffer
            scalar scalar scalar scalar scalar scalar scalar
            scalar scalar scalar scalar scalar scalar scalar scalar scalar scalar scalar scalar; vector;),
        Update::Step(rule) => define!(update::step::Step: buffer buffer buffer buffer buffer
            scalar scalar scalar scalar scalar scalar scalar
            scalar scalar scalar scalar scalar scalar scalar scalar scalar scalar scalar scalar; vector, rule;),
        Update::Prepare => define!(update::prepare::Prepare: buffer buffer buffer
            scalar scalar scalar scalar scalar scalar scalar; vector;),
    }
}

/// A hypothetical device with the features of every supported GPU.
fn properties() -> DeviceProperties {
    let mut properties = DeviceProperties::new(
        Default::default(),
        MemoryDeviceProperties::new(1 << 30, 256),
        HardwareProperties {
            load_width: 128,
            vector_register_count: None,
            plane_size_min: 32,
            plane_size_max: 32,
            max_bindings: 16,
            max_shared_memory_size: 16 << 10,
            max_cube_count: (65_535, 65_535, 65_535),
            max_units_per_cube: UNITS,
            max_cube_dim: (UNITS, UNITS, 64),
            num_streaming_multiprocessors: None,
            num_cpu_cores: None,
            last_level_cache_size: None,
            num_tensor_cores: None,
            min_tensor_cores_dim: None,
            max_vector_size: MAX_VECTOR,
            cube_mma_reserved_shared_memory: 0,
        },
        cubecl_common::profile::TimingMethod::System,
        DeviceIdentity { name: "offline".into(), fingerprint: "offline".into(), physical: None },
    );
    cubecl_cpp::register_supported_types(&mut properties);
    properties.register_address_type(AddressType::U32);
    properties
}

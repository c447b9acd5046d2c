//! Kernel texts of plugins, launched on the tensor library's own device client.
//!
//! CUDA compiles CUDA C++, wgpu compiles WGSL. The text's recipe lists its buffers and the content of its info block;
//! no type of the tensor library crosses to the plugin.

use std::{collections::BTreeSet, sync::Arc};

use altgrad_plugin_api::{
    BufferRole, ErrorKind, KernelBuffer, KernelLanguage, KernelTarget, KernelText, PluginError,
};
use burn::backend::{Backend, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{Shape, TensorData};
use burn_cubecl::tensor::CubeTensor;
use cubecl::{
    CubeKernel, PrecompiledSource,
    client::Client,
    ir::{UIntKind, metadata::Info},
    prelude::*,
    server::{Handle, KernelArguments, MetadataBindingInfo},
};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::kernel_limits::{accepted, declarable};

/// Elements per cube up to [`MAX_CUBES`] cubes; more elements are strided.
const ELEMENTS_PER_CUBE: usize = 1024;
/// Enough to fill the largest GPUs, and few enough that one partial sum per cube is cheap to read back.
const MAX_CUBES: usize = 1024;

/// A kernel whose text came from a plugin.
#[derive(Debug, Clone)]
pub struct PluginKernel {
    /// The text and its recipe.
    pub text: Arc<KernelText>,
    digest: [u8; 32],
    /// `plugin::ENTRY`.
    name: &'static str,
}

impl KernelMetadata for PluginKernel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn id(&self) -> KernelId {
        KernelId::new::<Self>().cube_dim(dim(&self.text).into()).info(self.digest)
    }

    fn address_type(&self) -> ElemType {
        UIntKind::U32.into()
    }
}

impl CubeKernel for PluginKernel {
    /// Empty: the text replaces the definition's compilation.
    fn define(&self) -> KernelDefinition {
        let settings = KernelSettings::new(dim(&self.text).into(), ExecutionMode::Checked, AddressType::U32);
        KernelDefinition { body: Scope::root(settings.clone()), settings, info: Info::default() }
    }

    fn source(&self) -> Option<PrecompiledSource> {
        let lang = if self.text.language == KernelLanguage::CUDA { "cuda" } else { "wgsl" };
        let source = self.text.source.to_string();
        Some(PrecompiledSource { source, entrypoint_name: self.text.entry.to_string(), lang })
    }
}

fn dim(text: &KernelText) -> CubeDim {
    let [x, y, z] = text.cube_dim;
    CubeDim::new_3d(x, y, z)
}

impl PluginKernel {
    /// The kernel of a text.
    #[must_use]
    pub fn new(text: KernelText) -> Self {
        let digest = Sha256::digest(text.source.as_bytes()).into();
        let name = lasting(format!("plugin::{}", text.entry));
        Self { text: Arc::new(text), digest, name }
    }

    /// True if the text has a buffer of that role.
    #[must_use]
    pub fn has(&self, role: BufferRole) -> bool {
        self.text.buffers.iter().any(|buffer| buffer.role == role)
    }

    /// Launches the text with its buffers.
    ///
    /// # Errors
    /// `UNSUPPORTED`: it requires a buffer or scalar that does not exist, or a buffer has more elements than texts
    /// accept.
    pub fn launch<'a>(
        &self,
        client: &Client,
        cubes: usize,
        scalars: &[u32],
        buffer: impl Fn(&KernelBuffer) -> Option<&'a CubeTensor>,
    ) -> Result<(), PluginError> {
        let (mut arguments, mut lens) = (KernelArguments::new(), Vec::with_capacity(self.text.buffers.len()));
        for wanted in &self.text.buffers {
            let tensor = buffer(wanted).ok_or_else(|| {
                let message = format!("kernel `{}` wants an unknown buffer: {wanted:?}", self.text.entry);
                PluginError::new(ErrorKind::UNSUPPORTED, message)
            })?;
            let handle: &Handle = &tensor.handle;
            let io = match (wanted.reads, wanted.writes) {
                (_, false) => BufferIOAttr::ReadOnly,
                (false, true) => BufferIOAttr::WriteOnly,
                (true, true) => BufferIOAttr::ReadWrite,
            };
            lens.push(accepted(&self.text.entry, tensor.shape().num_elements())?);
            arguments = arguments.with_buffer_io(handle.clone().binding(), io);
        }
        let info = self.text.pack_info(scalars, &lens)?;
        let words = info.len();
        let arguments = arguments.with_info(MetadataBindingInfo::new(info, words));
        client.launch(Box::new(self.clone()), CubeCount::new_1d(cubes as u32), arguments);
        Ok(())
    }
}

/// A name that lasts as long as the process, as the tensor library requires; each is kept once.
fn lasting(name: String) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock();
    if let Some(&known) = names.get(name.as_str()) {
        return known;
    }
    let name: &'static str = name.leak();
    names.insert(name);
    name
}

/// The language and features of a device's kernels; `None` for a device without kernel texts.
#[must_use]
pub fn target(client: &Client) -> Option<KernelTarget> {
    let properties = client.properties();
    let (language, architecture) = match properties.identity.fingerprint.strip_prefix("ptx_sm") {
        Some(number) => (KernelLanguage::CUDA, number.trim_start_matches('_').parse().ok()?),
        None if client.name().starts_with("wgpu") => (KernelLanguage::WGSL, 0),
        None => return None,
    };
    let hardware = &properties.hardware;
    let shared_bytes = hardware.max_shared_memory_size as u32;
    Some(KernelTarget {
        language,
        architecture,
        vector: 1,
        plane: [hardware.plane_size_min, hardware.plane_size_max],
        max_units_per_cube: hardware.max_units_per_cube,
        max_shared_bytes: declarable(language, shared_bytes),
    })
}

/// Cubes of a launch over some elements.
#[must_use]
pub fn cubes(elements: usize) -> usize {
    elements.div_ceil(ELEMENTS_PER_CUBE).clamp(1, MAX_CUBES)
}

/// A tensor of these elements.
#[must_use]
pub fn upload<B: Backend>(device: &B::Device, shape: Shape, values: Vec<f32>) -> FloatTensor<B> {
    B::float_from_data(TensorData::new(values, shape), device)
}

/// The elements of a tensor.
///
/// # Errors
/// The device's error.
pub fn download<B: Backend>(tensor: FloatTensor<B>) -> Result<Vec<f32>, String> {
    let data = burn::tensor::read_sync(B::float_into_data(tensor)).map_err(|error| error.to_string())?;
    data.try_into_vec::<f32>().map_err(|error| format!("{error:?}"))
}

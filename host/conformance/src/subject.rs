//! The subject of the checks: a format with its options, as a descriptor and a constructor of instances.

use std::fmt;

use altgrad_plugin_api::{
    Config, ConfigValue, Conventions, Descriptor, ErrorKind, Format, FormatSpec, KernelOp, KernelTarget,
    KernelText, PluginError, QuantParams, QuantStats, Rounding, Scales, TensorView, TensorViewMut,
    abi::{
        FormatObject,
        stable::std_types::{ROption, RResult, RSliceMut},
    },
    adapters, format_config,
};

use crate::{allowed_values::allowed_values, oracle::Oracle};

/// Options by name.
pub(crate) type Given = Vec<(String, ConfigValue)>;

/// The constructor of a format, as the host has it.
type Make = dyn Fn(&Config) -> Result<FormatObject, PluginError> + Send + Sync;

/// A format with its options.
pub struct Subject {
    name: String,
    descriptor: Descriptor,
    config: Config,
    make: Box<Make>,
    /// The first seed of random calls.
    pub(crate) seed: u64,
}

/// Implemented by hand: a constructor has no `Debug`.
impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Names of a format in a run file: bare, then with each declared choice and limit of each option, one at a time.
#[must_use]
pub fn subject_names(descriptor: &Descriptor) -> Vec<String> {
    let id = descriptor.id.as_str();
    let named = descriptor.options.iter().flat_map(|option| {
        // The variant's default may be a choice that has a name too.
        let is_other =
            |value: &ConfigValue| option.name == "variant" || *value != ConfigValue::from(option.default);
        let texts = allowed_values(option).into_iter().filter(is_other).map(written);
        let texts = texts.filter(|text| option.name != "variant" || !text.is_empty());
        texts.map(|text| match option.name.as_str() {
            "variant" => format!("{id}:{text}"),
            name => format!("{id}:{name}={text}"),
        })
    });
    std::iter::once(id.to_string()).chain(named).collect()
}

/// A value as a format's name has it.
fn written(value: ConfigValue) -> String {
    match value {
        ConfigValue::Bool(value) => value.to_string(),
        ConfigValue::Integer(value) => value.to_string(),
        ConfigValue::Float(value) => value.to_string(),
        ConfigValue::Text(text) => text.into_string(),
        ConfigValue::TextList(texts) => format!("{texts:?}"),
    }
}

impl Subject {
    /// The format that a run file names `name`, made by `make`.
    ///
    /// # Errors
    /// The descriptor has no such option, or the value is not allowed.
    pub fn new(
        descriptor: Descriptor,
        name: &str,
        make: impl Fn(&Config) -> Result<FormatObject, PluginError> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let config = format_config(&descriptor.options, name)
            .map_err(|fault| format!("`{name}`: `{}` {}", fault.key, fault.message))?;
        Ok(Self { name: name.to_string(), descriptor, config, make: Box::new(make), seed: 0 })
    }

    /// The same; random checks begin with `seed`.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// A format type of this crate with each choice of its options that its constructor takes.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn all_of<F: Format>() -> Result<Vec<Self>, String> {
        let descriptor = F::DESCRIPTOR;
        subject_names(&descriptor)
            .iter()
            .map(|name| Self::new(descriptor, name, adapters::format_object::<F>))
            .filter(|subject| subject.as_ref().map_or(true, |subject| subject.refused_limit().is_none()))
            .collect()
    }

    /// The plugin's reason to refuse the options that the name gives, which it may because of the others: `None` if it
    /// takes them, for a bare name and for a variant. The check `options` judges constructors.
    #[must_use]
    pub fn refused_limit(&self) -> Option<String> {
        let refused = self.name.contains('=').then(|| self.try_out().err())??;
        (refused.kind == ErrorKind::CONFIG).then(|| refused.message.into())
    }

    /// The name in a run file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The plugin's descriptor.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// A new instance with options of the caller's.
    ///
    /// # Errors
    /// The plugin's own error.
    pub fn make(&self, config: &Config) -> Result<Instance, PluginError> {
        (self.make)(config).map(|object| Instance { object })
    }

    /// Makes an instance and drops it.
    ///
    /// # Errors
    /// The plugin's own error.
    pub fn try_out(&self) -> Result<(), PluginError> {
        self.make(&self.config).map(drop)
    }

    /// A new instance.
    ///
    /// # Errors
    /// The plugin refuses the construction, in one sentence.
    pub fn instance(&self) -> Result<Instance, String> {
        self.make(&self.config).map_err(|error| said("new", &error))
    }

    /// A new instance and the slow definition of its required results.
    ///
    /// # Errors
    /// The instance cannot be made, or describes an impossible format.
    pub fn instance_and_oracle(&self) -> Result<(Instance, Oracle), String> {
        let instance = self.instance()?;
        let spec = instance.spec().map_err(|error| said("spec", &error))?;
        let conventions = instance.conventions()?;
        Ok((instance, Oracle::new(&spec)?.turning_at(&conventions.thresholds)?))
    }
}

/// A failed call in one sentence.
pub(crate) fn said(call: &str, error: &PluginError) -> String {
    format!("`{call}` failed: {}", error.message)
}

/// An instance, called with plain slices.
pub struct Instance {
    object: FormatObject,
}

/// Implemented by hand: the object that crosses has no `Debug`.
impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").finish_non_exhaustive()
    }
}

fn shape<T>(data: &[T]) -> [u64; 1] {
    [data.len() as u64]
}

/// The result of a call; the error is the plugin's.
type Called<T> = Result<T, PluginError>;

impl Instance {
    /// The object that crosses, for calls with views of the caller's.
    pub(crate) fn object(&self) -> &FormatObject {
        &self.object
    }

    /// [`Format::spec`].
    ///
    /// # Errors
    /// The plugin's own error.
    pub fn spec(&self) -> Called<FormatSpec> {
        self.object.spec().into_result()
    }

    /// [`Format::conventions`].
    ///
    /// # Errors
    /// The call failed, in one sentence.
    pub(crate) fn conventions(&self) -> Result<Conventions, String> {
        self.object.conventions().into_result().map_err(|error| said("conventions", &error))
    }

    /// [`Format::fake_quant`].
    ///
    /// # Errors
    /// The plugin's own error, or the lengths are impossible.
    pub fn fake_quant(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams<'_>,
        histogram: &mut [u64],
    ) -> Called<QuantStats> {
        let (src_shape, dst_shape) = (shape(src), shape(dst));
        let (src, dst) = (TensorView::new(src, &src_shape)?, TensorViewMut::new(dst, &dst_shape)?);
        self.object.fake_quant(src, dst, params, RSliceMut::from_mut_slice(histogram)).into_result()
    }

    /// [`Format::encode`].
    ///
    /// # Errors
    /// The plugin's own error, or the lengths are impossible.
    pub fn encode(&self, src: &[f32], dst: &mut [u16], params: &QuantParams<'_>) -> Called<()> {
        let (src_shape, dst_shape) = (shape(src), shape(dst));
        let (src, dst) = (TensorView::new(src, &src_shape)?, TensorViewMut::new(dst, &dst_shape)?);
        self.object.encode(src, dst, params).into_result()
    }

    /// [`Format::decode`].
    ///
    /// # Errors
    /// The plugin's own error, or the lengths are impossible.
    pub fn decode(&self, codes: &[u16], dst: &mut [f32], scales: &Scales<'_>) -> Called<()> {
        let (src_shape, dst_shape) = (shape(codes), shape(dst));
        let (codes, dst) = (TensorView::new(codes, &src_shape)?, TensorViewMut::new(dst, &dst_shape)?);
        self.object.decode(codes, dst, scales).into_result()
    }

    /// [`Format::magnitude`].
    ///
    /// # Errors
    /// The plugin's own error, or the length is impossible.
    pub fn magnitude(&self, block: &[f32]) -> Called<f32> {
        let shape = shape(block);
        self.object.magnitude(TensorView::new(block, &shape)?).into_result()
    }

    /// [`Format::kernel`].
    ///
    /// # Errors
    /// The plugin's own error.
    pub fn kernel(&self, op: KernelOp, target: &KernelTarget) -> Called<Option<KernelText>> {
        let text: RResult<ROption<KernelText>, PluginError> = self.object.kernel(op, target);
        text.into_result().map(ROption::into_option)
    }

    /// Rounded values and statistics of a slice.
    pub(crate) fn quantized(
        &self,
        src: &[f32],
        params: &QuantParams<'_>,
    ) -> Result<(Vec<f32>, QuantStats), String> {
        let mut dst = vec![UNWRITTEN; src.len()];
        let stats =
            self.fake_quant(src, &mut dst, params, &mut []).map_err(|error| said("fake_quant", &error))?;
        Ok((dst, stats))
    }

    /// Codes of a slice.
    pub(crate) fn encoded(&self, src: &[f32], params: &QuantParams<'_>) -> Result<Vec<u16>, String> {
        let mut codes = vec![u16::MAX; src.len()];
        self.encode(src, &mut codes, params).map_err(|error| said("encode", &error))?;
        Ok(codes)
    }

    /// Values of codes, unscaled.
    pub(crate) fn decoded(&self, codes: &[u16]) -> Result<Vec<f32>, String> {
        let mut values = vec![UNWRITTEN; codes.len()];
        self.decode(codes, &mut values, &Scales::ONE).map_err(|error| said("decode", &error))?;
        Ok(values)
    }

    /// Returns whether the format supports this rounding mode.
    ///
    /// # Errors
    /// The call fails with another error than an unsupported mode, or refuses nearest-even.
    pub(crate) fn supports(&self, rounding: Rounding) -> Result<bool, String> {
        let params = QuantParams { rounding, ..QuantParams::IDENTITY };
        match self.fake_quant(&[1.0], &mut [UNWRITTEN], &params, &mut []) {
            Ok(_) => Ok(true),
            Err(error) if error.kind == ErrorKind::UNSUPPORTED && rounding != Rounding::NEAREST_EVEN => {
                Ok(false)
            }
            Err(error) => Err(said("fake_quant", &error)),
        }
    }

    /// The modes the format has.
    pub(crate) fn modes(&self) -> Result<Vec<Rounding>, String> {
        let mut modes = Vec::new();
        for rounding in Rounding::ALL {
            if self.supports(rounding)? {
                modes.push(rounding);
            }
        }
        Ok(modes)
    }

    /// The modes of the format that use no randomness.
    pub(crate) fn deterministic_modes(&self) -> Result<Vec<Rounding>, String> {
        Ok(self.modes()?.into_iter().filter(|&mode| mode != Rounding::STOCHASTIC).collect())
    }
}

/// The content of destinations before a call: no format rounds anything to it.
pub(crate) const UNWRITTEN: f32 = f32::from_bits(0x7fa5_5a5a);

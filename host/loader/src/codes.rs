//! A format's codes and values: encode, decode, and the geometry its description implies; the magnitudes that it gives
//! blocks; its kernels as text.

use altgrad_base::diagnostic::{Diagnostic, Fault};
use altgrad_plugin_api::{
    ErrorKind, KernelOp, KernelTarget, KernelText, PluginError, QuantParams, Scales, TensorView,
    TensorViewMut, ValueGrid,
};

use super::{FormatPlugin, calls::Call};
impl FormatPlugin {
    /// The format's values and their geometry, derived from its description.
    ///
    /// # Errors
    /// [`Fault::Plugin`]: the description is impossible.
    pub fn values(&self) -> Result<ValueGrid, Diagnostic> {
        ValueGrid::new(&self.spec).map_err(|error| self.identity.failure(Fault::Plugin, &error))
    }

    /// The plugin's own value of every code, in code order; `values` gives their number.
    ///
    /// # Errors
    /// [`Fault::Run`]: the plugin failed.
    pub fn decode_all(&self, values: &ValueGrid) -> Result<Vec<f32>, Diagnostic> {
        let codes: Vec<u16> = (0..values.codes()).map(|code| code as u16).collect();
        let mut decoded = vec![0.0; codes.len()];
        self.decode(&codes, &mut decoded, &Scales::ONE)?;
        Ok(decoded)
    }

    /// The magnitude of a block that its scale maps to the target; see [`altgrad_plugin_api::Format::magnitude`].
    ///
    /// # Errors
    /// [`Fault::Run`]: the plugin failed, or its result is impossible.
    pub fn magnitude(&self, values: &[f32]) -> Result<f32, Diagnostic> {
        let shape = [values.len() as u64];
        let call = || -> Result<f32, PluginError> {
            let block = TensorView::new(values, &shape)?;
            let found = self.object.call(Call::Magnitude, |object| object.magnitude(block)).into_result()?;
            let has_numbers = || values.iter().any(|x| *x != 0.0 && x.is_finite());
            if found.is_finite() && (found > 0.0 || found == 0.0 && !has_numbers()) {
                return Ok(found);
            }
            let message = format!("its magnitude of a block is {found}, not a finite number above 0");
            Err(PluginError::new(ErrorKind::VALUE, message))
        };
        call().map_err(|error| self.identity.failure(Fault::Run, &error))
    }

    /// The value of every code, times the inverse of its block's scale; `dst` is as long as `codes`.
    ///
    /// # Errors
    /// [`Fault::Run`]: a code beyond the last, or the plugin failed.
    pub fn decode(&self, codes: &[u16], dst: &mut [f32], scales: &Scales<'_>) -> Result<(), Diagnostic> {
        let shape = [codes.len() as u64];
        let mut call = || -> Result<(), PluginError> {
            let (codes, dst) = (TensorView::new(codes, &shape)?, TensorViewMut::new(dst, &shape)?);
            self.object.call(Call::Decode, |object| object.decode(codes, dst, scales)).into_result()
        };
        call().map_err(|error| self.identity.failure(Fault::Run, &error))
    }

    /// The code of every element of `src`, rounded by `params`.
    ///
    /// # Errors
    /// [`Fault::Run`]: NaN in a format without NaN, or the plugin failed.
    pub fn encode(&self, src: &[f32], params: &QuantParams<'_>) -> Result<Vec<u16>, Diagnostic> {
        let mut codes = vec![0; src.len()];
        self.encode_into(src, &mut codes, params)?;
        Ok(codes)
    }

    /// [`Self::encode`] into `codes`, as long as `src`.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_into(
        &self,
        src: &[f32],
        codes: &mut [u16],
        params: &QuantParams<'_>,
    ) -> Result<(), Diagnostic> {
        let shape = [src.len() as u64];
        let mut call = || -> Result<(), PluginError> {
            let (src, codes) = (TensorView::new(src, &shape)?, TensorViewMut::new(codes, &shape)?);
            self.object.call(Call::Encode, |object| object.encode(src, codes, params)).into_result()
        };
        call().map_err(|error| self.identity.failure(Fault::Run, &error))
    }

    /// The text of a device kernel, if the plugin has one.
    ///
    /// # Errors
    /// The plugin's error.
    pub fn kernel(&self, op: KernelOp, target: &KernelTarget) -> Result<Option<KernelText>, PluginError> {
        self.object.call(Call::Kernel, |object| object.kernel(op, target)).into_result().map(Into::into)
    }
}

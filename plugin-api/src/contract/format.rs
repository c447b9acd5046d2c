//! The format contract: a number format of up to 16 bits per code.
//!
//! Definitions (rounding, special values, spacing, code coordinate) follow the project's numerics page; each method
//! names the ones it needs. Calls come from any thread, several at a time on disjoint parts of one tensor, so a format
//! keeps no mutable state.

use crate::{
    Config, Conventions, Descriptor, FormatSpec, KernelOp, KernelTarget, KernelText, PluginError,
    QuantParams, QuantStats, Scales,
};

/// A number format.
///
/// Threads: `[any-thread]`; the host may call one instance from several threads at once.
/// A method that panics poisons its instance: every later call fails without reaching the plugin.
pub trait Format: Send + Sync + Sized + 'static {
    /// Name, version, options.
    ///
    /// A run file sets options in the name of the format: `NAME:KEY=VALUE,KEY=VALUE`. `NAME:TEXT` sets the text option
    /// `variant`.
    const DESCRIPTOR: Descriptor;

    /// Makes an instance from complete, range-checked options. `[main-thread]`
    ///
    /// # Errors
    /// If an option value is invalid although its declared type, range and choices allow it.
    fn new(config: &Config) -> Result<Self, PluginError>;

    /// The values of the codes. `[main-thread]`
    fn spec(&self) -> FormatSpec;

    /// The target of scales, the thresholds of rounding to nearest, and the tables and magnitudes of blocks. The host
    /// derives all else from them; the functions below round to the values of [`Self::spec`]. `[main-thread]`
    ///
    /// The default suits formats with the same precision over their range: amax becomes the largest value, and rounding
    /// to nearest uses midpoints.
    fn conventions(&self) -> Conventions {
        Conventions::default()
    }

    /// For a format that declares [`Conventions::has_magnitude`]: the magnitude of a block that its scale maps to the
    /// target, in place of the largest. Elements beyond it saturate.
    ///
    /// The result is finite and at least 0; it is above 0 if an element is finite and not 0. NaN and infinities among
    /// the elements count for nothing. Shape: `block` `[n]` f32, n above 0, in the order of the block's lines; borrowed
    /// for the call. `[any-thread]`
    ///
    /// # Errors
    /// The reason why there is no magnitude: the run ends.
    fn magnitude(&self, block: &[f32]) -> Result<f32, PluginError> {
        let _ = block;
        Err(PluginError::unsupported("it has no magnitude of blocks"))
    }

    /// Rounds `src` to the format's grid and writes real values (not codes) to `dst`:
    /// `dst[i] = round(src[i] * scale) * inverse`, two f32 multiplications by the scale of the element's block and its
    /// inverse.
    ///
    /// NaN stays NaN and is counted. ±Inf and values beyond the largest finite code saturate; more than
    /// [two ULPs](crate::format::OVERFLOW_ULPS) beyond it they count as overflow. A value that rounds to zero keeps its
    /// sign. `histogram`, if not empty, has 2^bits counters, one per code; counts are added to them. Shapes: `src`,
    /// `dst` `[n]` f32, disjoint; borrowed for the call. `[any-thread]`
    ///
    /// # Errors
    /// [`ErrorKind::UNSUPPORTED`](crate::ErrorKind::UNSUPPORTED) for a rounding mode that is unsupported or unknown.
    fn fake_quant(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams<'_>,
        histogram: &mut [u64],
    ) -> Result<QuantStats, PluginError>;

    /// Rounds `src` and writes codes: `dst[i] = code(round(src[i] * scale))`, with the scale of the element's block.
    ///
    /// Shapes: `src` `[n]` f32, `dst` `[n]`; borrowed for the call. `[any-thread]`
    ///
    /// # Errors
    /// [`ErrorKind::VALUE`](crate::ErrorKind::VALUE) for NaN in a format without NaN.
    /// [`ErrorKind::UNSUPPORTED`](crate::ErrorKind::UNSUPPORTED) for a rounding mode that is unsupported or unknown.
    fn encode(&self, src: &[f32], dst: &mut [u16], params: &QuantParams<'_>) -> Result<(), PluginError>;

    /// Writes the values of codes: `dst[i] = value(codes[i]) * inverse`, with the inverse scale of the element's block.
    ///
    /// Shapes: `codes`, `dst` `[n]`; borrowed for the call. `[any-thread]`
    ///
    /// # Errors
    /// [`ErrorKind::VALUE`](crate::ErrorKind::VALUE) for a code of 2^bits or more.
    fn decode(&self, codes: &[u16], dst: &mut [f32], scales: &Scales<'_>) -> Result<(), PluginError>;

    /// The text of a device kernel, or `None` if there is none for this operation and target; the
    /// host then moves the tensor to main memory and uses the functions above. `[main-thread]`
    ///
    /// # Errors
    /// The reason why an existing kernel cannot be returned.
    fn kernel(&self, op: KernelOp, target: &KernelTarget) -> Result<Option<KernelText>, PluginError> {
        let _ = (op, target);
        Ok(None)
    }
}

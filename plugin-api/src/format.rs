//! The format contract: a number format of up to 16 bits a code.
//!
//! Definitions (rounding, special values, spacing, code coordinate) follow the project's
//! numerics page; each method names what it needs of them. Calls come from any thread, several at a
//! time on disjoint parts of one tensor, so a format keeps no mutable state.

use abi_stable::{StableAbi, std_types::RVec};

use crate::{Config, Descriptor, KernelOp, KernelTarget, KernelText, PluginError};

/// What a minifloat does with its top exponent.
#[repr(u8)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Domain {
    /// Reserved for infinities and NaN, as in IEEE 754.
    Ieee,
    /// Used for numbers; the all-ones code is NaN (OCP OFP8 E4M3).
    Fn,
    /// Used for numbers; every code is finite.
    Fin,
}

/// A sign-magnitude binary float with gradual underflow: 1 + `exponent_bits` + `significand_bits` bits.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Minifloat {
    /// Exponent bits, 0 to 8.
    pub exponent_bits: u32,
    /// Stored significand bits, 0 to 10 (the implicit one is not counted).
    pub significand_bits: u32,
    /// Exponent bias: `2^(E-1) - 1`, 0 when `E <= 1`.
    pub bias: i32,
    /// What the top exponent means.
    pub domain: Domain,
}

/// What a format's codes mean; everything else about it derives from this.
#[repr(u8)]
#[derive(StableAbi, Debug, Clone, PartialEq)]
pub enum FormatSpec {
    /// A minifloat.
    Minifloat(Minifloat),
    /// Any other code: `values[code]`, f32, 2^bits of them (posits, logarithmic, integer, lookup).
    Table(RVec<f32>),
}

/// How a value between two grid points is rounded.
#[repr(u8)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// To the nearest; ties to the even code.
    NearestEven,
    /// To the nearest; ties away from zero.
    NearestAway,
    /// Toward zero.
    TowardZero,
    /// Up with probability (x-a)/(b-a); random bits keyed by [`RandomKey`].
    Stochastic,
}

/// Names the random bits of one tensor at one step: the same key gives the same bits on every device,
/// after every resume, with any number of threads.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RandomKey {
    /// The run's seed.
    pub seed: u64,
    /// Training step, from 0. Below 2^32.
    pub step: u64,
    /// Which tensor, from 0. Below 2^32.
    pub tensor: u64,
    /// Index of the call's first element within the whole tensor.
    pub offset: u64,
}

/// Scale and rounding of one call.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq)]
pub struct QuantParams {
    /// Multiplied into the value before rounding. Finite, positive.
    pub scale: f32,
    /// Multiplied into the rounded value: `1/scale` rounded once to f32 by the host.
    pub inv_scale: f32,
    /// The rounding mode.
    pub rounding: Rounding,
    /// Where stochastic rounding takes its bits; ignored by the other modes.
    pub key: RandomKey,
}

impl QuantParams {
    /// Scale 1, nearest-even.
    pub const IDENTITY: Self = Self {
        scale: 1.0,
        inv_scale: 1.0,
        rounding: Rounding::NearestEven,
        key: RandomKey { seed: 0, step: 0, tensor: 0, offset: 0 },
    };
}

/// What one quantization call saw. Counts add up over parts, `amax` takes the larger.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Default)]
pub struct QuantStats {
    /// Largest finite |x| before scaling; 0 if there is none.
    pub amax: f32,
    /// Elements whose scaled magnitude is beyond the largest finite code, infinities included.
    pub overflow: u64,
    /// Non-zero elements that became zero.
    pub underflow: u64,
    /// NaN elements.
    pub nan: u64,
    /// Elements that are not zero (NaN included).
    pub nonzero: u64,
    /// Sum of x^2 over finite x.
    pub sum_x2: f64,
    /// Sum of (x_hat - x)^2 over finite x.
    pub sum_err2: f64,
    /// Sum of x * x_hat over finite x.
    pub sum_x_xhat: f64,
}

impl QuantStats {
    /// Adds what another part saw.
    pub fn merge(&mut self, other: &Self) {
        self.amax = self.amax.max(other.amax);
        self.overflow += other.overflow;
        self.underflow += other.underflow;
        self.nan += other.nan;
        self.nonzero += other.nonzero;
        self.sum_x2 += other.sum_x2;
        self.sum_err2 += other.sum_err2;
        self.sum_x_xhat += other.sum_x_xhat;
    }
}

/// A number format.
///
/// Threads: `[any-thread]`; the host may call one instance from several threads at once.
/// A method that panics poisons its instance: every later call fails without reaching the plugin.
pub trait Format: Send + Sync + Sized + 'static {
    /// Name, version, options. `[main-thread]`
    ///
    /// A run file may write `NAME:VARIANT`; the host then sets the text option `variant`, which a
    /// format with variants declares with its choices.
    fn descriptor() -> Descriptor;

    /// Makes an instance from complete, range-checked options. `[main-thread]`
    ///
    /// # Errors
    /// Whatever the declared ranges could not say.
    fn new(config: &Config) -> Result<Self, PluginError>;

    /// What the codes mean. `[main-thread]`
    fn spec(&self) -> FormatSpec;

    /// Rounds `src` to the format's grid and writes real values (not codes) to `dst`:
    /// `dst[i] = round(src[i] * scale) * inv_scale`, two f32 multiplications.
    ///
    /// NaN stays NaN and is counted. ±Inf and values beyond the largest finite code saturate and count
    /// as overflow. -0 stays -0. `histogram`, if not empty, has one counter a code (2^bits of them) and is
    /// added to.
    /// Shapes: `src`, `dst` `[n]` f32, disjoint; borrowed for the call. `[any-thread]`
    ///
    /// # Errors
    /// [`ErrorKind::UNSUPPORTED`](crate::ErrorKind::UNSUPPORTED) for a rounding mode it lacks.
    fn fake_quant(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams,
        histogram: &mut [u64],
    ) -> Result<QuantStats, PluginError>;

    /// Rounds `src` and writes codes: `dst[i] = code(round(src[i] * scale))`.
    ///
    /// Shapes: `src` `[n]` f32, `dst` `[n]`; borrowed for the call. `[any-thread]`
    ///
    /// # Errors
    /// [`ErrorKind::VALUE`](crate::ErrorKind::VALUE) for NaN in a format without NaN.
    fn encode(&self, src: &[f32], dst: &mut [u16], params: &QuantParams) -> Result<(), PluginError>;

    /// Writes the values of codes, unscaled.
    ///
    /// Shapes: `codes`, `dst` `[n]`; borrowed for the call. `[any-thread]`
    ///
    /// # Errors
    /// [`ErrorKind::VALUE`](crate::ErrorKind::VALUE) for a code beyond 2^bits.
    fn decode(&self, codes: &[u16], dst: &mut [f32]) -> Result<(), PluginError>;

    /// The text of a device kernel, or `None` if there is none for this operation and target; the
    /// host then moves the tensor to main memory and uses the functions above. `[main-thread]`
    ///
    /// # Errors
    /// Why a kernel that should exist cannot be had.
    fn kernel(&self, op: KernelOp, target: &KernelTarget) -> Result<Option<KernelText>, PluginError> {
        let _ = (op, target);
        Ok(None)
    }
}

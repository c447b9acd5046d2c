//! A C format with the interface of all formats.
//!
//! The library's functions only round scaled values; operations without a function search the format's values
//! ([`Tabulated`]). Scaling, saturation counts, sums and histograms are computed here, in pieces that stay in the
//! first-level cache. Sums are added in the order of the elements.

use std::sync::Arc;

use crate::ffi::c_table::{CFormat, CKernel};
use altgrad_plugin_api::{
    Conventions, ErrorKind, FormatSpec, KernelOp, KernelTarget, KernelText, PluginError, QuantParams,
    QuantStats, RandomKey, Rounding, Scales, Tabulated, TensorView, TensorViewMut, ValueGrid,
    abi::{
        FormatAbi,
        stable::std_types::{ROption, RResult, RSliceMut},
    },
};

/// Elements per piece: 8 KiB of f32.
const PIECE: usize = 2048;

/// An instance. It has no state.
pub(super) struct Instance {
    format: Arc<CFormat>,
    spec: FormatSpec,
    grid: ValueGrid,
    values: Tabulated,
    has_nan: bool,
}

fn same_len(what: &str, left: usize, right: usize) -> Result<(), PluginError> {
    if left == right {
        return Ok(());
    }
    Err(PluginError::shape(format!("{what}: {left} elements in, {right} out")))
}

impl Instance {
    /// # Errors
    /// An impossible description.
    pub(super) fn new(format: Arc<CFormat>, spec: FormatSpec) -> Result<Self, PluginError> {
        let grid = ValueGrid::new(&spec)?;
        let by_code: Vec<f32> = (0..grid.codes()).map(|code| grid.decode(code as u16)).collect();
        let has_nan = by_code.iter().any(|value| value.is_nan());
        let values = Tabulated::new(by_code)?.with_conventions(format.conventions.clone())?;
        Ok(Self { format, spec, grid, values, has_nan })
    }

    /// Rounds scaled values.
    fn round(
        &self,
        scaled: &[f32],
        dst: &mut [f32],
        rounding: Rounding,
        key: &RandomKey,
    ) -> Result<(), PluginError> {
        if let Some(result) = self.format.functions.round(scaled, dst, rounding, key) {
            return result;
        }
        let params = QuantParams { rounding, key: *key, scales: Scales::ONE };
        self.values.fake_quant(scaled, dst, &params, &mut []).map(drop)
    }

    /// Codes of scaled values.
    fn codes(
        &self,
        scaled: &[f32],
        codes: &mut [u16],
        rounding: Rounding,
        key: &RandomKey,
    ) -> Result<(), PluginError> {
        if let Some(result) = self.format.functions.encode(scaled, codes, rounding, key) {
            return result;
        }
        let mut rounded = [0.0; PIECE];
        let rounded = &mut rounded[..scaled.len()];
        self.round(scaled, rounded, rounding, key)?;
        self.values.encode(rounded, codes, &QuantParams::IDENTITY)?;
        let differs = |(value, code): &(&f32, &u16)| {
            let coded = self.grid.decode(**code);
            coded != **value && !(coded.is_nan() && value.is_nan())
        };
        match rounded.iter().zip(codes.iter()).find(differs) {
            Some((value, _)) => Err(PluginError::new(ErrorKind::VALUE, format!("{value} has no code"))
                .with_hint("the function `round` has to give values of the format")),
            None => Ok(()),
        }
    }

    fn quantize(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams<'_>,
        histogram: &mut [u64],
    ) -> Result<QuantStats, PluginError> {
        same_len("fake_quant", src.len(), dst.len())?;
        params.scales.check(src.len())?;
        if !histogram.is_empty() {
            same_len("histogram", self.grid.codes(), histogram.len())?;
        }
        if self.format.functions.are_absent() {
            return self.values.fake_quant(src, dst, params, histogram);
        }
        let (mut stats, mut scaled) = (QuantStats::default(), [0.0; PIECE]);
        let bounds = [self.grid.min_finite(), self.grid.max_finite()];
        for (index, (src, dst)) in src.chunks(PIECE).zip(dst.chunks_mut(PIECE)).enumerate() {
            let params = params.skip((index * PIECE) as u64);
            let scaled = scale(src, &params.scales, &mut scaled);
            self.round(scaled, dst, params.rounding, &params.key)?;
            if !histogram.is_empty() {
                self.count_codes(dst, histogram)?;
            }
            scale_back(dst, &params.scales);
            stats.add_all(src, dst, scaled, bounds);
        }
        Ok(stats)
    }

    /// Adds the codes of rounded values; NaN without a code is not counted.
    fn count_codes(&self, rounded: &[f32], histogram: &mut [u64]) -> Result<(), PluginError> {
        let is_coded = |value: &f32| !value.is_nan() || self.has_nan;
        let (mut with_codes, mut codes) = ([0.0; PIECE], [0; PIECE]);
        let mut count = 0;
        for &value in rounded.iter().filter(|value| is_coded(value)) {
            with_codes[count] = value;
            count += 1;
        }
        let codes = &mut codes[..count];
        self.codes(&with_codes[..count], codes, Rounding::NEAREST_EVEN, &RandomKey::default())?;
        for &code in codes.iter() {
            let counter = histogram.get_mut(usize::from(code));
            *counter.ok_or_else(|| {
                PluginError::new(
                    ErrorKind::OTHER,
                    format!("`encode` wrote code {code}, which is beyond the last"),
                )
            })? += 1;
        }
        Ok(())
    }

    fn decode_all(&self, codes: &[u16], dst: &mut [f32], scales: &Scales<'_>) -> Result<(), PluginError> {
        same_len("decode", codes.len(), dst.len())?;
        scales.check(codes.len())?;
        let Some(result) = self.format.functions.decode(codes, dst) else {
            return self.values.decode(codes, dst, scales);
        };
        scale_back(dst, scales);
        result
    }
}

/// `src` times its scales, for one piece.
fn scale<'a>(src: &[f32], scales: &Scales<'_>, piece: &'a mut [f32; PIECE]) -> &'a [f32] {
    for (range, [scale, _]) in scales.runs(src.len()) {
        for (x, scaled) in src[range.clone()].iter().zip(&mut piece[range]) {
            *scaled = x * scale;
        }
    }
    &piece[..src.len()]
}

/// Multiplies rounded values by the inverses of their scales.
fn scale_back(values: &mut [f32], scales: &Scales<'_>) {
    for (range, [_, inverse]) in scales.runs(values.len()) {
        values[range].iter_mut().for_each(|value| *value *= inverse);
    }
}

impl FormatAbi for Instance {
    fn spec(&self) -> RResult<FormatSpec, PluginError> {
        RResult::ROk(self.spec.clone())
    }

    fn conventions(&self) -> RResult<Conventions, PluginError> {
        RResult::ROk(self.format.conventions.clone())
    }

    fn fake_quant(
        &self,
        src: TensorView<'_>,
        mut dst: TensorViewMut<'_>,
        params: &QuantParams<'_>,
        mut histogram: RSliceMut<'_, u64>,
    ) -> RResult<QuantStats, PluginError> {
        let mut call =
            || self.quantize(src.as_slice()?, dst.as_mut_slice()?, params, histogram.as_mut_slice());
        call().into()
    }

    fn encode(
        &self,
        src: TensorView<'_>,
        mut dst: TensorViewMut<'_>,
        params: &QuantParams<'_>,
    ) -> RResult<(), PluginError> {
        let mut call = || {
            let (src, dst) = (src.as_slice::<f32>()?, dst.as_mut_slice::<u16>()?);
            same_len("encode", src.len(), dst.len())?;
            params.scales.check(src.len())?;
            let mut scaled = [0.0; PIECE];
            for (index, (src, dst)) in src.chunks(PIECE).zip(dst.chunks_mut(PIECE)).enumerate() {
                let params = params.skip((index * PIECE) as u64);
                let scaled = scale(src, &params.scales, &mut scaled);
                self.codes(scaled, dst, params.rounding, &params.key)?;
            }
            Ok(())
        };
        call().into()
    }

    fn decode(
        &self,
        codes: TensorView<'_>,
        mut dst: TensorViewMut<'_>,
        scales: &Scales<'_>,
    ) -> RResult<(), PluginError> {
        let mut call = || self.decode_all(codes.as_slice()?, dst.as_mut_slice()?, scales);
        call().into()
    }

    fn magnitude(&self, block: TensorView<'_>) -> RResult<f32, PluginError> {
        let call = || {
            let missing = || PluginError::unsupported("it has no magnitude of blocks");
            self.format.magnitude_of(block.as_slice::<f32>()?).ok_or_else(missing)?
        };
        call().into()
    }

    fn kernel(&self, op: KernelOp, target: &KernelTarget) -> RResult<ROption<KernelText>, PluginError> {
        let fits = |kernel: &&CKernel| {
            let text = &kernel.text;
            kernel.op == op
                && text.language == target.language
                && kernel.architecture <= target.architecture
                && text.vector <= target.vector
                && text.cube_dim[0] <= target.max_units_per_cube
                && kernel.shared_bytes <= target.max_shared_bytes
        };
        let widest = self.format.kernels.iter().filter(fits).max_by_key(|kernel| kernel.text.vector);
        RResult::ROk(widest.map(|kernel| kernel.text.clone()).into())
    }
}

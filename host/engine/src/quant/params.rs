//! The parameters of one fake quantization.

use std::sync::Arc;

use altgrad_config::SteChoice;
use altgrad_plugin_api::{RandomKey, Rounding};

use super::{DeviceFormat, HistogramCollector, ScaleSource};
/// The format of a fake quantization and how it is applied.
#[derive(Debug, Clone)]
pub struct FakeQuantParams {
    /// The format.
    pub format: Arc<DeviceFormat>,
    /// The rounding mode.
    pub rounding: Rounding,
    /// The key of the random bits of stochastic rounding; other modes ignore it.
    pub key: RandomKey,
    /// Where scales come from.
    pub scale: ScaleSource,
    /// The straight-through estimator of the gradient.
    pub ste: SteChoice,
    /// Number of elements that are no values of the tensor but zeros, which pad its rows.
    pub padding_elements: usize,
    /// The collector of the histogram of what is rounded, on steps that collect one.
    pub histogram: Option<Arc<HistogramCollector>>,
}

impl FakeQuantParams {
    /// Rounding to nearest, ties to even, with scale 1.
    #[must_use]
    pub fn unscaled(format: Arc<DeviceFormat>) -> Self {
        Self {
            format,
            rounding: Rounding::NEAREST_EVEN,
            key: RandomKey::default(),
            scale: ScaleSource::ONE,
            ste: SteChoice::Identity,
            padding_elements: 0,
            histogram: None,
        }
    }
}

//! The parameters of one fake quantization.

use std::sync::Arc;

use altgrad_casts::{Operation, Rounding as CastRounding};
use altgrad_config::SteChoice;
use altgrad_plugin_api::{RandomKey, Rounding, ValueGrid};

use super::{CountedBy, DeviceFormat, HistogramCollector, ScaleSource};
#[cfg(feature = "gpu")]
use super::{own_rounding_kernel::OwnRounding, tally};

/// Index of a site in a plan ([`QuantPlan::sites`](super::QuantPlan::sites)).
pub type SiteId = usize;

/// The arithmetic of a rounding. A format's own multiplies by scale and inverse. The default is the format's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arithmetic {
    /// The operation that scales elements: a multiplication by the scale, or a division by the inverse.
    pub quantize: Operation,
    /// The operation that scales codes back: a multiplication by the inverse, or a division by the scale.
    pub dequantize: Operation,
    /// The rounding that the format has no mode for, if there is one: with ties toward zero or up, the format's mode is
    /// then to nearest, ties away; with few random bits, toward zero.
    pub own: Option<CastRounding>,
    /// The rounding of elements that overflow to infinity or NaN; `None`: they saturate.
    pub overflow: Option<CastRounding>,
}

impl Arithmetic {
    /// True if the format itself rounds in this way.
    #[must_use]
    pub fn is_the_formats(&self) -> bool {
        *self == Self::default()
    }

    /// True if kernels of the host round in this way to a format of these values, beside those of the format.
    #[must_use]
    pub fn has_kernels(&self, values: &ValueGrid) -> bool {
        #[cfg(feature = "gpu")]
        let rounds = OwnRounding::of(self.own, values).is_some();
        #[cfg(not(feature = "gpu"))]
        let rounds = {
            let _ = values;
            self.own.is_none()
        };
        rounds && self.overflow.is_none()
    }
}

/// The format of a fake quantization and its application.
#[derive(Debug, Clone)]
pub struct FakeQuantParams {
    /// The format.
    pub format: Arc<DeviceFormat>,
    /// The rounding mode.
    pub rounding: Rounding,
    /// The key of the random bits of stochastic rounding; other modes ignore it.
    pub key: RandomKey,
    /// The source of scales.
    pub scale: ScaleSource,
    /// The number of the site whose fixed scale changes from step to step.
    pub site: Option<SiteId>,
    /// The application of scales and the rounding of ties, where they differ from the format's own.
    pub arithmetic: Arithmetic,
    /// The straight-through estimator of the gradient.
    pub ste: SteChoice,
    /// Number of elements that are zeros to pad rows, not values of the tensor.
    pub padding_elements: usize,
    /// The collector of the histogram of rounded values, on steps that collect one.
    pub histogram: Option<Arc<HistogramCollector>>,
}

impl FakeQuantParams {
    /// What counts the statistics: a kernel of the host where the format's own does not see the values.
    #[must_use]
    pub fn counted_by(&self) -> CountedBy {
        #[cfg(feature = "gpu")]
        if let Some(kernels) = self.format.kernels()
            && (!self.arithmetic.is_the_formats() || kernels.texts().is_none())
        {
            return CountedBy::Host;
        }
        CountedBy::Format
    }

    /// Lengths of the statistics of a call over `elements` elements: words and sums.
    #[cfg(feature = "gpu")]
    pub(super) fn statistics_shape(&self, elements: usize) -> [usize; 2] {
        match self.counted_by() {
            CountedBy::Format => self.format.statistics_shape(elements),
            CountedBy::Host => [tally::COUNTS, tally::SUMS * crate::kernel_text::cubes(elements)],
        }
    }

    /// Rounding to nearest, ties to even, with scale 1.
    #[must_use]
    pub fn unscaled(format: Arc<DeviceFormat>) -> Self {
        Self {
            format,
            rounding: Rounding::NEAREST_EVEN,
            key: RandomKey::default(),
            scale: ScaleSource::ONE,
            site: None,
            arithmetic: Arithmetic::default(),
            ste: SteChoice::Identity,
            padding_elements: 0,
            histogram: None,
        }
    }
}

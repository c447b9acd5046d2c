//! Observation: the effect that formats would have on tensors before any rounding and transform, by site.
//!
//! On a step that measures, the step's passes are computed once more before the training's own, with the same inputs.
//! These passes give the tensor of each observed site to an observer, which keeps only its statistics. Products that
//! fuse an observed tensor are computed as chains of operations there; the training's own passes stay fused, so this
//! module cannot change them. The rounding is that of every cast ([`super::cast()`]), on the tensor's device.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_casts::design::LogGrid;
use altgrad_metrics::FormatName;
use altgrad_plugin_api::RandomKey;
use burn::tensor::{Gradients as Tape, Tensor};
use rayon::prelude::*;

use super::{
    CastParams, DeviceFormat, FakeQuantParams, HistogramCollector, History, LayerId, QuantStats, Role,
    ZeroedMass, cast::cast, power_sums::PowerSums, tensor_quantizer::TensorQuantizer,
};
use crate::{
    tensor::{read_f32, untracked},
    trace::gradient::capture_gradient,
};

/// Elements of a parallel task.
const CHUNK: usize = 1 << 16;

/// A format that is observed at a site: the site as it would be if the format rounded there.
#[derive(Debug)]
pub struct ObservedFormat {
    /// The name in the run file.
    pub name: FormatName,
    /// The assumed cast.
    pub cast: TensorQuantizer,
}

/// An observed site.
#[derive(Debug)]
pub struct ObservedSite {
    /// The parameter that names the site.
    pub layer: LayerId,
    /// The parameter's name.
    pub name: String,
    /// The role of the tensor.
    pub role: Role,
    /// In the order of the run file.
    pub formats: Vec<ObservedFormat>,
}

/// The observation of a site in a step. Sums of sites can be added.
#[derive(Debug, Clone, Default)]
pub struct SiteObservation {
    /// Largest finite magnitude.
    pub amax: f32,
    /// Smallest finite magnitude above 0, if there is one.
    pub smallest: Option<f32>,
    /// Sums of powers.
    pub powers: PowerSums,
    /// Counts of elements over the largest magnitude of their block.
    pub relative: LogGrid,
    /// By format.
    pub formats: Vec<FormatObservation>,
}

/// The effect that a format would have had.
#[derive(Debug, Clone, Copy, Default)]
pub struct FormatObservation {
    /// At scale 1.
    pub unscaled: QuantStats,
    /// With the assumed scales.
    pub scaled: QuantStats,
    /// The magnitudes that become zero with the assumed scales.
    pub zeroed: ZeroedMass,
}

impl SiteObservation {
    /// Adds the observation of other tensors.
    pub fn merge(&mut self, other: &Self) {
        self.amax = self.amax.max(other.amax);
        self.smallest = self.smallest.into_iter().chain(other.smallest).reduce(f32::min);
        self.powers.add(&other.powers);
        self.relative.add(&other.relative);
        self.formats.resize(self.formats.len().max(other.formats.len()), FormatObservation::default());
        for (own, other) in self.formats.iter_mut().zip(&other.formats) {
            own.unscaled.merge(&other.unscaled);
            own.scaled.merge(&other.scaled);
            own.zeroed.add(&other.zeroed);
        }
    }

    /// The observation of a matrix whose blocks run along its rows, outside of any autodiff graph.
    fn of(x: &Tensor<2>, formats: &[ObservedFormat]) -> Result<Self, Diagnostic> {
        let values = values_of(x)?;
        let extremes =
            values.par_chunks(CHUNK).map(extremes).reduce_with(|a, b| [a[0].max(b[0]), a[1].min(b[1])]);
        let [amax, smallest] = extremes.unwrap_or([0.0, f32::INFINITY]);
        let collector = HistogramCollector::new(0);
        collector.add_values(&values);
        let of = |format: &ObservedFormat| {
            let unscaled = FakeQuantParams::unscaled(format.cast.format.clone()).into();
            let unscaled = cast(x.clone(), unscaled).stats.read()?;
            let (scaled, zeroed) = format.scaled(x, &values)?;
            Ok(FormatObservation { unscaled, scaled, zeroed })
        };
        Ok(Self {
            amax,
            smallest: smallest.is_finite().then_some(smallest),
            powers: collector.histogram()?.powers,
            relative: relative(&values, x.dims(), formats),
            formats: formats.iter().map(of).collect::<Result<_, Diagnostic>>()?,
        })
    }

    /// The observation of the transposed matrix `x`, from that of the matrix: only scales distinguish rows and columns.
    fn turned(mut self, x: &Tensor<2>, formats: &[ObservedFormat]) -> Result<Self, Diagnostic> {
        if formats.iter().all(|format| format.cast.has_one_scale()) {
            return Ok(self);
        }
        let values = values_of(x)?;
        self.relative = relative(&values, x.dims(), formats);
        for (seen, format) in self.formats.iter_mut().zip(formats) {
            (seen.scaled, seen.zeroed) = format.scaled(x, &values)?;
        }
        Ok(self)
    }
}

impl ObservedFormat {
    /// The statistics that the format would have on a matrix with these elements, with the assumed scales.
    fn scaled(&self, x: &Tensor<2>, values: &[f32]) -> Result<(QuantStats, ZeroedMass), Diagnostic> {
        let quant = self.cast.fake_quant_params(RandomKey::default(), &History::default());
        let params = CastParams { quant, arrangement: self.cast.arrangement(), rotation: None, center: None };
        let rounded = cast(x.clone(), params);
        let zeroed = ZeroedMass::of(values, &values_of(&rounded.values)?);
        Ok((rounded.stats.read()?, zeroed))
    }
}

/// The elements of a matrix of rows and columns over the largest magnitude of their block. The assumed casts have the
/// same blocks.
fn relative(values: &[f32], [rows, columns]: [usize; 2], formats: &[ObservedFormat]) -> LogGrid {
    let cast = formats.first().map(|format| &format.cast).filter(|cast| !cast.has_one_scale());
    let tile = cast.map_or([rows, columns], |cast| cast.arrangement().tile);
    let mut grid = LogGrid::default();
    grid.add_matrix(values, columns, tile);
    grid
}

/// The elements, row by row.
fn values_of(x: &Tensor<2>) -> Result<Vec<f32>, Diagnostic> {
    read_f32(x.clone().reshape([x.shape().num_elements()]))
}

/// Largest finite magnitude, and the smallest above 0; infinity if there is none.
fn extremes(values: &[f32]) -> [f32; 2] {
    let finite = values.iter().map(|x| x.abs()).filter(|x| x.is_finite());
    finite.fold([0.0, f32::INFINITY], |[most, least], x| {
        [x.max(most), if x > 0.0 { x.min(least) } else { least }]
    })
}

/// The sites that a run observes.
#[derive(Debug)]
pub struct ObservedSites {
    sites: Vec<ObservedSite>,
    index: BTreeMap<(LayerId, Role), usize>,
}

impl ObservedSites {
    /// These sites.
    #[must_use]
    pub fn new(sites: Vec<ObservedSite>) -> Self {
        let index = sites.iter().enumerate().map(|(id, site)| ((site.layer, site.role), id)).collect();
        Self { sites, index }
    }

    /// The sites.
    #[must_use]
    pub fn sites(&self) -> &[ObservedSite] {
        &self.sites
    }

    /// The formats, each once.
    pub fn formats(&self) -> impl Iterator<Item = &Arc<DeviceFormat>> {
        self.sites.first().into_iter().flat_map(|site| site.formats.iter().map(|format| &format.cast.format))
    }
}

/// Leaves whose gradient is the tensor of some sites: the probe, its shape, the layer, and roles with a flag for the
/// transposed tensor.
type Probe = (Tensor<1>, [usize; 2], LayerId, Vec<(Role, bool)>);

/// The observation of the sites in some passes.
#[derive(Debug)]
pub(super) struct Observer<'a> {
    observed: &'a ObservedSites,
    /// Observations by site.
    seen: RefCell<Vec<Option<SiteObservation>>>,
    probes: RefCell<Vec<Probe>>,
    /// The error that stopped a measurement: operations cannot return one.
    fault: RefCell<Option<Diagnostic>>,
}

impl<'a> Observer<'a> {
    /// Before the passes.
    pub(super) fn new(observed: &'a ObservedSites) -> Self {
        let seen = RefCell::new(observed.sites.iter().map(|_| None).collect());
        Self { observed, seen, probes: RefCell::default(), fault: RefCell::default() }
    }

    /// The observations, by site; `None` for a site without a tensor.
    ///
    /// # Errors
    /// A format or the device failed.
    pub(super) fn finish(self) -> Result<Vec<Option<SiteObservation>>, Diagnostic> {
        self.fault.into_inner().map_or(Ok(self.seen.into_inner()), Err)
    }

    fn id(&self, layer: LayerId, role: Role) -> Option<usize> {
        self.observed.index.get(&(layer, role)).copied()
    }

    /// True if a site is observed.
    pub(super) fn has(&self, layer: LayerId, role: Role) -> bool {
        self.id(layer, role).is_some()
    }

    /// Measures a matrix for at most two roles of a layer, whose blocks run along rows, or along columns where the role
    /// has `true`.
    fn measure(&self, layer: LayerId, roles: &[(Role, bool)], x: &Tensor<2>) {
        let sites = roles.iter().filter_map(|(role, turned)| Some((self.id(layer, *role)?, *turned)));
        let mut known: Option<SiteObservation> = None;
        for (id, turned) in sites {
            let formats = &self.observed.sites[id].formats;
            let as_used = || if turned { x.clone().swap_dims(0, 1) } else { x.clone() };
            let seen = match known.take() {
                Some(known) => known.turned(&as_used(), formats),
                None => SiteObservation::of(&as_used(), formats),
            };
            match seen {
                Ok(seen) => {
                    self.seen.borrow_mut()[id].get_or_insert_default().merge(&seen);
                    known = Some(seen);
                }
                Err(error) => {
                    self.fault.borrow_mut().get_or_insert(error);
                }
            }
        }
    }

    /// The operands of a layer's product, before they are rounded. Shapes: `x` `[tokens, in]`, `weight` `[out, in]`. A
    /// weight is the same in all micro-batches.
    pub(super) fn operands(&self, layer: LayerId, x: &Tensor<2>, weight: &Tensor<2>, micro_batch: u64) {
        let of_input = [(Role::Activation, false), (Role::ActivationWgrad, true)];
        self.measure(layer, &of_input, &untracked(x.clone()));
        if micro_batch == 0 {
            let of_weight = [(Role::Weight, false), (Role::WeightDgrad, true)];
            self.measure(layer, &of_weight, &untracked(weight.clone()));
        }
    }

    /// `y`, the output of a layer's product, whose gradient is observed.
    pub(super) fn output(&self, layer: LayerId, y: Tensor<2>) -> Tensor<2> {
        self.gradient(layer, &[(Role::Grad, false), (Role::GradWgrad, true)], y)
    }

    /// `x`, whose gradient is observed: everything that uses `x` must use the result.
    pub(super) fn gradient(&self, layer: LayerId, roles: &[(Role, bool)], x: Tensor<2>) -> Tensor<2> {
        if !roles.iter().any(|(role, _)| self.has(layer, *role)) || !x.device().is_autodiff() {
            return x;
        }
        let shape = x.dims();
        let (x, probe) = capture_gradient(x);
        self.probes.borrow_mut().push((probe, shape, layer, roles.to_vec()));
        x
    }

    /// A tensor elsewhere in the model, before it is rounded. Blocks run along the last axis.
    pub(super) fn value(&self, layer: LayerId, role: Role, x: &Tensor<2>) {
        self.measure(layer, &[(role, false)], &untracked(x.clone()));
    }

    /// Measures the gradients that a backward pass left in `tape`.
    pub(super) fn collect(&self, tape: &Tape) {
        for (probe, shape, layer, roles) in self.probes.take() {
            if let Some(gradient) = probe.grad(tape) {
                self.measure(layer, &roles, &gradient.reshape(shape));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_that_of_finite_magnitudes_above_zero() {
        assert_eq!(extremes(&[0.0, -8.0, 0.5, f32::NAN, f32::NEG_INFINITY, -0.0]), [8.0, 0.5]);
        assert_eq!(extremes(&[0.0, f32::NAN]), [0.0, f32::INFINITY]);
    }

    #[test]
    fn sums_of_sites_have_the_extremes_of_both() {
        let site = |amax, smallest| SiteObservation { amax, smallest, ..SiteObservation::default() };
        let mut all = SiteObservation::default();
        for other in [site(0.0, None), site(4.0, Some(0.5)), site(2.0, Some(0.25))] {
            all.merge(&other);
        }
        assert_eq!((all.amax, all.smallest), (4.0, Some(0.25)));
    }
}

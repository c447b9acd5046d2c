//! The loss of weights by the scales of the first step: signal to noise compared with the best power of two, on a
//! sample.
//!
//! Nothing here changes a run: [`ScaleLoss`] is for a warning before the first step (docs/numerics.md, section 7.6.1).
//! Samples of all weights are read with one synchronization.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::FormatPlugin;
use altgrad_plugin_api::{Blocks, QuantParams, Scales};
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::{
    DelayedStart, History, LayerId, Role, Scaling, TensorQuantizer,
    fake_quant::scales_of,
    plan::QuantPlan,
    scale::{self, ScaleRule, scale_pairs},
};
use crate::read_back::{ReadBack, Slot, Values};

/// Elements of a weight that are rounded, or one row.
const SAMPLE: usize = 4096;
/// Binades that the scale is moved by.
const OFFSETS: std::ops::RangeInclusive<i32> = -24..=16;
/// Far from the scale in use, one offset in this many is tried first.
const STRIDE: i32 = 4;
/// The loss in decibels from which the search continues.
const WORTH_A_LOOK: f64 = 1.0;
/// Among offsets within this many decibels of the best, the smallest is reported.
const AS_GOOD: f64 = 0.1;

/// The loss of a weight by its scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaleLoss {
    /// Signal to noise at the scale of the first step, dB.
    pub sqnr_db: f64,
    /// SQNR at the best power-of-two multiple of the scale, dB.
    pub best_db: f64,
    /// The margin that leads there, binades.
    pub margin: i32,
}

impl ScaleLoss {
    /// Decibels lost.
    #[must_use]
    pub fn decibels(&self) -> f64 {
        self.best_db - self.sqnr_db
    }
}

/// Rows of a weight, with the statistics of their scales.
struct Sample<'a> {
    site: &'a TensorQuantizer,
    rule: ScaleRule,
    width: usize,
    rows: Slot,
    /// The scale of the whole weight, if it has only one.
    pair: Option<Slot>,
}

impl<'a> Sample<'a> {
    /// Requests rows of a weight `[n]` of `width` columns, if it has a scale.
    fn request(
        site: &'a TensorQuantizer,
        weight: &Tensor<1>,
        width: usize,
        read_back: &mut ReadBack,
    ) -> Option<Self> {
        // A first scale of 1 does not depend on the margin.
        let (Scaling::Dynamic(rule)
        | Scaling::Delayed { rule, start: DelayedStart { first_is_one: false, .. }, .. }
        | Scaling::Static { rule, .. }
        | Scaling::Stored { rule, .. }) = site.scaling
        else {
            return None;
        };
        // Other scales, multiplied by powers of two, no longer follow their rule.
        if !rule.is_plain() || site.tile.is_some() || site.transform.is_some() {
            return None;
        }
        let all = weight.dims()[0] / width.max(1);
        let count = (SAMPLE / width.max(1)).clamp(1, all.max(1));
        let rows = (0..count).map(|row| weight.clone().narrow(0, row * all / count * width, width));
        let rows = read_back.request(Tensor::cat(rows.collect(), 0));
        let one_scale = || scales_of(weight, site.scale(&History::default())).reshape([2]);
        let pair = site.has_one_scale().then(|| read_back.request(one_scale()));
        Some(Self { site, rule, width, rows, pair })
    }

    /// The loss; `None` if there is none, or it cannot be computed.
    fn loss(&self, values: &Values) -> Result<Option<ScaleLoss>, Diagnostic> {
        let rows = values.get(self.rows)?;
        let (pairs, blocks) = match (self.pair, self.rule.group) {
            (None, Some(group)) => {
                let blocks = rows.chunks(self.width).flat_map(|row| row.chunks(group));
                (
                    blocks.map(|block| self.rule.scale(scale::amax(block))).collect(),
                    self.site.blocks(self.width),
                )
            }
            (Some(pair), _) => (scale_pairs(values.get(pair)?).to_vec(), Blocks::WHOLE),
            (None, None) => return Ok(None),
        };
        let sqnr = |offset| sqnr_db(rows, self.site.format.plugin(), &pairs, blocks, offset);
        // Without noise there is no loss, and a failing format reports its error in a step.
        let Some(mut sqnr_here) = sqnr(0) else { return Ok(None) };
        for offset in 1..=self.room() {
            sqnr_here = sqnr_here.max(sqnr(offset).unwrap_or(sqnr_here));
        }
        let at = |offset: i32| Some((offset, sqnr(offset)?));
        let best = |found: &[(i32, f64)]| found.iter().fold(sqnr_here, |best, (_, sqnr)| best.max(*sqnr));
        // A coarse search misses a peak by two binades at most, and the peak exceeds its neighbours by more than that
        // loss.
        let near = OFFSETS.filter(|offset| offset.abs() < STRIDE || offset % STRIDE == 0);
        let mut found: Vec<(i32, f64)> = near.filter_map(at).collect();
        if best(&found) - sqnr_here > WORTH_A_LOOK {
            found = OFFSETS.filter_map(at).collect();
        }
        let best_db = best(&found);
        let as_good = found.iter().filter(|(_, sqnr)| *sqnr >= best_db - AS_GOOD);
        let offset = as_good.map(|(offset, _)| *offset).min_by_key(|offset| offset.abs()).unwrap_or(0);
        Ok(Some(ScaleLoss { sqnr_db: sqnr_here, best_db, margin: self.rule.scaling.margin - offset }))
    }

    /// Binades that the scale may be below the best: room for growing values, and the loss of powers of two.
    fn room(&self) -> i32 {
        match self.site.scaling {
            Scaling::Stored { .. } => 2,
            _ if self.rule.scaling.pow2 => 2,
            _ => 1,
        }
    }
}

/// `None` without noise or signal, where a scale is no normal number, and if the plugin fails.
fn sqnr_db(
    rows: &[f32],
    format: &FormatPlugin,
    pairs: &[[f32; 2]],
    blocks: Blocks,
    offset: i32,
) -> Option<f64> {
    let moved = |[scale, _]: &[f32; 2]| {
        let scale = scale * 2f32.powi(offset);
        (scale.is_normal() && (1.0 / scale).is_normal()).then_some([scale, 1.0 / scale])
    };
    let pairs = pairs.iter().map(moved).collect::<Option<Vec<_>>>()?;
    let mut rounded = vec![f32::NAN; rows.len()];
    let params = QuantParams::nearest(Scales::new(&pairs, blocks));
    format.fake_quant(rows, &mut rounded, &params, &mut []).ok()?;
    let [signal, noise] = rows.iter().zip(&rounded).fold([0.0; 2], |[signal, noise], (&x, &y)| {
        let (x, error) = (f64::from(x), f64::from(y) - f64::from(x));
        [signal + x * x, noise + error * error]
    });
    let ratio = signal / noise;
    (signal > 0.0 && noise > 0.0 && ratio.is_finite()).then(|| 10.0 * ratio.log10())
}

impl QuantPlan {
    /// The loss of each rounded weight by the scale of its first step, with its layer and site; of weights `[n]` by
    /// layer, with the lengths of their rows. Weights without scales or without noise are left out. One
    /// synchronization.
    ///
    /// # Errors
    /// The device failed.
    pub fn scale_losses<'a>(
        &self,
        weights: impl Iterator<Item = (&'a Tensor<1>, usize)>,
    ) -> Result<Vec<(LayerId, &TensorQuantizer, ScaleLoss)>, Diagnostic> {
        let mut read_back = ReadBack::default();
        let samples: Vec<(LayerId, Sample<'_>)> = weights
            .enumerate()
            .filter_map(|(layer, (weight, width))| {
                let (_, site) = self.site(layer, Role::Weight)?;
                Some((layer, Sample::request(site, weight, width, &mut read_back)?))
            })
            .collect();
        let values = read_back.read()?;
        let losses =
            samples.par_iter().map(|(layer, sample)| Ok((*layer, sample.site, sample.loss(&values)?)));
        let losses = losses.collect::<Result<Vec<_>, Diagnostic>>()?;
        Ok(losses.into_iter().filter_map(|(layer, site, loss)| Some((layer, site, loss?))).collect())
    }
}

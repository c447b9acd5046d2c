//! Metrics by layer, from `layers.csv`: a short curve for each statistic and layer that the report shows.

use std::{collections::BTreeMap, path::Path};

use super::{
    rows::{Rows, number},
    series::Series,
};

/// Points of a layer's curve: a column of a picture each.
const CAPACITY: usize = 24;
/// Layers that are kept; a model of 1000 blocks has fewer.
const MOST_LAYERS: usize = 8192;

/// The statistics that are kept.
const STATISTICS: [&str; 13] = [
    "grad_cos_sim",
    "grad_norm_ratio",
    "grad_norm_l2",
    "update/bit_stall_rate",
    "quant/weight/overflow_rate",
    "quant/activation/overflow_rate",
    "quant/grad/overflow_rate",
    "quant/grad/underflow_rate",
    "quant/weight/sqnr_db",
    "weights/stable_rank",
    "weights/effective_rank",
    "weights/stiffness_grad_corr",
    "weights/grid_alignment",
];
/// The SQNR that a weight would have with its scale moved by so many binades; the offset follows.
pub const REGRET: &str = "quant/weight/sqnr_db_at/";

/// Curves by statistic and layer.
pub type Layers = BTreeMap<String, BTreeMap<String, Series>>;

/// Reads the file; empty without one. The second number counts rows left out.
///
/// # Errors
/// One sentence: the file cannot be read.
pub(super) fn read(path: &Path) -> Result<(Layers, u64), String> {
    let Some(mut rows) = Rows::open(path)? else { return Ok((Layers::new(), 0)) };
    let wanted: Vec<(String, usize)> = rows
        .columns()
        .filter(|(name, _)| STATISTICS.contains(name) || name.starts_with(REGRET))
        .map(|(name, index)| (name.to_string(), index))
        .collect();
    let Some(layer_column) = rows.column("layer") else { return Err("it has no column `layer`".into()) };
    let mut index: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let mut curves: Vec<Vec<Series>> = Vec::new();
    while let Some((step, cells)) = rows.next()? {
        let layer = &cells[layer_column];
        let at = match index.get(layer) {
            Some(at) => *at,
            None if curves.len() == MOST_LAYERS => continue,
            None => {
                index.insert(layer.to_vec(), curves.len());
                curves.push(wanted.iter().map(|_| Series::new(CAPACITY)).collect());
                curves.len() - 1
            }
        };
        for ((_, column), curve) in wanted.iter().zip(&mut curves[at]) {
            if let Some(value) = number(&cells[*column]) {
                curve.add(step, value);
            }
        }
    }
    let mut layers = Layers::new();
    for (layer, at) in index {
        let layer = String::from_utf8_lossy(&layer).into_owned();
        for ((statistic, _), curve) in
            wanted.iter().zip(&curves[at]).filter(|(_, curve)| curve.last().is_some())
        {
            layers.entry(statistic.clone()).or_default().insert(layer.clone(), curve.clone());
        }
    }
    Ok((layers, rows.damaged))
}

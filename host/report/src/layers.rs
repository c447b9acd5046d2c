//! Metrics by layer, from `layers.csv`: a short curve for each statistic and layer that the report shows.

use std::{collections::BTreeMap, path::Path};

use altgrad_metrics::{Statistic, report};
use altgrad_run_folder::rows::{Rows, number};

use super::series::Series;

/// Points of a layer's curve: a column of a picture each.
const CAPACITY: usize = 24;
/// Layers that are kept; a model of 1000 blocks has fewer.
const MOST_LAYERS: usize = 8192;

/// Curves by statistic and layer.
pub type Layers = BTreeMap<Statistic, BTreeMap<String, Series>>;

/// Reads the file; empty without one. The second number counts rows left out.
///
/// # Errors
/// One sentence: the file cannot be read.
pub(super) fn read(path: &Path) -> Result<(Layers, u64), String> {
    let Some(mut rows) = Rows::open(path)? else { return Ok((Layers::new(), 0)) };
    let kept = |name: &str| Statistic::parse(name).filter(report::keeps_layers);
    let wanted: Vec<(Statistic, usize)> =
        rows.columns().filter_map(|(name, index)| Some((kept(name)?, index))).collect();
    let Some(layer_column) = rows.column("layer") else { return Err("it has no column `layer`".into()) };
    let mut index: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let mut curves: Vec<Vec<Series>> = Vec::new();
    while let Some((step, cells)) = rows.next_row()? {
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
            layers.entry(*statistic).or_default().insert(layer.clone(), curve.clone());
        }
    }
    Ok((layers, rows.damaged))
}

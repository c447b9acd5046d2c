//! Metrics by layer, from `layers.csv`: a short curve for each statistic and layer that the report shows.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use altgrad_metrics::{Statistic, report};

use super::{layer_rows::LayerRows, series::Series};

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
    let mut layers = Layers::new();
    let Some(mut rows) = LayerRows::open(path)? else { return Ok((layers, 0)) };
    let (mut known, mut values) = (BTreeSet::new(), Vec::new());
    while let Some((step, layer)) = rows.next_row(&mut values)? {
        if !known.contains(layer) {
            if known.len() == MOST_LAYERS {
                continue;
            }
            known.insert(layer.to_vec());
        }
        let layer = String::from_utf8_lossy(layer);
        for (statistic, value) in values.iter().filter(|(statistic, _)| report::keeps_layers(statistic)) {
            let curves = layers.entry(*statistic).or_default();
            match curves.get_mut(layer.as_ref()) {
                Some(curve) => curve.add(step, *value),
                None => {
                    let mut curve = Series::new(CAPACITY);
                    curve.add(step, *value);
                    curves.insert(layer.clone().into_owned(), curve);
                }
            }
        }
    }
    // A curve of values that are not finite shows nothing.
    layers.values_mut().for_each(|curves| curves.retain(|_, curve| curve.last().is_some()));
    layers.retain(|_, curves| !curves.is_empty());
    Ok((layers, rows.damaged()))
}

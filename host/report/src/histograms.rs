//! Distributions, from `histograms.csv`: codes by role, update spectra, and spacings by layer.
//!
//! A row without edges has those of the row above with its name. Earlier versions wrote no column `layer`, the name had
//! it, and every row had edges. Codes of all layers of a role are added, and the spectra of all layers. A spectrum's
//! fine bins become whole octaves. Lines are long, so only displayed ones are parsed.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use altgrad_metrics::{
    MetricId, Role,
    families::{codes::CODE_HIST, update_distances::ULP_HIST, weights::SPACING_HIST},
};
use altgrad_run_folder::rows::{Rows, number};

use super::series::Timeline;

/// Columns of a picture over time.
const COLUMNS: usize = 32;
/// Bins of the longest distribution that is kept.
const MOST_BINS: usize = 4096;
/// Layers whose spacings are kept.
const MOST_LAYERS: usize = 8192;

/// A run's distributions.
#[derive(Debug, Clone, Default)]
pub struct Histograms {
    /// Share of elements by code, over steps, by role.
    pub codes: BTreeMap<Role, Timeline>,
    /// Share of elements by octave of their distance in an update, over steps.
    pub ulps: Option<Timeline>,
    /// Centres of those octaves, log2 ULP; the first also holds everything below, zero included.
    pub octaves: Vec<f64>,
    /// The last spacing histogram of weights, by layer: step, centres of the bins in log2, counts.
    pub spacings: BTreeMap<String, (u64, Vec<f64>, Vec<f64>)>,
}

/// Counts of one step, being added up.
#[derive(Default)]
struct Sum {
    step: u64,
    counts: Vec<f64>,
}

impl Sum {
    /// Adds a layer's histogram; returns the sum of the previous step, once that step is over.
    fn add(&mut self, step: u64, counts: Vec<f64>) -> Option<(u64, Vec<f64>)> {
        let done = (self.step != step).then(|| self.take()).flatten();
        self.step = step;
        if self.counts.len() == counts.len() {
            self.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        } else if self.counts.is_empty() {
            self.counts = counts;
        }
        done
    }

    fn take(&mut self) -> Option<(u64, Vec<f64>)> {
        let counts = std::mem::take(&mut self.counts);
        let total: f64 = counts.iter().sum();
        (total > 0.0).then(|| (self.step, counts.into_iter().map(|count| count / total).collect()))
    }
}

/// Reads the file; empty without one. The second number counts rows left out.
///
/// # Errors
/// One sentence: the file cannot be read.
pub(super) fn read(path: &Path) -> Result<(Histograms, u64), String> {
    let mut found = Histograms::default();
    let Some(mut rows) = Rows::open(path)? else { return Ok((found, 0)) };
    let columns = ["name", "edges", "counts"].map(|name| rows.column(name));
    let [Some(name), Some(edges), Some(counts)] = columns else {
        return Err("it has no columns `name`, `edges` and `counts`".into());
    };
    let layer = rows.column("layer");
    let mut codes: BTreeMap<Role, Sum> = BTreeMap::new();
    let mut ulps = Sum::default();
    let mut above: HashMap<Vec<u8>, Vec<f64>> = HashMap::new();
    while let Some((step, cells)) = rows.next_row()? {
        let layer = layer.map(|layer| &cells[layer]).unwrap_or_default();
        let Some(id) = full_name(&cells[name], layer) else { continue };
        let (definition, role) = (id.definition(), id.statistic.role);
        if let Some(role) = role.filter(|_| *definition == CODE_HIST) {
            let sum = codes.entry(role).or_default();
            if let Some((step, shares)) = numbers(&cells[counts]).and_then(|counts| sum.add(step, counts)) {
                timeline(&mut found.codes, role).add(step, shares);
            }
        } else if *definition == ULP_HIST {
            if found.octaves.is_empty() {
                let edges = edges_of(&mut above, &cells[name], &cells[edges]);
                found.octaves = edges.map(|edges| octaves(edges)).unwrap_or_default();
            }
            let spectrum = numbers(&cells[counts]).map(|counts| by_octave(&counts, found.octaves.len()));
            if let Some((step, shares)) = spectrum.and_then(|spectrum| ulps.add(step, spectrum)) {
                found.ulps.get_or_insert_with(|| Timeline::new(COLUMNS)).add(step, shares);
            }
        } else if let Some(layer) = id.layer().filter(|_| *definition == SPACING_HIST) {
            let both = edges_of(&mut above, &cells[name], &cells[edges]).zip(numbers(&cells[counts]));
            if let Some((edges, counts)) = both.filter(|(edges, counts)| edges.len() == counts.len() + 1) {
                let known = found.spacings.contains_key(layer.as_str()) || found.spacings.len() < MOST_LAYERS;
                if known {
                    let centres = edges.windows(2).map(|edge| (edge[0] + edge[1]) / 2.0).collect();
                    found.spacings.insert(layer.to_string(), (step, centres, counts));
                }
            }
        }
    }
    for (role, mut sum) in codes {
        if let Some((step, shares)) = sum.take() {
            timeline(&mut found.codes, role).add(step, shares);
        }
    }
    if let Some((step, shares)) = ulps.take() {
        found.ulps.get_or_insert_with(|| Timeline::new(COLUMNS)).add(step, shares);
    }
    Ok((found, rows.damaged))
}

/// The metric of a row; without a column for layers the name has its layer.
fn full_name(name: &[u8], layer: &[u8]) -> Option<MetricId> {
    let (name, layer) = (std::str::from_utf8(name).ok()?, std::str::from_utf8(layer).ok()?);
    if layer.is_empty() { name.parse().ok() } else { format!("{name}/{layer}").parse().ok() }
}

/// The edges of a row: its own, or those of the row above with its name.
fn edges_of<'a>(above: &'a mut HashMap<Vec<u8>, Vec<f64>>, name: &[u8], own: &[u8]) -> Option<&'a Vec<f64>> {
    if !own.is_empty() {
        match numbers(own) {
            Some(edges) => above.insert(name.to_vec(), edges),
            None => above.remove(name),
        };
    }
    above.get(name)
}

fn timeline(codes: &mut BTreeMap<Role, Timeline>, role: Role) -> &mut Timeline {
    codes.entry(role).or_insert_with(|| Timeline::new(COLUMNS))
}

/// Numbers between spaces; `None` if one is none, or there are too many.
fn numbers(cell: &[u8]) -> Option<Vec<f64>> {
    let numbers: Option<Vec<f64>> =
        cell.split(|byte| *byte == b' ').take(MOST_BINS + 1).map(number).collect();
    numbers.filter(|numbers| numbers.len() <= MOST_BINS && numbers.iter().all(|number| number.is_finite()))
}

/// Bins per octave, in the host's spectra: one below all octaves, then this number each.
const BINS_AN_OCTAVE: usize = 8;

/// Centres in log2 of the octaves of a spectrum with these edges, and before them one for everything below.
fn octaves(edges: &[f64]) -> Vec<f64> {
    let starts: Vec<f64> = edges.iter().skip(1).step_by(BINS_AN_OCTAVE).map(|edge| edge.log2()).collect();
    let octaves = starts.windows(2).map(|start| (start[0] + start[1]) / 2.0);
    let below = starts.first().map(|first| first - 0.5);
    below.into_iter().chain(octaves).filter(|centre| centre.is_finite()).collect()
}

/// The counts of a spectrum by octave, everything below first.
fn by_octave(counts: &[f64], octaves: usize) -> Vec<f64> {
    let below = counts.iter().take(1).copied();
    let sums = counts[1.min(counts.len())..].chunks(BINS_AN_OCTAVE).map(|bins| bins.iter().sum());
    let mut sums: Vec<f64> = below.chain(sums).collect();
    sums.resize(octaves, 0.0);
    sums
}

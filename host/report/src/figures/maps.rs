//! Heat maps of any metric: layers over steps, one map for each configuration, all on one scale.
//!
//! A cell is the mean over the seeds and the steps of its column. Maps of one metric have the same rows and columns, so
//! that they can be compared cell by cell. Metrics that never change are left out.

use std::collections::{BTreeMap, BTreeSet};

use altgrad_metrics::{
    Statistic,
    families::{
        fidelity::GRAD_COS_SIM,
        ranks::{EFFECTIVE_RANK, STABLE_RANK},
    },
};

use super::{
    Chart, Context, Drawings, MOST_DETAILED, downwards, in_model_order, layer_name,
    layers::{LEAST_LOST, lost},
};
use crate::{
    draw::{Axis, Kind, Palette, Picture, Plot},
    series::Series,
};

/// Pixels of a row: a line of text.
const ROW: usize = 17;
/// Columns of a map.
const COLUMNS: usize = 24;
/// Cells of all maps together: the maps of a page take a byte each, and a third more as text.
const CELLS: usize = 400_000;
/// Quotient of the largest and the least value from which on colours follow the logarithm.
const WIDE: f64 = 100.0;
const COSINE: Statistic = Statistic::new(&GRAD_COS_SIM);

/// The maps of a metric.
#[derive(Debug)]
pub(crate) struct Maps {
    /// The metric's name, as in `layers.csv`.
    pub name: String,
    /// A map for each configuration with the metric.
    pub by_group: Vec<(usize, Plot)>,
}

pub(super) fn chart(context: &Context<'_>) -> Chart {
    Chart {
        id: "maps",
        title: "Layers over time",
        caption: "A metric by layer (rows) and step (columns), mean over seeds, on a scale that all configurations share. Scales over more than two decades are logarithmic; the lowest colour then holds zeros, and differences from 1 that f32 cannot resolve. Of the gradient's cosine the map shows one minus it, of ranks the share of the first. Blank: not recorded.",
        needs: "`[metrics] every` or `[shadow] every`, and two steps that measure",
        wide: true,
        drawings: drawings(context),
    }
}

fn drawings(context: &Context<'_>) -> Drawings {
    let mut statistics: Vec<Statistic> = Vec::new();
    for statistic in context.runs.iter().flat_map(|run| run.layers.keys()) {
        if !statistics.contains(statistic) {
            statistics.push(*statistic);
        }
    }
    // Names of one role lie together, and the direction of the gradient comes first.
    statistics.sort_by_cached_key(|statistic| (*statistic != COSINE, statistic.to_string()));
    let tables: Vec<Tables> =
        statistics.into_iter().filter_map(|statistic| Tables::of(context, statistic)).collect();
    let rows: usize = tables.iter().map(|tables| tables.layers.len() * tables.by_group.len()).sum();
    let columns = (CELLS / rows.max(1)).clamp(1, COLUMNS);
    let maps: Vec<Maps> = tables.iter().filter_map(|tables| tables.maps(columns)).collect();
    if maps.is_empty() { Drawings::None } else { Drawings::Maps(maps) }
}

/// The curves of a metric.
struct Tables<'a> {
    statistic: Statistic,
    layers: Vec<&'a String>,
    /// The last step of any.
    end: u64,
    /// Configurations, and the curves of their seeds, layer by layer.
    by_group: Vec<(usize, Vec<Vec<&'a Series>>)>,
}

impl<'a> Tables<'a> {
    fn of(context: &Context<'a>, statistic: Statistic) -> Option<Self> {
        let of_run = |run: usize| context.runs[run].layers.get(&statistic);
        let names: BTreeSet<&String> =
            (0..context.runs.len()).filter_map(of_run).flat_map(BTreeMap::keys).collect();
        let mut layers: Vec<&String> = names.into_iter().collect();
        in_model_order(&mut layers);
        let has =
            |(_, group): &(usize, &crate::group::Group)| group.runs.iter().any(|run| of_run(*run).is_some());
        let groups = context.groups.iter().enumerate().filter(has).take(MOST_DETAILED);
        let curves = |layer: &&String, runs: &[usize]| -> Vec<&'a Series> {
            runs.iter().filter_map(|run| of_run(*run)?.get(*layer)).collect()
        };
        let by_group: Vec<_> = groups
            .map(|(index, group)| (index, layers.iter().map(|layer| curves(layer, &group.runs)).collect()))
            .collect();
        let all =
            by_group.iter().flat_map(|(_, layers): &(usize, Vec<Vec<&Series>>)| layers.iter().flatten());
        let end = all.filter_map(|curve| Some(curve.last()?.0)).max().filter(|end| *end > 0)?;
        Some(Self { statistic, layers, end, by_group })
    }

    /// The value that is drawn.
    fn shown(&self, curve: &Series, value: f64) -> Option<f64> {
        let of = self.statistic.definition;
        let shown = if self.statistic == COSINE {
            lost(value)
        } else if *of == EFFECTIVE_RANK || *of == STABLE_RANK {
            value / curve.first()?.1
        } else {
            value
        };
        Some(shown).filter(|shown| shown.is_finite())
    }

    fn title(&self) -> String {
        let of = self.statistic.definition;
        if self.statistic == COSINE {
            "1 - cosine".into()
        } else if *of == EFFECTIVE_RANK || *of == STABLE_RANK {
            format!("{}, share of the first", self.statistic)
        } else {
            self.statistic.to_string()
        }
    }

    /// The cells of a layer: means over seeds and over the steps of each column.
    fn row(&self, curves: &[&Series], columns: usize) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0u32); columns];
        for curve in curves {
            for (step, value) in curve.means(COLUMNS) {
                // The last step belongs to the last column.
                let column = (step as f64 / (self.end + 1) as f64 * columns as f64) as usize;
                if let Some((cell, value)) = sums.get_mut(column).zip(self.shown(curve, value)) {
                    (cell.0, cell.1) = (cell.0 + value, cell.1 + 1);
                }
            }
        }
        sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / f64::from(count))).collect()
    }

    /// Fewer columns where measurements are rarer than columns: cells without one would be blank. A curve that ends
    /// early counts as if it continued at its rate; one of a single measurement has none.
    fn columns(&self, most: usize) -> usize {
        let all = self.by_group.iter().flat_map(|(_, layers)| layers.iter().flatten());
        let to_the_end = |curve: &&Series| {
            let (count, (last, _)) = (curve.means(COLUMNS).len(), curve.last()?);
            (count > 1).then(|| (count as f64 * (self.end + 1) as f64 / (last + 1) as f64) as usize)
        };
        all.filter_map(to_the_end).min().unwrap_or(1).clamp(1, most)
    }

    fn maps(&self, most: usize) -> Option<Maps> {
        let columns = self.columns(most);
        let tables: Vec<(usize, Vec<Vec<Option<f64>>>)> = self
            .by_group
            .iter()
            .map(|(group, layers)| (*group, layers.iter().map(|curves| self.row(curves, columns)).collect()))
            .collect();
        let all = || tables.iter().flat_map(|(_, rows)| rows.iter().flatten().copied().flatten());
        let (low, high) =
            all().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        if low >= high {
            return None;
        }
        // Values at the floor have no influence on the scale; the mean of several is not exactly the floor.
        let floor = if self.statistic == COSINE { 1.01 * LEAST_LOST } else { 0.0 };
        let least = all().filter(|value| *value > floor).fold(f64::MAX, f64::min);
        let is_log = low >= 0.0 && high > WIDE * least;
        let kind = if is_log { Kind::Log } else { Kind::Linear };
        let range = [if is_log { least } else { low }, high];
        let axis = Axis::over(&self.title(), kind, std::iter::empty()).with_range(range);
        let plot = |rows: Vec<Vec<Option<f64>>>| {
            let picture = Picture {
                rows,
                range,
                is_log,
                palette: Palette::Sequential,
                title: axis.title.clone(),
                scale: axis.ticks().into_iter().map(|(place, text)| (place / 1000.0, text)).collect(),
            };
            self.plot(picture)
        };
        let by_group = tables.into_iter().map(|(group, rows)| (group, plot(rows))).collect();
        Some(Maps { name: self.statistic.to_string(), by_group })
    }

    fn plot(&self, picture: Picture) -> Plot {
        let names: Vec<String> = self.layers.iter().map(|layer| layer_name(layer)).collect();
        Plot {
            x: Axis::over("step", Kind::Linear, std::iter::empty()).with_range([0.0, self.end as f64 + 1.0]),
            y: Axis::over("", Kind::Names(downwards(&names)), std::iter::empty()),
            series: Vec::new(),
            picture: Some(picture),
            rules: Vec::new(),
            texts: Vec::new(),
            height: (names.len() * ROW + 6).clamp(60, 1600),
        }
    }
}

//! Parallel coordinates: every configuration as one line through its settings and measurements.
//!
//! Axes lie one below the other, each with its own range at its ends, so that names fit on any screen.

use altgrad_metrics::report::{self, ColumnFormat};

use super::{Chart, Context, downwards};
use crate::{
    compare::Row,
    draw::{Axis, Kind, Part, Plot, axis::number},
    table::{Cell, Digits},
};

/// Hyperparameters that have an axis.
const MOST_SETTINGS: usize = 6;

/// A number of each configuration.
struct Measure {
    name: String,
    /// As in tables; none for settings.
    format: Option<ColumnFormat>,
    /// True if positions follow the logarithm.
    is_log: bool,
    /// In the order of the rows.
    values: Vec<Option<f64>>,
}

fn measures(context: &Context<'_>) -> Vec<Measure> {
    let rows = &context.comparison.rows;
    let group = |row: &Row| context.groups.iter().find(|group| group.label == row.label);
    let mut keys: Vec<&String> = context.comparison.sets.iter().flat_map(|set| &set.settings).collect();
    keys.sort();
    keys.dedup();
    let setting = |key: &&String| {
        let value = |row: &Row| context.runs[group(row)?.runs[0]].config.get(key)?.parse::<f64>().ok();
        let values: Vec<Option<f64>> = rows.iter().map(value).collect();
        let is_log = values.iter().flatten().all(|value| *value > 0.0);
        Measure { name: (*key).clone(), format: None, is_log, values }
    };
    let loss = Measure {
        name: "held-out loss".into(),
        format: Some(ColumnFormat::Fixed(4)),
        is_log: false,
        values: rows.iter().map(|row| Some(row.loss?.mean)).collect(),
    };
    let metrics = report::columns().into_iter().enumerate().map(|(index, (_, column))| Measure {
        name: column.head.into(),
        format: Some(column.format),
        is_log: false,
        values: rows.iter().map(|row| row.metrics.0[index]).collect(),
    });
    let all =
        keys.iter().map(setting).filter(Measure::differs).take(MOST_SETTINGS).chain([loss]).chain(metrics);
    all.filter(|measure| measure.values.iter().flatten().count() > 1).collect()
}

impl Measure {
    fn range(&self) -> (f64, f64) {
        let values = self.values.iter().flatten();
        values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)))
    }

    fn differs(&self) -> bool {
        let (low, high) = self.range();
        low < high
    }

    /// From 0 at its least value to 1 at its largest.
    fn place(&self, value: f64) -> f64 {
        let of = |value: f64| if self.is_log { value.log10() } else { value };
        let (low, high) = self.range();
        if high > low { (of(value) - of(low)) / (of(high) - of(low)) } else { 0.5 }
    }

    fn said(&self, value: f64) -> String {
        match self.format {
            Some(ColumnFormat::Percent) => format!("{} %", number(value * 100.0, 0.0)),
            Some(ColumnFormat::Fixed(digits)) => Cell::Number(value, Digits::Fixed(digits)).show(""),
            None if value.abs() >= 100.0 => number(value, 1.0),
            None => number(value, 0.0).chars().take(8).collect(),
        }
    }
}

pub(super) fn chart(context: &Context<'_>) -> Chart {
    let measures = measures(context);
    let rows = context.comparison.rows.len();
    Chart {
        id: "profile",
        title: "Parallel coordinates",
        caption: "Each line is a configuration; each row a setting or a measure from its least (left) to its largest value (right). Lines that cross trade one measure for another. A gap is a measure that was not recorded.",
        needs: "two configurations with an evaluation",
        wide: true,
        drawings: (measures.len() > 1 && rows > 1).then(|| plot(context, &measures)).into(),
    }
}

fn plot(context: &Context<'_>, measures: &[Measure]) -> Plot {
    let row_of = |index: usize| (measures.len() - 1 - index) as f64;
    let mut series = Vec::new();
    for (at, row) in context.comparison.rows.iter().enumerate() {
        let group = context.groups.iter().position(|group| group.label == row.label).unwrap_or(0);
        let point = |(index, measure): (usize, &Measure)| match measure.values[at] {
            Some(value) => {
                ([measure.place(value), row_of(index)], format!("{} {}", measure.name, measure.said(value)))
            }
            None => ([f64::NAN, row_of(index)], String::new()),
        };
        let points: Vec<([f64; 2], String)> = measures.iter().enumerate().map(point).collect();
        let line = points.iter().map(|(point, _)| *point).collect();
        series.push(context.series(group, vec![Part::Line(line), Part::Dots(points)]));
    }
    let mut texts = Vec::new();
    for (index, measure) in measures.iter().enumerate() {
        let (low, high) = measure.range();
        texts.push((0.0, row_of(index) + 0.3, measure.said(low)));
        texts.push((1.0, row_of(index) + 0.3, measure.said(high)));
    }
    let names: Vec<String> = measures.iter().map(|measure| measure.name.clone()).collect();
    let x = Axis::over("", Kind::Linear, std::iter::empty()).with_range([-0.02, 1.02]).without_labels();
    let y = Axis::over("", Kind::Names(downwards(&names)), std::iter::empty());
    Plot { x, y, series, picture: None, rules: Vec::new(), texts, height: measures.len() * 62 }
}

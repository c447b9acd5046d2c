//! Forest plot: each configuration's difference from its baseline with its interval.

use super::{Chart, Context, Drawings, downwards};
use crate::{
    compare::Row,
    draw::{Axis, Kind, Part, Plot, Rule},
};

/// Pixels of a row.
const ROW: usize = 24;
/// Rows that are drawn: those that were tested first.
const MOST: usize = 60;

pub(super) fn chart(context: &Context<'_>) -> Chart {
    let has = |row: &&Row| row.difference.is_some();
    let mut rows: Vec<&Row> = context.comparison.rows.iter().filter(has).collect();
    rows.sort_by_key(|row| row.p_holm.is_none());
    rows.truncate(MOST);
    Chart {
        id: "forest",
        title: "Difference from the baseline",
        caption: "Held-out loss minus the baseline's, paired by seed: mean and 95 % interval; without an interval it is one seed. Left of the line is better.",
        needs: "two configurations of the same data, model and length that evaluated after the same step",
        wide: true,
        drawings: if rows.is_empty() { Drawings::None } else { Some(plot(context, &rows)).into() },
    }
}

fn plot(context: &Context<'_>, rows: &[&Row]) -> Plot {
    let names: Vec<String> = rows.iter().map(|row| row.label.clone()).collect();
    let place = |index: usize| (rows.len() - 1 - index) as f64;
    let differences =
        || rows.iter().enumerate().filter_map(|(index, row)| Some((index, row, row.difference?)));
    let series = differences().map(|(index, row, difference)| {
        let group = context.groups.iter().position(|group| group.label == row.label).unwrap_or(0);
        let [low, high] = difference.interval().unwrap_or([difference.mean; 2]);
        let note = format!("{:.4} ({low:.4} to {high:.4}), n = {}", difference.mean, difference.n);
        context.series(
            group,
            vec![
                Part::Intervals(vec![[place(index), low, high]]),
                Part::Dots(vec![([difference.mean, place(index)], note)]),
            ],
        )
    });
    // Intervals of two seeds are wide: they may leave the drawing; the means and the narrowest interval may not.
    let halves = differences().filter_map(|(.., difference)| difference.half_width);
    let narrowest = halves.reduce(f64::min).unwrap_or(0.0);
    let means = || differences().map(|(.., difference)| difference.mean);
    let widest = means().fold(1e-6, |widest: f64, mean| widest.max(mean.abs()));
    let ends = differences().flat_map(|(.., difference)| difference.interval().into_iter().flatten());
    let most = 4.0 * (widest + narrowest);
    let ends = ends.map(|end| end.clamp(-most, most));
    let x = Axis::over("nats per token", Kind::Linear, ends.chain(means()).chain([0.0]));
    let y = Axis::over("", Kind::Names(downwards(&names)), std::iter::empty());
    Plot {
        x,
        y,
        series: series.collect(),
        picture: None,
        rules: vec![Rule::Vertical(0.0)],
        texts: Vec::new(),
        height: rows.len() * ROW + 16,
    }
}

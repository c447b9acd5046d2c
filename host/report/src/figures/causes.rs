//! Causes of a loss increase over steps: the part of each cause's effect that rounding in these steps has.

use std::collections::BTreeMap;

use super::{Chart, Context, downwards};
use crate::{
    causes::CauseSearch,
    draw::{Axis, Kind, Palette, Picture, Plot},
};

/// Pixels of a row.
const ROW: usize = 24;
/// Columns: the resolution of the search.
const COLUMNS: u64 = 16;

pub(super) fn chart(context: &Context<'_>) -> Chart {
    let plots: BTreeMap<usize, Plot> = context.by_run(|run| context.runs[run].causes.as_ref().and_then(plot));
    Chart {
        id: "causes",
        title: "Causes over steps",
        caption: "Share of a cause's effect on the final loss that rounding in these steps has: what is recovered by undoing it up to the end of the steps, minus up to their beginning. Between measured steps the share is spread evenly. A negative share: rounding in these steps lowers the loss.",
        needs: "`altgrad-host blame RUN`, and a cause that is a cast",
        wide: true,
        drawings: plots.into(),
    }
}

fn plot(search: &CauseSearch) -> Option<Plot> {
    if search.windows.is_empty() {
        return None;
    }
    let edge = |column: u64| {
        search.from as f64 + (search.steps - search.from) as f64 * column as f64 / COLUMNS as f64
    };
    let rows = search.windows.iter().map(|window| {
        let before = |column: u64| window.recovered_before(edge(column));
        (0..COLUMNS).map(|column| Some(before(column + 1)? - before(column)?)).collect()
    });
    let rows: Vec<Vec<Option<f64>>> = rows.collect();
    let most = rows.iter().flatten().flatten().fold(1e-3, |most: f64, share| most.max(share.abs()));
    let axis = Axis::over("share of the effect", Kind::Linear, std::iter::empty()).with_range([-most, most]);
    let names: Vec<String> =
        search.windows.iter().map(|window| crate::text::shortened(&window.name, 40)).collect();
    let scale = axis.ticks().into_iter().map(|(place, text)| (place / 1000.0, text)).collect();
    let range = axis.range;
    Some(Plot {
        x: Axis::over("step", Kind::Linear, std::iter::empty()).with_range([edge(0), edge(COLUMNS)]),
        y: Axis::over("", Kind::Names(downwards(&names)), std::iter::empty()),
        series: Vec::new(),
        picture: Some(Picture {
            rows,
            range,
            is_log: false,
            palette: Palette::Diverging,
            title: axis.title,
            scale,
        }),
        rules: Vec::new(),
        texts: Vec::new(),
        height: (names.len() * ROW + 16).max(60),
    })
}

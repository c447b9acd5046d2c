//! The tables of `compare` and of the report.

use std::collections::BTreeSet;

use altgrad_metrics::report::{self, ColumnFormat};

use super::{
    causes::MeasuredEffect,
    compare::{Comparison, Row},
    failures,
    find::LeftOut,
    group::{Group, differing},
    run::Run,
    table::{Cell, Digits, Table},
};

/// Keys by which configurations differ, that are shown.
const MOST_KEYS: usize = 24;
/// Columns of the comparison that a narrow terminal shows, the most important first.
const KEPT: [&str; 5] = ["configuration", "held-out loss ± sd", "minus baseline ± 95 %", "verdict", "seeds"];

/// One row a configuration.
#[must_use]
pub fn comparison(comparison: &Comparison) -> Table {
    let mut columns = vec![
        "configuration",
        "seeds",
        "steps",
        "held-out loss ± sd",
        "best loss",
        "perplexity",
        "ratio",
        "minus baseline ± 95 %",
        "verdict",
    ];
    columns.extend(report::columns().iter().map(|(_, column)| column.head));
    let mut table = Table::new("comparison", "Held-out loss in nats per token, by configuration", &columns);
    table.keep = &KEPT;
    table.rows = comparison.rows.iter().map(comparison_row).collect();
    table
}

fn comparison_row(row: &Row) -> Vec<Cell> {
    let [done, all] = row.seeds;
    let seeds = if done == all { all.to_string() } else { format!("{done} of {all}") };
    let steps = row.steps.map(
        |[first, last]| {
            if first == last { last.to_string() } else { format!("{first} to {last}") }
        },
    );
    let difference = row.difference;
    let verdict = match difference {
        Some(difference) if difference.n == 1 => format!("{} (n = 1)", row.verdict.name()),
        _ => row.verdict.name().to_string(),
    };
    let mut cells = vec![
        Cell::text(&row.label),
        Cell::text(seeds),
        steps.map_or(Cell::Missing, Cell::Text),
        Cell::spread(row.loss.map(|loss| loss.mean), row.loss.and_then(|loss| loss.sd), Digits::Fixed(4)),
        Cell::number(row.best, Digits::Fixed(4)),
        Cell::number(row.perplexity, Digits::Fixed(3)),
        Cell::number(row.ratio, Digits::Fixed(3)),
        Cell::spread(
            difference.map(|difference| difference.mean),
            difference.and_then(|difference| difference.half_width),
            Digits::Fixed(4),
        ),
        Cell::text(verdict),
    ];
    let metrics = report::columns().into_iter().zip(&row.metrics.0);
    cells.extend(metrics.map(|((_, column), value)| Cell::number(*value, digits(column.format))));
    cells
}

fn digits(format: ColumnFormat) -> Digits {
    match format {
        ColumnFormat::Fixed(digits) => Digits::Fixed(digits),
        ColumnFormat::Percent => Digits::Percent,
    }
}

/// One row per run: its outcome and its device.
#[must_use]
pub fn runs(runs: &[Run]) -> Table {
    let columns = [
        "run",
        "status",
        "steps",
        "seed",
        "held-out loss",
        "of",
        "best loss",
        "device",
        "threads",
        "host",
        "parameters",
        "bits per value (weight/activation/gradient)",
        "resumed",
        "folder",
    ];
    let mut table = Table::new("runs", "Runs and environments", &columns);
    let count = |count: Option<u64>| Cell::number(count.map(|count| count as f64), Digits::Fixed(0));
    let text = |text: Option<&str>| text.map_or(Cell::Missing, Cell::text);
    for run in runs {
        table.rows.push(vec![
            Cell::text(&run.name),
            Cell::text(run.state.name()),
            count(run.steps),
            text(run.seed()),
            Cell::number(run.final_loss().map(|last| last.loss), Digits::Fixed(4)),
            run.final_loss().map_or(Cell::Missing, |last| {
                Cell::text(if last.is_full { "the whole split" } else { "a sample" })
            }),
            Cell::number(run.best_loss().map(|(_, loss)| loss), Digits::Fixed(4)),
            text(run.status.device.as_deref()),
            count(run.status.threads),
            text(run.status.host_version.as_deref()),
            count(run.status.parameters),
            text(run.status.bits.as_deref()),
            Cell::number((run.status.resumes > 0).then_some(run.status.resumes as f64), Digits::Fixed(0)),
            Cell::text(run.path.display().to_string()),
        ]);
    }
    table
}

/// One row a plugin build: two rows of one plugin mean that runs used different code.
#[must_use]
pub fn plugins(runs: &[Run]) -> Table {
    let mut table = Table::new(
        "plugins",
        "Plugins the runs used",
        &["provides", "sha256", "compiler", "checked", "runs"],
    );
    let known: BTreeSet<_> = runs.iter().flat_map(|run| &run.status.plugins).collect();
    for plugin in known {
        let used = runs.iter().filter(|run| run.status.plugins.contains(plugin)).count();
        table.rows.push(vec![
            Cell::text(&plugin.provides),
            Cell::text(&plugin.sha256),
            Cell::text(&plugin.rustc),
            plugin.checked.map_or(Cell::Missing, |checked| Cell::text(if checked { "yes" } else { "no" })),
            Cell::Number(used as f64, Digits::Fixed(0)),
        ]);
    }
    table
}

/// One row per configuration, one column per key in which they differ.
#[must_use]
pub fn configurations(runs: &[Run], groups: &[Group]) -> Table {
    let with_config = || groups.iter().filter(|group| !runs[group.runs[0]].config.is_empty());
    let mut keys = differing(with_config().map(|group| &runs[group.runs[0]].config));
    keys.truncate(MOST_KEYS);
    let mut table =
        Table::new("configurations", "Keys in which the configurations differ", &["configuration"]);
    table.columns.extend(keys.iter().cloned());
    for group in with_config() {
        let config = &runs[group.runs[0]].config;
        let value = |key: &String| config.get(key).map_or(Cell::Missing, Cell::text);
        table.rows.push(std::iter::once(Cell::text(&group.label)).chain(keys.iter().map(value)).collect());
    }
    table
}

/// One row a failure.
#[must_use]
pub fn failures(runs: &[Run]) -> Table {
    let mut table =
        Table::new("failures", "What went wrong, with its evidence", &["run", "class", "evidence"]);
    for run in runs {
        for failure in failures::of(run) {
            table.rows.push(vec![
                Cell::text(&run.name),
                Cell::text(failure.class),
                Cell::Text(failure.evidence),
            ]);
        }
    }
    table
}

/// One row per sink that lacks rows or events of its run: derived files lack them too.
#[must_use]
pub fn missing(runs: &[Run]) -> Table {
    let columns = ["run", "sink", "rows missing", "events missing", "from step", "gaps found on resuming"];
    let mut table = Table::new("missing", "Rows that were lost", &columns);
    let count = |count: u64| Cell::Number(count as f64, Digits::Fixed(0));
    for run in runs {
        for sink in &run.status.incomplete {
            let gaps = (!sink.gaps.is_empty()).then(|| sink.gaps.join("; "));
            table.rows.push(vec![
                Cell::text(&run.name),
                Cell::text(&sink.name),
                count(sink.rows),
                count(sink.events),
                sink.from_step.map_or(Cell::Missing, count),
                gaps.map_or(Cell::Missing, Cell::Text),
            ]);
        }
    }
    table
}

/// Remarks about files, and excluded runs.
#[must_use]
pub fn left_out(runs: &[Run], left_out: &[LeftOut]) -> Table {
    let mut table = Table::new("left_out", "What was left out, and why", &["folder", "reason"]);
    let row = |path: &std::path::Path, reason: &str| {
        vec![Cell::text(path.display().to_string()), Cell::text(reason)]
    };
    table.rows.extend(left_out.iter().map(|left| row(&left.path, &left.reason)));
    for run in runs {
        table.rows.extend(run.notes.iter().map(|note| row(&run.path, note)));
    }
    table
}

/// One row a group of casts that was tested in a run.
#[must_use]
pub fn causes(runs: &[Run]) -> Table {
    let columns = ["run", "group", "recovered if undone ±", "caused if alone ±", "effect"];
    let mut table = Table::new("causes", "Loss by group of casts, nats per token", &columns);
    let effect =
        |effect: MeasuredEffect| Cell::spread(Some(effect.mean), effect.half_width, Digits::Fixed(4));
    for run in runs {
        for group in run.causes.iter().flat_map(|search| search.levels.iter().flatten()) {
            let verdict = if group.is_material { "material" } else { "not detected" };
            let (run, name) = (Cell::text(&run.name), Cell::text(&group.name));
            table.rows.push(vec![run, name, effect(group.undone), effect(group.alone), Cell::text(verdict)]);
        }
    }
    table
}

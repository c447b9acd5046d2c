//! What a benchmark says, as JSON or as tables.

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

use super::{Size, machine::Machine, rival::Beside};

/// What was measured of a case.
#[derive(Debug, Serialize)]
pub(super) struct Timing {
    pub(super) case: String,
    /// Milliseconds a step: median and least.
    pub(super) median_ms: f64,
    pub(super) least_ms: f64,
    /// Of the medians and of the least, to the first case's.
    pub(super) median_ratio: f64,
    pub(super) least_ratio: f64,
    /// By the median.
    pub(super) tokens_per_s: f64,
    /// Multiplications and additions of its matrix products, in units of 10^9.
    pub(super) gflop: f64,
    /// Milliseconds they would take at the rate of one large f32 product.
    pub(super) floor_ms: f64,
    /// Milliseconds of a step's parts: medians. On a GPU, until the part is enqueued.
    pub(super) phases_ms: BTreeMap<&'static str, f64>,
    /// Beside the rival, if there is one that has the mode.
    pub(super) rival: Option<Beside>,
}

/// All of it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) size: Size,
    /// Layers, heads, width, block, batch, ids.
    pub(super) shape: [usize; 6],
    pub(super) device: String,
    pub(super) threads: usize,
    pub(super) steps: u64,
    pub(super) host_version: &'static str,
    /// Of this process and all its cases, MB; `None` where the system does not say.
    pub(super) peak_rss_mb: Option<f64>,
    /// What it held after each tenth of the steps, MB: what grows is a leak.
    pub(super) rss_mb: Vec<f64>,
    pub(super) machine: Machine,
    pub(super) cases: Vec<Timing>,
}

impl Report {
    /// For people.
    pub(super) fn text(&self) -> String {
        let parts = [heading(self), table(self).to_string(), phase_table(self).to_string(), memory(self)];
        parts.join("\n") + &floors(self)
    }
}

fn heading(report: &Report) -> String {
    format!(
        "size {:?} (layers, heads, width, block, batch, ids: {:?}), device {}, {} threads, {} steps a case, in turn",
        report.size, report.shape, report.device, report.threads, report.steps
    )
}

fn table(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let with_rival = report.cases.iter().any(|timing| timing.rival.is_some());
    let mut header = vec!["case", "median ms", "least ms", "ratio of medians", "of least", "tokens/s"];
    header.extend(with_rival.then_some(["to the rival: medians", "least"]).into_iter().flatten());
    table.set_header(header);
    for timing in &report.cases {
        let mut row = vec![
            timing.case.clone(),
            format!("{:.2}", timing.median_ms),
            format!("{:.2}", timing.least_ms),
            format!("{:.3}", timing.median_ratio),
            format!("{:.3}", timing.least_ratio),
            format!("{:.0}", timing.tokens_per_s),
        ];
        if let Some(beside) = &timing.rival {
            row.extend([beside.median_ratio, beside.least_ratio].map(|ratio| format!("{ratio:.3}")));
        }
        table.add_row(row);
    }
    table
}

/// Milliseconds of each part of a step, a case a column.
fn phase_table(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let cases = report.cases.iter().map(|timing| timing.case.as_str());
    table.set_header(std::iter::once("ms in").chain(cases));
    let names: BTreeSet<&str> =
        report.cases.iter().flat_map(|timing| timing.phases_ms.keys().copied()).collect();
    for name in names {
        let times = report
            .cases
            .iter()
            .map(|timing| timing.phases_ms.get(name).map(|time| format!("{time:.2}")).unwrap_or_default());
        table.add_row(std::iter::once(name.to_string()).chain(times));
    }
    table
}

/// A line, where the system says it.
fn memory(report: &Report) -> String {
    let (Some(peak), [first, .., last]) = (report.peak_rss_mb, report.rss_mb.as_slice()) else {
        return String::new();
    };
    format!("memory: {first:.0} MB after a tenth of the steps, {last:.0} at the end, {peak:.0} at most\n")
}

/// What the device does at best.
fn floors(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "floors: copy {:.1} GB/s, f32 products {:.0} GFLOP/s",
        machine.copy_gb_s, machine.matmul_gflop_s
    );
    if let Some(rate) = machine.matmul_bf16_gflop_s {
        text += &format!(", bf16 products {rate:.0} GFLOP/s");
    }
    for timing in &report.cases {
        text += &format!(
            "\n{}: {:.1} GFLOP of products a step, {:.2} ms at that rate, {:.0} % of the step",
            timing.case,
            timing.gflop,
            timing.floor_ms,
            100.0 * timing.floor_ms / timing.median_ms
        );
    }
    for (format, kernel) in &machine.fake_quant {
        text += &format!("\nrounding to {format}: {:.1} GB/s, {:.2} of a copy", kernel.gb_s, kernel.of_copy);
    }
    text
}

//! The results of a benchmark as text.

use std::collections::BTreeSet;

use altgrad_engine::bench::{BenchReport, checkpoints::CheckpointCost, kernels::StepKernels};
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};

/// The whole report. `size` is the name of the model's size.
pub(super) fn text(report: &BenchReport, size: &str) -> String {
    let phases = phase_table(report).map(|table| table.to_string());
    let parts = [Some(heading(report, size)), Some(table(report).to_string()), phases, Some(memory(report))];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n") + &floors(report)
}

fn heading(report: &BenchReport, size: &str) -> String {
    format!(
        "size {size} (layers, heads, width, block, batch, ids: {:?}), device {}, {} threads, {} steps per case, in turn",
        report.shape, report.device, report.threads, report.steps
    )
}

fn table(report: &BenchReport) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let with_other = report.cases.iter().any(|timing| timing.other.is_some());
    let launches = report.cases.iter().any(|timing| timing.launches > 0);
    let mut header =
        vec!["case", "median ms", "least ms", "ratio of medians", "of least", "tokens/s", "MFU %"];
    header.extend(report.machine.data_sheet.map(|_| "of data sheet %"));
    header.extend(with_other.then_some(["to the other trainer: medians", "least"]).into_iter().flatten());
    header.extend(launches.then_some("launches"));
    table.set_header(header);
    for timing in &report.cases {
        let mut row = vec![
            timing.case.clone(),
            format!("{:.2}", timing.median_ms),
            format!("{:.2}", timing.least_ms),
            format!("{:.3}", timing.median_ratio),
            format!("{:.3}", timing.least_ratio),
            format!("{:.0}", timing.tokens_per_s),
            percent(timing.mfu),
        ];
        row.extend(report.machine.data_sheet.map(|_| percent(timing.mfu_data_sheet)));
        if let Some(beside) = &timing.other {
            row.extend([beside.median_ratio, beside.least_ratio].map(|ratio| format!("{ratio:.3}")));
        }
        row.extend(launches.then(|| timing.launches.to_string()));
        table.add_row(row);
    }
    table
}

/// A share; empty if it is missing.
fn percent(share: Option<f64>) -> String {
    share.map(|share| format!("{:.1}", 100.0 * share)).unwrap_or_default()
}

/// Milliseconds of each part of a step, one column per case; `None` if no part was measured.
fn phase_table(report: &BenchReport) -> Option<Table> {
    let names: BTreeSet<&str> =
        report.cases.iter().flat_map(|timing| timing.phases_ms.keys().copied()).collect();
    if names.is_empty() {
        return None;
    }
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let cases = report.cases.iter().map(|timing| timing.case.as_str());
    table.set_header(std::iter::once("ms in").chain(cases));
    for name in names {
        let times = report
            .cases
            .iter()
            .map(|timing| timing.phases_ms.get(name).map(|time| format!("{time:.2}")).unwrap_or_default());
        table.add_row(std::iter::once(name.to_string()).chain(times));
    }
    Some(table)
}

/// Lines for what the system and the device report.
fn memory(report: &BenchReport) -> String {
    let mut text = match (report.peak_rss_mb, report.rss_mb.as_slice()) {
        (Some(peak), [first, .., last]) => format!(
            "memory: {first:.0} MB after a tenth of the steps, {last:.0} at the end, {peak:.0} at most\n"
        ),
        _ => String::new(),
    };
    text +=
        &report.device_memory_mb.map(|mb| format!("memory of the device: {mb:.0} MB\n")).unwrap_or_default();
    text
}

/// The limits of the device, and why one is missing.
fn floors(report: &BenchReport) -> String {
    let machine = &report.machine;
    let rates = [
        ("copy", machine.copy_gb_s, "GB/s"),
        ("f32 products", machine.matmul_gflop_s, "GFLOP/s"),
        ("bf16 products", machine.matmul_bf16_gflop_s, "GFLOP/s"),
        ("f32 by the data sheet", machine.data_sheet.map(|sheet| sheet.f32_gflop_s), "GFLOP/s"),
        ("bf16 by the data sheet", machine.data_sheet.map(|sheet| sheet.bf16_gflop_s), "GFLOP/s"),
    ];
    let rates =
        rates.into_iter().filter_map(|(what, rate, unit)| Some(format!("{what} {:.1} {unit}", rate?)));
    let mut text = format!("floors: {}", rates.collect::<Vec<_>>().join(", "));
    for timing in &report.cases {
        text += &format!("\n{}: {:.1} GFLOP of products per step", timing.case, timing.gflop);
        if let Some(floor) = timing.floor_ms {
            let share = 100.0 * floor / timing.median_ms;
            text += &format!(", {floor:.2} ms at that rate, {share:.0} % of the step");
        }
    }
    for (format, kernel) in &machine.fake_quant {
        text += &format!("\nrounding to {format}: {:.1} GB/s", kernel.gb_s);
        text += &kernel.of_copy.map(|share| format!(", {share:.2} of a copy")).unwrap_or_default();
    }
    for (what, why) in &machine.failed {
        text += &format!("\n{what}: not measured: {why}");
    }
    text
}

/// Costs of checkpoints.
pub(super) fn checkpoint_table(costs: &[CheckpointCost]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["case", "checkpoint every", "MB each", "ms without", "ms with", "ratio"]);
    for cost in costs {
        table.add_row([
            cost.case.clone(),
            format!("{} steps", cost.every),
            format!("{:.1}", cost.bytes as f64 / 1e6),
            format!("{:.2}", cost.without_ms),
            format!("{:.2}", cost.with_ms),
            format!("{:.3}", cost.ratio),
        ]);
    }
    table
}

/// The kernels of a step, a table per case.
pub(super) fn kernel_tables(cases: &[StepKernels]) -> String {
    let of_case = |step: &StepKernels| {
        let StepKernels { case, device, launches, kernels } = step;
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_header(["kernel", "launches", "ms on the device", "source"]);
        for kernel in kernels {
            let ms = kernel.device_ms.map(|ms| format!("{ms:.3}")).unwrap_or_default();
            table.add_row([kernel.kernel.clone(), kernel.launches.to_string(), ms, kernel.source.clone()]);
        }
        format!("{case} on {device}: {launches} launches per step\n{table}")
    };
    cases.iter().map(of_case).collect::<Vec<_>>().join("\n")
}

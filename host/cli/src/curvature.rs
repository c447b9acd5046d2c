//! `curvature`: eigenvalue and trace of the Hessian of a trained model, its Fisher trace, and its gradient noise.

use std::process::ExitCode;

use altgrad_base::{diagnostic::Diagnostic, println};
use altgrad_engine::{
    curvature::{Curvature, CurvatureSpec, estimate::Estimate, hessian::RELATIVE_STEP},
    evaluate::Evaluator,
};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use serde_json::{Value, json};

use super::{evaluate::SplitArgument, saved_model::SavedModelArgs};

/// `altgrad-host curvature`.
#[derive(Debug, Args)]
pub(super) struct CurvatureArgs {
    #[command(flatten)]
    pub(super) model: SavedModelArgs,
    /// Part of the run's data.
    #[arg(long, value_enum, default_value_t = SplitArgument::Train)]
    split: SplitArgument,
    /// Batches of the sample from which all values are computed.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    batches: u64,
    /// Number of random vectors for the trace of the Hessian.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    draws: u32,
    /// Largest number of products with the Hessian for its largest eigenvalue.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Displacement of the weights in finite differences, as a share of 1 + their L2 norm.
    #[arg(long, value_name = "SHARE", default_value_t = RELATIVE_STEP, value_parser = share)]
    step: f64,
    /// Seed of the random directions.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Writes one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (1e-7..=0.1).contains(share));
    share.ok_or_else(|| "a number from 1e-7 to 0.1".into())
}

pub(super) fn run(args: &CurvatureArgs) -> Result<ExitCode, Diagnostic> {
    let (device, mut model) = args.model.open()?;
    // Casts must allow for passes of single sequences.
    model.config.curvature.every = 1;
    let quant = args.model.rounding(&model, &device)?;
    let rounding = quant.plan.summary();
    let evaluator = Evaluator::new(model, quant, &device)?;
    let step = evaluator.step;
    let spec = CurvatureSpec {
        draws: args.draws,
        iterations: args.iterations,
        relative_step: args.step,
        seed: args.seed,
    };
    let found = evaluator.curvature(args.split.split(), args.batches, &spec)?;
    if args.json {
        let mut object = to_json(&found);
        object["step"] = json!(step);
        object["split"] = json!(args.split.name());
        object["rounding"] = json!(rounding);
        object["device"] = json!(device.label);
        println!("{object:#}");
    } else {
        println!("{}\n{}", summary(&found, args.split.name(), &rounding), layers(&found));
    }
    Ok(ExitCode::SUCCESS)
}

/// The values of the whole model.
fn summary(found: &Curvature, split: &str, rounding: &str) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let sample =
        format!("{} sequences of {} tokens, {split} split", found.sequences, found.tokens_per_sequence);
    table.set_header([sample.as_str(), "value", ""]);
    match found.largest_eigenvalue {
        Some(of) => {
            let how = format!(
                "{} products{}, residual {:.2e}, {:+.1} % at half the step",
                of.iterations,
                if of.converged { "" } else { ", not converged" },
                of.residual,
                100.0 * (1.0 / (1.0 + of.sensitivity) - 1.0)
            );
            table.add_row(["largest eigenvalue of the Hessian".into(), format!("{:.4e}", of.value), how]);
        }
        None => {
            table.add_row([
                "largest eigenvalue of the Hessian",
                "missing",
                "no finite change of the gradient",
            ]);
        }
    }
    table.add_row(["trace of the Hessian".into(), estimate(found.trace), "unrounded loss".to_string()]);
    let rounded = format!("gradients of sequences, {rounding}");
    table.add_row([
        "trace of the empirical Fisher matrix".into(),
        format!("{:.4e}", found.fisher_trace),
        rounded,
    ]);
    let noise = found.noise_scale.and_then(|noise| noise.sequences());
    let tokens = noise.map(|scale| format!("{:.0} tokens", scale * found.tokens_per_sequence as f64));
    table.add_row([
        "gradient noise scale".into(),
        noise.map_or("missing".into(), |scale| format!("{scale:.1} sequences")),
        tokens.unwrap_or_else(|| "the gradient is hidden in its noise: more batches".into()),
    ]);
    table.add_row([
        "gradient over rounding noise".into(),
        found.signal_to_noise.map_or("missing".into(), |ratio| format!("{ratio:.2}")),
        found.signal_to_noise.map_or("nothing is rounded".into(), threshold),
    ]);
    table
}

/// The meaning of a ratio of gradient and rounding noise (arXiv:2505.19115).
fn threshold(ratio: f64) -> String {
    let side = if ratio < 3f64.sqrt() { "below" } else { "above" };
    format!("{side} the square root of 3")
}

fn layers(found: &Curvature) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["parameter", "elements", "trace of its Hessian block", "Fisher trace"]);
    for layer in &found.layers {
        let (trace, fisher) = (estimate(layer.trace), format!("{:.4e}", layer.fisher_trace));
        table.add_row([layer.name.clone(), layer.elements.to_string(), trace, fisher]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn estimate(of: Estimate) -> String {
    let error = of.standard_error.map_or_else(String::new, |error| format!(" ± {error:.1e}"));
    format!("{:.4e}{error}", of.mean)
}

fn to_json(found: &Curvature) -> Value {
    let trace = |of: Estimate| json!({"mean": of.mean, "standard_error": of.standard_error});
    let eigenvalue = found.largest_eigenvalue.map(|of| {
        json!({
            "value": of.value, "residual": of.residual, "iterations": of.iterations, "converged": of.converged,
            "sensitivity": of.sensitivity,
        })
    });
    let noise = found.noise_scale.map(|noise| {
        json!({
            "sequences": noise.sequences(), "gradient_square": noise.gradient_square,
            "covariance_trace": noise.covariance_trace,
        })
    });
    let layers = found.layers.iter().map(|layer| {
        json!({
            "name": layer.name, "elements": layer.elements, "trace": trace(layer.trace),
            "fisher_trace": layer.fisher_trace,
        })
    });
    json!({
        "sequences": found.sequences, "tokens_per_sequence": found.tokens_per_sequence,
        "largest_eigenvalue": eigenvalue, "trace": trace(found.trace), "fisher_trace": found.fisher_trace,
        "noise_scale": noise, "signal_to_noise": found.signal_to_noise, "layers": layers.collect::<Vec<_>>(),
    })
}

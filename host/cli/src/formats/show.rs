//! `formats show`: a format's facts, its spacing over magnitude, and its code map; as text, and the spacing as SVG.

use std::{path::PathBuf, process::ExitCode};

use altgrad_base::{diagnostic::Diagnostic, files, println};
use altgrad_loader::FormatPlugin;
use altgrad_plugin_api::{FormatSpec, ValueGrid};
use altgrad_report::line_chart::line_chart;
use clap::Args;

use super::{FolderArgs, number};
/// Width of the longest bar, characters.
const BAR: f64 = 40.0;
/// Codes of the widest format whose map is drawn.
const MOST_CODES: usize = 256;

/// `altgrad-host formats show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The format, such as `E5M2`, or with options: `E3M4:ieee`.
    name: String,
    /// Also draws spacing over magnitude into this file, with logarithmic axes.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    folder: FolderArgs,
}

/// A run of neighbouring positive values with one spacing.
struct Stretch {
    first: f32,
    last: f32,
    spacing: f64,
    values: usize,
}

pub(super) fn run(args: &ShowArgs) -> Result<ExitCode, Diagnostic> {
    let (format, values) = args.folder.format(&args.name)?;
    let decoded = format.decode_all(&values)?;
    let stretches = stretches(&values, &decoded);
    println!("{}: {} bits, {}", args.name, values.codes().ilog2(), describe(&format.spec));
    println!(
        "largest {}, smallest above zero {}",
        number(values.max_finite()),
        number(values.min_positive())
    );
    println!("{}", describe_use(&format, &values));
    println!("\nspacing over magnitude (bars: log2 of the spacing, from the smallest)");
    print_spacing(&stretches);
    if decoded.len() <= MOST_CODES {
        println!("\ncode map (row: high hex digits, column: low digit)");
        print_codes(&decoded);
    } else {
        println!("\n{} codes: `formats table {}` prints them", decoded.len(), args.name);
    }
    if let Some(file) = &args.svg {
        files::write_output(file, draw(&args.name, &stretches).as_bytes()).map_err(|error| {
            Diagnostic::config(format!("cannot write the drawing ({error})")).at(file.display())
        })?;
        println!("\nspacing drawn in {}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(spec: &FormatSpec) -> String {
    match spec {
        FormatSpec::Minifloat(float) => format!(
            "{} exponent bits (bias {}), {} stored significand bits, domain {}",
            float.exponent_bits,
            float.bias,
            float.significand_bits,
            float.domain.name().unwrap_or("unknown")
        ),
        FormatSpec::Table(values) => format!("decode table of {} codes", values.len()),
    }
}

/// The conventions of the format, with their defaults.
fn describe_use(format: &FormatPlugin, values: &ValueGrid) -> String {
    let declared = &format.conventions;
    let target = number(declared.target(values));
    let which = if declared.amax_target.is_some() { "declared" } else { "the largest value" };
    let thresholds = if declared.thresholds.is_empty() { "midpoints" } else { "declared thresholds" };
    format!("amax is scaled to {target} ({which}), rounding to nearest uses {thresholds}")
}

/// The positive values, cut where the spacing changes. The spacing of a value is the gap above it; the largest
/// takes the gap below.
fn stretches(values: &ValueGrid, decoded: &[f32]) -> Vec<Stretch> {
    let mut positive: Vec<f32> =
        decoded.iter().copied().filter(|value| *value > 0.0 && value.is_finite()).collect();
    positive.sort_by(f32::total_cmp);
    positive.dedup();
    let mut stretches: Vec<Stretch> = Vec::new();
    for value in positive {
        let spacing = values.spacing(f64::from(value));
        match stretches.last_mut() {
            Some(last) if last.spacing == spacing => {
                last.last = value;
                last.values += 1;
            }
            _ => stretches.push(Stretch { first: value, last: value, spacing, values: 1 }),
        }
    }
    stretches
}

fn print_spacing(stretches: &[Stretch]) {
    let logs = || stretches.iter().map(|stretch| stretch.spacing.log2());
    let (low, high) = (logs().fold(f64::INFINITY, f64::min), logs().fold(f64::NEG_INFINITY, f64::max));
    let range = (high - low).max(1.0);
    println!("{:>13} .. {:<13} {:>5}  {:>12}", "from", "to", "count", "spacing");
    for stretch in stretches {
        let bar = "#".repeat(1 + (BAR * (stretch.spacing.log2() - low) / range) as usize);
        let (first, last) = (number(stretch.first), number(stretch.last));
        println!(
            "{first:>13} .. {last:<13} {:>5}  {:>12}  {bar}",
            stretch.values,
            number(stretch.spacing as f32)
        );
    }
}

fn print_codes(decoded: &[f32]) {
    for (row, values) in decoded.chunks(16).enumerate() {
        let cells: Vec<String> = values.iter().map(|value| format!("{:>9}", short(*value))).collect();
        println!("{row:x}_ {}", cells.join(" "));
    }
}

/// A value in at most nine characters: for the map, not for computing.
fn short(value: f32) -> String {
    let plain = number(value);
    if plain.len() <= 9 { plain } else { format!("{value:.2e}") }
}

/// The spacing over magnitude, on logarithmic axes.
fn draw(name: &str, stretches: &[Stretch]) -> String {
    let ends = |stretch: &Stretch| {
        [stretch.first, stretch.last].map(|value| [f64::from(value).log2(), stretch.spacing.log2()])
    };
    let points: Vec<[f64; 2]> = stretches.iter().flat_map(ends).collect();
    line_chart(&format!("{name}: spacing over magnitude"), ["log2 |w|", "log2 spacing"], &points)
}

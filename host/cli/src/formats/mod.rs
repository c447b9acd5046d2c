//! `formats list | show | table | quantize | design`: the loaded number formats, for people and for cross-checks.

mod design;
mod observations;
mod quantize;
mod show;

use std::{path::PathBuf, process::ExitCode};

use altgrad_base::{diagnostic::Diagnostic, eprintln, println};
use altgrad_config::PluginsSection;
use altgrad_conformance::subject_names;
use altgrad_loader::{FormatPlugin, Registry, registry};
use altgrad_plugin_api::{PluginKind, ValueGrid};
use clap::{Args, Subcommand};
use comfy_table::{ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};
use serde_json::{Value, json};

/// `altgrad-host formats`.
#[derive(Debug, Subcommand)]
pub(super) enum FormatsCommand {
    /// Lists the formats with their range.
    List(FolderArgs),
    /// Draws the values of a format: spacing over magnitude, and the code map.
    Show(show::ShowArgs),
    /// Prints the value of every code.
    Table(TableArgs),
    /// Rounds a file of raw little-endian f32 to a format, for comparison with another implementation.
    Quantize(quantize::QuantizeArgs),
    /// Computes the table of values that is best for observed tensors.
    ///
    /// The tensors are those of a run with `[observe]`: counts of elements over the largest magnitude of their block,
    /// on a fine logarithmic grid. The table is made from every second observed step and compared on the others with
    /// the formats of the same width. Its blocks have an f32 scale, by which the largest magnitude becomes 1. The
    /// command writes the format as a file, and with a run the matrix file of a test with five paired seeds. The page
    /// Numerics, section 1.6, defines the objectives.
    Design(design::DesignArgs),
}

/// Where the plugins are.
#[derive(Debug, Default, Args)]
pub(crate) struct FolderArgs {
    /// Folder of plugin libraries; by default `plugins` beside the executable.
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
}

impl FolderArgs {
    pub(super) fn registry(&self) -> Result<Registry, Diagnostic> {
        let dir = self.plugins.as_ref().map(|dir| dir.display().to_string());
        Registry::open(&PluginsSection { dir, ..PluginsSection::default() })
    }

    fn format(&self, name: &str) -> Result<(FormatPlugin, ValueGrid), Diagnostic> {
        let format = self.format_at("NAME", name)?;
        let values = format.values()?;
        Ok((format, values))
    }

    /// The format that `key` names.
    ///
    /// # Errors
    /// No plugin has it, or the plugin is refused.
    pub(crate) fn format_at(&self, key: &str, name: &str) -> Result<FormatPlugin, Diagnostic> {
        FormatPlugin::make(&self.registry()?, key, name).map_err(|(_, error)| error)
    }
}

/// `altgrad-host formats table`.
#[derive(Debug, Args)]
pub(super) struct TableArgs {
    /// The format, such as `E5M2`, or with options: `E3M4:ieee`.
    name: String,
    /// Prints JSON: name, bits, and a list of code, f32 bits and value (null if it is not finite).
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    folder: FolderArgs,
}

pub(super) fn run(command: FormatsCommand) -> Result<ExitCode, Diagnostic> {
    match command {
        FormatsCommand::List(args) => list(&args),
        FormatsCommand::Show(args) => show::run(&args),
        FormatsCommand::Table(args) => table(&args),
        FormatsCommand::Quantize(args) => quantize::run(&args),
        FormatsCommand::Design(args) => design::run(&args),
    }
}

fn list(args: &FolderArgs) -> Result<ExitCode, Diagnostic> {
    let registry = args.registry()?;
    registry::existing(registry.folder())?;
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    // Long texts are wrapped to the width of a terminal; redirected output has no width, and some terminals give 0.
    if table.width() != Some(0) {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    table.set_header(["format", "bits", "smallest > 0", "largest", "options", "description"]);
    let mut refused = Vec::new();
    for name in registry.names(PluginKind::FORMAT) {
        match row(&registry, name) {
            Ok(row) => drop(table.add_row(row)),
            Err(refusal) => refused.push(refusal),
        }
    }
    println!("{table}");
    for refusal in &refused {
        eprintln!("{refusal}");
    }
    Ok(refused.first().map_or(ExitCode::SUCCESS, |refusal| ExitCode::from(refusal.fault.exit_code())))
}

/// The line of a format.
fn row(registry: &Registry, name: &str) -> Result<[String; 6], Diagnostic> {
    let descriptor = registry.describe(PluginKind::FORMAT, name)?;
    let format = FormatPlugin::make(registry, "NAME", name).map_err(|(_, error)| error)?;
    let values = format.values()?;
    let choices: Vec<String> = subject_names(descriptor)
        .iter()
        .filter_map(|name| Some(name.split_once(':')?.1.to_owned()))
        .collect();
    Ok([
        name.to_string(),
        values.codes().ilog2().to_string(),
        number(values.min_positive()),
        number(values.max_finite()),
        choices.join(", "),
        descriptor.summary.to_string(),
    ])
}

fn table(args: &TableArgs) -> Result<ExitCode, Diagnostic> {
    let (format, values) = args.folder.format(&args.name)?;
    let decoded = format.decode_all(&values)?;
    if args.json {
        let codes: Vec<Value> = decoded
            .iter()
            .enumerate()
            // serde_json writes null for NaN and infinities; the bits distinguish them.
            .map(|(code, value)| json!({ "code": code, "f32_bits": value.to_bits(), "value": f64::from(*value) }))
            .collect();
        println!("{:#}", json!({ "name": args.name, "bits": values.codes().ilog2(), "codes": codes }));
        return Ok(ExitCode::SUCCESS);
    }
    let digits = values.codes().ilog2().div_ceil(4) as usize;
    for (code, value) in decoded.iter().enumerate() {
        println!("0x{code:0digits$x}  {}", number(*value));
    }
    Ok(ExitCode::SUCCESS)
}

/// A value so that it reads back as itself: plain while that is short.
fn number(value: f32) -> String {
    let magnitude = value.abs();
    if value == 0.0 || !value.is_finite() || (1e-4..1e7).contains(&magnitude) {
        value.to_string()
    } else {
        format!("{value:e}")
    }
}

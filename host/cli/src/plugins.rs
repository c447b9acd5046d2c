//! `plugins list | inspect | check | install | new`: the contents of libraries, their checks, their installation, and
//! new crates.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use altgrad_base::{
    diagnostic::{Diagnostic, Fault},
    eprintln, println,
};
use altgrad_config::PluginsSection;
use altgrad_loader::{Catalog, library, registry};
use altgrad_plugin_api::{Descriptor, OptionDefault, OptionSpec, PluginKind};
use clap::Subcommand;
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};

use super::{check, install, scaffold};
/// `altgrad-host plugins`.
#[derive(Debug, Subcommand)]
pub(super) enum PluginsCommand {
    /// Lists the plugins of a folder: by default `plugins` beside the executable.
    List {
        /// The folder.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Shows one library: identity, build, plugins and their options.
    Inspect {
        /// The library.
        path: PathBuf,
    },
    /// Runs the conformance suite on a library, each check in a process of its own.
    Check(check::CheckArgs),
    /// Copies valid libraries into the folder of plugins. `--replace` replaces an installed library with the same
    /// plugin.
    Install(install::InstallArgs),
    /// Creates a plugin crate: source, test, README and CI file.
    New(scaffold::NewArgs),
    /// One check, in this process: what `check` starts.
    #[command(hide = true)]
    CheckOne(check::OneArgs),
}

pub(super) fn run(command: PluginsCommand) -> Result<ExitCode, Diagnostic> {
    match command {
        PluginsCommand::List { dir } => list(dir),
        PluginsCommand::Inspect { path } => inspect(&path),
        PluginsCommand::Check(args) => check::run(&args),
        PluginsCommand::Install(args) => install::run(&args),
        PluginsCommand::New(args) => scaffold::run(&args),
        PluginsCommand::CheckOne(args) => check::run_one(&args),
    }
}

fn list(dir: Option<PathBuf>) -> Result<ExitCode, Diagnostic> {
    let section =
        PluginsSection { dir: dir.map(|dir| dir.display().to_string()), ..PluginsSection::default() };
    let catalog = Catalog::open(&section)?;
    registry::existing(&catalog.folder)?;
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(["kind", "name", "version", "description", "library"]);
    for library in &catalog.libraries {
        let file = library.path.file_name().unwrap_or_default().to_string_lossy();
        for plugin in &library.descriptors {
            let Descriptor { kind, id, version, summary, .. } = plugin;
            table.add_row([&kind.to_string(), id.as_str(), version.as_str(), summary.as_str(), &file]);
        }
    }
    println!("plugins in {}", catalog.folder.display());
    println!("{table}");
    for refusal in &catalog.refused {
        eprintln!("{refusal}");
    }
    let refused = !catalog.refused.is_empty();
    Ok(if refused { ExitCode::from(Fault::Plugin.exit_code()) } else { ExitCode::SUCCESS })
}

fn inspect(path: &Path) -> Result<ExitCode, Diagnostic> {
    let library = library::inspect(path)?;
    println!("library       {}", library.path.display());
    println!("size          {} bytes", library.bytes);
    println!("sha256        {}", library.sha256);
    println!("plugin-api    {}", library.build.api_version);
    println!("compiler      {}", or(&library.build.rustc, "unknown"));
    println!("target        {}", or(&library.build.target, "unknown"));
    println!("CPU features  {}", or(&library.build.cpu_features, "baseline"));
    for plugin in &library.descriptors {
        println!("\n{} {} {}: {}", plugin.kind, plugin.id, plugin.version, plugin.summary);
        let from = [plugin.vendor.as_str(), plugin.homepage.as_str()];
        let from: Vec<&str> = from.into_iter().filter(|text| !text.is_empty()).collect();
        if !from.is_empty() {
            println!("  by {}", from.join(", "));
        }
        print_options(plugin);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_options(plugin: &Descriptor) {
    for option in plugin.options {
        println!("  {} = {}{}  {}", option.name, shown(option.default), range(option), option.help);
    }
}

/// The page of every option of every plugin in the folder `plugins` beside the executable.
pub(super) fn reference() -> Result<String, Diagnostic> {
    let catalog = Catalog::open(&PluginsSection::default())?;
    registry::existing(&catalog.folder)?;
    let mut page = String::from(
        "# Plugin options\n\n\
         <!-- Made from the plugins' descriptors by `cargo xtask docs`: do not edit. -->\n\n\
         A run file sets the options of an optimizer in `[optimizer]` and `[[optimizer.group]]`, those of a sink in its `[[sink]]`. Formats have no\n\
         options. `altgrad-host plugins inspect PATH` prints the options of any library.\n",
    );
    for kind in [PluginKind::OPTIMIZER, PluginKind::SINK] {
        let _ = write!(page, "\n## {}s\n", if kind == PluginKind::SINK { "Sink" } else { "Optimizer" });
        let plugins = catalog.libraries.iter().flat_map(|library| &library.descriptors);
        for plugin in plugins.filter(|plugin| plugin.kind == kind) {
            let _ = write!(page, "\n### `{}`\n\n{}.\n", plugin.id, plugin.summary);
            if !plugin.options.is_empty() {
                page.push_str("\n| option | default | values | meaning |\n|---|---|---|---|\n");
            }
            for option in plugin.options {
                let values = range(option).trim().trim_matches(['(', ')']).replace('|', "\\|");
                let help = option.help.replace('|', "\\|");
                let _ =
                    writeln!(page, "| `{}` | `{}` | {values} | {help} |", option.name, shown(option.default));
            }
        }
    }
    Ok(page)
}

fn shown(value: OptionDefault) -> String {
    match value {
        OptionDefault::Bool(value) => value.to_string(),
        OptionDefault::Integer(value) => value.to_string(),
        OptionDefault::Float(value) => format!("{value:?}"),
        OptionDefault::Text(value) => format!("{value:?}"),
        OptionDefault::TextList(values) => format!("{values:?}"),
    }
}

fn range(option: &OptionSpec) -> String {
    if !option.choices.is_empty() {
        return format!("  ({})", option.choices.join(" | "));
    }
    // The largest number as a limit only excludes infinity.
    let is_bound = |limit: f64| limit.abs() < f64::MAX;
    match (is_bound(option.min), is_bound(option.max)) {
        (true, true) => format!("  ({} to {})", limit(option.min), limit(option.max)),
        (true, false) => format!("  (at least {})", limit(option.min)),
        (false, true) => format!("  (at most {})", limit(option.max)),
        (false, false) => String::new(),
    }
}

/// A limit without superfluous digits: `0`, `1e-30`.
fn limit(value: f64) -> String {
    format!("{value:?}").trim_end_matches(".0").to_string()
}

/// The text, or what an empty one means.
fn or<'a>(text: &'a str, empty: &'a str) -> &'a str {
    if text.is_empty() { empty } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_number_is_not_shown_as_a_bound() {
        let shown = |min, max| range(&OptionSpec::float("x", 0.0).range(min, max));
        assert_eq!(shown(0.0, 1.0), "  (0 to 1)");
        assert_eq!(shown(0.0, f64::MAX), "  (at least 0)");
        assert_eq!(shown(f64::MIN, 1.0), "  (at most 1)");
        assert_eq!(shown(1e-30, 0.5), "  (1e-30 to 0.5)");
        assert_eq!(shown(f64::NEG_INFINITY, f64::INFINITY), "");
    }
}

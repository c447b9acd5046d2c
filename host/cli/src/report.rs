//! `report`: runs as one page in one file.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use altgrad_base::{
    diagnostic::{Diagnostic, closest},
    files, println,
};
use altgrad_report::{
    observed,
    page::{self, PageInput, View},
    table::Table,
};
use clap::Args;

use super::compare::{RunsArgs, read};
/// `altgrad-host report`.
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    #[command(flatten)]
    runs: RunsArgs,
    /// The page, a single HTML file that needs no network. An existing file is replaced.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// The page's heading.
    #[arg(long, default_value = "Formats compared")]
    title: String,
    /// Also writes every table of the page into this folder, as Markdown, LaTeX and CSV.
    #[arg(long, value_name = "DIR")]
    tables: Option<PathBuf>,
    /// Also writes every chart of the page into this folder, as SVG and CSV.
    #[arg(long, value_name = "DIR")]
    charts: Option<PathBuf>,
    #[command(flatten)]
    view: ViewArgs,
}

/// Appearance of charts.
#[derive(Debug, Args)]
struct ViewArgs {
    /// Key that sets the colour of curves: `format`, `label` for the labels of a sweep's matrix file, or a key of the
    /// run file in which configurations differ. Default: `label` if up to 12 labels distinguish more configurations
    /// than formats do, else `format`; if there is only one format, the first setting that differs.
    #[arg(long, value_name = "KEY")]
    colour: Option<String>,
    /// The key that sets the line style of curves. Default: the optimizer, master weights or the first setting that
    /// differs.
    #[arg(long, value_name = "KEY")]
    line: Option<String>,
    /// Draws curves over training tokens instead of steps.
    #[arg(long)]
    tokens: bool,
    /// Draws losses on a logarithmic axis.
    #[arg(long)]
    log: bool,
    /// Weight of the past in an exponential mean that smooths curves, from 0 to below 1.
    #[arg(long, value_name = "WEIGHT", default_value_t = 0.0, value_parser = smooth)]
    smooth: f64,
}

fn smooth(text: &str) -> Result<f64, String> {
    let weight = text.parse().ok().filter(|weight| (0.0..1.0).contains(weight));
    weight.ok_or_else(|| "a number from 0 to below 1".into())
}

/// Refuses a key in which the configurations do not differ.
fn check_key(option: &str, key: Option<&str>, known: &[String]) -> Result<(), Diagnostic> {
    let Some(key) = key.filter(|key| known.iter().all(|known| known != key)) else { return Ok(()) };
    let near = closest(key, known.iter().map(String::as_str)).map(|near| format!("did you mean `{near}`? "));
    Err(Diagnostic::config(format!("the configurations do not differ in `{key}`")).at(option).hint(format!(
        "{}keys in which they differ: {}",
        near.unwrap_or_default(),
        known.join(", ")
    )))
}

pub(super) fn run(args: &ReportArgs) -> Result<ExitCode, Diagnostic> {
    let (found, groups, comparison) = read(&args.runs)?;
    let ViewArgs { colour, line, tokens, log, smooth } = &args.view;
    let keys = View::keys(&found.runs, &groups);
    check_key("--colour", colour.as_deref(), &keys)?;
    check_key("--line", line.as_deref(), &keys)?;
    let (colour, line) = (colour.clone(), line.clone());
    let view = View { colour, line, tokens: *tokens, log: *log, smooth: *smooth };
    let source = PageInput {
        title: &args.title,
        found: &found,
        groups: &groups,
        comparison: &comparison,
        view: &view,
    };
    let page = source.page(false)?;
    write(&args.out, page.as_bytes())?;
    if let Some(folder) = &args.tables {
        fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
        page::every_table(&found, &groups, &comparison)
            .iter()
            .try_for_each(|table| write_table(folder, table))?;
    }
    if let Some(folder) = &args.charts {
        fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
        for (name, svg, csv) in source.charts() {
            write(&folder.join(format!("{name}.svg")), svg.as_bytes())?;
            write(&folder.join(format!("{name}.csv")), csv.as_bytes())?;
        }
    }
    let (runs, left_out) = (found.runs.len(), found.left_out.len());
    let mb = page.len() as f64 / 1e6;
    println!(
        "{}: {runs} runs in {} configurations, {left_out} left out, {mb:.1} MB",
        args.out.display(),
        groups.len()
    );
    let observed = observed::ranking(&found.runs);
    if !observed.rows.is_empty() {
        println!("\n{}\n{}", observed.title, observed.to_terminal());
    }
    Ok(ExitCode::SUCCESS)
}

fn write_table(folder: &Path, table: &Table) -> Result<(), Diagnostic> {
    let texts = [("md", table.to_markdown()), ("tex", table.to_latex()), ("csv", table.to_csv())];
    let written =
        texts.iter().map(|(kind, text)| write(&folder.join(format!("{}.{kind}", table.id)), text.as_bytes()));
    written.collect()
}

fn write(path: &Path, contents: &[u8]) -> Result<(), Diagnostic> {
    files::write_output(path, contents).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::run(format!("cannot write ({error})"))
        .at(path.display())
        .hint("is its folder there and writable, and the disk not full?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_which_configurations_do_not_differ_are_refused() {
        let known = ["format", "optimizer.name", "train.lr"].map(str::to_string);
        assert_eq!(check_key("--line", None, &known), Ok(()));
        assert_eq!(check_key("--line", Some("train.lr"), &known), Ok(()));
        let refused =
            check_key("--colour", Some("optimiser.name"), &known).map_err(|error| error.to_string());
        let said = "error: the configurations do not differ in `optimiser.name`\n  --> --colour\nhint: did you mean \
                    `optimizer.name`? keys in which they differ: format, optimizer.name, train.lr";
        assert_eq!(refused, Err(said.to_string()));
    }
}

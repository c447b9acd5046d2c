//! `compare`: a table of configurations, and the significant differences.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use altgrad_base::{diagnostic::Diagnostic, eprintln, print, println};
use altgrad_report::{
    compare::{Comparison, ComparisonChoice},
    find::{self, FoundRuns},
    group::{self, Group},
    tables,
};
use clap::Args;
use serde_json::json;

/// The runs of a command line.
#[derive(Debug, Args)]
pub(super) struct RunsArgs {
    /// Run folders, folders of run folders (a sweep's), or `metrics.csv` files.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The baseline of configurations with the same data, model and length: a configuration's label, a run by name or
    /// folder, an unquantized format, or a part of run names that only one configuration has. Default: the baseline of
    /// the sweep's matrix file, else the unquantized configuration with the same optimizer.
    #[arg(long, value_name = "NAME|PATH")]
    baseline: Option<String>,
    /// Margin around the baseline's loss, as a share. Default: the margin of the sweep's matrix file, else 0.1.
    #[arg(long, value_name = "SHARE", value_parser = margin)]
    margin: Option<f64>,
    /// Tests every pair of configurations, instead of each against its baseline. More tests have less power.
    #[arg(long)]
    all_pairs: bool,
}

fn margin(text: &str) -> Result<f64, String> {
    let margin = text.parse().ok().filter(|margin| ComparisonChoice::is_margin(*margin));
    margin.ok_or_else(|| "a number between 0 and 1".into())
}

/// `altgrad-host compare`.
#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    #[command(flatten)]
    runs: RunsArgs,
    #[command(flatten)]
    style: Style,
}

/// The style of the table.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct Style {
    /// Writes one JSON object: rows, pairs that differ significantly, notes, runs that were left out.
    #[arg(long)]
    json: bool,
    /// Writes the table in Markdown.
    #[arg(long)]
    markdown: bool,
    /// Writes the table in LaTeX, for the package booktabs.
    #[arg(long)]
    latex: bool,
    /// Writes the table as CSV, with all digits.
    #[arg(long)]
    csv: bool,
}

impl RunsArgs {
    /// The runs that are named.
    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.runs
    }

    /// Compares by the options of the command line, else by the sweep's.
    pub(super) fn compared(&self, found: &FoundRuns, groups: &[Group]) -> Result<Comparison, Diagnostic> {
        let user = ComparisonChoice { baseline: self.baseline.clone(), margin: self.margin };
        // The margin was checked when the command line was read.
        Comparison::requested(found, groups, &user, self.all_pairs).map_err(|error| error.at("--baseline"))
    }
}

/// The runs, read, grouped and compared.
pub(super) fn read(args: &RunsArgs) -> Result<(FoundRuns, Vec<Group>, Comparison), Diagnostic> {
    let found = find::find(&args.runs);
    for left in &found.left_out {
        eprintln!("left out: {}: {}", left.path.display(), left.reason);
    }
    for (run, note) in found.runs.iter().flat_map(|run| run.notes.iter().map(move |note| (run, note))) {
        eprintln!("note: {}: {note}", run.path.display());
    }
    if found.runs.is_empty() {
        return Err(Diagnostic::config("no readable run was found in the named paths")
            .hint("name run folders, folders of run folders, or metrics.csv files"));
    }
    let groups = group::groups(&found.runs);
    let comparison = args.compared(&found, &groups)?;
    Ok((found, groups, comparison))
}

/// Prints the comparison of a folder's runs.
pub(super) fn print_table(runs: &Path) -> Result<(), Diagnostic> {
    let named = RunsArgs { runs: vec![runs.into()], baseline: None, margin: None, all_pairs: false };
    let (_, _, comparison) = read(&named)?;
    print_lines(&tables::comparison(&comparison).to_terminal(), &comparison, "");
    Ok(())
}

fn print_lines(table: &str, comparison: &Comparison, bullet: &str) {
    println!("{table}");
    comparison.ranking.iter().chain(&comparison.notes).for_each(|line| println!("{bullet}{line}"));
}

pub(super) fn run(args: &CompareArgs) -> Result<ExitCode, Diagnostic> {
    let (found, _, comparison) = read(&args.runs)?;
    let table = tables::comparison(&comparison);
    let Style { json, markdown, latex, csv } = args.style;
    if json {
        let left_out = tables::left_out(&found.runs, &found.left_out).to_json();
        println!("{:#}", json!({ "comparison": comparison, "left_out": left_out }));
    } else if csv {
        print!("{}", table.to_csv());
    } else if latex {
        print!("{}", table.to_latex());
    } else {
        let (text, bullet) = if markdown { (table.to_markdown(), "- ") } else { (table.to_terminal(), "") };
        print_lines(&text, &comparison, bullet);
    }
    Ok(ExitCode::SUCCESS)
}

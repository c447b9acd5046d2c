//! `compare`: a table of configurations, and the significant differences.

use std::{path::PathBuf, process::ExitCode};

use altgrad_base::{diagnostic::Diagnostic, eprintln, print, println};
use altgrad_report::{
    compare::{self, Choice, Comparison},
    find::{self, FoundRuns},
    group::{self, Group},
    tables,
};
use altgrad_run_folder::record::ComparisonChoice;
use clap::Args;
use serde_json::json;

/// The runs of a command line.
#[derive(Debug, Args)]
pub(super) struct RunsArgs {
    /// Run folders, folders of run folders (a sweep's), or `metrics.csv` files.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The baseline of configurations with the same data, model and length: a configuration's label, a run by name or folder, an
    /// unquantized format, or a part of run names that only one configuration has. Default: the baseline of the sweep's matrix file, else
    /// the unquantized configuration with the same optimizer.
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

    /// Compares by the options of the command line, else by the sweep's. A sweep's baseline may not have begun: then the default is
    /// used, with a note.
    pub(super) fn compared(&self, found: &FoundRuns, groups: &[Group]) -> Result<Comparison, Diagnostic> {
        let named = self.baseline.as_ref().or(found.choice.baseline.as_ref());
        let baseline = named.and_then(|name| compare::named(&found.runs, groups, name));
        let unknown = named.filter(|_| baseline.is_none());
        if let Some(named) = unknown.filter(|_| self.baseline.is_some()) {
            let known: Vec<&str> = groups.iter().map(|group| group.label.as_str()).collect();
            return Err(Diagnostic::config(format!("no run or configuration is called `{named}`"))
                .at("--baseline")
                .hint(format!("there are: {}", known.join(", "))));
        }
        let margin = self.margin.or(found.choice.margin).unwrap_or(compare::MARGIN);
        let choice = Choice { baseline, margin, all_pairs: self.all_pairs };
        let mut comparison = Comparison::new(&found.runs, groups, choice);
        comparison.notes.extend(unknown.map(|named| {
            format!("`[compare] baseline` of the sweep, `{named}`, is no single configuration of these runs: the default baseline is used.")
        }));
        Ok(comparison)
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
        let text = if markdown { table.to_markdown() } else { table.to_terminal() };
        println!("{text}");
        let bullet = if markdown { "- " } else { "" };
        comparison.ranking.iter().chain(&comparison.notes).for_each(|line| println!("{bullet}{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

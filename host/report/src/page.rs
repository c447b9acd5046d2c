//! The report: one page in one file, which needs no network and says nothing to anyone.
//!
//! The template escapes everything it is given; figures travel as JSON whose `<` are written as escapes, so that no name
//! can end a script. Charts are drawn by plotly.js, which is part of the page. Whatever comes through all the same, the page's
//! `policy` keeps the browser from running.

mod colours;
mod facts;
mod policy;

use std::collections::BTreeMap;

use altgrad_base::diagnostic::Diagnostic;
use minijinja::{
    AutoEscape, Environment,
    value::{Serde, Value},
};
use serde::Serialize;
use serde_json::json;

use super::{
    compare::Comparison,
    figures::{self, Chart, Context},
    find::FoundRuns,
    group::Group,
    observed,
    table::{Cell, Table},
    tables,
};
use colours::{colours, formats};
use facts::{facts, failure_notes, made};
use policy::policy;

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// The sections, in order: id, title, what it is for.
const SECTIONS: [(&str, &str, &str); 10] = [
    ("loss", "Loss", "The curves behind the table. Colour is the format, the kind of line the optimizer."),
    ("profile", "Formats at a glance", "What a configuration pays for its loss."),
    ("fidelity", "Gradient fidelity", "How close the quantized gradients are to those in fp32."),
    (
        "observation",
        "What formats would do",
        "Of tensors before rounding, at the steps that [observe] measures. Runs without it are not listed.",
    ),
    ("updates", "Updates on the grid", "Whether steps are large enough to move 8-bit codes."),
    ("codes", "Codes", "How the 256 codes of a format are used."),
    (
        "stiffness",
        "Stiffness and scale",
        "Where weights lie on their grid, and whether the scale puts them there well.",
    ),
    ("ranks", "Rank health", "How many directions the weight matrices use."),
    ("alerts", "Alerts", "What the runs themselves asked a person to look at."),
    ("failures", "Failures", "What went wrong, by class, with the evidence for it."),
];

/// What the template sees of a section.
#[derive(Serialize)]
struct Section {
    id: &'static str,
    title: &'static str,
    intro: &'static str,
    charts: Vec<Card>,
    tables: Vec<TableView>,
    notes: Vec<String>,
}

/// What it sees of a chart.
#[derive(Serialize)]
struct Card {
    id: &'static str,
    title: &'static str,
    caption: &'static str,
    /// HTML: keys are marked as code.
    needs: String,
    height: usize,
    wide: bool,
    drawn: bool,
    /// Number and label of the runs with a figure of their own.
    runs: Vec<(String, String)>,
}

/// And of a table.
#[derive(Serialize)]
struct TableView {
    id: &'static str,
    title: String,
    columns: Vec<(String, bool)>,
    rows: Vec<Vec<CellView>>,
}

#[derive(Serialize)]
struct CellView {
    text: String,
    numeric: bool,
    /// A class, for verdicts.
    tone: &'static str,
}

/// The page.
///
/// # Errors
/// The template does not render: a fault of this program.
pub fn render(
    title: &str,
    found: &FoundRuns,
    groups: &[Group],
    comparison: &Comparison,
) -> Result<String, Diagnostic> {
    let context = Context::new(&found.runs, groups, comparison);
    let charts = figures::all(&context);
    let tables = every_table(found, groups, comparison);
    let data = data(&context, &charts, &tables);
    let mut sections: Vec<Section> =
        SECTIONS.iter().map(|(id, title, intro)| section(id, title, intro)).collect();
    for (id, chart) in &charts {
        let section = sections.iter_mut().find(|section| section.id == *id);
        section.into_iter().for_each(|section| section.charts.push(card(&context, chart)));
    }
    if let Some(section) = sections.iter_mut().find(|section| section.id == "failures") {
        section.tables.extend(["failures", "missing"].iter().filter_map(|id| view_of(&tables, id)));
        section.notes = failure_notes(found);
    }
    if let Some(section) = sections.iter_mut().find(|section| section.id == "observation") {
        section.tables.extend(["observed", "observed_formats"].iter().filter_map(|id| view_of(&tables, id)));
    }
    // Nothing was observed: there is nothing to say.
    sections.retain(|section| section.id != "observation" || !section.tables.is_empty());
    let view =
        |ids: &[&str]| -> Vec<TableView> { ids.iter().filter_map(|id| view_of(&tables, id)).collect() };
    let optimizers = figures::optimizers(groups).into_iter().enumerate();
    let optimizers: Vec<_> = optimizers.map(|(index, name)| (name, figures::dash(index))).collect();
    let plotly = plotly_script();
    let values = json!({
        "title": title,
        "policy": policy(&[&plotly, SCRIPT], &[STYLE]),
        "style": STYLE,
        "script": SCRIPT,
        "plotly": plotly,
        "data": script_json(&data),
        "made": made(),
        "version": env!("CARGO_PKG_VERSION"),
        "facts": facts(found, groups),
        "comparison": view(&["comparison"]),
        "ranking": comparison.ranking,
        "baseline": comparison.baseline(),
        "notes": comparison.notes,
        "formats": formats(groups),
        "optimizers": optimizers,
        "sections": sections,
        "provenance": view(&["configurations", "runs", "plugins"]),
        "left_out": view(&["left_out"]),
    });
    let environment = environment()?;
    let html = environment
        .get_template("page.html")
        .and_then(|template| template.render(Value::from(Serde(&values))));
    html.map_err(|error| Diagnostic::run(format!("the report's template does not render ({error:#})")))
}

/// Every table of the report, those without rows too.
#[must_use]
pub fn every_table(found: &FoundRuns, groups: &[Group], comparison: &Comparison) -> Vec<Table> {
    vec![
        tables::comparison(comparison),
        observed::ranking(&found.runs),
        observed::formats(&found.runs),
        tables::failures(&found.runs),
        tables::missing(&found.runs),
        tables::configurations(&found.runs, groups),
        tables::runs(&found.runs),
        tables::plugins(&found.runs),
        tables::left_out(&found.runs, &found.left_out),
    ]
}

fn environment() -> Result<Environment<'static>, Diagnostic> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    let added = environment.add_template("page.html", PAGE);
    added.map_err(|error| Diagnostic::run(format!("the report's template is broken ({error:#})")))?;
    Ok(environment)
}

/// plotly.js alone: what the crate embeds ends with a typesetter of formulas that is not needed.
fn plotly_script() -> String {
    let sources = plotly::Plot::offline_js_sources();
    let script = sources.split_once('>').and_then(|(_, rest)| rest.split_once("</script>"));
    script.map(|(script, _)| script.to_string()).unwrap_or_default()
}

/// JSON that can stand in a script element: it holds no `<`, so nothing in it can end the element or open a comment.
fn script_json(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

fn data(context: &Context<'_>, charts: &[(&str, Chart)], tables: &[Table]) -> serde_json::Value {
    let charts: BTreeMap<&str, &Chart> = charts.iter().map(|(_, chart)| (chart.id, chart)).collect();
    let csv: BTreeMap<&str, String> = tables.iter().map(|table| (table.id, table.to_csv())).collect();
    json!({ "charts": charts, "csv": csv, "colours": colours(context.groups), "first": first(&charts) })
}

/// The run to begin with: the one with most pictures.
fn first(charts: &BTreeMap<&str, &Chart>) -> Option<String> {
    let mut pictures: BTreeMap<&str, usize> = BTreeMap::new();
    let runs = charts.values().flat_map(|chart| chart.figures.keys()).filter(|run| *run != "all");
    runs.for_each(|run| *pictures.entry(run).or_default() += 1);
    let number = |run: &str| run.parse::<usize>().unwrap_or(0);
    let most = pictures.into_iter().max_by_key(|(run, count)| (*count, std::cmp::Reverse(number(run))));
    most.map(|(run, _)| run.to_string())
}

fn section(id: &'static str, title: &'static str, intro: &'static str) -> Section {
    Section { id, title, intro, charts: Vec::new(), tables: Vec::new(), notes: Vec::new() }
}

fn card(context: &Context<'_>, chart: &Chart) -> Card {
    let runs = context.detailed.iter().map(|run| (run.to_string(), context.labels[*run].clone()));
    let by_run = !chart.figures.is_empty() && !chart.figures.contains_key("all");
    let Chart { id, title, caption, height, wide, .. } = *chart;
    let needs = with_code(chart.needs);
    let runs = if by_run { runs.collect() } else { Vec::new() };
    Card { id, title, caption, needs, height, wide, drawn: !chart.figures.is_empty(), runs }
}

/// What stands between backticks, as code. For texts of this program: nothing is escaped.
fn with_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(index, part)| if index % 2 == 1 { format!("<code>{part}</code>") } else { part.to_string() })
        .collect()
}

fn view_of(tables: &[Table], id: &str) -> Option<TableView> {
    let table = tables.iter().find(|table| table.id == id && !table.rows.is_empty())?;
    let columns = table.columns.iter().enumerate();
    let cell = |(column, cell): (usize, &Cell)| CellView {
        text: cell.show("–"),
        numeric: table.is_numeric(column),
        tone: tone(cell),
    };
    Some(TableView {
        id: table.id,
        title: table.title.clone(),
        columns: columns.map(|(index, name)| (name.clone(), table.is_numeric(index))).collect(),
        rows: table.rows.iter().map(|row| row.iter().enumerate().map(cell).collect()).collect(),
    })
}

fn tone(cell: &Cell) -> &'static str {
    let Cell::Text(text) = cell else { return "" };
    match text.split(" (").next().unwrap_or_default() {
        "within margin" => "good",
        "outside: worse" | "failed" | "NaN" | "divergence" | "stall" | "vanishing gradient" => "bad",
        "outside: better" => "better",
        "overflow" | "underflow" | "early stop" | "open" => "warn",
        "baseline" => "base",
        _ => "",
    }
}

//! The report: one page in one file, which needs no network and sends no data.
//!
//! The template escapes all values, drawings escape their texts, and tables travel as JSON whose `<` are written as
//! escapes, so that no name can end a script. Charts are visible without a script; the page's own shows values, hides
//! and sorts. If markup gets through nevertheless, the page's `policy` keeps the browser from running it. A live page
//! is the same one: its script asks the server that sent it for updates.

mod cards;
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

pub use super::figures::View;
use super::{
    compare::Comparison,
    draw,
    figures::{self, Chart, Context, Drawings},
    find::FoundRuns,
    group::Group,
    observed,
    table::{Cell, Table},
    tables,
};
use cards::{Card, card, keys};
use facts::{alert_notes, cause_notes, facts, failure_notes, made};
use policy::policy;

const PAGE: &str = include_str!("page/page.html");
const CONTENT: &str = include_str!("page/content.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = concat!(
    include_str!("page/picture.js"),
    include_str!("page/maps.js"),
    include_str!("page/axes.js"),
    include_str!("page/page.js"),
    include_str!("page/live.js"),
);

/// The sections, in order: id, title, purpose.
const SECTIONS: [(&str, &str, &str); 12] = [
    (
        "loss",
        "Loss",
        "Loss curves: the mean of each configuration, with a band from its lowest to its highest seed.",
    ),
    ("profile", "Overview of configurations", "Settings and results of each configuration."),
    ("fidelity", "Gradient fidelity", "Agreement of the quantized gradients with those in fp32."),
    (
        "observation",
        "Formats by role",
        "Tensors before rounding, at the steps that [observe] measures. Only runs with [observe] are listed.",
    ),
    ("layers", "Layers", "Any metric by layer and step."),
    ("updates", "Updates on the grid", "Whether steps are large enough to move 8-bit codes."),
    ("codes", "Codes", "Use of a format's codes."),
    (
        "stiffness",
        "Stiffness and scale",
        "Positions of weights on their grids, and the loss of the scaling rule.",
    ),
    ("ranks", "Rank health", "Ranks of the weight matrices."),
    ("alerts", "Alerts", "Alerts that the runs raised."),
    (
        "causes",
        "Causes of the loss increase",
        "Groups of casts that `altgrad-host blame` tested by undoing them, and by rounding nothing else. Only runs that it examined are listed.",
    ),
    ("failures", "Failures", "Failures by class, with the evidence."),
];

/// A section, for the template.
#[derive(Serialize)]
struct Section {
    id: &'static str,
    title: &'static str,
    intro: &'static str,
    charts: Vec<Card>,
    tables: Vec<TableView>,
    notes: Vec<String>,
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

/// The input of a page.
#[derive(Debug, Clone, Copy)]
pub struct PageInput<'a> {
    /// Its heading.
    pub title: &'a str,
    /// The runs.
    pub found: &'a FoundRuns,
    /// The configurations.
    pub groups: &'a [Group],
    /// Conclusions that the seeds support.
    pub comparison: &'a Comparison,
    /// The user's options of the charts.
    pub view: &'a View,
}

impl PageInput<'_> {
    /// The page in one file, or as a server sends it.
    ///
    /// # Errors
    /// The template does not render: a fault of this program.
    pub fn page(&self, is_live: bool) -> Result<String, Diagnostic> {
        let mut values = self.values();
        values["policy"] = policy(SCRIPT, STYLE, is_live).into();
        values["style"] = STYLE.into();
        values["script"] = SCRIPT.into();
        values["is_live"] = is_live.into();
        rendered("page.html", &values)
    }

    /// The part of a live page that changes: everything below its table of runs.
    ///
    /// # Errors
    /// The template does not render: a fault of this program.
    pub fn content(&self) -> Result<String, Diagnostic> {
        rendered("content.html", &self.values())
    }

    /// Every drawing as an SVG file and its numbers as CSV: name without ending, SVG, CSV.
    #[must_use]
    pub fn charts(&self) -> Vec<(String, String, String)> {
        let Self { found, groups, comparison, view, .. } = *self;
        let context = Context::new(&found.runs, groups, comparison, view);
        let mut files = Vec::new();
        for (_, chart) in figures::all(&context) {
            let file = |name: String, title: &str, plot: &draw::Plot| {
                (name, draw::svg::svg(plot, title), draw::csv::csv(plot))
            };
            match &chart.drawings {
                Drawings::None => {}
                Drawings::All(plot) => files.push(file(chart.id.to_string(), chart.title, plot)),
                Drawings::ByRun(plots) => files.extend(plots.iter().map(|(run, plot)| {
                    let title = format!("{}: {}", chart.title, context.labels[*run]);
                    file(format!("{}_{run}", chart.id), &title, plot)
                })),
                Drawings::Maps(maps) => files.extend(maps.iter().flat_map(|maps| {
                    let name = maps.name.replace('/', "_");
                    maps.by_group.iter().map(move |(group, plot)| {
                        let title = format!("{}: {}", maps.name, groups[*group].label);
                        file(format!("{}_{name}_{group}", chart.id), &title, plot)
                    })
                })),
            }
        }
        files
    }

    fn values(&self) -> serde_json::Value {
        let Self { title, found, groups, comparison, view } = *self;
        // The script places curves on other axes: the page holds them as they are.
        let plain = View { tokens: false, log: false, smooth: 0.0, ..view.clone() };
        let context = Context::new(&found.runs, groups, comparison, &plain);
        let charts = figures::all(&context);
        let tables = every_table(found, groups, comparison);
        let first = first(&charts);
        let of_section = |id: &str| -> Vec<Card> {
            let own = charts.iter().filter(|(section, _)| *section == id);
            own.map(|(_, chart)| card(&context, chart, first)).collect()
        };
        let view_of =
            |ids: &[&str]| -> Vec<TableView> { ids.iter().filter_map(|id| view_of(&tables, id)).collect() };
        let section = |(id, title, intro): &(&'static str, &'static str, &'static str)| Section {
            id,
            title,
            intro,
            charts: of_section(id),
            tables: match *id {
                "failures" => view_of(&["failures", "missing"]),
                "observation" => view_of(&["observed", "observed_formats"]),
                "causes" => view_of(&["causes"]),
                _ => Vec::new(),
            },
            notes: match *id {
                "failures" => failure_notes(found),
                "alerts" => alert_notes(found),
                "causes" => cause_notes(found),
                _ => Vec::new(),
            },
        };
        let mut sections: Vec<Section> = SECTIONS.iter().map(section).collect();
        // Without what they show, these sections are left out.
        sections.retain(|section| match section.id {
            "observation" => !section.tables.is_empty(),
            "causes" => !section.notes.is_empty(),
            _ => true,
        });
        let look = &context.look;
        let looks: serde_json::Map<_, _> = look
            .by_key(&found.runs, groups)
            .into_iter()
            .map(|(key, [colours, lines])| (key, json!({ "colours": keys(&colours), "lines": keys(&lines) })))
            .collect();
        let maps = charts.iter().find_map(|(_, chart)| match &chart.drawings {
            Drawings::Maps(maps) => Some(cards::maps(maps, groups)),
            _ => None,
        });
        let tokens = groups.iter().map(|group| found.runs[group.runs[0]].config.tokens_per_step());
        let data = json!({
            "csv": data(&charts, &tables),
            "looks": looks,
            "look": { "colour": look.colour, "line": look.line },
            "tokens": tokens.collect::<Vec<_>>(),
            "maps": maps,
        });
        json!({
            "title": title,
            "data": script_json(&data),
            "made": made(),
            "version": env!("CARGO_PKG_VERSION"),
            "facts": facts(found, groups),
            "comparison": view_of(&["comparison"]),
            "comparison_charts": of_section("comparison"),
            "ranking": comparison.ranking,
            "margin": format!("{} %", comparison.margin * 100.0),
            "notes": comparison.notes,
            "choices": look.choices,
            "colour": look.colour,
            "line": look.line,
            "colours": keys(&look.colours),
            "lines": keys(&look.lines),
            "view": { "tokens": view.tokens, "log": view.log, "smooth": view.smooth },
            "sections": sections,
            "provenance": view_of(&["configurations", "runs", "plugins"]),
            "left_out": view_of(&["left_out"]),
        })
    }
}

/// Every table of the report, those without rows too.
#[must_use]
pub fn every_table(found: &FoundRuns, groups: &[Group], comparison: &Comparison) -> Vec<Table> {
    vec![
        tables::comparison(comparison),
        observed::ranking(&found.runs),
        observed::formats(&found.runs),
        tables::causes(&found.runs),
        tables::failures(&found.runs),
        tables::missing(&found.runs),
        tables::configurations(&found.runs, groups),
        tables::runs(&found.runs),
        tables::plugins(&found.runs),
        tables::left_out(&found.runs, &found.left_out),
    ]
}

fn rendered(name: &str, values: &serde_json::Value) -> Result<String, Diagnostic> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    let added = environment.add_template("page.html", PAGE);
    let added = added.and_then(|()| environment.add_template("content.html", CONTENT));
    added.map_err(|error| Diagnostic::run(format!("the report's template is broken ({error:#})")))?;
    let html =
        environment.get_template(name).and_then(|template| template.render(Value::from(Serde(values))));
    html.map_err(|error| Diagnostic::run(format!("the report's template does not render ({error:#})")))
}

/// JSON for a script element: it holds no `<`, so nothing in it can end the element or open a comment.
fn script_json(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

/// Tables and charts as CSV. Heat maps are left out: they are many, and `--charts` writes them.
fn data(charts: &[(&str, Chart)], tables: &[Table]) -> BTreeMap<&'static str, String> {
    let mut csv: BTreeMap<&'static str, String> =
        tables.iter().map(|table| (table.id, table.to_csv())).collect();
    for (_, chart) in charts {
        if let Drawings::All(plot) = &chart.drawings {
            csv.insert(chart.id, draw::csv::csv(plot));
        }
    }
    csv
}

/// The run to begin with: the one with most drawings.
fn first(charts: &[(&str, Chart)]) -> Option<usize> {
    let mut drawings: BTreeMap<usize, usize> = BTreeMap::new();
    for (_, chart) in charts {
        if let Drawings::ByRun(plots) = &chart.drawings {
            plots.keys().for_each(|run| *drawings.entry(*run).or_default() += 1);
        }
    }
    let most = drawings.into_iter().max_by_key(|(run, count)| (*count, std::cmp::Reverse(*run)));
    most.map(|(run, _)| run)
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

//! Charts as the template sees them.

use serde::Serialize;
use serde_json::json;

use crate::{
    draw::{self, Picture, Plot},
    figures::{Chart, Context, Drawings, Key},
};

/// A chart.
#[derive(Serialize)]
pub(super) struct Card {
    id: &'static str,
    title: &'static str,
    caption: &'static str,
    /// HTML: keys are marked as code.
    needs: String,
    wide: bool,
    /// True if its numbers are in the page.
    has_csv: bool,
    drawings: Vec<Drawing>,
    /// The scale that its heat maps share.
    scale: Option<Scale>,
}

/// One drawing of a chart.
#[derive(Serialize)]
struct Drawing {
    /// The number and label of its run, if it is of one.
    run: Option<(usize, String)>,
    shown: bool,
    html: String,
}

/// The scale of heat maps: colours from low to high, and labels at shares of its length.
#[derive(Serialize)]
struct Scale {
    title: String,
    gradient: String,
    labels: Vec<(String, String)>,
}

/// A chart; of several runs' drawings that of the first run is shown, or else the first.
pub(super) fn card(context: &Context<'_>, chart: &Chart, first: Option<usize>) -> Card {
    let words = format!("{}. {}", chart.title, chart.caption);
    let one = |run: Option<(usize, String)>, plot: &Plot, shown| Drawing {
        run,
        shown,
        html: draw::html::html(plot, &words),
    };
    let drawings: Vec<Drawing> = match &chart.drawings {
        Drawings::None => Vec::new(),
        Drawings::All(plot) => vec![one(None, plot, true)],
        Drawings::ByRun(plots) => {
            let first = first.filter(|run| plots.contains_key(run)).or(plots.keys().next().copied());
            let drawn = plots.iter();
            drawn
                .map(|(run, plot)| one(Some((*run, context.labels[*run].clone())), plot, Some(*run) == first))
                .collect()
        }
    };
    let picture = match &chart.drawings {
        Drawings::ByRun(plots) => plots.values().find_map(|plot| plot.picture.as_ref()),
        _ => None,
    };
    let Chart { id, title, caption, wide, .. } = *chart;
    let has_csv = matches!(chart.drawings, Drawings::All(_));
    Card {
        id,
        title,
        caption,
        needs: with_code(chart.needs),
        wide,
        has_csv,
        drawings,
        scale: picture.map(scale),
    }
}

fn scale(picture: &Picture) -> Scale {
    let labels = picture.scale.iter().map(|(share, text)| (format!("{:.1}", share * 100.0), text.clone()));
    Scale { title: picture.title.clone(), gradient: draw::picture::gradient(), labels: labels.collect() }
}

/// Values of a key with their colours and lines, as scripts and the template read them.
pub(super) fn keys(keys: &[Key]) -> Vec<serde_json::Value> {
    let one = |key: &Key| {
        let groups = key.groups.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        let dash = draw::DASHES[key.dash % draw::DASHES.len()];
        json!({ "value": key.value, "ink": key.ink, "groups": groups, "dash": dash })
    };
    keys.iter().map(one).collect()
}

/// Text between backticks as code. For texts of this program: nothing is escaped.
fn with_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(index, part)| if index % 2 == 1 { format!("<code>{part}</code>") } else { part.to_string() })
        .collect()
}

//! Charts in the form that the template needs.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Serialize;
use serde_json::json;

use crate::{
    draw::{self, Palette, Picture, Plot},
    figures::{Chart, Context, Drawings, Key, Maps},
    group::Group,
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
    /// The metrics of its heat maps; the first is shown.
    metrics: Vec<String>,
    /// The scale that its heat maps share.
    scale: Option<Scale>,
}

/// One drawing of a chart.
#[derive(Serialize)]
struct Drawing {
    /// The number and label of its run, if it is of one.
    run: Option<(usize, String)>,
    /// The number and label of its configuration, if it is one of several heat maps.
    group: Option<(usize, String)>,
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
        group: None,
        shown,
        html: draw::html::html(plot, &words),
    };
    let drawings: Vec<Drawing> = match &chart.drawings {
        Drawings::None => Vec::new(),
        Drawings::Maps(maps) => {
            let of_group = |(group, plot): &(usize, Plot)| Drawing {
                group: Some((*group, context.groups[*group].label.clone())),
                ..one(None, plot, true)
            };
            maps.first().into_iter().flat_map(|maps| &maps.by_group).map(of_group).collect()
        }
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
        Drawings::None => None,
        Drawings::All(plot) => plot.picture.as_ref(),
        Drawings::ByRun(plots) => plots.values().find_map(|plot| plot.picture.as_ref()),
        Drawings::Maps(maps) => maps.first().and_then(|maps| maps.by_group.first()?.1.picture.as_ref()),
    };
    let metrics = match &chart.drawings {
        Drawings::Maps(maps) => maps.iter().map(|maps| maps.name.clone()).collect(),
        _ => Vec::new(),
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
        metrics,
        scale: picture.map(scale),
    }
}

fn scale(picture: &Picture) -> Scale {
    let labels = picture.scale.iter().map(|(share, text)| (format!("{:.1}", share * 100.0), text.clone()));
    Scale {
        title: picture.title.clone(),
        gradient: picture.palette.stops().join(","),
        labels: labels.collect(),
    }
}

/// Heat maps for the script, which draws the metric that a reader selects: a frame with names and axes, which metrics
/// with the same layers and steps share, and the steps of colour of each configuration.
pub(super) fn maps(maps: &[Maps], groups: &[Group]) -> serde_json::Value {
    let mut frames: Vec<String> = Vec::new();
    let mut metrics = serde_json::Map::new();
    for Maps { name, by_group } in maps {
        let Some((picture, plot)) =
            by_group.first().and_then(|(_, plot)| Some((plot.picture.as_ref()?, plot)))
        else {
            continue;
        };
        let empty = Plot { picture: None, ..plot.clone() };
        let html = draw::html::html(&empty, "");
        let frame = frames.iter().position(|frame| *frame == html).unwrap_or_else(|| {
            frames.push(html);
            frames.len() - 1
        });
        let cells = by_group.iter().filter_map(|(group, plot)| {
            Some((group.to_string(), BASE64_STANDARD.encode(plot.picture.as_ref()?.cells()).into()))
        });
        metrics.insert(
            name.clone(),
            json!({
                "frame": frame, "width": picture.width(), "range": picture.range, "log": picture.is_log,
                "title": picture.title, "scale": picture.scale, "cells": cells.collect::<serde_json::Map<_, _>>(),
            }),
        );
    }
    let labels: Vec<&str> = groups.iter().map(|group| group.label.as_str()).collect();
    json!({ "frames": frames, "metrics": metrics, "labels": labels, "stops": Palette::Sequential.stops() })
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

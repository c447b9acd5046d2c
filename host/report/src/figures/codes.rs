//! Pictures of distributions over time: codes, update spectra; and spacings by layer.

use altgrad_metrics::Role;
use serde_json::{Value, json};

use super::{Chart, Context, in_model_order, layer_name, shorts};
use crate::{run::Run, series::Timeline};

/// Marks of a logarithmic scale of shares.
const SHARES: [(i32, &str); 8] = [
    (0, "100 %"),
    (-1, "10 %"),
    (-2, "1 %"),
    (-3, "0.1 %"),
    (-4, "0.01 %"),
    (-5, "1e-5"),
    (-6, "1e-6"),
    (-7, "1e-7"),
];
/// Codes of a format whose codes are shown by sign and magnitude.
const CODES: usize = 256;

pub(super) fn all(context: &Context<'_>) -> Vec<(&'static str, Chart)> {
    let spacings = |run: &Run| run.histograms.spacings.len();
    let layers = context.runs.iter().map(spacings).max().unwrap_or(0);
    vec![
        (
            "updates",
            Chart {
                id: "ulp_spectrum",
                title: "Update spectrum of one run over time",
                caption: "Share of the elements by how far the step moved them, all layers. Below half a code (the line), rounding to nearest undoes the step where there are no master weights. The lowest row holds all that is smaller, zero included.",
                needs: "`[metrics] histograms_every` and `[quant] weight`",
                names: ["step", "log2 ULP", "log10 of the share"],
                height: 420,
                wide: true,
                figures: context.by_run(|run| spectrum(&context.runs[run])),
            },
        ),
        ("codes", occupancy(context, Role::Weight, "codes_weight", "Code occupancy of one run: weights")),
        (
            "codes",
            occupancy(
                context,
                Role::Activation,
                "codes_activation",
                "Code occupancy of one run: activations",
            ),
        ),
        ("codes", occupancy(context, Role::Grad, "codes_grad", "Code occupancy of one run: gradients")),
        (
            "stiffness",
            Chart {
                id: "stiffness_field",
                title: "Stiffness field of one run",
                caption: "Share of each layer's weights by the grid's spacing where they lie, at the last measurement. Far to the right the grid is coarse, and a step has to be large to count.",
                needs: "`[metrics] histograms_every` and `[quant] weight`",
                names: ["log2 spacing", "layer", "share"],
                height: (layers * 19 + 110).clamp(340, 2400),
                wide: false,
                figures: context.by_run(|run| stiffness(&context.runs[run])),
            },
        ),
    ]
}

fn occupancy(context: &Context<'_>, role: Role, id: &'static str, title: &'static str) -> Chart {
    let figure = |run: usize| {
        let run = &context.runs[run];
        // Codes of several formats cannot be added up.
        let by_rule =
            run.config.rules().any(|rule| run.config.get(&format!("{rule}.{}", role.name())).is_some());
        let codes = run.histograms.codes.get(&role).filter(|_| !by_rule)?;
        Some(codes_over_time(codes, run.config.get(&format!("quant.{}", role.name()))))
    };
    Chart {
        id,
        title,
        caption: "Share of the elements by code, all layers, on a logarithmic scale. Blank codes are not used at all: bits that are paid for and say nothing.",
        needs: "`[metrics] histograms_every` and one format for the role in `[quant]`",
        names: ["step", "code", "log10 of the share"],
        height: 420,
        wide: false,
        figures: context.by_run(figure),
    }
}

/// Rows are codes: of minifloats by sign and magnitude, so that the value rises from below to above.
fn codes_over_time(codes: &Timeline, format: Option<&str>) -> Value {
    let bins = codes.columns().iter().map(|(_, shares)| shares.len()).max().unwrap_or(0);
    let minifloat = format.is_some_and(is_minifloat) && bins == CODES;
    let half = bins / 2;
    let order: Vec<usize> =
        if minifloat { (half..bins).rev().chain(0..half).collect() } else { (0..bins).collect() };
    let axis: Vec<i64> =
        if minifloat { (-(half as i64)..half as i64).collect() } else { (0..bins as i64).collect() };
    let title = if minifloat { "code, negative ones below" } else { "code" };
    over_time(codes, &order, json!(axis), title, "code")
}

fn is_minifloat(format: &str) -> bool {
    let name = format.split(':').next().unwrap_or(format).as_bytes();
    matches!(name, [b'E', e, b'M', m] if e.is_ascii_digit() && m.is_ascii_digit())
}

fn spectrum(run: &Run) -> Option<Value> {
    let spectrum = run.histograms.ulps.as_ref()?;
    let order: Vec<usize> = (0..run.histograms.octaves.len()).collect();
    let mut figure =
        over_time(spectrum, &order, json!(run.histograms.octaves), "log2 of ULP moved", "log2 ULP");
    figure["layout"]["shapes"] = json!([{
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": -1, "y1": -1,
        "line": { "width": 2, "dash": "dash", "color": "#e5484d" },
    }]);
    Some(figure)
}

/// A picture over steps: log10 of shares, blank where there is none.
fn over_time(timeline: &Timeline, order: &[usize], axis: Value, title: &str, name: &str) -> Value {
    let columns = timeline.columns();
    let row = |bin: &usize| {
        shorts(columns.iter().map(|(_, shares)| {
            let share = shares.get(*bin).copied().unwrap_or(0.0);
            // Two digits are what a colour can show.
            if share > 0.0 { (share.log10() * 100.0).round() / 100.0 } else { f64::NAN }
        }))
    };
    json!({
        "data": [{
            "type": "heatmap",
            "x": columns.iter().map(|(step, _)| step.to_string()).collect::<Vec<_>>(),
            "y": axis,
            "z": order.iter().map(row).collect::<Vec<_>>(),
            "meta": { "scale": "sequential" },
            "hoverongaps": false,
            "colorbar": { "title": { "text": "share" }, "tickvals": SHARES.map(|(log, _)| log), "ticktext": SHARES.map(|(_, text)| text) },
            "hovertemplate": format!("step %{{x}}, {name} %{{y}}<br>10^%{{z}} of the elements<extra></extra>"),
        }],
        "layout": {
            "xaxis": { "title": { "text": "step" }, "type": "category", "nticks": 8 },
            "yaxis": { "title": { "text": title } },
        },
    })
}

/// Layers by spacing.
fn stiffness(run: &Run) -> Option<Value> {
    let spacings = &run.histograms.spacings;
    let ends = spacings
        .values()
        .flat_map(|(_, centres, _)| [centres.first().copied(), centres.last().copied()])
        .flatten();
    let (low, high) = ends.fold((f64::MAX, f64::MIN), |(low, high), end| (low.min(end), high.max(end)));
    let bins = (low <= high)
        .then(|| ((high - low).round() as usize).saturating_add(1))
        .filter(|bins| *bins <= 600)?;
    let mut layers: Vec<&String> = spacings.keys().collect();
    in_model_order(&mut layers);
    let row = |layer: &&String| {
        let (_, centres, counts) = &spacings[*layer];
        let total: f64 = counts.iter().sum();
        let mut shares = vec![0.0; bins];
        for (centre, count) in centres.iter().zip(counts) {
            // Scales are no powers of two: binades of layers are apart by less than one.
            let bin = ((centre - low).round().max(0.0) as usize).min(bins - 1);
            shares[bin] += count / total;
        }
        shares
    };
    let rows: Vec<Vec<f64>> = layers.iter().map(row).collect();
    let most = rows.iter().flatten().copied().fold(0.0, f64::max);
    let blank = |row: &Vec<f64>| shorts(row.iter().map(|share| if *share > 0.0 { *share } else { f64::NAN }));
    Some(json!({
        "data": [{
            "type": "heatmap",
            "x": shorts((0..bins).map(|bin| low + bin as f64)),
            "y": layers.iter().map(|layer| layer_name(layer)).collect::<Vec<_>>(),
            "z": rows.iter().map(blank).collect::<Vec<_>>(),
            "meta": { "scale": "sequential" },
            "hoverongaps": false,
            "zmin": 0,
            "zmax": most,
            "colorbar": { "title": { "text": "share" }, "tickformat": ".0%" },
            "hovertemplate": "%{y}<br>spacing 2^%{x:.1f}: %{z:.2%} of the weights<extra></extra>",
        }],
        "layout": {
            "xaxis": { "title": { "text": "log2 of the spacing, in units of the weight" } },
            "yaxis": { "autorange": "reversed", "type": "category", "dtick": 1 },
        },
    }))
}

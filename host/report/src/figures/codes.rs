//! Pictures of distributions over time: codes, update spectra; and spacings by layer.

use altgrad_metrics::Role;

use super::{
    Chart, Context, downwards, in_model_order, layer_name,
    layers::{columns, height},
};
use crate::{
    draw::{Axis, Kind, Palette, Picture, Plot, Rule},
    run::Run,
    series::Timeline,
};

/// Smallest share of the scale: smaller shares are drawn as this one.
const LEAST_SHARE: f64 = 1e-7;
/// Rows of codes that are named.
const NAMED: usize = 16;
/// Codes of a format whose codes are shown by sign and magnitude.
const CODES: usize = 256;

pub(super) fn all(context: &Context<'_>) -> Vec<(&'static str, Chart)> {
    let shares = |run: &usize| shares_by_spacing(&context.runs[*run]);
    let all = context.detailed.iter().filter_map(shares).flat_map(|shares| shares.rows.into_iter().flatten());
    let most = all.fold(f64::MIN_POSITIVE, f64::max);
    vec![
        (
            "updates",
            Chart {
                id: "ulp_spectrum",
                title: "Update spectrum of one run over time",
                caption: "Share of the elements by how far the step moved them, all layers. Below half a code (the line), rounding to nearest undoes the step where there are no master weights. The lowest row holds all that is smaller, zero included.",
                needs: "`[metrics] histograms_every` and `[quant] weight`",
                wide: true,
                drawings: context.by_run(|run| spectrum(&context.runs[run])).into(),
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
                wide: false,
                drawings: context.by_run(|run| stiffness(&context.runs[run], most)).into(),
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
        caption: "Share of the elements by code, all layers, on a logarithmic scale. Blank codes are unused.",
        needs: "`[metrics] histograms_every` and one format for the role in `[quant]`",
        wide: false,
        drawings: context.by_run(figure).into(),
    }
}

/// Rows are codes: of minifloats by sign and magnitude, so that the value rises from below to above.
fn codes_over_time(codes: &Timeline, format: Option<&str>) -> Plot {
    let bins = codes.columns().iter().map(|(_, shares)| shares.len()).max().unwrap_or(0);
    let minifloat = format.is_some_and(is_minifloat) && bins == CODES;
    let half = bins / 2;
    let order: Vec<usize> =
        if minifloat { (half..bins).rev().chain(0..half).collect() } else { (0..bins).collect() };
    let first = if minifloat { -(half as i64) } else { 0 };
    let names = (0..bins as i64).map(|index| first + index);
    let stride = bins.div_ceil(NAMED).max(1);
    let named =
        names.map(|code| if code.rem_euclid(stride as i64) == 0 { code.to_string() } else { String::new() });
    over_time(codes, &order, named.collect())
}

fn is_minifloat(format: &str) -> bool {
    let name = format.split(':').next().unwrap_or(format).as_bytes();
    matches!(name, [b'E', e, b'M', m] if e.is_ascii_digit() && m.is_ascii_digit())
}

fn spectrum(run: &Run) -> Option<Plot> {
    let spectrum = run.histograms.ulps.as_ref()?;
    let octaves = &run.histograms.octaves;
    let order: Vec<usize> = (0..octaves.len()).collect();
    let stride = octaves.len().div_ceil(NAMED).max(1);
    let named = octaves.iter().enumerate();
    let named =
        named.map(
            |(index, octave)| {
                if index % stride == 0 { format!("2^{}", octave.round() as i64) } else { String::new() }
            },
        );
    let mut plot = over_time(spectrum, &order, named.collect());
    // Half a code is one octave below a code.
    let half = octaves.iter().position(|octave| *octave == -1.0);
    plot.rules.extend(half.map(|place| Rule::Horizontal(place as f64)));
    Some(plot)
}

/// A heat map over steps, on a logarithmic scale of shares; blank where there is none. Rows rise from below.
fn over_time(timeline: &Timeline, order: &[usize], names: Vec<String>) -> Plot {
    let taken = timeline.columns();
    let row = |bin: &usize| {
        let share = |(_, shares): &(u64, Vec<f64>)| shares.get(*bin).copied().filter(|share| *share > 0.0);
        taken.iter().map(share).collect()
    };
    let steps: Vec<u64> = taken.iter().map(|(step, _)| *step).collect();
    let shares = [(1.0, "100 %"), (1e-2, "1 %"), (1e-4, "0.01 %"), (1e-6, "1e-6")];
    let mut picture = Picture {
        rows: order.iter().rev().map(row).collect(),
        range: [LEAST_SHARE, 1.0],
        is_log: true,
        palette: Palette::Sequential,
        title: "share".into(),
        scale: Vec::new(),
    };
    picture.scale = shares.iter().map(|(share, text)| (picture.share(*share), (*text).to_string())).collect();
    Plot {
        x: columns(&steps),
        y: Axis::over("", Kind::Names(names), std::iter::empty()),
        series: Vec::new(),
        picture: Some(picture),
        rules: Vec::new(),
        texts: Vec::new(),
        height: 380,
    }
}

/// Layers by spacing.
struct Shares {
    layers: Vec<String>,
    /// log2 of the first bin's spacing.
    low: f64,
    rows: Vec<Vec<f64>>,
}

fn shares_by_spacing(run: &Run) -> Option<Shares> {
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
    let rows = layers.iter().map(row).collect();
    Some(Shares { layers: layers.iter().map(|layer| layer_name(layer)).collect(), low, rows })
}

fn stiffness(run: &Run, most: f64) -> Option<Plot> {
    let Shares { layers, low, rows } = shares_by_spacing(run)?;
    let bins = rows.first().map_or(0, Vec::len);
    let blank = |share: f64| Some(share).filter(|share| *share > 0.0);
    let axis = Axis::over("share", Kind::Linear, std::iter::empty()).with_range([0.0, most]).percent();
    let picture = Picture {
        rows: rows.into_iter().map(|row| row.into_iter().map(blank).collect()).collect(),
        range: [0.0, most],
        is_log: false,
        palette: Palette::Sequential,
        title: "share".into(),
        scale: axis.ticks().into_iter().map(|(place, text)| (place / 1000.0, text)).collect(),
    };
    let x = Axis::over("log2 of the spacing, in units of the weight", Kind::Linear, std::iter::empty());
    Some(Plot {
        x: x.with_range([low - 0.5, low + bins as f64 - 0.5]),
        y: Axis::over("", Kind::Names(downwards(&layers)), std::iter::empty()),
        series: Vec::new(),
        picture: Some(picture),
        rules: Vec::new(),
        texts: Vec::new(),
        height: height(layers.len()),
    })
}

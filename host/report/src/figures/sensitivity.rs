//! Sensitivity by role and layer type: the difference from the baseline of configurations that round one role or one
//! layer type only.
//!
//! The casts are those of `run.json`, after inheritance and rules, not the keys of the run file. A configuration is a
//! cell if it rounds the same roles in each of its layer types to one format, and if these are one role or all, in one
//! layer type or in all.

use std::collections::BTreeMap;

use super::{Chart, Context};
use crate::{
    compare::Row,
    computed::LayerKind,
    draw::{Axis, Kind, Palette, Picture, Plot},
    stats::{CONFIDENCE, Sample},
};

/// Pixels of a row: two lines of text.
const ROW: usize = 38;
/// Columns: the three roles, and all of them.
const ROLES: [&str; 4] = ["weights", "activations", "gradients", "all roles"];
const ALL_ROLES: usize = 3;

/// The chart; `None` unless some format was rounded in two cells.
pub(super) fn chart(context: &Context<'_>) -> Option<Chart> {
    let matrices = matrices(context);
    if matrices.values().all(|cells| cells.len() < 2) {
        return None;
    }
    Some(Chart {
        id: "sensitivity",
        title: "Sensitivity by role and layer type",
        caption: "Held-out loss minus the baseline's if only this role is rounded in this layer type: mean and half the 95 % interval, in nats per token. An asterisk marks a difference that is significant after Holm's correction. Colours have one scale for all formats: blue is better, red is worse. Blank: not run.",
        needs: "",
        wide: true,
        drawings: Some(plot(&layer_types(context), &matrices)).into(),
    })
}

/// A cell: its layer type, `None` for all; the column of its roles.
type Cell = (Option<usize>, usize);

/// A measured cell.
struct Measured {
    difference: Sample,
    p_holm: Option<f64>,
}

/// The cells of each format.
fn matrices(context: &Context<'_>) -> BTreeMap<String, BTreeMap<Cell, Measured>> {
    let layer_types = layer_types(context);
    let mut matrices: BTreeMap<String, BTreeMap<Cell, Measured>> = BTreeMap::new();
    for row in &context.comparison.rows {
        let Some((format, cell, measured)) = measured(context, row, &layer_types) else { continue };
        let cells = matrices.entry(format).or_default();
        // Of several configurations of a cell, the tested one counts.
        if measured.p_holm.is_some() || !cells.contains_key(&cell) {
            cells.insert(cell, measured);
        }
    }
    matrices
}

fn measured(context: &Context<'_>, row: &Row, layer_types: &[String]) -> Option<(String, Cell, Measured)> {
    let group = context.groups.iter().find(|group| group.label == row.label)?;
    let (format, cell) = cell(&context.runs[group.runs[0]].status.kinds, layer_types)?;
    Some((format, cell, Measured { difference: row.difference?, p_holm: row.p_holm }))
}

/// The format and the cell of a run with these casts.
fn cell(kinds: &[LayerKind], layer_types: &[String]) -> Option<(String, Cell)> {
    let mut format: Option<&String> = None;
    let mut roles_of: Vec<Option<Vec<usize>>> = vec![None; layer_types.len()];
    for kind in kinds {
        let own = kind.formats.iter().enumerate().filter_map(|(role, format)| Some((role, format.as_ref()?)));
        for (_, named) in own.clone() {
            if *format.get_or_insert(named) != named {
                return None;
            }
        }
        let roles: Vec<usize> = own.map(|(role, _)| role).collect();
        for layer in &kind.layers {
            let layer_type = layer_types.iter().position(|layer_type| *layer_type == layer_type_of(layer))?;
            // Blocks that differ are no cell.
            if *roles_of[layer_type].get_or_insert_with(|| roles.clone()) != roles {
                return None;
            }
        }
    }
    let rounded: Vec<(usize, &Vec<usize>)> = roles_of
        .iter()
        .enumerate()
        .filter_map(|(layer_type, roles)| {
            Some((layer_type, roles.as_ref().filter(|roles| !roles.is_empty())?))
        })
        .collect();
    let (first, roles) = rounded.first()?;
    let column = match roles[..] {
        [role] => role,
        [_, _, _] => ALL_ROLES,
        _ => return None,
    };
    let layer_type = match rounded.len() {
        1 => Some(*first),
        all if all == layer_types.len() => None,
        _ => return None,
    };
    rounded.iter().all(|(_, own)| own == roles).then_some((format?.clone(), (layer_type, column)))
}

/// The layer types of all runs, in the order of the model.
fn layer_types(context: &Context<'_>) -> Vec<String> {
    let layers = context.runs.iter().flat_map(|run| &run.status.kinds).flat_map(|kind| &kind.layers);
    let mut names: Vec<&String> = layers.collect();
    super::in_model_order(&mut names);
    let mut layer_types: Vec<String> = Vec::new();
    for layer in names {
        let layer_type = layer_type_of(layer);
        if !layer_types.contains(&layer_type) {
            layer_types.push(layer_type);
        }
    }
    // The head comes last in the model, its name first in the order of layers.
    layer_types.sort_by_key(|layer_type| layer_type == HEAD);
    layer_types
}

const HEAD: &str = "head";

/// The type of a linear layer: its name without its block, in words where there are some.
fn layer_type_of(layer: &str) -> String {
    let name = layer.strip_suffix(".weight").unwrap_or(layer);
    let block =
        |name: &str| name.strip_prefix("h.").and_then(|rest| Some(rest.split_once('.')?.1.to_string()));
    match block(name).as_deref().unwrap_or(name) {
        "attn.c_attn" => "qkv".into(),
        "attn.c_proj" => "attention output".into(),
        "mlp.c_fc" => "MLP up".into(),
        "mlp.c_proj" => "MLP down".into(),
        "lm_head" | "wte" => HEAD.into(),
        other => crate::text::shortened(other, 40),
    }
}

/// The matrices one below the other, the rows of each below the name of its format.
fn plot(layer_types: &[String], matrices: &BTreeMap<String, BTreeMap<Cell, Measured>>) -> Plot {
    let mut names: Vec<String> = Vec::new();
    let mut rows: Vec<Vec<Option<f64>>> = Vec::new();
    let mut texts: Vec<(usize, usize, &Measured)> = Vec::new();
    for (format, cells) in matrices {
        names.push(crate::text::shortened(format, 24));
        rows.push(vec![None; ROLES.len()]);
        for layer_type in (0..layer_types.len()).map(Some).chain([None]) {
            names.push(
                layer_type.map_or("all layer types".into(), |layer_type| layer_types[layer_type].clone()),
            );
            let of_role = |role: usize| cells.get(&(layer_type, role));
            texts.extend((0..ROLES.len()).filter_map(|role| Some((rows.len(), role, of_role(role)?))));
            rows.push((0..ROLES.len()).map(|role| Some(of_role(role)?.difference.mean)).collect());
        }
    }
    let most = rows.iter().flatten().flatten().fold(1e-6, |most: f64, value| most.max(value.abs()));
    let axis = Axis::over("nats per token", Kind::Linear, std::iter::empty()).with_range([-most, most]);
    let below = |row: usize, line: f64| (rows.len() - 1 - row) as f64 + line;
    let texts = texts.into_iter().flat_map(|(row, role, measured)| {
        let [mean, half] = said(measured);
        let place = |line: f64, text: String| (role as f64, below(row, line), text);
        std::iter::once(place(if half.is_empty() { 0.0 } else { 0.21 }, mean))
            .chain((!half.is_empty()).then(|| place(-0.21, half)))
            .collect::<Vec<_>>()
    });
    let texts = texts.collect();
    let height = rows.len() * ROW;
    let y = Axis::over("", Kind::Names(super::downwards(&names)), std::iter::empty());
    let x = Axis::over("", Kind::Names(ROLES.map(str::to_string).to_vec()), std::iter::empty());
    let scale = axis.ticks().into_iter().map(|(place, text)| (place / 1000.0, text)).collect();
    let picture = Picture {
        rows,
        range: axis.range,
        is_log: false,
        palette: Palette::Diverging,
        title: axis.title,
        scale,
    };
    Plot { x, y, series: Vec::new(), picture: Some(picture), rules: Vec::new(), texts, height }
}

/// Mean and half interval, which is empty with one seed.
fn said(measured: &Measured) -> [String; 2] {
    let is_significant = measured.p_holm.is_some_and(|p| p < 1.0 - CONFIDENCE);
    let mark = if is_significant { "*" } else { "" };
    let half = measured.difference.half_width.map_or(String::new(), |half| format!("± {half:.4}"));
    [format!("{:+.4}{mark}", measured.difference.mean), half]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn kind(layers: &[&str], formats: [&str; 3]) -> LayerKind {
        let format = |name: &str| Some(name.to_string()).filter(|name| !name.is_empty());
        LayerKind { layers: layers.iter().map(ToString::to_string).collect(), formats: formats.map(format) }
    }

    #[test]
    fn a_cell_is_one_role_or_all_in_one_layer_type_or_in_all() {
        let [up, down, head] = ["h.0.mlp.c_fc.weight", "h.0.mlp.c_proj.weight", "wte.weight"];
        let layer_types = ["MLP up", "MLP down", "head"].map(str::to_string);
        let of = |kinds: &[LayerKind]| cell(kinds, &layer_types).map(|(_, cell)| cell);
        let none = ["", "", ""];
        let one = [kind(&[up, down], none), kind(&[head], ["", "", "E2M1"])];
        assert_eq!(cell(&one, &layer_types), Some(("E2M1".into(), (Some(2), 2))));
        let everywhere = [kind(&[up, down, head], ["E2M1"; 3])];
        assert_eq!(of(&everywhere), Some((None, ALL_ROLES)));
        assert_eq!(of(&[kind(&[up, down, head], none)]), None, "nothing is rounded");
        assert_eq!(of(&[kind(&[up, down, head], ["E4M3", "E4M3", "E5M2"])]), None, "two formats");
        assert_eq!(
            of(&[kind(&[up, head], ["E2M1", "", ""]), kind(&[down], none)]),
            None,
            "two of three layer types"
        );
        assert_eq!(of(&[kind(&[up, down, head], ["E2M1", "E2M1", ""])]), None, "two of three roles");
        let blocks = [kind(&[up, down, head], ["E2M1", "", ""]), kind(&["h.1.mlp.c_fc.weight"], none)];
        assert_eq!(of(&blocks), None, "blocks that differ");
    }
}

//! Colours: one for each format, the same everywhere; and some for the values of other keys.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::Group;

/// Colours of formats in light and dark: Okabe and Ito's, darker or lighter where a page needs the contrast.
const COLOURS: [(&str, [&str; 2]); 19] = [
    ("fp32", ["#4b5563", "#c9ced6"]),
    ("bf16", ["#8a6f5c", "#c9a98f"]),
    ("E4M3", ["#0072b2", "#4fb0ea"]),
    ("E5M2", ["#c94f00", "#ff9651"]),
    ("E3M4", ["#008060", "#3fcf9f"]),
    ("E7M0", ["#b04a86", "#ee9ccb"]),
    ("E1M6", ["#8f6c00", "#e8c33d"]),
    ("E6M1", ["#6448b0", "#b09af2"]),
    ("E2M5", ["#1f86ad", "#86d8f5"]),
    ("E0M7", ["#6a6a14", "#c8c860"]),
    ("E2M1", ["#a32a4f", "#f590ae"]),
    ("E2M3", ["#3b6d8c", "#9cc6de"]),
    ("E3M2", ["#3f7d20", "#a5d67f"]),
    ("E5M10", ["#7d5a3c", "#d3ab88"]),
    ("E8M7", ["#75618a", "#c4b0d8"]),
    ("E5M6", ["#9f6300", "#f2bc66"]),
    ("INT8", ["#4f4f9e", "#a9a9ec"]),
    ("INT4", ["#8c3b8c", "#dd9edd"]),
    ("DYNAMIC8", ["#2d7373", "#7fc9c9"]),
];
/// For all other values, in turn.
const MORE: [[&str; 2]; 4] =
    [["#a33b20", "#f08c72"], ["#2f6f3a", "#8fd49a"], ["#5a5a5a", "#b5b5b5"], ["#7a3f7a", "#d79ad7"]];
/// Shades of one colour: the step towards black in light, and white in dark, for the next label of the same format.
const SHADE: f64 = 0.4;

/// Colours of Okabe and Ito, for values of any key, in turn.
const PLAIN: [[&str; 2]; 8] = [
    ["#0072b2", "#4fb0ea"],
    ["#c94f00", "#ff9651"],
    ["#008060", "#3fcf9f"],
    ["#b04a86", "#ee9ccb"],
    ["#8f6c00", "#e8c33d"],
    ["#6448b0", "#b09af2"],
    ["#4b5563", "#c9ced6"],
    ["#1f86ad", "#86d8f5"],
];
/// Ends and middle of a ramp for numbers, in light and dark: lightness rises or falls along it.
const RAMPS: [[&str; 3]; 2] = [["#1b2a6b", "#0f8b8d", "#d98c00"], ["#7f9cff", "#43d6c4", "#ffd166"]];

/// Formats in the order of groups.
pub(super) fn formats(groups: &[Group]) -> Vec<&str> {
    let mut formats: Vec<&str> = Vec::new();
    for group in groups {
        if !formats.contains(&group.format.as_str()) {
            formats.push(&group.format);
        }
    }
    formats
}

/// A colour for each label of formats: that of the first format it names, in a shade of its own; else the next free
/// one.
pub(crate) fn of_formats(labels: &BTreeSet<&str>) -> BTreeMap<String, [String; 2]> {
    let mut shades = [0; COLOURS.len()];
    let mut others = 0;
    let mut colours = BTreeMap::new();
    let mut labels: Vec<&str> = labels.iter().copied().collect();
    // The shorter label is the plainer one: `E4M3` before `E4M3 w`.
    labels.sort_by_key(|format| format.len());
    for format in labels {
        let known = COLOURS.iter().position(|(name, _)| format.starts_with(name));
        let ([light, dark], shade) = match known {
            Some(index) => {
                shades[index] += 1;
                (COLOURS[index].1, shades[index] - 1)
            }
            None => {
                others += 1;
                (MORE[(others - 1) % MORE.len()], (others - 1) / MORE.len())
            }
        };
        colours.insert(format.to_string(), shade_of([light, dark], shade));
    }
    colours
}

/// A colour for the value of this number.
pub(crate) fn plain(index: usize) -> [String; 2] {
    shade_of(PLAIN[index % PLAIN.len()], index / PLAIN.len())
}

/// A colour for one of this many numbers in the order of their size.
pub(crate) fn ramp(index: usize, count: usize) -> [String; 2] {
    let place = 2.0 * index as f64 / (count.max(2) - 1) as f64;
    RAMPS.map(|ramp| {
        let first = (place as usize).min(1);
        between(ramp[first], ramp[first + 1], place - first as f64)
    })
}

fn shade_of([light, dark]: [&str; 2], shade: usize) -> [String; 2] {
    let left = (1.0 - SHADE).powi(shade.min(6) as i32);
    [between("#000000", light, left), between("#ffffff", dark, left)]
}

/// A colour, `#rrggbb`, so far from one to another.
fn between(from: &str, to: &str, part: f64) -> String {
    let channel = |colour: &str, at: usize| {
        f64::from(u8::from_str_radix(colour.get(at..at + 2).unwrap_or("80"), 16).unwrap_or(128))
    };
    let mix = |at: usize| (channel(from, at) * (1.0 - part) + channel(to, at) * part).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(1), mix(3), mix(5))
}

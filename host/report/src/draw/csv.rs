//! A drawing's numbers as CSV.

use super::{Axis, Kind, Part, Plot};

/// The numbers: marks one a row, or a heat map's cells.
pub(crate) fn csv(plot: &Plot) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let said = |axis: &Axis, value: f64| match &axis.kind {
        Kind::Names(names) => names.get(value.round() as usize).cloned().unwrap_or_default(),
        _ => value.to_string(),
    };
    let mut write = |cells: &[String]| {
        // Memory takes every byte, and all rows have four cells.
        let _ = writer.write_record(cells);
    };
    let [x, y] = [&plot.x, &plot.y]
        .map(|axis| if axis.title.is_empty() { "name".to_string() } else { axis.title.clone() });
    match &plot.picture {
        Some(picture) => {
            write(&["row".into(), x, picture.title.clone(), String::new()]);
            for (index, row) in picture.rows.iter().enumerate() {
                let name = said(&plot.y, (picture.rows.len() - 1 - index) as f64);
                for (column, cell) in row.iter().enumerate() {
                    let value = cell.map_or(String::new(), |value| value.to_string());
                    write(&[name.clone(), said(&plot.x, column as f64), value, String::new()]);
                }
            }
        }
        None => {
            write(&["series".into(), x, y, "text".into()]);
            for series in plot.series.iter().filter(|series| !series.is_single) {
                let mut row = |x: f64, y: f64, text: &str| {
                    let cells = [series.name.clone(), said(&plot.x, x), said(&plot.y, y), text.to_string()];
                    write(&cells);
                };
                let has_line = series.parts.iter().any(|part| matches!(part, Part::Line(_)));
                for part in &series.parts {
                    match part {
                        Part::Line(points) => points.iter().for_each(|[x, y]| row(*x, *y, "")),
                        Part::Band(points) => points.iter().for_each(|[x, low, high]| {
                            row(*x, *low, "least");
                            row(*x, *high, "largest");
                        }),
                        Part::Dots(points) if !has_line => {
                            points.iter().for_each(|([x, y], note)| row(*x, *y, note));
                        }
                        Part::Intervals(ends) => ends.iter().for_each(|[y, low, high]| {
                            row(*low, *y, "lower end");
                            row(*high, *y, "upper end");
                        }),
                        Part::Dots(_) => {}
                    }
                }
            }
        }
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

//! The tables of results/claims.

use std::collections::BTreeMap;

use super::{Cell, Losses, difference, family, losses, mean, read};

/// The cell that a case is compared with.
fn baseline_of(cell: &[String]) -> Cell {
    let [matrix, _, rate] = cell else { panic!("{cell:?}") };
    let of = |matrix: &str, case: &str, rate: &str| [matrix, case, rate].map(String::from).to_vec();
    match matrix.as_str() {
        "rates" => of(matrix, "fp32", rate),
        "stored" => of(matrix, "master", rate),
        "hybrid" => of("baseline", "bf16", ""),
        "gains" => of(matrix, "gain-fp32", ""),
        "attention" => of(matrix, "nearest", ""),
        "split" | "swiglu" => of(matrix, "fp32", ""),
        "fp4" => of(matrix, "nvfp4", ""),
        _ => of("baseline", "fp32", ""),
    }
}

fn rows(matrix: &str, cells: &Losses) -> Vec<String> {
    let complete =
        |cell: &Cell| cells.get(cell).filter(|of| of.len() == 5 && of.values().all(|loss| loss.is_finite()));
    let own: Vec<&Cell> = cells.keys().filter(|cell| cell[0] == matrix).collect();
    let pairs = own.iter().filter(|cell| baseline_of(cell) != ***cell);
    let found: BTreeMap<_, _> = pairs
        .filter_map(|cell| {
            Some(((**cell).clone(), difference(complete(cell)?, complete(&baseline_of(cell))?)))
        })
        .collect();
    let texts = family(&found);
    let shown = own.into_iter().map(|cell| {
        let losses: Vec<f64> = cells[cell].values().copied().collect();
        let diverged = losses.iter().filter(|loss| !loss.is_finite()).count();
        let loss = match diverged {
            0 => format!("{:.4}", mean(&losses)),
            _ => format!("{diverged} of {} diverged", losses.len()),
        };
        let (text, detectable) = texts
            .get(cell)
            .map_or(("", String::new()), |(text, detectable)| (text.as_str(), format!("{detectable:.4}")));
        format!("| {} | {} | {loss} | {text} | {detectable} |", cell[1], cell[2])
    });
    shown.collect()
}

#[test]
fn tables_of_claims_are_those_of_their_records() {
    let (page, cells) = (read("results/claims/README.md"), losses("results/claims/losses.csv"));
    let matrices = ["hybrid", "split", "rates", "stored", "fp4", "swiglu", "gains", "attention", "states"];
    let rows = matrices.map(|matrix| rows(matrix, &cells));
    assert!(rows.iter().all(|rows| rows.len() >= 3));
    let missing: Vec<&String> = rows.iter().flatten().filter(|row| !page.contains(*row)).collect();
    assert!(missing.is_empty(), "results/claims/README.md lacks {missing:#?}");
}

//! The tables of results/optimizers.

use std::collections::{BTreeMap, BTreeSet};

use super::{Cell, difference, family, losses, mean, read};

/// A tried rate, and whether it was chosen.
type Rate = (f64, bool);

fn baseline_cell() -> Cell {
    ["fp32", "fp32", "adamw"].map(String::from).to_vec()
}

/// The rates that were tried for each cell.
fn rates() -> BTreeMap<Cell, Vec<Rate>> {
    let mut rates = BTreeMap::<Cell, Vec<Rate>>::new();
    for line in read("results/optimizers/rates.csv").lines().skip(1) {
        let columns: Vec<&str> = line.split(',').collect();
        let [format, storage, optimizer, _, value, _, _, chosen] = &columns[..] else { panic!("{line}") };
        let cell = [format, storage, optimizer].map(ToString::to_string).to_vec();
        rates.entry(cell).or_default().push((value.parse().unwrap(), *chosen == "1"));
    }
    rates
}

/// The chosen rate, and whether it is at an end of those tried.
fn chosen(rates: &[Rate]) -> (f64, bool) {
    let (value, _) = rates.iter().find(|(_, chosen)| *chosen).unwrap();
    let end = |pick: fn(f64, f64) -> f64| rates.iter().map(|(value, _)| *value).reduce(pick);
    (*value, [end(f64::min), end(f64::max)].contains(&Some(*value)))
}

/// As Python's `:g`, for the rates that are tried.
fn short(rate: f64) -> String {
    if rate < 1e-4 { format!("{rate:e}").replace("e-", "e-0") } else { format!("{rate}") }
}

/// A difference and its smallest detectable size.
fn columns(of: Option<&(String, f64)>) -> String {
    of.map_or(" | ".to_string(), |(text, detectable)| format!("{text} | {detectable:.4}"))
}

#[test]
fn tables_of_optimizers_are_those_of_their_records() {
    let page = read("results/optimizers/README.md");
    let mut cells = losses("results/optimizers/losses.csv");
    cells.retain(|_, seeds| seeds.len() == 5 && seeds.values().all(|loss| loss.is_finite()));
    let adamw = |cell: &Cell| vec![cell[0].clone(), cell[1].clone(), "adamw".into()];
    let to = |baseline: &dyn Fn(&Cell) -> Cell, is_meant: &dyn Fn(&Cell) -> bool| {
        let meant = cells.iter().filter(|(cell, _)| is_meant(cell) && baseline(cell) != **cell);
        let with = |(cell, own): (&Cell, &BTreeMap<u64, f64>)| {
            Some((cell.clone(), difference(own, cells.get(&baseline(cell))?)))
        };
        meant.filter_map(with).collect::<BTreeMap<_, _>>()
    };
    let same = to(&adamw, &|_| true);
    let exact = to(&|_| baseline_cell(), &|cell| cell[0] != "fp32");
    let own = to(&|cell| vec!["fp32".into(), "fp32".into(), cell[2].clone()], &|_| true);
    let (of_same, of_exact, of_own, rates) = (family(&same), family(&exact), family(&own), rates());
    let mut missing = BTreeSet::new();
    for (cell, seeds) in &cells {
        let (rate, at_edge) = chosen(&rates[cell]);
        let edge = if at_edge { " (edge)" } else { "" };
        let loss = mean(&seeds.values().copied().collect::<Vec<_>>());
        let exact = of_exact.get(cell).map_or("", |(text, _)| text);
        let [same, own] = [&of_same, &of_own].map(|of| columns(of.get(cell)));
        let row = format!(
            "| {} | {} | {}{edge} | {loss:.4} | {same} | {exact} | {own} |",
            cell[1],
            cell[2],
            short(rate)
        );
        if !page.contains(&row) {
            missing.insert(row);
        }
    }
    assert!(missing.is_empty(), "results/optimizers/README.md lacks {missing:#?}");
    let families = match cells.len() {
        0 => "**No run has completed.**".to_string(),
        _ => format!(
            "`k` is {} for differences to AdamW, {} for those to AdamW in fp32, and {} for",
            same.len(),
            exact.len(),
            own.len()
        ),
    };
    assert!(page.contains(&families), "results/optimizers/README.md lacks {families}");
}

/// Checks the table of a family: cells that `is_meant` selects, with the cell that `other` makes of each.
fn check_family(
    is_meant: impl Fn(&Cell) -> bool,
    other: impl Fn(&Cell) -> Cell,
    shown: [usize; 2],
    size: usize,
) {
    let (page, cells) = (read("results/optimizers/README.md"), losses("results/optimizers/losses.csv"));
    let found = cells.iter().filter(|(cell, _)| is_meant(cell));
    let found: BTreeMap<_, _> =
        found.map(|(cell, own)| (cell.clone(), difference(own, &cells[&other(cell)]))).collect();
    for (cell, of) in family(&found) {
        let row = format!("| {} | {} | {} |", cell[shown[0]], cell[shown[1]], columns(Some(&of)));
        assert!(page.contains(&row), "results/optimizers/README.md lacks {row}");
    }
    assert_eq!(found.len(), size);
}

#[test]
fn the_comparisons_of_two_optimizers_are_those_of_their_records() {
    for (own, other, size) in [("stiffness", "madam", 10), ("muon", "soap", 16)] {
        let other = |cell: &Cell| vec![cell[0].clone(), cell[1].clone(), other.into()];
        check_family(|cell| cell[2] == own, other, [0, 1], size);
    }
}

#[test]
fn the_comparison_of_storages_is_that_of_its_records() {
    let is_meant = |cell: &Cell| cell[1] == "feedback" && ["adamw", "muon"].contains(&cell[2].as_str());
    let other = |cell: &Cell| vec![cell[0].clone(), "stochastic".into(), cell[2].clone()];
    check_family(is_meant, other, [0, 2], 10);
}

#[test]
fn the_comparison_with_master_weights_is_that_of_its_records() {
    let (page, cells) = (read("results/optimizers/README.md"), losses("results/optimizers/losses.csv"));
    let of = |format: &str, storage: &str, optimizer: &str| {
        [format, storage, optimizer].map(String::from).to_vec()
    };
    let other = |cell: &Cell| of(&cell[0], "master", &cell[2]);
    let without = cells.iter().filter(|(cell, _)| cell[0] != "fp32" && cell[1] != "master");
    let found: BTreeMap<_, _> =
        without.map(|(cell, own)| (cell.clone(), difference(own, &cells[&other(cell)]))).collect();
    let texts = family(&found);
    for cell in cells.keys().filter(|cell| cell[1] == "master") {
        let [stochastic, feedback] =
            ["stochastic", "feedback"].map(|storage| columns(texts.get(&of(&cell[0], storage, &cell[2]))));
        let row = format!("| {} | {} | {stochastic} | {feedback} |", cell[0], cell[2]);
        assert!(page.contains(&row), "results/optimizers/README.md lacks {row}");
    }
    let significant = |storage: &str, sign: f64| {
        let is_one = |cell: &&&Cell| cell[1] == storage && found[**cell].mean * sign > 0.0;
        texts
            .iter()
            .filter(|(_, (text, _))| text.starts_with("**"))
            .map(|(cell, _)| cell)
            .filter(is_one)
            .count()
    };
    let counts =
        [significant("stochastic", 1.0), significant("stochastic", -1.0), significant("feedback", 1.0)];
    assert_eq!((found.len(), counts), (70, [7, 4, 1]), "as claimed in results/");
}

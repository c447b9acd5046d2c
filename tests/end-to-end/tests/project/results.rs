//! The tables of results/ are what their committed records say.

use std::{collections::BTreeMap, fs};

use super::root;

mod claims;
mod optimizers;
mod records;

/// t(0.975, 4): every mean is over five seeds.
const T_975: f64 = 2.776_445;

/// A cell of a table: the columns of its record but seed and loss.
type Cell = Vec<String>;

/// Loss by seed, of each cell.
type Losses = BTreeMap<Cell, BTreeMap<u64, f64>>;

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Reads a record whose last two columns are seed and held-out loss.
fn losses(path: &str) -> Losses {
    let mut losses = Losses::new();
    for line in read(path).lines().skip(1) {
        let columns: Vec<&str> = line.split(',').collect();
        let [cell @ .., seed, loss] = &columns[..] else { panic!("{path}: {line}") };
        let cell = cell.iter().map(ToString::to_string).collect();
        losses.entry(cell).or_default().insert(seed.parse().unwrap(), loss.parse().unwrap());
    }
    losses
}

/// Differences to a baseline of the same seeds.
#[derive(Debug, Clone, Copy)]
struct Difference {
    mean: f64,
    /// Half of the 95 % interval.
    half: f64,
    /// Two-sided probability of Student's t with 4 degrees of freedom.
    p: f64,
    /// Standard error.
    error: f64,
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)).sqrt()
}

/// 1 - F(|t|) twice, in closed form for 4 degrees of freedom.
fn probability(t: f64) -> f64 {
    let share = t * t / (4.0 + t * t);
    let inner = share.sqrt() * (3.0 - share) / 2.0;
    1.0 - inner
}

fn difference(cell: &BTreeMap<u64, f64>, baseline: &BTreeMap<u64, f64>) -> Difference {
    let values: Vec<f64> = cell.iter().map(|(seed, loss)| loss - baseline[seed]).collect();
    assert_eq!(values.len(), 5);
    let (mean, error) = (mean(&values), deviation(&values) / 5f64.sqrt());
    Difference { mean, half: T_975 * error, p: probability((mean / error).abs()), error }
}

/// Holm's correction.
fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let (mut corrected, mut least) = (vec![0.0; p.len()], 0.0f64);
    for (rank, index) in order.into_iter().enumerate() {
        least = least.max(((p.len() - rank) as f64 * p[index]).min(1.0));
        corrected[index] = least;
    }
    corrected
}

/// A cell of a table, bold if it is significant.
fn shown(of: Difference, corrected: f64) -> String {
    let text = format!("{:+.4} ± {:.4}", of.mean, of.half).replace('-', "−");
    if corrected < 0.05 { format!("**{text}**") } else { text }
}

/// The smallest true difference, in standard errors, that the strictest of Holm's tests detects with power 80 %.
fn least_detectable(tests: usize) -> f64 {
    altgrad_report::power::detectable(5, 5f64.sqrt(), 0.05 / tests.max(1) as f64).unwrap()
}

/// The differences of cells to their baselines, with the text of each, and the smallest difference that power 80 % detects.
fn family(found: &BTreeMap<Cell, Difference>) -> BTreeMap<&Cell, (String, f64)> {
    let corrected = holm(&found.values().map(|of| of.p).collect::<Vec<_>>());
    let least = least_detectable(found.len());
    let texts = found.iter().zip(corrected).map(|((cell, of), p)| (cell, (shown(*of, p), least * of.error)));
    texts.collect()
}

/// The differences of all cells to the cell `fp32` of a record with one column of names.
fn differences_to_fp32(cells: &Losses) -> BTreeMap<Cell, Difference> {
    let baseline = &cells[&vec!["fp32".to_string()]];
    let others = cells.iter().filter(|(cell, _)| cell[0] != "fp32");
    others.map(|(cell, of)| (cell.clone(), difference(of, baseline))).collect()
}

/// The cells of results/where/losses.csv as they are shown, by format, role and site.
fn cells_of_where() -> BTreeMap<Vec<String>, String> {
    let losses = losses("results/where/losses.csv");
    let key = |format: &str, cell: &[String]| vec![format.to_string(), cell[1].clone(), cell[2].clone()];
    let baseline = &losses[&["fp32", "none", "none"].map(String::from).to_vec()];
    let cells: Vec<_> = losses.iter().filter(|(cell, _)| cell[0] != "fp32").collect();
    let differences: Vec<_> =
        cells.iter().map(|(cell, losses)| (*cell, difference(losses, baseline))).collect();
    // INT8 is E1M6's grid with another scale.
    let family: Vec<_> = differences.iter().filter(|(cell, _)| cell[0] != "INT8").collect();
    let corrected = holm(&family.iter().map(|(_, of)| of.p).collect::<Vec<_>>());
    let corrected: BTreeMap<_, _> = family.iter().map(|(cell, _)| (*cell).clone()).zip(corrected).collect();
    let corrected_of = |cell: &Vec<String>| {
        let own = if cell[0] == "INT8" { key("E1M6", cell) } else { cell.clone() };
        corrected[&own]
    };
    differences.into_iter().map(|(cell, of)| (cell.clone(), shown(of, corrected_of(cell)))).collect()
}

const ROLES: [&str; 3] = ["weight", "activation", "grad"];

#[test]
fn tables_of_where_are_those_of_its_records() {
    let (page, cells) = (read("results/where/README.md"), cells_of_where());
    let cell = |format: &str, role: &str, site: &str| {
        cells.get(&[format, role, site].map(String::from)[..]).map_or("not run", String::as_str)
    };
    let mut rows = Vec::new();
    for format in ["E2M1", "E5M2", "E4M3", "E3M4", "E7M0", "E1M6"] {
        let sites = ["qkv", "attention_output", "mlp_up", "mlp_down", "head"];
        for site in sites.into_iter().filter(|site| cell(format, "weight", site) != "not run") {
            let name = site.replace('_', " ").replace("mlp", "MLP");
            rows.push(format!("| {name} | {} |", ROLES.map(|role| cell(format, role, site)).join(" | ")));
        }
    }
    for format in ["E4M3", "E5M2", "E3M4", "E7M0", "E1M6", "INT8", "E2M1"] {
        let roles = ROLES.map(|role| cell(format, role, "all")).join(" | ");
        rows.push(format!("| {format} | {roles} | {} |", cell(format, "together", "all")));
    }
    let missing: Vec<&String> = rows.iter().filter(|row| !page.contains(*row)).collect();
    assert!(missing.is_empty() && rows.len() >= 12, "results/where/README.md lacks {missing:#?}");
}

#[test]
fn the_table_of_attention_is_that_of_its_records() {
    let page = read("results/where/README.md");
    let found = differences_to_fp32(&losses("results/where/attention.csv"));
    let family = family(&found);
    let operands = ["queries", "keys", "values", "probabilities", "scores_grad", "attention_grad", "all"];
    for format in ["E4M3", "E5M2", "E3M4", "E7M0", "E1M6", "E2M1"] {
        let cell = |operand: &str| family[&vec![format!("{format}_{operand}")]].0.clone();
        let row = format!("| {format} | {} |", operands.map(cell).join(" | "));
        assert!(page.contains(&row), "results/where/README.md lacks {row}");
    }
    assert_eq!(family.len(), 42);
}

#[test]
fn the_confirmation_of_where_is_that_of_its_records() {
    let (page, losses) = (read("results/where/README.md"), losses("results/where/confirm.csv"));
    let of = |case: &str| &losses[&vec![case.to_string()]];
    let cases = ["E3M4", "E2M1_head_grad_E5M2", "E2M1_head_grad_fp32", "E2M1"];
    let differences = cases.map(|case| difference(of(case), of("fp32")));
    let corrected = holm(&differences.map(|of| of.p));
    let least = least_detectable(cases.len());
    for ((case, difference), corrected) in cases.into_iter().zip(differences).zip(corrected) {
        let p = if corrected < 0.0001 { "< 0.0001".to_string() } else { format!("{corrected:.4}") };
        let loss = mean(&of(case).values().copied().collect::<Vec<_>>());
        let detectable = least * difference.error;
        let row = format!("| {loss:.4} | {} | {p} | {detectable:.4} |", shown(difference, corrected));
        assert!(page.contains(&row), "results/where/README.md lacks {row}");
    }
}

/// The columns of the table of recipes that results/recipes/casts.csv has, by recipe: means over seeds.
fn columns_of_casts() -> BTreeMap<String, String> {
    let mut recipes = BTreeMap::<String, [Vec<f64>; 9]>::new();
    for line in read("results/recipes/casts.csv").lines().skip(1) {
        let [recipe, _seed, cells @ ..] = &line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let columns = recipes.entry(recipe.to_string()).or_default();
        assert_eq!(cells.len(), columns.len(), "{line}");
        columns.iter_mut().zip(cells).for_each(|(column, cell)| column.extend(cell.parse::<f64>()));
    }
    let shown = |[cosine, overflow, underflow, sqnr @ ..]: [Vec<f64>; 9]| {
        let average = |column: &Vec<f64>| (!column.is_empty()).then(|| mean(column));
        let rate = |column| average(column).map_or("-".into(), |rate| format!("{:.3}", 100.0 * rate));
        let pair = |uses: &[Vec<f64>]| {
            let present: Vec<String> = uses.iter().filter_map(average).map(|db| format!("{db:.1}")).collect();
            if present.is_empty() { "-".to_string() } else { present.join(", ") }
        };
        let sqnr: Vec<String> = sqnr.chunks(2).map(pair).collect();
        let cosine = mean(&cosine);
        format!("{cosine:.5} | {} | {} | {}", rate(&overflow), rate(&underflow), sqnr.join(" | "))
    };
    recipes.into_iter().map(|(recipe, columns)| (recipe, shown(columns))).collect()
}

#[test]
fn the_table_of_recipes_is_that_of_its_records() {
    let (page, recipes) = (read("results/recipes/README.md"), losses("results/recipes/losses.csv"));
    let [baseline, mxfp8, same] = ["fp32", "mxfp8", "torchao_mxfp8"].map(|name| vec![name.to_string()]);
    assert_eq!(recipes[&mxfp8], recipes[&same], "one test for both");
    let tested = recipes.iter().filter(|(recipe, _)| **recipe != baseline && **recipe != same);
    let found = tested.map(|(recipe, of)| (recipe.clone(), difference(of, &recipes[&baseline]))).collect();
    let (mut family, casts) = (family(&found), columns_of_casts());
    family.insert(&same, family[&mxfp8].clone());
    for (recipe, (text, detectable)) in &family {
        let all: Vec<f64> = recipes[*recipe].values().copied().collect();
        let (mean, deviation) = (mean(&all), deviation(&all));
        let text = text.replace('−', "-");
        let casts = &casts[&recipe[0]];
        let row =
            format!("| {} | {mean:.4} ± {deviation:.4} | {text} | {detectable:.4} | {casts} |", recipe[0]);
        assert!(page.contains(&row), "results/recipes/README.md lacks {row}");
    }
    assert_eq!((family.len(), casts.len()), (18, 19));
}

#[test]
fn the_table_of_stored_scales_is_that_of_its_records() {
    let (page, cells) = (read("results/stored-scales/README.md"), losses("results/stored-scales/losses.csv"));
    let values = |cell: &Cell| cells[cell].values().copied().collect::<Vec<_>>();
    // Above the loss of a uniform guess over bytes.
    let diverges = |cell: &Cell| mean(&values(cell)) > 256f64.ln();
    let with_rule = |cell: &[String], rule: &str| [&cell[..3], &[rule.to_string()]].concat();
    let other = |cell: &Cell| match cell[3].as_str() {
        "power_of_two" => Some(with_rule(cell, "fixed")),
        "dynamic" => Some(with_rule(cell, "power_of_two")),
        _ => None,
    };
    let compared = |(cell, of): (&Cell, &BTreeMap<u64, f64>)| {
        let other = other(cell).filter(|other| !diverges(other) && !diverges(cell))?;
        Some((cell.clone(), difference(of, &cells[&other])))
    };
    let found: BTreeMap<Cell, Difference> = cells.iter().filter_map(compared).collect();
    let corrected = holm(&found.values().map(|of| of.p).collect::<Vec<_>>());
    let corrected: BTreeMap<&Cell, f64> = found.keys().zip(corrected).collect();
    let least = least_detectable(found.len());
    let column = |cell: &Cell| {
        let Some(of) = found.get(cell) else { return ["diverges".to_string(), "–".to_string()] };
        let text = format!("{:+.3} ± {:.3}", of.mean, of.half).replace('-', "−");
        let text = if corrected[cell] < 0.05 { format!("**{text}**") } else { text };
        [text, format!("{:.3}", least * of.error)]
    };
    let loss = |cell: Cell| match diverges(&cell) {
        true => "diverges".to_string(),
        false => format!("{:.3} ± {:.3}", mean(&values(&cell)), deviation(&values(&cell))),
    };
    for cell in cells.keys().filter(|cell| cell[3] == "fixed") {
        let losses = ["fixed", "power_of_two", "dynamic"].map(|rule| loss(with_rule(cell, rule))).join(" | ");
        let [first, second] = ["power_of_two", "dynamic"].map(|rule| column(&with_rule(cell, rule)));
        let differences = format!("{} | {} | {}, {}", first[0], second[0], first[1], second[1]);
        let row = format!("| {} | {losses} | {differences} |", cell[..3].join(" | "));
        assert!(page.contains(&row), "results/stored-scales/README.md lacks {row}");
    }
    assert_eq!(found.len(), 58);
}

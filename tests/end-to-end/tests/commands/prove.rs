//! `casts prove`: refutations that `casts apply` shows, and `formats design` of values whose best table is known.

use std::fs;

use altgrad_end_to_end::{Bench, TINY};

fn read(bench: &Bench, name: &str) -> Vec<f32> {
    let bytes = fs::read(bench.path(name)).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// The words of a printed command, whose cast is in quotes.
fn words(command: &str) -> Vec<&str> {
    let parts: Vec<&str> = command.trim().split('\'').collect();
    let [before, cast, after] = parts[..] else { panic!("{command}") };
    before.split_whitespace().chain([cast]).chain(after.split_whitespace()).collect()
}

/// Planted faults: a rule that clips, a biased stochastic rule, a scale that overflows for tiny magnitudes, and a block
/// that becomes zero beside a larger one.
#[test]
fn each_refuted_property_is_shown_by_the_printed_command() {
    type Shows = fn(&[f32], &[f32], &[f32]) -> bool;
    let two_levels = "block = 16, scaling = { type = 'e4m3', tensor = 'f32' }";
    let planted: [(String, &str, Shows); 4] = [
        (
            "format = 'E4M3', block = 32, scaling = { type = 'e8m0', rule = 'floor' }".to_owned(),
            "never-clips",
            |input, output, scales| input[0] / scales[0] > 448.0 && output[0] == 448.0 * scales[0],
        ),
        (
            format!("format = 'E2M1', rounding = 'stochastic', {two_levels}"),
            "unbiased",
            |input, output, _| input.iter().zip(output).any(|(x, y)| y.abs() < 0.999 * x.abs()),
        ),
        (
            "format = 'E4M3', block = 'row', scaling = { limit = 'f32' }".to_owned(),
            "normal-scales",
            |_, _, scales| scales[0].is_subnormal(),
        ),
        (format!("format = 'E2M1', {two_levels}"), "never-zeroes", |input, output, _| {
            input.iter().zip(output).any(|(x, y)| *x != 0.0 && *y == 0.0)
        }),
    ];
    let bench = Bench::new();
    for (cast, property, shows) in planted {
        let proved = bench.host(&["casts", "prove", &cast]);
        assert_eq!(proved.code, 0, "{}", proved.stderr);
        let lines: Vec<&str> = proved.stdout.lines().collect();
        let line = lines.iter().position(|line| line.starts_with(property)).unwrap();
        assert!(lines[line].contains("refuted by ["), "{cast}: {}", lines[line]);
        let command = words(lines[line + 1]);
        let input = read(&bench, command[command.iter().position(|word| *word == "--input").unwrap() + 1]);
        // Random rounding shows the same for each seed.
        let seeds: &[&str] = if property == "unbiased" { &["0", "1", "2", "3"] } else { &["0"] };
        for seed in seeds {
            let applied = bench.host(&[&command[1..], &["--seed", seed]].concat());
            assert_eq!(applied.code, 0, "{}", applied.stderr);
            let (output, scales) = (read(&bench, "out.f32"), read(&bench, "scales.f32"));
            assert!(shows(&input, &output, &scales), "{cast}: {input:?} {output:?} {scales:?}");
        }
    }
}

#[test]
fn a_recipe_is_proved_use_by_use_and_faults_are_placed() {
    let bench = Bench::new();
    let proved = bench.host(&["casts", "prove", "te_block"]);
    assert_eq!(proved.code, 0, "{}", proved.stderr);
    let uses: Vec<&str> = proved.stdout.lines().filter(|line| line.contains("format = ")).collect();
    assert!(uses.iter().any(|line| line.starts_with("weight: ")), "{}", proved.stdout);
    assert!(proved.stdout.contains("order-of-blocks  proved: "), "{}", proved.stdout);
    for (cast, message) in [
        ("format = 'E4M3', blok = 8", "unknown key"),
        ("E9M9", "unknown format `E9M9`"),
        ("no_recipe.toml", "cannot read the recipe"),
    ] {
        let outcome = bench.host(&["casts", "prove", cast]);
        assert!(outcome.code == 2 && outcome.stderr.contains(message), "{cast}: {}", outcome.stderr);
    }
}

/// Values of both signs, each the mean of the distribution over an equal step of probability.
fn laplace(count: usize) -> Vec<u8> {
    // The integral of -ln over probabilities of the tail.
    let integral = |p: f64| if p == 0.0 { 0.0 } else { p - p * p.ln() };
    let step = 1.0 / count as f64;
    let value = |index: usize| {
        let low = index as f64 * step;
        ((integral(low + step) - integral(low)) / step / 2f64.sqrt()) as f32
    };
    (0..count).flat_map(|index| [value(index), -value(index)]).flat_map(f32::to_le_bytes).collect()
}

#[test]
fn the_table_of_a_laplace_sample_is_that_of_the_literature() {
    let bench = Bench::new();
    fs::write(bench.path("laplace.f32"), laplace(1 << 20)).unwrap();
    let expected: [&[f64]; 2] = [
        &[0.233_400_9, 0.832_961_8, 1.672_473_3, 3.086_686_8],
        &[
            0.123_986_0,
            0.404_839_2,
            0.728_650_3,
            1.110_984_1,
            1.577_785_9,
            2.177_346_8,
            3.016_858_2,
            4.431_071_8,
        ],
    ];
    for (bits, expected) in ["3", "4"].into_iter().zip(expected) {
        let outcome =
            bench.host(&["formats", "design", "laplace.f32", "--bits", bits, "--symmetric", "--no-zero"]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let values = outcome.stdout.split("±[").nth(1).unwrap().split(']').next().unwrap();
        let values: Vec<f64> = values.split(", ").map(|value| value.parse().unwrap()).collect();
        let is_near = |(value, expected): (&f64, &f64)| (value - expected).abs() < 1e-4;
        assert!(values.len() == expected.len() && values.iter().zip(expected).all(is_near), "{values:?}");
    }
    let table = bench.host(&["formats", "table", "DESIGNED", "--plugins", "designed"]);
    assert!(table.code == 0 && table.stdout.lines().count() == 16, "{}{}", table.stdout, table.stderr);
}

#[test]
fn a_format_for_an_observed_run_is_compared_on_other_steps_and_trains() {
    let bench = Bench::new();
    let observe = "[observe]\nformats = [\"E2M1\"]\nroles = [\"activation\", \"grad\"]\nblock = 4\nevery = 1\n[[sink]]\nname = \"csv\"\n";
    bench.write(
        "run.toml",
        &format!("{}{observe}", TINY.replace("weight = \"E5M2\"", "").replace("[quant]\n", "")),
    );
    let trained = bench.host(&["run", "run.toml", "--quiet", "--out", "seen"]);
    assert_eq!(trained.code, 0, "{}", trained.stderr);
    for objective in ["sqnr", "gradient", "loss-model", "quantiles"] {
        let design =
            ["formats", "design", "seen", "--bits", "4", "--name", "MINE4", "--objective", objective];
        let outcome = bench.host(&design);
        assert_eq!(outcome.code, 0, "{objective}: {}", outcome.stderr);
        let rows = |name: &str| outcome.stdout.lines().any(|line| line.contains(&format!("│ {name} ")));
        assert!(["MINE4", "E2M1", "INT4"].into_iter().all(rows), "{}", outcome.stdout);
        assert!(outcome.stdout.contains("on other steps 1"), "{}", outcome.stdout);
    }
    let checked = bench.host(&["sweep", "designed/matrix.toml", "--check"]);
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
    let other = bench.host(&["formats", "design", "seen", "--bits", "4", "--scale-block", "8"]);
    assert!(other.code == 2 && other.stderr.contains("observed blocks of 4"), "{}", other.stderr);
    let weight = bench.host(&["formats", "design", "seen", "--bits", "4", "--role", "weight"]);
    assert!(weight.code == 2 && weight.stderr.contains("was not observed"), "{}", weight.stderr);
}

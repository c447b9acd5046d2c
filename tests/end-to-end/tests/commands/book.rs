//! The book in `docs` and the pages outside of it: their examples work, their links exist, and the reference pages
//! equal the program's.

use std::{collections::BTreeSet, fs, process::Command};

use altgrad_end_to_end::{Bench, TINY, built, plugin, root, stage};

/// The book's pages: file name and text.
fn pages() -> Vec<(String, String)> {
    let mut pages: Vec<(String, String)> = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    pages.sort();
    assert!(pages.len() >= 10, "only {} pages", pages.len());
    pages
}

/// All pages, by their paths from the root: the book, and those that readers meet in the repository.
fn all_pages() -> Vec<(String, String)> {
    let book = pages().into_iter().map(|(name, text)| (format!("docs/{name}"), text));
    let experiments = fs::read_dir(root().join("results")).unwrap().map(|entry| entry.unwrap().path());
    let experiments = experiments.map(|path| path.join("README.md")).filter(|path| path.is_file());
    let others = OTHER_PAGES.iter().map(|page| root().join(page)).chain(experiments).map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        (path.strip_prefix(root()).unwrap().display().to_string(), text)
    });
    book.chain(others).collect()
}

/// Pages beside the book and the experiments.
const OTHER_PAGES: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "configs/README.md",
    "plugin-api/README.md",
    "results/README.md",
];

/// The code blocks of a page that are marked so.
fn blocks<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    let open = format!("\n```{mark}\n");
    text.split(&open).skip(1).map(|rest| &rest[..rest.find("```").unwrap()]).collect()
}

/// The anchor of a heading in a link, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn generated_pages_are_what_the_types_say() {
    let pages =
        [("run-file.md", "run-file"), ("commands.md", "commands"), ("plugin-options.md", "plugin-options")];
    pages.into_iter().for_each(|(page, what)| generated(page, what));
}

#[test]
#[ignore = "--all: decides the properties of all recipes"]
fn the_page_of_properties_is_what_is_proved_of_the_recipes() {
    generated("cast-properties.md", "cast-properties");
}

fn generated(page: &str, what: &str) {
    let said = Bench::new().host(&["reference", what]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let committed = fs::read_to_string(root().join("docs").join(page)).unwrap();
    assert!(committed == said.stdout, "docs/{page} lags behind its source: run `cargo xtask docs`");
}

#[test]
fn the_schema_takes_every_key_of_a_resolved_run_file() {
    let schema = Bench::new().host(&["reference", "schema"]);
    let schema: serde_json::Value = serde_json::from_str(&schema.stdout).unwrap();
    let sections = schema["properties"].as_object().unwrap();
    for section in ["run", "plugins", "data", "model", "train", "optimizer", "quant", "shadow", "sink"] {
        assert!(sections.contains_key(section), "{section}");
    }
    assert_eq!(schema["properties"]["train"]["properties"]["lr"]["default"], 1e-3);
}

/// A check takes steps of the run, here of one sequence.
#[test]
fn every_run_file_of_the_pages_is_accepted() {
    let bench = Bench::new();
    let mut checked = 0;
    for (page, text) in all_pages() {
        // Manifests of crates and matrix files are no run files.
        let is_other = |block: &str| block.contains("[dependencies]") || block.starts_with("base = ");
        let run_files = blocks(&text, "toml").into_iter().filter(|block| !is_other(block));
        for block in run_files {
            bench.write("example.toml", block);
            let outcome =
                bench.host(&["check", "example.toml", "--device", "cpu", "--set", "data.batch_size=1"]);
            assert_eq!(outcome.code, 0, "{page}:\n{block}\n{}", outcome.stderr);
            checked += 1;
        }
    }
    assert!(checked >= 5, "only {checked} run files in the book");
}

/// The targets of a page's links.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).map(|rest| &rest[..rest.find(')').unwrap()])
}

/// A page of rustdoc: `cargo doc` writes it to `target/doc`, beside the built book.
const PLUGIN_API: &str = "../doc/altgrad_plugin_api/index.html";

/// mdBook shows only pages in its summary; readers of the sources begin at `README.md`.
#[test]
fn the_summary_and_the_contents_list_every_page_once() {
    let pages = pages();
    let text = |name: &str| &pages.iter().find(|(page, _)| page == name).unwrap().1;
    let mut listed: Vec<&str> = links(text("SUMMARY.md")).collect();
    listed.sort_unstable();
    let names = || pages.iter().map(|(page, _)| page.as_str()).filter(|page| *page != "SUMMARY.md");
    assert_eq!(listed, names().collect::<Vec<_>>(), "docs/SUMMARY.md");
    for page in names().filter(|page| *page != "README.md") {
        assert!(text("README.md").contains(&format!("({page})")), "{page} is not in docs/README.md");
    }
}

#[test]
fn every_link_and_heading_of_the_pages_exists() {
    for (page, text) in &all_pages() {
        let own = root().join(page);
        for link in links(text) {
            if link.starts_with("http") || link == PLUGIN_API {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let path = if file.is_empty() { own.clone() } else { own.with_file_name(file) };
            assert!(path.exists(), "{page} links to {link}");
            if !heading.is_empty() {
                let target = fs::read_to_string(path).unwrap();
                let mut headings = target.lines().filter(|line| line.starts_with('#'));
                assert!(
                    headings.any(|line| anchor(line.trim_start_matches('#').trim()) == heading),
                    "{page} links to {link}, and there is no such heading"
                );
            }
        }
    }
}

#[test]
fn every_xtask_of_the_pages_exists() {
    let usage = Command::new(built("xtask")).output().unwrap();
    let usage = String::from_utf8_lossy(&usage.stderr).into_owned();
    for (page, text) in all_pages() {
        for rest in text.split("cargo xtask ").skip(1) {
            let task = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap();
            assert!(usage.contains(&format!("\n  {task} ")), "{page}: cargo xtask {task}\n{usage}");
        }
    }
}

/// A run that measures everything.
const EVERYTHING: &str = r#"
[run]
name = "all"
device = "cpu"
[data]
dataset = "text:corpus.txt"
tokenizer = "char"
block_size = 8
batch_size = 2
[model]
n_layer = 1
n_head = 2
n_embd = 8
[train]
max_steps = 4
loss_scale = "dynamic"
warmup_steps = 1
eval_interval = 2
eval_batches = 1
[quant]
weight = "E5M2"
activation = "E5M2"
grad = "E5M2"
[shadow]
every = 1
[observe]
formats = ["E4M3"]
roles = ["weight", "activation", "grad"]
every = 1
[metrics]
histograms_every = 1
rank_every = 1
dead_neuron_window = 2
[curvature]
every = 2
batches = 1
draws = 2
[[sink]]
name = "csv"
"#;

/// A metric's name and its place, without the names of roles, bits and offsets.
fn general(name: &str, place: &str) -> (String, String) {
    let mut parts: Vec<&str> = name.split('/').collect();
    if parts.len() > 3 && parts[0] == "observe" {
        parts[3] = "FORMAT";
    }
    if parts.len() > 1 && parts[0] == "optimizer" {
        parts[1] = "NAME";
    }
    if parts.len() > 2
        && ["quant", "observe"].contains(&parts[0])
        && ["weight", "activation", "grad"].contains(&parts[1])
    {
        parts[1] = "ROLE";
    }
    if parts.len() > 1 && parts[parts.len() - 2] == "bit_active" {
        *parts.last_mut().unwrap() = "BIT";
    }
    if parts.len() > 1 && parts[parts.len() - 2] == "sqnr_db_at" {
        *parts.last_mut().unwrap() = "OFFSET";
    }
    (parts.join("/"), place.to_string())
}

#[test]
fn the_metrics_page_names_what_runs_write_and_nothing_else() {
    let bench = Bench::new();
    bench.write("all.toml", EVERYTHING);
    let mut written = BTreeSet::new();
    for library in [built("libaltgrad_example_prodigy.so"), plugin("csv.so"), plugin("e5m2.so")] {
        bench.add_plugin(&library);
    }
    bench.write("own.toml", &format!("{TINY}[plugins]\ndir = \"plugins\"\n[[sink]]\nname = \"csv\"\n"));
    // Some metrics are of weights with master weights, some of those without, some of optimizers that know the grid,
    // and some of those with numbers of their own.
    let runs = [
        ("all.toml", "all", "fp32", "adamw"),
        ("all.toml", "none", "none", "fp8-manifold"),
        ("own.toml", "own", "fp32", "prodigy"),
    ];
    for (file, run, masters, optimizer) in runs {
        let set = [
            format!("run.name={run}"),
            format!("quant.master_weights={masters}"),
            format!("optimizer.name={optimizer}"),
        ];
        let set = set.iter().flat_map(|set| ["--set", set]);
        let arguments: Vec<&str> = ["run", file, "--quiet"].into_iter().chain(set).collect();
        let outcome = bench.host(&arguments);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        for (file, place) in [("metrics.csv", "run"), ("timings.csv", "time")] {
            let text = bench.read(&format!("runs/{run}/{file}"));
            let columns = text.lines().next().unwrap().split(',').filter(|name| *name != "step");
            written.extend(columns.map(|name| general(name, place)));
        }
        for (file, place) in [("layers.csv", "layer"), ("histograms.csv", "histogram")] {
            let text = bench.read(&format!("runs/{run}/{file}"));
            written.extend(text.lines().skip(1).map(|line| general(line.split(',').nth(2).unwrap(), place)));
        }
    }
    let page = fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let documented: BTreeSet<(String, String)> = rows
        .flat_map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            // Closing values are in no file.
            let places = cells[2].split(", ").filter(|place| *place != "end").map(str::to_string);
            places.map(|place| (cells[1].trim_matches('`').to_string(), place)).collect::<Vec<_>>()
        })
        .collect();
    let missing: Vec<_> = written.difference(&documented).collect();
    // Runs on GPUs whose data sheet is known write it.
    let of_gpus = ("train/mfu_data_sheet".into(), "time".into());
    let invented: Vec<_> = documented.difference(&written).filter(|metric| **metric != of_gpus).collect();
    assert!(missing.is_empty() && invented.is_empty(), "missing: {missing:?}, invented: {invented:?}");
}

#[test]
fn the_examples_of_each_kind_are_there_and_pass() {
    for library in ["int8", "posit8", "sgd", "jsonl"] {
        let path = built(&format!("libaltgrad_example_{library}.so"));
        assert!(path.is_file(), "{} under {}", path.display(), stage().display());
    }
    let path = built("libaltgrad_example_posit8.so").display().to_string();
    let outcome = Bench::new().host(&["plugins", "check", &path]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
}

//! The run file from its users' view: valid files and their values.
//!
//! The exact messages for invalid files are in `refusals`.

#![allow(clippy::unwrap_used)]

mod casts;
mod refusals;
mod schedule;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use altgrad_base::diagnostic::Diagnostic;

use super::load::load_text;
use super::{
    CurvatureSection, DatasetChoice, DeviceChoice, Preset, RoundingChoice, RunConfig, ScheduleChoice, Source,
    Threshold, TokenizerChoice,
};
/// A load of `text` as if it stood in `conf/x.toml`.
fn try_load(text: &str, overrides: &[&str]) -> Result<(RunConfig, Source), Diagnostic> {
    let overrides: Vec<String> = overrides.iter().map(|&raw| raw.to_owned()).collect();
    load_text(Path::new("conf/x.toml"), text.to_owned(), &overrides)
}

fn loaded(text: &str, overrides: &[&str]) -> (RunConfig, Source) {
    try_load(text, overrides).unwrap()
}

/// Every key away from its default, and plugin tables with nesting.
const FULL: &str = r#"
[run]
name = "full"
seed = 7
out = "elsewhere"
device = "cuda:1"
[plugins]
dir = "libs"
load = ["e5m2", "../mine.so", { path = "libs/a.so", sha256 = "ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef0123456789" }]
[data]
dataset = "bins:data/owt"
tokenizer = "gpt2"
block_size = 32
batch_size = 4
[model]
preset = "seed-10m"
n_layer = 2
dropout = 0.1
bias = true
tie_weights = false
gelu = "tanh"
norm = "rmsnorm"
positions = "rotary"
qk_norm = true
init = "start.safetensors"
[train]
max_steps = 1000
lr = 3e-4
min_lr = 0
warmup_steps = 10
schedule = "trapezoidal"
grad_clip = 0
grad_clip_value = 0.5
z_loss = 1e-4
grad_accum = 2
eval_interval = 0
eval_batches = 1
[optimizer]
name = "stiffness-adamw"
beta1 = 0.9
[optimizer.layer]
rules = [{ match = "*.attn.*", damp = 0.5 }, { match = "*" }]
[quant]
weight = "E3M4:ieee"
rounding = "stochastic"
exclude = ["*.attn.*", "lm_head"]
[curvature]
every = 7
iterations = 3
[alerts]
bit_stall_threshold = "off"
overflow_threshold = 0
kurtosis_threshold = 20
patience = 5
divergence_patience = 0
nan_patience = 3
cooldown_s = 0.5
[metrics]
every = 2
histograms_every = 50
rank_every = 1000
dead_neuron_window = 65535
[[sink]]
name = "csv"
path = "a.csv"
[[sink]]
name = "csv"
path = "b.csv"
filter = { keep = ["loss"] }
"#;

#[test]
fn an_empty_file_is_gpt_tiny_on_lawgen_in_full_precision() {
    let (config, _) = loaded("", &[]);
    assert_eq!(config.run.name, "x");
    assert_eq!((config.run.seed, config.run.device), (1337, DeviceChoice::Auto));
    assert_eq!(
        (&config.data.dataset, config.data.tokenizer),
        (&DatasetChoice::Lawgen, TokenizerChoice::Byte)
    );
    assert_eq!((config.model.n_layer, config.model.n_head, config.model.n_embd), (4, 4, 128));
    assert_eq!((config.train.decay_steps, config.train.cooldown_steps), (Some(500), None));
    assert_eq!(config.optimizer.name, "adamw");
    assert_eq!(config.quant.weight, None);
    assert_eq!((config.metrics.every, config.metrics.histograms_every), (1, 100));
    assert_eq!((config.metrics.rank_every, config.metrics.dead_neuron_window), (0, 100));
    assert!(config.sink.is_empty());
}

#[test]
fn every_key_arrives() {
    let (config, _) = loaded(FULL, &[]);
    assert_eq!(config.run.device, DeviceChoice::Cuda(1));
    assert_eq!(config.data.dataset, DatasetChoice::Bins("conf/data/owt".into()));
    assert_eq!(config.model.preset, Some(Preset::Seed10m));
    assert_eq!((config.model.n_layer, config.model.n_head, config.model.n_embd), (2, 6, 384));
    assert_eq!(config.train.schedule, ScheduleChoice::Trapezoidal);
    assert_eq!((config.train.decay_steps, config.train.cooldown_steps), (None, Some(200)));
    assert_eq!(config.optimizer.settings.keys().collect::<Vec<_>>(), ["beta1", "layer"]);
    assert_eq!((config.train.grad_clip, config.train.grad_clip_value), (0.0, 0.5));
    let curvature = CurvatureSection { every: 7, batches: 1, draws: 4, iterations: 3 };
    assert_eq!(config.curvature, curvature);
    assert_eq!(config.quant.rounding, RoundingChoice::Stochastic);
    let alerts = config.alerts;
    let thresholds = [alerts.bit_stall_threshold, alerts.overflow_threshold, alerts.kurtosis_threshold];
    assert_eq!(thresholds, [Threshold::Off, Threshold::Above(0.0), Threshold::Above(20.0)]);
    assert_eq!((alerts.patience, alerts.divergence_patience, alerts.nan_patience), (5, 0, 3));
    assert_eq!((alerts.cooldown_s, alerts.nan_cooldown_s), (0.5, 60.0));
    let metrics = config.metrics;
    assert_eq!((metrics.every, metrics.histograms_every), (2, 50));
    assert_eq!((metrics.rank_every, metrics.dead_neuron_window), (1000, 65535));
    assert_eq!(
        config.sink.iter().filter_map(|sink| sink.settings["path"].as_str()).collect::<Vec<_>>(),
        ["a.csv", "b.csv"]
    );
}

#[test]
fn plugin_paths_start_at_the_run_file_and_names_stay() {
    let (config, _) = loaded(FULL, &[]);
    let folder = std::path::absolute("conf").unwrap();
    assert_eq!(config.plugins.dir, folder.join("libs").to_str().map(str::to_owned));
    let load = config.plugins.load.unwrap();
    let targets: Vec<PathBuf> = load.iter().map(|plugin| plugin.target().into()).collect();
    assert_eq!(targets, [PathBuf::from("e5m2"), folder.join("../mine.so"), folder.join("libs/a.so")]);
    assert_eq!(load.iter().map(|plugin| plugin.is_path()).collect::<Vec<_>>(), [false, true, true]);
    let hash = "abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789";
    assert_eq!(load[2].sha256(), Some(hash), "lower case, to compare with");
}

#[test]
fn the_resolved_file_loads_to_the_same_config_from_anywhere() {
    for text in [
        "",
        FULL,
        "[train]\nschedule = \"constant\"",
        "[model]\nmlp = \"smooth_swiglu\"",
        "[model]\ndropout = 0.3\nn_embd = 64",
    ] {
        let (mut config, _) = loaded(text, &[]);
        let resolved = config.to_toml().unwrap();
        let (again, _) = load_text(Path::new("/other/config.toml"), resolved.clone(), &[]).unwrap();
        crate::paths::make_absolute(&mut config).unwrap();
        assert_eq!(again, config, "{resolved}");
        assert_eq!(again.to_toml().unwrap(), resolved);
    }
}

#[test]
fn overrides_are_toml_or_bare_words_and_the_last_wins() {
    let set = [
        "train.lr=1e-4",
        "train.max_steps=100",
        "train.max_steps=200",
        "run.name=x=y",
        "quant.weight=E3M4:ieee",
        "quant.exclude=[\"a\"]",
        "quant.exclude.1=b",
        "data.dataset=text:some book.txt",
        "sink.0.path=\"a\"",
        "sink.1.name=wandb",
        "optimizer.layer.damp=0.5",
    ];
    let (config, source) = loaded("[[sink]]\nname = \"csv\"", &set);
    assert_eq!((config.train.lr, config.train.max_steps, config.train.decay_steps), (1e-4, 200, Some(200)));
    assert_eq!(config.run.name, "x=y");
    assert_eq!(config.quant.weight.as_deref(), Some("E3M4:ieee"));
    assert_eq!(config.quant.exclude, ["a", "b"]);
    assert_eq!(config.data.dataset, DatasetChoice::Text("some book.txt".into()));
    assert_eq!(config.sink[0].settings["path"].as_str(), Some("a"));
    assert_eq!(config.sink[1].name, "wandb");
    assert_eq!(config.optimizer.settings["layer"]["damp"].as_float(), Some(0.5));
    assert_eq!(source.overrides(), set);
    // Missing parts of the file can be made from overrides alone.
    let (config, _) = loaded("", &["sink.0.name=csv", "plugins.load.0=e5m2"]);
    assert_eq!((config.sink.len(), config.plugins.load.map(|load| load.len())), (1, Some(1)));
}

#[test]
fn every_key_is_located() {
    let text = "\
[train]
lr = 1e-3 # é
note.'é' = 1
[optimizer]
'é' = { 'ü' = 'ä', beta1 = 0.9 }
'a b' = [1,
  { x = 2 }]
[[sink]]
name = 'csv'
[[sink]]
name = 'wandb'
";
    let (mut table, mut source) = Source::parse(Path::new("x.toml"), text.to_owned()).unwrap();
    let set = ["train.max_steps=9", "optimizer.deep.er=1", "sink.0={ name = 'tsv' }"].map(str::to_owned);
    super::overrides::apply(&mut table, &mut source, &set).unwrap();
    for (key, place) in [
        ("train", "--set train.max_steps=9"),
        ("train.lr", "x.toml:2:6"),
        ("optimizer.\"é\".beta1", "x.toml:5:28"),
        ("optimizer.\"a b\".0", "x.toml:6:10"),
        ("optimizer.\"a b\".1.x", "x.toml:7:9"),
        ("sink.1", "x.toml:10:1"),
        ("sink.1.name", "x.toml:11:8"),
        ("train.max_steps", "--set train.max_steps=9"),
        ("optimizer.deep", "--set optimizer.deep.er=1"),
        ("optimizer.deep.er", "--set optimizer.deep.er=1"),
        ("sink.0.name", "--set sink.0={ name = 'tsv' }"),
        ("train.min_lr", "x.toml (default)"),
        ("quant.weight", "x.toml (default)"),
    ] {
        assert_eq!(source.locate(key), place, "{key}");
        assert_eq!(source.is_written(key), !place.ends_with("(default)"), "{key}");
    }
}

/// The repository's run files, by name.
fn repository_configs() -> Vec<(String, RunConfig)> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs"));
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    // Not run files, but matrices of a sweep.
    let matrices = ["formats.toml", "matrix.toml", "states.toml"];
    paths.retain(|path| !matrices.iter().any(|name| path.ends_with(name)));
    paths.sort();
    let load_one = |path: &PathBuf| match super::load(path, &[]) {
        Ok((config, _)) => (path.file_stem().unwrap().to_str().unwrap().to_owned(), config),
        Err(error) => panic!("{error}"),
    };
    paths.iter().map(load_one).collect()
}

#[test]
fn every_run_file_of_the_repository_loads_under_its_own_name() {
    let configs = repository_configs();
    let names: BTreeSet<&str> = configs.iter().map(|(_, config)| config.run.name.as_str()).collect();
    assert_eq!(names.len(), configs.len(), "two run files would share a run folder: {names:?}");
    assert!(names.contains("exp") && names.contains("exp_fp32"), "{names:?}");
}

#[test]
fn the_baseline_differs_from_exp_in_name_and_quant_only() {
    let configs = repository_configs();
    let find = |name: &str| configs.iter().find(|(stem, _)| stem == name).unwrap().1.clone();
    let (exp, mut baseline) = (find("exp"), find("exp_fp32"));
    assert_eq!((exp.quant.weight.as_deref(), baseline.quant.weight.as_deref()), (Some("E5M2"), None));
    baseline.run.name.clone_from(&exp.run.name);
    baseline.quant = exp.quant.clone();
    assert_eq!(baseline, exp);
}

#[test]
fn an_alphabet_of_odd_characters_survives_the_resolved_file() {
    let odd = "\0\t\n\r \"\'\\\u{7f}é\u{2028}\u{feff}😀";
    let mut config = loaded("[data]\ntokenizer = 'char'", &[]).0;
    config.data.alphabet = Some(odd.to_owned());
    assert_eq!(loaded(&config.to_toml().unwrap(), &[]).0.data.alphabet.as_deref(), Some(odd));
}

#[test]
fn settings_of_alerts_are_checked_as_in_a_run_file() {
    let settings = |raw: &str| super::alert_settings(&[raw.to_owned()]);
    for raw in ["loss_rise_threshold=off", "alerts.loss_rise_threshold='off'"] {
        assert_eq!(settings(raw).unwrap()["loss_rise_threshold"].as_str(), Some("off"), "{raw}");
    }
    assert!(super::alert_settings(&[]).unwrap().is_empty());
    for (raw, message) in [
        ("foo=1", "unknown key `alerts.foo`"),
        ("kurtosis_growth=x", "`alerts.kurtosis_growth` must be a number, found \"x\""),
        ("cooldown_s=-1", "`alerts.cooldown_s` must be 0 or more, found -1.0"),
        ("patience", "an override without `=` sets nothing"),
    ] {
        let error = settings(raw).unwrap_err();
        assert_eq!(error.message, message);
        assert_eq!(error.place, Some(format!("--set alerts.{raw}")));
        assert!(error.hint.is_some());
    }
}

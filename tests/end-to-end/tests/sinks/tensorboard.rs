//! TensorBoard's own readers find everything a run hands to its sinks, and nothing else.

use std::{collections::BTreeMap, fs};

use altgrad_end_to_end::{Bench, TINY, built, plugin, skipped, tensorboard};
use serde_json::{Map, Value};

/// Lines of a file of the jsonl sink, by `key`: the step, and the line.
fn lines(bench: &Bench, file: &str, key: &str) -> BTreeMap<String, Vec<(u64, Value)>> {
    let mut by_name: BTreeMap<String, Vec<(u64, Value)>> = BTreeMap::new();
    for line in bench.read(&format!("run/{file}")).lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let name = line[key].as_str().unwrap().to_string();
        by_name.entry(name).or_default().push((line["step"].as_u64().unwrap(), line));
    }
    by_name
}

/// A number that the jsonl sink wrote, or Python's `repr`.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
}

/// The values of a folder of `found` under a tag, one list per step.
fn steps<'a>(found: &'a Map<String, Value>, tag: &str) -> &'a Vec<Value> {
    found.get(tag).unwrap_or_else(|| panic!("`{tag}` is missing")).as_array().unwrap()
}

#[test]
#[ignore = "--all: TensorBoard"]
fn tensorboards_own_reader_reads_back_every_scalar_histogram_and_text() {
    let bench = Bench::new();
    for library in ["e1m6.so", "adamw.so", "tensorboard.so"] {
        bench.add_plugin(&plugin(library));
    }
    bench.add_plugin(&built("libaltgrad_example_jsonl.so"));
    // Weights of about 0.02 in a format made to hold 0.001 at most: they overflow, and alerts report
    // it.
    let quant = "weight = \"E1M6\"\nscaling = { amax = \"static\", static_amax = 0.001 }";
    let more = "[plugins]\ndir = \"plugins\"\n[metrics]\nhistograms_every = 2\n[alerts]\npatience = 1\ncooldown_s = 0.0\n\
        [[sink]]\nname = \"tensorboard\"\n[[sink]]\nname = \"jsonl\"\n";
    bench.write("run.toml", &format!("{}\n{more}", TINY.replace("weight = \"E5M2\"", quant)));
    let outcome = bench.host(&["run", "run.toml", "--quiet", "--out", "run"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let found = match tensorboard(&bench.path("run")) {
        Ok(found) => found,
        Err(why) => {
            return skipped("tensorboards_own_reader_reads_back_every_scalar_histogram_and_text", &why);
        }
    };
    let found: Value = serde_json::from_str(&found).unwrap();
    let part = |name: &str| found[name].as_object().unwrap();

    let mut expected: BTreeMap<String, Vec<(u64, f64)>> = BTreeMap::new();
    for row in bench.read("run/metrics.jsonl").lines() {
        let row: Map<String, Value> = serde_json::from_str(row).unwrap();
        let step = row["step"].as_u64().unwrap();
        for (name, value) in row.iter().filter(|(name, _)| *name != "step") {
            expected.entry(name.clone()).or_default().push((step, number(value)));
        }
    }
    let scalars = part("scalars");
    for (tag, expected) in &expected {
        let found =
            steps(scalars, tag).iter().map(|event| (event[0].as_u64().unwrap(), number(&event[1]) as f32));
        let bits = |(step, value): (u64, f32)| (step, value.to_bits());
        let expected = expected.iter().map(|&(step, value)| bits((step, value as f32)));
        assert_eq!(found.map(bits).collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{tag}");
    }
    let closing = ["final/train_loss", "final/val_loss", "best/val_loss", "run/tokens_per_s"];
    assert!(closing.iter().all(|tag| steps(scalars, tag).len() == 1));
    assert_eq!(scalars.len(), expected.len() + closing.len());
    assert!(expected.len() > 100, "{}", expected.len());

    let (histograms, expected) = (part("histograms"), lines(&bench, "histograms.jsonl", "name"));
    assert_eq!(histograms.len(), expected.len());
    assert!(expected.len() > 20);
    for (tag, expected) in &expected {
        let found = steps(histograms, tag);
        assert_eq!(found.len(), expected.len(), "{tag}");
        for (found, (step, line)) in found.iter().zip(expected) {
            let edges: Vec<f64> = line["edges"].as_array().unwrap().iter().map(number).collect();
            let limits: Vec<f64> = found[4].as_array().unwrap().iter().map(number).collect();
            assert_eq!((&found[0], limits.as_slice()), (&Value::from(*step), &edges[1..]), "{tag}");
            assert_eq!(found[5], line["counts"], "{tag}");
            let counts: Vec<u64> =
                line["counts"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
            let first = counts.iter().position(|&count| count > 0).unwrap();
            let last = counts.iter().rposition(|&count| count > 0).unwrap();
            assert_eq!((number(&found[1]), number(&found[2])), (edges[first], edges[last + 1]), "{tag}");
            assert_eq!(number(&found[3]), counts.iter().sum::<u64>() as f64, "{tag}");
        }
    }

    let (texts, alerts) = (part("texts"), lines(&bench, "alerts.jsonl", "kind"));
    assert!(alerts.len() > 1 && alerts.contains_key("overflow"), "{:?}", alerts.keys());
    assert_eq!(texts.len(), alerts.len() + 1);
    for (kind, alerts) in &alerts {
        let expected: Vec<Value> = alerts
            .iter()
            .map(|(step, line)| {
                let text = format!("{}: {}", line["level"].as_str().unwrap(), line["text"].as_str().unwrap());
                Value::from(vec![Value::from(*step), Value::from(text)])
            })
            .collect();
        assert_eq!(steps(texts, &format!("alerts/{kind}")), &expected);
    }
    let config = fs::read_to_string(bench.path("run/config.toml")).unwrap();
    let config: String = config.lines().map(|line| format!("    {line}\n")).collect();
    assert_eq!(steps(texts, "config"), &vec![Value::from(vec![Value::from(0), Value::from(config)])]);

    // The run file as hyperparameters, defaults included, and the end of the session.
    let hparams = part("hparams");
    let expected =
        [("train.lr", 0.01.into()), ("quant.weight", "E1M6".into()), ("optimizer.beta1", 0.9.into())];
    expected.iter().for_each(|(key, value)| assert_eq!(hparams.get(*key), Some(value), "{key}"));
    assert!(hparams.len() > 30 && !hparams.contains_key("run.name"), "{hparams:?}");
    assert_eq!(found["session"], "STATUS_SUCCESS");

    // The reader of TensorBoard's pages has the same tags, and those of the session's ends.
    assert_eq!(part("shown").len(), scalars.len() + histograms.len() + texts.len() + 2);
}

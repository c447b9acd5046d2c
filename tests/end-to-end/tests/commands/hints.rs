//! Hints of refusals, followed by a machine: none leads back to a refusal of the same kind.

use std::{fs, io::Write};

use altgrad_end_to_end::{
    Bench, Outcome, TINY,
    hints::{Followed, Refused},
};
use toml::{Table, Value};

/// Changes of the tiny run's file that are refused, by the run file's reader or by the setup of the run.
const BAD: &[&str] = &[
    "quant.weight = 'E4M4'",
    "quant.weigth = 'E4M3'",
    "quant.exclude = ['attn']",
    "quant.layer = [{ match = 'nothing', weight = 'E4M3' }]",
    "quant.layer = [{ match = '*', grad_rounding = 'stochastic' }]",
    "quant.recipe = 'te_delayd'",
    "quant.recipe = 'gone.toml'",
    "quant = { recipe = 'te_delayed', block = 32 }",
    "quant = { recipe = 'te_delayed', block = 'row' }",
    "quant = { recipe = 'te_current', block = 32, scaling = { amax = 'delayed' } }",
    "quant = { recipe = 'mxfp8', scaling = { order = 'decode' } }",
    "quant = { recipe = 'mxfp8', master_weights = 'none' }",
    "quant = { weight = 'E4M3', block = 'row', scaling = { amax = 'static' } }",
    "quant.scaling = { rule = 'rms', amax = 'delayed' }",
    "quant.scaling = { rule = 'floor', order = 'decode' }",
    "quant.scaling.first = 'one'",
    "quant.scaling.static_amax = 1.0",
    "quant.scaling.window = 4",
    "quant.scaling.block = 4",
    "quant.scaling.pow2 = 3",
    "quant = { weight = 'E4M3', master_weights = 'none', cast = { weight = { rounding = 'nearest-zero' } } }",
    "quant = { weight = 'E4M3', master_weights = 'none', block = 4, scaling = { type = 'e8m0' } }",
    "quant = { grad_rounding = 'stochastic', weight = 'E4M3' }",
    "quant.transform = { hadamard = 3 }",
    "quant.transform = { hadamard = 64 }",
    "quant.transform.sign = 'te'",
    "quant.cast.weight_dgrad = { block = 8 }",
    "quant.cast.grad_wgrad = { source = 'hp' }",
    "quant.cast.embedding = { format = 'E4M3', transform = { hadamard = 8 } }",
    "quant = { grad = 'E4M3', transform = { hadamard = 8 } }",
    "quant.cast.bias = { format = 'E4M3' }",
    "quant.skip_last = '150%'",
    "quant.skip_last = 99",
    "quant.ste = 'clip'",
    "quant.stored_scale.margin = 9",
    "quant.schedule = [{ at = 3 }]",
    "quant.schedule = [{ at = 3, none = true, recipe = 'mxfp8' }]",
    "quant.schedule = [{ on = 'los_rise', none = true }]",
    "optimizer.name = 'adam'",
    "optimizer.beta3 = 0.5",
    "optimizer.beta1 = 2.0",
    "optimizer.states.m = 'fp32'",
    "optimizer.states.q = 'bf16'",
    "optimizer.states.m = { format = 'E4M9', block = 32 }",
    "optimizer.group = [{ match = 'nothing' }]",
    "sink = [{ name = 'cvs' }]",
    "sink = [{ name = 'csv', pathh = 'a' }]",
    "sink = [{ name = 'csv', queue = 0 }]",
    "plugins.load = ['e5m2', 'adamm']",
    "data.dataset = 'text:gone.txt'",
    "data.dataset = 'bins:gone'",
    "data.tokenizer = 'ids'",
    "data.tokenizer = 'chars'",
    "data = { tokenizer = 'byte', alphabet = 'abc' }",
    "data.block_size = 100000",
    "model.n_head = 3",
    "model = { positions = 'rotary', n_head = 2, n_embd = 6 }",
    "model = { mlp = 'swiglu', gelu = 'tanh' }",
    "model.mlp = 'geglu'",
    "model.init = 'gone.safetensors'",
    "model.dropout = 1e-300",
    "train.lr = 1e-9",
    "train.lr = 1e39",
    "optimizer.eps = 1e-50",
    "train.max_steps = 1",
    "train.schedule = 'cosin'",
    "train = { schedule = 'constant', decay_steps = 5 }",
    "train.cooldown_steps = 3",
    "train.grad_clip_value = 1e-12",
    "train.loss_scale = 0",
    "train.loss_scale = 'auto'",
    "train.precision = 'fp16'",
    "run.device = 'cuda'",
    "run.device = 'cuda:7'",
    "run.name = 'a/b'",
    "run.out = ''",
    "observe.formats = ['E9M9']",
    "observe = { formats = ['E4M3'], roles = ['weights'] }",
    "observe.sites = 'all'",
    "curvature.iterations = 0",
    "metrics.dead_neuron_window = 70000",
    "checkpoint.keep_last = 0",
    "alerts.patience = 0",
    "alerts.overflow_threshold = 'of'",
    "alerts.gradient_sqnr_threshold = 'no'",
    "checkpoint.every = -2",
    "data.alphabet = 'ab'",
    "data.dataset = 'bins:'",
    "data.dataset = 'files:x'",
    "data.dataset = 'lawgenn'",
    "data.tokenizer = 'gpt2x'",
    "limits.call_s = 0",
    "metrics.histograms_every = 'x'",
    "model.bias = 3",
    "model.init = 'corpus.txt'",
    "model.n_embd = 7",
    "model.positions = 'alibi'",
    "model.preset = 'gpt-huge'",
    "observe = { formats = ['E4M3'], every = -1 }",
    "optimizer = { name = 'adamw', eps = 0.0 }",
    "optimizer = { name = 'fp8-manifold', eps = 0.0 }",
    "optimizer = { name = 'muon', eps = 0.0 }",
    "optimizer = { name = 'soap', eps = 0.0 }",
    "optimizer = { name = 'stiffness-adamw', eps = 0.0 }",
    "optimizer.group = [{ lr_scale = 2.0 }]",
    "optimizer.group = [{ match = '*', lr_scale = -1.0 }]",
    "optimizer.states.exp_avg = { format = 'E4M3', block = 32, expand = 0 }",
    "optimizer.weight_decay = -1.0",
    "plugins.check = 'slow'",
    "plugins.dir = 'gone'",
    "quant = { recipe = 'nvfp4', skip_last = 0 }\ndata = { block_size = 7, batch_size = 1 }",
    "quant = { weight = 'E4M3', block = 32, weight_rounding = 'toward-zero', scaling = { type = 'e8m0', rule = 'even' } }",
    "quant = { weight = 'E4M3', master_weights = 'none', stored_scale = { rule = 'fixd' } }",
    "quant.cast.weight = { format = 'E4M3', block = 'channel' }",
    "quant.layer = [{ match = 'h.9.*', weight = 'E4M3' }]",
    "quant.layer = [{ weight = 'E4M3' }]",
    "quant.master_weights = 'bf16'",
    "quant.scaling = { nonfinite = 'keep' }",
    "quant.scaling = { tensor = 'f32' }",
    "quant.schedule = [{ at = 'x', none = true }]",
    "quant.skip_first = 5",
    "quant.source = 'dequantised'",
    "quant.weight = 'E4M3:foo'",
    "run.device = 'gpu'",
    "run.seed = -1",
    "shadow.every = -1",
    "sink = [{ name = 'csv' }, { name = 'csv' }]",
    "sink = [{ name = 'csv', every = 0 }]",
    "sink = [{ name = 'csv', path = 'run.json' }]",
    "train = { max_steps = 6, warmup_steps = 6 }",
    "train.decay_steps = 2",
    "train.eval_batches = 0",
    "train.full_eval = 'sometimes'",
    "train.grad_accum = 0",
    "train.z_loss = -1.0",
];

/// Adds the keys of `more`, tables merged.
fn merge(table: &mut Table, more: Table) {
    for (key, value) in more {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(own)), Value::Table(more))
                if key != "quant" || !more.contains_key("recipe") =>
            {
                merge(own, more);
            }
            (_, value) => drop(table.insert(key, value)),
        }
    }
}

/// The first refusal in an outcome.
fn refusal(outcome: &Outcome) -> Option<Refused> {
    let mut lines = outcome.stderr.lines().skip_while(|line| !line.starts_with("error: "));
    let message = lines.next()?.strip_prefix("error: ")?.to_string();
    let hint = lines.take_while(|line| !line.is_empty() && !line.starts_with("error: "));
    let hint = hint.filter_map(|line| line.strip_prefix("hint: ")).map(str::to_string).next();
    Some((message, hint))
}

#[test]
#[ignore = "--all: several starts for each hint"]
fn no_hint_about_a_run_file_is_a_dead_end() {
    let bench = Bench::new();
    let mut followed = Followed::default();
    for bad in BAD {
        let mut table: Table = TINY.parse().unwrap();
        merge(&mut table, bad.parse().unwrap());
        let before = followed.refusals;
        followed.follow(&table.to_string(), &mut |text| {
            bench.write("bad.toml", text);
            refusal(&bench.host(&["check", "bad.toml"]))
        });
        assert_eq!(followed.refusals, before + 1, "{bad} is not refused");
    }
    let counts =
        format!("{} refusals, {} hints, {} followed", followed.refusals, followed.hints, followed.followed);
    let _ = writeln!(std::io::stderr(), "{counts}, {} dead ends", followed.dead_ends.len());
    assert!(followed.dead_ends.is_empty(), "{}", followed.dead_ends.join("\n"));
    assert!(followed.hints == followed.refusals && followed.followed * 2 > followed.hints, "{counts}");
}

/// Refused command lines whose hints name options.
#[test]
fn options_that_hints_name_lead_on() {
    let bench = Bench::new();
    bench.write("tiny.toml", TINY);
    bench.write("occupied/tiny/notes", "mine");
    assert_eq!(bench.host(&["run", "tiny.toml", "--quiet"]).code, 0);
    fs::rename(bench.path("runs/tiny"), bench.path("whole")).unwrap();
    fs::create_dir_all(bench.path("lost")).unwrap();
    fs::rename(bench.path("whole/checkpoints"), bench.path("lost/checkpoints")).unwrap();
    fs::create_dir_all(bench.path("runs")).unwrap();
    std::os::unix::fs::symlink("nowhere", bench.path("link")).unwrap();
    let commands: [&[&str]; 6] = [
        &["run", "tiny.toml", "--out", "whole"],
        &["run", "tiny.toml", "--out", "occupied/tiny"],
        &["run", "tiny.toml", "--out", "lost", "--resume"],
        &["run", "tiny.toml", "--out", "link"],
        &["evaluate", "whole", "--plugins", "gone"],
        &["weights", "export", "tiny.toml", "--to", "w.safetensors", "--out", "x"],
    ];
    let mut count = 0;
    for command in commands {
        let refused = bench.host(command);
        let (message, hint) = refusal(&refused).unwrap_or_else(|| panic!("{command:?} is not refused"));
        let hint = hint.unwrap_or_else(|| panic!("{message} has no hint"));
        for (index, option) in
            hint.split('`').skip(1).step_by(2).filter(|text| text.starts_with("--")).enumerate()
        {
            let fresh = format!("fresh-{count}-{index}");
            let option = option.replace("DIR", &fresh).replace("NAME", &fresh);
            let words: Vec<&str> = option.split(' ').collect();
            // An option that is given already gets the new value.
            let repeated = |word: &str| words.iter().any(|new| new.starts_with("--") && *new == word);
            let mut args: Vec<&str> = Vec::new();
            let mut old = command.iter().copied().peekable();
            while let Some(word) = old.next() {
                if repeated(word) {
                    old.next_if(|value| !value.starts_with("--"));
                } else {
                    args.push(word);
                }
            }
            args.extend(words);
            let again = refusal(&bench.host(&args));
            assert!(again.as_ref().is_none_or(|(said, _)| *said != message), "{args:?}: {again:?}");
            count += 1;
        }
    }
    assert!(count >= 5, "{count} options");
}

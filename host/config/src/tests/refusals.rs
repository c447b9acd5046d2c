//! Run files and overrides that are refused, each with its exact words.

use std::path::Path;

use altgrad_base::diagnostic::{Diagnostic, Fault};
use altgrad_end_to_end::hints::Followed;

use super::super::hints::with_hint;
use super::super::load;
use super::super::parse::decode;
use super::try_load;
/// Compares the whole diagnostic, one line each; `hint` "" means none, one that ends in `...` a beginning.
fn says(error: &Diagnostic, message: &str, place: &str, hint: &str) {
    assert_eq!((error.fault, error.message.as_str()), (Fault::Config, message), "{error}");
    assert_eq!(error.place.as_deref(), Some(place), "{error}");
    let said = error.hint.as_deref().unwrap_or_default();
    match hint.strip_suffix("...") {
        Some(start) => assert!(said.starts_with(start), "{error}"),
        None => assert_eq!(said, hint, "{error}"),
    }
    assert!(![message, place, said].iter().any(|part| part.contains(char::is_control)), "{error:?}");
}

/// Rows of a file's text, the message, its `:line:column`, the hint.
fn check_files(rows: &[(&str, &str, &str, &str)]) {
    for (text, message, at, hint) in rows {
        match try_load(text, &[]) {
            Ok(_) => panic!("should be refused: {text}"),
            Err(error) => says(&error, message, &format!("conf/x.toml{at}"), hint),
        }
        follow_hints(text);
    }
}

/// No hint leads to a refusal of the same kind.
pub(super) fn follow_hints(text: &str) {
    let mut followed = Followed::default();
    followed.follow(text, &mut |text| {
        let refused = try_load(text, &[]).err().map(with_hint)?;
        Some((refused.message, refused.hint))
    });
    assert!(followed.dead_ends.is_empty(), "{}", followed.dead_ends.join("\n"));
}

/// Rows of an override on `text`, the message, the hint; the place is the override.
fn check_overrides(text: &str, rows: &[(&str, &str, &str)]) {
    for (raw, message, hint) in rows {
        match try_load(text, &[raw]) {
            Ok(_) => panic!("should be refused: --set {raw}"),
            Err(error) => says(&error, message, &format!("--set {raw}"), hint),
        }
    }
}

/// The hint for a loss scale.
const LOSS_SCALE: &str = "set loss_scale = 1 for none, or loss_scale = \"dynamic\" to find one";
const SECTIONS: &str = "known sections: run, plugins, data, model, train, optimizer, quant, shadow, curvature, observe, metrics, alerts, checkpoint, \
    limits, sink";

#[test]
#[rustfmt::skip]
fn unknown_keys() {
    check_files(&[
        ("[train]\nlr = 1e-3\nlrr = 1", "unknown key `train.lrr`", ":3:1", "did you mean `lr`? known keys in [train]: max_steps, lr, min_lr, ..."),
        ("[trian]\nlr = 1e-3", "unknown key `trian`", ":1:2", "did you mean `train`? known sections: run, ..."),
        ("lr = 1", "unknown key `lr`", ":1:1", SECTIONS),
        ("\u{feff}lr = 1", "unknown key `lr`", ":1:1", SECTIONS),
        ("[quant]\nsaturate = true", "unknown key `quant.saturate`", ":2:1", "known keys in [quant]: recipe, from_recipe, weight, activation, grad, rounding, weight_rounding, activation_rounding, grad_rounding, random_bits, random_mode, overflow, master_weights, ste, scaling, stored_scale, block, source, transform, accumulate, cast, exclude, skip_first, skip_last, unrounded, layer, schedule"),
        ("[quant.scaling]\ngranularity = 'channel'\nwindo = 1", "unknown key `quant.scaling.windo`", ":3:1", "did you mean `window`? known keys in `quant.scaling`: amax, window, static_amax, margin, pow2, type, rule, order, tensor, tensor_target, target, outer, correction, round, choice, candidates, microexponents, arithmetic, floor, limit, zero, nonfinite, factor, quantize, dequantize, deviations, first"),
        ("[[quant.layer]]\nmatch = '*'\nformat = 'E4M3'", "unknown key `quant.layer.0.format`", ":3:1", "known keys in `quant.layer.0`: match, recipe, weight, activation, grad, rounding, random_bits, random_mode, overflow, block, source, transform, ste, scaling, cast"),
        ("[[quant.layer]]\nmatch = '*'\ngrad_rounding = 'stochastic'", "unknown key `quant.layer.0.grad_rounding`", ":3:1", "a rule by layer has `cast.grad.rounding`; known keys in `quant.layer.0`: match, ..."),
        ("[quant]\n'we ight' = 'E4M3'", "unknown key `quant.\"we ight\"`", ":2:1", "did you mean `weight`? known keys in [quant]: recipe, from_recipe, weight, activation, grad, rounding, weight_rounding, activation_rounding, grad_rounding, random_bits, random_mode, overflow, master_weights, ste, scaling, stored_scale, block, source, transform, accumulate, cast, exclude, skip_first, skip_last, unrounded, layer, schedule"),
        ("[metrics]\nrank_evry = 1", "unknown key `metrics.rank_evry`", ":2:1", "did you mean `rank_every`? known keys in [metrics]: every, histograms_every, kurtosis_every, attention, rank_every, dead_neuron_window, dead_gradient_threshold"),
        ("[plugins]\nload = ['a', { path = 'b', sha265 = '' }]", "unknown key `plugins.load.1.sha265`", ":2:28", "did you mean `sha256`? known keys in `plugins.load.1`: path, sha256"),
        ("[quant]\nweight = 'E4M3'\nblock = 32\nscaling.granularity = 'channel'", "unknown key `quant.scaling.granularity`", ":4:9", "its name is `quant.block` now; known keys in `quant.scaling`: amax, ..."),
        ("[quant]\nweight = 'E4M3'\n[quant.scaling]\nblock = 16", "unknown key `quant.scaling.block`", ":4:1", "its name is `quant.block` now; known keys in `quant.scaling`: amax, ..."),
        ("[observe]\nsites = 'all'", "unknown key `observe.sites`", ":2:1", "its name is `observe.roles` now; known keys in [observe]: formats, roles, every, block, scaling"),
    ]);
}

#[test]
fn a_matrix_file_is_one_error() {
    let message = "this is a matrix file, not a run file";
    let hint = "`altgrad-host sweep conf/x.toml --check` checks it";
    check_files(&[
        ("name = 'm'\nbase = 'exp.toml'\n[axes]\nrun.seed = [1]", message, ":2:1", hint),
        ("[axes]\nrun.seed = [1]", message, ":1:2", hint),
    ]);
}

#[test]
#[rustfmt::skip]
fn wrong_types() {
    check_files(&[
        ("[train]\nlr = 'fast'", "`train.lr` must be a number, found \"fast\"", ":2:6", ""),
        ("[train]\nlr = [\n1]", "`train.lr` must be a number, found an array", ":2:6", ""),
        ("[train]\nmax_steps = 1e3", "`train.max_steps` must be an integer, 0 or more, found 1000.0", ":2:13", ""),
        ("[run]\nseed = -5", "`run.seed` must be an integer, 0 or more, found -5", ":2:8", ""),
        ("[train]\nlr = 1979-05-27", "`train.lr` must be a number, found \"1979-05-27\"", ":2:6", ""),
        ("[run]\ndevice = 3", "`run.device` must be a string, found 3", ":2:10", ""),
        ("[model]\nbias = 0", "`model.bias` must be true or false, found 0", ":2:8", ""),
        ("[quant]\nexclude = 'a\nb'", "not valid TOML: invalid literal string, expected `'`", ":2:13", ""),
        ("[quant]\nexclude = \"a\\nb\"", "`quant.exclude` must be an array, found \"a\\nb\"", ":2:11", ""),
        ("[quant]\nexclude = ['a', 3]", "`quant.exclude.1` must be a string, found 3", ":2:17", ""),
        ("[plugins]\nload = ['a', ['b']]", "`plugins.load.1` must be a string or a table { path, sha256 }, found an array", ":2:14", ""),
        ("[plugins]\nload = ['a', { sha256 = '12' }]", "`plugins.load.1` has no `path`", ":2:14", "add path = \"...\""),
        ("[optimizer]\nname = 3", "`optimizer.name` must be a string, found 3", ":2:8", ""),
        ("[[sink]]\nname = 'csv'\n[[sink]]\npath = 'a'", "`sink.1` has no `name`", ":3:1", "add name = \"...\""),
        ("[sink]\nname = 'csv'", "`sink` must be an array, found a table", ":1:1", "write [[sink]] instead of [sink]"),
        ("[[train]]\nlr = 1", "`train` must be a table, found an array", ":1:1", "write [train] instead of [[train]]"),
        ("[alerts]\noverflow_threshold = true", "`alerts.overflow_threshold` must be a number or \"off\", found true", ":2:22", ""),
        ("[alerts]\npatience = 'off'", "`alerts.patience` must be an integer, 0 or more, found \"off\"", ":2:12", ""),
        ("train = 3", "`train` must be a table, found 3", ":1:9", ""),
    ]);
}

#[test]
#[rustfmt::skip]
fn unknown_choices() {
    check_files(&[
        ("[run]\ndevice = 'cuda'", "`run.device` must be `auto`, `cpu`, `cuda:N` or `wgpu`, found \"cuda\"", ":2:10", "did you mean `cuda:0`?"),
        ("[data]\ndataset = 'shakespeare'", "`data.dataset` must be `lawgen`, `bins:DIR` or `text:FILE`, found \"shakespeare\"", ":2:11", ""),
        ("[data]\ntokenizer = 'gpt-2'", "`data.tokenizer` must be `byte`, `char`, `gpt2` or `ids`, found \"gpt-2\"", ":2:13", "did you mean `gpt2`?"),
        ("[model]\npreset = 'gpt-tin'", "`model.preset` must be `gpt-tiny`, `seed-10m` or `gpt2-124m`, found \"gpt-tin\"", ":2:10", "did you mean `gpt-tiny`?"),
        ("[model]\nn_head = 2\nn_embd = 6\npositions = 'rotary'", "`model.positions` = \"rotary\" needs heads of even width, `model.n_embd` (6) and `model.n_head` (2) make odd ones", ":4:13", "rotary positions rotate pairs of elements; make n_embd a multiple of 2 * n_head"),
        ("[model]\nmlp = 'swiglu'\ngelu = 'tanh'", "`model.gelu` has no effect with model.mlp = \"swiglu\"", ":3:8", "remove the key, or set model.mlp = \"gelu\""),
        ("[model]\nmlp = 'geglu'", "`model.mlp` must be `gelu`, `swiglu` or `smooth_swiglu`, found \"geglu\"", ":2:7", "did you mean `gelu`?"),
        ("[model]\npositions = 'rope'", "`model.positions` must be `learned` or `rotary`, found \"rope\"", ":2:13", ""),
        ("[model]\nnorm = 'rms_norm'", "`model.norm` must be `layernorm` or `rmsnorm`, found \"rms_norm\"", ":2:8", "did you mean `rmsnorm`?"),
        ("[train]\nschedule = 'cosin'", "`train.schedule` must be `cosine`, `trapezoidal` or `constant`, found \"cosin\"", ":2:12", "did you mean `cosine`?"),
        ("[alerts]\noverflow_threshold = 'of'", "`alerts.overflow_threshold` must be a number or `off`, found \"of\"", ":2:22", "did you mean `off`?"),
        ("[quant]\nrounding = ''", "`quant.rounding` must be `nearest-even`, `nearest-away`, `toward-zero` or `stochastic`, found \"\"", ":2:12", ""),
    ]);
}

#[test]
#[rustfmt::skip]
fn broken_toml() {
    check_files(&[
        ("[train\nlr = 1", "not valid TOML: unclosed table, expected `]`", ":1:7", ""),
        ("[train]\r\nlr = 1\r\nlr = 2", "not valid TOML: duplicate key", ":3:1", ""),
        ("[train]\nlr 1", "not valid TOML: key with no value, expected `=`", ":2:4", ""),
        ("[run]\nname = \"x", "not valid TOML: invalid basic string, expected `\"`", ":2:10", ""),
        ("[run]\nseed = 99999999999999999999", "`run.seed` is out of range for a 64-bit integer: 99999999999999999999", ":2:8", ""),
        ("[optimizer]\nx = [1, 0xffff_ffff_ffff_ffff]", "`optimizer.x.1` is out of range for a 64-bit integer: 0xffffffffffffffff", ":2:9", ""),
        ("[train]\nlr = 1e999", "`train.lr` is out of range for a 64-bit float: 1e999", ":2:6", ""),
    ]);
}

#[test]
#[rustfmt::skip]
fn ranges() {
    let folder = "the name becomes a folder in run.out: no `/`, `\\`, `..` or control characters";
    let cosine = "the cosine falls from the end of the warm-up to decay_steps, by default max_steps";
    let format = "name one, such as weight = \"E5M2\", or remove the key";
    check_files(&[
        ("[run]\nname = ''", "`run.name` must not be empty", ":2:8", "give one: [run] name = \"...\""),
        ("[run]\nname = 'a/b'", "`run.name` must be one plain folder name, found \"a/b\"", ":2:8", folder),
        ("[run]\nname = 'a\\b'", "`run.name` must be one plain folder name, found \"a\\\\b\"", ":2:8", folder),
        ("[run]\nname = '..'", "`run.name` must be one plain folder name, found \"..\"", ":2:8", folder),
        ("[run]\nname = \"a\\nb\"", "`run.name` must not contain control characters, found \"a\\nb\"", ":2:8", folder),
        ("[run]\nout = ''", "`run.out` must not be empty", ":2:7", "remove `run.out`: its default is `runs` in the working directory"),
        ("[plugins]\ndir = ''", "`plugins.dir` must not be empty", ":2:7", ""),
        ("[plugins]\nload = ['a', '']", "`plugins.load.1` must not be empty", ":2:14", ""),
        ("[plugins]\nload = [{ path = '' }]", "`plugins.load.0.path` must not be empty", ":2:18", ""),
        ("[plugins]\nload = [{ path = 'b', sha256 = '12' }]", "`plugins.load.0.sha256` must be 64 hex digits, found \"12\"", ":2:32", "`altgrad-host plugins inspect PATH` prints it"),
        ("[data]\nblock_size = 0", "`data.block_size` must be from 1 to 2147483647, found 0", ":2:14", ""),
        ("[data]\nbatch_size = 2147483648", "`data.batch_size` must be from 1 to 2147483647, found 2147483648", ":2:14", ""),
        ("[data]\nalphabet = 'ab'", "`data.alphabet` has no effect without tokenizer = \"char\"", ":2:12", "set tokenizer = \"char\", or remove the key"),
        ("[data]\ntokenizer = 'char'\nalphabet = ''", "`data.alphabet` must not be empty", ":3:12", ""),
        ("[data]\ntokenizer = 'char'\nalphabet = 'aa'", "`data.alphabet` must hold each character once", ":3:12", "copy it from the config.toml of a run"),
        ("[model]\ngelu = 'relu'", "`model.gelu` must be `erf` or `tanh`, found \"relu\"", ":2:8", ""),
        ("[model]\nn_layer = 0", "`model.n_layer` must be from 1 to 2147483647, found 0", ":2:11", ""),
        ("[model]\nn_head = 0", "`model.n_head` must be from 1 to 2147483647, found 0", ":2:10", ""),
        ("[model]\nn_embd = 130", "`model.n_embd` (130) must be a multiple of `model.n_head` (4)", ":2:10", "choose n_embd as a multiple of n_head"),
        ("[model]\nn_kv_head = 3", "`model.n_head` (4) must be a multiple of `model.n_kv_head` (3)", ":2:13", "groups of equal size share a head of keys and values; n_kv_head = 1 shares one among all"),
        ("[model]\nn_kv_head = 0", "`model.n_head` (4) must be a multiple of `model.n_kv_head` (0)", ":2:13", "groups of equal size share a head of keys and values; n_kv_head = 1 shares one among all"),
        ("[model]\ndropout = 1", "`model.dropout` must be at least 0 and below 1, found 1.0", ":2:11", ""),
        ("[model]\ndropout = nan", "`model.dropout` must be at least 0 and below 1, found NaN", ":2:11", ""),
        ("[model]\ninit = ''", "`model.init` must not be empty", ":2:8", ""),
        ("[train]\nmax_steps = 0", "`train.max_steps` must be at least 1, found 0", ":2:13", ""),
        ("[train]\nlr = -0.001", "`train.lr` must be positive, found -0.001", ":2:6", ""),
        ("train = { lr = 0 }", "`train.lr` must be positive, found 0.0", ":1:16", ""),
        ("[train]\nlr = inf", "`train.lr` must be finite, found inf", ":2:6", ""),
        ("[train]\nmin_lr = nan", "`train.min_lr` must be finite, found NaN", ":2:10", ""),
        ("[train]\nmin_lr = 0.1", "`train.min_lr` (0.1) must not be above `train.lr` (0.001)", ":2:10", "set both; `min_lr` is often a tenth of `lr`"),
        ("[train]\nlr = 1e-5", "`train.min_lr` (0.0001) must not be above `train.lr` (1e-5)", ":2:6", "set both; `min_lr` is often a tenth of `lr`"),
        ("[train]\nmax_steps = 20", "`train.warmup_steps` (50) must not be above `train.max_steps` (20)", ":2:13", "a short run needs a shorter warm-up, such as a tenth of its steps; set warmup_steps = 0 for none"),
        ("[train]\nz_loss = -1e-4", "`train.z_loss` must be 0 or more, found -0.0001", ":2:10", ""),
        ("[train]\ngrad_clip = -1", "`train.grad_clip` must be 0 or more, found -1.0", ":2:13", ""),
        ("[train]\ngrad_clip_value = inf", "`train.grad_clip_value` must be finite, found inf", ":2:19", ""),
        ("[train]\ngrad_clip_value = 1e-9", "`train.grad_clip_value` (1e-9) must not be below `metrics.dead_gradient_threshold` (1e-8)", ":2:19", "set grad_clip_value = 0 for none; below the threshold every element would count as dead"),
        ("[train]\ngrad_accum = 0", "`train.grad_accum` must be from 1 to 2147483647, found 0", ":2:14", ""),
        ("[train]\nloss_scale = 0", "`train.loss_scale` must be positive, found 0.0", ":2:14", LOSS_SCALE),
        ("[train]\nloss_scale = -8", "`train.loss_scale` must be positive, found -8.0", ":2:14", LOSS_SCALE),
        ("[train]\nloss_scale = nan", "`train.loss_scale` must be finite, found NaN", ":2:14", LOSS_SCALE),
        ("[train]\nloss_scale = 1e38", "`train.loss_scale` must be from 2^-126 to 2^126, found 1e38", ":2:14", LOSS_SCALE),
        ("[train]\nloss_scale = 'auto'", "`train.loss_scale` must be a number or \"dynamic\", found \"auto\"", ":2:14", ""),
        ("[train]\neval_batches = 0", "`train.eval_batches` must be from 1 to 2147483647, found 0", ":2:16", ""),
        ("[train]\ndecay_steps = 50", "`train.decay_steps` (50) must be above `train.warmup_steps` (50)", ":2:15", cosine),
        ("[train]\nmax_steps = 50", "`train.decay_steps` (50) must be above `train.warmup_steps` (50)", ":2:13", cosine),
        ("[train]\ncooldown_steps = 5", "`train.cooldown_steps` has no effect with train.schedule = \"cosine\"", ":2:18", "remove the key or change the schedule"),
        ("[train]\nschedule = 'constant'\ndecay_steps = 500", "`train.decay_steps` has no effect with train.schedule = \"constant\"", ":3:15", "remove the key or change the schedule"),
        ("[train]\nschedule = 'trapezoidal'\ncooldown_steps = 475", "`train.cooldown_steps` (475) and `train.warmup_steps` (50) together must not be above `train.max_steps` (500)", ":3:18", ""),
        ("[optimizer]\nname = ''", "`optimizer.name` must not be empty", ":2:8", ""),
        ("[[sink]]\nname = ''", "`sink.0.name` must not be empty", ":2:8", ""),
        ("[quant]\nweight = ''", "`quant.weight` must not be empty", ":2:10", ""),
        ("[quant]\nweight = 'E5M2'\nunrounded = ['weights']", "`quant.unrounded.0` must be a role, or a role and a pattern, found \"weights\"", ":3:14", "write \"grad\" or \"grad:lm_head.weight\"; a role is a key of [quant.cast]"),
        ("[quant]\nunrounded = ['grad']", "`quant.unrounded` has no effect without a format", ":2:13", format),
        ("[quant]\nweight = 'E5M2'\nexclude = ['']", "`quant.exclude.0` must not be empty", ":3:12", ""),
        ("[quant]\nrounding = 'stochastic'", "`quant.rounding` has no effect without a format", ":2:12", format),
        ("[quant]\nexclude = ['a']", "`quant.exclude` has no effect without a format", ":2:11", format),
        ("[quant]\nactivation = ''", "`quant.activation` must not be empty", ":2:14", ""),
        ("[quant]\ngrad = 'E5M2'\n[quant.scaling]\nstatic_amax = 2.0", "`quant.scaling.static_amax` has no effect without amax = \"static\"", ":4:15", "set amax = \"static\", or remove the key"),
        ("[quant]\ngrad = 'E5M2'\ncast.grad.scaling = { amax = 'delayed', window = 0 }", "`quant.cast.grad.scaling.window` must be from 1 to 2147483647, found 0", ":3:50", ""),
        ("[quant]\ngrad = 'E5M2'\n[[quant.layer]]\nmatch = '*'\nscaling = { amax = 'delayed', window = 0 }", "`quant.layer.0.scaling.window` must be from 1 to 2147483647, found 0", ":5:40", ""),
        ("[quant]\ngrad = 'E5M2'\n[[quant.layer]]\nmatch = '*'\ncast.grad.scaling = { amax = 'static', static_amax = -1 }", "`quant.layer.0.cast.grad.scaling.static_amax` must be positive, found -1.0", ":5:54", "give the magnitude as f32, such as 3.5; without the key it is that of the first step"),
        ("[quant]\ngrad = 'E5M2'\n[quant.scaling]\nmargin = 99", "`quant.scaling.margin` must be from -32 to 32, found 99", ":4:10", ""),
        ("[alerts]\nbit_stall_threshold = 1", "`alerts.bit_stall_threshold` must be at least 0 and below 1, found 1.0", ":2:23", "\"off\" switches the alert off"),
        ("[alerts]\noverflow_threshold = -0.1", "`alerts.overflow_threshold` must be at least 0 and below 1, found -0.1", ":2:22", "\"off\" switches the alert off"),
        ("[alerts]\nunderflow_threshold = nan", "`alerts.underflow_threshold` must be at least 0 and below 1, found NaN", ":2:23", "\"off\" switches the alert off"),
        ("[alerts]\ncode_saturation_threshold = 2", "`alerts.code_saturation_threshold` must be at least 0 and below 1, found 2.0", ":2:29", "\"off\" switches the alert off"),
        ("[alerts]\nkurtosis_threshold = 0", "`alerts.kurtosis_threshold` must be positive, found 0.0", ":2:22", "\"off\" switches the alert off"),
        ("[checkpoint]\nkeep_last = 0", "`checkpoint.keep_last` must be from 1 to 2147483647, found 0", ":2:13", ""),
        ("[limits]\nplugin_call_warning_s = -1", "`limits.plugin_call_warning_s` must be at least 0 and below 3.2e7, found -1.0", ":2:25", ""),
        ("[limits]\nplugin_call_timeout_s = inf", "`limits.plugin_call_timeout_s` must be finite, found inf", ":2:25", ""),
        ("[alerts]\npatience = 0", "`alerts.patience` must be at least 1, found 0", ":2:12", ""),
        ("[alerts]\ncooldown_s = -1", "`alerts.cooldown_s` must be 0 or more, found -1.0", ":2:14", ""),
        ("[alerts]\nnan_cooldown_s = inf", "`alerts.nan_cooldown_s` must be finite, found inf", ":2:18", ""),
        ("[[quant.layer]]\nmatch = ''", "`quant.layer.0.match` must not be empty", ":2:9", ""),
        ("[metrics]\ndead_neuron_window = 65536", "`metrics.dead_neuron_window` must be from 0 to 65535, found 65536", ":2:22", ""),
    ]);
}

#[test]
#[rustfmt::skip]
fn overrides() {
    let form = "an override is a dotted key and a TOML value, such as --set train.lr=1e-4";
    let counts = "elements count from 0; one past the last appends";
    let text_hint = "to set text that reads as a number or flag: --set 'run.name=\"...\"'";
    check_overrides("[train]\nlr = 1\n[[sink]]\nname = 'csv'", &[
        ("train.lr", "an override without `=` sets nothing", form),
        ("train.lr=", "`train.lr` is given no value", "for an empty string write --set 'key=\"\"'"),
        ("=3", "\"\" is not a dotted key", form),
        ("train..lr=3", "\"train..lr\" is not a dotted key", form),
        ("lr=3", "unknown key `lr`", SECTIONS),
        ("train.lrr=3", "unknown key `train.lrr`", "did you mean `lr`? known keys in [train]: ..."),
        ("trian.lr=3", "unknown key `trian`", "did you mean `train`? known sections: ..."),
        ("train.lr=fast", "`train.lr` must be a number, found \"fast\"", ""),
        ("train.lr=1 2", "`train.lr` must be a number, found \"1 2\"", ""),
        ("train.lr=[1", "the value of `train.lr` is not valid TOML: unclosed array, expected `]`", form),
        ("train.lr=-1", "`train.lr` must be positive, found -1.0", ""),
        ("train.lr.x=1", "`train.lr` is 1 and has no key `x`", form),
        ("run.name=17", "`run.name` must be a string, found 17", text_hint),
        ("run.seed=99999999999999999999", "`run.seed` is out of range for a 64-bit integer: 99999999999999999999", form),
        ("sink.2.name=csv", "`sink` is an array of 1 and has no element `2`", counts),
        ("sink.x=csv", "`sink` is an array of 1 and has no element `x`", counts),
        ("sink.1.path=a", "`sink.1` has no `name`", "add name = \"...\""),
    ]);
}

/// A number is shown as it is written, not as f32 makes it.
#[test]
#[rustfmt::skip]
fn numbers_that_do_not_fit_32_bits() {
    let fit = "must fit 32 bits: 0, or a magnitude from 1.4e-45 to 3.4e38";
    check_files(&[
        ("[model]\ndropout = 1e-300", &format!("`model.dropout` {fit}, found 1e-300"), ":2:11", ""),
        ("[quant]\nweight = 'E4M3'\nscaling = { amax = 'static', static_amax = 1e39 }", &format!("`quant.scaling.static_amax` {fit}, found 1e39"), ":3:44", ""),
        ("[quant]\nweight = 'E4M3'\ncast.weight.scaling.factor = 1e-300", &format!("`quant.cast.weight.scaling.factor` {fit}, found 1e-300"), ":3:30", ""),
        ("[train]\nlr = 1e39", &format!("`train.lr` {fit}, found 1e39"), ":2:6", ""),
        ("[train]\nz_loss = 1e-46", &format!("`train.z_loss` {fit}, found 1e-46"), ":2:10", ""),
        ("[optimizer]\neps = 1e-50", &format!("`optimizer.eps` {fit}, found 1e-50"), ":2:7", ""),
        ("[[optimizer.group]]\nmatch = '*'\nlr_scale = -1e300", &format!("`optimizer.group.0.lr_scale` {fit}, found -1e300"), ":3:12", ""),
        ("[train]\nlr = 1e20\n[[optimizer.group]]\nmatch = '*'\nlr_scale = 1e20", "`optimizer.group.0.lr_scale` times `train.lr` must be at most 3.4e38, found 1e40", ":5:12", ""),
        ("[quant]\nweight = 'E2M1'\nscaling.candidates = [1, 1e39]", &format!("`quant.scaling.candidates.1` {fit}, found 1e39"), ":3:26", ""),
        ("[[quant.schedule]]\nat = 2\nscaling.deviations = 1e40", &format!("`quant.schedule.0.scaling.deviations` {fit}, found 1e40"), ":3:22", ""),
    ]);
    check_overrides("", &[("train.min_lr=1e-50", &format!("`train.min_lr` {fit}, found 1e-50"), "")]);
}

/// The place of a refusal is the override that causes it, also if the key at fault has its default.
#[test]
fn overrides_are_the_place_of_what_they_cause() {
    let (_, source) = try_load("[train]\nmin_lr = 1e-5\n[model]\nn_head = 2", &["model.n_embd=64"]).unwrap();
    assert_eq!(source.locate("model"), "--set model.n_embd=64");
    assert_eq!(source.locate("train"), "conf/x.toml:1:1");
    assert_eq!(source.locate_first(&["train.min_lr", "model.n_embd"]), "--set model.n_embd=64");
    let refused = try_load("[train]\nmin_lr = 1e-5", &["train.lr=1e-6"]).unwrap_err();
    assert_eq!(refused.place.as_deref(), Some("--set train.lr=1e-6"));
    let (config, _) = try_load("[[sink]]\nname = 'csv'", &["sink=[]"]).unwrap();
    assert!(config.sink.is_empty());
}

#[test]
fn a_recipe_that_is_missing_is_named_with_the_start_of_its_path() {
    let refused = try_load("[quant]\nrecipe = 'own.toml'", &[]).unwrap_err();
    assert!(refused.message.starts_with("cannot read the recipe conf/own.toml: "), "{refused}");
    let hint = "a relative path starts at the run file's folder, with `--set` at the working directory";
    assert_eq!(refused.hint.as_deref(), Some(hint));
}

#[test]
fn unreadable_files() {
    let missing = |path: &str| load(Path::new(path), &[]).map(|_| ()).unwrap_err();
    let error = missing("no-such-folder/x.toml");
    assert!(error.message.starts_with("cannot read the run file: "), "{error}");
    assert_eq!(error.hint.as_deref(), Some("give the path of a TOML run file, such as configs/exp.toml"));
    let configs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs");
    let hint = missing(&format!("{configs}/exp2.toml")).hint;
    assert_eq!(hint, Some(format!("did you mean `{configs}/exp.toml`?")));

    let error = decode(Path::new("x.toml"), "run file", b"# \xc3\xa9\nname = \xff".to_vec()).unwrap_err();
    let message = "cannot read the run file: it is not UTF-8 text";
    says(&error, message, "x.toml:2:8", "a run file is TOML, saved as UTF-8");
}

/// On a stack of 8 MiB, as programs have on Linux: unoptimised, the parser takes more than the 2 MiB of a test.
fn on_the_stack_of_a_program(test: fn()) {
    std::thread::Builder::new().stack_size(8 << 20).spawn(test).unwrap().join().unwrap();
}

#[test]
fn keys_longer_than_any_are_refused_before_they_claim_memory() {
    on_the_stack_of_a_program(|| {
        let header = "k".repeat(100_000);
        let keys: String = (0..20_000).map(|n| format!("a{n} = 1\n")).collect();
        let message = |text: &str, overrides: &[&str]| try_load(text, overrides).unwrap_err().message;
        let start = format!("the key that begins with `{}` has", "k".repeat(32));
        assert!(message(&format!("[{header}]\n{keys}"), &[]).starts_with(&start));
        // Tables in tables, as deep as the parser lets them be.
        let deep = format!("{}1{}", format!("{{ {}a = ", "a.".repeat(70)).repeat(70), "}".repeat(70));
        assert!(message(&format!("x = {deep}"), &[]).contains("more than 256"));
        let nested = format!("run.{}=1", vec!["a"; 100_000].join("."));
        assert!(message("", &[&nested]).contains("more than 256"));
    });
}

#[test]
fn brackets_without_end_are_refused_before_the_parser_recurses() {
    on_the_stack_of_a_program(|| {
        // Found by fuzzing: each level is an error, past which the parser's limit on nesting does not hold.
        let unclosed = "[{ a = 'x'b = 1\n".repeat(5_000);
        let message = "10000 brackets are opened, more than 1000";
        assert_eq!(try_load(&format!("a = {unclosed}"), &[]).unwrap_err().message, message);
        assert_eq!(try_load("", &[&format!("quant.layer={unclosed}")]).unwrap_err().message, message);
        // Those of comments and strings are no brackets.
        let comments = "# [[[[ {{{{\n".repeat(500);
        assert!(try_load(&format!("{comments}[run]\nname = 'a' # [[[\n"), &[]).is_ok());
        // The largest allowed number fits on the stack, in any order.
        let most = "[{ a = 'x'b = 1\n".repeat(499);
        assert!(try_load(&format!("a = {most}"), &[]).unwrap_err().message.starts_with("not valid TOML"));
    });
}

#[test]
#[rustfmt::skip]
fn keys_without_effect() {
    check_files(&[
        ("[train]\nschedule = 'constant'\nmin_lr = 1e-5", "`train.min_lr` has no effect: the schedule is constant", ":3:1", "choose another schedule, or remove `min_lr`"),
        ("[quant]\nweight = 'E4M3'\ngrad_rounding = 'stochastic'", "`quant.grad_rounding` has no effect: no gradient has a format", ":3:1", "set `quant.grad` to a format, or remove `grad_rounding`"),
        ("[quant]\nweight = 'E4M3'\nskip_last = 99", "`quant.skip_last` has no effect: it exceeds `model.n_layer`, which is 4", ":3:1", "give a number of blocks or a share of them"),
        ("[quant]\nweight = 'E4M3'\n[quant.scaling]\nwindow = 4", "`quant.scaling.window` has no effect: no scale is made from the amax of past steps", ":4:1", "set amax = \"delayed\", or remove `window`"),
    ]);
    // Defaults, which resolved files have, and keys that another key needs.
    for text in [
        "[train]\nschedule = 'constant'\nmin_lr = 1e-4",
        "[train]\nschedule = 'constant'\nlr = 1e-5",
        "[quant]\nweight = 'E4M3'\ngrad_rounding = 'nearest-even'",
        "[quant]\ncast = { grad_wgrad = { format = 'E5M2', source = 'hp' } }\ngrad_rounding = 'stochastic'",
        "[quant]\nweight = 'E4M3'\nskip_last = '100%'",
        "[quant]\nweight = 'E4M3'\nscaling = { window = 4 }\ncast = { activation = { format = 'E4M3', scaling = { amax = 'delayed' } } }",
    ] {
        try_load(text, &[]).unwrap();
    }
}

#[test]
fn all_faults_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.toml");
    let faults = |text: &str, refused: &str| {
        std::fs::write(&file, text).unwrap();
        let accept = |_, source: &super::super::Source| match source.is_written(refused) {
            true => Err(Diagnostic::config("refused").at(source.locate(refused))),
            false => Ok(()),
        };
        let found = super::super::accept_or_list(&file, &[], accept).err().unwrap_or_default();
        found.into_iter().map(|fault| fault.message).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(faults("[train]\nlr = 1e-3", "quant.weight"), none);
    // Types, ranges and checks of other modules, in the order in which they are found.
    let text = "[train]\nlr = -1\nlrr = 1\nmax_steps = 'x'\n[quant]\nweight = 'E4M4'";
    let found = faults(text, "quant.weight");
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(
        found[0].contains("train.lrr") && found[2].contains("`train.lr`") && found[3] == "refused",
        "{found:?}"
    );
    // A wrong name does not affect the options beside it.
    assert_eq!(faults("[optimizer]\nname = 'adam'\nbeta3 = 1", "optimizer.name"), ["refused"]);
    // In a list the key is left out; an element is left out with those after it, which would move.
    let text = "[[sink]]\nname = 'a'\nqueue = 0\nevery = 0\n[[sink]]\nname = 'b'\nqueue = 0";
    let found = faults(text, "none");
    assert_eq!(found.len(), 3, "{found:?}");
    let text = "[[quant.layer]]\nmatch = '*'\nrecipes = 'a'\ngrad_rounding = 'x'\n[[quant.layer]]\nmatch = 'b'\nlayer = 1";
    let keys = ["layer.0.grad_rounding", "layer.0.recipes", "layer.1.layer"];
    let mut found = faults(text, "none");
    found.sort();
    assert_eq!(found, keys.map(|key| format!("unknown key `quant.{key}`")));
    let text = "[[sink]]\nname = 'a'\nqueue = 0\n[[sink]]\npath = 'b'\n[[sink]]\nname = 'c'";
    let found = faults(text, "sink.2.name");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("`sink.1` has no `name`") && found[1].contains("`sink.0.queue`"), "{found:?}");
    // A rule about two keys is broken once, not again by the default of the key that was left out.
    let text = "[train]\nmax_steps = 20\nwarmup_steps = 100\n[quant]\nweight = 'E4M4'";
    let found = faults(text, "quant.weight");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("(100) must not be above") && found[1] == "refused", "{found:?}");
    // All keys of an override have its place.
    let set = ["quant.weight='E4M3'", "quant.transform={ hadamard = 16, sign = 'te' }"].map(str::to_owned);
    std::fs::write(&file, "").unwrap();
    let found = super::super::accept_or_list(&file, &set, |_, _| Ok(())).unwrap_err();
    assert_eq!(found.len(), 1, "{found:?}");
    // Text that is no TOML is one fault.
    assert_eq!(faults("[train\nlr = -1", "none").len(), 1);
}

//! Written weights are read back, in either layout; weights that do not fit are refused by their name in
//! the file.

#![allow(clippy::unwrap_used)]

use std::fs;

use super::*;
use crate::model::{GptShape, Parts};

fn shape(n_layer: usize, bias: bool, tie_weights: bool) -> GptShape {
    GptShape {
        vocab: 5,
        block_size: 4,
        n_layer,
        n_head: 1,
        n_embd: 4,
        bias,
        tie_weights,
        parts: Parts::NANOGPT,
    }
}

fn layout(n_layer: usize, tie_weights: bool) -> Layout {
    Layout::new(&shape(n_layer, true, tie_weights))
}

/// Values that say where they belong, all distinct.
fn values_of(layout: &Layout) -> Vec<Vec<f32>> {
    let specs = layout.specs.iter().enumerate();
    specs.map(|(index, spec)| (0..spec.len()).map(|at| index as f32 + at as f32 / 128.0).collect()).collect()
}

/// A file of tensors: key, shape, type, bytes.
fn file(path: &Path, tensors: &[(&str, &[usize], Dtype, Vec<u8>)]) {
    let views = tensors.iter().map(|(key, shape, dtype, bytes)| {
        (key.to_string(), TensorView::new(*dtype, shape.to_vec(), bytes).unwrap())
    });
    fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

/// The tensors of a file, to be changed and written again.
fn tensors(path: &Path) -> Vec<(String, Vec<usize>, Dtype, Vec<u8>)> {
    let bytes = fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let owned = |(key, view): (String, TensorView<'_>)| {
        (key, view.shape().to_vec(), view.dtype(), view.data().to_vec())
    };
    file.tensors().into_iter().map(owned).collect()
}

fn rewrite(path: &Path, change: impl Fn(&mut Vec<(String, Vec<usize>, Dtype, Vec<u8>)>)) {
    let mut all = tensors(path);
    change(&mut all);
    let all: Vec<(&str, &[usize], Dtype, Vec<u8>)> = all
        .iter()
        .map(|(key, shape, dtype, data)| (key.as_str(), shape.as_slice(), *dtype, data.clone()))
        .collect();
    file(path, &all);
}

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("w.safetensors")
    }

    fn refusal(&self, layout: &Layout) -> String {
        read(&self.path(), layout).unwrap_err().message
    }
}

#[test]
fn written_weights_are_read_back_and_misfits_are_named() {
    let bench = Bench::new();
    let values = values_of(&layout(1, true));
    write(&bench.path(), &layout(1, true), values.clone(), None).unwrap();
    assert_eq!(read(&bench.path(), &layout(1, true)).unwrap(), values);
    assert_eq!(bench.refusal(&layout(2, true)), "the weights lack `h.1.ln_1.weight`");
    assert_eq!(
        bench.refusal(&layout(0, true)),
        "the weights hold `h.0.attn.c_attn.bias`, which the model lacks"
    );
    assert_eq!(bench.refusal(&layout(1, false)), "the weights lack `lm_head.weight`");
    assert_eq!(WeightsFile::open(&bench.path()).unwrap().size().unwrap(), (5, 1));
}

#[test]
fn both_layouts_are_read_back_for_every_model() {
    let bench = Bench::new();
    for convention in [Convention::NanoGpt, Convention::Gpt2] {
        for (bias, tied) in [(true, true), (true, false), (false, true), (false, false)] {
            let layout = Layout::new(&shape(2, bias, tied));
            let values = values_of(&layout);
            write_as(&bench.path(), (&layout, convention), values.clone(), None).unwrap();
            assert_eq!(read(&bench.path(), &layout).unwrap(), values, "{convention:?} {bias} {tied}");
        }
    }
}

#[test]
fn gpt2_stores_linear_weights_transposed() {
    let bench = Bench::new();
    let layout = Layout::new(&shape(1, false, true));
    write_as(&bench.path(), (&layout, Convention::Gpt2), values_of(&layout), None).unwrap();
    let shape_of = |end: &str| tensors(&bench.path()).iter().find(|t| t.0.ends_with(end)).unwrap().1.clone();
    assert_eq!(shape_of("h.0.attn.c_attn.weight"), [4, 12]);
    assert_eq!(shape_of("h.0.mlp.c_proj.weight"), [16, 4]);
    assert_eq!(shape_of("wte.weight"), [5, 4]);
    assert_eq!(shape_of("h.0.attn.c_attn.bias"), [12], "GPT-2 has biases throughout");
    assert_eq!(shape_of("ln_f.bias"), [4]);
}

#[test]
fn prefixes_masks_and_a_repeated_head_are_ignored() {
    let bench = Bench::new();
    let layout = layout(1, true);
    write(&bench.path(), &layout, values_of(&layout), None).unwrap();
    rewrite(&bench.path(), |all| {
        all.iter_mut().for_each(|tensor| tensor.0 = format!("_orig_mod.{}", tensor.0));
        let head = all.iter().find(|tensor| tensor.0.ends_with("wte.weight")).unwrap().clone();
        all.push(("_orig_mod.lm_head.weight".into(), head.1, head.2, head.3));
        all.push(("h.0.attn.bias".into(), vec![1, 1, 4, 4], Dtype::BOOL, vec![1; 16]));
        all.push(("h.0.attn.masked_bias".into(), vec![], Dtype::F32, vec![0; 4]));
    });
    assert_eq!(read(&bench.path(), &layout).unwrap(), values_of(&layout));
}

/// Lightning, FSDP and torch.compile, a wrapped Hugging Face model, and GPT2Model itself.
#[test]
fn prefixes_of_other_frameworks_are_ignored() {
    let bench = Bench::new();
    let layout = layout(1, false);
    for (model, head) in [
        ("model.transformer.", "model."),
        ("module._orig_mod.transformer.", "module._orig_mod."),
        ("transformer.transformer.", "transformer."),
        ("model.", "model."),
        ("_forward_module.model.transformer.", "_forward_module.model."),
        ("", ""),
    ] {
        write(&bench.path(), &layout, values_of(&layout), None).unwrap();
        rewrite(&bench.path(), |all| {
            for (key, ..) in all.iter_mut() {
                *key = match key.strip_prefix(PREFIX) {
                    Some(name) => format!("{model}{name}"),
                    None => format!("{head}{key}"),
                };
            }
        });
        assert_eq!(read(&bench.path(), &layout).unwrap(), values_of(&layout), "{model}");
        assert_eq!(WeightsFile::open(&bench.path()).unwrap().size().unwrap(), (5, 1), "{model}");
    }
}

#[test]
fn two_models_and_names_of_another_architecture_are_named() {
    let bench = Bench::new();
    let layout = layout(1, true);
    write(&bench.path(), &layout, values_of(&layout), None).unwrap();
    rewrite(&bench.path(), |all| {
        let both = |tensor: &(String, Vec<usize>, Dtype, Vec<u8>)| {
            ["student.", "teacher."]
                .map(|of| (format!("{of}{}", tensor.0), tensor.1.clone(), tensor.2, tensor.3.clone()))
        };
        *all = all.iter().flat_map(both).collect();
    });
    assert_eq!(
        bench.refusal(&layout),
        "the file has two models: `student.transformer.wte.weight` and `teacher.transformer.wte.weight`"
    );
    file(&bench.path(), &[("gpt_neox.embed_in.weight", &[5, 4], Dtype::F32, vec![0; 80])]);
    let error = read(&bench.path(), &layout).unwrap_err();
    assert_eq!(error.message, "the weights lack `wte.weight`");
    assert!(error.hint.unwrap().contains("begins with `gpt_neox.embed_in.weight`"));
}

#[test]
fn ambiguous_weights_and_those_of_another_model_are_refused() {
    let bench = Bench::new();
    let layout = layout(1, true);
    let start = || write(&bench.path(), &layout, values_of(&layout), None).unwrap();
    start();
    rewrite(&bench.path(), |all| {
        let table = all.iter().find(|tensor| tensor.0.ends_with("wte.weight")).unwrap().clone();
        all.push(("wte.weight".into(), table.1, table.2, table.3));
    });
    assert_eq!(bench.refusal(&layout), "`transformer.wte.weight` and `wte.weight` both denote `wte.weight`");
    start();
    rewrite(&bench.path(), |all| all.push(("lm_head.weight".into(), vec![5, 4], Dtype::F32, vec![0; 80])));
    assert_eq!(
        bench.refusal(&layout),
        "`lm_head.weight` is not the token embedding, but the model's head is"
    );
    start();
    rewrite(&bench.path(), |all| all[0].2 = Dtype::I32);
    assert!(bench.refusal(&layout).ends_with("is I32, which cannot be read"));
    let without = Layout::new(&shape(1, false, true));
    start();
    assert_eq!(bench.refusal(&without), "the weights hold `h.0.attn.c_attn.bias`, which the model lacks");
    write(&bench.path(), &without, values_of(&without), None).unwrap();
    let error = read(&bench.path(), &layout).unwrap_err();
    assert_eq!(error.message, "the weights lack `h.0.ln_1.bias`");
    assert!(error.hint.unwrap().contains("model.bias = false"));
}

#[test]
fn half_precision_is_widened_exactly() {
    let bench = Bench::new();
    let layout = Layout::new(&shape(1, false, true));
    // A quarter is exact in both; so are these.
    let values: Vec<Vec<f32>> =
        layout.specs.iter().map(|spec| (0..spec.len()).map(|at| at as f32 * 0.25 - 4.0).collect()).collect();
    for dtype in [Dtype::BF16, Dtype::F16] {
        write(&bench.path(), &layout, values.clone(), None).unwrap();
        rewrite(&bench.path(), |all| {
            for tensor in all {
                let narrow = |x: f32| match dtype {
                    Dtype::BF16 => bf16::from_f32(x).to_le_bytes(),
                    _ => f16::from_f32(x).to_le_bytes(),
                };
                tensor.2 = dtype;
                tensor.3 =
                    tensor.3.as_chunks::<4>().0.iter().flat_map(|b| narrow(f32::from_le_bytes(*b))).collect();
            }
        });
        assert_eq!(read(&bench.path(), &layout).unwrap(), values, "{dtype:?}");
    }
}

#[test]
fn padding_of_the_vocabulary_and_positions_beyond_the_block_are_dropped() {
    let bench = Bench::new();
    let large = Layout::new(&GptShape { vocab: 64, block_size: 8, ..shape(1, false, false) });
    let values = values_of(&large);
    write(&bench.path(), &large, values.clone(), None).unwrap();
    let fitting = |vocab| Layout::new(&GptShape { vocab, ..shape(1, false, false) });
    let cut = read(&bench.path(), &fitting(50)).unwrap();
    for (cut, whole) in cut.iter().zip(&values) {
        assert_eq!(cut[..], whole[..cut.len()]);
    }
    assert_eq!(cut[0].len(), 50 * 4);
    assert_eq!(cut[1].len(), 4 * 4);
    // Fewer ids than the model needs is no padding.
    let message = bench.refusal(&fitting(65));
    assert_eq!(
        message,
        "`transformer.wte.weight` has shape [64, 4] in the file, [65, 4] is what the model needs"
    );
}

#[test]
fn other_files_are_refused_as_no_weights() {
    let bench = Bench::new();
    assert!(bench.refusal(&layout(1, true)).starts_with("cannot read the weights"));
    fs::write(bench.path(), "hello").unwrap();
    assert!(bench.refusal(&layout(1, true)).starts_with("not a safetensors file"));
    // Ranges of two tensors that overlap, are the same, are reversed, or leave bytes out.
    for (one, two, length) in [
        ([0, 8], [4, 12], 12),
        ([0, 8], [0, 8], 8),
        ([8, 0], [8, 16], 16),
        ([0, 8], [12, 20], 20),
        ([0, 8], [8, 16], 20),
    ] {
        let tensor = |range| format!("{{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":{range:?}}}");
        let header = format!("{{\"wte.weight\":{},\"wpe.weight\":{}}}", tensor(one), tensor(two));
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; length]].concat();
        fs::write(bench.path(), bytes).unwrap();
        let refusal = bench.refusal(&layout(1, true));
        assert!(refusal.starts_with("not a safetensors file"), "{one:?} {two:?} {length}: {refusal}");
    }
}

#[test]
fn weights_that_are_not_finite_are_refused_and_a_note_is_kept() {
    let bench = Bench::new();
    let layout = layout(1, true);
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut values = values_of(&layout);
        values[layout.wte][3] = value;
        write(&bench.path(), &layout, values, None).unwrap();
        let expected = format!("`transformer.wte.weight` is not finite: element 3 is {value}");
        assert_eq!(bench.refusal(&layout), expected);
    }
    write(&bench.path(), &layout, values_of(&layout), Some("step = 7\n")).unwrap();
    assert_eq!(WeightsFile::open(&bench.path()).unwrap().note().unwrap().as_deref(), Some("step = 7\n"));
    assert_eq!(read(&bench.path(), &layout).unwrap(), values_of(&layout));
}

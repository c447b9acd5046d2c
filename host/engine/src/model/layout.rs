//! The parameters of a GPT: names, shapes and initial distributions.
//!
//! Names, shapes and order are nanoGPT's: a linear weight is `[out, in]`, q, k and v are stacked in that order,
//! and `transformer.` is left out.

use super::widths;
use altgrad_config::{MlpChoice, ModelSection, NormChoice, PositionsChoice};

/// The parts of a GPT that a run file may choose and that decide which parameters there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// The norm before each half of a block and before the head.
    pub norm: NormChoice,
    /// The function between the MLP's linear layers.
    pub mlp: MlpChoice,
    /// The encoding of positions.
    pub positions: PositionsChoice,
    /// True if queries and keys are normalised.
    pub qk_norm: bool,
    /// Heads of keys and values, if they are fewer than query heads; divides their number.
    pub kv_heads: Option<usize>,
}

impl Parts {
    /// nanoGPT's parts.
    pub const NANOGPT: Self = Self {
        norm: NormChoice::LayerNorm,
        mlp: MlpChoice::Gelu,
        positions: PositionsChoice::Learned,
        qk_norm: false,
        kv_heads: None,
    };

    /// The parts that a run file selects.
    #[must_use]
    pub fn new(model: &ModelSection) -> Self {
        let kv_heads = model.n_kv_head.filter(|heads| *heads != model.n_head);
        Self {
            norm: model.norm,
            mlp: model.mlp,
            positions: model.positions,
            qk_norm: model.qk_norm,
            kv_heads,
        }
    }

    /// The keys of `[model]` whose parts are not nanoGPT's.
    #[must_use]
    pub fn keys_beyond_nanogpt(&self) -> Vec<&'static str> {
        let Self { norm, mlp, positions, qk_norm, kv_heads } = Self::NANOGPT;
        let keys = [
            ("norm", self.norm != norm),
            ("mlp", self.mlp != mlp),
            ("positions", self.positions != positions),
            ("qk_norm", self.qk_norm != qk_norm),
            ("n_kv_head", self.kv_heads != kv_heads),
        ];
        keys.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }
}

/// The shape of a GPT.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GptShape {
    /// Token ids.
    pub vocab: usize,
    /// Longest sequence, tokens.
    pub block_size: usize,
    /// Blocks.
    pub n_layer: usize,
    /// Attention heads per block; divides `n_embd`.
    pub n_head: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Biases in linear layers and norms.
    pub bias: bool,
    /// True if the head shares the token embedding's weight.
    pub tie_weights: bool,
    /// The parts of the model.
    pub parts: Parts,
}

impl GptShape {
    /// The shape that a run file selects.
    #[must_use]
    pub fn new(model: &ModelSection, block_size: usize, vocab: usize) -> Self {
        Self {
            vocab,
            block_size,
            n_layer: model.n_layer,
            n_head: model.n_head,
            n_embd: model.n_embd,
            bias: model.bias,
            tie_weights: model.tie_weights,
            parts: Parts::new(model),
        }
    }
}

/// The initial distribution of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// Gaussian with mean 0 and this standard deviation.
    Normal(f64),
    /// All ones.
    Ones,
    /// All zeros.
    Zeros,
}

/// One parameter: its name, its extents and its initial distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct ParamSpec {
    /// `h.0.attn.c_attn.weight`.
    pub name: String,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Initial distribution.
    pub init: Init,
    /// The numbers of query heads and of key heads, for stacked queries, keys and values.
    pub attention_heads: Option<[usize; 2]>,
}

impl ParamSpec {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// True if it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Index of a parameter in the table.
pub type ParamId = usize;

/// A weight and its optional bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Affine {
    /// The weight: `[out, in]` for a linear layer, `[n]` for a norm.
    pub weight: ParamId,
    /// The bias, `[out]` or `[n]`.
    pub bias: Option<ParamId>,
}

/// The parameters of one block.
#[derive(Debug, Clone, Copy)]
pub struct BlockLayout {
    /// Norm before attention.
    pub ln_1: Affine,
    /// Query, key and value, stacked: `[n_embd + 2 kv heads * head width, n_embd]`.
    pub c_attn: Affine,
    /// Gains of the norms of queries and keys, `[head width]`, if they are normalised.
    pub qk_norm: Option<[ParamId; 2]>,
    /// Attention output.
    pub attn_proj: Affine,
    /// Norm before the MLP.
    pub ln_2: Affine,
    /// MLP up; with a gate, the gate's rows and then the linear half's.
    pub c_fc: Affine,
    /// MLP down.
    pub mlp_proj: Affine,
}

impl BlockLayout {
    /// Weights of its linear layers, in the order they compute.
    #[must_use]
    pub fn linear_weights(&self) -> [ParamId; 4] {
        [self.c_attn.weight, self.attn_proj.weight, self.c_fc.weight, self.mlp_proj.weight]
    }
}

/// The whole table.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The parts of the model.
    pub parts: Parts,
    /// All parameters, in nanoGPT's order.
    pub specs: Vec<ParamSpec>,
    /// Token embedding `[vocab, n_embd]`.
    pub wte: ParamId,
    /// Position embedding `[block_size, n_embd]`; rotary positions have none.
    pub wpe: Option<ParamId>,
    /// The blocks.
    pub blocks: Vec<BlockLayout>,
    /// Final norm.
    pub ln_f: Affine,
    /// The head's weight `[vocab, n_embd]`; `wte` if tied.
    pub head: ParamId,
}

impl Layout {
    /// The table of a shape.
    #[must_use]
    pub fn new(shape: &GptShape) -> Self {
        let mut table = Table { specs: Vec::new(), bias: shape.bias, parts: shape.parts };
        let width = shape.n_embd;
        let choice = shape.parts.mlp;
        let (up, hidden) = (widths::up_width(choice, width), widths::hidden_width(choice, width));
        let heads = [shape.n_head, shape.parts.kv_heads.unwrap_or(shape.n_head)];
        let stacked = width + 2 * heads[1] * (width / shape.n_head);
        // GPT-2: residual projections start smaller, so that the sum over depth keeps its variance.
        let residual = Init::Normal(0.02 / (2.0 * shape.n_layer as f64).sqrt());
        let plain = Init::Normal(0.02);
        let wte = table.add("wte.weight".into(), vec![shape.vocab, width], plain);
        let learned = shape.parts.positions == PositionsChoice::Learned;
        let wpe = learned.then(|| table.add("wpe.weight".into(), vec![shape.block_size, width], plain));
        let blocks: Vec<BlockLayout> = (0..shape.n_layer)
            .map(|block| BlockLayout {
                ln_1: table.norm(&format!("h.{block}.ln_1"), width),
                c_attn: table.linear(&format!("h.{block}.attn.c_attn"), stacked, width, plain),
                qk_norm: shape.parts.qk_norm.then(|| {
                    ["q_norm", "k_norm"].map(|name| {
                        let name = format!("h.{block}.attn.{name}.weight");
                        table.add(name, vec![width / shape.n_head], Init::Ones)
                    })
                }),
                attn_proj: table.linear(&format!("h.{block}.attn.c_proj"), width, width, residual),
                ln_2: table.norm(&format!("h.{block}.ln_2"), width),
                c_fc: table.linear(&format!("h.{block}.mlp.c_fc"), up, width, plain),
                mlp_proj: table.linear(&format!("h.{block}.mlp.c_proj"), width, hidden, residual),
            })
            .collect();
        for block in &blocks {
            table.specs[block.c_attn.weight].attention_heads = Some(heads);
        }
        let ln_f = table.norm("ln_f", width);
        let head = if shape.tie_weights {
            wte
        } else {
            table.add("lm_head.weight".into(), vec![shape.vocab, width], plain)
        };
        Self { parts: shape.parts, specs: table.specs, wte, wpe, blocks, ln_f, head }
    }

    /// Weights of the linear layers, which a format may quantize: the six boundaries' weights.
    #[must_use]
    pub fn linear_weights(&self) -> Vec<ParamId> {
        self.blocks.iter().flat_map(BlockLayout::linear_weights).chain([self.head]).collect()
    }

    /// Names and lengths of the biases that the layers lack.
    pub fn absent_biases(&self) -> impl Iterator<Item = (String, usize)> {
        let blocks = self.blocks.iter().flat_map(|block| {
            [block.ln_1, block.c_attn, block.attn_proj, block.ln_2, block.c_fc, block.mlp_proj]
        });
        blocks.chain([self.ln_f]).filter(|layer| layer.bias.is_none()).map(|layer| {
            let weight = &self.specs[layer.weight];
            (weight.name.replace(".weight", ".bias"), weight.shape[0])
        })
    }

    /// Number of parameters, elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.specs.iter().map(ParamSpec::len).sum()
    }
}

struct Table {
    specs: Vec<ParamSpec>,
    bias: bool,
    parts: Parts,
}

impl Table {
    fn add(&mut self, name: String, shape: Vec<usize>, init: Init) -> ParamId {
        self.specs.push(ParamSpec { name, shape, init, attention_heads: None });
        self.specs.len() - 1
    }

    fn affine(&mut self, name: &str, shape: Vec<usize>, init: Init) -> Affine {
        let outputs = shape[0];
        let weight = self.add(format!("{name}.weight"), shape, init);
        let bias = self.bias.then(|| self.add(format!("{name}.bias"), vec![outputs], Init::Zeros));
        Affine { weight, bias }
    }

    fn linear(&mut self, name: &str, outputs: usize, inputs: usize, init: Init) -> Affine {
        self.affine(name, vec![outputs, inputs], init)
    }

    fn norm(&mut self, name: &str, width: usize) -> Affine {
        match self.parts.norm {
            NormChoice::LayerNorm => self.affine(name, vec![width], Init::Ones),
            NormChoice::RmsNorm => {
                Affine { weight: self.add(format!("{name}.weight"), vec![width], Init::Ones), bias: None }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(bias: bool, tie_weights: bool) -> GptShape {
        GptShape {
            vocab: 65,
            block_size: 64,
            n_layer: 4,
            n_head: 4,
            n_embd: 128,
            bias,
            tie_weights,
            parts: Parts::NANOGPT,
        }
    }

    #[test]
    fn the_tiny_model_has_the_parameters_of_nanogpt() {
        // nanoGPT prints 0.80M for this shape: it leaves the positions (8,192) out.
        let layout = Layout::new(&shape(false, true));
        assert_eq!(layout.elements(), 804_096);
        assert_eq!(layout.head, layout.wte);
        assert_eq!(layout.linear_weights().len(), 17);
        assert_eq!(layout.specs[3].name, "h.0.attn.c_attn.weight");
        assert_eq!(layout.specs[3].shape, [384, 128]);
    }

    #[test]
    fn rms_norms_have_gains_and_no_biases() {
        let rms =
            GptShape { parts: Parts { norm: NormChoice::RmsNorm, ..Parts::NANOGPT }, ..shape(true, true) };
        let layer = shape(true, true);
        // Two norms per block and the final one, each with a bias of the width in LayerNorm.
        assert_eq!(Layout::new(&layer).elements() - Layout::new(&rms).elements(), 9 * 128);
        let names: Vec<String> = Layout::new(&rms).specs.into_iter().map(|spec| spec.name).collect();
        assert!(
            names.contains(&"h.0.ln_1.weight".to_string()) && !names.contains(&"h.0.ln_1.bias".to_string())
        );
    }

    #[test]
    fn rotary_positions_have_no_parameters() {
        let parts = Parts { positions: PositionsChoice::Rotary, ..Parts::NANOGPT };
        let layout = Layout::new(&GptShape { parts, ..shape(false, true) });
        assert_eq!((layout.elements(), layout.wpe), (804_096 - 64 * 128, None));
        assert_eq!(layout.specs[1].name, "h.0.ln_1.weight");
    }

    #[test]
    fn a_gate_is_stacked_on_the_linear_half() {
        let parts = Parts { mlp: MlpChoice::Swiglu, ..Parts::NANOGPT };
        let layout = Layout::new(&GptShape { parts, ..shape(true, true) });
        let of = |id: ParamId| (layout.specs[id].name.as_str(), layout.specs[id].shape.as_slice());
        let block = layout.blocks[0];
        assert_eq!(of(block.c_fc.weight), ("h.0.mlp.c_fc.weight", [704, 128].as_slice()));
        assert_eq!(of(block.mlp_proj.weight), ("h.0.mlp.c_proj.weight", [128, 352].as_slice()));
        let gelu = Layout::new(&shape(true, true)).elements();
        assert_eq!(layout.elements(), gelu - 4 * (8 * 128 * 128 + 512) + 4 * (3 * 352 * 128 + 704));
    }

    #[test]
    fn queries_and_keys_have_a_gain_of_a_heads_width_a_block() {
        let parts = Parts { qk_norm: true, ..Parts::NANOGPT };
        let layout = Layout::new(&GptShape { parts, ..shape(false, true) });
        assert_eq!(layout.elements(), 804_096 + 4 * 2 * 32);
        let gains = layout.blocks[1].qk_norm.map(|gains| gains.map(|id| layout.specs[id].name.as_str()));
        assert_eq!(gains, Some(["h.1.attn.q_norm.weight", "h.1.attn.k_norm.weight"]));
    }

    #[test]
    fn biases_and_an_untied_head_add_parameters() {
        let layout = Layout::new(&shape(true, false));
        let untied = 65 * 128;
        let biases = 4 * (128 + 384 + 128 + 128 + 512 + 128) + 128;
        assert_eq!(layout.elements(), 804_096 + untied + biases);
    }
}

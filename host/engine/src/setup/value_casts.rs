//! The places outside of linear layers where a run file may round: the parameters that name them, and the lengths of
//! their rows.

use std::ops::Range;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_casts::{Block, Rule};
use altgrad_config::{RunConfig, cast::ResolvedCast};
use altgrad_loader::instance::KeyedDiagnostic;

use super::casts;
use crate::{
    model::{Layout, layout::ParamId},
    quant::Role,
};

/// A place with its cast.
#[derive(Debug)]
pub(super) struct ValuePlace {
    pub(super) layer: ParamId,
    pub(super) cast: (Role, ResolvedCast),
    /// Elements of a row in training, as it is rounded.
    pub(super) width: usize,
}

/// Lengths of rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Widths {
    embedding: usize,
    head: usize,
    block: usize,
}

impl Widths {
    pub(super) fn new(config: &RunConfig) -> Self {
        let embedding = config.model.n_embd;
        Self { embedding, head: embedding / config.model.n_head.max(1), block: config.data.block_size }
    }
}

/// All places of a model: parameter, role and row. Those of blocks only where the blocks are not skipped.
pub(super) fn places(layout: &Layout, kept: Range<usize>, widths: &Widths) -> Vec<(ParamId, Role, usize)> {
    let &Widths { embedding, head, block } = widths;
    let mut places = vec![(layout.wte, Role::Embedding, embedding)];
    for index in kept {
        let Some(layers) = layout.blocks.get(index) else { continue };
        for norm in [layers.ln_1, layers.ln_2] {
            places.extend([(norm.weight, Role::Norm, embedding), (norm.weight, Role::NormGain, embedding)]);
        }
        let gains = layers.qk_norm.into_iter().flatten();
        places.extend(gains.map(|gain| (gain, Role::NormGain, head)));
        let attention = [
            (Role::Qkv, 3 * embedding),
            (Role::QkvGrad, 3 * embedding),
            (Role::Query, head),
            (Role::Key, head),
            (Role::Value, block),
            (Role::Probabilities, block),
            (Role::ScoresGrad, block),
            (Role::AttentionGrad, head),
        ];
        places.extend(attention.map(|(role, width)| (layers.c_attn.weight, role, width)));
        for layer in [layers.attn_proj, layers.mlp_proj] {
            places.push((layer.weight, Role::Residual, embedding));
        }
    }
    places.extend([
        (layout.ln_f.weight, Role::Norm, embedding),
        (layout.ln_f.weight, Role::NormGain, embedding),
    ]);
    places.push((layout.head, Role::Logits, layout.specs[layout.head].shape[0]));
    places
}

/// Refuses keys that only operands of linear layers, or only matrices, can have, and those that norms' gains cannot
/// have.
pub(super) fn check(role: Role, resolved: &ResolvedCast) -> Result<(), KeyedDiagnostic> {
    casts::refuse_transform(role, resolved)?;
    if role != Role::NormGain {
        return Ok(());
    }
    let refused = |field: &str, why: &str, choice: &str| {
        let key = resolved.key_of(field);
        let message = format!("`{key}` is {why}");
        let hint = format!("set {field} in quant.cast.{} to {choice}", role.name());
        Err((key, Diagnostic::config(message).hint(hint)))
    };
    let cast = resolved.cast();
    if matches!(cast.block, Block::Tile([lines, _]) if lines > 1) {
        let why = "a tile of several lines, but a norm's gain is a vector";
        return refused("block", why, "a number, \"row\" or \"tensor\"");
    }
    if matches!(cast.scaling.rule, Rule::Rms { .. }) {
        let why = "rms, but a norm's gains are equal at the start: their standard deviation is 0";
        return refused("scaling.rule", why, "\"max\" or another rule of the largest magnitude");
    }
    Ok(())
}

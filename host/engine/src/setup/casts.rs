//! A run file's casts as the sites of a linear layer, and refusals that depend on the layer and on the other casts.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_casts::{Block, Grid, Hadamard, Range, Rounding as CastRounding, Rule};
use altgrad_config::{
    AmaxChoice,
    cast::{FirstScaleChoice, ResolvedCast, UseSourceChoice, ZeroBlockChoice},
};
use altgrad_loader::instance::KeyedDiagnostic;
use altgrad_plugin_api::Rounding;

use crate::quant::{Arithmetic, DelayedStart, DeviceFormat, Role, ScaleRule, Scaling};

/// Extents of a linear layer and of its batches.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerShape {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// Tokens of a micro-batch of training.
    pub(super) tokens: usize,
}

impl LayerShape {
    /// Rows and columns of an operand as it is rounded: the contraction of its product is the last axis.
    pub(super) fn of(self, role: Role) -> [usize; 2] {
        let Self { inputs, outputs, tokens } = self;
        match role {
            Role::Weight | Role::WeightGrad => [outputs, inputs],
            Role::Activation => [tokens, inputs],
            Role::Grad => [tokens, outputs],
            Role::WeightDgrad => [inputs, outputs],
            Role::ActivationWgrad => [inputs, tokens],
            Role::GradWgrad => [outputs, tokens],
            _ => [tokens, outputs],
        }
    }
}

/// The mode of plugins for a rounding, and whether ties are corrected afterwards.
pub(crate) fn mode(rounding: CastRounding) -> (Rounding, bool) {
    match rounding {
        CastRounding::NearestEven => (Rounding::NEAREST_EVEN, false),
        CastRounding::NearestAway => (Rounding::NEAREST_AWAY, false),
        CastRounding::NearestZero => (Rounding::NEAREST_AWAY, true),
        CastRounding::TowardZero => (Rounding::TOWARD_ZERO, false),
        CastRounding::Stochastic => (Rounding::STOCHASTIC, false),
    }
}

/// The arithmetic of a cast, by its differences from a format's own rounding.
pub(crate) fn arithmetic(cast: &altgrad_casts::Cast) -> Arithmetic {
    Arithmetic {
        quantize: cast.scaling.quantize,
        dequantize: cast.scaling.dequantize,
        ties_toward_zero: mode(cast.rounding).1,
    }
}

/// The elements of an operand that share a scale: the length of a group, and the tile where it is no part of a row.
pub(crate) fn groups(
    block: Block,
    [rows, width]: [usize; 2],
    role: Role,
) -> (Option<usize>, Option<[usize; 2]>) {
    match block {
        Block::None | Block::Tensor => (None, None),
        Block::Row => (Some(width), None),
        Block::Along(along) => (Some(along.min(width)), None),
        Block::Tile([across, along]) => {
            // Evaluations may have more tokens than batches of training.
            let across =
                if matches!(role, Role::Activation | Role::Grad) { across } else { across.min(rows) };
            let along = along.min(width);
            (Some(across * along), (across > 1).then_some([across, along]))
        }
    }
}

/// Refuses a rule of deviations whose blocks do not divide an operand: the zeros that fill up the last block would count.
pub(super) fn check_blocks(
    resolved: &ResolvedCast,
    cast: &altgrad_casts::Cast,
    [rows, width]: [usize; 2],
) -> Result<(), KeyedDiagnostic> {
    if !matches!(cast.scaling.rule, Rule::Rms { .. }) {
        return Ok(());
    }
    let cut = |block: usize, of: usize| !of.is_multiple_of(block.clamp(1, of.max(1)));
    let (block, of, what) = match cast.block {
        Block::Along(along) | Block::Tile([_, along]) if cut(along, width) => {
            (along, width, "elements of a row")
        }
        Block::Tile([across, _]) if cut(across, rows) => (across, rows, "rows"),
        _ => return Ok(()),
    };
    let key = resolved.key_of("scaling.rule");
    let message = format!("`{key}` is rms, and blocks of {block} elements do not divide the {of} {what}");
    Err((key, Diagnostic::config(message).hint("choose a block that divides the tensor, or another rule")))
}

/// The scaling of a cast.
pub(super) fn scaling(
    resolved: &ResolvedCast,
    cast: &altgrad_casts::Cast,
    format: &DeviceFormat,
    group: Option<usize>,
) -> Result<Scaling, KeyedDiagnostic> {
    let fields = resolved.fields.scaling.unwrap_or_default();
    let range = Range::new(format.values(), &format.plugin().conventions);
    let amax = fields.amax.unwrap_or(AmaxChoice::Dynamic);
    let scaling = altgrad_casts::Scaling { amax: None, ..cast.scaling };
    let rule = ScaleRule { range, scaling, group };
    if amax != AmaxChoice::Dynamic && group.is_some() && !scaling.tensor && cast.block != Block::None {
        let message =
            format!("`{}` = \"{amax}\" needs one scale for the tensor", resolved.key_of("scaling.amax"));
        let hint = "blocks take their scales from the current tensor: set amax = \"dynamic\"";
        return Err((resolved.key_of("scaling.amax"), Diagnostic::config(message).hint(hint)));
    }
    Ok(match amax {
        _ if cast.block == Block::None => Scaling::None,
        AmaxChoice::Dynamic => Scaling::Dynamic(rule),
        AmaxChoice::Delayed => Scaling::Delayed {
            rule,
            window: fields.window.unwrap_or(1),
            start: DelayedStart {
                first_is_one: fields.first == Some(FirstScaleChoice::One),
                keeps_over_zeros: fields.zero == Some(ZeroBlockChoice::Keep),
            },
        },
        AmaxChoice::Static => Scaling::Static { rule, amax: fields.static_amax },
    })
}

/// Refuses fields that exclude each other, or that the format does not have.
pub(super) fn check_fields(
    resolved: &ResolvedCast,
    cast: &altgrad_casts::Cast,
    format: &DeviceFormat,
) -> Result<(), KeyedDiagnostic> {
    let plugin = format.plugin();
    let grid = Grid::new(&plugin.spec, &plugin.conventions).map_err(|error| {
        (resolved.key.clone(), plugin.identity.failure(altgrad_base::diagnostic::Fault::Plugin, &error))
    })?;
    cast.check(&grid).map_err(|error| {
        let message = error.to_string();
        let key =
            message.split('`').nth(1).map_or_else(|| resolved.key.clone(), |field| resolved.key_of(field));
        (key, Diagnostic::config(message).hint(error.hint()))
    })
}

/// The casts of a layer by role.
pub(super) type LayerCasts = [(Role, ResolvedCast)];

/// Refuses transforms that do not cancel in a product, or that do not divide its contraction.
pub(super) fn check_transforms(
    name: &str,
    casts: &LayerCasts,
    shape: LayerShape,
) -> Result<(), KeyedDiagnostic> {
    for (role, resolved) in casts {
        let Some(hadamard) = own_transform(resolved, *role) else { continue };
        let key = || resolved.key_of("transform");
        let [_, length] = shape.of(*role);
        if !length.is_multiple_of(hadamard.size) {
            let message = format!(
                "a transform of {} elements does not divide the {length} elements that the product of `{name}` contracts over",
                hadamard.size
            );
            return Err((
                key(),
                Diagnostic::config(message).hint("choose a smaller power of two, or exclude the layer"),
            ));
        }
        // It is rotated along the axis that the product of the weight's gradient keeps.
        let second = casts.iter().find(|(of, _)| *of == Role::GradWgrad).map(|(_, second)| second);
        if let Some(second) = second.filter(|_| *role == Role::Grad)
            && second.source() != UseSourceChoice::HighPrecision
        {
            let key = second.fields.source.map_or_else(key, |_| second.key_of("source"));
            let message = "a transformed gradient cannot be reused in the product of the weight's gradient";
            let hint = "set source = \"hp\" in quant.cast.grad_wgrad";
            return Err((key, Diagnostic::config(message).hint(hint)));
        }
    }
    let pairs = [
        (Role::Activation, Role::Weight, "the output"),
        (Role::Grad, Role::WeightDgrad, "the input's gradient"),
        (Role::GradWgrad, Role::ActivationWgrad, "the weight's gradient"),
    ];
    for (a, b, product) in pairs {
        let of = |role: Role| casts.iter().find(|(of, _)| *of == role).map(|(_, resolved)| resolved);
        let (Some(first), Some(second)) = (of(a), of(b)) else { continue };
        let same = |hadamard: Hadamard| (hadamard.size, hadamard.signs);
        let transforms = [own_transform(first, a), own_transform(second, b)];
        if transforms[0].map(same) != transforms[1].map(same) {
            let key =
                if transforms[0].is_some() { first.key_of("transform") } else { second.key_of("transform") };
            let message = format!(
                "the operands {} and {} of the product of {product} are transformed differently in `{name}`",
                a.name(),
                b.name()
            );
            let hint = "give both the same transform, so that it cancels in their product; a second use has one of its own with source = \"hp\"";
            return Err((key, Diagnostic::config(message).hint(hint)));
        }
    }
    Ok(())
}

/// Refuses a second use of the high-precision tensor where the first use is transformed: the other operand's gradient is that of the
/// transformed product.
pub(super) fn check_sources(casts: &LayerCasts) -> Result<(), KeyedDiagnostic> {
    for (role, resolved) in casts {
        let Some(first) = role.first_use() else { continue };
        let rotated = casts.iter().any(|(of, cast)| *of == first && own_transform(cast, first).is_some());
        if rotated && first != Role::Grad && resolved.source() == UseSourceChoice::HighPrecision {
            let message = format!("`{}` is hp, and the first use is transformed", resolved.key_of("source"));
            let hint = "use source = \"reuse\" or \"dequantized\": the backward pass is that of the transformed product";
            return Err((resolved.key_of("source"), Diagnostic::config(message).hint(hint)));
        }
    }
    Ok(())
}

/// The transform along the contraction of its own product: a use that reuses another has none.
fn own_transform(resolved: &ResolvedCast, role: Role) -> Option<Hadamard> {
    let reuses = role.first_use().is_some() && resolved.source() == UseSourceChoice::Reuse;
    resolved.format().filter(|_| !reuses)?;
    resolved.cast().transform
}

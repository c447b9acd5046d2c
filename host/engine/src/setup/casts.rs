//! A run file's casts as the sites of a linear layer, and refusals that depend on the layer and on the other casts.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_casts::{Axis, Block, Grid, Hadamard, Overflow, Range, Rounding as CastRounding, Rule, Signs};
use altgrad_config::{
    AmaxChoice, SteChoice,
    cast::{FirstScaleChoice, ResolvedCast, UseSourceChoice, ZeroBlockChoice},
};
use altgrad_loader::{FormatPlugin, instance::KeyedDiagnostic};
use altgrad_plugin_api::{Rounding, ValueGrid};

use crate::{
    device::ComputeDevice,
    quant::{Arithmetic, DelayedStart, DeviceFormat, Role, ScaleRule, Scaling},
};

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

/// The mode of plugins for a rounding, and the rounding itself if results are corrected afterwards.
pub(crate) fn mode(rounding: CastRounding) -> (Rounding, Option<CastRounding>) {
    match rounding {
        CastRounding::NearestEven => (Rounding::NEAREST_EVEN, None),
        CastRounding::NearestAway => (Rounding::NEAREST_AWAY, None),
        CastRounding::NearestZero | CastRounding::NearestUp => (Rounding::NEAREST_AWAY, Some(rounding)),
        CastRounding::TowardZero => (Rounding::TOWARD_ZERO, None),
        CastRounding::Stochastic => (Rounding::STOCHASTIC, None),
        CastRounding::FewBits(_) => (Rounding::TOWARD_ZERO, Some(rounding)),
    }
}

/// The arithmetic of a cast, by its differences from a format's own rounding.
pub(crate) fn arithmetic(cast: &altgrad_casts::Cast) -> Arithmetic {
    Arithmetic {
        quantize: cast.scaling.quantize,
        dequantize: cast.scaling.dequantize,
        own: mode(cast.rounding).1,
        overflow: (cast.overflow == Overflow::NonFinite).then_some(cast.rounding),
    }
}

/// The modes of plugins that a cast needs: ties toward zero or up are decided beside the value toward zero.
pub(crate) fn modes(cast: &altgrad_casts::Cast) -> impl Iterator<Item = Rounding> {
    let (mode, _) = mode(cast.rounding);
    let decides_ties = matches!(cast.rounding, CastRounding::NearestZero | CastRounding::NearestUp);
    [Some(mode), decides_ties.then_some(Rounding::TOWARD_ZERO)].into_iter().flatten()
}

/// The format of a cast on the device. The CPU rounds on every device where kernels do not.
///
/// # Errors
/// The plugin's description is impossible, or its kernels do not run on the device.
pub(crate) fn open(
    cast: &altgrad_casts::Cast,
    plugin: Arc<FormatPlugin>,
    device: &ComputeDevice,
    modes: &[Rounding],
) -> Result<Arc<DeviceFormat>, Diagnostic> {
    match is_on_host(cast, &plugin)? {
        true => DeviceFormat::on_host(plugin, device).map(Arc::new),
        false => DeviceFormat::new(plugin, device, modes),
    }
}

/// True if the CPU rounds for a cast on every device.
pub(super) fn is_on_host(cast: &altgrad_casts::Cast, plugin: &FormatPlugin) -> Result<bool, Diagnostic> {
    Ok(needs_matrix(cast, plugin) || !arithmetic(cast).has_kernels(&plugin.values()?))
}

/// True if a cast to a format needs the whole matrix, so that the CPU alone computes it.
fn needs_matrix(cast: &altgrad_casts::Cast, plugin: &FormatPlugin) -> bool {
    cast.needs_matrix() || has_own_blocks(cast, plugin)
}

/// True if the format chooses tables or magnitudes of the cast's blocks.
fn has_own_blocks(cast: &altgrad_casts::Cast, plugin: &FormatPlugin) -> bool {
    cast.block != Block::None && plugin.conventions.has_own_blocks()
}

/// Refuses a cast that needs the whole matrix on a device other than the CPU.
///
/// # Errors
/// That refusal, without a place.
pub(crate) fn check_device(
    cast: &altgrad_casts::Cast,
    plugin: &FormatPlugin,
    device: &ComputeDevice,
) -> Result<(), Diagnostic> {
    if !needs_matrix(cast, plugin) || device.label == "cpu" {
        return Ok(());
    }
    let what = match has_own_blocks(cast, plugin) {
        true => "formats that choose tables or magnitudes of blocks",
        false => {
            "casts with a center, outer blocks, microexponents, random or corrected scales, or nested scales"
        }
    };
    let message = format!("{} does not compute {what}", device.label);
    Err(Diagnostic::config(message).hint("set run.device = \"cpu\", or use another cast"))
}

/// The axis of the mean over tokens of an operand as it is rounded, with the contraction as its last axis.
pub(super) fn center(
    resolved: &ResolvedCast,
    cast: &altgrad_casts::Cast,
    role: Role,
) -> Result<Option<Axis>, KeyedDiagnostic> {
    if cast.center.is_none() {
        return Ok(None);
    }
    match role {
        Role::Activation | Role::Grad => Ok(Some(Axis::Columns)),
        Role::ActivationWgrad | Role::GradWgrad => Ok(Some(Axis::Rows)),
        _ => {
            let (key, name) = (resolved.key_of("center"), role.name());
            let message = format!("`{key}`: the role {name} has no mean over tokens");
            let hint = format!(
                "set center = \"none\" in quant.cast.{name}: it is for activations and gradients of linear layers"
            );
            Err((key, Diagnostic::config(message).hint(hint)))
        }
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

/// Refuses blocks of `[across, along]` rows and columns that do not divide an operand if the zeros that fill up the
/// last ones would count: in deviations, and in the statistics of a format without zero.
pub(super) fn check_blocks(
    resolved: &ResolvedCast,
    cast: &altgrad_casts::Cast,
    values: &ValueGrid,
    [across, along]: [usize; 2],
    [rows, width]: [usize; 2],
) -> Result<(), KeyedDiagnostic> {
    let (key, is, other) = if matches!(cast.scaling.rule, Rule::Rms { .. }) {
        (resolved.key_of("scaling.rule"), "rms", "rule")
    } else if values.value_at(0.0) != 0.0 {
        (resolved.key.clone(), "a format without zero", "format")
    } else {
        return Ok(());
    };
    let (block, of, what) = if !width.is_multiple_of(along) {
        (along, width, "elements of a row")
    } else if !rows.is_multiple_of(across) {
        (across, rows, "rows")
    } else {
        return Ok(());
    };
    let message = format!("`{key}` is {is}, but blocks of {block} elements do not divide the {of} {what}");
    let hint = format!("choose a block that divides the tensor, or another {other}");
    Err((key, Diagnostic::config(message).hint(hint)))
}

/// Refuses outer blocks and corrections that are no whole numbers of an operand's blocks, which are at most as long as
/// its rows, and sub-blocks that do not divide them.
pub(super) fn check_extents(
    resolved: &ResolvedCast,
    cast: &altgrad_casts::Cast,
    plugin: &FormatPlugin,
    group: Option<usize>,
    role: Role,
) -> Result<(), KeyedDiagnostic> {
    let extents = [("outer", cast.scaling.outer), ("correction", cast.scaling.correction)];
    for (field, extent) in extents.into_iter().filter_map(|(field, extent)| Some((field, extent?))) {
        if let Some(group) = group.filter(|group| !extent.is_multiple_of(*group)) {
            let key = resolved.key_of(&format!("scaling.{field}"));
            let message = format!(
                "`{key}` is {extent}, but the rows of an operand have {group} elements, which are one block"
            );
            return Err((key, Diagnostic::config(message).hint("choose a block that divides the rows")));
        }
    }
    let divides = |size: usize| group.is_none_or(|group| group.is_multiple_of(size));
    if let Some(size) = cast.scaling.microexponents.sizes().find(|size| !divides(*size)) {
        let key = resolved.key_of("scaling.microexponents");
        let group = group.unwrap_or_default();
        let message = format!(
            "`{key}` has sub-blocks of {size}, but the rows of an operand have {group} elements, which are one block"
        );
        return Err((key, Diagnostic::config(message).hint("choose sub-blocks that divide the rows")));
    }
    let has_estimator = [Role::Weight, Role::Activation].contains(&role);
    let clips = has_estimator && resolved.fields.ste == Some(SteChoice::Clipped);
    if clips && has_own_blocks(cast, plugin) {
        let message = format!(
            "`{}` chooses tables or magnitudes of blocks, which excludes ste = \"clipped\"",
            plugin.identity.name
        );
        return Err((resolved.key.clone(), Diagnostic::config(message).hint("set ste = \"identity\"")));
    }
    if clips && group.is_some() && !cast.scaling.microexponents.is_empty() {
        let key = resolved.key_of("scaling.microexponents");
        let message = format!(
            "`{key}` excludes ste = \"clipped\", which compares elements with one largest value a block"
        );
        return Err((key, Diagnostic::config(message).hint("set ste = \"identity\"")));
    }
    Ok(())
}

/// The scaling of a cast.
pub(super) fn scaling(
    resolved: &ResolvedCast,
    cast: &altgrad_casts::Cast,
    format: &DeviceFormat,
    group: Option<usize>,
) -> Result<Scaling, KeyedDiagnostic> {
    let fields = resolved.fields.scaling.unwrap_or_default();
    let range = cast.scaling.range(&Range::new(format.values(), &format.plugin().conventions));
    let amax = fields.amax.unwrap_or(AmaxChoice::Dynamic);
    let scaling = altgrad_casts::Scaling { amax: None, ..cast.scaling };
    let rule = ScaleRule { range, scaling, group };
    let is_rms = matches!(scaling.rule, Rule::Rms { .. });
    if amax != AmaxChoice::Dynamic && has_own_blocks(cast, format.plugin()) {
        let key = resolved.key_of("scaling.amax");
        let message =
            format!("`{key}` = \"{amax}\" excludes a format that chooses tables or magnitudes of blocks");
        return Err((key, Diagnostic::config(message).hint("set amax = \"dynamic\"")));
    }
    let has_blocks =
        cast.block != Block::None && (group.is_some() && !scaling.tensor || scaling.outer.is_some());
    if amax != AmaxChoice::Dynamic && (is_rms || has_blocks || cast.center.is_some()) {
        let (needs, whose) = if is_rms {
            ("a rule other than rms", "rule rms takes its")
        } else {
            ("one scale for the tensor", "blocks take their")
        };
        let key = resolved.key_of("scaling.amax");
        let message = format!("`{key}` = \"{amax}\" needs {needs}");
        let hint = format!("{whose} scales from the current tensor: set amax = \"dynamic\"");
        return Err((key, Diagnostic::config(message).hint(hint)));
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
        if *role == Role::WeightGrad {
            refuse_transform(*role, resolved)?;
        }
        let Some(hadamard) = own_transform(resolved, *role) else { continue };
        let key = || resolved.key_of("transform");
        let [_, length] = shape.of(*role);
        if !length.is_multiple_of(hadamard.size) {
            let message = format!(
                "a transform of {} elements does not divide the {length} elements that the product of `{name}` contracts over",
                hadamard.size
            );
            return Err((key(), Diagnostic::config(message).hint(dividing_hint(*role, hadamard, length))));
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
            let hint = "give both the same transform, so that it cancels in their product; operands of dgrad and wgrad have their own with source = \"hp\"";
            return Err((key, Diagnostic::config(message).hint(hint)));
        }
    }
    Ok(())
}

/// Changes by which a transform divides the elements that a product contracts over.
fn dividing_hint(role: Role, hadamard: Hadamard, length: usize) -> String {
    let size = hadamard.size;
    let of_tokens = matches!(role, Role::ActivationWgrad | Role::GradWgrad);
    let change = if of_tokens {
        format!("choose `data.batch_size` and `data.block_size` whose product is a multiple of {size}")
    } else {
        "exclude the layer".to_owned()
    };
    let dividing = 1usize << length.trailing_zeros();
    // Transformer Engine's signs are 16.
    if dividing > 1 && hadamard.signs != Signs::Te {
        format!("{change}, or set hadamard = {dividing} in both operands")
    } else {
        change
    }
}

/// Refuses a transform of a tensor that is no operand of a linear layer's product: nothing cancels it.
pub(super) fn refuse_transform(role: Role, resolved: &ResolvedCast) -> Result<(), KeyedDiagnostic> {
    if own_transform(resolved, role).is_none() {
        return Ok(());
    }
    let (key, name) = (resolved.key_of("transform"), role.name());
    let message = format!("`{key}`: the role {name} cannot be transformed");
    let hint = format!(
        "set transform = \"none\" in quant.cast.{name}: transforms cancel in the products of linear layers only"
    );
    Err((key, Diagnostic::config(message).hint(hint)))
}

/// Refuses a dgrad or wgrad operand from the high-precision tensor where that of fprop is transformed: the other
/// operand's gradient is that of the transformed product.
pub(super) fn check_sources(casts: &LayerCasts) -> Result<(), KeyedDiagnostic> {
    for (role, resolved) in casts {
        let Some(first) = role.first_use() else { continue };
        let rotated = casts.iter().any(|(of, cast)| *of == first && own_transform(cast, first).is_some());
        if rotated && first != Role::Grad && resolved.source() == UseSourceChoice::HighPrecision {
            let message =
                format!("`{}` is hp, but the operand of fprop is transformed", resolved.key_of("source"));
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_config::QuantSection;
    use altgrad_plugin_api::FormatSpec;

    use super::*;

    #[test]
    fn padding_is_refused_where_its_zeros_would_count() {
        let quant = QuantSection { weight: Some("TABLE".into()), ..QuantSection::default() };
        let resolved = quant.cast(Role::Weight, |_| false);
        let check = |values: [f32; 4], tile, shape| {
            let values = ValueGrid::new(&FormatSpec::Table(values.to_vec().into())).unwrap();
            check_blocks(&resolved, &resolved.cast(), &values, tile, shape)
                .map_err(|(_, error)| error.message)
        };
        let (with, without) = ([-1.0, 0.0, 1.0, 2.0], [-1.0, -0.5, 0.5, 1.0]);
        let refused = |what: &str| -> Result<(), String> {
            Err(format!("`quant.weight` is a format without zero, but blocks of {what}"))
        };
        assert_eq!(check(with, [4, 7], [6, 32]), Ok(()));
        assert_eq!(check(without, [2, 8], [6, 32]), Ok(()));
        let row = "7 elements do not divide the 32 elements of a row";
        assert_eq!(check(without, [1, 7], [6, 32]), refused(row));
        assert_eq!(check(without, [4, 8], [6, 32]), refused("4 elements do not divide the 6 rows"));
    }
}

//! The setup of observation: it makes the sites of `[observe]` in a model, each with its assumed casts.

use std::sync::Arc;

use altgrad_base::diagnostic::{Diagnostic, Fault};
use altgrad_casts::{Block, Cast, Grid, Range};
use altgrad_config::{AmaxChoice, ObserveSection, RolesChoice, RunConfig, SteChoice};
use altgrad_loader::{FormatPlugin, Registry, instance::KeyedDiagnostic};
use altgrad_metrics::FormatName;
use altgrad_plugin_api::Rounding;

use super::{
    casts::{self, LayerShape},
    value_casts::{self, Widths},
};
use crate::{
    device::ComputeDevice,
    model::{Layout, layout::ParamId},
    quant::{
        DeviceFormat, Role, ScaleRule, Scaling, TensorQuantizer,
        observe::{ObservedFormat, ObservedSite, ObservedSites},
    },
};

/// A format with its assumed cast.
struct Assumed {
    name: FormatName,
    format: Arc<DeviceFormat>,
    cast: Cast,
}

/// The sites that a run observes; `None` if it observes none.
pub(super) fn observation(
    config: &RunConfig,
    registry: &Registry,
    device: &ComputeDevice,
    layout: &Layout,
) -> Result<Option<ObservedSites>, KeyedDiagnostic> {
    let observe = &config.observe;
    if observe.formats.is_empty() {
        return Ok(None);
    }
    let places = places(config, layout);
    check_roles(observe, &places)?;
    let formats = observe.formats.iter().enumerate();
    let formats = formats.map(|(index, name)| assumed(observe, (index, name), registry, device));
    let formats = formats.collect::<Result<Vec<_>, _>>()?;
    let sites = places.into_iter().filter(|(_, role, _)| observe.roles.has(*role));
    let sites = sites.map(|(layer, role, shape)| {
        let name = layout.specs[layer].name.clone();
        let formats = formats.iter().map(|assumed| ObservedFormat {
            name: assumed.name,
            cast: assumed.site(&name, role, shape, observe),
        });
        ObservedSite { layer, role, formats: formats.collect(), name: name.clone() }
    });
    Ok(Some(ObservedSites::new(sites.collect())))
}

/// All sites of a model: parameter, role, and the shape that is rounded.
fn places(config: &RunConfig, layout: &Layout) -> Vec<(ParamId, Role, LayerShape)> {
    let tokens = config.data.batch_size * config.data.block_size;
    let mut places = Vec::new();
    for layer in layout.linear_weights() {
        let shape = &layout.specs[layer].shape;
        let shape = LayerShape { inputs: shape[1], outputs: shape[0], tokens };
        places.extend(Role::LINEAR.map(|role| (layer, role, shape)));
    }
    let values = value_casts::places(layout, 0..layout.blocks.len(), &Widths::new(config));
    let value = |(layer, role, width)| (layer, role, LayerShape { inputs: width, outputs: width, tokens });
    places.extend(values.into_iter().map(value));
    places
}

/// Refuses roles that the model lacks, and tiles of several lines on a vector.
fn check_roles(
    observe: &ObserveSection,
    places: &[(ParamId, Role, LayerShape)],
) -> Result<(), KeyedDiagnostic> {
    let RolesChoice::These(roles) = &observe.roles else { return Ok(()) };
    for (index, role) in roles.iter().enumerate() {
        let key = format!("observe.roles.{index}");
        let refuse = |message: String, hint: &str| Err((key.clone(), Diagnostic::config(message).hint(hint)));
        if !places.iter().any(|(_, of, _)| of == role) {
            return refuse(format!("the model has no role {}", role.name()), "remove it from observe.roles");
        }
        let block = observe.cast("").cast().block;
        if *role == Role::NormGain && matches!(block, Block::Tile([lines, _]) if lines > 1) {
            let message =
                "`observe.block` is a tile of several lines, but a norm's gain is a vector".to_owned();
            return refuse(message, "remove norm_gain from observe.roles, or set observe.block to a number");
        }
    }
    Ok(())
}

/// Opens a format, and refuses casts that are impossible with it.
fn assumed(
    observe: &ObserveSection,
    (index, name): (usize, &str),
    registry: &Registry,
    device: &ComputeDevice,
) -> Result<Assumed, KeyedDiagnostic> {
    let key = format!("observe.formats.{index}");
    let label = FormatName::new(name).ok_or_else(|| {
        let message =
            format!("the format `{name}` cannot be part of metrics' names: it has a slash, a dot or more than {} bytes", FormatName::MOST);
        (key.clone(), Diagnostic::config(message).hint("remove it from observe.formats"))
    })?;
    let cast = observe.cast(name).cast();
    let has_one_scale = matches!(cast.block, Block::Tensor) || cast.scaling.tensor;
    if observe.cast(name).scaling.amax == AmaxChoice::Static && !has_one_scale {
        let field = "observe.scaling.amax";
        let message = format!("`{field}` = \"static\" needs one scale for the tensor");
        let hint = "blocks take their scales from the current tensor: set amax = \"dynamic\"";
        return Err((field.to_owned(), Diagnostic::config(message).hint(hint)));
    }
    let plugin = Arc::new(FormatPlugin::make(registry, &key, name)?);
    let grid = Grid::new(&plugin.spec, &plugin.conventions)
        .map_err(|error| (key.clone(), plugin.identity.failure(Fault::Plugin, &error)))?;
    cast.check(&grid).map_err(|error| {
        let message = error.to_string();
        let field = message.split('`').nth(1).map(|field| format!("observe.{field}"));
        let hint = error.hint();
        (
            field.unwrap_or_else(|| key.clone()),
            Diagnostic::config(format!("with {name}: {}", message.replacen('`', "`observe.", 1))).hint(hint),
        )
    })?;
    // Kernels multiply by scales.
    casts::check_device(&cast, &plugin, device).map_err(|error| (key.clone(), error))?;
    let format = casts::open(&cast, plugin, device, &casts::modes(&cast).collect::<Vec<_>>());
    Ok(Assumed { name: label, format: format.map_err(|error| (key, error))?, cast })
}

impl Assumed {
    /// The site as it would be if the format rounded there.
    fn site(&self, layer: &str, role: Role, shape: LayerShape, observe: &ObserveSection) -> TensorQuantizer {
        let (group, tile) = casts::groups(self.cast.block, shape.of(role), role);
        let range =
            self.cast.scaling.range(&Range::new(self.format.values(), &self.format.plugin().conventions));
        let scaling = altgrad_casts::Scaling { amax: None, ..self.cast.scaling };
        let rule = ScaleRule { range, scaling, group };
        let scaling = match (self.cast.block, observe.scaling.and_then(|fields| fields.static_amax)) {
            (Block::None, _) => Scaling::None,
            (_, None) => Scaling::Dynamic(rule),
            (_, amax) => Scaling::Static { rule, amax },
        };
        let nearest = Rounding::NEAREST_EVEN;
        let mut site =
            TensorQuantizer::new(layer, role, self.format.clone(), nearest, scaling, SteChoice::Identity);
        site.tile = tile;
        site.arithmetic = casts::arithmetic(&self.cast);
        site
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_that_the_model_lacks_is_refused() {
        let roles = RolesChoice::These(vec![Role::Weight, Role::Logits]);
        let observe = ObserveSection { roles, ..ObserveSection::default() };
        let shape = LayerShape { inputs: 1, outputs: 1, tokens: 1 };
        let error =
            check_roles(&observe, &[(0, Role::Weight, shape)]).map_err(|(key, error)| (key, error.message));
        assert_eq!(error, Err(("observe.roles.1".to_owned(), "the model has no role logits".to_owned())));
        assert!(check_roles(&observe, &[(0, Role::Weight, shape), (0, Role::Logits, shape)]).is_ok());
    }
}

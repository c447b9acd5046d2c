//! The setup's part about rounding: a run file's formats, rules and patterns made into the sites of a model.

use std::{collections::HashMap, sync::Arc};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{
    AmaxChoice, GranularityChoice, LayerRule, PrecisionChoice, QuantSection, RunConfig, ScalingSection,
    StoredScaleChoice,
};
use altgrad_loader::{FormatPlugin, Registry, instance::KeyedDiagnostic, rounding_mode};
use altgrad_plugin_api::Rounding;
use wildmatch::WildMatch;

use crate::{
    device::ComputeDevice,
    model::{Layout, layout::ParamId},
    quant::{DeviceFormat, QuantContext, Role, ScaleChange, ScaleRule, Scaling, Site, end_of_range},
};

/// What a run's rounding is made of.
struct Builder<'a> {
    config: &'a QuantSection,
    registry: &'a Registry,
    device: &'a ComputeDevice,
    layout: &'a Layout,
    /// Formats by name, each opened once.
    formats: HashMap<String, Arc<DeviceFormat>>,
}

/// The rounding of a run.
pub(super) fn quant(
    config: &RunConfig,
    registry: &Registry,
    device: &ComputeDevice,
    layout: &Layout,
) -> Result<QuantContext, KeyedDiagnostic> {
    let mut builder = Builder { config: &config.quant, registry, device, layout, formats: HashMap::new() };
    let layers = builder.layers()?;
    let mut sites = Vec::new();
    for layer in layers {
        for role in Role::ALL {
            if let Some((name, key)) = builder.format_of(layer, role) {
                sites.push((layer, builder.site(layer, role, &name, &key)?));
            }
        }
    }
    builder.check_rules()?;
    let precision = config.train.precision;
    if precision == PrecisionChoice::Bf16 && device.label == "wgpu" {
        let error = Diagnostic::config("device `wgpu` does not compute in bf16");
        return Err(("train.precision".into(), error.hint("use precision = \"fp32\", or another device")));
    }
    let quant = QuantContext::new(sites, config.quant.master_weights, precision, config.run.seed);
    Ok(quant.with_fast_bf16(device.multiplies_bf16_fast()))
}

impl Builder<'_> {
    fn name(&self, layer: ParamId) -> &str {
        &self.layout.specs[layer].name
    }

    /// The layers that nothing excludes.
    fn layers(&self) -> Result<Vec<ParamId>, KeyedDiagnostic> {
        let mut layers = self.layout.linear_weights();
        for (index, pattern) in self.config.exclude.iter().enumerate() {
            self.matches(pattern, &format!("quant.exclude.{index}"))?;
            let matcher = WildMatch::new(pattern);
            layers.retain(|&layer| !matcher.matches(self.name(layer)));
        }
        let blocks = self.layout.blocks.len();
        let kept = self.config.skip_first..blocks.saturating_sub(self.config.skip_last);
        let skipped: Vec<ParamId> = (0..blocks)
            .filter(|block| !kept.contains(block))
            .flat_map(|block| self.layout.blocks[block].linear_weights())
            .collect();
        layers.retain(|layer| !skipped.contains(layer));
        Ok(layers)
    }

    /// Refuses a pattern that matches no layer at all: a typing error.
    fn matches(&self, pattern: &str, key: &str) -> Result<(), KeyedDiagnostic> {
        let all = self.layout.linear_weights();
        let matcher = WildMatch::new(pattern);
        if all.iter().any(|&layer| matcher.matches(self.name(layer))) {
            return Ok(());
        }
        let names: Vec<&str> = all.iter().map(|&layer| self.name(layer)).take(5).collect();
        let message = format!("the pattern `{pattern}` at `{key}` matches no linear layer's weight");
        let hint = format!("they are named like {}", names.join(", "));
        Err((key.to_string(), Diagnostic::config(message).hint(hint)))
    }

    /// The format of a role of a layer and the key that says so.
    fn format_of(&self, layer: ParamId, role: Role) -> Option<(String, String)> {
        let general = match role {
            Role::Weight => &self.config.weight,
            Role::Activation => &self.config.activation,
            Role::Grad => &self.config.grad,
        };
        let mut format = general.as_ref().map(|name| (name.clone(), format!("quant.{}", role.name())));
        for (index, rule) in self.config.layer.iter().enumerate() {
            let own = match role {
                Role::Weight => &rule.weight,
                Role::Activation => &rule.activation,
                Role::Grad => &rule.grad,
            };
            if let Some(name) = own
                && WildMatch::new(&rule.pattern).matches(self.name(layer))
            {
                format = Some((name.clone(), format!("quant.layer.{index}.{}", role.name())));
            }
        }
        format.filter(|(name, _)| name != LayerRule::OFF)
    }

    fn check_rules(&self) -> Result<(), KeyedDiagnostic> {
        let mut rules = self.config.layer.iter().enumerate();
        rules.try_for_each(|(index, rule)| self.matches(&rule.pattern, &format!("quant.layer.{index}.match")))
    }

    fn site(&mut self, layer: ParamId, role: Role, name: &str, key: &str) -> Result<Site, KeyedDiagnostic> {
        let format = self.format(name, key)?;
        let shape = &self.layout.specs[layer].shape;
        // Values are consecutive along the inputs of weights and activations, along the outputs of gradients.
        let width = if role == Role::Grad { shape[0] } else { shape[1] };
        let scaling = match role {
            Role::Weight if self.config.stores_weights() => self.stored_scaling(width, &format),
            _ => self.scaling(width, format.amax_target()),
        };
        Ok(Site::new(self.name(layer), role, format, self.rounding(role), scaling, self.config.ste))
    }

    fn rounding(&self, role: Role) -> Rounding {
        let own = match role {
            Role::Weight => self.config.weight_rounding,
            Role::Activation => self.config.activation_rounding,
            Role::Grad => self.config.grad_rounding,
        };
        rounding_mode(own.unwrap_or(self.config.rounding))
    }

    fn scaling(&self, width: usize, target: f32) -> Scaling {
        let &ScalingSection { granularity, amax, window, static_amax, margin, pow2, .. } =
            &self.config.scaling;
        let rule = ScaleRule { target, margin, pow2, group: self.group(width) };
        match amax {
            _ if granularity == GranularityChoice::None => Scaling::None,
            AmaxChoice::Dynamic => Scaling::Dynamic(rule),
            AmaxChoice::Delayed => Scaling::Delayed { rule, window },
            AmaxChoice::Static => Scaling::Static { rule, amax: static_amax },
        }
    }

    /// The scaling of a weight without master weights.
    fn stored_scaling(&self, width: usize, format: &DeviceFormat) -> Scaling {
        let target = format.amax_target();
        let margin = self.config.stored_scale.margin.unwrap_or(0);
        let rule = ScaleRule { target, margin, pow2: false, group: self.group(width) };
        match self.config.stored_scale.rule {
            _ if self.config.scaling.granularity == GranularityChoice::None => Scaling::None,
            StoredScaleChoice::Dynamic => Scaling::Dynamic(rule),
            StoredScaleChoice::Fixed => Scaling::Stored { rule, change: ScaleChange::Never },
            StoredScaleChoice::PowerOfTwo => {
                let end = end_of_range(format.values()).min(target);
                let rule = ScaleRule { target: end, pow2: true, ..rule };
                Scaling::Stored { rule, change: ScaleChange::Hysteresis }
            }
        }
    }

    /// Elements of a row of `width` that share a scale, if not the whole tensor does.
    fn group(&self, width: usize) -> Option<usize> {
        match self.config.scaling.granularity {
            GranularityChoice::None | GranularityChoice::Tensor => None,
            GranularityChoice::Channel => Some(width),
            GranularityChoice::Block => Some(self.config.scaling.block.min(width)),
        }
    }

    /// The format of that name on the device, opened the first time.
    fn format(&mut self, name: &str, key: &str) -> Result<Arc<DeviceFormat>, KeyedDiagnostic> {
        if let Some(format) = self.formats.get(name) {
            return Ok(format.clone());
        }
        let plugin = Arc::new(FormatPlugin::make(self.registry, key, name)?);
        let mut modes: Vec<Rounding> = Role::ALL.map(|role| self.rounding(role)).to_vec();
        modes.dedup();
        let format =
            DeviceFormat::new(plugin, self.device, &modes).map_err(|error| (key.to_string(), error))?;
        if !format.runs_on_device(self.device) {
            let device = &self.device.label;
            tracing::warn!("format `{name}` has no kernels for {device}: tensors go to main memory and back");
        }
        self.formats.insert(name.to_string(), format.clone());
        Ok(format)
    }
}

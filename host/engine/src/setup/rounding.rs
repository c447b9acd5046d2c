//! The setup of rounding: it makes the sites of a model from a run file's formats, rules and patterns.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
    sync::Arc,
};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_casts::Block;
use altgrad_config::{
    MasterWeightsChoice, PrecisionChoice, QuantSection, RunConfig, StoredScaleChoice,
    cast::{ResolvedCast, UseSourceChoice},
    unrounded_entry,
};
use altgrad_loader::{FormatPlugin, Registry, instance::KeyedDiagnostic};
use altgrad_plugin_api::Rounding;
use wildmatch::WildMatch;

use super::{
    casts::{self, LayerShape},
    crossed_blocks, sums,
    value_casts::{self, ValuePlace, Widths},
    vocabulary_limit,
};
use crate::{
    device::ComputeDevice,
    model::{Layout, layout::ParamId},
    quant::{
        DeviceFormat, LayerId, QuantPlan, Role, ScaleChange, ScaleRule, Scaling, TensorQuantizer, UseSource,
        end_of_range, target_on_grid,
    },
};

/// The name of the language-model head, tied or not.
pub(super) const HEAD: &str = "lm_head.weight";

/// The builder of a run's rounding.
struct Builder<'a> {
    config: &'a QuantSection,
    registry: &'a Registry,
    device: &'a ComputeDevice,
    layout: &'a Layout,
    /// Tokens of a micro-batch of training.
    tokens: usize,
    /// Tokens of a sequence, if the curvature is measured: it has passes of single sequences.
    sequence: Option<usize>,
    plugins: HashMap<String, Arc<FormatPlugin>>,
    /// Formats by name and by whether the CPU rounds for them, each opened once.
    formats: HashMap<(String, bool), Arc<DeviceFormat>>,
    /// All rounding modes of the run.
    modes: Vec<Rounding>,
    sites: Vec<(LayerId, TensorQuantizer)>,
    /// The number of each site among those of the run file without `quant.unrounded`, and their number.
    numbers: Vec<u64>,
    numbered: u64,
    widths: Widths,
    /// Second uses in high precision.
    unrounded: BTreeSet<(LayerId, Role)>,
}

/// The rounding of a run.
pub(super) fn quant(
    config: &RunConfig,
    registry: &Registry,
    device: &ComputeDevice,
    layout: &Layout,
) -> Result<QuantPlan, KeyedDiagnostic> {
    let mut builder = Builder {
        config: &config.quant,
        registry,
        device,
        layout,
        tokens: config.data.batch_size * config.data.block_size,
        sequence: (config.curvature.every > 0).then_some(config.data.block_size),
        plugins: HashMap::new(),
        formats: HashMap::new(),
        modes: Vec::new(),
        sites: Vec::new(),
        numbers: Vec::new(),
        numbered: 0,
        widths: Widths::new(config),
        unrounded: BTreeSet::new(),
    };
    let layers: Vec<_> =
        builder.layers()?.into_iter().map(|layer| (layer, builder.casts_of(layer))).collect();
    builder.modes = modes(layers.iter().flat_map(|(_, casts)| casts));
    let values = builder.values();
    builder.modes.extend(modes(values.iter().map(|place| &place.cast)));
    let shapes = |layer: ParamId| {
        let shape = &layout.specs[layer].shape;
        LayerShape {
            inputs: shape[1],
            outputs: shape[0],
            tokens: config.data.batch_size * config.data.block_size,
        }
    };
    for (layer, casts) in &layers {
        builder.add_layer(*layer, shapes(*layer), casts)?;
    }
    for place in &values {
        builder.add_value(place)?;
    }
    builder.check_rules()?;
    let head = builder.sites.iter().filter(|(layer, _)| *layer == layout.head).map(|(_, site)| site);
    let crossed = crossed_blocks::warning(layers.iter().map(|(_, casts)| casts.as_slice()));
    let vocabulary = vocabulary_limit::warning(head, layout.specs[layout.head].shape[0]);
    for warning in [crossed, vocabulary, builder.main_memory_warning()].into_iter().flatten() {
        tracing::warn!("{warning}");
    }
    let precision = config.train.precision;
    if precision == PrecisionChoice::Bf16 && device.label == "wgpu" {
        let error = Diagnostic::config("device `wgpu` does not compute in bf16");
        return Err(("train.precision".into(), error.hint("use precision = \"fp32\", or another device")));
    }
    let quant = QuantPlan::new(builder.sites, config.quant.master_weights, precision, config.run.seed);
    let quant = quant.with_unrounded(builder.unrounded).with_fast_bf16(device.multiplies_bf16_fast());
    let quant = quant.with_sum(config.quant.limited_sum()).with_numbers(builder.numbers, builder.numbered);
    let layers: Vec<_> = layers.iter().map(|(layer, _)| (*layer, shapes(*layer))).collect();
    sums::check(&quant, device, &layers)?;
    Ok(quant)
}

/// The cast of a use of a layer's tensor.
pub(super) fn cast(config: &QuantSection, layout: &Layout, layer: ParamId, role: Role) -> ResolvedCast {
    config.cast(role, |rule| is_match(layout, &rule.pattern, layer, role))
}

/// True if a pattern matches the name of a layer in a role. A head that is tied to the embedding also has its own name,
/// which is not that of the embedding.
fn is_match(layout: &Layout, pattern: &str, layer: ParamId, role: Role) -> bool {
    let matcher = WildMatch::new(pattern);
    let is_head = layer == layout.head && role != Role::Embedding;
    matcher.matches(&layout.specs[layer].name) || is_head && matcher.matches(HEAD)
}

/// The rounding modes of all casts that round.
fn modes<'a>(casts: impl Iterator<Item = &'a (Role, ResolvedCast)>) -> Vec<Rounding> {
    let mut modes = Vec::new();
    for (_, resolved) in casts.filter(|(_, resolved)| resolved.format().is_some()) {
        for mode in casts::modes(&resolved.cast()) {
            if !modes.contains(&mode) {
                modes.push(mode);
            }
        }
    }
    modes
}

impl Builder<'_> {
    fn name(&self, layer: ParamId) -> &str {
        &self.layout.specs[layer].name
    }

    /// The layers that are not excluded.
    fn layers(&self) -> Result<Vec<ParamId>, KeyedDiagnostic> {
        let mut layers = self.layout.linear_weights();
        for (index, pattern) in self.config.exclude.iter().enumerate() {
            self.matches(pattern, &format!("quant.exclude.{index}"))?;
            layers.retain(|&layer| !is_match(self.layout, pattern, layer, Role::Weight));
        }
        let kept = self.kept_blocks();
        let skipped: Vec<ParamId> = (0..self.layout.blocks.len())
            .filter(|block| !kept.contains(block))
            .flat_map(|block| self.layout.blocks[block].linear_weights())
            .collect();
        layers.retain(|layer| !skipped.contains(layer));
        Ok(layers)
    }

    /// The blocks that are not skipped.
    fn kept_blocks(&self) -> Range<usize> {
        let blocks = self.layout.blocks.len();
        self.config.skip_first.of(blocks)..blocks.saturating_sub(self.config.skip_last.of(blocks))
    }

    /// The casts of all uses of a layer's tensors.
    fn casts_of(&self, layer: ParamId) -> Vec<(Role, ResolvedCast)> {
        Role::LINEAR.map(|role| (role, cast(self.config, self.layout, layer, role))).into()
    }

    /// Adds the sites of a layer.
    fn add_layer(
        &mut self,
        layer: ParamId,
        shape: LayerShape,
        casts: &casts::LayerCasts,
    ) -> Result<(), KeyedDiagnostic> {
        let left: Vec<_> = casts.iter().map(|(role, cast)| (*role, self.left(layer, *role, cast))).collect();
        casts::check_sources(&left)?;
        let name = self.name(layer);
        self.in_all_passes(shape, |shape| casts::check_transforms(name, &left, shape))?;
        for ((role, resolved), (_, given)) in left.iter().zip(casts) {
            let is_second = role.first_use().is_some();
            let reuses = |cast: &ResolvedCast| is_second && cast.source() == UseSourceChoice::Reuse;
            let has_site = |cast: &ResolvedCast| cast.format().is_some() && !reuses(cast);
            if has_site(given) && !has_site(resolved) {
                self.numbered += 1;
            }
            if reuses(resolved) {
                continue;
            }
            let first = left.iter().find(|(of, _)| Some(*of) == role.first_use());
            let has_rounded_first = first.is_some_and(|(_, first)| first.format().is_some());
            match resolved.format() {
                Some(format) => {
                    let site = self.site(layer, *role, format, resolved, shape)?;
                    self.add(layer, site);
                }
                None if has_rounded_first => {
                    self.unrounded.insert((layer, *role));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Numbers and adds a site.
    fn add(&mut self, layer: ParamId, site: TensorQuantizer) {
        self.sites.push((layer, site));
        self.numbers.push(self.numbered);
        self.numbered += 1;
    }

    /// The cast without its format if `quant.unrounded` leaves it out.
    fn left(&self, layer: ParamId, role: Role, cast: &ResolvedCast) -> ResolvedCast {
        let mut cast = cast.clone();
        if self.config.is_unrounded(role, |pattern| is_match(self.layout, pattern, layer, role)) {
            cast.fields.format = None;
        }
        cast
    }

    /// Checks the casts of a layer at its shape in a batch and, if the curvature is measured, at its shape in a single
    /// sequence.
    fn in_all_passes(
        &self,
        shape: LayerShape,
        check: impl Fn(LayerShape) -> Result<(), KeyedDiagnostic>,
    ) -> Result<(), KeyedDiagnostic> {
        check(shape)?;
        let Some(tokens) = self.sequence else { return Ok(()) };
        check(LayerShape { tokens, ..shape }).map_err(|(key, error)| {
            let hint =
                "the curvature is measured on single sequences: choose a size that divides `data.block_size`";
            (key, Diagnostic { hint: Some(hint.into()), ..error })
        })
    }

    /// Refuses a pattern that matches no layer at all: a typing error.
    fn matches(&self, pattern: &str, key: &str) -> Result<(), KeyedDiagnostic> {
        let all = self.layout.linear_weights();
        if all.iter().any(|&layer| is_match(self.layout, pattern, layer, Role::Weight)) {
            return Ok(());
        }
        let names: Vec<&str> = all.iter().map(|&layer| self.name(layer)).take(5).collect();
        let message = format!("the pattern `{pattern}` at `{key}` matches no linear layer's weight");
        let hint = format!("names in this model: {}; `*` matches any characters", names.join(", "));
        Err((key.to_string(), Diagnostic::config(message).hint(hint)))
    }

    fn check_rules(&self) -> Result<(), KeyedDiagnostic> {
        let mut rules = self.config.layer.iter().enumerate();
        rules.try_for_each(|(index, rule)| {
            self.matches(&rule.pattern, &format!("quant.layer.{index}.match"))
        })?;
        // Norms and the embedding have casts too.
        let names = |pattern: &WildMatch| {
            pattern.matches(HEAD) || self.layout.specs.iter().any(|spec| pattern.matches(&spec.name))
        };
        let mut entries = self.config.unrounded.iter().enumerate();
        entries.try_for_each(|(index, entry)| match unrounded_entry(entry) {
            Some((_, pattern)) if !names(&WildMatch::new(pattern)) => {
                self.matches(pattern, &format!("quant.unrounded.{index}"))
            }
            _ => Ok(()),
        })
    }

    /// The casts of tensors outside of linear layers that have a format.
    fn values(&self) -> Vec<ValuePlace> {
        let all = value_casts::places(self.layout, self.kept_blocks(), &self.widths);
        let excluded = |layer, role| {
            self.config.exclude.iter().any(|pattern| is_match(self.layout, pattern, layer, role))
        };
        let kept = all.into_iter().filter(|(layer, role, _)| !excluded(*layer, *role));
        let places = kept.map(|(layer, role, width)| {
            let cast = cast(self.config, self.layout, layer, role);
            ValuePlace { layer, cast: (role, cast), width }
        });
        places.filter(|place| place.cast.1.format().is_some()).collect()
    }

    /// Adds a site outside of linear layers.
    fn add_value(&mut self, place: &ValuePlace) -> Result<(), KeyedDiagnostic> {
        let ValuePlace { layer, cast: (role, resolved), width } = place;
        value_casts::check(*role, resolved)?;
        let left = self.left(*layer, *role, resolved);
        let Some(format) = left.format() else {
            self.numbered += 1;
            return Ok(());
        };
        let shape = LayerShape { inputs: *width, outputs: *width, tokens: self.tokens };
        let site = self.site(*layer, *role, format, resolved, shape)?;
        self.add(*layer, site);
        Ok(())
    }

    fn site(
        &mut self,
        layer: ParamId,
        role: Role,
        name: &str,
        resolved: &ResolvedCast,
        shape: LayerShape,
    ) -> Result<TensorQuantizer, KeyedDiagnostic> {
        let is_stored = role == Role::Weight && self.config.master_weights == MasterWeightsChoice::None;
        let mut cast = resolved.cast();
        if is_stored {
            refuse_stored(resolved, &cast)?;
            self.check_truncation(self.name(layer), &cast)?;
            // `quant.stored_scale` has the rule of their scales.
            let altgrad_casts::Scaling { quantize, dequantize, .. } = cast.scaling;
            cast.scaling = altgrad_casts::Scaling { quantize, dequantize, ..Default::default() };
        }
        let arithmetic = casts::arithmetic(&cast);
        let format = self.format(name, &resolved.key, &cast)?;
        if is_stored && format.plugin().conventions.has_own_blocks() {
            let message = format!(
                "`{name}` chooses tables or magnitudes of blocks: it is not for weights without master weights"
            );
            let error = Diagnostic::config(message).hint("set quant.master_weights = \"fp32\"");
            return Err((resolved.key.clone(), error));
        }
        casts::check_device(&cast, format.plugin(), self.device)
            .map_err(|error| (resolved.key.clone(), error))?;
        let center = casts::center(resolved, &cast, role)?;
        casts::check_fields(resolved, &cast, &format)?;
        let (group, tile) = casts::groups(cast.block, shape.of(role), role);
        casts::check_extents(resolved, &cast, format.plugin(), group, role)?;
        if let Some(block) = tile.or(group.map(|group| [1, group])) {
            let check = |shape: LayerShape| {
                casts::check_blocks(resolved, &cast, format.values(), block, shape.of(role))
            };
            self.in_all_passes(shape, check)?;
        }
        let scaling = if is_stored {
            self.stored_scaling(&cast, group, &format)
        } else {
            casts::scaling(resolved, &cast, &format, group)?
        };
        let (rounding, _) = casts::mode(cast.rounding);
        let mut site = TensorQuantizer::new(
            self.name(layer),
            role,
            format,
            rounding,
            scaling,
            resolved.fields.ste.unwrap_or(self.config.ste),
        );
        site.block = Some(cast.block);
        site.tile = tile;
        site.transform = cast.transform;
        site.center = center;
        site.arithmetic = arithmetic;
        site.source = match resolved.source() {
            UseSourceChoice::Dequantized => UseSource::Dequantized,
            UseSourceChoice::HighPrecision | UseSourceChoice::Reuse => UseSource::HighPrecision,
        };
        Ok(site)
    }

    /// Refuses to truncate a weight without master weights at scales that are no powers of two: scaling a value of the
    /// grid may give the number below its code, so that every update would remove a code.
    fn check_truncation(&self, name: &str, cast: &altgrad_casts::Cast) -> Result<(), KeyedDiagnostic> {
        let rule = self.config.stored_scale.rule;
        let is_exact = cast.block == Block::None || rule == StoredScaleChoice::PowerOfTwo;
        if is_exact || casts::mode(cast.rounding).0 != Rounding::TOWARD_ZERO {
            return Ok(());
        }
        let key = "quant.stored_scale.rule";
        let message = format!("`{key}` = \"{rule}\" excludes the rounding toward zero of `{name}`");
        let hint = "set rule = \"power_of_two\", or another rounding: at other scales truncation would remove a code at every update";
        Err((key.into(), Diagnostic::config(message).hint(hint)))
    }

    /// The scaling of a weight without master weights.
    fn stored_scaling(
        &self,
        cast: &altgrad_casts::Cast,
        group: Option<usize>,
        format: &DeviceFormat,
    ) -> Scaling {
        let target = format.amax_target();
        let margin = self.config.stored_scale.margin.unwrap_or(0);
        let rule_to =
            |target, pow2| ScaleRule::max(target, margin, pow2, group).of_largest(format.max_finite());
        match self.config.stored_scale.rule {
            _ if cast.block == Block::None => Scaling::None,
            StoredScaleChoice::Dynamic => {
                Scaling::Dynamic(rule_to(target_on_grid(format.values(), target, margin), false))
            }
            StoredScaleChoice::Fixed => {
                Scaling::Stored { rule: rule_to(target, false), change: ScaleChange::Never }
            }
            StoredScaleChoice::PowerOfTwo => {
                let end = end_of_range(format.values()).min(target);
                Scaling::Stored { rule: rule_to(end, true), change: ScaleChange::Hysteresis }
            }
        }
    }

    /// The warning, if a GPU computes parts of casts in main memory: one for all of them.
    fn main_memory_warning(&self) -> Option<String> {
        let sites = self.sites.iter().map(|(_, site)| site);
        let found: Vec<&TensorQuantizer> = sites.filter(|site| !site.runs_on(self.device)).collect();
        let (first, count, device) = (found.first()?, found.len(), &self.device.label);
        Some(format!(
            "{count} casts go to main memory and back, first the {} of `{}`: {device} does not compute them",
            first.role.plural(),
            first.layer,
        ))
    }

    /// The format of that name on the device for a cast, opened the first time.
    fn format(
        &mut self,
        name: &str,
        key: &str,
        cast: &altgrad_casts::Cast,
    ) -> Result<Arc<DeviceFormat>, KeyedDiagnostic> {
        let at_key = |error| (key.to_string(), error);
        let plugin = match self.plugins.get(name) {
            Some(plugin) => plugin.clone(),
            None => Arc::new(FormatPlugin::make(self.registry, key, name)?),
        };
        self.plugins.insert(name.to_string(), plugin.clone());
        let on_host = casts::is_on_host(cast, &plugin).map_err(at_key)?;
        let id = (name.to_string(), on_host && !self.device.is_cpu());
        if let Some(format) = self.formats.get(&id) {
            return Ok(format.clone());
        }
        let format = casts::open(cast, plugin, self.device, &self.modes).map_err(at_key)?;
        if !on_host && !format.runs_on_device(self.device) {
            let device = &self.device.label;
            tracing::warn!("format `{name}` has no kernels for {device}: tensors go to main memory and back");
        }
        self.formats.insert(id, format.clone());
        Ok(format)
    }
}

/// Refuses casts that are impossible for a weight without master weights: its values are those of its grid.
fn refuse_stored(resolved: &ResolvedCast, cast: &altgrad_casts::Cast) -> Result<(), KeyedDiagnostic> {
    // A field, whether it is impossible, and what weights can have instead where other tensors have it.
    let refused = [
        ("transform", cast.transform.is_some(), "none"),
        ("rounding", casts::mode(cast.rounding).1.is_some(), "nearest-even"),
        ("overflow", cast.overflow != altgrad_casts::Overflow::Saturate, "saturate"),
        ("scaling.type", cast.scaling.storage != altgrad_casts::Storage::F32, "f32"),
    ];
    refused.into_iter().find(|(_, is, _)| *is).map_or(Ok(()), |(field, _, other)| {
        let key = resolved.key_of(field);
        let message = format!("`{key}` is not for weights without master weights");
        let hint = format!("set quant.master_weights = \"fp32\", or quant.cast.weight.{field} = \"{other}\"");
        Err((key, Diagnostic::config(message).hint(hint)))
    })
}

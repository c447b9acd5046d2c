//! The casts of a model's linear layers in words and numbers, for `run.json` and for readers.

use altgrad_casts::{
    Block, ErrorNorm, FewBitsMode, Limit, NonFinite, Operation, Order, Rounding, Rule, ScaleRounding, Signs,
    Storage, ZeroBlock,
};
use altgrad_config::PrecisionChoice;
use altgrad_loader::rounding_name;
use serde_json::{Map, Value, json};

use crate::{
    device::ComputeDevice,
    model::{Layout, layout::ParamId},
    quant::{DeviceFormat, QuantPlan, Role, ScaleChange, ScaleRule, Scaling, TensorQuantizer, UseSource},
};

/// Type of everything that no format rounds: burn's tensors, and the optimizers' buffers.
pub(super) const TYPE: &str = "f32";

/// The casts of the operands of linear layers. Layers that are alike share an entry: their names as `layers`, and a
/// cast by role. First uses are always there; second uses and the weight's gradient where they have a cast of their own
/// or none.
#[must_use]
pub fn linear_layers(quant: &QuantPlan, layout: &Layout, device: &ComputeDevice) -> Vec<Value> {
    let mut kinds: Vec<(Map<String, Value>, Vec<&str>)> = Vec::new();
    for layer in layout.linear_weights() {
        let spec = &layout.specs[layer];
        let roles = Role::LINEAR.into_iter().filter_map(|role| {
            let said = said(quant, (layer, &spec.shape), role, device);
            let is_first = Role::FIRST_USES.contains(&role);
            said.or(is_first.then(|| json!(unrounded(quant)))).map(|said| (role.name().to_string(), said))
        });
        let roles: Map<String, Value> = roles.collect();
        match kinds.iter_mut().find(|(kind, _)| *kind == roles) {
            Some((_, layers)) => layers.push(&spec.name),
            None => kinds.push((roles, vec![&spec.name])),
        }
    }
    let entry = |(mut roles, layers): (Map<String, Value>, Vec<&str>)| {
        roles.insert("layers".into(), json!(layers));
        Value::Object(roles)
    };
    kinds.into_iter().map(entry).collect()
}

/// The cast of a use of a layer's tensor; `None` if it has no cast of its own. `shape` is the weight's, `[out, in]`.
fn said(
    quant: &QuantPlan,
    (layer, shape): (ParamId, &[usize]),
    role: Role,
    device: &ComputeDevice,
) -> Option<Value> {
    let Some(site) = quant.site_of(layer, role) else {
        return quant.is_unrounded(layer, role).then(|| json!(unrounded(quant)));
    };
    let row = match role {
        Role::Weight | Role::Activation | Role::WeightGrad => Some(shape[1]),
        Role::Grad | Role::WeightDgrad => Some(shape[0]),
        // As many as there are tokens.
        _ => None,
    };
    let mut said = json!({
        "format": site.format.plugin().identity.name,
        "bits": site.format.values().codes().ilog2(),
        "bits_per_value": bits_per_value(site, row),
        "rounding": rounding_name(site.rounding),
        "scaling": scaling(site),
        "rounded_by": rounded_by(&site.format, device),
    });
    match site.arithmetic.own {
        Some(Rounding::FewBits(few)) => {
            let mode = match few.mode {
                FewBitsMode::A => "a",
                FewBitsMode::B => "b",
                FewBitsMode::C => "c",
                FewBitsMode::Odd => "odd",
            };
            said["rounding"] = json!("stochastic");
            said["random_bits"] = json!(few.bits);
            said["random_mode"] = json!(mode);
        }
        Some(ties) => {
            said["rounding"] = json!(if ties == Rounding::NearestUp { "nearest-up" } else { "nearest-zero" });
        }
        None => {}
    }
    if site.arithmetic.overflow.is_some() {
        said["overflow"] = json!("nonfinite");
    }
    if [Role::Weight, Role::Activation].contains(&role) {
        said["ste"] = json!(site.ste.name());
    }
    if role.first_use().is_some() {
        said["of"] = json!(match site.source {
            UseSource::HighPrecision => "the tensor in high precision",
            UseSource::Dequantized => "the rounded values of the first product",
        });
    }
    if site.center.is_some() {
        said["center"] = json!("tokens");
    }
    if let Some(hadamard) = site.transform {
        let signs = match hadamard.signs {
            Signs::None => "none",
            Signs::Te => "te",
            Signs::Seed => "seed",
        };
        let to = if hadamard.to_bf16 { "bf16" } else { "f32" };
        said["transform"] = json!({ "hadamard": hadamard.size, "signs": signs, "to": to });
    }
    Some(said)
}

/// The type of an operand that no format rounds.
fn unrounded(quant: &QuantPlan) -> &'static str {
    match quant.precision() {
        PrecisionChoice::Fp32 => TYPE,
        PrecisionChoice::Bf16 => "bf16",
    }
}

/// The bits of a code and its share of the bits of the scales, to four digits. One scale of a whole tensor does not
/// count. `row`: elements of a row, if known; its last block may be shorter.
fn bits_per_value(site: &TensorQuantizer, row: Option<usize>) -> f64 {
    let rule = match &site.scaling {
        Scaling::None => None,
        Scaling::Dynamic(rule)
        | Scaling::Delayed { rule, .. }
        | Scaling::Static { rule, .. }
        | Scaling::Stored { rule, .. } => Some(rule),
    };
    let of_scale = rule.and_then(|rule| {
        let bits = match rule.scaling.storage {
            Storage::F32 => 32.0,
            Storage::E8m0 | Storage::E4m3 | Storage::Minifloat(_) => 8.0,
        };
        let [lines, along] = site.tile.unwrap_or([1, rule.group?]);
        let row = row.unwrap_or(along);
        let of_outer = rule.scaling.outer.map_or(0.0, |outer| 32.0 * row.div_ceil(outer) as f64 / row as f64);
        Some(bits * row.div_ceil(along) as f64 / (row * lines) as f64 + of_outer)
    });
    let of_factors = rule.map_or(0.0, |rule| rule.scaling.microexponents.bits_per_element());
    let bits = f64::from(site.format.values().codes().ilog2()) + of_scale.unwrap_or_default() + of_factors;
    (bits * 1e4).round() / 1e4
}

fn scaling(site: &TensorQuantizer) -> Value {
    let with = |rule: &ScaleRule, amax: Value| {
        // As the key `block` of a run file has it.
        let block = match (site.block, site.tile, rule.group) {
            (Some(Block::Row), ..) => json!("row"),
            (Some(Block::Along(elements)), ..) | (_, None, Some(elements)) => json!(elements),
            (Some(Block::Tile(tile)), ..) | (_, Some(tile), _) => json!(tile),
            (_, None, None) => json!("tensor"),
        };
        let scaling = &rule.scaling;
        let mut said = json!({
            "block": block, "amax": amax, "margin": scaling.margin, "pow2": scaling.pow2
        });
        for (key, value) in unusual(scaling) {
            said[key] = value;
        }
        said
    };
    match &site.scaling {
        Scaling::None => json!("none"),
        Scaling::Dynamic(rule) => with(rule, json!("dynamic")),
        Scaling::Delayed { rule, window, start } => {
            let mut said = with(rule, json!(format!("delayed, {window} steps")));
            if start.first_is_one {
                said["first"] = json!("one");
            }
            if start.keeps_over_zeros {
                said["zero"] = json!("keep");
            }
            said
        }
        Scaling::Static { rule, amax: Some(amax) } => with(rule, json!(amax)),
        Scaling::Static { rule, amax: None } => with(rule, json!("the first step's")),
        Scaling::Stored { rule, change: ScaleChange::Never } => with(rule, json!("the initial weights'")),
        Scaling::Stored { rule, change: ScaleChange::Hysteresis } => {
            with(rule, json!("of the update that last set the scale"))
        }
    }
}

/// The keys of a scaling that differ from their defaults, in the form of a run file.
fn unusual(scaling: &altgrad_casts::Scaling) -> Vec<(&'static str, Value)> {
    let rule = match scaling.rule {
        Rule::Max => None,
        Rule::Floor => Some("floor"),
        Rule::Ceil => Some("ceil"),
        Rule::Even => Some("even"),
        Rule::Rceil => Some("rceil"),
        Rule::Rms { .. } => Some("rms"),
    };
    let storage = match scaling.storage {
        Storage::F32 => None,
        Storage::E8m0 => Some("e8m0".to_owned()),
        Storage::E4m3 => Some("e4m3".to_owned()),
        Storage::Minifloat(own) => Some(own.to_string()),
    };
    let order = match scaling.order {
        Order::Encode => None,
        Order::Decode => Some("decode"),
        Order::Amax => Some("amax"),
        Order::Product => Some("product"),
        Order::DecodeMost => Some("decode-most"),
        Order::DecodeTensor => Some("decode-tensor"),
        Order::DecodeTarget => Some("decode-target"),
    };
    let zero = match (scaling.zero, scaling.storage) {
        (ZeroBlock::One, Storage::E8m0) => Some("one"),
        (ZeroBlock::Smallest, Storage::F32) => Some("smallest"),
        (ZeroBlock::MinNormal, _) => Some("normal"),
        (ZeroBlock::StoredOne, _) => Some("stored-one"),
        (ZeroBlock::StoredSmallest, _) => Some("stored-smallest"),
        _ => None,
    };
    let choice = scaling.choice.map(|choice| match choice.norm {
        ErrorNorm::Squares => "mse",
        ErrorNorm::Magnitudes => "mae",
        ErrorNorm::Largest => "max",
    });
    let round = match scaling.round {
        ScaleRounding::Nearest => None,
        ScaleRounding::Up => Some("up"),
        ScaleRounding::Stochastic => Some("stochastic"),
    };
    let applied = |operation: Operation| match operation {
        Operation::Multiply => None,
        Operation::Divide => Some("divide"),
        Operation::Nested => Some("nested"),
    };
    let tensor = if scaling.to_bf16 { "bf16" } else { "f32" };
    let texts = [
        ("rule", rule),
        ("order", order),
        ("round", round),
        ("choice", choice),
        ("tensor", scaling.tensor.then_some(tensor)),
        ("limit", (scaling.limit == Limit::F32).then_some("f32")),
        ("zero", zero),
        ("nonfinite", (scaling.nonfinite == NonFinite::Poison).then_some("poison")),
        ("arithmetic", scaling.in_bf16.then_some("bf16")),
        ("quantize", applied(scaling.quantize)),
        ("dequantize", applied(scaling.dequantize)),
    ];
    let texts = texts.into_iter().filter_map(|(key, text)| Some((key, json!(text?))));
    let floor = (scaling.floor != 0.0).then(|| ("floor", json!(scaling.floor)));
    let storage = storage.map(|storage| ("type", json!(storage)));
    let targets = [("tensor_target", scaling.most), ("target", scaling.target)];
    let extents = [("outer", scaling.outer), ("correction", scaling.correction)];
    let targets = targets.into_iter().filter_map(|(key, target)| Some((key, json!(target?))));
    let extents = extents.into_iter().filter_map(|(key, extent)| Some((key, json!(extent?))));
    let candidates = scaling.choice.map(|choice| {
        let factors = choice.factors.into_iter().filter(|factor| *factor > 0.0);
        ("candidates", json!(factors.collect::<Vec<f32>>()))
    });
    let sizes: Vec<usize> = scaling.microexponents.sizes().collect();
    let micro = (!sizes.is_empty()).then(|| ("microexponents", json!(sizes)));
    let factor = (scaling.factor != 1.0).then(|| ("factor", json!(scaling.factor)));
    let numbers =
        floor.into_iter().chain(factor).chain(targets).chain(candidates).chain(extents).chain(micro);
    storage.into_iter().chain(texts).chain(numbers).collect()
}

fn rounded_by(format: &DeviceFormat, device: &ComputeDevice) -> &'static str {
    match (device.label.as_str(), format.runs_on_device(device)) {
        ("cpu", _) => "the format's CPU function",
        (_, true) => "the format's kernels",
        (_, false) => "the format's CPU function, through main memory",
    }
}

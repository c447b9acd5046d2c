//! What a run computes in what: the table of `run.json` that says which numbers are exact, rounded, or in f32.
//!
//! Made from the state's sites, not from the run file, so that it says what happens and not what was asked for.

use std::collections::BTreeMap;

use altgrad_config::{MasterWeightsChoice, PrecisionChoice, RunConfig};
use altgrad_loader::rounding_name;
use serde_json::{Map, Value, json};

use crate::{
    device::ComputeDevice,
    quant::{DeviceFormat, Role, ScaleChange, ScaleRule, Scaling},
    state::TrainState,
};

/// Type of everything that no format rounds: burn's tensors, and the optimizers' buffers.
const TYPE: &str = "f32";

/// The table. Linear layers that are alike share an entry.
pub(super) fn table(config: &RunConfig, device: &ComputeDevice, state: &TrainState) -> Value {
    Table { config, device, state }.to_json()
}

/// What the table is made from.
struct Table<'a> {
    config: &'a RunConfig,
    device: &'a ComputeDevice,
    state: &'a TrainState,
}

impl Table<'_> {
    fn to_json(&self) -> Value {
        let shadow = (self.config.shadow.every > 0).then_some(TYPE);
        json!({
            "device": self.device.label,
            "linear_layers": self.linear_layers(),
            "matrix_products": self.matrix_products(),
            "embeddings": TYPE,
            "layer_norms": TYPE,
            "attention_scores": TYPE,
            "softmax": TYPE,
            "loss": TYPE,
            "parameter_gradients": TYPE,
            "master_weights": match self.state.quant.master_weights() {
                MasterWeightsChoice::Fp32 => TYPE,
                MasterWeightsChoice::None => "none: weights with a format lie on its grid, the others are f32",
            },
            "optimizer": { "states": self.states(), "updates": TYPE, "parameters_updated_by": self.updates(), "rules": self.rules() },
            "shadow_gradients": shadow,
        })
    }

    /// How many parameters are updated by what.
    fn updates(&self) -> Value {
        let mut counts = BTreeMap::new();
        for id in 0..self.state.params.layout.specs.len() {
            *counts.entry(self.state.optimizer.updated_by(id)).or_insert(0) += 1;
        }
        json!(counts)
    }

    /// How each state is stored, and its bytes.
    fn states(&self) -> Value {
        let stored = self.state.optimizer.storage().into_iter();
        stored.map(|(name, (stored, bytes))| (name, json!({ "stored_as": stored, "bytes": bytes }))).collect()
    }

    /// The parameters that each rule of the optimizer updates, by rule.
    fn rules(&self) -> Value {
        let mut rules: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (id, spec) in self.state.params.layout.specs.iter().enumerate() {
            let rule = match self.state.optimizer.rule(id) {
                "" => &self.state.optimizer.identity().name,
                rule => rule,
            };
            rules.entry(rule).or_default().push(&spec.name);
        }
        json!(rules)
    }

    /// Operands and sums of the matrix products, the linear layers' and the attention's.
    fn matrix_products(&self) -> Value {
        // On CUDA the tensor library chooses the fastest kernel by trying, and tensor cores round f32 operands to tf32.
        let f32_products =
            if self.device.label.starts_with("cuda") { "f32 or tf32, as autotuned" } else { TYPE };
        let quant = &self.state.quant;
        let unrounded = match quant.precision() {
            PrecisionChoice::Fp32 => f32_products.to_string(),
            PrecisionChoice::Bf16 => format!("rounded to bf16; attention multiplies them as {f32_products}"),
        };
        let exact = if self.device.multiplies_bf16_fast() {
            format!("bf16 where both are exact in it up to one scale each, else {f32_products}")
        } else {
            f32_products.to_string()
        };
        json!({
            "operands_without_format": unrounded,
            "linear_layers_multiply_as": exact,
            "accumulator": TYPE,
        })
    }

    fn linear_layers(&self) -> Vec<Value> {
        let layout = &self.state.params.layout;
        let mut kinds: Vec<(Map<String, Value>, Vec<&str>)> = Vec::new();
        for layer in layout.linear_weights() {
            let spec = &layout.specs[layer];
            let roles: Map<String, Value> = Role::ALL
                .map(|role| (role.name().to_string(), self.role(&spec.name, &spec.shape, role)))
                .into_iter()
                .collect();
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

    /// What becomes of a layer's weight, input or output gradient; `shape` is the weight's, `[out, in]`.
    fn role(&self, layer: &str, shape: &[usize], role: Role) -> Value {
        let sites = self.state.quant.sites();
        let Some(site) = sites.iter().find(|site| site.layer == layer && site.role == role) else {
            return json!(TYPE);
        };
        let row = if role == Role::Grad { shape[0] } else { shape[1] };
        let mut said = json!({
            "format": site.format.plugin().identity.name,
            "bits": site.format.values().codes().ilog2(),
            "rounding": rounding_name(site.rounding),
            "scaling": scaling(&site.scaling, row),
            "rounded_by": rounded_by(&site.format, self.device),
        });
        if role != Role::Grad {
            said["ste"] = json!(site.ste.name());
        }
        said
    }
}

/// `row`: consecutive values of a row of the tensor.
fn scaling(scaling: &Scaling, row: usize) -> Value {
    let with = |rule: &ScaleRule, amax: Value| {
        let granularity = match rule.group {
            None => "tensor".to_string(),
            Some(group) if group == row => "channel".to_string(),
            Some(group) => format!("block of {group}"),
        };
        json!({ "granularity": granularity, "amax": amax, "margin": rule.scaling.margin, "pow2": rule.scaling.pow2 })
    };
    match scaling {
        Scaling::None => json!("none"),
        Scaling::Dynamic(rule) => with(rule, json!("dynamic")),
        Scaling::Delayed { rule, window, .. } => with(rule, json!(format!("delayed, {window} steps"))),
        Scaling::Static { rule, amax: Some(amax) } => with(rule, json!(amax)),
        Scaling::Static { rule, amax: None } => with(rule, json!("the first step's")),
        Scaling::Stored { rule, change: ScaleChange::Never } => with(rule, json!("the initial weights'")),
        Scaling::Stored { rule, change: ScaleChange::Hysteresis } => {
            with(rule, json!("of the update that last set the scale"))
        }
    }
}

fn rounded_by(format: &DeviceFormat, device: &ComputeDevice) -> &'static str {
    match (device.label.as_str(), format.runs_on_device(device)) {
        ("cpu", _) => "the format's CPU function",
        (_, true) => "the format's kernels",
        (_, false) => "the format's CPU function, through main memory",
    }
}

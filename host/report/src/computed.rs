//! The casts of linear layers, as a run records them in `run.json` under `computed.linear_layers`.
//!
//! Files of versions that do not record them give nothing.

use altgrad_metrics::Role;
use serde_json::Value;

/// Linear layers whose operands have the same formats.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayerKind {
    /// Their names.
    pub layers: Vec<String>,
    /// The formats of weight, activation and gradient; `None` for an operand that no format rounds.
    pub formats: [Option<String>; 3],
}

/// The kinds of linear layers.
pub(super) fn kinds(status: &Value) -> Vec<LayerKind> {
    let kind = |entry: &Value| {
        let names = entry.get("layers").and_then(Value::as_array).into_iter().flatten();
        let format = |role: Role| Some(entry.get(role.name())?.get("format")?.as_str()?.to_string());
        LayerKind {
            layers: names.filter_map(Value::as_str).map(str::to_string).collect(),
            formats: Role::FIRST_USES.map(format),
        }
    };
    entries(status).map(|entries| entries.iter().map(kind).collect()).unwrap_or_default()
}

/// The bits per value of the first uses, `weight/activation/gradient`, of each kind of linear layer. `None` for files without them.
pub(super) fn bits(status: &Value) -> Option<String> {
    let others = status.get("computed")?.get("matrix_products")?.get("operands_without_format")?.as_str()?;
    let unrounded = if others.starts_with("rounded to bf16") { "16" } else { "32" };
    let mut kinds: Vec<String> = Vec::new();
    for layer in entries(status)? {
        let of = |role: &str| match layer.get(role)? {
            Value::String(_) => Some(unrounded.to_string()),
            cast => cast.get("bits_per_value")?.as_f64().map(|bits| bits.to_string()),
        };
        let kind = Role::FIRST_USES.map(|role| of(role.name())).into_iter().collect::<Option<Vec<_>>>()?;
        let kind = kind.join("/");
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    (!kinds.is_empty()).then(|| kinds.join(", "))
}

fn entries(status: &Value) -> Option<&Vec<Value>> {
    status.get("computed")?.get("linear_layers")?.as_array()
}

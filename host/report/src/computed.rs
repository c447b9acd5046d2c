//! The casts of linear layers, as a run records them in `run.json` under `computed.linear_layers`.
//!
//! Files of versions that do not record them give nothing.

use altgrad_metrics::Role;
use serde_json::Value;

use super::run_file::RunFile;

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

/// The formats of `[quant]` that round no linear layer: every one is excluded, skipped or switched off. None of a run
/// whose casts change, because `run.json` has those of its beginning.
pub(super) fn without_effect(config: &RunFile, kinds: &[LayerKind]) -> Vec<String> {
    let is_scheduled = config.differences().any(|(key, _)| key.starts_with("quant.schedule."));
    if kinds.is_empty() || is_scheduled {
        return Vec::new();
    }
    let idle = Role::FIRST_USES.into_iter().enumerate().filter_map(|(index, role)| {
        let key = format!("quant.{}", role.name());
        let format = config.get(&key).filter(|format| *format != "none")?;
        let is_idle = kinds.iter().all(|kind| kind.formats[index].is_none());
        is_idle.then(|| format!("`{key}` has no effect: no linear layer is rounded to {format}"))
    });
    idle.collect()
}

/// The bits per value of the first uses, `weight/activation/gradient`, of each kind of linear layer. `None` for files
/// without them.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_that_rounds_no_layer_is_named() {
        let kind = |weight: Option<&str>| LayerKind {
            layers: vec!["h.0".into()],
            formats: [weight.map(str::to_string), None, Some("E5M2".into())],
        };
        let config = |more: &str| {
            let text = format!("[quant]\nweight = \"E4M3\"\nactivation = \"none\"\ngrad = \"E5M2\"\n{more}");
            RunFile::of(&text.parse().unwrap_or_default())
        };
        let said = ["`quant.weight` has no effect: no linear layer is rounded to E4M3"];
        assert_eq!(without_effect(&config("schedule = []\n"), &[kind(None), kind(None)]), said);
        assert!(without_effect(&config(""), &[kind(None), kind(Some("E4M3"))]).is_empty());
        assert!(without_effect(&config(""), &[]).is_empty(), "`run.json` has no casts");
        let later = config("[[quant.schedule]]\nat = 4\nweight = \"E4M3\"\n");
        assert!(without_effect(&later, &[kind(None)]).is_empty());
    }
}

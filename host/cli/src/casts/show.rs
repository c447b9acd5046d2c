//! `casts show`: the rounding of each operand of each product by a run file.

use std::{path::PathBuf, process::ExitCode};

use altgrad_base::{diagnostic::Diagnostic, println};
use altgrad_config::DeviceChoice;
use altgrad_engine::{
    device::ComputeDevice,
    model::{Layout, layout::GptShape},
    setup::{linear_layers, phases, rounding_of},
};
use altgrad_loader::Registry;
use altgrad_metrics::Role;
use clap::Args;
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde_json::{Value, json};

use crate::vetting::TrustArgs;

/// `altgrad-host casts show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The run file.
    config: PathBuf,
    /// Overrides a key, as for `run`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Prints the casts as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(super) trust: TrustArgs,
}

/// Products of a linear layer, and the roles of their operands, `W` being `[out, in]`.
const PRODUCTS: [(&str, &[Role]); 4] = [
    ("fprop: y = x W^T, over in", &[Role::Activation, Role::Weight]),
    ("dgrad: dx = g W, over out", &[Role::Grad, Role::WeightDgrad]),
    ("wgrad: dW = g^T x, over tokens", &[Role::GradWgrad, Role::ActivationWgrad]),
    ("result of wgrad", &[Role::WeightGrad]),
];

/// Columns of a line of layers.
const WIDTH: usize = 100;
/// The name of the head's weight if it is the token embedding, whose lookup is no linear layer.
const TIED_HEAD: &str = "wte.weight";

pub(super) fn run(args: &ShowArgs) -> Result<ExitCode, Diagnostic> {
    let (config, source) = altgrad_config::load(&args.config, &args.overrides)?;
    let registry = Registry::open(&config.plugins)?;
    let device = ComputeDevice::open(DeviceChoice::Cpu)?;
    // The size of the vocabulary changes no cast but the width of the logit gradient.
    let layout = Layout::new(&GptShape::new(&config.model, config.data.block_size, 256));
    let quant = rounding_of(&config, &source, &registry, &device, &layout)?;
    let phases = phases(&config, &source, &registry, &device, (&layout, &quant))?;
    let kinds = linear_layers(&quant, &layout, &device);
    let later = config.quant.schedule.iter().zip(&phases).enumerate();
    let later: Vec<Phase> = later
        .map(|(index, (phase, quant))| Phase {
            title: format!("quant.schedule.{index}, {}: {}", phase.trigger, quant.summary()),
            kinds: linear_layers(quant, &layout, &device),
        })
        .collect();
    if args.json {
        println!("{}", as_json(kinds, later));
        return Ok(ExitCode::SUCCESS);
    }
    show(&kinds);
    for Phase { title, kinds } in &later {
        println!("\n{title}\n");
        show(kinds);
    }
    Ok(ExitCode::SUCCESS)
}

/// The casts that an entry of the schedule puts in force.
struct Phase {
    title: String,
    kinds: Vec<Value>,
}

/// The kinds of layers; with a schedule, a table of those at the beginning and of each phase.
fn as_json(kinds: Vec<Value>, phases: Vec<Phase>) -> Value {
    if phases.is_empty() {
        return Value::Array(kinds);
    }
    let phases =
        phases.into_iter().map(|phase| json!({ "phase": phase.title, "linear_layers": phase.kinds }));
    json!({ "linear_layers": kinds, "schedule": phases.collect::<Vec<_>>() })
}

fn show(kinds: &[Value]) {
    for kind in kinds {
        println!("{}", layers(kind));
        println!("{}", table(kind));
    }
}

/// The weights' names of a kind, in lines of at most [`WIDTH`] columns. A tied head is called by both of its names.
fn layers(kind: &Value) -> String {
    let names = kind["layers"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut lines: Vec<String> = Vec::new();
    for name in names.map(|name| if name == TIED_HEAD { "lm_head.weight (tied to wte.weight)" } else { name })
    {
        match lines.last_mut() {
            Some(line) if line.len() + ", ".len() + name.len() < WIDTH => {
                line.push_str(", ");
                line.push_str(name);
            }
            _ => lines.push(name.to_owned()),
        }
    }
    lines.join(",\n")
}

fn table(kind: &Value) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["product", "operand", "format", "rounding", "scales", "from"]);
    for (product, roles) in PRODUCTS {
        for role in roles {
            if let Some(row) = row(kind, *role) {
                let [operand, format, rounding, scales, from] = row;
                table.add_row([product.to_owned(), operand, format, rounding, scales, from]);
            }
        }
    }
    table
}

/// Operand, format, rounding, scales and source of a use.
fn row(kind: &Value, role: Role) -> Option<[String; 5]> {
    let operand = role.name().to_owned();
    let Some(cast) = kind.get(role.name()) else {
        let first = role.first_use()?;
        let cast = kind.get(first.name())?;
        let (format, source) = match cast["format"].as_str() {
            Some(format) => (format, format!("the codes of {}", first.name())),
            None => (cast.as_str()?, "the tensor".to_owned()),
        };
        return Some([operand, format.to_owned(), "-".into(), "-".into(), source]);
    };
    let Some(format) = cast["format"].as_str() else {
        return Some([operand, cast.as_str()?.to_owned(), "-".into(), "-".into(), "the tensor".into()]);
    };
    let text = |key: &str| cast[key].as_str().unwrap_or("-").to_owned();
    let from = cast["of"].as_str().unwrap_or("the tensor in high precision").to_owned();
    let from = match cast.get("transform") {
        Some(transform) => format!("{from}, transformed: {}", listed(transform)),
        None => from,
    };
    Some([operand, format.to_owned(), text("rounding"), listed(&cast["scaling"]), from])
}

/// The keys of a table with their values, without defaults.
fn listed(value: &Value) -> String {
    let Some(table) = value.as_object() else { return value.as_str().unwrap_or("-").to_owned() };
    let plain = |key: &str, value: &Value| {
        matches!((key, value), ("pow2", Value::Bool(false)) | ("signs", Value::String(_)))
            && value != "seed"
            && value != "te"
            || key == "margin" && value == 0
            || key == "to" && value == "f32"
    };
    let keys = table.iter().filter(|(key, value)| !plain(key, value));
    let words = keys.map(|(key, value)| match (key.as_str(), value) {
        (key, Value::String(text)) => format!("{key} {text}"),
        (key, Value::Bool(true)) => key.to_owned(),
        (key, value) => format!("{key} {}", value.to_string().replace(',', ", ")),
    });
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_wrapped_and_a_tied_head_is_named() {
        let blocks = (0..9).map(|block| format!("h.{block}.attn.c_attn.weight"));
        let names: Vec<String> = blocks.chain(["wte.weight".to_owned()]).collect();
        let shown = layers(&json!({ "layers": names }));
        assert!(shown.lines().count() == 3 && shown.lines().all(|line| line.len() <= WIDTH), "{shown}");
        assert!(shown.ends_with("h.8.attn.c_attn.weight, lm_head.weight (tied to wte.weight)"), "{shown}");
    }

    #[test]
    fn an_operand_without_a_format_has_the_precision_of_the_run() {
        let kind = json!({ "weight": "bf16", "activation": { "format": "E4M3", "scaling": "none" } });
        let shown = |role| row(&kind, role).map(|[operand, format, _, _, from]| [operand, format, from]);
        assert_eq!(shown(Role::Weight).unwrap(), ["weight", "bf16", "the tensor"]);
        assert_eq!(shown(Role::WeightDgrad).unwrap(), ["weight_dgrad", "bf16", "the tensor"]);
        let reused = ["activation_wgrad", "E4M3", "the codes of activation"];
        assert_eq!(shown(Role::ActivationWgrad).unwrap(), reused);
        assert!(shown(Role::WeightGrad).is_none());
    }
}

//! The run file as hyperparameters: TensorBoard's page HPARAMS compares runs by them.
//!
//! A key of the run file is a hyperparameter, `train.lr`; entries of lists have their index, `sink.0.name`. Lists of
//! plain values and values of other types are texts, as TOML writes them. The name and the folder of a run are left
//! out: they differ in every run. TensorBoard keeps the first start and the first end of a run, so only a completed run
//! has an end: another one may be resumed.

use std::collections::BTreeMap;

use prost::Message;
use toml::{Table, Value as Toml};

use crate::{
    file::now,
    proto::{
        Content, DataClass, DataType, Dim, HParam, HParamValue, HParams, Metadata, Outcome, PluginData,
        Session, SessionEnd, SessionStart, Tensor, TensorShape, Value,
    },
};

/// Keys that identify a run and do not affect its training.
const LEFT_OUT: [&str; 2] = ["run.name", "run.out"];

/// The value that begins a session: the hyperparameters of a run file.
pub(crate) fn start(config_toml: &str) -> Value {
    let mut hparams = BTreeMap::new();
    let config: Table = toml::from_str(config_toml).unwrap_or_default();
    config.iter().for_each(|(key, value)| collect(key, value, &mut hparams));
    LEFT_OUT.iter().for_each(|key| drop(hparams.remove(*key)));
    let start = SessionStart { hparams, start_time_secs: now() };
    value("_hparams_/session_start_info", Session::Start(start))
}

/// The value that ends the session of a completed run.
pub(crate) fn end() -> Value {
    let end = SessionEnd { status: Outcome::Success.into(), end_time_secs: now() };
    value("_hparams_/session_end_info", Session::End(end))
}

fn value(tag: &str, session: Session) -> Value {
    let content = HParams { version: 0, session: Some(session) }.encode_to_vec();
    let plugin_data = Some(PluginData { plugin_name: "hparams".into(), content });
    // Readers take the plugin's content; a value needs a tensor all the same.
    let tensor_shape = Some(TensorShape { dim: vec![Dim { size: 1 }] });
    let tensor =
        Tensor { dtype: DataType::Float.into(), tensor_shape, float_val: vec![0.0], string_val: Vec::new() };
    Value {
        tag: tag.into(),
        metadata: Some(Metadata { plugin_data, data_class: DataClass::Tensor.into() }),
        content: Some(Content::Tensor(tensor)),
    }
}

fn collect(key: &str, value: &Toml, found: &mut BTreeMap<String, HParam>) {
    let value = match value {
        Toml::Table(table) => {
            return table.iter().for_each(|(name, value)| collect(&format!("{key}.{name}"), value, found));
        }
        Toml::Array(entries) if entries.iter().any(Toml::is_table) => {
            return entries
                .iter()
                .enumerate()
                .for_each(|(index, value)| collect(&format!("{key}.{index}"), value, found));
        }
        Toml::Integer(number) => HParamValue::Number(*number as f64),
        Toml::Float(number) => HParamValue::Number(*number),
        Toml::Boolean(truth) => HParamValue::Bool(*truth),
        Toml::String(text) => HParamValue::Text(text.clone()),
        other => HParamValue::Text(other.to_string()),
    };
    found.insert(key.to_string(), HParam { value: Some(value) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_tables_and_lists_have_their_place() {
        let text = "[run]\nname = \"a\"\nseed = 3\n[quant]\nweight = \"E4M3\"\nblock = [1, 2]\nstochastic = true\n\
                    [[sink]]\nname = \"csv\"\n[train]\nlr = 1e-3\n";
        let mut found = BTreeMap::new();
        let config: Table = toml::from_str(text).unwrap_or_default();
        config.iter().for_each(|(key, value)| collect(key, value, &mut found));
        let shown = |(key, value): (&String, &HParam)| format!("{key}={:?}", value.value);
        let shown: Vec<String> = found.iter().map(shown).collect();
        let expected = [
            "quant.block=Some(Text(\"[1, 2]\"))",
            "quant.stochastic=Some(Bool(true))",
            "quant.weight=Some(Text(\"E4M3\"))",
            "run.name=Some(Text(\"a\"))",
            "run.seed=Some(Number(3.0))",
            "sink.0.name=Some(Text(\"csv\"))",
            "train.lr=Some(Number(0.001))",
        ];
        assert_eq!(shown, expected);
    }
}

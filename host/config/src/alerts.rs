//! `[alerts]`: thresholds that can be switched off, patience, cooldowns.

use std::fmt;

use altgrad_metrics::{
    AlertKind,
    families::{attention, codes, fidelity, ranks, rounding, updates},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

/// `[alerts]`: conditions that deserve attention. No alert changes the training; only `nan_patience` ends a run. A
/// threshold is a number or `"off"`. The worst value of all layers counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AlertsSection {
    /// [`updates::BIT_STALL_ALERT`].
    #[schemars(description = updates::BIT_STALL_ALERT.key_text)]
    pub bit_stall_threshold: Threshold,
    /// [`rounding::OVERFLOW_ALERT`].
    #[schemars(description = rounding::OVERFLOW_ALERT.key_text)]
    pub overflow_threshold: Threshold,
    /// [`rounding::UNDERFLOW_ALERT`].
    #[schemars(description = rounding::UNDERFLOW_ALERT.key_text)]
    pub underflow_threshold: Threshold,
    /// [`rounding::SPARSITY_ALERT`].
    #[schemars(description = rounding::SPARSITY_ALERT.key_text)]
    pub sparsity_threshold: Threshold,
    /// [`rounding::CODE_SATURATION_ALERT`].
    #[schemars(description = rounding::CODE_SATURATION_ALERT.key_text)]
    pub code_saturation_threshold: Threshold,
    /// [`codes::KURTOSIS_ALERT`].
    #[schemars(description = codes::KURTOSIS_ALERT.key_text)]
    pub kurtosis_threshold: Threshold,
    /// Factor by which a kurtosis must exceed its first measurement at the same place, in addition to its threshold.
    pub kurtosis_growth: f64,
    /// SQNR in dB below which overflow and underflow at a place raise alerts; `"off"`: at any value. At 6 dB the noise
    /// has a quarter of the signal's energy.
    pub sqnr_threshold: Threshold,
    /// [`rounding::GRADIENT_SQNR_ALERT`].
    #[schemars(description = rounding::GRADIENT_SQNR_ALERT.key_text)]
    pub gradient_sqnr_threshold: Threshold,
    /// [`fidelity::GRADIENT_COSINE_ALERT`].
    #[schemars(description = fidelity::GRADIENT_COSINE_ALERT.key_text)]
    pub gradient_cosine_threshold: Threshold,
    /// [`fidelity::GRADIENT_NORM_ALERT`].
    #[schemars(description = fidelity::GRADIENT_NORM_ALERT.key_text)]
    pub gradient_norm_threshold: Threshold,
    /// [`attention::ATTENTION_LOGIT_ALERT`].
    #[schemars(description = attention::ATTENTION_LOGIT_ALERT.key_text)]
    pub attention_logit_threshold: Threshold,
    /// [`ranks::RANK_ALERT`].
    #[schemars(description = ranks::RANK_ALERT.key_text)]
    pub stable_rank_threshold: Threshold,
    /// Rise of the training loss above its lowest median, in units of its noise and at least 2 % of the loss. Medians
    /// and noise (1.4826 times the median absolute deviation) are those of the last tenth of the steps so far, at least
    /// 64 and at most 1000.
    pub loss_rise_threshold: Threshold,
    /// Steps after warm-up until the median of the training loss must be below the unigram entropy of the corpus, or
    /// below 0.01 nats per token; 0 = off.
    pub no_learning_steps: u64,
    /// Consecutive measurements above a threshold that raise an alert. With more than 1, a single batch raises none.
    pub patience: u64,
    /// Evaluations in a row, each with a higher loss than the one before and more than 2 % above the best, after which
    /// a run counts as diverged; 0 = off. They count only while the training loss, too, has risen by more than its
    /// noise, as for `loss_rise_threshold`.
    pub divergence_patience: u64,
    /// Steps in a row with a NaN or infinite loss or gradient after which the run ends; 0 = never.
    pub nan_patience: u64,
    /// Seconds between two alerts of one kind, except for NaN.
    pub cooldown_s: f64,
    /// Seconds between two alerts about a NaN loss, and about NaN gradients.
    pub nan_cooldown_s: f64,
}

impl Default for AlertsSection {
    fn default() -> Self {
        Self {
            bit_stall_threshold: Threshold::Above(updates::BIT_STALL_ALERT.default),
            overflow_threshold: Threshold::Above(rounding::OVERFLOW_ALERT.default),
            underflow_threshold: Threshold::Above(rounding::UNDERFLOW_ALERT.default),
            sparsity_threshold: Threshold::Above(rounding::SPARSITY_ALERT.default),
            code_saturation_threshold: Threshold::Above(rounding::CODE_SATURATION_ALERT.default),
            kurtosis_threshold: Threshold::Above(codes::KURTOSIS_ALERT.default),
            kurtosis_growth: 100.0,
            sqnr_threshold: Threshold::Above(6.0),
            gradient_sqnr_threshold: Threshold::Above(rounding::GRADIENT_SQNR_ALERT.default),
            gradient_cosine_threshold: Threshold::Above(fidelity::GRADIENT_COSINE_ALERT.default),
            gradient_norm_threshold: Threshold::Above(fidelity::GRADIENT_NORM_ALERT.default),
            attention_logit_threshold: Threshold::Above(attention::ATTENTION_LOGIT_ALERT.default),
            stable_rank_threshold: Threshold::Above(ranks::RANK_ALERT.default),
            loss_rise_threshold: Threshold::Above(1.0),
            no_learning_steps: 200,
            patience: 3,
            divergence_patience: 5,
            nan_patience: 10,
            cooldown_s: 300.0,
            nan_cooldown_s: 60.0,
        }
    }
}

impl AlertsSection {
    /// The threshold of a kind of alert; off for kinds that have none.
    #[must_use]
    pub fn threshold(&self, kind: AlertKind) -> Threshold {
        match kind {
            AlertKind::BitStall => self.bit_stall_threshold,
            AlertKind::Overflow => self.overflow_threshold,
            AlertKind::Underflow => self.underflow_threshold,
            AlertKind::Sparsity => self.sparsity_threshold,
            AlertKind::AttentionLogit => self.attention_logit_threshold,
            AlertKind::CodeSaturation => self.code_saturation_threshold,
            AlertKind::Kurtosis => self.kurtosis_threshold,
            AlertKind::GradientSqnr => self.gradient_sqnr_threshold,
            AlertKind::GradientCosine => self.gradient_cosine_threshold,
            AlertKind::GradientNorm => self.gradient_norm_threshold,
            AlertKind::RankCollapse => self.stable_rank_threshold,
            AlertKind::LossRise => self.loss_rise_threshold,
            AlertKind::NanLoss | AlertKind::NanGrad | AlertKind::Divergence | AlertKind::NoLearning => {
                Threshold::Off
            }
        }
    }
}

/// The value that switches a threshold off. 0 does not: it is a threshold.
const OFF: &str = "off";

/// A limit, if there is one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// No limit.
    Off,
    /// Values above this number raise an alert.
    Above(f64),
}

impl Threshold {
    /// The number, unless it is off.
    #[must_use]
    pub fn limit(self) -> Option<f64> {
        match self {
            Self::Off => None,
            Self::Above(limit) => Some(limit),
        }
    }
}

impl JsonSchema for Threshold {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Threshold".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "number" }, { "const": OFF }] })
    }
}

impl Serialize for Threshold {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_str(OFF),
            Self::Above(limit) => serializer.serialize_f64(*limit),
        }
    }
}

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrOff;

        impl Visitor<'_> for NumberOrOff {
            type Value = Threshold;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number or {OFF:?}")
            }

            fn visit_f64<E: Error>(self, limit: f64) -> Result<Threshold, E> {
                Ok(Threshold::Above(limit))
            }

            fn visit_i64<E: Error>(self, limit: i64) -> Result<Threshold, E> {
                Ok(Threshold::Above(limit as f64))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Threshold, E> {
                if text == OFF {
                    return Ok(Threshold::Off);
                }
                // The wording that `explain` recognizes.
                Err(E::custom(format!("must be a number or `{OFF}`, found {text:?}")))
            }
        }

        deserializer.deserialize_any(NumberOrOff)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_metrics::{alert, reference};

    use super::*;

    #[test]
    fn each_kind_names_the_key_of_its_threshold() {
        for kind in AlertKind::ALL {
            let Some(key) = kind.threshold_key() else {
                assert_eq!(AlertsSection::default().threshold(kind), Threshold::Off, "{}", kind.name());
                continue;
            };
            let alerts: AlertsSection = toml::from_str(&format!("{key} = 0.125")).unwrap();
            assert_eq!(alerts.threshold(kind), Threshold::Above(0.125), "{key}");
        }
    }

    #[test]
    fn the_page_of_metrics_names_keys_of_the_run_file() {
        let known = toml::Value::try_from(AlertsSection::default()).unwrap();
        let page = reference::markdown();
        let keys: Vec<&str> =
            page.split("`alerts.").skip(1).filter_map(|rest| rest.split('`').next()).collect();
        assert_eq!(keys.len(), alert::thresholds().len());
        for key in keys {
            assert!(known.get(key).is_some(), "{key}");
        }
    }
}

//! `[observe]`: errors that formats would make, measured without rounding.

use std::fmt;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_metrics::Role;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, SeqAccess, Visitor},
};

use super::{
    choices::InvalidChoice,
    scaling::ScalingFields,
    single_cast::{
        self, BlockChoice, CastRoundingChoice, CastSection, CenterChoice, OverflowChoice, RandomModeChoice,
        ZeroBlockChoice,
    },
    source::Source,
};

/// `[observe]`: measures the error that formats would make, by role, before any rounding and without changing the run.
/// A step that measures takes the time of 9 to 13 others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ObserveSection {
    /// Formats, as `[quant]` names them. Default: none, nothing is observed.
    pub formats: Vec<String>,
    /// `all`, or a list of roles as `[quant.cast]` names them, such as `["activation", "grad", "probabilities"]`.
    pub roles: RolesChoice,
    /// Interval of these measurements in steps, at least 1.
    pub every: u64,
    /// Elements that would share a scale: `none`, `tensor`, `row`, a number of elements along the contraction, or a
    /// tile. Of the metrics, only the SQNR depends on scales.
    pub block: BlockChoice,
    /// Rule for the scales that would be used. Default: the largest magnitude becomes the format's largest value, by an
    /// f32 scale.
    pub scaling: Option<ScalingFields>,
}

impl Default for ObserveSection {
    fn default() -> Self {
        Self {
            formats: Vec::new(),
            roles: RolesChoice::All,
            every: 100,
            block: BlockChoice::Tensor,
            scaling: None,
        }
    }
}

impl ObserveSection {
    /// The cast that is assumed of a format: to nearest, ties to even.
    #[must_use]
    pub fn cast(&self, format: &str) -> CastSection {
        CastSection {
            format: format.to_owned(),
            rounding: CastRoundingChoice::NearestEven,
            random_bits: None,
            random_mode: RandomModeChoice::A,
            overflow: OverflowChoice::Saturate,
            block: self.block,
            transform: None,
            center: CenterChoice::None,
            scaling: self.scaling.unwrap_or_default().cast_scaling(),
        }
    }
}

/// The roles that are observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolesChoice {
    /// Every role of the model.
    All,
    /// These.
    These(Vec<Role>),
}

impl RolesChoice {
    /// True if a role is observed.
    #[must_use]
    pub fn has(&self, role: Role) -> bool {
        match self {
            Self::All => true,
            Self::These(roles) => roles.contains(&role),
        }
    }
}

const ALL: &str = "all";

impl Serialize for RolesChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str(ALL),
            Self::These(roles) => serializer.collect_seq(roles.iter().map(|role| role.name())),
        }
    }
}

impl<'de> Deserialize<'de> for RolesChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Roles;

        impl<'de> Visitor<'de> for Roles {
            type Value = RolesChoice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"all\" or an array of roles")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RolesChoice, E> {
                if text == ALL {
                    Ok(RolesChoice::All)
                } else {
                    Err(E::invalid_type(de::Unexpected::Str(text), &self))
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<RolesChoice, A::Error> {
                let mut roles = Vec::new();
                while let Some(RoleName(role)) = sequence.next_element()? {
                    roles.push(role);
                }
                Ok(RolesChoice::These(roles))
            }
        }

        deserializer.deserialize_any(Roles)
    }
}

impl JsonSchema for RolesChoice {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RolesChoice".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "array"], "items": { "type": "string", "enum": Role::NAMES } })
    }
}

/// A role by its name.
struct RoleName(Role);

impl<'de> Deserialize<'de> for RoleName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let role = Role::ALL.into_iter().find(|role| role.name() == name);
        role.map(Self).ok_or_else(|| de::Error::custom(InvalidChoice::new(&name, &Role::NAMES)))
    }
}

/// Refuses values out of range, duplicates, and keys without effect.
pub(super) fn check(observe: &ObserveSection, source: &Source) -> Result<(), Diagnostic> {
    let refuse = |key: &str, message: String, hint: &str| {
        Err(Diagnostic::config(message).at(source.locate(key)).hint(hint))
    };
    if observe.every == 0 {
        let hint = "leave `observe.formats` out to observe nothing";
        return refuse("observe.every", "`observe.every` must be at least 1, found 0".to_owned(), hint);
    }
    if observe.formats.is_empty() {
        let keys = ["roles", "every", "block", "scaling"].map(|key| format!("observe.{key}"));
        let written = keys.iter().find(|key| *observe != ObserveSection::default() && source.is_written(key));
        let hint = "name some, such as formats = [\"E4M3\", \"E5M2\"], or remove the key";
        return written.map_or(Ok(()), |key| {
            refuse(key, format!("`{key}` has no effect without `observe.formats`"), hint)
        });
    }
    for (index, format) in observe.formats.iter().enumerate() {
        let key = format!("observe.formats.{index}");
        if format.is_empty() || format == super::LayerRule::OFF {
            return refuse(&key, format!("`{key}` must be a format, found {format:?}"), "remove it");
        }
        if observe.formats[..index].contains(format) {
            return refuse(&key, format!("`{key}` lists a format twice"), "remove one of them");
        }
    }
    if let RolesChoice::These(roles) = &observe.roles {
        if roles.is_empty() {
            let hint = "name some, such as roles = [\"activation\", \"grad\"], or leave the key out for all";
            return refuse("observe.roles", "`observe.roles` names no role".to_owned(), hint);
        }
        if let Some(index) = (0..roles.len()).find(|index| roles[..*index].contains(&roles[*index])) {
            let key = format!("observe.roles.{index}");
            return refuse(&key, format!("`{key}` lists a role twice"), "remove one of them");
        }
    }
    scaling(observe, source)
}

/// Keys that a cast that is applied once cannot have: those about earlier steps, and those without effect.
fn scaling(observe: &ObserveSection, source: &Source) -> Result<(), Diagnostic> {
    let fields = observe.scaling.unwrap_or_default();
    let of_the_past = [
        ("window", fields.window.is_some()),
        ("first", fields.first.is_some()),
        ("zero", fields.zero == Some(ZeroBlockChoice::Keep)),
    ];
    if let Some((key, _)) = of_the_past.into_iter().find(|(_, is_given)| *is_given) {
        let key = format!("observe.scaling.{key}");
        return Err(Diagnostic::config(format!(
            "`{key}` has no effect: observation uses the current step only"
        ))
        .at(source.locate_key(&key))
        .hint("remove the key; or give the amax: amax = \"static\", static_amax = 3.5"));
    }
    let cast = observe.cast("");
    single_cast::without_effect(&cast, source, "observe.").into_iter().next().map_or(Ok(()), Err)?;
    single_cast::refuse_amax(&cast, source, "observe.")
}

//! Typed identifiers of metrics, their names, and the way back from names.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
    sync::Arc,
};

pub use crate::role::Role;
use crate::{
    definition::{MetricDefinition, Scope},
    families,
    format_name::FormatName,
};

/// A layer, named by its parameter: `h.0.attn.c_attn.weight`. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layer(Arc<str>);

impl Layer {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Layer {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A definition with its role, its index and its format: `quant/weight/sqnr_db_at/-1`, `observe/weight/sqnr_db/E4M3`.
/// What `layers.csv` has in its column `metric`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statistic {
    /// The definition of the metric.
    pub definition: &'static MetricDefinition,
    /// Whose it is; `None` without roles, or over all of them.
    pub role: Option<Role>,
    /// A bit or an offset, where the definition has one.
    pub index: Option<i8>,
    /// A format, where the definition has one.
    pub format: Option<FormatName>,
}

impl Statistic {
    /// A metric without a role and an index.
    #[must_use]
    pub const fn new(definition: &'static MetricDefinition) -> Self {
        Self { definition, role: None, index: None, format: None }
    }

    /// The same of a role.
    #[must_use]
    pub const fn of_role(self, role: Role) -> Self {
        Self { role: Some(role), ..self }
    }

    /// The same with an index.
    #[must_use]
    pub const fn at(self, index: i8) -> Self {
        Self { index: Some(index), ..self }
    }

    /// The same of a format.
    #[must_use]
    pub fn of_format(self, format: FormatName) -> Self {
        Self { format: Some(format), ..self }
    }

    /// The metric of one layer.
    #[must_use]
    pub fn of_layer(self, layer: &Layer) -> MetricId {
        MetricId { statistic: self, over: Over::Layer(layer.clone()) }
    }

    /// Over all layers, or of one.
    #[must_use]
    pub fn over(self, over: Over) -> MetricId {
        MetricId { statistic: self, over }
    }

    /// The statistic with this name: a `metric` of `layers.csv`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        // Its name in files of 0.1.0.
        let name = if name == "grad_snr" { "grad_mean_over_std" } else { name };
        families::definitions().find_map(|definition| match Self::strip(definition, name)? {
            (statistic, "") => Some(statistic),
            _ => None,
        })
    }

    /// A statistic of this definition at the start of a name, and the rest of the name.
    fn strip<'a>(definition: &'static MetricDefinition, name: &'a str) -> Option<(Self, &'a str)> {
        let (prefix, own) = definition.parts();
        let rest = match prefix {
            Some(prefix) => name.strip_prefix(prefix)?.strip_prefix('/')?,
            None => name,
        };
        let named = |rest: &'a str| {
            let rest = rest.strip_prefix(own)?;
            (rest.is_empty() || rest.starts_with('/')).then_some(rest)
        };
        let of_role = || {
            let (first, rest) = rest.split_once('/')?;
            let role = Role::ALL.into_iter().find(|role| role.name() == first)?;
            Some((Some(role), named(rest)?))
        };
        let (role, rest) = named(rest).map(|rest| (None, rest)).or_else(of_role)?;
        let statistic = Self { role, ..Self::new(definition) };
        if let Some(index) = definition.index {
            let (number, rest) = segment(rest)?;
            let number: i8 = number.parse().ok().filter(|number| index.range().contains(number))?;
            return Some((statistic.at(number), rest));
        }
        if definition.by_format {
            let (name, rest) = segment(rest)?;
            return Some((statistic.of_format(FormatName::new(name)?), rest));
        }
        Some((statistic, rest))
    }

    fn key(&self) -> (&'static str, Option<Role>, Option<i8>, Option<FormatName>) {
        (self.definition.name, self.role, self.index, self.format)
    }
}

/// The text between a slash at the start and the next one, and the rest.
fn segment(rest: &str) -> Option<(&str, &str)> {
    let rest = rest.strip_prefix('/')?;
    Some(rest.split_at(rest.find('/').unwrap_or(rest.len())))
}

impl From<&'static MetricDefinition> for Statistic {
    fn from(definition: &'static MetricDefinition) -> Self {
        Self::new(definition)
    }
}

impl Ord for Statistic {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Statistic {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Statistic {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.role, self.definition.parts()) {
            (Some(role), (Some(prefix), own)) => write!(f, "{prefix}/{}/{own}", role.name())?,
            _ => f.write_str(self.definition.name)?,
        }
        self.index.map_or(Ok(()), |index| write!(f, "/{index}"))?;
        self.format.map_or(Ok(()), |format| write!(f, "/{format}"))
    }
}

/// The scope of a value, besides its role.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Over {
    /// Everything that is measured.
    All,
    /// The mean of the layers' values.
    MeanOfLayers,
    /// The least of the layers' values.
    LeastOfLayers,
    /// One layer.
    Layer(Layer),
}

/// One metric of a run. Its [`Display`](fmt::Display) is its name in sinks: `quant/weight/sqnr_db/h.0.mlp.c_fc.weight`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetricId {
    /// The statistic, and its role.
    pub statistic: Statistic,
    /// The scope of the value.
    pub over: Over,
}

impl MetricId {
    /// Its definition.
    #[must_use]
    pub fn definition(&self) -> &'static MetricDefinition {
        self.statistic.definition
    }

    /// Its layer, if it belongs to one.
    #[must_use]
    pub fn layer(&self) -> Option<&Layer> {
        match &self.over {
            Over::Layer(layer) => Some(layer),
            _ => None,
        }
    }

    /// Its scope.
    #[must_use]
    pub fn scope(&self) -> Scope {
        match (&self.over, self.statistic.role) {
            (Over::All, None) => Scope::Run,
            (Over::All, Some(_)) => Scope::Role,
            (Over::MeanOfLayers, _) => Scope::MeanOfLayers,
            (Over::LeastOfLayers, _) => Scope::LeastOfLayers,
            (Over::Layer(_), None) => Scope::Layer,
            (Over::Layer(_), Some(_)) => Scope::RoleAndLayer,
        }
    }

    fn parse(name: &str) -> Option<Self> {
        families::definitions().find_map(|definition| {
            let (statistic, rest) = Statistic::strip(definition, name)?;
            let over = match rest {
                "" => Over::All,
                MEAN => Over::MeanOfLayers,
                LEAST => Over::LeastOfLayers,
                // A parameter's name has a dot; no other part of a name has one.
                rest => Over::Layer(rest.strip_prefix('/').filter(|layer| layer.contains('.'))?.into()),
            };
            let id = Self { statistic, over };
            definition.has(id.scope()).then_some(id)
        })
    }
}

const MEAN: &str = "/mean";
const LEAST: &str = "/min";

impl From<Statistic> for MetricId {
    fn from(statistic: Statistic) -> Self {
        statistic.over(Over::All)
    }
}

impl From<&'static MetricDefinition> for MetricId {
    fn from(definition: &'static MetricDefinition) -> Self {
        Statistic::new(definition).into()
    }
}

impl fmt::Display for MetricId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.statistic.fmt(f)?;
        match &self.over {
            Over::All => Ok(()),
            Over::MeanOfLayers => f.write_str(MEAN),
            Over::LeastOfLayers => f.write_str(LEAST),
            Over::Layer(layer) => write!(f, "/{layer}"),
        }
    }
}

/// A name that no definition has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownMetric(pub String);

impl fmt::Display for UnknownMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is the name of no metric", self.0)
    }
}

impl std::error::Error for UnknownMetric {}

impl FromStr for MetricId {
    type Err = UnknownMetric;

    fn from_str(name: &str) -> Result<Self, UnknownMetric> {
        Self::parse(name).ok_or_else(|| UnknownMetric(name.to_string()))
    }
}

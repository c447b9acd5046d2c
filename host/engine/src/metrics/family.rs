//! The interface of a family of metrics: its identifiers in a run, and its values of a step.

use altgrad_config::MetricsSection;
use altgrad_metrics::{Due, Layer, MetricDefinition, MetricId, MetricRecord, Over, Role, Scope, Statistic};

use crate::{
    model::Layout,
    quant::{QuantPlan, observe::ObservedSites},
};

/// A metric and its value from the family's result, `T`.
pub(super) type Formula<T, V> = (&'static MetricDefinition, fn(&T) -> V);

/// The file that computes a family of metrics.
pub trait MetricFamily {
    /// The inputs of a step's values.
    type Inputs<'a>;

    /// Every metric that it may record in a run, in display order. The caller removes metrics that the run file
    /// switches off through the definitions' schedules.
    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId>;

    /// Records a step. A value that cannot be computed is absent.
    fn record(setup: &MetricSetup<'_>, inputs: Self::Inputs<'_>, record: &mut MetricRecord);
}

/// Facts of a run that metrics need.
#[derive(Debug, Clone)]
pub struct MetricSetup<'a> {
    /// The parameters.
    pub layout: &'a Layout,
    /// Places where values are rounded.
    pub quant: &'a QuantPlan,
    /// The sites that the run observes.
    pub observed: Option<&'a ObservedSites>,
    /// The measurement intervals.
    pub config: MetricsSection,
    /// True if there are shadow steps.
    pub shadow: bool,
    /// True if there are measurements of curvature.
    pub curvature: bool,
    /// True if the optimizer's rule depends on the grid of a weight.
    pub grid_rules: bool,
    /// True if there is a dynamic loss scale.
    pub loss_scaling: bool,
    /// True if the data sheet of the device is known.
    pub data_sheet: bool,
    /// The names of the optimizer's own numbers.
    pub optimizer: Vec<String>,
    /// Names of the parameters.
    pub parameters: Vec<Layer>,
    /// Role and layer of each place.
    pub sites: Vec<(Role, Layer)>,
}

impl<'a> MetricSetup<'a> {
    /// The setup of a run.
    #[must_use]
    pub fn new(layout: &'a Layout, quant: &'a QuantPlan, config: MetricsSection, shadow: bool) -> Self {
        let parameters = layout.specs.iter().map(|spec| Layer::from(spec.name.as_str())).collect();
        let sites = quant.sites().iter().map(|site| (site.role, Layer::from(site.layer.as_str()))).collect();
        let [curvature, grid_rules, loss_scaling, data_sheet] = [false; 4];
        Self {
            layout,
            quant,
            observed: None,
            config,
            shadow,
            curvature,
            grid_rules,
            loss_scaling,
            data_sheet,
            optimizer: Vec::new(),
            parameters,
            sites,
        }
    }

    /// The setup with the sites that the run observes.
    #[must_use]
    pub fn with_observed(self, observed: Option<&'a ObservedSites>) -> Self {
        Self { observed, ..self }
    }

    /// The setup with these numbers of the optimizer's own.
    #[must_use]
    pub fn with_optimizer(self, optimizer: Vec<String>) -> Self {
        Self { optimizer, ..self }
    }

    /// The setup with or without a dynamic loss scale.
    #[must_use]
    pub fn with_loss_scaling(self, loss_scaling: bool) -> Self {
        Self { loss_scaling, ..self }
    }

    /// The setup of a device whose data sheet is known, or of another one.
    #[must_use]
    pub fn with_data_sheet(self, data_sheet: bool) -> Self {
        Self { data_sheet, ..self }
    }

    /// The setup with or without measurements of curvature.
    #[must_use]
    pub fn with_curvature(self, curvature: bool) -> Self {
        Self { curvature, ..self }
    }

    /// The setup with or without rules that depend on grids.
    #[must_use]
    pub fn with_grid_rules(self, grid_rules: bool) -> Self {
        Self { grid_rules, ..self }
    }

    /// True if the run records metrics of that schedule.
    #[must_use]
    pub fn records(&self, due: Due) -> bool {
        match due {
            Due::EveryStep | Due::Evaluations => true,
            Due::LossScaling => self.loss_scaling,
            Due::ShadowSteps => self.shadow,
            Due::Curvature => self.curvature,
            Due::Parameters => self.config.every > 0,
            Due::Attention => self.config.measures_attention(),
            Due::Distributions => self.config.histograms_every > 0,
            Due::Kurtosis => self.config.measures_kurtosis(),
            Due::Observations => self.observed.is_some(),
            Due::Ranks => self.config.rank_every > 0,
            Due::End => false,
        }
    }

    /// Numbers and names of the parameters that are rounded with one scale.
    pub fn rounded(&self) -> impl Iterator<Item = (usize, &Layer)> {
        self.parameters.iter().enumerate().filter(|(id, _)| self.quant.has_one_scale(*id))
    }

    /// Numbers and names of the parameters without master weights.
    pub fn stored(&self) -> impl Iterator<Item = (usize, &Layer)> {
        self.parameters.iter().enumerate().filter(|(id, _)| self.quant.is_stored_on_grid(*id))
    }

    /// Names of the parameters that are rounded with one scale.
    pub fn rounded_layers(&self) -> impl Iterator<Item = &Layer> {
        self.rounded().map(|(_, layer)| layer)
    }
}

/// The identifiers of a definition in the order of its scopes, with those of layers for each of `layers`. The family
/// itself adds roles.
pub(super) fn ids_of<'a>(
    definition: &'static MetricDefinition,
    layers: impl Iterator<Item = &'a Layer>,
) -> Vec<MetricId> {
    let statistic = Statistic::new(definition);
    let mut layers = Some(layers);
    let mut ids = Vec::new();
    for scope in definition.scopes {
        match scope {
            Scope::Run => ids.push(statistic.over(Over::All)),
            Scope::MeanOfLayers => ids.push(statistic.over(Over::MeanOfLayers)),
            Scope::LeastOfLayers => ids.push(statistic.over(Over::LeastOfLayers)),
            Scope::Layer => {
                ids.extend(layers.take().into_iter().flatten().map(|layer| statistic.of_layer(layer)))
            }
            Scope::Role | Scope::RoleAndLayer => {}
        }
    }
    ids
}

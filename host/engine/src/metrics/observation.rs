//! The effect that formats would have on the tensors of a step: by role, and by site.

use altgrad_casts::design::LogGrid;
use altgrad_metrics::{
    FormatName, Histogram, Layer, MetricDefinition, MetricId, MetricRecord, Over, Role, Statistic,
    families::{
        observation::{
            OBSERVED_AMAX, OBSERVED_KURTOSIS, OBSERVED_OVERFLOW, OBSERVED_RANGE, OBSERVED_RELATIVE,
            OBSERVED_SQNR, OBSERVED_UNDERFLOW, OBSERVED_ZEROED_MASS,
        },
        rounding::{OVERFLOW_RATE, SQNR_DB, UNDERFLOW_RATE},
    },
};

use super::{
    family::{Formula, MetricFamily, MetricSetup},
    rounding,
};
use crate::quant::{
    QuantStats,
    observe::{FormatObservation, ObservedSite, ObservedSites, SiteObservation},
};

/// Statistics of a tensor.
static OF_TENSORS: [Formula<SiteObservation, Option<f64>>; 3] = [
    (&OBSERVED_AMAX, |seen| seen.smallest.map(|_| f64::from(seen.amax))),
    (&OBSERVED_RANGE, |seen| Some((f64::from(seen.amax) / f64::from(seen.smallest?)).log2())),
    (&OBSERVED_KURTOSIS, |seen| seen.powers.kurtosis()),
];

/// Statistics of a tensor and a format.
static OF_FORMATS: [Formula<FormatObservation, Option<f64>>; 4] = [
    (&OBSERVED_OVERFLOW, |seen| as_rounded(&seen.unscaled, &OVERFLOW_RATE)),
    (&OBSERVED_UNDERFLOW, |seen| as_rounded(&seen.unscaled, &UNDERFLOW_RATE)),
    (&OBSERVED_SQNR, |seen| as_rounded(&seen.scaled, &SQNR_DB)),
    (&OBSERVED_ZEROED_MASS, |seen| seen.zeroed.share()),
];

/// The metric of rounding for these statistics.
fn as_rounded(seen: &QuantStats, metric: &'static MetricDefinition) -> Option<f64> {
    rounding::values(seen).find(|(definition, _)| *definition == metric).map(|(_, value)| value)
}

/// The family.
pub struct ObservationFamily;

impl MetricFamily for ObservationFamily {
    /// The observation of each site, empty on a step that does not measure.
    type Inputs<'a> = &'a [Option<SiteObservation>];

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        let sites = sites(setup);
        let of = |group: Group| {
            let (tensors, formats) = group.statistics(sites);
            let ids = tensors.into_iter().map(|(id, _)| id).chain(formats.into_iter().map(|(id, ..)| id));
            ids.chain(group.relative()).collect::<Vec<_>>()
        };
        groups(sites, &[]).into_iter().flat_map(of).collect()
    }

    fn record(setup: &MetricSetup<'_>, seen: &[Option<SiteObservation>], record: &mut MetricRecord) {
        if seen.is_empty() {
            return;
        }
        let sites = sites(setup);
        for group in groups(sites, seen) {
            let Some(seen) = &group.seen else { continue };
            let (tensors, formats) = group.statistics(sites);
            for (id, value) in tensors {
                record.push_some(id, value(seen));
            }
            for (id, format, value) in formats {
                record.push_some(id, seen.formats.get(format).and_then(value));
            }
            if let Some(id) = group.relative() {
                let counts = seen.relative.counts().to_vec();
                record.histograms.push(Histogram { id, edges: LogGrid::edges(), counts });
            }
        }
    }
}

fn sites<'a>(setup: &MetricSetup<'a>) -> &'a [ObservedSite] {
    setup.observed.map_or(&[], ObservedSites::sites)
}

/// Sites whose statistics are added.
struct Group {
    role: Role,
    over: Over,
    seen: Option<SiteObservation>,
}

type OfTensor = (MetricId, fn(&SiteObservation) -> Option<f64>);
type OfFormat = (MetricId, usize, fn(&FormatObservation) -> Option<f64>);

impl Group {
    fn id(&self, definition: &'static MetricDefinition, format: Option<FormatName>) -> MetricId {
        Statistic { format, ..Statistic::new(definition) }.of_role(self.role).over(self.over.clone())
    }

    /// The distribution of relative values, if the group is a role.
    fn relative(&self) -> Option<MetricId> {
        let id = self.id(&OBSERVED_RELATIVE, None);
        id.definition().has(id.scope()).then_some(id)
    }

    /// The metrics of the group with their formulas; those of formats with the format's place.
    fn statistics(&self, sites: &[ObservedSite]) -> (Vec<OfTensor>, Vec<OfFormat>) {
        let tensors = OF_TENSORS.iter().map(|(definition, value)| (self.id(definition, None), *value));
        let tensors = tensors.filter(|(id, _)| id.definition().has(id.scope())).collect();
        let names = sites.first().into_iter().flat_map(|site| site.formats.iter().enumerate());
        let formats = names.flat_map(|(place, format)| {
            let of = |(definition, value): &Formula<FormatObservation, Option<f64>>| {
                (self.id(definition, Some(format.name)), place, *value)
            };
            OF_FORMATS.iter().map(of).collect::<Vec<_>>()
        });
        (tensors, formats.collect())
    }
}

/// Each observed role, then each site. Without `seen` the groups are empty.
fn groups(sites: &[ObservedSite], seen: &[Option<SiteObservation>]) -> Vec<Group> {
    let at = |index: usize| seen.get(index).and_then(Option::as_ref);
    let mut groups = Vec::new();
    for role in Role::ALL {
        let of_role = || sites.iter().enumerate().filter(|(_, site)| site.role == role);
        if of_role().next().is_some() {
            let total = of_role().filter_map(|(index, _)| at(index).cloned()).reduce(|mut total, seen| {
                total.merge(&seen);
                total
            });
            groups.push(Group { role, over: Over::All, seen: total });
        }
    }
    groups.extend(sites.iter().enumerate().map(|(index, site)| Group {
        role: site.role,
        over: Over::Layer(Layer::from(site.name.as_str())),
        seen: at(index).cloned(),
    }));
    groups
}

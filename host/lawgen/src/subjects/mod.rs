//! The subjects that acts are about, a plain table of phrase tables.
//!
//! The order is part of the generated data: a new subject changes every act of every seed.

mod crops;
mod finance;
mod fisheries;
mod health;
mod industry;
mod livestock;
mod policy;
mod processed;
mod trade;
mod transport;

use super::subject::Subject;

/// Every subject, each equally likely.
pub(super) const SUBJECTS: &[&Subject] = &[
    &crops::CEREALS,
    &processed::WINE,
    &crops::FRUIT,
    &processed::SUGAR,
    &livestock::DAIRY,
    &livestock::MEAT,
    &fisheries::FISHERIES,
    &livestock::ANIMAL_HEALTH,
    &health::PLANT_HEALTH,
    &health::FOODSTUFFS,
    &health::MEDICINES,
    &health::WORKERS,
    &trade::CUSTOMS,
    &trade::DUMPING,
    &trade::TEXTILES,
    &policy::SANCTIONS,
    &transport::ROAD,
    &transport::AIR,
    &transport::SEA,
    &industry::VEHICLES,
    &industry::CHEMICALS,
    &industry::WASTE,
    &industry::ENERGY,
    &transport::TELECOMS,
    &finance::COMPETITION,
    &finance::STATE_AID,
    &policy::BUDGET,
    &policy::STATISTICS,
    &policy::RESEARCH,
    &finance::INSURANCE,
];

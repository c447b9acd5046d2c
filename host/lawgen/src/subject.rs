//! The shape of a subject: the phrases that make an act be about cereals rather than about ships.
//!
//! Phrases may hold placeholders in braces, which `expand` replaces. A subject is plain data.

use super::identity::ActKind;

/// The plot of an act, which decides its title, its kind and its opening articles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A Commission Regulation that fixes amounts per product code.
    Fix,
    /// A Regulation that opens tariff quotas.
    Quota,
    /// A Regulation or Directive that amends the basic act.
    Amend,
    /// A Regulation that lays down rules.
    Rules,
    /// A Directive that lays down rules for the Member States.
    Approximate,
    /// A Commission Decision addressed to one Member State.
    Grant,
    /// A Commission Regulation that stops an activity.
    Stop,
}

/// An act of general scope that other acts of the subject are based on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Base {
    /// Kind of the act.
    pub(super) kind: ActKind,
    /// Number within its year.
    pub(super) number: u64,
    /// Calendar year of adoption.
    pub(super) year: u32,
    /// Rest of the title, from `on` or `laying down` onwards.
    pub(super) matter: &'static str,
}

/// A Regulation of the Council as basic act.
pub(super) const fn regulation(number: u64, year: u32, matter: &'static str) -> Base {
    Base { kind: ActKind::Regulation, number, year, matter }
}

/// A Directive of the Council as basic act.
pub(super) const fn directive(number: u64, year: u32, matter: &'static str) -> Base {
    Base { kind: ActKind::Directive, number, year, matter }
}

/// The phrase tables of one subject.
#[derive(Debug)]
pub(super) struct Subject {
    /// Fits `the ... sector`.
    pub(super) sector: &'static str,
    /// Treaty article for the EEC, EC and EU Treaties.
    pub(super) treaty: [u32; 3],
    /// Committee that assists the Commission, without article.
    pub(super) committee: &'static str,
    /// First two digits of product codes.
    pub(super) chapter: u32,
    /// True if the things are goods, measured in tonnes and found under product codes; the quantities
    /// of other subjects are amounts of money.
    pub(super) goods: bool,
    /// The things that acts regulate; fits `as regards ...` and takes no article.
    pub(super) things: &'static [&'static str],
    /// Persons concerned, in the plural.
    pub(super) actors: &'static [&'static str],
    /// Aims; fits `in order to ...`.
    pub(super) goals: &'static [&'static str],
    /// Documents used, in the plural.
    pub(super) docs: &'static [&'static str],
    /// Definitions of terms, without closing punctuation.
    pub(super) terms: &'static [&'static str],
    /// Basic acts in ascending order of year; the first is older than any generated act.
    pub(super) bases: &'static [Base],
    /// Forms the subject can take, each with the end of the title.
    pub(super) titles: &'static [(Form, &'static str)],
    /// Recitals without closing punctuation, starting in lower case where a sentence would not.
    pub(super) recitals: &'static [&'static str],
    /// Whole sentences that can be a paragraph of an article.
    pub(super) rules: &'static [&'static str],
}

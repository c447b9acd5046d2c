//! Subjects of acts: the phrases (`phrases/subjects.txt`) that make an act be about cereals rather than about ships.

use std::sync::LazyLock;

use super::identity::ActKind;
use super::phrases::{self, Section};

/// Every subject, each equally likely.
pub(super) static SUBJECTS: LazyLock<Vec<Subject>> = LazyLock::new(|| {
    phrases::sections(include_str!("phrases/subjects.txt")).into_iter().map(Subject::read).collect()
});

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
    /// Kind of the act, one of the Council.
    pub(super) kind: ActKind,
    /// Number within its year.
    pub(super) number: u64,
    /// Calendar year of adoption.
    pub(super) year: u32,
    /// Rest of the title, from `on` or `laying down` onwards.
    pub(super) matter: &'static str,
}

/// One subject.
#[derive(Debug)]
pub(super) struct Subject {
    phrases: Section,
    /// Treaty article for the EEC, EC and EU Treaties.
    pub(super) treaty: Vec<u32>,
    /// First two digits of product codes.
    pub(super) chapter: u32,
    /// True if the things are goods, measured in tonnes and found under product codes; the quantities
    /// of other subjects are amounts of money.
    pub(super) goods: bool,
    /// Basic acts in ascending order of year; the first is older than any generated act.
    pub(super) bases: Vec<Base>,
    /// Forms the subject can take, each with the end of the title.
    pub(super) titles: Vec<(Form, &'static str)>,
}

impl Subject {
    fn read(phrases: Section) -> Self {
        Self {
            treaty: phrases.table("treaty").iter().filter_map(|article| article.parse().ok()).collect(),
            chapter: phrases.phrase("chapter").parse().unwrap_or_default(),
            goods: phrases.phrase("goods") == "yes",
            bases: phrases.table("bases").iter().filter_map(|line| base(line)).collect(),
            titles: phrases.table("titles").iter().filter_map(|line| title(line)).collect(),
            phrases,
        }
    }

    /// Fits `the ... sector`.
    pub(super) fn sector(&self) -> &'static str {
        self.phrases.name
    }

    /// Committee that assists the Commission, without article.
    pub(super) fn committee(&self) -> &'static str {
        self.phrases.phrase("committee")
    }

    /// The things that acts regulate; fits `as regards ...` and takes no article.
    pub(super) fn things(&self) -> &[&'static str] {
        self.phrases.table("things")
    }

    /// Persons concerned, in the plural.
    pub(super) fn actors(&self) -> &[&'static str] {
        self.phrases.table("actors")
    }

    /// Aims; fits `in order to ...`.
    pub(super) fn goals(&self) -> &[&'static str] {
        self.phrases.table("goals")
    }

    /// Documents used, in the plural.
    pub(super) fn docs(&self) -> &[&'static str] {
        self.phrases.table("docs")
    }

    /// Definitions of terms, without closing punctuation.
    pub(super) fn terms(&self) -> &[&'static str] {
        self.phrases.table("terms")
    }

    /// Recitals without closing punctuation, starting in lower case where a sentence would not.
    pub(super) fn recitals(&self) -> &[&'static str] {
        self.phrases.table("recitals")
    }

    /// Whole sentences that can be a paragraph of an article.
    pub(super) fn rules(&self) -> &[&'static str] {
        self.phrases.table("rules")
    }
}

/// Reads `regulation 161 1966 on the common organisation of the market in cereals`.
fn base(line: &'static str) -> Option<Base> {
    let mut words = line.splitn(4, ' ');
    let kind = match words.next()? {
        "regulation" => ActKind::Regulation,
        "directive" => ActKind::Directive,
        _ => return None,
    };
    let (number, year) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Base { kind, number, year, matter: words.next()? })
}

/// Reads `fix fixing the import levies on {things}`.
fn title(line: &'static str) -> Option<(Form, &'static str)> {
    let (form, end) = line.split_once(' ')?;
    let form = match form {
        "fix" => Form::Fix,
        "quota" => Form::Quota,
        "amend" => Form::Amend,
        "rules" => Form::Rules,
        "approximate" => Form::Approximate,
        "grant" => Form::Grant,
        "stop" => Form::Stop,
        _ => return None,
    };
    Some((form, end))
}

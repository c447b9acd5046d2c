//! The constants of one act: its identity, subject, product, country and plan.
//!
//! Keeping these fixed makes an act coherent and lets a reader predict a later passage from an
//! earlier one, which a language model with a long window should learn.

use super::identity::{self, ActKind, Date};
use super::lexicon;
use super::plan::{self, Planned};
use super::sampler::Sampler;
use super::subject::{Base, Form, SUBJECTS, Subject};

/// Another act that this one cites.
#[derive(Debug, Clone)]
pub(super) struct Cited {
    /// Name without institution, as in `Regulation (EC) No 12/1998`.
    pub(super) name: String,
    /// Day of adoption.
    pub(super) date: Date,
}

/// The state of one act while it is being written.
#[derive(Debug)]
pub(super) struct Context {
    /// Source of every draw.
    pub(super) sampler: Sampler,
    /// Phrase tables of the subject.
    pub(super) subject: &'static Subject,
    /// Plot of the act.
    pub(super) form: Form,
    /// End of the title, with placeholders.
    pub(super) title: &'static str,
    /// Kind of the act.
    pub(super) kind: ActKind,
    /// True for an act of the Commission, false for one of the Council.
    pub(super) by_commission: bool,
    /// Number within the year.
    pub(super) number: u64,
    /// Day of adoption.
    pub(super) date: Date,
    /// Act of general scope that this one rests on.
    pub(super) base: &'static Base,
    /// Article of the basic act that empowers, as in `14(2)`.
    pub(super) base_article: String,
    /// Acts cited besides the basic act; the first is its last amendment.
    pub(super) cited: Vec<Cited>,
    /// Products the act deals with, the main one first.
    pub(super) things: Vec<&'static str>,
    /// The documents the act speaks of.
    pub(super) docs: &'static str,
    /// Third country concerned.
    pub(super) country: &'static str,
    /// Member State concerned.
    pub(super) member_state: &'static str,
    /// Day on which the facts of the act were settled, before its adoption.
    pub(super) cutoff: Date,
    /// Day from which the act applies where it names one.
    pub(super) start: Date,
    /// Day on which the arrangements end where the act names one.
    pub(super) expiry: Date,
    /// The articles, with the number of paragraphs of each.
    pub(super) plan: Vec<Planned>,
    /// Number of annexes.
    pub(super) annexes: usize,
    /// Article being written, from 0.
    pub(super) article: usize,
    /// Paragraph being written, from 0.
    pub(super) paragraph: usize,
    /// The length of the act, from 0 to 4.
    pub(super) size: u32,
}

impl Context {
    /// Draws everything that is fixed for act `index` of `seed`.
    pub(super) fn new(seed: u64, index: u64) -> Self {
        let mut sampler = Sampler::new(seed, index);
        let (number, year) = identity::number_and_year(seed, index);
        let subject = &SUBJECTS[sampler.index(SUBJECTS.len())];
        let (form, title) = subject.titles[sampler.index(subject.titles.len())];
        let base = draw_base(&mut sampler, subject, year);
        let (kind, by_commission) = draw_kind(&mut sampler, form, base);
        let base_article = format!("{}({})", sampler.between(3, 28), sampler.between(1, 6));
        let cited = draw_cited(&mut sampler, base, year);
        let count = sampler.between(1, 4) as usize;
        let things = sampler.several(subject.things(), count);
        let size = draw_size(&mut sampler, form);
        let annexes = plan::annexes(&mut sampler, form, size);
        let date = Date::of_act(number, year);
        let start = date.first_of_month(sampler.between(1, 4));
        let plan = plan::draw(&mut sampler, form, kind, size, annexes);
        Self {
            subject,
            form,
            title,
            kind,
            by_commission,
            number,
            date,
            cutoff: date.minus(sampler.between(9, 150)),
            start,
            expiry: start.first_of_month(sampler.between(6, 36)),
            base,
            base_article,
            cited,
            things,
            docs: sampler.pick(subject.docs()),
            country: sampler.pick(lexicon::list("countries")),
            member_state: draw_member_state(&mut sampler, year),
            plan,
            annexes,
            article: 0,
            paragraph: 0,
            size,
            sampler,
        }
    }

    /// Calendar year of the act.
    pub(super) fn year(&self) -> u32 {
        self.date.year
    }

    /// The short name of the basic act.
    pub(super) fn base_name(&self) -> String {
        identity::short_name(self.base.kind, self.base.number, self.base.year)
    }

    /// The institution in running text.
    pub(super) fn institution(&self) -> &'static str {
        if self.by_commission { "Commission" } else { "Council" }
    }

    /// The main product.
    pub(super) fn thing(&self) -> &'static str {
        self.things.first().copied().unwrap_or("")
    }

    /// Draws a Member State among those that had acceded by the year of the act.
    pub(super) fn any_member_state(&mut self) -> &'static str {
        draw_member_state(&mut self.sampler, self.date.year)
    }
}

/// Draws a basic act older than the act itself, the latest one in most cases.
fn draw_base(sampler: &mut Sampler, subject: &'static Subject, year: u32) -> &'static Base {
    let older = subject.bases.iter().filter(|base| base.year < year).count().max(1);
    let place = if sampler.chance(75) { older - 1 } else { sampler.index(older) };
    &subject.bases[place]
}

/// Kind of the act and whether the Commission adopts it.
fn draw_kind(sampler: &mut Sampler, form: Form, base: &Base) -> (ActKind, bool) {
    match form {
        Form::Fix | Form::Stop => (ActKind::Regulation, true),
        Form::Quota => (ActKind::Regulation, sampler.chance(50)),
        Form::Amend => (base.kind, sampler.chance(70)),
        Form::Rules => (ActKind::Regulation, sampler.chance(60)),
        Form::Approximate => (ActKind::Directive, sampler.chance(25)),
        Form::Grant => (ActKind::Decision, true),
    }
}

/// Draws the other acts that are cited, all older than the act itself.
fn draw_cited(sampler: &mut Sampler, base: &Base, year: u32) -> Vec<Cited> {
    let count = sampler.between(2, 4);
    let mut cited = Vec::new();
    for place in 0..count {
        let age = sampler.between(1, 9);
        let other_year = if place == 0 { (year - age).max(base.year).min(year - 1) } else { year - age };
        let kind = match sampler.below(10) {
            _ if place == 0 => base.kind,
            0 => ActKind::Decision,
            1 | 2 => ActKind::Directive,
            _ => ActKind::Regulation,
        };
        let number = u64::from(sampler.between(1, 3000));
        let name = identity::short_name(kind, number, other_year);
        cited.push(Cited { name, date: Date::of_act(number, other_year) });
    }
    cited
}

/// Draws a size class; forms that are short in nature stay short.
fn draw_size(sampler: &mut Sampler, form: Form) -> u32 {
    let weights: [u32; 5] = match form {
        Form::Fix | Form::Stop => [55, 40, 5, 0, 0],
        Form::Quota => [15, 35, 40, 10, 0],
        Form::Amend => [30, 40, 25, 5, 0],
        Form::Grant => [20, 40, 30, 10, 0],
        Form::Rules | Form::Approximate => [5, 20, 35, 27, 13],
    };
    let mut rest = sampler.below(100);
    for (size, weight) in (0..).zip(weights) {
        if rest < weight {
            return size;
        }
        rest -= weight;
    }
    0
}

/// Draws a Member State that had acceded by `year`.
fn draw_member_state(sampler: &mut Sampler, year: u32) -> &'static str {
    sampler.pick(&lexicon::member_states(year))
}

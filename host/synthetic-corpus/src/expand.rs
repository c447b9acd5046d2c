//! Replaces the placeholders of a phrase by the facts of the act and by fresh draws.
//!
//! A placeholder is a name in braces. It is replaced by a fact of the act (`{this}`, `{thing}`), a value drawn anew
//! (`{tonnes}`, `{later}`, `{#3-30}` for a number in a range), a reference to an article of the same act (`{art}`) or
//! another phrase table (see `lexicon::alternatives`), whose phrases may hold placeholders in turn. An unknown name is
//! not replaced, which a test checks.

use super::context::Context;
use super::identity::{self, ActKind};
use super::lexicon;
use super::plan::Role;
use super::values;

/// Appends `phrase` to `out` with its placeholders replaced.
pub(super) fn expand(context: &mut Context, phrase: &str, out: &mut String) {
    let mut rest = phrase;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((name, tail)) = after.split_once('}') else {
            out.push('{');
            rest = after;
            continue;
        };
        replace(context, name, out);
        rest = tail;
    }
    out.push_str(rest);
}

/// Returns `phrase` with its placeholders replaced.
pub(super) fn expanded(context: &mut Context, phrase: &str) -> String {
    let mut out = String::new();
    expand(context, phrase, &mut out);
    out
}

/// Raises the first letter of `sentence`.
pub(super) fn capitalised(sentence: &str) -> String {
    let mut out = sentence.to_owned();
    if let Some(first) = out.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    out
}

/// Appends the text of one placeholder.
fn replace(context: &mut Context, name: &str, out: &mut String) {
    let alternatives = lexicon::alternatives(name);
    if !alternatives.is_empty() {
        let phrase = context.sampler.pick(alternatives);
        expand(context, phrase, out);
    } else if let Some(range) = name.strip_prefix('#') {
        number(context, range, out);
    } else if let Some(text) = fact(context, name).or_else(|| subject_draw(context, name)) {
        out.push_str(&text);
    } else if let Some(text) = value(context, name).or_else(|| reference(context, name)) {
        out.push_str(&text);
    } else if !points(context, name, out) {
        out.push('{');
        out.push_str(name);
        out.push('}');
    }
}

/// Appends a number drawn from a range written `low-high`.
fn number(context: &mut Context, range: &str, out: &mut String) {
    let (low, high) = range.split_once('-').unwrap_or((range, range));
    if let (Ok(low), Ok(high)) = (low.parse(), high.parse()) {
        out.push_str(&values::grouped(context.sampler.between(low, high)));
    }
}

/// A fact of the act, the same wherever it is named.
fn fact(context: &Context, name: &str) -> Option<String> {
    let union = context.year() >= 2010;
    Some(match name {
        "this" => format!("this {}", context.kind.word()),
        "This" => format!("This {}", context.kind.word()),
        "inst" => context.institution().to_owned(),
        "com" => if union { "Union" } else { "Community" }.to_owned(),
        "journal" if context.year() >= 2003 => "Official Journal of the European Union".to_owned(),
        "journal" => "Official Journal of the European Communities".to_owned(),
        "sector" => context.subject.sector().to_owned(),
        "committee" => context.subject.committee().to_owned(),
        "thing" => context.thing().to_owned(),
        "things" => joined(&context.things),
        "docs" => context.docs.to_owned(),
        "country" => context.country.to_owned(),
        "ms" => context.member_state.to_owned(),
        "base" => context.base_name(),
        "basekind" => context.base.kind.word().to_owned(),
        "basetitle" => base_title(context),
        "basearticle" => format!("Article {}", context.base_article),
        "addressee" if context.kind == ActKind::Decision => context.member_state.to_owned(),
        "addressee" => "the Member States".to_owned(),
        "measure" if context.subject.goods => "tonnes".to_owned(),
        "measure" => values::currency(context.year()).to_owned(),
        "cutoff" => context.cutoff.words(),
        "start" => context.start.words(),
        "expiry" => context.expiry.words(),
        "newline" => "\n".to_owned(),
        "currency" => values::currency(context.year()).to_owned(),
        "year" => context.year().to_string(),
        "nextyear" => (context.year() + 1).to_string(),
        "lastyear" => (context.year() - 1).to_string(),
        _ => return None,
    })
}

/// A draw from the tables of the subject or of the act.
fn subject_draw(context: &mut Context, name: &str) -> Option<String> {
    let subject = context.subject;
    let sampler = &mut context.sampler;
    Some(match name {
        "actors" => sampler.pick(subject.actors()).to_owned(),
        "goal" => sampler.pick(subject.goals()).to_owned(),
        "thing2" => sampler.pick(&context.things).to_owned(),
        "other" => sampler.pick(subject.things()).to_owned(),
        "anyms" => context.any_member_state().to_owned(),
        "actorsub" => capitalised(sampler.pick(subject.actors())),
        "docsub" => capitalised(context.docs),
        "anycountry" => sampler.pick(lexicon::list("countries")).to_owned(),
        "rel" => {
            let place = sampler.index(context.cited.len());
            context.cited.get(place)?.name.clone()
        }
        _ => return None,
    })
}

/// A value drawn anew at each place.
fn value(context: &mut Context, name: &str) -> Option<String> {
    let (date, year) = (context.date, context.year());
    let sampler = &mut context.sampler;
    Some(match name {
        "later" if sampler.chance(70) => date.first_of_month(sampler.between(1, 18)).words(),
        "later" => date.plus(sampler.between(5, 700)).words(),
        "earlier" => date.minus(sampler.between(5, 900)).words(),
        "tonnes" if !context.subject.goods => {
            format!("{} {}", values::currency(year), values::grouped(values::round_quantity(sampler)))
        }
        "tonnes" => format!("{} tonnes", values::grouped(values::round_quantity(sampler))),
        "quantity" => values::grouped(values::round_quantity(sampler)),
        "pct" => values::percentage(sampler),
        "money" => {
            format!("{} {}", values::currency(year), values::grouped(values::round_quantity(sampler)))
        }
        "rate" => format!("{} {} per tonne", values::currency(year), values::unit_amount(sampler, 400)),
        "code" if !context.subject.goods => format!("No {}", sampler.between(100, 999)),
        "code" => {
            let thing = sampler.pick(&context.things);
            values::product_code(sampler, context.subject.chapter, thing)
        }
        _ => return None,
    })
}

/// A reference to an article, of this act or of the basic act.
fn reference(context: &mut Context, name: &str) -> Option<String> {
    Some(match name {
        "art" => article(context, None),
        "arts" => articles(context),
        "art-committee" => article(context, Some(Role::Committee)),
        "art-checks" => article(context, Some(Role::Checks)),
        "art-application" => article(context, Some(Role::Application)),
        "art-annexes" => article(context, Some(Role::Annexes)),
        "art-scope" => article(context, Some(Role::Scope)),
        "par" => format!("paragraph {}", 1 + context.sampler.index(context.paragraph.max(1))),
        // An article of the basic act. The phrase around it must go on with `of` and the act's name.
        "oart" if context.sampler.chance(30) => format!("Article {}", context.base_article),
        "oart" if context.sampler.chance(40) => format!("Article {}", context.sampler.between(2, 30)),
        "oart" => format!("Article {}({})", context.sampler.between(2, 30), context.sampler.between(1, 7)),
        "annex-sub" => capitalised(&reference(context, "annex")?),
        "annex" if context.annexes < 2 => "the Annex".to_owned(),
        "annex" => format!("Annex {}", values::roman(1 + context.sampler.index(context.annexes))),
        _ => return None,
    })
}

/// Names another article of this act, one of the given role if the plan has it.
fn article(context: &mut Context, role: Option<Role>) -> String {
    let wanted = |place: usize| role.is_none_or(|role| context.plan[place].role == role);
    let others = || (0..context.plan.len()).filter(|place| *place != context.article);
    let mut choices: Vec<usize> = others().filter(|place| wanted(*place)).collect();
    if role.is_none() || choices.is_empty() {
        // Articles on entry into force and the like make poor targets, so they come last.
        choices = others().filter(|place| !context.plan[*place].role.is_formal()).collect();
    }
    if choices.is_empty() {
        choices = others().collect();
    }
    let Some(place) = choices.get(context.sampler.index(choices.len())).copied() else {
        return "this Article".to_owned();
    };
    let paragraphs = context.plan[place].paragraphs;
    if paragraphs > 1 && context.sampler.chance(60) {
        return format!("Article {}({})", place + 1, 1 + context.sampler.index(paragraphs));
    }
    format!("Article {}", place + 1)
}

/// Names two articles of this act or a run of them.
fn articles(context: &mut Context) -> String {
    let len = context.plan.len();
    if len < 4 {
        return article(context, None);
    }
    let first = 1 + context.sampler.index(len - 2);
    let last = context.sampler.between(first as u32 + 1, len as u32);
    let link = if last as usize > first + 1 { "to" } else { "and" };
    format!("Articles {first} {link} {last}")
}

/// Appends a lettered list if `name` asks for one; returns whether it did.
fn points(context: &mut Context, name: &str, out: &mut String) -> bool {
    let table = match name {
        "particulars" => lexicon::list("particulars"),
        "conditions" => lexicon::list("conditions"),
        "duties" => lexicon::list("duties"),
        "terms" => context.subject.terms(),
        _ => return false,
    };
    let count = context.sampler.between(2, 4 + context.size.min(2)) as usize;
    let chosen = context.sampler.several(table, count);
    for (place, point) in chosen.iter().enumerate() {
        out.push_str(&format!("\n({}) ", values::letter(place)));
        expand(context, point, out);
        out.push_str(if place + 1 == chosen.len() { "." } else { ";" });
    }
    true
}

/// The full name of the basic act, with date and matter.
fn base_title(context: &Context) -> String {
    let base = context.base;
    let date = identity::Date::of_act(base.number, base.year).words();
    let institution = if base.kind == ActKind::Decision { "Commission" } else { "Council" };
    format!("{institution} {} of {date} {}", context.base_name(), base.matter)
}

/// Joins names as `a, b and c`.
fn joined(names: &[&str]) -> String {
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => (*only).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

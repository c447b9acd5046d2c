//! The articles of an act, its closing formula, place, date and signature.

use super::articles::{self, Wording};
use super::context::Context;
use super::expand::{capitalised, expand, expanded};
use super::identity::ActKind;
use super::lexicon;
use super::plan::Role;

/// Appends the articles and everything up to the signature.
pub(super) fn write(context: &mut Context, out: &mut String) {
    // Long acts tend to give their articles titles, and then all of them have one.
    let titled = context.size >= 2 && context.sampler.chance(55);
    let mut used = Vec::new();
    for place in 0..context.plan.len() {
        context.article = place;
        out.push_str(&format!("Article {}\n", place + 1));
        let planned = context.plan[place];
        let wording = articles::wording(planned.role);
        if titled {
            let title = context.sampler.pick(wording.titles);
            expand(context, title, out);
            out.push('\n');
        }
        for paragraph in 0..planned.paragraphs {
            context.paragraph = paragraph;
            if planned.paragraphs > 1 {
                out.push_str(&format!("{}. ", paragraph + 1));
            }
            write_paragraph(context, planned.role, &wording, &mut used, out);
        }
    }
    closing(context, out);
}

/// Appends one paragraph, from the tables of the article's role or from those of the subject.
fn write_paragraph(
    context: &mut Context,
    role: Role,
    wording: &Wording,
    used: &mut Vec<&'static str>,
    out: &mut String,
) {
    // The subject has few rules of its own; once they are spent, general ones take over.
    let spent = context.subject.rules().iter().all(|rule| used.contains(rule));
    let own = role == Role::Substance && !spent && context.sampler.chance(60);
    let table = match context.paragraph {
        _ if own => context.subject.rules(),
        0 => wording.first,
        // The two paragraphs of these articles belong together and have a fixed order.
        1 if role == Role::Committee || role == Role::Transposition => wording.later,
        1.. if role == Role::Annexes || wording.later.is_empty() => wording.first,
        _ if context.sampler.chance(25) => articles::later(),
        _ => wording.later,
    };
    let phrase = fresh(context, table, used);
    let paragraph = if role == Role::Annexes && context.annexes > 1 {
        // Each paragraph of this article speaks of the annex of its own number.
        let annex = format!("Annex {}", super::values::roman(context.paragraph + 1));
        expanded(context, &phrase.replace("{annex}", &annex).replace("{annex-sub}", &annex))
    } else {
        expanded(context, phrase)
    };
    let list = paragraph.contains('\n');
    out.push_str(&capitalised(&paragraph));
    let tail_allowed =
        !list && matches!(role, Role::Substance | Role::Application | Role::Checks | Role::Security);
    if tail_allowed && context.sampler.chance(25) {
        out.push(' ');
        let tail = fresh(context, articles::tails(), used);
        let tail = expanded(context, tail);
        out.push_str(&capitalised(&tail));
    }
    out.push('\n');
}

/// Draws a phrase the act has not used yet, or any once the table is spent.
fn fresh(context: &mut Context, table: &[&'static str], used: &mut Vec<&'static str>) -> &'static str {
    let unused: Vec<&'static str> = table.iter().copied().filter(|phrase| !used.contains(phrase)).collect();
    let phrase = context.sampler.pick(if unused.is_empty() { table } else { &unused });
    used.push(phrase);
    phrase
}

/// Appends the final formula, place and date, and the signature.
fn closing(context: &mut Context, out: &mut String) {
    if context.kind == ActKind::Regulation {
        expand(
            context,
            "{This} shall be binding in its entirety and directly applicable in all Member States.\n",
            out,
        );
    }
    let place = if !context.by_commission && context.sampler.chance(35) { "Luxembourg" } else { "Brussels" };
    let (date, signatory) = (context.date.words(), context.sampler.pick(lexicon::list("signatories")));
    out.push_str(&format!("Done at {place}, {date}.\n"));
    if context.by_commission {
        let role = if context.sampler.chance(20) { "The President" } else { "Member of the Commission" };
        out.push_str(&format!("For the Commission\n{signatory}\n{role}\n"));
    } else {
        out.push_str(&format!("For the Council\nThe President\n{signatory}\n"));
    }
}

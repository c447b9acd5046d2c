//! The reasons of an act: its recitals (`phrases/recitals.txt`) and their order.
//!
//! Recitals of the form come first, those of the subject and general ones follow in a mixed order,
//! and the one on the committee comes last.

use std::sync::LazyLock;

use super::context::Context;
use super::expand::expanded;
use super::phrases::{self, File};
use super::subject::Form;

static RECITALS: File = LazyLock::new(|| phrases::by_name(include_str!("phrases/recitals.txt")));

/// Draws the recitals of an act, each as one or two clauses without closing punctuation.
pub(super) fn draw(context: &mut Context) -> Vec<Vec<String>> {
    let size = context.size;
    let count =
        context.sampler.between([1, 2, 4, 7, 11][size as usize % 5], [2, 5, 8, 13, 18][size as usize % 5]);
    let opening = usize::from(size > 0) + 1;
    let mut phrases = context.sampler.several(form_recitals(context.form), opening);
    let mut pool = context.subject.recitals().to_vec();
    let general = context.sampler.several(all("general"), count as usize * 2 / 3);
    pool.extend(general);
    context.sampler.shuffle(&mut pool);
    phrases.extend(pool.into_iter().take((count as usize).saturating_sub(opening)));
    if context.by_commission && context.sampler.chance(75) {
        phrases.push(context.sampler.pick(all("committee")));
    }
    phrases.into_iter().map(|phrase| recital(context, phrase)).collect()
}

/// Expands one recital and sometimes adds a clause that draws the consequence.
fn recital(context: &mut Context, phrase: &'static str) -> Vec<String> {
    let mut clauses = vec![expanded(context, phrase)];
    if context.sampler.chance(22) && !phrase.contains("{committee}") {
        let consequence = context.sampler.pick(all("consequences"));
        clauses.push(expanded(context, consequence));
    }
    clauses
}

/// Recitals that belong to the form of the act.
fn form_recitals(form: Form) -> &'static [&'static str] {
    let name = match form {
        Form::Fix => "fix",
        Form::Quota => "quota",
        Form::Amend => "amend",
        Form::Rules | Form::Approximate => "rules",
        Form::Grant => "grant",
        Form::Stop => "stop",
    };
    phrases::table(&RECITALS, "forms", name)
}

/// Recitals of acts of any form.
fn all(table: &str) -> &'static [&'static str] {
    phrases::table(&RECITALS, "all", table)
}

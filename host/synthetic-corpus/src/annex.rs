//! The annexes of an act: tables of codes, quantities, shares and addresses, and the footnotes.

use super::context::Context;
use super::expand::expanded;
use super::lexicon;
use super::subject::Form;
use super::values;

/// Appends every annex of the plan and then the notes on the acts cited.
pub(super) fn write(context: &mut Context, out: &mut String) {
    // A reference from an annex may name any article, so no article counts as the current one.
    context.article = context.plan.len();
    // Annexes of one act take turns through the kinds of table. Only goods have amounts per code.
    let kinds = if context.subject.goods { 4 } else { 3 };
    let first = context.sampler.index(kinds);
    for place in 0..context.annexes {
        if context.annexes > 1 {
            out.push_str(&format!("ANNEX {}\n", values::roman(place + 1)));
        } else {
            out.push_str("ANNEX\n");
        }
        let choice = (first + place) % kinds;
        match (context.form, choice) {
            (Form::Fix, _) => amounts(context, out),
            (Form::Quota, _) if place == 0 => quotas(context, out),
            (_, 0) => shares(context, out),
            (_, 1) => model(context, out),
            (_, 2) => limits(context, out),
            _ => amounts(context, out),
        }
    }
    notes(context, out);
}

/// Number of rows of a table, larger in longer acts.
fn rows(context: &mut Context) -> u32 {
    let size = context.size;
    context.sampler.between(3, 6 + 4 * size)
}

/// Amounts per product code.
fn amounts(context: &mut Context, out: &mut String) {
    let currency = values::currency(context.year());
    let heading = expanded(context, "Amounts applicable to {things} from {start}\n");
    out.push_str(&heading);
    out.push_str(&format!("CN code | Description | Amount ({currency}/100 kg)\n"));
    let limit = [20, 60, 150, 400][context.sampler.index(4)];
    for _ in 0..rows(context) {
        let thing = context.sampler.pick(&context.things);
        let code = values::product_code(&mut context.sampler, context.subject.chapter, thing);
        let amount = values::unit_amount(&mut context.sampler, limit);
        out.push_str(&format!("{code} | {thing} | {amount}\n"));
    }
}

/// Tariff quotas with consecutive order numbers.
fn quotas(context: &mut Context, out: &mut String) {
    let heading = expanded(context, "Tariff quotas for products originating in {country}\n");
    out.push_str(&heading);
    out.push_str("Order No | CN code | Description | Quota volume (tonnes) | Quota duty\n");
    let first = context.sampler.between(1000, 8900);
    for row in 0..rows(context) {
        let thing = context.sampler.pick(&context.things);
        let code = values::product_code(&mut context.sampler, context.subject.chapter, thing);
        let volume = values::grouped(values::round_quantity(&mut context.sampler));
        let duty = values::percentage(&mut context.sampler);
        let order = first + row;
        out.push_str(&format!("09.{order} | {code} | {thing} | {volume} | {duty}\n"));
    }
}

/// Shares per Member State with their true total.
fn shares(context: &mut Context, out: &mut String) {
    let heading =
        expanded(context, "Allocation of the quantities of {thing2} among the Member States ({measure})\n");
    out.push_str(&heading);
    let scale = [1, 10, 50, 100, 500][context.sampler.index(5)];
    let mut total = 0;
    for name in lexicon::member_states(context.year()) {
        if context.sampler.chance(25) {
            continue;
        }
        let share = scale * context.sampler.between(1, 999);
        total += share;
        let name = name.strip_prefix("the ").unwrap_or(name);
        out.push_str(&format!("{name} | {}\n", values::grouped(share)));
    }
    out.push_str(&format!("Total | {}\n", values::grouped(total)));
}

/// The particulars a document must contain, numbered.
fn model(context: &mut Context, out: &mut String) {
    let heading = expanded(context, "Particulars to be entered in the {docs}\n");
    out.push_str(&heading);
    let count = context.sampler.between(4, 9) as usize;
    let chosen = context.sampler.several(lexicon::list("particulars"), count);
    for (place, phrase) in chosen.into_iter().enumerate() {
        let point = expanded(context, phrase);
        out.push_str(&format!("{}. {}.\n", place + 1, super::expand::capitalised(&point)));
    }
}

/// Limit values per product, each lower limit below its upper limit.
fn limits(context: &mut Context, out: &mut String) {
    let heading = expanded(context, "Limits referred to in {art-annexes}\n");
    out.push_str(&heading);
    out.push_str("No | Description | Minimum | Maximum\n");
    for row in 0..rows(context) {
        let thing = context.sampler.pick(context.subject.things());
        let low = context.sampler.between(1, 60);
        let high = low + context.sampler.between(1, 90);
        let parts = context.sampler.below(10);
        out.push_str(&format!("{} | {thing} | {low},{parts} | {high},{parts}\n", row + 1));
    }
}

/// Notes that say where the acts cited were published, in the order of citation.
fn notes(context: &mut Context, out: &mut String) {
    let cited = std::mem::take(&mut context.cited);
    for (place, act) in cited.iter().enumerate().take(1 + context.size as usize) {
        let published = act.date.plus(context.sampler.between(1, 9));
        let series = context.sampler.between(1, 380);
        let page = context.sampler.between(1, 90);
        let day = published.figures();
        out.push_str(&format!("({}) {}: OJ L {series}, {day}, p. {page}.\n", place + 1, act.name));
    }
}

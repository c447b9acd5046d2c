//! The part of an act before its articles: title, institution, citations, recitals and the formula.

use super::context::Context;
use super::expand::{capitalised, expand, expanded};
use super::identity::{community, short_name};
use super::recitals;

/// Returns the title on one line: institution, kind, number, date and matter.
pub(super) fn title(context: &mut Context) -> String {
    let name = short_name(context.kind, context.number, context.year());
    let name = name.replacen(context.kind.word(), &context.kind.word().to_ascii_uppercase(), 1);
    let institution = context.institution().to_ascii_uppercase();
    let matter = expanded(context, context.title);
    format!("{institution} {name} of {} {matter}", context.date.words())
}

/// Appends everything between the title and the first article.
pub(super) fn write(context: &mut Context, out: &mut String) {
    out.push_str(institution_line(context));
    citations(context, out);
    write_recitals(context, out);
    out.push_str(&format!("HAS ADOPTED THIS {}:\n", context.kind.word().to_ascii_uppercase()));
}

/// The institution in the form it had in the year of the act.
fn institution_line(context: &Context) -> &'static str {
    match (context.by_commission, context.year()) {
        (true, ..=2009) => "THE COMMISSION OF THE EUROPEAN COMMUNITIES,\n",
        (true, _) => "THE EUROPEAN COMMISSION,\n",
        (false, ..=1992) => "THE COUNCIL OF THE EUROPEAN COMMUNITIES,\n",
        (false, _) => "THE COUNCIL OF THE EUROPEAN UNION,\n",
    }
}

/// Appends the citations: the Treaty, the basic act and, for the Council, the bodies heard.
fn citations(context: &mut Context, out: &mut String) {
    let (treaty, article) = match community(context.year()) {
        "EEC" => ("Treaty establishing the European Economic Community", context.subject.treaty[0]),
        "EC" => ("Treaty establishing the European Community", context.subject.treaty[1]),
        _ => ("Treaty on the Functioning of the European Union", context.subject.treaty[2]),
    };
    if context.by_commission {
        out.push_str(&format!("Having regard to the {treaty},\n"));
        let amended = if context.sampler.chance(55) { last_amendment(context) } else { String::new() };
        let base = expanded(context, "{basetitle}");
        let article = &context.base_article;
        out.push_str(&format!(
            "Having regard to {base}{amended}, and in particular Article {article} thereof,\n"
        ));
    } else {
        out.push_str(&format!(
            "Having regard to the {treaty}, and in particular Article {article} thereof,\n"
        ));
        if context.sampler.chance(40) {
            expand(context, "Having regard to {basetitle},\n", out);
        }
        out.push_str("Having regard to the proposal from the Commission,\n");
        if context.sampler.chance(70) {
            out.push_str("Having regard to the opinion of the European Parliament,\n");
        }
        if context.sampler.chance(40) {
            out.push_str("Having regard to the opinion of the Economic and Social Committee,\n");
        }
    }
    if context.by_commission && context.sampler.chance(20) {
        expand(context, "After consulting the {committee},\n", out);
    }
}

/// Names the last amendment of the basic act.
fn last_amendment(context: &Context) -> String {
    context.cited.first().map(|cited| format!(", as last amended by {}", cited.name)).unwrap_or_default()
}

/// Appends the recitals in the style of the year: clauses that each start with `Whereas` before
/// 1998, numbered sentences after it.
fn write_recitals(context: &mut Context, out: &mut String) {
    let recitals = recitals::draw(context);
    let numbered = context.year() >= 1998;
    if numbered {
        out.push_str("Whereas:\n");
    }
    for (place, clauses) in recitals.iter().enumerate() {
        let last = place + 1 == recitals.len();
        if numbered {
            let sentences: Vec<String> = clauses.iter().map(|clause| capitalised(clause)).collect();
            let end = if last { "," } else { "." };
            out.push_str(&format!("({}) {}{end}\n", place + 1, sentences.join(". ")));
        } else {
            let end = if last { "," } else { ";" };
            out.push_str(&format!("Whereas {}{end}\n", clauses.join("; whereas ")));
        }
    }
}

//! The wording of articles by role: opening articles here, the others in two sibling tables.
//!
//! A phrase is a whole paragraph with its final stop. References written `{oart}` belong to another
//! act and must go on with `of` and its name; references written `{art}` belong to this act.

use super::{endings, plan::Role, procedures, wording::Wording};

/// Returns the phrases of `role`.
pub(super) fn wording(role: Role) -> Wording {
    match role {
        Role::Fixing => FIXING,
        Role::Opening => OPENING,
        Role::Amending => AMENDING,
        Role::Granting => GRANTING,
        Role::Stopping => STOPPING,
        Role::Scope => SCOPE,
        Role::Definitions => DEFINITIONS,
        Role::Substance => procedures::SUBSTANCE,
        Role::Application => procedures::APPLICATION,
        Role::Security => procedures::SECURITY,
        Role::Checks => procedures::CHECKS,
        Role::Notification => procedures::NOTIFICATION,
        Role::Derogation => procedures::DEROGATION,
        Role::Penalties => procedures::PENALTIES,
        Role::Records => procedures::RECORDS,
        Role::Financing => procedures::FINANCING,
        Role::Confidentiality => procedures::CONFIDENTIALITY,
        Role::Annexes => endings::ANNEXES,
        Role::Committee => endings::COMMITTEE,
        Role::Review => endings::REVIEW,
        Role::Transition => endings::TRANSITION,
        Role::Repeal => endings::REPEAL,
        Role::Transposition => endings::TRANSPOSITION,
        Role::Entry => endings::ENTRY,
        Role::Addressees => endings::ADDRESSEES,
    }
}

const FIXING: Wording = Wording {
    titles: &["Amounts"],
    first: &[
        "The amounts referred to in {oart} of {base}, applicable to {things}, shall be as set out in the \
         Annex to {this}.",
        "For {things}, the amounts provided for in {oart} of {base} are hereby fixed in accordance with the \
         Annex hereto.",
        "The amounts applicable from {start} to {things} are hereby fixed as shown in the Annex.",
        "The amounts fixed in the Annex to {rel} for {things} are hereby altered to the amounts set out in \
         the Annex to {this}.",
    ],
    later: &[
        "For {thing2} originating in {country}, the amount referred to in {par} shall be reduced by {pct}.",
        "No amount shall be charged on quantities not exceeding {#2-90} kilograms.",
        "The amounts may be altered in the intervening period if {situation} shows a {#5-15} % change.",
    ],
};

const OPENING: Wording = Wording {
    titles: &["Opening of the quotas", "Tariff quotas"],
    first: &[
        "From {start}, the customs duties applicable to imports into the {com} of {things} originating in \
         {country} shall be suspended at the levels and within the limits shown in {annex}.",
        "A tariff quota of {tonnes} of {things} originating in {country} is hereby opened each year at a \
         duty of {pct}.",
        "For the period from {start} to {expiry}, the quotas listed in {annex} are hereby opened for \
         {things} originating in {country}.",
    ],
    later: &[
        "The quotas referred to in {par} shall be administered by the Commission, which may take any \
         measure needed for efficient administration.",
        "Within the quotas referred to in {par}, duties shall be reduced by {pct} for products presented \
         with {docs}.",
        "Quantities not used by {expiry} shall be added to the quota of the following year, up to a limit \
         of {pct}.",
        "The order number, the code and the volume of each quota are set out in {annex}.",
        "Drawings shall be granted in the order in which the declarations are accepted and to the extent \
         that the balance permits.",
    ],
};

const AMENDING: Wording = Wording {
    titles: &["Amendment", "Amendments to {base}"],
    first: &[
        "In {oart} of {base}, the date '{earlier}' is replaced by '{later}'.",
        "In {oart} of {base}, the words '{thing2}' are replaced by the words '{thing2} and {other}'.",
        "The following subparagraph is added to {oart} of {base}:\n'However, as regards {thing2}, the \
         period shall be extended by {months}.'",
        "{oart} of {base} is replaced by the following:\n'The quantity of {thing2} shall not exceed \
         {tonnes} per {period}.'",
        "{oart} of {base} is hereby deleted with effect from {later}.",
        "In {oart} of {base}, the figure '{pct}' is replaced by '{pct}'.",
        "{oart} of {base} is replaced by the following:\n'{shallms} communicate to the Commission, \
         {deadline}, the quantities of {thing2} concerned.'",
        "In the Annex to {base}, the following entry is inserted for {ms}:\n'{thing2} | {code} | {tonnes}'.",
        "In {oart} of {base}, the amount '{money}' is replaced by '{money}' as regards {thing2}.",
    ],
    later: &[],
};

const GRANTING: Wording = Wording {
    titles: &["Subject matter", "Decision"],
    first: &[
        "{ms} is hereby authorised to apply, until {expiry}, the measures notified on {cutoff} as regards \
         {things}.",
        "The measures which {ms} intends to take as regards {things}, as notified on {cutoff}, are approved \
         for a period of {months}.",
        "By way of derogation from {oart} of {base}, {ms} may permit {thing} until {expiry}, subject to the \
         conditions laid down in {art}.",
        "The financial contribution of the {com} to the programme submitted by {ms} for {things} is hereby \
         fixed at {pct} of the eligible expenditure, up to a maximum of {money}.",
        "The aid which {ms} plans to grant to {actors} as regards {things}, amounting to {money}, is \
         subject to the following conditions:{conditions}",
    ],
    later: &[
        "The authorisation referred to in {par} shall apply to a maximum quantity of {tonnes} per {period}.",
        "{ms} shall inform the Commission {deadline} of the use made of the possibility provided for in \
         {par}.",
        "The measures referred to in {par} shall be applied only where the following conditions are \
         met:{conditions}",
        "The amount actually paid shall not exceed {pct} of the costs borne by {actors}.",
    ],
};

const STOPPING: Wording = Wording {
    titles: &["Prohibition"],
    first: &[
        "The quantities of {thing} allocated to {ms} for {year} are deemed to be exhausted with effect from \
         {cutoff}.",
        "From {start}, no further applications relating to {thing} shall be accepted from {actors} \
         established in {ms}.",
        "Operations relating to {thing} carried out by {actors} established in {ms} are prohibited from the \
         date of entry into force of {this}.",
    ],
    later: &[
        "The prohibition laid down in {par} shall also cover the keeping and the sale of the quantities \
         concerned after that date.",
        "{par} of this Article shall not apply below a limit of {tonnes}.",
        "{ms} shall inform the Commission, within {days} days, of the measures taken to comply with {par}.",
    ],
};

const SCOPE: Wording = Wording {
    titles: &["Scope", "Subject matter and scope", "Aim"],
    first: &[
        "{This} lays down {rulelevel} for the application of {base} as regards {things}.",
        "{This} shall apply to {things} intended to be placed on the market in the {com}.",
        "{This} establishes {rulelevel} for {things}, {purpose}.",
        "The arrangements provided for in {this} shall apply from {start} to {things} and to the {actors} \
         concerned by them.",
    ],
    later: &[
        "{This} shall not apply to {other} in quantities not exceeding {tonnes} per {period}.",
        "{This} shall apply without prejudice to {rel}.",
        "{rel} shall remain applicable to matters not governed by {this}.",
        "{This} shall not affect the right of Member States to adopt stricter rules for {thing2} \
         established on their territory.",
    ],
};

const DEFINITIONS: Wording = Wording {
    titles: &["Definitions"],
    first: &[
        "For the purposes of {this}:{terms}",
        "For the purposes of {this}, the following definitions shall apply:{terms}",
        "In addition to the definitions laid down in {oart} of {base}, the following terms are used:{terms}",
    ],
    later: &[],
};

/// Paragraphs that fit after the first one in any article that has several.
pub(super) const LATER: &[&str] = &[
    "The measures needed for the application of {par} shall be adopted in accordance with {procedure}.",
    "{shallms} take the steps required to comply with {par} {deadline}.",
    "{par} of this Article shall apply from {later}.",
    "The provisions of {art} shall apply by analogy to the cases referred to in {par}.",
    "Where {par} is not complied with, {art} shall apply.",
    "{unless}the Commission may extend the periods referred to in {par} by not more than {months}.",
    "In exceptional cases, {authorities} may waive the requirements of {par}, provided that {goalclause}.",
    "The costs resulting from {par} shall be borne by the {actors} concerned.",
];

/// Sentences that may follow another one within a paragraph.
pub(super) const TAILS: &[&str] = &[
    "They shall inform the Commission thereof {deadline}.",
    "That period may be extended by {months} in duly justified cases.",
    "The {docs} shall be endorsed accordingly.",
    "That percentage shall be increased to {pct} for {other}.",
    "{art} shall apply where necessary.",
    "Account shall be taken of the need to {goal}.",
    "This shall not apply below a limit of {tonnes}.",
    "Proof thereof shall be kept for {years} years.",
];

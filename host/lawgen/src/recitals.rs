//! The reasons of an act: its recitals and their order.
//!
//! Recitals of the form come first, those of the subject and general ones follow in a mixed order,
//! and the one on the committee comes last.

use super::context::Context;
use super::expand::expanded;
use super::subject::Form;

/// Draws the recitals of an act, each as one or two clauses without closing punctuation.
pub(super) fn draw(context: &mut Context) -> Vec<Vec<String>> {
    let size = context.size;
    let count =
        context.sampler.between([1, 2, 4, 7, 11][size as usize % 5], [2, 5, 8, 13, 18][size as usize % 5]);
    let opening = usize::from(size > 0) + 1;
    let mut phrases = context.sampler.several(form_recitals(context.form), opening);
    let mut pool = context.subject.recitals.to_vec();
    let general = context.sampler.several(GENERAL, count as usize * 2 / 3);
    pool.extend(general);
    context.sampler.shuffle(&mut pool);
    phrases.extend(pool.into_iter().take((count as usize).saturating_sub(opening)));
    if context.by_commission && context.sampler.chance(75) {
        phrases.push(context.sampler.pick(COMMITTEE));
    }
    phrases.into_iter().map(|phrase| recital(context, phrase)).collect()
}

/// Expands one recital and sometimes adds a clause that draws the consequence.
fn recital(context: &mut Context, phrase: &'static str) -> Vec<String> {
    let mut clauses = vec![expanded(context, phrase)];
    if context.sampler.chance(22) && !phrase.contains("{committee}") {
        let consequence = context.sampler.pick(CONSEQUENCES);
        clauses.push(expanded(context, consequence));
    }
    clauses
}

/// Recitals that belong to the form of the act.
fn form_recitals(form: Form) -> &'static [&'static str] {
    match form {
        Form::Fix => &[
            "{oart} of {base} provides that the amounts applicable to {things} are to be fixed at regular \
             intervals",
            "the rules laid down in {rel} for calculating the amounts lead to the figures set out in the \
             Annex to {this}",
            "the trend of {situation} on the world market in {thing} requires the amounts to be altered as \
             shown in the Annex",
            "the amounts last fixed for {thing} by {rel} no longer correspond to the market situation",
        ],
        Form::Quota => &[
            "the Agreement with {country} provides for the opening of annual tariff quotas for {things} \
             originating in that country",
            "the {com} has undertaken to open, for the year {nextyear}, tariff quotas at reduced duty for \
             {things}",
            "equal and continuous access to the quotas should be ensured for all {com} importers until the \
             quotas are exhausted",
            "production of {thing} in the {com} is at present insufficient to meet the needs of the \
             processing industries",
        ],
        Form::Amend => &[
            "experience has shown that certain provisions of {base} need to be adapted as regards {things}",
            "{basearticle} of {base} should be brought into line with the changes made by {rel}",
            "since the adoption of {base}, {situation} in the {sector} sector has {trend}",
            "in the interest of clarity, {base} should be amended accordingly with regard to {thing}",
        ],
        Form::Rules | Form::Approximate => &[
            "{base} lays down the general framework for the {sector} sector and {rulelevel} should be \
             adopted for its application to {things}",
            "the provisions in force in the Member States as regards {things} differ and may hinder the \
             functioning of the internal market",
            "in its communication of {earlier}, the Commission announced measures in the {sector} sector \
             designed to {goal}",
            "the measures taken so far under {base} have not been enough to {goal}",
        ],
        Form::Grant => &[
            "by letter dated {cutoff}, {ms} submitted a request to the Commission under {basearticle} of \
             {base} as regards {things}",
            "on {cutoff} the authorities of {ms} notified the Commission of measures they intended to take \
             as regards {thing}",
            "following requests for additional information, {ms} supplied further particulars by letter of \
             {cutoff}",
        ],
        Form::Stop => &[
            "{rel} fixes the quantities of {thing} available to {ms} for {year}",
            "according to the information received by the Commission, the quantity of {thing} allocated to \
             {ms} for {year} has been exhausted",
            "{ms} has taken provisional measures from {cutoff} and it is {therefore} necessary to abide by \
             that date",
        ],
    }
}

/// Recitals on the procedure, for acts of the Commission.
const COMMITTEE: &[&str] = &[
    "the measures provided for in {this} are in accordance with the opinion of the {committee}",
    "the {committee} has not delivered an opinion within the time limit set by its chairman",
    "the measures provided for in {this} are in accordance with the opinion delivered by the {committee} on \
     {earlier}",
];

/// Clauses that draw a consequence from the recital before them.
const CONSEQUENCES: &[&str] = &[
    "provision should {therefore} be made to that effect",
    "it is {therefore} appropriate to lay down {rulelevel} in that regard",
    "{this} should {therefore} be limited to what is necessary in order to {goal}",
    "{therefore}, a period of {months} should be allowed for adaptation",
    "the relevant provisions of {rel} should {therefore} apply",
    "account should be taken of this {reason}",
];

/// Recitals that any act may have.
const GENERAL: &[&str] = &[
    "it is necessary, {purpose}, to provide for checks by {authorities}",
    "{rel} lays down {rulelevel} which should also apply to {thing2}",
    "{situation} in the {sector} sector has {trend} in the course of {lastyear}",
    "in {lastyear} the quantities of {thing2} traded within the {com} amounted to {tonnes}, of which {pct} \
     came from {anyms}",
    "the Member States should lay down the penalties applicable to infringements and ensure that they are \
     effective and proportionate",
    "the system should be managed by means of {docs}, the validity of which should be limited to {months}",
    "in order to take account of the particular situation in {anyms}, a derogation should be granted until \
     {later}",
    "the administrative burden on {actors} should be kept to a minimum",
    "exchanges of information between the Member States and the Commission are essential {purpose}",
    "since the aims of the action cannot be sufficiently achieved by the Member States, the {com} may adopt \
     measures in accordance with the principle of subsidiarity",
    "{actors} should be given sufficient time to adapt to the new arrangements",
    "{reason}, {this} should enter into force as soon as possible",
    "{reason}, the time limits laid down in {rel} should be extended",
    "any {significant} change in {situation} could jeopardise the efforts made to {goal}",
    "the financial resources needed are estimated at {money} for the period from {year} to {nextyear}",
    "it is appropriate to provide for a review not later than {later}",
    "the Commission should be informed at regular intervals of the quantities of {thing2} for which {docs} \
     have been issued",
    "a security should be lodged to ensure that the obligations entered into by {actors} are fulfilled",
    "the interests of consumers call for {significant} changes in the rules on {thing2}",
    "the Court of Auditors, in its report of {earlier}, drew attention to weaknesses in the checks on \
     {thing2}",
    "the rules in force in {anyms} and {anyms} already take account of the need to {goal}",
    "provision should be made for the measures to apply without discrimination between {actors}",
    "the information received from {anyms} shows that {situation} has {trend} by about {pct} since {earlier}",
    "the competitive position of {actors} established in the {com} depends on {significant} improvements in \
     {situation}",
    "the obligations of the {com} under its agreement with {anycountry} must be observed",
    "it should be possible to refuse applications where there is a risk that the aim, which is to {goal}, \
     would not be achieved",
    "{rel} should be repealed with effect from {later}",
    "the data supplied should be treated as confidential where {actors} so request",
    "recourse to different rates for {thing2} and for {other} is justified by the difference in costs",
    "small undertakings should be exempted from certain obligations where their turnover does not exceed \
     {money}",
];

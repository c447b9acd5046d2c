//! Subjects: budget, statistics, research and external relations.
//!
//! Plain phrase tables; see `subject` for what each field holds.

use super::super::subject::{Form, Subject, regulation};

pub(super) const BUDGET: Subject = Subject {
    sector: "budget",
    treaty: [209, 279, 322],
    committee: "Advisory Committee on Own Resources",
    chapter: 49,
    goods: false,
    things: &[
        "own resources",
        "structural assistance",
        "agricultural guarantee expenditure",
        "staff remuneration",
        "cohesion projects",
        "pre-accession assistance",
        "clearance of accounts",
        "pension contributions",
        "grants",
    ],
    actors: &[
        "authorising officers",
        "paying agencies",
        "final beneficiaries",
        "managing authorities",
        "officials",
    ],
    goals: &[
        "ensure sound financial management",
        "protect the financial interests of the taxpayer",
        "make budget execution transparent",
        "simplify the use of funds",
        "reduce regional disparities",
    ],
    docs: &["statements of expenditure", "payment claims", "audit certificates"],
    terms: &[
        "'financial year' means the period from 1 January to 31 December",
        "'commitment' means the operation by which appropriations are reserved",
        "'irregularity' means any breach of the rules that harms or could harm the budget",
        "'paying agency' means the body responsible for expenditure on {thing}",
    ],
    bases: &[
        regulation(259, 1968, "laying down the Staff Regulations and the financial rules"),
        regulation(1787, 1984, "on the tasks and the coordination of the Funds"),
        regulation(1260, 1999, "laying down general provisions on the financing of common policies"),
    ],
    titles: &[
        (Form::Grant, "on the clearance of the accounts of {ms} as regards {things}"),
        (Form::Grant, "granting assistance to {ms} for {things}"),
        (Form::Rules, "laying down detailed rules for the implementation of the budget as regards {things}"),
        (Form::Rules, "adjusting the amounts applicable to {things}"),
        (Form::Amend, "amending {base} as regards {things}"),
    ],
    recitals: &[
        "the accounts submitted by {ms} for {thing} show expenditure of {money} and unjustified payments of \
         {money}",
        "the checks carried out since {earlier} revealed that part of the expenditure did not meet the \
         conditions",
        "advances of {pct} should be paid as soon as the programme has been approved",
        "the change in the cost of living in {ms} between {earlier} and the end of {lastyear} was {pct}",
        "the financial perspective for the period from {year} onwards sets a ceiling of {money} for {thing2}",
        "the managing authority designated by {ms} must be able to show that expenditure on {thing2} is \
         properly managed",
    ],
    rules: &[
        "Expenditure of {money} incurred by {anyms} for {thing2} shall be excluded from financing.",
        "The weighting applicable to {thing2} in {anyms} shall be {#90-130},{#1-9} from {later}.",
        "Payments for {thing2} shall be made within {days} days of receipt of an admissible claim.",
        "Appropriations not committed by {later} shall lapse, unless carried over by reasoned decision.",
        "Member States shall report each irregularity involving more than {money} within {months}.",
        "The rate of assistance for {thing2} shall be {pct} in the least developed regions and {pct} \
         elsewhere.",
    ],
};

pub(super) const STATISTICS: Subject = Subject {
    sector: "statistics",
    treaty: [213, 285, 338],
    committee: "Statistical Programme Committee",
    chapter: 97,
    goods: false,
    things: &[
        "structural business surveys",
        "labour costs",
        "consumer price indices",
        "livestock surveys",
        "national accounts",
        "trade statistics",
        "tourism flows",
        "population censuses",
        "carriage of goods",
        "waste statistics",
    ],
    actors: &[
        "statistical institutes",
        "reporting units",
        "national authorities",
        "households",
        "respondents",
    ],
    goals: &[
        "obtain comparable data",
        "measure economic convergence",
        "lighten the burden on respondents",
        "improve the timeliness of results",
        "cover the services sector",
    ],
    docs: &["questionnaires", "transmission files", "quality reports"],
    terms: &[
        "'statistical unit' means the enterprise, household or holding on which data are compiled",
        "'reference period' means the period to which data on {thing} relate",
        "'coverage' means the share of units included in the survey",
        "'nomenclature' means the classification established by {rel}",
    ],
    bases: &[
        regulation(546, 1969, "concerning the organisation of surveys"),
        regulation(1736, 1985, "on statistics relating to trade and production"),
        regulation(322, 1997, "on the production of Community statistics"),
    ],
    titles: &[
        (Form::Rules, "concerning the production of statistics on {things}"),
        (Form::Rules, "implementing {base} as regards the format for the transmission of data on {things}"),
        (
            Form::Approximate,
            "on statistical surveys to be carried out by the Member States concerning {things}",
        ),
        (Form::Grant, "granting {ms} a derogation in respect of statistics on {things}"),
        (Form::Amend, "amending {base} as regards {things}"),
    ],
    recitals: &[
        "reliable statistics on {thing} are needed for the conduct of economic policy",
        "the coverage of the survey on {thing2} in {ms} does not exceed {pct}",
        "data on {thing2} should be sent in a uniform format within {months} of the end of the {period}",
        "the sampling error for {thing2} must be kept below {#1-6} %",
        "pilot surveys on {thing2} were carried out in {#3-12} Member States in {lastyear}",
    ],
    rules: &[
        "The survey on {thing2} shall cover units employing {#5-50} or more persons.",
        "Results on {thing2} shall be transmitted within {#2-24} months of the end of the reference period.",
        "The sampling error shall not exceed {#1-10} % for a confidence level of {#67-95} %.",
        "Data on {thing2} shall be broken down by region, size class and activity.",
        "Respondents shall supply true and complete information on {thing2} within {days} days.",
        "The first reference year for {thing2} shall be {year}, and surveys shall be repeated every {years} \
         years.",
    ],
};

pub(super) const RESEARCH: Subject = Subject {
    sector: "research and education",
    treaty: [235, 166, 182],
    committee: "Programme Committee for Research",
    chapter: 70,
    goods: false,
    things: &[
        "biotechnology",
        "student mobility",
        "materials research",
        "radiation protection",
        "marine science",
        "vocational training",
        "information technology",
        "high-speed computing",
        "cultural heritage",
        "youth exchanges",
    ],
    actors: &["universities", "research institutes", "participants", "coordinators", "national agencies"],
    goals: &[
        "strengthen the scientific basis of industry",
        "encourage the mobility of researchers",
        "spread the results of research",
        "support joint projects",
        "promote the learning of languages",
    ],
    docs: &["project proposals", "grant agreements", "progress reports"],
    terms: &[
        "'participant' means a legal entity contributing to an indirect action on {thing}",
        "'coordinator' means the participant appointed to deal with the Commission",
        "'knowledge' means the results of projects, whether or not they can be protected",
        "'national agency' means the body set up by a Member State to run the programme locally",
    ],
    bases: &[
        regulation(1107, 1970, "on the promotion of joint research"),
        regulation(1290, 1988, "on the coordination of programmes of research and training"),
        regulation(
            2321,
            2002,
            "concerning the rules for the participation of undertakings and universities in programmes",
        ),
    ],
    titles: &[
        (Form::Rules, "adopting a multiannual programme in the field of {things}"),
        (Form::Rules, "on the rules for participation in programmes concerning {things}"),
        (Form::Grant, "on a contribution to the centre established in {ms} for {things}"),
        (Form::Amend, "amending {base} as regards {things}"),
        (Form::Rules, "on cooperation with {country} in the field of {things}"),
    ],
    recitals: &[
        "the amount deemed necessary for the work on {thing} is {money}",
        "projects on {thing2} should involve partners from at least {#2-5} Member States",
        "the evaluation of the previous programme, completed on {earlier}, was favourable",
        "the exchange of students between {ms} and {anyms} has {trend} since {earlier}",
        "results in the field of {thing2} should be made available to small undertakings",
    ],
    rules: &[
        "The programme in the field of {thing2} shall run for {years} years from {later}.",
        "Projects shall involve at least {#2-5} independent legal entities established in different Member \
         States.",
        "Proposals on {thing2} shall be assessed by independent experts on the basis of merit and relevance.",
        "Knowledge arising from work on {thing2} shall be the property of the participant who generated it.",
        "Grants for study periods abroad shall not exceed {currency} {#200-900} per month and per person.",
        "Calls for proposals on {thing2} shall be published in the {journal} at least {#2-6} months before \
         the closing date.",
    ],
};

pub(super) const SANCTIONS: Subject = Subject {
    sector: "external relations",
    treaty: [228, 301, 215],
    committee: "Committee on restrictive measures",
    chapter: 93,
    goods: false,
    things: &[
        "arms and related equipment",
        "frozen funds",
        "technical assistance",
        "crude oil",
        "rough diamonds",
        "luxury goods",
        "dual-use items",
        "economic resources",
        "humanitarian goods",
    ],
    actors: &["banks", "natural and legal persons", "operators", "insurers", "international organisations"],
    goals: &[
        "contribute to the restoration of peace",
        "give effect to the common position",
        "put an end to violence against civilians",
        "support the democratic process",
        "prevent the financing of armed groups",
    ],
    docs: &["prior authorisations", "end-user certificates", "exemption requests"],
    terms: &[
        "'funds' means financial assets and benefits of every kind",
        "'freezing' means preventing any movement, transfer or use of {thing}",
        "'listed person' means a person or body named in {rel}",
        "'technical assistance' means any support related to repair, development or manufacture",
    ],
    bases: &[
        regulation(1016, 1970, "concerning trade relations with certain third countries"),
        regulation(2340, 1990, "preventing trade with certain third countries"),
        regulation(337, 2000, "concerning restrictive measures against certain persons and bodies"),
    ],
    titles: &[
        (Form::Rules, "concerning restrictive measures as regards {things}"),
        (Form::Rules, "on the conclusion of the agreement with {country} concerning {things}"),
        (Form::Rules, "on cooperation with {country} in respect of {things}"),
        (Form::Amend, "amending {base} as regards {things}"),
        (Form::Grant, "on the position to be taken by {ms} as regards {things} exported to {country}"),
    ],
    recitals: &[
        "on {earlier} the Council adopted a common position providing for restrictions on {thing}",
        "the agreement with {country} was initialled on {earlier} and should be approved",
        "exemptions should be possible for {thing2} intended exclusively for humanitarian purposes",
        "the list of persons was last amended on {earlier} and should be adapted",
        "the situation in {anycountry} continues to give cause for concern",
        "the financial protocol with {country} provides for an amount of {money}",
    ],
    rules: &[
        "It shall be prohibited to supply {thing2}, directly or indirectly, to any listed person.",
        "All {thing2} belonging to listed persons shall be frozen as from {later}.",
        "The prohibition shall not apply to {thing2} needed to meet basic expenses of up to {money}.",
        "The President of the Council is hereby authorised to designate the persons empowered to sign the \
         agreement with {country}.",
        "The joint committee set up with {country} shall meet at least {#1-4} times a year.",
        "Claims in connection with contracts affected by measures on {thing2} shall not be satisfied.",
    ],
};

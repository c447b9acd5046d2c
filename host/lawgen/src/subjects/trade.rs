//! Subjects: customs, trade defence and textiles.
//!
//! Plain phrase tables; see `subject` for what each field holds.

use super::super::subject::{Form, Subject, regulation};

pub(super) const CUSTOMS: Subject = Subject {
    sector: "customs",
    treaty: [113, 133, 207],
    committee: "Customs Code Committee",
    chapter: 84,
    goods: true,
    things: &[
        "ball bearings",
        "ferro-silicon",
        "newsprint",
        "plywood",
        "electric motors",
        "preserved pineapples",
        "footwear",
        "glass fibres",
        "ceramic tiles",
        "magnesium oxide",
        "bicycles",
        "optical lenses",
    ],
    actors: &["declarants", "importers", "customs agents", "holders of the procedure", "processors"],
    goals: &[
        "ensure the uniform application of the nomenclature",
        "simplify customs formalities",
        "supply industry on favourable terms",
        "prevent deflection of trade",
        "safeguard own resources",
    ],
    docs: &["certificates of origin", "customs declarations", "movement certificates"],
    terms: &[
        "'declarant' means the person making the customs declaration in his own name",
        "'originating products' means goods wholly obtained or sufficiently worked in one country",
        "'customs debt' means the obligation on a person to pay the amount of duties",
        "'release' means the act whereby goods are made available for the purposes of the procedure",
    ],
    bases: &[
        regulation(802, 1968, "on the common definition of the origin of goods"),
        regulation(2658, 1986, "on the tariff and statistical nomenclature and on the Common Customs Tariff"),
        regulation(2913, 1992, "establishing the customs code of the Community"),
    ],
    titles: &[
        (Form::Quota, "opening and providing for the administration of tariff quotas for {things}"),
        (
            Form::Quota,
            "temporarily suspending the autonomous customs duties on {things} originating in {country}",
        ),
        (Form::Rules, "concerning the classification of {things} in the nomenclature"),
        (Form::Rules, "on the determination of the origin of {things}"),
        (Form::Fix, "establishing unit values for the customs valuation of {things}"),
        (Form::Stop, "concerning the end of preferential imports of {thing} into {ms}"),
        (Form::Amend, "amending {base} as regards {things}"),
    ],
    recitals: &[
        "{thing} should be classified under code {code} by virtue of its characteristics",
        "binding tariff information which does not conform to {this} may continue to be invoked for {months}",
        "the last substantial processing of {thing2} took place in {country}",
        "imports of {thing2} under preference have reached the ceiling of {money}",
        "the duties on {thing2} should be suspended since {com} production does not meet demand",
        "unit values for {thing2} are to be fixed every fortnight on the basis of invoice prices",
    ],
    rules: &[
        "{thing2} shall be classified within the nomenclature under code {code}.",
        "The customs value of {thing2} shall be increased by {pct} where the goods are sold between related \
         persons.",
        "Working of {thing2} shall confer origin only if the value added amounts to at least {#25-60} % of \
         the ex-works price.",
        "Goods under code {code} shall be placed under customs supervision until released.",
        "Imports of {thing2} shall be charged against the quota on the date of acceptance of the \
         declaration.",
        "The duty on {thing2} falling within code {code} shall be reduced to {pct} until {later}.",
    ],
};

pub(super) const DUMPING: Subject = Subject {
    sector: "trade defence",
    treaty: [113, 133, 207],
    committee: "Advisory Committee on trade defence",
    chapter: 29,
    goods: true,
    things: &[
        "citric acid",
        "polyester yarn",
        "urea",
        "ferro-manganese",
        "microwave ovens",
        "colour televisions",
        "seamless pipes",
        "tungsten carbide",
        "glyphosate",
        "steel ropes",
        "paracetamol",
        "sodium carbonate",
    ],
    actors: &["exporting producers", "importers", "complainants", "users", "unrelated traders"],
    goals: &[
        "remove the injurious effects of dumping",
        "restore fair competition",
        "give producers time to recover",
        "prevent circumvention of the duty",
        "establish normal value",
    ],
    docs: &["undertakings", "questionnaire replies", "invoices"],
    terms: &[
        "'normal value' means the price paid in the ordinary course of trade in the exporting country",
        "'dumping margin' means the amount by which the normal value exceeds the export price",
        "'like product' means a product identical or closely resembling {thing}",
        "'interested party' means any person who made himself known within {#15-40} days",
    ],
    bases: &[
        regulation(459, 1968, "on protection against dumping or the granting of bounties or subsidies"),
        regulation(2176, 1984, "on protection against dumped or subsidised imports"),
        regulation(
            384,
            1996,
            "on protection against dumped imports from countries not members of the \
         Community",
        ),
    ],
    titles: &[
        (
            Form::Rules,
            "imposing a definitive anti-dumping duty on imports of {thing} originating in {country}",
        ),
        (
            Form::Rules,
            "imposing a provisional anti-dumping duty on imports of {thing} originating in {country}",
        ),
        (
            Form::Rules,
            "initiating a review of the measures applicable to imports of {thing} originating in {country}",
        ),
        (
            Form::Grant,
            "accepting an undertaking offered in connection with imports into {ms} of {thing} originating \
             in {country}",
        ),
        (Form::Amend, "amending {base} as regards the duty on {thing}"),
    ],
    recitals: &[
        "on {earlier} the Commission announced the opening of a proceeding concerning imports of {thing} \
         originating in {country}",
        "imports of {thing} from {country} rose from {tonnes} to {tonnes}, and their market share reached \
         {pct}",
        "the weighted average dumping margin, expressed as a percentage of the price at the frontier, is \
         {pct}",
        "the producers suffered price undercutting of up to {pct} and a decline in profitability to {pct}",
        "normal value was established on the basis of domestic prices in {anycountry}",
        "no evidence was found that other factors, such as imports of {thing} from {anycountry}, had broken \
         the causal link",
        "the investigation of dumping covered the period from {earlier} to the end of {lastyear}",
    ],
    rules: &[
        "A duty of {pct} of the net price at the frontier before customs clearance is hereby imposed on \
         imports of {thing} falling within code {code}.",
        "The rate of duty shall be {pct} for products manufactured by the companies which cooperated and \
         {pct} for all others.",
        "The amounts secured by way of provisional duty on {thing} shall be collected at the rate of {pct}.",
        "Release of {thing} for free circulation shall be subject to the lodging of a security equal to the \
         duty.",
        "Interested parties may make their views known in writing and apply to be heard within {days} days.",
        "Imports of {thing} invoiced by companies whose undertaking has been accepted shall be exempt.",
    ],
};

pub(super) const TEXTILES: Subject = Subject {
    sector: "textiles",
    treaty: [113, 133, 207],
    committee: "Textile Committee",
    chapter: 61,
    goods: true,
    things: &[
        "cotton yarn",
        "knitted shirts",
        "trousers",
        "woven cotton fabrics",
        "bed linen",
        "blouses",
        "gloves",
        "synthetic carpets",
        "overcoats",
        "towelling fabrics",
    ],
    actors: &["importers", "suppliers", "manufacturers", "authorised traders", "exporters"],
    goals: &[
        "ensure an orderly development of trade in textiles",
        "avoid market disruption",
        "manage quantitative limits",
        "combat fraud as to origin",
        "keep the industry competitive",
    ],
    docs: &["import authorisations", "export licences", "double-checking certificates"],
    terms: &[
        "'category' means a group of textile products listed in {rel}",
        "'outward processing' means the temporary export of {thing} for working in a third country",
        "'quantitative limit' means the highest quantity that may be imported in one year",
        "'group quota' means a limit that covers several categories",
    ],
    bases: &[
        regulation(1471, 1970, "on common arrangements for imports of textile products"),
        regulation(3589, 1982, "on common rules for imports of certain textile products"),
        regulation(
            3030,
            1993,
            "on common rules for imports of textile products from certain third countries",
        ),
    ],
    titles: &[
        (Form::Rules, "on quantitative limits for imports of {things} originating in {country}"),
        (Form::Quota, "opening quotas for {things} processed in {country}"),
        (Form::Stop, "making imports of {thing} into {ms} subject to quantitative limitation"),
        (Form::Amend, "amending {base} as regards limits on {things}"),
        (
            Form::Grant,
            "authorising {ms} to introduce surveillance of imports of {things} originating in {country}",
        ),
    ],
    recitals: &[
        "imports of {thing} from {country} exceeded the level of {pct} of total imports in {lastyear}",
        "consultations with {country} were held on {earlier} without leading to a satisfactory solution",
        "the limits on {thing2} should be increased by {pct} on account of the transfer between categories",
        "imports of {thing2} not yet in free circulation on {earlier} should not be covered",
        "a double-checking system for {thing2} should be introduced",
    ],
    rules: &[
        "Imports of {thing2} originating in {country} shall be subject to a limit of {quantity} thousand \
         pieces.",
        "Quantities of {thing2} shipped before {later} shall not be set off against the limit.",
        "Transfers between categories may be made up to {#2-12} % of the limit for {thing2}.",
        "Import authorisations for {thing2} shall be issued within {#2-15} working days of presentation of \
         the export licence.",
        "Outward processing of {thing2} in {country} shall be limited to {tonnes} per year.",
    ],
};

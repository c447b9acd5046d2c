//! Subjects: wine and sugar.
//!
//! Plain phrase tables; see `subject` for what each field holds.

use super::super::subject::{Form, Subject, regulation};

pub(super) const WINE: Subject = Subject {
    sector: "wine",
    treaty: [43, 37, 43],
    committee: "Management Committee for Wine",
    chapter: 22,
    goods: true,
    things: &[
        "table wine",
        "grape must",
        "concentrated grape must",
        "sparkling wine",
        "liqueur wine",
        "wine alcohol",
        "wine vinegar",
        "quality wine",
        "grape marc",
        "aromatised wine",
    ],
    actors: &["growers", "wine-makers", "distillers", "bottlers", "merchants"],
    goals: &[
        "balance supply and demand in table wine",
        "improve the quality of wine",
        "limit the planting of new vines",
        "prevent fraud in the description of wine",
        "support the price of table wine",
    ],
    docs: &["accompanying documents", "distillation contracts", "analysis reports"],
    terms: &[
        "'wine year' means the period from 1 September to 31 August of the following year",
        "'distiller' means a person who distils {thing} and is approved by {authorities}",
        "'wine-growing zone' means an area delimited in accordance with {oart} of {base}",
        "'total alcoholic strength' means the sum of the actual and the potential strength by volume",
        "'bottling' means putting the product up in containers of not more than {#1-60} litres for sale",
    ],
    bases: &[
        regulation(
            412,
            1970,
            "laying down additional provisions for the common organisation of the market in wine",
        ),
        regulation(1187, 1987, "on the common organisation of the market in wine"),
        regulation(
            2071,
            1999,
            "laying down rules for the wine-growing potential and for oenological practices",
        ),
    ],
    titles: &[
        (Form::Rules, "on the preventive distillation of {things} for the wine year {year}"),
        (Form::Rules, "laying down rules for the description and presentation of {things}"),
        (Form::Fix, "fixing the prices and aids applicable to {things}"),
        (Form::Grant, "authorising {ms} to permit an increase in the alcoholic strength of {things}"),
        (Form::Amend, "amending {base} as regards oenological practices for {things}"),
        (Form::Stop, "on the closure of the distillation of {thing} in {ms}"),
    ],
    recitals: &[
        "because of unfavourable weather during {lastyear}, the natural alcoholic strength of {thing} in \
         {ms} is below the limits laid down",
        "stocks of {thing2} at the end of the wine year are estimated at {quantity} hectolitres",
        "distillation should be opened for a limited quantity and at a price equal to {pct} of the guide \
         price",
        "the description of {thing2} on the label must not be liable to mislead consumers as to its origin",
        "certain oenological practices need to be authorised for a trial period of {months}",
        "growers who have delivered by-products of wine-making should be eligible for the aid",
    ],
    rules: &[
        "The total sulphur dioxide content of {thing2} may not exceed {#120-260} milligrams per litre.",
        "The actual alcoholic strength of {thing2} shall be not less than {#8-12} % and not more than \
         {#13-18} % by volume.",
        "Contracts for the distillation of {thing2} shall be submitted for approval to {authorities} not \
         later than {later}.",
        "The buying-in price of {thing2} shall be {money} per hectolitre, to be paid by the distiller \
         within {days} days.",
        "New planting of vines for the production of {thing2} shall be prohibited in {anyms} until {later}.",
        "The label shall state the name of the bottler, the nominal volume and the wine year of {thing2}.",
    ],
};

pub(super) const SUGAR: Subject = Subject {
    sector: "sugar",
    treaty: [43, 37, 43],
    committee: "Management Committee for Sugar",
    chapter: 17,
    goods: true,
    things: &[
        "white sugar",
        "raw sugar",
        "molasses",
        "isoglucose",
        "sugar beet",
        "beet pulp",
        "inulin syrup",
        "cane syrup",
        "invert sugar",
    ],
    actors: &["manufacturers", "refiners", "beet growers", "exporters", "undertakings holding a quota"],
    goals: &[
        "keep production within the quotas",
        "finance the disposal of surplus sugar",
        "maintain refining in deficit areas",
        "guarantee growers a minimum price",
        "honour preferential commitments",
    ],
    docs: &["export licences", "delivery contracts", "storage certificates"],
    terms: &[
        "'quota sugar' means sugar produced within the quota of the undertaking for a given marketing year",
        "'refiner' means an undertaking whose sole activity is the refining of {thing}",
        "'carry-forward' means the transfer of surplus production to the following marketing year",
        "'delivery contract' means a contract concluded between a grower and a manufacturer before sowing",
    ],
    bases: &[
        regulation(1009, 1967, "on the common organisation of the market in sugar"),
        regulation(1785, 1982, "on the common organisation of the markets in the sugar sector"),
        regulation(2038, 2000, "laying down the quota arrangements in the sugar sector"),
    ],
    titles: &[
        (Form::Fix, "fixing the representative prices and additional import duties for {things}"),
        (Form::Fix, "fixing the production levies for {things}"),
        (Form::Rules, "on the transfer of quotas and the carry-forward of {things}"),
        (Form::Rules, "opening a standing invitation to tender for the export of {things}"),
        (Form::Amend, "amending {base} as regards storage levies on {things}"),
        (Form::Stop, "on the rejection of applications for export licences for {thing} in {ms}"),
    ],
    recitals: &[
        "production of {thing} in {lastyear} exceeded the sum of the quotas by {tonnes}",
        "the loss on exports of {thing2} is to be covered in full by the levies paid by manufacturers",
        "the average loss per tonne was established at {rate} on the basis of the data for {lastyear}",
        "the spot price for {thing2} on the London exchange has {trend} since {earlier}",
        "a minimum price for {thing2} should be fixed for each production area",
        "the maximum refund for the partial invitation to tender should be set at {rate}",
    ],
    rules: &[
        "The basic production levy on {thing2} shall be {#1-2} % of the intervention price.",
        "Manufacturers may carry forward not more than {pct} of their quota of {thing2} to the following \
         marketing year.",
        "The maximum refund on {thing2} shall be {rate} for the partial invitation to tender closing on \
         {later}.",
        "Quantities of {thing2} produced in excess of the quota shall be exported in the natural state \
         before {later}.",
        "The quota allocated to undertakings in {anyms} shall be reduced by {tonnes} of {thing2}.",
        "Growers shall be paid the minimum price within {days} days of the delivery of the beet.",
    ],
};

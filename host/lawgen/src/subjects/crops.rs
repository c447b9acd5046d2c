//! Subjects: cereals, fruit and vegetables.
//!
//! Plain phrase tables; see `subject` for what each field holds.

use super::super::subject::{Form, Subject, regulation};

pub(super) const CEREALS: Subject = Subject {
    sector: "cereals",
    treaty: [43, 37, 43],
    committee: "Management Committee for Cereals",
    chapter: 10,
    goods: true,
    things: &[
        "common wheat",
        "durum wheat",
        "barley",
        "rye",
        "maize",
        "oats",
        "grain sorghum",
        "malt",
        "wheat flour",
        "groats and meal",
        "buckwheat",
        "broken rice",
    ],
    actors: &["producers", "processors", "importers", "exporters", "storage contractors"],
    goals: &[
        "stabilise the market in cereals",
        "ensure a fair income for growers",
        "make good use of intervention stocks",
        "avoid disturbance of the market",
        "secure supplies to the starch industry",
    ],
    docs: &["import licences", "export licences", "transfer documents"],
    terms: &[
        "'marketing year' means the period from 1 July of one year to 30 June of the next",
        "'producer' means any natural or legal person who grows {thing} on a holding of at least {#2-20} \
         hectares",
        "'intervention agency' means the body designated by a Member State to buy in and store cereals",
        "'standard quality' means a moisture content of not more than {#12-15} % and a specific weight of \
         at least {#60-78} kilograms per hectolitre",
        "'lot' means a quantity of at least {#50-900} tonnes of uniform quality",
    ],
    bases: &[
        regulation(161, 1966, "on the common organisation of the market in cereals"),
        regulation(2644, 1983, "on the common organisation of the market in cereals and rice"),
        regulation(1402, 2001, "laying down general rules for intervention in the cereals sector"),
    ],
    titles: &[
        (Form::Fix, "fixing the import levies on {things}"),
        (Form::Fix, "fixing the export refunds on {things}"),
        (
            Form::Rules,
            "opening a standing invitation to tender for the sale of {things} held by intervention agencies",
        ),
        (Form::Rules, "laying down detailed rules for the buying-in of {things} by intervention agencies"),
        (Form::Amend, "amending {base} as regards {things}"),
        (
            Form::Quota,
            "opening and providing for the administration of tariff quotas for {things} originating in \
             {country}",
        ),
    ],
    recitals: &[
        "the quantity of {thing} held by the intervention agency of {ms} amounts to about {tonnes}",
        "the harvest of {lastyear} was affected by drought and the quality of {thing} is below the average",
        "offers of {thing2} to the intervention agencies should meet minimum requirements as to moisture \
         and specific weight",
        "the levies on {thing2} are calculated from the difference between the threshold price and the cif \
         price",
        "the sowing declarations for {thing2} show an increase of {pct} in the area cultivated",
        "resale on the internal market is to be carried out at a price which does not disturb the market",
    ],
    rules: &[
        "The intervention agency of {anyms} shall buy in {thing2} offered in homogeneous lots of at least \
         {#50-500} tonnes.",
        "The price to be paid for {thing2} shall be {rate}, increased each month by {#1-4} {currency} per \
         tonne.",
        "For {thing2} with a moisture content above {#13-15} %, the price shall be reduced by {#1-9} % for \
         each percentage point.",
        "Tenders shall be valid only if they relate to {thing2} stored in {anyms} and state the price \
         offered per tonne.",
        "The minimum selling price shall be set at a level which does not fall below {pct} of the \
         intervention price.",
        "Removal of the {thing2} sold shall be completed not later than {later}, storage costs thereafter \
         being borne by the buyer.",
    ],
};

pub(super) const FRUIT: Subject = Subject {
    sector: "fruit and vegetables",
    treaty: [43, 37, 43],
    committee: "Management Committee for Fruit and Vegetables",
    chapter: 8,
    goods: true,
    things: &[
        "apples",
        "pears",
        "lemons",
        "sweet oranges",
        "tomatoes",
        "cucumbers",
        "table grapes",
        "peaches",
        "cauliflowers",
        "processed cherries",
        "dried figs",
        "bananas",
        "cultivated mushrooms",
    ],
    actors: &["producer organisations", "processors", "importers", "traders", "packers"],
    goals: &[
        "raise the quality of produce",
        "concentrate supply through producer organisations",
        "avoid a collapse of prices at the peak of the season",
        "encourage processing of surplus produce",
        "make trade more transparent",
    ],
    docs: &["certificates of conformity", "import licences", "aid applications"],
    terms: &[
        "'producer organisation' means a body formed on the initiative of at least {#5-40} growers of \
         {thing}",
        "'first category' means produce of good quality with only slight defects",
        "'withdrawal price' means the price below which members do not offer {thing} for sale",
        "'entry price' means the price established for each lot at the time of import",
        "'packer' means a person who sizes, sorts and packs produce for sale",
    ],
    bases: &[
        regulation(88, 1969, "on producer organisations in the fruit and vegetables sector"),
        regulation(1733, 1986, "on the common organisation of the market in fruit and vegetables"),
        regulation(
            2310,
            1997,
            "on the common organisation of the markets in fresh and processed fruit and vegetables",
        ),
    ],
    titles: &[
        (Form::Fix, "establishing the standard import values for {things}"),
        (Form::Fix, "fixing the reference prices for {things}"),
        (Form::Rules, "laying down quality standards for {things}"),
        (Form::Rules, "laying down detailed rules for aid to the processing of {things}"),
        (
            Form::Quota,
            "opening and providing for the administration of tariff quotas for {things} originating in \
             {country}",
        ),
        (Form::Amend, "amending {base} with regard to the marketing of {things}"),
    ],
    recitals: &[
        "the criteria laid down in {rel} lead to the standard import values for {thing2} being fixed at the \
         levels shown",
        "the marketing standard for {thing2} should define the minimum diameter and the tolerances for each \
         category",
        "for two consecutive market days the entry price of {thing} from {country} was below the reference \
         price",
        "growers of {thing2} in {ms} suffered losses of about {pct} because of frost",
        "withdrawals of {thing2} during {lastyear} reached {tonnes}",
        "the marking of packages should enable the origin of {thing2} to be identified at all stages",
    ],
    rules: &[
        "The minimum diameter of {thing2} of the first category shall be {#20-70} millimetres.",
        "A tolerance of {#2-10} % by number or weight of {thing2} not meeting the requirements of the \
         category shall be allowed.",
        "Each package of {thing2} shall bear the name of the packer, the country of origin and the category.",
        "The contents of each package shall be uniform and contain only {thing2} of the same origin and \
         quality.",
        "The aid for {thing2} delivered to processors shall be {rate} of raw material.",
        "Withdrawal of {thing2} by producer organisations shall be limited to {pct} of the quantity \
         marketed.",
    ],
};

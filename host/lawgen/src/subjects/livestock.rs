//! Subjects: milk, meat and animal health.
//!
//! Plain phrase tables; see `subject` for what each field holds.

use super::super::subject::{Form, Subject, directive, regulation};

pub(super) const DAIRY: Subject = Subject {
    sector: "milk and milk products",
    treaty: [43, 37, 43],
    committee: "Management Committee for Milk and Milk Products",
    chapter: 4,
    goods: true,
    things: &[
        "butter",
        "skimmed-milk powder",
        "whole milk powder",
        "cream",
        "hard cheese",
        "whey",
        "casein",
        "condensed milk",
        "buttermilk",
        "butteroil",
    ],
    actors: &["milk producers", "purchasers", "dairies", "storage contractors", "recipient bodies"],
    goals: &[
        "reduce public stocks of butter",
        "keep milk deliveries within the guaranteed quantity",
        "promote the consumption of milk in schools",
        "find outlets for surplus skimmed milk",
        "support private storage",
    ],
    docs: &["storage contracts", "import licences", "delivery statements"],
    terms: &[
        "'purchaser' means an undertaking which buys milk from producers in order to treat or process it",
        "'individual reference quantity' means the quantity allotted to a producer on {earlier}",
        "'storage lot' means a quantity of at least {#1-20} tonnes of {thing} entering storage on the same \
         day",
        "'fat content' means the fat expressed as a percentage by weight",
        "'delivery' means any supply of milk by a producer to a purchaser",
    ],
    bases: &[
        regulation(774, 1968, "on the common organisation of the market in milk and milk products"),
        regulation(859, 1984, "establishing an additional levy in the milk sector"),
        regulation(1247, 1999, "on intervention on the market in butter and cream"),
    ],
    titles: &[
        (Form::Fix, "fixing the maximum aid for {things} under the standing invitation to tender"),
        (Form::Fix, "fixing the export refunds on {things}"),
        (Form::Rules, "on the sale of {things} from intervention stocks at reduced prices"),
        (Form::Rules, "laying down detailed rules for private storage aid for {things}"),
        (Form::Amend, "amending {base} and extending the storage period of {things}"),
        (Form::Quota, "opening import quotas for {things} originating in {country}"),
    ],
    recitals: &[
        "public stocks of {thing} amounted to {tonnes} on {earlier}",
        "storage contracts for {thing2} should cover a period of at least {#60-120} days",
        "the additional levy is due when deliveries exceed the quantity guaranteed to {ms}",
        "the sale of {thing2} to certain processors at a reduced price calls for supervision up to final use",
        "the minimum selling price of {thing2} should be fixed in the light of the tenders received",
        "milk deliveries in {ms} have {trend} since the beginning of the {period}",
    ],
    rules: &[
        "Aid shall be granted only for {thing2} with a fat content of at least {#20-82} % by weight.",
        "Storage shall begin on the day after the last lot of {thing2} has entered the store and shall end \
         not later than {later}.",
        "The rate of aid for {thing2} shall be {rate} for fixed costs and {#1-90} cents per tonne per day.",
        "The purchaser shall withhold {pct} of the price of milk until the levy due has been established.",
        "The {thing2} sold shall be processed within {months} of removal from the store.",
        "Packages shall bear the words 'for processing' in letters at least {#5-30} millimetres high.",
    ],
};

pub(super) const MEAT: Subject = Subject {
    sector: "beef and veal",
    treaty: [43, 37, 43],
    committee: "Management Committee for Beef and Veal",
    chapter: 2,
    goods: true,
    things: &[
        "fresh beef",
        "frozen beef",
        "live calves",
        "young male bovine animals",
        "boneless cuts",
        "forequarters",
        "hindquarters",
        "preserved beef",
        "veal carcases",
        "pure-bred heifers",
    ],
    actors: &["stock farmers", "slaughterhouses", "importers", "cutting plants", "agents"],
    goals: &[
        "restore balance on the beef market",
        "encourage extensive farming",
        "ensure the traceability of carcases",
        "facilitate the disposal of intervention meat",
        "maintain suckler herds",
    ],
    docs: &["import licences", "animal passports", "premium applications"],
    terms: &[
        "'holding' means all the production units managed by a farmer in one Member State",
        "'carcase' means the whole body of a slaughtered animal after bleeding and skinning",
        "'suckler cow' means a cow kept for rearing calves for meat production",
        "'livestock unit' means the figure obtained by applying the coefficients in {rel}",
    ],
    bases: &[
        regulation(805, 1969, "on the common organisation of the market in beef and veal"),
        regulation(1318, 1989, "on premiums for producers of beef and veal"),
        regulation(2254, 1999, "establishing rules on the labelling and classification of carcases"),
    ],
    titles: &[
        (
            Form::Quota,
            "opening and providing for the administration of import quotas for {things} originating in \
             {country}",
        ),
        (Form::Rules, "on the sale by tender of {things} held by certain intervention agencies"),
        (Form::Rules, "on the premium schemes applicable to {things}"),
        (Form::Fix, "fixing the export refunds on {things}"),
        (Form::Amend, "amending {base} as regards the buying-in of {things}"),
    ],
    recitals: &[
        "the average market price of {thing} in {ms} fell below {pct} of the intervention price for two \
         consecutive weeks",
        "premium applications for {thing2} exceeded the regional ceiling of {quantity} animals",
        "a coefficient should be applied to the quantities of {thing2} applied for by traditional importers",
        "consumption of {thing2} has {trend} since {earlier}",
        "the retention period for {thing2} should be not less than {months}",
        "applications from {ms} for {thing2} relate to quantities in excess of those available",
    ],
    rules: &[
        "The premium for {thing2} shall be {currency} {#20-300} per eligible animal.",
        "Animals shall be kept on the holding for at least {months} from the date of the premium \
         application.",
        "The stocking density shall not exceed {#1-4} livestock units per hectare of forage area.",
        "Each consignment of {thing2} shall be accompanied by a certificate of authenticity issued in \
         {country}.",
        "{anyms} may buy in {thing2} only in the classes and at the prices set out in {rel}.",
        "The ear-tag number shall be entered in the register within {#3-15} days of the birth of the animal.",
    ],
};

pub(super) const ANIMAL_HEALTH: Subject = Subject {
    sector: "veterinary",
    treaty: [43, 152, 168],
    committee: "Standing Veterinary Committee",
    chapter: 1,
    goods: true,
    things: &[
        "live pigs",
        "poultry",
        "hatching eggs",
        "bovine semen",
        "ovine animals",
        "equidae",
        "fresh pigmeat",
        "farmed game",
        "bovine embryos",
        "raw hides",
    ],
    actors: &[
        "keepers of animals",
        "official veterinarians",
        "hauliers",
        "operators of assembly centres",
        "hatcheries",
    ],
    goals: &[
        "prevent the spread of classical swine fever",
        "eradicate brucellosis",
        "protect animal health",
        "restore trade in live animals",
        "detect outbreaks at an early stage",
    ],
    docs: &["health certificates", "movement documents", "laboratory reports"],
    terms: &[
        "'outbreak' means a holding where one or more cases have been officially confirmed",
        "'official veterinarian' means the veterinarian designated by the competent authority",
        "'protection zone' means an area with a radius of at least {#3-10} kilometres around the outbreak",
        "'consignment' means a quantity of {thing} covered by the same certificate",
    ],
    bases: &[
        directive(432, 1964, "on animal health problems affecting trade in bovine animals and swine"),
        directive(462, 1980, "introducing measures for the control of certain animal diseases"),
        directive(119, 1992, "introducing general measures for the control of certain animal diseases"),
    ],
    titles: &[
        (Form::Grant, "concerning protective measures in relation to {things} in {ms}"),
        (Form::Grant, "approving the eradication programme submitted by {ms} as regards {things}"),
        (Form::Approximate, "on animal health conditions governing trade in {things}"),
        (Form::Rules, "laying down health conditions for imports of {things} from {country}"),
        (Form::Amend, "amending {base} as regards the health certificates for {things}"),
    ],
    recitals: &[
        "outbreaks of disease have been confirmed in {ms} on {#2-40} holdings keeping {thing}",
        "the situation is liable to endanger the herds of other Member States in view of trade in {thing2}",
        "on {earlier} a mission of veterinary experts found that the controls on {thing2} in {country} were \
         satisfactory",
        "vaccination of {thing2} should be prohibited unless an emergency plan has been approved",
        "laboratory tests carried out since {earlier} have been negative",
        "the protection zone should have a radius of at least {#3-20} kilometres",
    ],
    rules: &[
        "{ms} shall not send {thing2} to other Member States from the areas described in {rel}.",
        "Consignments of {thing2} shall be accompanied by a certificate signed within {#1-10} days of \
         loading.",
        "Animals shall have undergone, with negative results, a serological test carried out during the \
         {#10-40} days before dispatch.",
        "Vehicles used for the transport of {thing2} shall be cleaned and disinfected after each journey.",
        "Samples shall be taken from at least {#10-90} animals on each holding keeping {thing2}.",
        "{thing2} coming from a protection zone shall be slaughtered under official supervision within \
         {#2-30} days.",
    ],
};

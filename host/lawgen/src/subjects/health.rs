//! Subjects: plants, food, medicines and work.
//!
//! Plain phrase tables; see `subject` for what each field holds.

use super::super::subject::{Form, Subject, directive};

pub(super) const PLANT_HEALTH: Subject = Subject {
    sector: "plant health",
    treaty: [43, 37, 43],
    committee: "Standing Committee on Plant Health",
    chapter: 6,
    goods: true,
    things: &[
        "seed potatoes",
        "citrus plants",
        "coniferous wood",
        "cut flowers",
        "beet seed",
        "vine propagating material",
        "fodder plant seed",
        "oak bark",
        "ornamental palms",
        "strawberry plants",
    ],
    actors: &["growers", "nurseries", "importers", "seed merchants", "wood processors"],
    goals: &[
        "prevent the introduction of harmful organisms",
        "eradicate potato brown rot",
        "guarantee the identity of varieties",
        "protect forests",
        "make seed of good quality available",
    ],
    docs: &["phytosanitary certificates", "plant passports", "official labels"],
    terms: &[
        "'harmful organism' means any pest of plants belonging to the animal or plant kingdom",
        "'protected zone' means an area in which one or more harmful organisms are not established",
        "'basic seed' means seed produced under the responsibility of the breeder",
        "'lot' means a number of units of {thing} identifiable by their uniform composition and origin",
    ],
    bases: &[
        directive(403, 1966, "on the marketing of seed and propagating material"),
        directive(93, 1977, "on protective measures against the introduction of organisms harmful to plants"),
        directive(
            29,
            2000,
            "on protective measures against organisms harmful to plants and against their spread",
        ),
    ],
    titles: &[
        (
            Form::Grant,
            "authorising {ms} to provide for derogations from certain provisions of {base} in respect of \
             {things} originating in {country}",
        ),
        (Form::Approximate, "on the marketing of {things}"),
        (Form::Approximate, "on the control of organisms harmful to {things}"),
        (Form::Rules, "on emergency measures against organisms harmful to {things} originating in {country}"),
        (Form::Amend, "amending {base} as regards {things}"),
    ],
    recitals: &[
        "under {base}, {thing} originating in {country} may in principle not be introduced into the {com}",
        "on the basis of the information supplied by {ms}, there is no risk of spreading harmful organisms \
         provided that special conditions are met",
        "findings on {thing2} were reported by {anyms} on {earlier}",
        "the germination capacity of the seed available in {ms} does not meet the standard",
        "comparative trials of {thing2} were carried out from {lastyear} onwards",
        "a survey should establish whether the organism is present on {thing2}",
    ],
    rules: &[
        "The {thing2} shall be grown in areas of {country} known to be free from the organism concerned.",
        "Each lot of {thing2} shall be inspected and tested, at least {#50-400} units being drawn for that \
         purpose.",
        "Packages of {thing2} shall be sealed and bear an official label showing the lot number.",
        "The minimum germination of {thing2} shall be {#60-95} % of pure seed.",
        "Infested {thing2} shall be destroyed, and no host plants shall be grown on the place of production \
         for {years} years.",
        "Imports shall take place only through the points of entry designated by {anyms}.",
    ],
};

pub(super) const FOODSTUFFS: Subject = Subject {
    sector: "foodstuffs",
    treaty: [100, 95, 114],
    committee: "Standing Committee on the Food Chain",
    chapter: 21,
    goods: true,
    things: &[
        "sweeteners",
        "colouring matter",
        "fruit juices",
        "infant formulae",
        "flavourings",
        "mineral waters",
        "food supplements",
        "frozen foods",
        "cocoa products",
        "honey",
        "preservatives",
    ],
    actors: &["food business operators", "manufacturers", "retailers", "importers", "laboratories"],
    goals: &[
        "protect the health of consumers",
        "remove obstacles to the free movement of foodstuffs",
        "limit contaminants in food",
        "inform consumers correctly",
        "harmonise methods of analysis",
    ],
    docs: &["analysis certificates", "authorisations", "labels"],
    terms: &[
        "'food additive' means a substance not normally consumed as a food in itself",
        "'labelling' means any words, marks or pictures relating to a foodstuff and placed on its packaging",
        "'acceptable daily intake' means the amount that can be ingested each day without risk",
        "'batch' means sales units of {thing} produced under practically the same conditions",
    ],
    bases: &[
        directive(
            54,
            1964,
            "concerning substances which may be used in foodstuffs intended for human consumption",
        ),
        directive(112, 1979, "on the labelling and presentation of foodstuffs"),
        directive(107, 1989, "concerning food additives authorised for use in foodstuffs"),
    ],
    titles: &[
        (Form::Approximate, "on the approximation of the laws of the Member States relating to {things}"),
        (Form::Approximate, "laying down purity criteria for {things}"),
        (Form::Rules, "setting maximum levels for certain contaminants in {things}"),
        (Form::Grant, "authorising {ms} to permit the use of {things} on a temporary basis"),
        (Form::Amend, "amending {base} as regards {things}"),
    ],
    recitals: &[
        "the Scientific Committee for Food gave an opinion on {thing} on {earlier}",
        "a maximum level of {#1-90} micrograms per kilogram can be achieved by good manufacturing practice",
        "the labelling of {thing2} should enable consumers to make an informed choice",
        "differences between national laws on {thing2} hinder their free movement and may create unequal \
         conditions of competition",
        "methods of sampling {thing2} should give comparable results in all laboratories",
        "new data on the intake of {thing2} became available in {lastyear}",
    ],
    rules: &[
        "The lead content of {thing2} shall not exceed {#1-20} milligrams per kilogram.",
        "The label of {thing2} shall indicate the list of ingredients in descending order of weight.",
        "{shallms} prohibit trade in {thing2} not complying with {this} as from {later}.",
        "The quantity of {thing2} added to beverages shall not exceed {#10-600} milligrams per litre.",
        "Samples of {thing2} shall be taken in duplicate and analysed by an approved laboratory within \
         {days} days.",
        "The words 'contains {thing2}' shall appear in letters not smaller than those of the name of the \
         product.",
    ],
};

pub(super) const MEDICINES: Subject = Subject {
    sector: "medicinal products",
    treaty: [100, 95, 114],
    committee: "Standing Committee on Medicinal Products",
    chapter: 30,
    goods: true,
    things: &[
        "vaccines",
        "antibiotics",
        "veterinary medicinal products",
        "blood products",
        "orphan medicinal products",
        "homeopathic preparations",
        "active substances",
        "anaesthetics",
        "hormonal preparations",
    ],
    actors: &["marketing authorisation holders", "manufacturers", "wholesalers", "sponsors", "pharmacists"],
    goals: &[
        "safeguard public health",
        "make new treatments available without delay",
        "monitor adverse reactions",
        "avoid needless repetition of tests on animals",
        "protect patients in trials",
    ],
    docs: &["marketing authorisations", "variation dossiers", "package leaflets"],
    terms: &[
        "'adverse reaction' means a response which is harmful and unintended at normal doses",
        "'maximum residue limit' means the highest concentration of residue accepted in food",
        "'wholesale distribution' means procuring, holding or supplying {thing} to persons other than the \
         public",
        "'sponsor' means a person who takes responsibility for starting a clinical trial",
    ],
    bases: &[
        directive(65, 1965, "on the approximation of provisions relating to proprietary medicinal products"),
        directive(851, 1981, "on the approximation of the laws relating to veterinary medicinal products"),
        directive(83, 2001, "relating to medicinal products for human use"),
    ],
    titles: &[
        (Form::Approximate, "on the manufacture and distribution of {things}"),
        (Form::Rules, "concerning the examination of variations to the terms of authorisations for {things}"),
        (Form::Rules, "laying down a procedure for maximum residue limits of {things}"),
        (Form::Grant, "concerning the placing on the market of {things} in {ms}"),
        (Form::Amend, "amending {base} as regards the testing of {things}"),
    ],
    recitals: &[
        "the safety of {thing} has been assessed in accordance with {rel}",
        "residues of {thing2} in foodstuffs of animal origin must not present a risk to consumers",
        "a period of {#60-210} days should be allowed for the assessment of applications concerning {thing2}",
        "adverse reactions to {thing2} were reported in {anyms} and {anyms} in {lastyear}",
        "the summary of characteristics of {thing2} should be updated whenever new knowledge becomes \
         available",
        "the interests of patients require that supplies of {thing2} are not interrupted",
    ],
    rules: &[
        "No {thing2} may be placed on the market unless an authorisation has been issued by {authorities}.",
        "The maximum residue limit of {thing2} in muscle shall be {#10-900} micrograms per kilogram.",
        "The authorisation for {thing2} shall be valid for {years} years and renewable on application.",
        "Serious adverse reactions to {thing2} shall be reported within {#3-15} days of receipt of the \
         information.",
        "Manufacturers of {thing2} shall have at their disposal the services of at least one qualified \
         person.",
        "The package leaflet of {thing2} shall be written in clear terms in the language of {anyms}.",
    ],
};

pub(super) const WORKERS: Subject = Subject {
    sector: "social policy",
    treaty: [118, 137, 153],
    committee: "Advisory Committee on Safety and Health at Work",
    chapter: 90,
    goods: false,
    things: &[
        "work equipment",
        "protective clothing",
        "exposure to noise",
        "temporary work sites",
        "manual handling of loads",
        "night work",
        "exposure to lead",
        "parental leave",
        "display screen equipment",
    ],
    actors: &[
        "employers",
        "workers' representatives",
        "self-employed persons",
        "safety officers",
        "labour inspectors",
    ],
    goals: &[
        "protect workers from risks at work",
        "improve working conditions",
        "reconcile work and family life",
        "reduce the number of accidents",
        "coordinate social security schemes",
    ],
    docs: &["risk assessments", "medical records", "certificates of entitlement"],
    terms: &[
        "'worker' means any person employed by an employer, including trainees and apprentices",
        "'exposure limit value' means the average concentration over a period of {#6-12} hours",
        "'night time' means a period of at least seven hours including the time from midnight to 5 in the \
         morning",
        "'competent institution' means the institution with which the person concerned is insured",
    ],
    bases: &[
        directive(312, 1968, "on the freedom of movement and the protection of workers"),
        directive(391, 1989, "on measures to encourage improvements in the safety and health of workers"),
        directive(88, 2003, "concerning certain aspects of the organisation of working time"),
    ],
    titles: &[
        (Form::Approximate, "on the minimum requirements for safety and health as regards {things}"),
        (Form::Approximate, "on the protection of workers as regards {things}"),
        (Form::Rules, "on the application of social security schemes as regards {things}"),
        (Form::Amend, "amending {base} as regards {things}"),
        (Form::Grant, "on the assistance granted to {ms} for training concerning {things}"),
    ],
    recitals: &[
        "accidents connected with {thing} still affect {#2-40} workers in every thousand each year",
        "compliance with the minimum requirements on {thing2} is essential to protect workers",
        "{this} must avoid constraints which would hold back the creation of small undertakings",
        "workers must be informed of the risks relating to {thing2}",
        "the framework agreement of {earlier} between the social partners covers {thing2}",
        "the limit values for {thing2} should be revised in the light of scientific data",
    ],
    rules: &[
        "Employers shall assess the risks arising from {thing2} and record the result.",
        "The daily exposure of workers shall not exceed {#60-90} units over a reference period of {#4-12} \
         hours.",
        "Workers shall receive training on {thing2} during working hours and at no cost to themselves.",
        "Health checks shall be offered to workers concerned by {thing2} at least every {months}.",
        "Workers and their representatives shall be consulted in advance on all matters relating to \
         {thing2}.",
        "Every worker shall be entitled to a rest of at least {#10-12} consecutive hours in each period of \
         24 hours.",
    ],
};

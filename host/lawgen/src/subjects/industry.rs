//! Subjects: industry, energy and the environment.
//!
//! Plain phrase tables; see `subject` for what each field holds.

use super::super::subject::{Form, Subject, directive};

pub(super) const VEHICLES: Subject = Subject {
    sector: "motor vehicle",
    treaty: [100, 95, 114],
    committee: "Technical Committee on Motor Vehicles",
    chapter: 87,
    goods: true,
    things: &[
        "braking devices",
        "rear-view mirrors",
        "safety belts",
        "exhaust emissions",
        "lighting installations",
        "agricultural tractors",
        "tyres",
        "steering equipment",
        "speedometers",
        "fuel tanks",
    ],
    actors: &["manufacturers", "technical services", "importers", "dealers", "approval authorities"],
    goals: &[
        "remove technical barriers to trade",
        "reduce emissions of pollutants",
        "protect pedestrians",
        "set up an approval procedure for each type of vehicle",
        "improve the field of vision of drivers",
    ],
    docs: &["approval certificates", "information documents", "test reports"],
    terms: &[
        "'vehicle' means any motor vehicle with at least four wheels and a design speed above {#20-45} km/h",
        "'type' means vehicles which do not differ as regards {thing}",
        "'technical service' means the body designated to carry out tests",
        "'kerb mass' means the mass of the vehicle in running order",
    ],
    bases: &[
        directive(
            156,
            1970,
            "on the approximation of the laws relating to the approval of motor vehicles and their trailers",
        ),
        directive(
            297,
            1985,
            "on the approximation of the laws relating to parts and characteristics of vehicles",
        ),
        directive(53, 1998, "on the approval of vehicles and of separate technical units"),
    ],
    titles: &[
        (Form::Approximate, "on the approximation of the laws of the Member States relating to {things}"),
        (Form::Approximate, "on the approval of motor vehicles with regard to {things}"),
        (Form::Amend, "adapting to technical progress {base} relating to {things}"),
        (Form::Amend, "amending {base} as regards {things}"),
        (Form::Grant, "on a request by {ms} for exemption concerning {things}"),
    ],
    recitals: &[
        "the technical requirements for {thing} differ from one Member State to another",
        "progress in vehicle construction now makes it possible to adopt stricter requirements for {thing2}",
        "the limit values should be lowered by {pct} from {later}",
        "vehicles tested in {ms} show a reduction of {pct} in fuel consumption",
        "approval granted by one Member State for {thing2} should be accepted by all the others",
    ],
    rules: &[
        "No Member State may refuse to grant approval of a vehicle on grounds relating to {thing2} if {art} \
         is complied with.",
        "The mass of carbon monoxide emitted shall not exceed {#1-4},{#1-9} grams per kilometre.",
        "The force applied in the test of {thing2} shall be {#100-900} newtons, with a tolerance of {#1-5} \
         %.",
        "Each unit of {thing2} shall bear the approval mark at a height of at least {#3-20} millimetres.",
        "From {later}, the Member States shall refuse the first entry into service of vehicles not \
         complying as regards {thing2}.",
        "The field of vision shall extend over at least {#20-180} degrees measured at a distance of {#2-30} \
         metres.",
    ],
};

pub(super) const CHEMICALS: Subject = Subject {
    sector: "chemicals",
    treaty: [100, 95, 114],
    committee: "Committee on dangerous substances",
    chapter: 28,
    goods: true,
    things: &[
        "dangerous preparations",
        "solvents",
        "fertilisers",
        "detergents",
        "plant protection products",
        "aerosols",
        "asbestos",
        "flame retardants",
        "biocidal products",
        "cosmetic products",
        "explosives",
    ],
    actors: &["manufacturers", "importers", "notifiers", "downstream users", "suppliers"],
    goals: &[
        "protect man and the environment",
        "classify substances uniformly",
        "restrict the most hazardous uses",
        "replace tests on animals",
        "avoid disparities between national rules",
    ],
    docs: &["safety data sheets", "notifications", "technical dossiers"],
    terms: &[
        "'substance' means a chemical element and its compounds in the natural state or obtained by \
         production",
        "'placing on the market' means supplying {thing} to third parties",
        "'notifier' means the person who submits the dossier referred to in {oart} of {base}",
        "'biodegradability' means the percentage of the substance broken down within {#14-40} days",
    ],
    bases: &[
        directive(548, 1967, "on the classification, packaging and labelling of dangerous substances"),
        directive(
            769,
            1976,
            "relating to restrictions on the marketing and use of certain dangerous substances",
        ),
        directive(414, 1991, "concerning the placing of plant protection products on the market"),
    ],
    titles: &[
        (Form::Approximate, "relating to restrictions on the marketing and use of {things}"),
        (Form::Rules, "laying down rules for the evaluation of {things}"),
        (Form::Grant, "concerning the withdrawal in {ms} of authorisations for {things}"),
        (Form::Grant, "allowing {ms} to extend provisional authorisations granted for {things}"),
        (Form::Amend, "amending {base} as regards the classification of {things}"),
    ],
    recitals: &[
        "the effects of {thing} on human health have been assessed by {ms} as rapporteur",
        "it may be expected that the use of {thing2} satisfies the requirements, in particular with regard \
         to the uses examined",
        "the dossier on {thing2} was submitted on {earlier} and declared complete on {earlier}",
        "the concentration of {thing2} in ground water should not exceed {#1-9} micrograms per litre",
        "warnings should be printed on the packaging of {thing2} in a legible form",
    ],
    rules: &[
        "{thing2} shall not be placed on the market in concentrations above {#1-9},{#1-9} % by weight.",
        "The packaging of {thing2} shall show a danger symbol covering at least {#5-25} % of its surface.",
        "Existing stocks of {thing2} may be used until {later}, and not thereafter.",
        "Each notification concerning {thing2} shall be accompanied by a dossier and a fee of {money}.",
        "The average biodegradability of {thing2} shall be not less than {#60-95} %.",
        "{anyms} shall act as rapporteur for {thing2} and report by {later}.",
    ],
};

pub(super) const WASTE: Subject = Subject {
    sector: "environment",
    treaty: [235, 175, 192],
    committee: "Committee on the adaptation of environmental legislation",
    chapter: 38,
    goods: false,
    things: &[
        "packaging waste",
        "waste oils",
        "bathing water",
        "air quality",
        "sewage sludge",
        "natural habitats",
        "greenhouse gas allowances",
        "landfill sites",
        "urban waste water",
        "end-of-life vehicles",
        "spent batteries",
    ],
    actors: &["operators", "producers of waste", "local authorities", "recyclers", "holders of permits"],
    goals: &[
        "preserve the quality of the environment",
        "increase recycling",
        "reduce discharges into water",
        "protect wild species",
        "limit emissions of greenhouse gases",
        "inform the public",
    ],
    docs: &["permits", "monitoring reports", "consignment notes"],
    terms: &[
        "'waste' means any substance or object which the holder discards or intends to discard",
        "'recovery' means any operation by which waste serves a useful purpose",
        "'best available techniques' means the most effective stage in the development of methods of \
         operation",
        "'limit value' means a level not to be exceeded more than {#3-35} times a year",
    ],
    bases: &[
        directive(371, 1971, "on the protection of the environment against pollution"),
        directive(442, 1975, "on waste"),
        directive(61, 1996, "concerning integrated pollution prevention and control"),
        directive(98, 2008, "on waste and its recovery"),
    ],
    titles: &[
        (Form::Approximate, "on the management of {things}"),
        (Form::Approximate, "concerning limit values applicable to {things}"),
        (Form::Rules, "laying down rules for the monitoring and reporting of {things}"),
        (Form::Grant, "concerning national provisions notified by {ms} on {things}"),
        (Form::Amend, "amending {base} as regards {things}"),
    ],
    recitals: &[
        "the action programme on the environment stresses the need for measures on {thing}",
        "the polluter pays principle requires that the costs of {thing2} be borne by those responsible",
        "a recycling target of at least {#20-85} % by weight should be reached by {later}",
        "measurements in {anyms} show that concentrations have {trend} since {lastyear}",
        "the public should have access to information on {thing2}",
        "plans for {thing2} should be drawn up at regional level",
    ],
    rules: &[
        "{shallms} ensure that at least {#20-90} % by weight of {thing2} is recovered by {later}.",
        "No installation dealing with {thing2} may be operated without a permit, which shall be reviewed \
         every {years} years.",
        "The concentration of sulphur dioxide shall not exceed {#20-400} micrograms per cubic metre as a \
         daily mean.",
        "Samples shall be taken at intervals of not more than {#1-12} weeks at the points most exposed.",
        "Competent authorities shall draw up plans for {thing2} and make them available to the public for \
         at least {days} days.",
        "Operators shall surrender, by {later}, allowances equal to the emissions of the preceding calendar \
         year.",
    ],
};

pub(super) const ENERGY: Subject = Subject {
    sector: "energy",
    treaty: [103, 95, 194],
    committee: "Committee on energy markets",
    chapter: 27,
    goods: false,
    things: &[
        "natural gas",
        "electricity transmission",
        "petroleum stocks",
        "coking coal",
        "renewable sources",
        "energy labelling",
        "hot-water boilers",
        "cogeneration",
        "nuclear materials",
        "domestic refrigerators",
    ],
    actors: &["network operators", "suppliers", "consumers", "storage operators", "generators"],
    goals: &[
        "secure supplies of energy",
        "complete the internal energy market",
        "save energy",
        "diversify sources of supply",
        "harmonise the labelling of appliances",
    ],
    docs: &["supply contracts", "guarantees of origin", "investment notifications"],
    terms: &[
        "'network operator' means the person responsible for operating and developing the grid",
        "'eligible customer' means a customer free to purchase from the supplier of his choice",
        "'stockholding obligation' means the duty to keep stocks equal to {#60-120} days of consumption",
        "'efficiency' means the ratio of useful output to the energy consumed",
    ],
    bases: &[
        directive(414, 1968, "imposing an obligation to maintain minimum stocks of petroleum products"),
        directive(377, 1990, "concerning the transparency of prices and the transit of energy through grids"),
        directive(54, 2003, "concerning common rules for the internal market in energy"),
    ],
    titles: &[
        (Form::Approximate, "concerning common rules for {things}"),
        (Form::Approximate, "on the efficiency requirements for {things}"),
        (Form::Rules, "on the notification of investment projects concerning {things}"),
        (Form::Grant, "on an exemption requested by {ms} as regards {things}"),
        (Form::Amend, "amending {base} as regards {things}"),
    ],
    recitals: &[
        "dependence on imports of energy from {anycountry} has {trend} since {lastyear}",
        "third-party access to networks is essential for competition as regards {thing}",
        "the share of {thing2} in gross consumption should reach {pct} by {nextyear}",
        "price transparency as regards {thing2} promotes the efficient use of energy",
        "savings of {pct} are considered possible in the field of {thing2}",
    ],
    rules: &[
        "Stocks shall be maintained at a level equal to at least {#60-120} days of average consumption.",
        "Network operators shall publish, {#2-12} months in advance, the capacity available for {thing2}.",
        "Appliances covered by {this} shall consume not more than {#100-900} kilowatt-hours per year.",
        "Prices charged to industrial users for {thing2} shall be communicated on 1 January and 1 July of \
         each year.",
        "The label shall show the class of efficiency from A to G and the annual consumption.",
        "Projects with a capacity of more than {#10-900} megawatts shall be notified by {later}.",
    ],
};

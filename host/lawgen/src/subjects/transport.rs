//! Subjects: transport by road, air and sea, and communications.
//!
//! Plain phrase tables; see `subject` for what each field holds.

use super::super::subject::{Form, Subject, directive, regulation};

pub(super) const ROAD: Subject = Subject {
    sector: "road transport",
    treaty: [75, 71, 91],
    committee: "Committee on road transport",
    chapter: 87,
    goods: false,
    things: &[
        "recording equipment",
        "combined transport",
        "cabotage operations",
        "driving licences",
        "heavy goods vehicles",
        "occasional coach services",
        "rest periods of drivers",
        "road tolls",
        "dangerous goods",
    ],
    actors: &["hauliers", "drivers", "undertakings", "workshops", "consignors"],
    goals: &[
        "improve road safety",
        "harmonise conditions of competition between modes",
        "open the market in haulage",
        "relieve transit routes",
        "charge for the use of roads",
    ],
    docs: &["transport authorisations", "journey forms", "driver attestations"],
    terms: &[
        "'carriage' means any journey by road of a vehicle, laden or not",
        "'driver' means any person who drives the vehicle even for a short period",
        "'daily driving period' means the time driven between two rest periods",
        "'vehicle' means a motor vehicle with a maximum mass of more than {#3-12} tonnes",
    ],
    bases: &[
        regulation(543, 1969, "on the harmonisation of social legislation relating to road transport"),
        regulation(3164, 1985, "on recording equipment and quotas in road transport"),
        directive(26, 1996, "on admission to the occupation of road transport operator"),
    ],
    titles: &[
        (
            Form::Rules,
            "laying down the conditions under which non-resident carriers may undertake operations \
             concerning {things}",
        ),
        (Form::Approximate, "on the harmonisation of rules relating to {things}"),
        (Form::Amend, "amending {base} as regards {things}"),
        (Form::Grant, "authorising {ms} to apply special rules on {things}"),
    ],
    recitals: &[
        "transit through {ms} by heavy vehicles has {trend} since {earlier}",
        "the annual quota of authorisations concerning {thing} should be raised to {quantity}",
        "driving and rest times must be recorded by reliable means",
        "the costs of {thing2} differ widely between {anyms} and {anyms}",
        "the safety of {thing2} calls for technical checks at the roadside",
    ],
    rules: &[
        "The daily driving period shall not exceed {#8-10} hours, and the weekly total shall not exceed \
         {#48-60} hours.",
        "After {#3-5} hours of driving, the driver shall take a break of at least {#30-60} minutes.",
        "Undertakings concerned by {thing2} shall have at their disposal capital of at least {money} per \
         vehicle.",
        "The number of authorisations for {thing2} allocated to {anyms} shall be {#40-900}.",
        "Checks shall cover each year at least {#1-5} % of the days worked by drivers.",
        "Documents relating to {thing2} shall be carried on the vehicle and shown at the request of an \
         inspector.",
    ],
};

pub(super) const AIR: Subject = Subject {
    sector: "air transport",
    treaty: [84, 80, 100],
    committee: "Aviation Safety Committee",
    chapter: 88,
    goods: false,
    things: &[
        "scheduled air services",
        "airport slots",
        "computerised reservation systems",
        "cabin baggage",
        "aviation security",
        "airworthiness",
        "air fares",
        "groundhandling",
        "public service obligations",
    ],
    actors: &["air carriers", "airport operators", "coordinators", "passengers", "system vendors"],
    goals: &[
        "complete the internal market in aviation",
        "ensure a high level of safety",
        "protect the rights of passengers",
        "use airport capacity efficiently",
        "keep remote regions accessible",
    ],
    docs: &["operating licences", "air operator certificates", "slot requests"],
    terms: &[
        "'air carrier' means an undertaking with a valid operating licence",
        "'slot' means the permission to use the airport at a given date and time",
        "'seat capacity' means the number of seats offered to the public over a season",
        "'denied boarding' means a refusal to carry passengers who have presented themselves in time",
    ],
    bases: &[
        regulation(1017, 1968, "applying common rules to services related to transport"),
        regulation(2343, 1990, "on access for air carriers to scheduled intra-Community routes"),
        regulation(1592, 2002, "on common rules in the field of civil aviation"),
    ],
    titles: &[
        (Form::Rules, "on common rules for {things}"),
        (Form::Rules, "laying down technical requirements for {things}"),
        (Form::Grant, "on the access of carriers to routes in {ms} as regards {things}"),
        (Form::Amend, "amending {base} as regards {things}"),
        (Form::Rules, "on the supervision of carriers as regards {things}"),
    ],
    recitals: &[
        "deficiencies concerning {thing} were found during ramp inspections carried out in {ms} since \
         {earlier}",
        "congestion at major airports makes it necessary to lay down neutral rules on {thing2}",
        "the public service obligation imposed on {earlier} provides for at least {#2-20} flights per week",
        "passengers on flights to {anycountry} should enjoy comparable protection",
        "the carrier concerned submitted a plan of corrective action on {earlier}",
    ],
    rules: &[
        "Slots not used for at least {#70-90} % of the time shall be returned to the pool.",
        "In the case of denied boarding, passengers shall receive {money} for flights of up to {#1500-3500} \
         kilometres.",
        "Carriers shall file fares at least {#10-60} days before they take effect.",
        "The frequency of services on the routes concerned shall be at least {#2-14} return flights per \
         week.",
        "Aircraft shall be withdrawn from service if checks on {thing2} reveal a serious defect.",
        "Airport operators handling more than {#1-9} million passengers per year shall set up a users' \
         committee on {thing2}.",
    ],
};

pub(super) const SEA: Subject = Subject {
    sector: "maritime transport",
    treaty: [84, 80, 100],
    committee: "Committee on Safe Seas",
    chapter: 89,
    goods: false,
    things: &[
        "oil tankers",
        "passenger ships",
        "port reception facilities",
        "marine equipment",
        "bulk carriers",
        "training of seafarers",
        "ship-generated waste",
        "ro-ro ferries",
        "liner conferences",
    ],
    actors: &["shipowners", "masters of ships", "port authorities", "recognised organisations", "pilots"],
    goals: &[
        "prevent pollution of the seas",
        "improve the safety of ships",
        "eliminate substandard shipping",
        "ensure effective port State control",
        "promote short sea shipping",
    ],
    docs: &["safety certificates", "inspection reports", "notification forms"],
    terms: &[
        "'company' means the owner of the ship or any other person responsible for its operation",
        "'gross tonnage' means the tonnage measured in accordance with the 1969 Convention",
        "'detention' means the formal prohibition for a ship to proceed to sea",
        "'recognised organisation' means a classification body approved under {oart} of {base}",
    ],
    bases: &[
        regulation(954, 1971, "on the application of common principles to shipping"),
        regulation(4055, 1986, "applying the freedom to provide services to maritime transport"),
        directive(
            21,
            1995,
            "concerning the enforcement of standards for ship safety and pollution prevention",
        ),
    ],
    titles: &[
        (Form::Approximate, "on minimum safety requirements for {things}"),
        (Form::Rules, "on the accelerated phasing-in of standards for {things}"),
        (Form::Amend, "amending {base} as regards {things}"),
        (Form::Grant, "on the recognition by {ms} of certificates concerning {things}"),
        (Form::Approximate, "on the notification of particulars concerning {things}"),
    ],
    recitals: &[
        "accidents involving {thing} off the coast of {ms} caused serious pollution",
        "at least {#15-30} % of the ships calling at the ports of each Member State should be inspected",
        "the conventions on {thing2} in force since {lastyear} should be applied uniformly",
        "ships flying the flag of a third country should not be treated more favourably",
        "the costs of {thing2} should be covered by a fee",
    ],
    rules: &[
        "Ships of more than {#300-5000} gross tonnage shall be surveyed at intervals of not more than \
         {#12-60} months.",
        "Masters shall give notice at least {#12-72} hours before arrival at a port of {anyms}.",
        "Ships found to be unsafe shall be detained until the deficiencies relating to {thing2} have been \
         rectified.",
        "Fees for {thing2} shall be paid by all ships, whether or not they use the facilities.",
        "Seafarers shall hold a certificate concerning {thing2} that has been issued within the last \
         {years} years.",
        "The number of persons on board shall be counted before departure and passed on within {#20-60} \
         minutes.",
    ],
};

pub(super) const TELECOMS: Subject = Subject {
    sector: "electronic communications",
    treaty: [100, 95, 114],
    committee: "Communications Committee",
    chapter: 85,
    goods: false,
    things: &[
        "mobile roaming",
        "frequency bands",
        "terminal equipment",
        "leased lines",
        "number portability",
        "universal service",
        "broadband access",
        "postal services",
        "electronic signatures",
        "satellite services",
    ],
    actors: &[
        "network operators",
        "service providers",
        "regulatory authorities",
        "subscribers",
        "equipment manufacturers",
    ],
    goals: &[
        "open networks to competition",
        "guarantee universal service",
        "make efficient use of the radio spectrum",
        "protect personal data",
        "lower the charges paid by users",
    ],
    docs: &["individual licences", "reference offers", "conformity declarations"],
    terms: &[
        "'operator' means an undertaking providing or authorised to provide a public network",
        "'interconnection' means the physical and logical linking of networks used by different undertakings",
        "'user' means any person using or requesting a publicly available service",
        "'harmful interference' means interference which seriously degrades a radio service",
    ],
    bases: &[
        directive(320, 1971, "on the coordination of telecommunications equipment"),
        directive(387, 1990, "on the establishment of the internal market for telecommunications services"),
        directive(21, 2002, "on a common regulatory framework for electronic communications"),
    ],
    titles: &[
        (Form::Approximate, "on the application of open network provision to {things}"),
        (Form::Rules, "laying down technical rules for {things}"),
        (Form::Grant, "on the harmonised use in {ms} of {things}"),
        (Form::Amend, "amending {base} as regards {things}"),
        (Form::Rules, "on charges for {things}"),
    ],
    recitals: &[
        "the market analysis submitted by {ms} shows that competition as regards {thing} is not effective",
        "retail charges exceed costs by up to {pct} in the case of {thing2}",
        "the mandate given on {earlier} asked for harmonised conditions for {thing2}",
        "users should be able to compare tariffs for {thing2}",
        "operators with a market share above {#20-50} % should be subject to additional obligations",
    ],
    rules: &[
        "The charge for {thing2} shall not exceed {#5-60} cents per minute, excluding tax.",
        "The band from {#400-900} to {#901-3800} MHz shall be made available for {thing2} by {later}.",
        "Operators with significant market power shall publish a reference offer for {thing2}.",
        "Complaints from subscribers about {thing2} shall be settled within {days} days.",
        "Transmitter power shall be limited to {#1-500} milliwatts in the bands used for {thing2}.",
        "Equipment which complies with harmonised standards on {thing2} shall be presumed to comply with \
         {art}.",
    ],
};

//! Subjects: fisheries.
//!
//! Plain phrase tables; see `subject` for what each field holds.

use super::super::subject::{Form, Subject, regulation};

pub(super) const FISHERIES: Subject = Subject {
    sector: "fisheries",
    treaty: [43, 37, 43],
    committee: "Management Committee for Fishery Products",
    chapter: 3,
    goods: true,
    things: &[
        "cod",
        "haddock",
        "herring",
        "mackerel",
        "common sole",
        "hake",
        "Norway lobster",
        "anglerfish",
        "whiting",
        "sprat",
        "blue whiting",
        "plaice",
        "bluefin tuna",
        "northern prawn",
    ],
    actors: &[
        "vessel owners",
        "masters of fishing vessels",
        "producer organisations",
        "licence holders",
        "first buyers",
    ],
    goals: &[
        "ensure the conservation of stocks",
        "protect juvenile fish",
        "adapt fleet capacity to the resources",
        "improve the recording of catches",
        "share the resource fairly",
    ],
    docs: &["fishing licences", "logbooks", "landing declarations"],
    terms: &[
        "'fishing vessel' means any vessel equipped for the commercial exploitation of living aquatic \
         resources",
        "'total allowable catch' means the quantity of {thing} that may be taken from a stock in one year",
        "'mesh size' means the size determined in accordance with {oart} of {base}",
        "'landing' means the first unloading of any quantity of fish from a vessel in port",
        "'by-catch' means any species caught together with {thing} and kept on board",
    ],
    bases: &[
        regulation(2141, 1970, "laying down a common structural policy for the fishing industry"),
        regulation(
            170,
            1983,
            "establishing a system for the conservation and management of fishery resources",
        ),
        regulation(2371, 2002, "on the conservation and sustainable exploitation of fisheries resources"),
    ],
    titles: &[
        (Form::Stop, "concerning the stopping of fishing for {thing} by vessels flying the flag of {ms}"),
        (Form::Stop, "establishing a prohibition of fishing for {thing} by vessels of {ms}"),
        (Form::Rules, "fixing for {year} the fishing opportunities for {things}"),
        (Form::Rules, "laying down technical measures for the conservation of {things}"),
        (Form::Amend, "amending {base} as regards catch limits for {things}"),
        (
            Form::Grant,
            "on a contribution towards expenditure incurred by {ms} in monitoring catches of {things}",
        ),
    ],
    recitals: &[
        "scientific advice indicates that the stock of {thing} is outside safe biological limits",
        "catches of {thing2} in the waters west of {ms} have {trend} since {lastyear}",
        "minimum mesh sizes of at least {#70-120} millimetres are needed to protect juvenile {thing2}",
        "the consultations with {country} on their mutual fishing rights were concluded on {earlier}",
        "by-catches of {thing2} should be counted against the quota",
        "effort on {thing2} should be limited by a maximum number of days at sea",
    ],
    rules: &[
        "It shall be prohibited to retain on board {thing2} below a length of {#11-60} centimetres.",
        "Nets used in fishing for {thing2} shall have a mesh size of at least {#60-140} millimetres.",
        "The number of days at sea of vessels catching {thing2} shall not exceed {#8-25} in any month.",
        "Masters shall record each quantity of {thing2} above {#20-100} kilograms in the logbook.",
        "By-catches of {thing2} shall not exceed {pct} of the total weight of the catch on board.",
        "The catch limit for {thing2} shall be {tonnes} for {year}, of which {pct} shall be allocated to \
         {anyms}.",
        "Landings of more than {#1-10} tonnes of {thing2} shall take place only in designated ports.",
    ],
};

//! Phrase tables that do not depend on the subject: names, list points and small alternatives.

/// Member States with the year from which acts may name them, in order of that year.
pub(super) const MEMBER_STATES: &[(&str, u32)] = &[
    ("Belgium", 1958),
    ("Germany", 1958),
    ("France", 1958),
    ("Italy", 1958),
    ("Luxembourg", 1958),
    ("the Netherlands", 1958),
    ("Denmark", 1973),
    ("Ireland", 1973),
    ("the United Kingdom", 1973),
    ("Greece", 1981),
    ("Spain", 1986),
    ("Portugal", 1986),
    ("Austria", 1995),
    ("Finland", 1995),
    ("Sweden", 1995),
    ("Poland", 2004),
    ("Hungary", 2004),
    ("Estonia", 2004),
    ("Slovenia", 2004),
    ("Cyprus", 2004),
    ("Lithuania", 2004),
    ("Malta", 2004),
    ("Bulgaria", 2007),
    ("Romania", 2007),
];

/// Third countries.
pub(super) const COUNTRIES: &[&str] = &[
    "Argentina",
    "Australia",
    "Brazil",
    "Canada",
    "Chile",
    "Colombia",
    "Ecuador",
    "Egypt",
    "Iceland",
    "India",
    "Indonesia",
    "Israel",
    "Japan",
    "Jordan",
    "Kenya",
    "Malaysia",
    "Mexico",
    "Morocco",
    "New Zealand",
    "Norway",
    "Pakistan",
    "Peru",
    "South Africa",
    "Switzerland",
    "Thailand",
    "Tunisia",
    "Turkey",
    "Ukraine",
    "Uruguay",
    "Vietnam",
];

/// Initials and surnames of those who sign; invented.
pub(super) const SIGNATORIES: &[&str] = &[
    "A. BERGMANN",
    "J. CASTELLI",
    "M. DE WITTE",
    "P. O'HARA",
    "H. LINDQVIST",
    "C. FERREIRA",
    "G. MARCHAND",
    "K. SORENSEN",
    "L. PAPADAKIS",
    "R. THORNTON",
    "E. KELLNER",
    "F. MONTERO",
    "T. VAN DALEN",
    "S. ROSSINI",
    "D. HALLORAN",
    "B. NIEMINEN",
    "V. DELACROIX",
    "W. STEINER",
    "N. KOWALCZYK",
    "I. HORVATH",
];

/// Things an application or a report must state.
pub(super) const PARTICULARS: &[&str] = &[
    "the name and address of the applicant",
    "the quantity of {thing2} concerned, expressed in {unit}",
    "the date and place of the operation",
    "the number and date of issue of the {docs}",
    "the country of origin and the country of destination",
    "a description of the {thing2} with the corresponding code",
    "the period to which the information relates",
    "the amount of the security lodged",
    "the number of applications received and the number rejected",
    "the measures taken pursuant to {art}",
    "the results of the checks carried out during the preceding {period}",
    "a statement by the applicant that the conditions of {art} are complied with",
    "the estimated cost of the measures and the share to be borne by the {com} budget",
    "the grounds on which the decision is based",
    "the names of the bodies designated for the purposes of {art}",
    "any other particulars requested by {authorities}",
];

/// Conditions, each a clause.
pub(super) const CONDITIONS: &[&str] = &[
    "the application is lodged not later than {later}",
    "compliance with {oart} of {base} has been established for {thing2}",
    "the quantity does not exceed {tonnes} per {period}",
    "the applicant has kept the records referred to in {art}",
    "a security of {money} has been lodged with {authorities}",
    "the {docs} are presented in support of the declaration",
    "no infringement has been established during the preceding {years} years",
    "the operation is carried out under the supervision of {authorities}",
    "proof is furnished to the satisfaction of {authorities} that {goalclause}",
    "the persons concerned undertake in writing to accept any check provided for in {this}",
    "the aid or advantage granted does not exceed {pct} of the eligible costs",
    "the deadlines laid down in {art} have been observed",
    "the interests of {actors} in other Member States are not adversely affected",
];

/// Duties, each the rest of a sentence that starts with `shall`.
pub(super) const DUTIES: &[&str] = &[
    "keep a register of all operations relating to {thing2}",
    "inform {authorities} of any change in the particulars supplied, within {days} days",
    "retain the supporting documents for at least {years} years",
    "give the officials responsible for checks access to premises and records",
    "make sure that the {thing2} can be identified at any time",
    "appoint a person responsible for relations with {authorities}",
    "submit, by the {#5-25}th day of each month, a summary of the operations carried out",
    "bear the costs arising from the checks provided for in {art}",
    "comply with the instructions given pursuant to {art}",
];

/// Returns the table of alternatives that a placeholder names, if it names one.
pub(super) fn table(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "authorities" => &[
            "the competent authorities",
            "the competent authority",
            "the authorities of the Member State concerned",
            "the responsible body",
            "the designated bodies",
        ],
        "shallms" => &["Member States shall", "The Member States concerned shall", "Each Member State shall"],
        "authorities-sub" => {
            &["The competent authorities", "The competent authority", "The responsible body", "Member States"]
        }
        "entryday" => &["seventh", "10th", "20th", "30th"],
        "days" => &["7", "10", "14", "15", "20", "21", "30", "45", "60", "90"],
        "months" => &[
            "one month",
            "two months",
            "three months",
            "four months",
            "six months",
            "12 months",
            "18 months",
        ],
        "years" => &["two", "three", "four", "five", "seven", "ten"],
        "period" => &["month", "quarter", "half-year", "calendar year", "marketing year", "reference period"],
        "unit" => &["tonnes", "kilograms", "units", "net weight", "hectolitres", "thousands of pieces"],
        "deadline" => &[
            "without delay",
            "within {days} days of {event}",
            "not later than {later}",
            "within {months} of {event}",
            "before the end of each {period}",
            "not later than {months} after {event}",
        ],
        "event" => &[
            "receipt of the application",
            "the end of the period concerned",
            "the date of notification",
            "the submission of the documents",
            "the entry into force of {this}",
            "acceptance of the declaration",
            "the completion of the operation",
        ],
        "purpose" => &[
            "in order to {goal}",
            "with a view to the proper application of {this}",
            "for the purposes of {this}",
            "in the interest of sound administration",
            "in order to prevent any distortion of competition",
        ],
        "reason" => &[
            "in the light of experience",
            "in view of the situation on the market",
            "in the interest of clarity",
            "for reasons of legal certainty",
            "having regard to the quantities involved",
            "in view of the information supplied by the Member States",
            "on grounds of sound management",
        ],
        "therefore" => &["therefore", "accordingly", "consequently", "for that reason"],
        "procedure" => {
            &["the procedure laid down in {oart} of {base}", "the procedure referred to in {art-committee}"]
        }
        "goalclause" => &[
            "the stated use has been made of {thing2}",
            "the obligations entered into have been fulfilled",
            "the products have not undergone any unauthorised treatment",
            "the amounts due have been paid in full",
        ],
        "rulelevel" => &[
            "detailed rules",
            "common rules",
            "special provisions",
            "uniform conditions",
            "transitional rules",
        ],
        "unless" => &[
            "Save in cases of force majeure, ",
            "Without prejudice to {art}, ",
            "Notwithstanding {art}, ",
            "Subject to {art}, ",
            "For the purposes of {art}, ",
            "By way of derogation from {oart} of {base}, ",
            "At the request of the party concerned, ",
            "Where appropriate, ",
        ],
        "significant" => &["substantial", "appreciable", "limited", "considerable", "marked", "sudden"],
        "situation" => &[
            "supply",
            "demand",
            "the level of prices",
            "trade",
            "production",
            "consumption",
            "investment",
            "employment",
        ],
        "trend" => {
            &["increased", "declined", "remained stable", "fluctuated", "risen sharply", "fallen slightly"]
        }
        _ => return None,
    })
}

//! Subjects: competition, State aid and financial services.
//!
//! Plain phrase tables; see `subject` for what each field holds.

use super::super::subject::{Form, Subject, directive, regulation};

pub(super) const COMPETITION: Subject = Subject {
    sector: "competition",
    treaty: [87, 83, 103],
    committee: "Advisory Committee on Restrictive Practices",
    chapter: 48,
    goods: false,
    things: &[
        "exclusive distribution agreements",
        "patent licences",
        "concentrations between undertakings",
        "specialisation agreements",
        "selective distribution",
        "price-fixing agreements",
        "joint ventures",
        "franchise agreements",
    ],
    actors: &["undertakings", "notifying parties", "distributors", "suppliers", "complainants"],
    goals: &[
        "preserve effective competition",
        "put an end to the infringement",
        "provide legal certainty for undertakings",
        "exempt agreements that benefit consumers",
        "deter abuse of a dominant position",
    ],
    docs: &["notifications", "statements of objections", "commitments"],
    terms: &[
        "'agreement' means an agreement, a decision by an association or a concerted practice",
        "'relevant market' means the market for {thing} and the area in which conditions are alike",
        "'connected undertakings' means undertakings in which a party holds more than half of the voting \
         rights",
        "'turnover' means the amounts derived from sales in the preceding financial year",
    ],
    bases: &[
        regulation(17, 1962, "being the first regulation implementing the rules on competition"),
        regulation(1984, 1983, "on the application of the Treaty to categories of agreements"),
        regulation(1310, 1997, "on the control of concentrations between undertakings"),
    ],
    titles: &[
        (Form::Rules, "on the application of the competition rules of the Treaty to categories of {things}"),
        (Form::Rules, "on the notifications, time limits and hearings concerning {things}"),
        (Form::Grant, "relating to a proceeding in {ms} concerning {things}"),
        (Form::Grant, "declaring compatible with the common market an operation in {ms} concerning {things}"),
        (Form::Amend, "amending {base} as regards {things}"),
    ],
    recitals: &[
        "on {earlier} the Commission received a notification concerning {thing} between undertakings \
         established in {ms} and {anyms}",
        "the combined market share of the parties is between {#10-25} % and {#26-60} %",
        "the agreements restrict competition in so far as they oblige distributors to refrain from sales \
         outside their territory",
        "having regard to the gravity and the duration of the infringement, a fine of {money} is appropriate",
        "the parties offered commitments on {earlier} which remove the serious doubts",
        "agreements of this kind generally improve the distribution of goods and allow consumers a fair \
         share of the benefit",
    ],
    rules: &[
        "The exemption shall apply on condition that the market share of each party does not exceed \
         {#15-40} %.",
        "The exemption shall not apply where the parties fix prices or share markets or customers.",
        "Fines of {money} are imposed on the undertakings concerned by {thing2}, payable within {months}.",
        "The undertakings shall bring the infringement relating to {thing2} to an end {deadline}.",
        "Non-compete obligations in {thing2} shall not exceed {years} years.",
        "The Commission shall give the parties the opportunity to be heard before taking a decision on \
         {thing2}.",
    ],
};

pub(super) const STATE_AID: Subject = Subject {
    sector: "State aid",
    treaty: [94, 89, 109],
    committee: "Advisory Committee on State Aid",
    chapter: 73,
    goods: false,
    things: &[
        "regional investment aid",
        "aid to shipbuilding",
        "rescue aid",
        "tax exemptions",
        "training aid",
        "aid to the steel industry",
        "aid to small enterprises",
        "loan guarantees",
        "aid to coal mining",
    ],
    actors: &[
        "beneficiaries",
        "undertakings in difficulty",
        "granting authorities",
        "competitors",
        "third parties",
    ],
    goals: &[
        "restore long-term viability",
        "avoid undue distortion of competition",
        "promote regional development",
        "phase out operating aid",
        "recover unlawful aid",
    ],
    docs: &["restructuring plans", "annual reports", "summary information sheets"],
    terms: &[
        "'aid intensity' means the aid expressed as a percentage of the eligible costs",
        "'undertaking in difficulty' means an undertaking unable to stem losses with its own resources",
        "'unlawful aid' means new aid put into effect without prior authorisation",
        "'assisted area' means a region listed in the map approved for {ms}",
    ],
    bases: &[
        regulation(1191, 1969, "on action by Member States concerning certain obligations"),
        regulation(2064, 1986, "establishing rules for aid to certain industries"),
        regulation(
            994,
            1998,
            "on the application of the Treaty to certain categories of horizontal State aid",
        ),
    ],
    titles: &[
        (Form::Grant, "on {things} granted by {ms}"),
        (Form::Grant, "concerning {things} which {ms} is planning to implement"),
        (Form::Rules, "declaring certain categories of {things} compatible with the internal market"),
        (Form::Rules, "laying down detailed rules for the notification of {things}"),
        (Form::Amend, "amending {base} as regards {things}"),
    ],
    recitals: &[
        "by letter dated {earlier}, the Commission informed {ms} that it had decided to initiate the \
         procedure in respect of {thing}",
        "the decision to initiate the procedure was published in the {journal} on {earlier}, and comments \
         were received from {#2-9} interested parties",
        "the measures confer an advantage on {actors} and are financed through State resources",
        "the restructuring costs amount to {money}, of which {pct} is to be covered by the beneficiary",
        "the reduction of capacity by {pct} offsets the effects of the aid on competition",
        "{ms} regretted that it had not been able to notify the aid before {earlier}",
    ],
    rules: &[
        "{ms} shall recover the aid referred to in {art} from the beneficiary, with interest running from \
         {earlier}.",
        "The aid intensity of {thing2} shall not exceed {pct} of the eligible costs, or {pct} in assisted \
         areas.",
        "The beneficiary shall reduce its production capacity by {pct} not later than {later}.",
        "{thing2} shall be exempt from notification where the amount does not exceed {money} per \
         undertaking.",
        "No further rescue or restructuring aid shall be granted to the beneficiary before {later}.",
        "Sales of assets shall be carried out in an open procedure, and the proceeds of up to {money} shall \
         be used for the plan.",
    ],
};

pub(super) const INSURANCE: Subject = Subject {
    sector: "financial services",
    treaty: [57, 47, 53],
    committee: "Committee on banking and insurance",
    chapter: 71,
    goods: false,
    things: &[
        "life assurance",
        "capital adequacy",
        "deposit guarantees",
        "credit institutions",
        "investment funds",
        "annual accounts",
        "value added tax",
        "company mergers",
        "public contracts",
        "excise duties",
    ],
    actors: &[
        "credit institutions",
        "insurance undertakings",
        "shareholders",
        "auditors",
        "contracting entities",
    ],
    goals: &[
        "protect savers and policyholders",
        "coordinate national supervision",
        "ensure the free movement of capital",
        "make company accounts comparable",
        "eliminate double taxation",
    ],
    docs: &["prospectuses", "solvency statements", "annual accounts"],
    terms: &[
        "'home Member State' means the State in which the undertaking was authorised",
        "'own funds' means capital and reserves that are freely available",
        "'branch' means a place of business which forms a legally dependent part of an undertaking",
        "'taxable person' means any person who independently carries out an economic activity",
    ],
    bases: &[
        directive(
            151,
            1968,
            "on the coordination of safeguards for the protection of the interests of members and others",
        ),
        directive(
            780,
            1977,
            "on the coordination of the laws relating to the business of credit and insurance",
        ),
        directive(12, 2000, "relating to the taking up and pursuit of financial activities"),
    ],
    titles: &[
        (
            Form::Approximate,
            "on the coordination of laws, regulations and administrative provisions relating to {things}",
        ),
        (Form::Approximate, "concerning the supervision of {things}"),
        (Form::Grant, "authorising {ms} to apply a measure derogating from {base} as regards {things}"),
        (Form::Rules, "laying down standards for reports on {things}"),
        (Form::Amend, "amending {base} as regards {things}"),
    ],
    recitals: &[
        "the freedom of establishment requires the coordination of national rules on {thing}",
        "{ms} asked, by letter registered on {earlier}, for authorisation to simplify the rules on {thing}",
        "the solvency ratio of {#6-12} % should be regarded as a minimum",
        "losses of depositors in {anyms} showed that cover of {money} is not sufficient",
        "annual accounts must give a true and fair view as regards {thing2}",
    ],
    rules: &[
        "Authorisation concerning {thing2} shall be granted only where own funds amount to at least {money}.",
        "The guarantee shall cover at least {pct} of claims, up to {money} per depositor.",
        "The home Member State shall be responsible for supervision as regards {thing2}.",
        "{thing2} shall be subject to a reduced rate of not less than {#3-9} % until {later}.",
        "The solvency margin shall be equal to {#4-26} % of gross premiums received in the last financial \
         year.",
        "Undertakings shall draw up a report on {thing2} and publish it within {months} of the end of the \
         financial year.",
    ],
};

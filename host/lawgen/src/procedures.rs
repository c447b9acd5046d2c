//! The wording of articles in the middle of an act: duties, applications, checks, money, penalties.

use super::wording::Wording;

pub(super) const SUBSTANCE: Wording = Wording {
    titles: &[
        "Conditions",
        "General rules",
        "Requirements for {thing2}",
        "Obligations of {actors}",
        "Rules applicable to {thing2}",
    ],
    first: &[
        "{shallms} take all measures necessary to {goal}.",
        "{actorsub} shall:{duties}",
        "The provisions of {this} shall apply to {thing2} only if:{conditions}",
        "{unless}{thing2} may be placed on the market only if covered by {docs}.",
        "The total quantity of {thing2} to be taken into account shall be {tonnes} for the period ending on \
         {later}.",
        "{unless}the rate applicable to {thing2} shall be {pct} until {later} and {pct} thereafter.",
        "{docsub} issued in one Member State shall be valid throughout the {com}.",
        "{shallms} designate the bodies responsible for {thing2} and notify their names to the Commission \
         {deadline}.",
        "The quantities of {thing2} eligible in {anyms} and {anyms} shall be limited to {tonnes} and \
         {tonnes} respectively.",
    ],
    later: &[
        "{unless}the requirements of {par} shall be deemed to be met where {goalclause}.",
        "Where the quantities referred to in {par} are exceeded, the Commission shall fix a single \
         percentage reduction.",
        "The rate referred to in {par} shall be raised by {#1-9} percentage points where {situation} has \
         {trend}.",
        "{shallms} prohibit operations relating to {thing2} which do not comply with {par}.",
        "For {other}, the quantity referred to in {par} shall be {tonnes}.",
        "{par} of this Article shall not apply where {actors} show that the following conditions are \
         met:{conditions}",
    ],
};

pub(super) const APPLICATION: Wording = Wording {
    titles: &[
        "Applications",
        "Issue of documents",
        "Procedure for applications",
        "Submission and examination of applications",
    ],
    first: &[
        "Applications for {docs} shall be submitted to {authorities} not later than the {#2-25}th day of \
         each {period}.",
        "{docsub} shall be issued within {days} days of the date on which the application was submitted.",
        "Applications shall be made in writing and shall contain the following particulars:{particulars}",
        "Any natural or legal person established in the {com} may submit an application relating to \
         {thing2} to {authorities} of the Member State of establishment.",
        "Applications may not relate to a quantity exceeding {tonnes} of {thing2} per applicant and per \
         {period}.",
    ],
    later: &[
        "{authorities-sub} shall examine the applications referred to in {par} and take a decision within \
         {months}.",
        "Applications which do not comply with {par} shall be rejected.",
        "If the quantities applied for exceed those available, the Commission shall fix a reduction \
         coefficient within {days} days.",
        "The {docs} shall be valid for {months} from the date of issue.",
        "Rights deriving from the {docs} shall not be transferable.",
        "An application may be withdrawn within {#2-9} working days where the reduction exceeds {pct}.",
        "Applicants shall be informed {deadline} of the decision taken and of the grounds for it.",
    ],
};

pub(super) const SECURITY: Wording = Wording {
    titles: &["Securities", "Lodging and release of securities", "Payments"],
    first: &[
        "Applications shall be accompanied by proof that a security of {rate} has been lodged.",
        "The issue of {docs} shall be conditional on the lodging of a security of {money}.",
        "Payment shall be made by {authorities} within {months} of {event}.",
        "An advance of {pct} of the amount referred to in {art} may be paid against a security equal to \
         {#101-125} % of the advance.",
    ],
    later: &[
        "The security referred to in {par} shall be released when proof is furnished that {goalclause}.",
        "Except in cases of force majeure, the security shall be forfeit in proportion to the quantity for \
         which the obligation has not been fulfilled.",
        "Amounts paid in excess shall be recovered, with interest of {pct} per year.",
        "Where the time limit referred to in {par} is exceeded by less than {days} days, the amount shall \
         be reduced by {pct}.",
    ],
};

pub(super) const CHECKS: Wording = Wording {
    titles: &["Checks", "Controls and inspections", "Verification", "Supervision"],
    first: &[
        "{shallms} carry out on-the-spot checks on at least {pct} of the {actors} concerned in each \
         {period}.",
        "{authorities-sub} shall verify by means of samples the compliance of {thing2} with {art}.",
        "Checks shall be made without prior warning and shall cover in particular:{particulars}",
        "Officials appointed by the Commission may take part in the checks provided for in {art} and have \
         access to the documents drawn up.",
    ],
    later: &[
        "Each check shall be the subject of a report stating the quantities of {thing2} examined.",
        "The reports referred to in {par} shall be retained for {years} years.",
        "If irregularities affect more than {pct} of the sample, the number of checks shall be doubled in \
         the following {period}.",
        "The selection of the {actors} to be checked shall be based on a risk analysis.",
        "{actorsub} shall afford any assistance needed for the checks referred to in {par}.",
        "The sample referred to in {par} shall represent at least {pct} of the quantities declared.",
    ],
};

pub(super) const NOTIFICATION: Wording = Wording {
    titles: &["Notifications", "Communication of information", "Reports", "Exchange of information"],
    first: &[
        "{shallms} communicate to the Commission {deadline}:{particulars}",
        "{shallms} send the Commission, by {later}, a report on the application of {this}.",
        "{shallms} notify the Commission {deadline} of the quantities of {thing2} for which {docs} have \
         been issued.",
        "The Commission shall publish each year, in the {journal}, a list of the bodies referred to in \
         {art}.",
    ],
    later: &[
        "The communication referred to in {par} shall be made also where no application has been submitted.",
        "The Commission shall forward the information referred to in {par} to the other Member States.",
        "The Commission shall inform the {committee} of the notifications received pursuant to {par}.",
        "The information shall be broken down by product and by country of origin, and shall cover each \
         {period}.",
    ],
};

pub(super) const DEROGATION: Wording = Wording {
    titles: &["Derogations", "Exceptions", "Exemptions"],
    first: &[
        "By way of derogation from {art}, {anyms} may until {later} apply its national rules to {thing2}.",
        "Notwithstanding {art}, {authorities} may authorise {actors} to use {other} instead of {thing2}.",
        "{arts} shall not apply to {actors} whose annual quantity does not exceed {tonnes}.",
        "{art} shall not apply in the following cases:{conditions}",
    ],
    later: &[
        "The derogation provided for in {par} shall be granted for a period of not more than {years} years.",
        "Any Member State making use of {par} shall inform the Commission and the other Member States \
         {deadline}.",
        "The derogation referred to in {par} shall be withdrawn if its conditions are no longer met.",
        "For {anyms}, the date referred to in {par} shall be replaced by {later}.",
    ],
};

pub(super) const PENALTIES: Wording = Wording {
    titles: &["Penalties", "Sanctions", "Failure to comply"],
    first: &[
        "{shallms} lay down the penalties applicable to infringements of {this}, which shall be effective, \
         proportionate and dissuasive.",
        "Where it is found that {actors} have made a false declaration, they shall be excluded from the \
         arrangements for {months}.",
        "If the quantity declared exceeds that found by more than {pct}, no payment shall be made for the \
         {thing2} concerned.",
    ],
    later: &[
        "In the event of a repeated infringement, the period referred to in {par} shall be doubled.",
        "The Member States shall notify those provisions to the Commission by {later} and shall notify it \
         {deadline} of any amendment.",
        "{par} of this Article shall apply without prejudice to any penalties under national law.",
    ],
};

pub(super) const RECORDS: Wording = Wording {
    titles: &["Records", "Registers", "Keeping of accounts"],
    first: &[
        "{actorsub} shall keep records showing:{particulars}",
        "{authorities-sub} shall keep a register of the {docs} issued.",
        "Separate accounts shall be kept for {thing2} and for {other}.",
    ],
    later: &[
        "The records referred to in {par} shall be kept for at least {years} years from the end of the \
         {period} to which they relate.",
        "The register shall be made available to the Commission at its request within {days} days.",
        "Entries shall be made on the day of the operation or, at the latest, {#2-6} working days \
         thereafter.",
    ],
};

pub(super) const FINANCING: Wording = Wording {
    titles: &["Financing", "Financial provisions", "Eligible expenditure"],
    first: &[
        "The {com} contribution shall be {pct} of the eligible expenditure, up to a maximum of {money} per \
         {period}.",
        "The financial framework for the implementation of {this} for the period {year} to {nextyear} shall \
         be {money}.",
        "The following expenditure shall be eligible, provided that it was incurred before {later}:\n\
         (a) the costs of {other};\n\
         (b) the costs of checks under {art};\n\
         (c) general costs, up to {pct} of the total.",
        "Fees of {money} shall be payable by {actors} for each application relating to {thing2}.",
    ],
    later: &[
        "The contribution referred to in {par} shall be paid in {#2-5} instalments, the first of which \
         shall not exceed {pct}.",
        "Annual appropriations shall be authorised within the limits of the financial perspective.",
        "Amounts not claimed by {later} shall no longer be due.",
        "The amount referred to in {par} shall be shared as follows: {pct} for {anyms} and the remainder \
         for the other Member States.",
    ],
};

pub(super) const CONFIDENTIALITY: Wording = Wording {
    titles: &["Confidentiality", "Professional secrecy", "Protection of data"],
    first: &[
        "Information acquired pursuant to {this} shall be used only for the purpose for which it was \
         requested.",
        "The Commission and the Member States shall not disclose information of the kind covered by \
         professional secrecy which they have acquired pursuant to {art}.",
        "{actorsub} may indicate which of the particulars supplied are to be treated as confidential, \
         giving reasons.",
    ],
    later: &[
        "{par} of this Article shall not prevent the publication of general information which does not \
         relate to individual {actors}.",
        "The officials concerned shall remain bound by {par} after leaving the service.",
        "Data shall be erased after {years} years.",
    ],
};

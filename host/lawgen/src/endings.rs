//! The wording of the articles that end an act: committee, review, repeal, entry into force.

use super::wording::Wording;

pub(super) const ANNEXES: Wording = Wording {
    titles: &["Annexes", "Technical provisions"],
    first: &[
        "The list set out in {annex} shall apply for the purposes of {art}.",
        "{annex-sub} forms an integral part of {this} and may be amended in accordance with {procedure}.",
        "The quantities and particulars referred to in {art} are shown in {annex}.",
        "{annex-sub} shall be updated by the Commission not later than {later}.",
    ],
    later: &[],
};

pub(super) const COMMITTEE: Wording = Wording {
    titles: &["Committee", "Committee procedure"],
    first: &[
        "The Commission shall be assisted by the {committee}.",
        "The Commission shall be assisted by the {committee}, set up by {oart} of {base}.",
    ],
    later: &[
        "Where reference is made to this Article, the representative of the Commission shall submit a draft \
         of the measures to the committee, which shall deliver its opinion within {months}.",
        "Where reference is made to this Article, the committee shall act by the majority laid down in \
         {oart} of {rel}.",
        "Where the measures are not in accordance with the opinion of the committee, the Commission shall \
         submit them to the Council, which may take a different decision within {months}.",
    ],
};

pub(super) const REVIEW: Wording = Wording {
    titles: &["Review", "Evaluation", "Report and revision"],
    first: &[
        "Before {later}, the Commission shall submit to the Council a report on the operation of {arts}.",
        "{This} shall be reviewed not later than {later} {reason}.",
        "The Commission shall examine, {reason}, whether the amounts referred to in {art} need to be \
         adjusted.",
    ],
    later: &[
        "The report referred to in {par} shall be accompanied, where appropriate, by proposals.",
        "The review shall consider in particular whether the measures have helped to {goal}.",
        "For the purposes of {par}, the Member States shall supply the necessary data by {later}.",
    ],
};

pub(super) const TRANSITION: Wording = Wording {
    titles: &["Transitional provisions", "Transitional measures"],
    first: &[
        "{docsub} issued before {later} pursuant to {rel} shall remain valid until their expiry.",
        "{actorsub} may dispose of stocks of {thing2} existing on {later} until they are exhausted.",
        "Applications pending on the date of entry into force of {this} shall be dealt with in accordance \
         with {rel}.",
    ],
    later: &[
        "The period referred to in {par} may not exceed {months}.",
        "{shallms} inform the Commission of the stocks referred to in {par} {deadline}.",
    ],
};

pub(super) const REPEAL: Wording = Wording {
    titles: &["Repeal"],
    first: &[
        "{rel} is hereby repealed.",
        "{rel} is hereby repealed with effect from {later}.",
        "{rel} is hereby repealed. References to the repealed act shall be construed as references to \
         {this}.",
    ],
    later: &[],
};

pub(super) const TRANSPOSITION: Wording = Wording {
    titles: &["Transposition", "Implementation"],
    first: &[
        "Member States shall bring into force the laws, regulations and administrative provisions necessary \
         to comply with {this} by {later}. They shall forthwith inform the Commission thereof.",
        "Member States shall adopt and publish, not later than {later}, the provisions necessary to comply \
         with {this}. They shall apply those provisions not later than {months} after that date.",
    ],
    later: &[
        "When Member States adopt those provisions, they shall contain a reference to {this} or be \
         accompanied by such a reference on publication.",
        "Member States shall communicate to the Commission the text of the main provisions of national law \
         which they adopt in the field covered by {this}.",
    ],
};

pub(super) const ENTRY: Wording = Wording {
    titles: &["Entry into force", "Entry into force and application"],
    first: &[
        "{This} shall enter into force on the third day following its publication in the {journal}.",
        "{This} shall enter into force on the day of its publication in the {journal}.",
        "{This} shall enter into force on the {entryday} day following that of its publication in the \
         {journal}.\nIt shall apply from {start}.",
        "{This} shall enter into force on {later}.",
        "{This} shall enter into force on the {entryday} day following that of its publication in the \
         {journal}.\nHowever, {art} shall apply from {later}.",
    ],
    later: &[],
};

pub(super) const ADDRESSEES: Wording =
    Wording { titles: &["Addressees"], first: &["{This} is addressed to {addressee}."], later: &[] };

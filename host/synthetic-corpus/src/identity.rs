//! The identity of an act: its kind, institution, number, year and date.
//!
//! Guarantees that number and year are an injective function of the act's index for a given seed,
//! which makes titles unique, and that the date follows from number and year, so that an act cited
//! in many places carries the same date in all of them.

/// First year an act can have.
const FIRST_YEAR: u32 = 1972;
/// Number of years acts are spread over.
const YEARS: u64 = 43;
/// Act numbers of one year within one block of indices.
const PER_YEAR: u64 = 3000;
/// Multiplier that scatters indices over a block. It is a prime that does not divide the block
/// length, which makes the scattering a permutation of the block.
const SCATTER: u64 = 48_271;

const MONTHS: [(&str, u32); 12] = [
    ("January", 31),
    ("February", 28),
    ("March", 31),
    ("April", 30),
    ("May", 31),
    ("June", 30),
    ("July", 31),
    ("August", 31),
    ("September", 30),
    ("October", 31),
    ("November", 30),
    ("December", 31),
];

/// The three kinds of act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActKind {
    Regulation,
    Directive,
    Decision,
}

impl ActKind {
    /// The kind as written in running text.
    pub(super) fn word(self) -> &'static str {
        match self {
            ActKind::Regulation => "Regulation",
            ActKind::Directive => "Directive",
            ActKind::Decision => "Decision",
        }
    }
}

/// A calendar day; leap days do not occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Date {
    /// Calendar year.
    pub(super) year: u32,
    /// Day of the year, from 0 to 364.
    ordinal: u32,
}

impl Date {
    /// The date of act `number` of `year`: numbers run evenly through the year.
    pub(super) fn of_act(number: u64, year: u32) -> Self {
        let rank = number.saturating_sub(1) % PER_YEAR;
        Self { year, ordinal: (rank * 365 / PER_YEAR) as u32 }
    }

    /// The date `days` later.
    pub(super) fn plus(self, days: u32) -> Self {
        let total = self.ordinal + days;
        Self { year: self.year + total / 365, ordinal: total % 365 }
    }

    /// The date `days` earlier.
    pub(super) fn minus(self, days: u32) -> Self {
        let back = days.saturating_sub(self.ordinal).div_ceil(365);
        Self { year: self.year - back, ordinal: self.ordinal + back * 365 - days }
    }

    /// The first day of the month `months` after the current one.
    pub(super) fn first_of_month(self, months: u32) -> Self {
        let (month, _) = self.month_and_day();
        let total = month as u32 + months;
        let ordinal = MONTHS.iter().take((total % 12) as usize).map(|(_, days)| days).sum();
        Self { year: self.year + total / 12, ordinal }
    }

    /// The date in words, as in `3 March 1998`.
    pub(super) fn words(self) -> String {
        let (month, day) = self.month_and_day();
        format!("{day} {} {}", MONTHS[month].0, self.year)
    }

    /// The date in figures, as in `3.3.1998`.
    pub(super) fn figures(self) -> String {
        let (month, day) = self.month_and_day();
        format!("{day}.{}.{}", month + 1, self.year)
    }

    /// Month from 0 and day from 1.
    fn month_and_day(self) -> (usize, u32) {
        let mut rest = self.ordinal;
        for (month, (_, days)) in MONTHS.iter().enumerate() {
            if rest < *days {
                return (month, rest + 1);
            }
            rest -= days;
        }
        (11, 31)
    }
}

/// Number and year of the act `index` of `seed`; distinct for distinct indices.
pub(super) fn number_and_year(seed: u64, index: u64) -> (u64, u32) {
    let block_len = YEARS * PER_YEAR;
    let (block, rank) = (index / block_len, index % block_len);
    let place = (rank * SCATTER + seed % block_len) % block_len;
    (1 + place / YEARS + block * PER_YEAR, FIRST_YEAR + (place % YEARS) as u32)
}

/// The Community named in the numbers of acts of `year`.
pub(super) fn community(year: u32) -> &'static str {
    match year {
        ..=1992 => "EEC",
        1993..=2009 => "EC",
        _ => "EU",
    }
}

/// The short name of an act, as in `Regulation (EC) No 12/1998` or `Directive 1998/12/EC`.
pub(super) fn short_name(kind: ActKind, number: u64, year: u32) -> String {
    let community = community(year);
    match kind {
        ActKind::Regulation => format!("Regulation ({community}) No {number}/{year}"),
        ActKind::Directive | ActKind::Decision => format!("{} {year}/{number}/{community}", kind.word()),
    }
}

//! Properties of a cast, decided over all finite tensors: proved, refuted by a tensor, or undecided.
//!
//! The scales of a block follow from its largest magnitude, and both are monotone in it. All magnitudes therefore fall
//! into *spans* of equal scales, whose ends are found by bisection, one binade after the other (`spans`). Within
//! a span the result of an element is monotone in the element, so that the ends of the span decide a property for all
//! its blocks (`decide`). A scale that differs for each magnitude has no spans: one of its binades is computed
//! for each significand, and others follow where both of their ends are those of that binade times a power of two.
//!
//! A refutation is a tensor whose cast, by the operations of training, lacks the property (`judge`). Where scales
//! depend on more than the largest magnitude of a block (a scale of the tensor, rule `rms`), tensors are tried
//! (`search`), and a property without argument or refutation stays undecided. Definitions: docs/numerics.md,
//! section 4.6.

mod decide;
mod judge;
mod search;
mod spans;
mod subject;
mod two_levels;

pub use judge::{Witness, violates};

use crate::{Block, Cast, CastError, Grid};
use decide::{State, decide};
use subject::Subject;

/// A property of a cast, over all tensors of finite elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Property {
    /// No element is beyond the format's largest value, by more than two f32 units in the last place, when it is
    /// rounded.
    NeverClips,
    /// A block with an element that is not zero has a value that is not zero.
    NeverZeroes,
    /// The cast of its result is its result.
    Idempotent,
    /// Of two elements of a block, the greater has no smaller value, with the same random word.
    Monotone,
    /// The mean of an element's value over all random words is the element: up to 2^-20 of it and 2^-31 of a step of
    /// the format.
    Unbiased,
    /// No value is infinite or NaN.
    Finite,
    /// Neither scale of a block that is not zero is 0, infinite, NaN or subnormal.
    NormalScales,
    /// Blocks in another order have the same values, in that order.
    OrderOfBlocks,
    /// Values are the same where f32 subnormals among elements, scales, scaled elements and values count as zero.
    FlushSafe,
}

impl Property {
    /// All, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::NeverClips,
        Self::NeverZeroes,
        Self::Idempotent,
        Self::Monotone,
        Self::Unbiased,
        Self::Finite,
        Self::NormalScales,
        Self::OrderOfBlocks,
        Self::FlushSafe,
    ];

    /// The name, as a file name has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NeverClips => "never-clips",
            Self::NeverZeroes => "never-zeroes",
            Self::Idempotent => "idempotent",
            Self::Monotone => "monotone",
            Self::Unbiased => "unbiased",
            Self::Finite => "finite",
            Self::NormalScales => "normal-scales",
            Self::OrderOfBlocks => "order-of-blocks",
            Self::FlushSafe => "flush-safe",
        }
    }
}

/// The decision about a property.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// It holds for all tensors of finite elements, by this argument.
    Proved(String),
    /// It does not hold for a tensor.
    Refuted {
        /// The tensor, of the fewest elements that were found.
        witness: Witness,
        /// It is proved where the largest magnitude of each block has an exponent from the first to the last of these.
        proved_within: Option<[i32; 2]>,
    },
    /// Neither: no tensor of those that were tried lacks it.
    Undecided {
        /// What was covered.
        covered: String,
        /// It is proved where the largest magnitude of each block has an exponent from the first to the last of these.
        proved_within: Option<[i32; 2]>,
    },
    /// It is about random rounding, which the cast does not have.
    NotApplicable,
}

/// Decides all properties of a cast, without its transform: elements are those of the transformed tensor. Only the
/// values of a cast of a tensor near the largest f32 are also decided with it ([`Property::Finite`]).
///
/// # Errors
/// [`CastError`]: the cast is refused.
pub fn prove(cast: &Cast, grid: &Grid) -> Result<Vec<(Property, Decision)>, CastError> {
    cast.check(grid)?;
    let has_own_blocks = cast.block != Block::None && grid.own_blocks().are_any();
    if cast.needs_matrix() || has_own_blocks {
        let what =
            if has_own_blocks { "blocks that the format chooses" } else { "casts of the whole matrix" };
        let covered = format!("{what} are not covered");
        let undecided = Decision::Undecided { covered, proved_within: None };
        return Ok(Property::ALL.into_iter().map(|property| (property, undecided.clone())).collect());
    }
    let subject = Subject::new(cast, grid)?;
    let binades = subject.depends_on_amax_only().then(|| spans::binades(&subject));
    let mut tried = search::Tried::default();
    let mut verdicts = Vec::with_capacity(Property::ALL.len());
    for property in Property::ALL {
        verdicts.push((property, verdict(&subject, property, binades.as_deref(), &mut tried)?));
    }
    Ok(verdicts)
}

/// Binades whose argument fails, and in which tensors are tried.
const MOST_SEARCHES: usize = 24;

fn verdict(
    subject: &Subject<'_>,
    property: Property,
    binades: Option<&[spans::Binade]>,
    tried: &mut search::Tried,
) -> Result<Decision, CastError> {
    if property == Property::Unbiased && !subject.is_random() {
        return Ok(Decision::NotApplicable);
    }
    if let Some(argument) = decide::by_structure(subject, property) {
        return Ok(Decision::Proved(argument));
    }
    if let Some(witness) = search::of_transform(subject, property)? {
        return Ok(Decision::Refuted { witness, proved_within: None });
    }
    if property == Property::Finite
        && let Some(argument) = two_levels::are_finite(subject)?
    {
        return Ok(Decision::Proved(argument));
    }
    let Some(binades) = binades else {
        return Ok(match tried.search(subject, property)? {
            Some(witness) => Decision::Refuted { witness, proved_within: None },
            None => Decision::Undecided { covered: format!("{} tensors", tried.count), proved_within: None },
        });
    };
    let mut witness: Option<Witness> = None;
    let mut holds = vec![false; binades.len()];
    let mut order: Vec<usize> = (0..binades.len()).collect();
    order.sort_by_key(|index| binades[*index].exponent.abs());
    let mut searches = 0;
    for index in order {
        let wanted = witness.is_none() && searches < MOST_SEARCHES;
        match decide(subject, property, &binades[index], wanted)? {
            State::Holds => holds[index] = true,
            State::Fails(found) => witness = Some(found),
            State::Unknown => searches += 1,
        }
    }
    let proved_within = around_one(binades, &holds);
    if witness.is_none() && holds.iter().all(|holds| *holds) {
        return Ok(Decision::Proved(spans::domain(binades)));
    }
    if witness.is_none() {
        witness = tried.search(subject, property)?;
    }
    Ok(match witness {
        Some(witness) => Decision::Refuted { witness, proved_within },
        None => Decision::Undecided { covered: format!("{} tensors", tried.count), proved_within },
    })
}

/// The exponents around 0 for which a property holds.
fn around_one(binades: &[spans::Binade], holds: &[bool]) -> Option<[i32; 2]> {
    let one = binades.iter().position(|binade| binade.exponent == 0).filter(|one| holds[*one])?;
    let first = (0..=one).rev().take_while(|index| holds[*index]).last()?;
    let last = (one..binades.len()).take_while(|index| holds[*index]).last()?;
    Some([binades[first].exponent, binades[last].exponent])
}

#[cfg(test)]
mod tests;

//! A property over the blocks of one binade, and arguments that need no binades.

use super::{
    Property, Witness,
    judge::flush,
    spans::{Binade, Extremes, Kind, Span},
    subject::Subject,
};
use crate::{Block, CastError, Overflow, Rounding, scaling::BlockScale};

/// A property in a part of the domain.
pub(super) enum State {
    /// It holds for each block.
    Holds,
    /// It does not hold for this tensor.
    Fails(Witness),
    /// The argument does not hold, and the tensors that it suggests have the property.
    Unknown,
}

/// More values than this of a format are not compared with each other.
const MOST_POINTS: usize = 600;

/// The argument for a property that holds whatever the scales are.
pub(super) fn by_structure(subject: &Subject<'_>, property: Property) -> Option<String> {
    match property {
        Property::OrderOfBlocks => {
            let one = matches!(subject.cast.block, Block::None | Block::Tensor);
            if one {
                return Some("one block".to_owned());
            }
            let of_tensor =
                if subject.cast.scaling.tensor { ", and on a maximum over the tensor" } else { "" };
            (!subject.is_random()).then(|| format!("a value depends on its block{of_tensor}"))
        }
        Property::Monotone => rounding_is_monotone(subject)
            .then(|| "scaling and rounding are monotone: all thresholds of the format".to_owned()),
        _ => None,
    }
}

/// Rounding at all values, and at the middles between them with both neighbours.
fn rounding_is_monotone(subject: &Subject<'_>) -> bool {
    let middles = subject.points.windows(2).flat_map(|pair| {
        let middle = f32::midpoint(pair[0], pair[1]);
        [pair[0], pair[0].next_up(), middle.next_down(), middle, middle.next_up(), pair[1].next_down()]
    });
    let beyond = subject.points.last().map(|last| [*last, last.next_up()]);
    let mut scaled: Vec<f32> = middles.chain(beyond.into_iter().flatten()).collect();
    scaled.sort_by(f32::total_cmp);
    let is_ordered = |values: Vec<f32>| values.windows(2).all(|pair| pair[0] <= pair[1] || pair[1].is_nan());
    subject.rounded(&scaled).is_ok_and(|outcomes| {
        (0..2).all(|word| is_ordered(outcomes.iter().map(|outcome| outcome[word]).collect()))
    })
}

/// Decides a property over the blocks whose largest magnitude is of a binade. A tensor without it is searched if one is
/// wanted.
pub(super) fn decide(
    subject: &Subject<'_>,
    property: Property,
    binade: &Binade,
    wanted: bool,
) -> Result<State, CastError> {
    match &binade.kind {
        Kind::Spans(spans) => {
            let mut state = State::Holds;
            for span in spans {
                match of_span(subject, property, span, wanted)? {
                    State::Holds => {}
                    fails @ State::Fails(_) => return Ok(fails),
                    State::Unknown => state = State::Unknown,
                }
            }
            Ok(state)
        }
        Kind::Each(extremes) => of_each(subject, property, extremes, wanted),
    }
}

fn of_span(subject: &Subject<'_>, property: Property, span: &Span, wanted: bool) -> Result<State, CastError> {
    let Span { low, high, scales } = span;
    let mut state = State::Holds;
    for scale in scales {
        let holds = match property {
            Property::NeverClips => !clips(subject, *high, scale),
            Property::NeverZeroes => !becomes_zero(subject, *low, scale)?,
            Property::Idempotent => is_idempotent(subject, span, scale)?,
            Property::Unbiased => {
                !clips(subject, *high, scale)
                    && is_unbiased(subject, scale, (subject.gain([scale.encode, scale.decode]) - 1.0).abs())
            }
            Property::Finite => is_finite(subject, *high, scale)?,
            Property::NormalScales => is_normal(scale),
            Property::FlushSafe => is_flush_safe(subject, scale, scale)?,
            Property::Monotone | Property::OrderOfBlocks => false,
        };
        if !holds {
            state = State::Unknown;
        }
    }
    if matches!(state, State::Holds) || !wanted {
        return Ok(state);
    }
    let tensors = suggested(subject, property, span, scales)?;
    Ok(subject.first(property, tensors)?.map_or(State::Unknown, State::Fails))
}

/// A binade whose magnitudes have a scale each: both ends, and the magnitudes that are scaled to the least and the
/// most.
fn of_each(
    subject: &Subject<'_>,
    property: Property,
    extremes: &Extremes,
    wanted: bool,
) -> Result<State, CastError> {
    let Extremes { ends: [(low, first), (high, last)], least, most, gain, .. } = extremes;
    let at = |x: f32| (x, subject.scales(x));
    let all = |x: f32, is: &dyn Fn(f32, &BlockScale) -> Result<bool, CastError>| -> Result<bool, CastError> {
        let (x, scales) = at(x);
        scales.iter().try_fold(true, |all, scale| Ok(all && is(x, scale)?))
    };
    let pairs = || first.iter().zip(last);
    let holds = match property {
        Property::NeverClips => all(*most, &|x, scale| Ok(!clips(subject, x, scale)))?,
        // The least decode scale is the first.
        Property::NeverZeroes => {
            let is_kept = |x: f32, scale: &BlockScale| Ok(!becomes_zero(subject, x, scale)?);
            all(*least, &is_kept)? && all(*low, &is_kept)?
        }
        Property::Unbiased => {
            all(*most, &|x, scale| Ok(!clips(subject, x, scale)))?
                && pairs().all(|(scale, _)| is_unbiased(subject, scale, gain.0))
        }
        // Decode scales do not decrease, and no value is beyond the largest.
        Property::Finite => {
            subject.cast.overflow == Overflow::Saturate
                && last.iter().all(|scale| {
                    let of = |point: f32| subject.restored(point, scale).is_finite();
                    of(subject.grid.values().max_finite()) && of(subject.grid.values().min_finite())
                })
        }
        Property::NormalScales => pairs().all(|(a, b)| is_normal(a) && is_normal(b)),
        Property::FlushSafe => {
            pairs().try_fold(true, |all, (a, b)| Ok::<_, CastError>(all && is_flush_safe(subject, a, b)?))?
        }
        Property::Idempotent | Property::Monotone | Property::OrderOfBlocks => false,
    };
    if holds || !wanted {
        return Ok(if holds { State::Holds } else { State::Unknown });
    }
    let mut tensors: Vec<Vec<Vec<f32>>> = Vec::new();
    for x in [*most, *least, *low, *high, gain.1].into_iter().filter(|x| *x > 0.0) {
        let (x, scales) = at(x);
        let span = Span { low: x, high: x, scales };
        tensors.extend(suggested(subject, property, &span, &span.scales)?);
    }
    tensors.sort_by_key(|blocks| blocks.iter().map(Vec::len).sum::<usize>());
    Ok(subject.first(property, tensors)?.map_or(State::Unknown, State::Fails))
}

fn clips(subject: &Subject<'_>, x: f32, scale: &BlockScale) -> bool {
    [x, -x].into_iter().any(|x| subject.grid.is_beyond(subject.scaled(x, scale)))
}

fn becomes_zero(subject: &Subject<'_>, x: f32, scale: &BlockScale) -> Result<bool, CastError> {
    let zero = |x: f32| Ok::<_, CastError>(subject.values(x, scale)?.contains(&0.0));
    Ok(zero(x)? || zero(-x)?)
}

fn is_finite(subject: &Subject<'_>, x: f32, scale: &BlockScale) -> Result<bool, CastError> {
    let [a, b] = [subject.values(x, scale)?, subject.values(-x, scale)?];
    Ok(a.into_iter().chain(b).all(f32::is_finite))
}

fn is_normal(scale: &BlockScale) -> bool {
    scale.encode.is_normal() && scale.decode.is_normal()
}

/// True if the mean is the element for all that do not clip: the product of both factors is 1, random bits suffice, and
/// the least value is restored exactly.
fn is_unbiased(subject: &Subject<'_>, scale: &BlockScale, gain: f64) -> bool {
    let bits = match subject.cast.rounding {
        Rounding::FewBits(few) => few.bits,
        _ => 32,
    };
    gain <= 2f64.powi(-21)
        && bits >= 31
        && subject.restored(subject.least(), scale).abs() >= f32::MIN_POSITIVE
}

/// True if nothing subnormal has an effect, under decode scales from that of `low` and encode scales up to that of
/// `low`; `high` has the largest decode scale.
fn is_flush_safe(subject: &Subject<'_>, low: &BlockScale, high: &BlockScale) -> Result<bool, CastError> {
    let largest_subnormal = f32::MIN_POSITIVE.next_down();
    let least = [low, high]
        .into_iter()
        .map(|scale| subject.restored(subject.least(), scale).abs())
        .fold(f32::INFINITY, f32::min);
    // Elements that are subnormal, and those that are scaled to subnormal numbers, are rounded as zero is.
    let element = subject.scaled(largest_subnormal, low).max(subject.scaled(largest_subnormal, high));
    let outcomes = subject.rounded(&[element, -element, largest_subnormal, -largest_subnormal])?;
    let zeros = outcomes.iter().flatten().all(|point| *point == 0.0);
    let subnormal_points = subject.points.iter().any(|point| point.is_subnormal());
    Ok(is_normal(low) && is_normal(high) && least >= f32::MIN_POSITIVE && zeros && !subnormal_points)
}

/// True if the values of a block of the span are cast to themselves, whatever its elements are.
fn is_idempotent(subject: &Subject<'_>, span: &Span, scale: &BlockScale) -> Result<bool, CastError> {
    if subject.points.len() > MOST_POINTS
        || !subject.is_symmetric()
        || !subject.points.contains(&0.0)
        || subject.cast.overflow != Overflow::Saturate
    {
        return Ok(false);
    }
    let ends = subject.rounded(&[subject.scaled(span.low, scale), subject.scaled(span.high, scale)])?;
    let least = ends[0].into_iter().fold(f32::INFINITY, f32::min);
    let most = ends[1].into_iter().fold(0.0, f32::max);
    for top in subject.points.iter().filter(|point| **point >= least && **point <= most && **point > 0.0) {
        let amax = subject.restored(*top, scale);
        if amax == 0.0 {
            continue;
        }
        let values: Vec<f32> = subject
            .points
            .iter()
            .filter(|point| point.abs() <= *top)
            .map(|point| subject.restored(*point, scale))
            .collect();
        for again in subject.scales(amax) {
            let scaled: Vec<f32> = values.iter().map(|value| subject.scaled(*value, &again)).collect();
            for (value, outcomes) in values.iter().zip(subject.rounded(&scaled)?) {
                if outcomes.into_iter().any(|point| subject.restored(point, &again) != *value) {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// Tensors of blocks of a span that may lack a property, the smallest first.
fn suggested(
    subject: &Subject<'_>,
    property: Property,
    span: &Span,
    scales: &[BlockScale],
) -> Result<Vec<Vec<Vec<f32>>>, CastError> {
    let Span { low, high, .. } = *span;
    let mut singles = vec![simplest(low, high), low, high];
    let mut doubles: Vec<[f32; 2]> = Vec::new();
    for scale in scales {
        match property {
            Property::NeverClips | Property::Unbiased if clips(subject, high, scale) => {
                let first = bisected(low, high, |x| Ok(clips(subject, x, scale)))?;
                singles.insert(0, simplest(first, high));
            }
            Property::NeverZeroes if becomes_zero(subject, low, scale)? => {
                let kept = bisected(low, high, |x| Ok(!becomes_zero(subject, x, scale)?))?;
                let last = if becomes_zero(subject, kept, scale)? { kept } else { kept.next_down().max(low) };
                singles.insert(0, simplest(low, last));
            }
            Property::Idempotent => {
                for top in [low, high, simplest(low, high)] {
                    for point in subject.points.iter().filter(|point| **point > 0.0).take(MOST_POINTS) {
                        let x = subject.restored(*point, scale);
                        if x < top {
                            doubles.push([top, x]);
                        }
                    }
                }
            }
            Property::Unbiased => {
                // An element just above a value: few random bits round its distance.
                let amax = simplest(low, high);
                let step = subject.restored(subject.least(), scale);
                doubles.extend((8..20).map(|bits| [amax, step * (1.0 + 2f32.powi(-bits))]));
                doubles.extend((2..24).map(|bits| [amax, step * 2f32.powi(-bits)]));
            }
            Property::FlushSafe => {
                let amax = simplest(low, high);
                let step = subject.restored(subject.least(), scale);
                let small = [f32::MIN_POSITIVE.next_down(), f32::MIN_POSITIVE, step, 2.0 * step, 0.75 * step];
                doubles.extend(
                    small
                        .into_iter()
                        .filter(|x| *x > 0.0 && *x <= amax && flush(amax) != 0.0)
                        .map(|x| [amax, x]),
                );
            }
            _ => {}
        }
    }
    let mut tensors: Vec<Vec<Vec<f32>>> = Vec::new();
    for x in singles {
        tensors.extend([vec![vec![x]], vec![vec![-x]]]);
    }
    tensors.extend(doubles.into_iter().map(|pair| vec![pair.to_vec()]));
    Ok(tensors)
}

/// The first magnitude of a span from which on something is true; the last if there is none.
fn bisected(low: f32, high: f32, is: impl Fn(f32) -> Result<bool, CastError>) -> Result<f32, CastError> {
    let (mut low, mut high) = (low.to_bits(), high.to_bits());
    while low < high {
        let middle = u32::midpoint(low, high);
        if is(f32::from_bits(middle))? { high = middle } else { low = middle + 1 }
    }
    Ok(f32::from_bits(high))
}

/// The number between two of a binade with the fewest significand bits.
fn simplest(low: f32, high: f32) -> f32 {
    let (low, high) = (low.to_bits(), high.to_bits());
    let of = |bits: u32| {
        let step = 1u32 << bits;
        low.next_multiple_of(step)
    };
    f32::from_bits((0..=23).rev().map(of).find(|bits| *bits <= high).unwrap_or(low))
}

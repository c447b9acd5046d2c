//! Casts with a scale of the tensor: whether their values are finite.
//!
//! With the tensor's largest magnitude `G`, decode scales do not decrease and encode scales do not increase, for each
//! stored scale of a block. Values that are finite for one `G` are therefore finite for all smaller ones, and a part of
//! the magnitudes near the largest f32 is decided by its ends: elements are at most its last, and scaled by the encode
//! scale of its first.

use super::subject::Subject;
use crate::{BlockStatistics, CastError, Overflow, scaling::BlockScale};

/// From here on magnitudes are divided into parts.
const HIGH: f32 = 4.253_529_6e37;
/// More parts than this are not tried.
const MOST_PARTS: usize = 20_000;

/// The argument, if all values of all finite tensors are finite.
pub(super) fn are_finite(subject: &Subject<'_>) -> Result<Option<String>, CastError> {
    let scaling = &subject.cast.scaling;
    if !scaling.tensor || scaling.amax.is_some() || subject.cast.overflow != Overflow::Saturate {
        return Ok(None);
    }
    let values = subject.grid.values();
    let extremes = [values.min_finite(), values.max_finite()];
    let tensor = scaling.tensor_scale_of_amax(&subject.range, HIGH);
    let stored = scaling.byte_type().map_or(0.0, crate::ScaleType::largest);
    let highest = scaling.byte_of(&subject.range, stored, tensor.as_ref(), 0);
    let is_low_finite = extremes.into_iter().all(|point| subject.restored(point, &highest).is_finite());
    if !is_low_finite {
        return Ok(None);
    }
    let mut parts = vec![[HIGH, f32::MAX]];
    let mut decided = 0;
    while let Some([low, high]) = parts.pop() {
        decided += 1;
        if decided > MOST_PARTS {
            return Ok(None);
        }
        if is_finite(subject, [low, high])? {
            continue;
        }
        if low == high {
            return Ok(None);
        }
        let middle = f32::from_bits(u32::midpoint(low.to_bits(), high.to_bits()));
        parts.extend([[low, middle], [middle.next_up(), high]]);
    }
    Ok(Some(format!(
        "scales are monotone in the tensor's largest magnitude, {decided} parts up to the largest f32"
    )))
}

/// The scales of each stored number that a block may have, under a tensor's magnitude from the first to the last of
/// two.
fn scales(subject: &Subject<'_>, [low, high]: [f32; 2]) -> Vec<[BlockScale; 2]> {
    let (scaling, range) = (&subject.cast.scaling, &subject.range);
    let tensors = [low, high].map(|amax| scaling.tensor_scale_of_amax(range, amax));
    let factors = scaling.choice.map_or([1.0; 4], |choice| choice.factors);
    let factor = factors.into_iter().fold(0.0, f32::max);
    // The largest stored number: of a block with the last magnitude, under a scale that encodes the first.
    let most =
        scaling.scale_by(range, &BlockStatistics::of_amax(high), tensors[0].as_ref(), factor, 0).stored;
    let stored = scaling.byte_type().into_iter().flat_map(crate::ScaleType::values);
    let of = |stored: f32| tensors.map(|tensor| scaling.byte_of(range, stored, tensor.as_ref(), 0));
    stored.filter(|stored| *stored <= most).map(of).collect()
}

fn is_finite(subject: &Subject<'_>, [low, high]: [f32; 2]) -> Result<bool, CastError> {
    let scales = scales(subject, [low, high]);
    let scaled: Vec<f32> =
        scales.iter().map(|[first, _]| subject.scaled(high, first)).flat_map(|x| [x, -x]).collect();
    let outcomes = subject.rounded(&scaled)?;
    let pairs = outcomes.chunks(2).zip(&scales);
    Ok(pairs.into_iter().all(|(points, [_, last])| {
        points.iter().flatten().all(|point| subject.restored(*point, last).is_finite())
    }))
}

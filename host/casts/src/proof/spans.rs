//! Largest magnitudes of blocks, by binade: spans of equal scales, or extremes over a binade whose magnitudes all have
//! their own.

use std::cmp::Ordering;

use super::subject::Subject;
use crate::scaling::BlockScale;

/// More spans of a binade than an 8-bit scale has in one; scales of more are f32.
const MOST_SPANS: usize = 200;
/// Binades by which factors may move an intermediate result, so that it may leave f32's normal numbers where scales do
/// not.
const MARGIN: i32 = 33;
/// Magnitudes whose scales are computed in one loop.
const PART: usize = 1 << 12;

/// The largest magnitudes of one exponent.
pub(super) struct Binade {
    pub(super) exponent: i32,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    /// Magnitudes of the same scales each.
    Spans(Vec<Span>),
    /// A scale for each magnitude.
    Each(Extremes),
}

/// Magnitudes from the first to the last, which have the same scales.
#[derive(Clone)]
pub(super) struct Span {
    pub(super) low: f32,
    pub(super) high: f32,
    pub(super) scales: Vec<BlockScale>,
}

/// The extremes of the scaled largest element over a binade.
#[derive(Clone)]
pub(super) struct Extremes {
    /// The first and the last magnitude with their scales.
    pub(super) ends: [(f32, Vec<BlockScale>); 2],
    /// The magnitudes that are scaled to the least and to the most.
    pub(super) least: f32,
    pub(super) most: f32,
    /// The largest difference from 1 of the product of both factors, and its magnitude.
    pub(super) gain: (f64, f32),
    /// Significands that were computed; the others follow.
    pub(super) computed: bool,
}

/// All binades of f32, subnormal ones included, the lowest first.
pub(super) fn binades(subject: &Subject<'_>) -> Vec<Binade> {
    let mut reference: Option<(i32, Extremes)> = None;
    // Normal binades around 1 are computed first, so that others may follow from them.
    let mut exponents: Vec<i32> = (-149..=127).collect();
    exponents.sort_by_key(|exponent| exponent.abs());
    let mut binades: Vec<Binade> = exponents
        .into_iter()
        .map(|exponent| {
            let kind = match equal_scales(subject, exponent) {
                Some(spans) => Kind::Spans(spans),
                None => Kind::Each(extremes(subject, exponent, &mut reference)),
            };
            Binade { exponent, kind }
        })
        .collect();
    binades.sort_by_key(|binade| binade.exponent);
    binades
}

/// The bits of the first and the last number of a binade.
fn ends(exponent: i32) -> [u32; 2] {
    if exponent < -126 {
        let first = 1u32 << (exponent + 149);
        [first, 2 * first - 1]
    } else {
        let first = ((exponent + 127) as u32) << 23;
        [first, first | 0x007f_ffff]
    }
}

fn is_same(a: &[BlockScale], b: &[BlockScale]) -> bool {
    let bits = |scale: &BlockScale| [scale.encode.to_bits(), scale.decode.to_bits()];
    a.iter().map(bits).eq(b.iter().map(bits))
}

/// The spans of a binade; `None` if there are too many. Scales are monotone in the magnitude: where those of two are
/// equal, so are all between.
fn equal_scales(subject: &Subject<'_>, exponent: i32) -> Option<Vec<Span>> {
    let [first, last] = ends(exponent);
    let at = |bits: u32| subject.scales(f32::from_bits(bits));
    let mut spans: Vec<Span> = Vec::new();
    let mut low = first;
    while low <= last {
        let scales = at(low);
        // The last number with the scales of the first.
        let (mut inside, mut outside) = (low, last + 1);
        if is_same(&at(last), &scales) {
            inside = last;
        } else {
            while outside - inside > 1 {
                let middle = u32::midpoint(inside, outside);
                if is_same(&at(middle), &scales) { inside = middle } else { outside = middle }
            }
        }
        spans.push(Span { low: f32::from_bits(low), high: f32::from_bits(inside), scales });
        if spans.len() > MOST_SPANS {
            return None;
        }
        low = inside + 1;
    }
    Some(spans)
}

fn extremes(subject: &Subject<'_>, exponent: i32, reference: &mut Option<(i32, Extremes)>) -> Extremes {
    let [first, last] = ends(exponent);
    let of = |bits: u32| (f32::from_bits(bits), subject.scales(f32::from_bits(bits)));
    let ends = [of(first), of(last)];
    if let Some((from, known)) =
        reference.as_ref().filter(|(from, known)| follows(subject, &ends, known, exponent - from))
    {
        let factor = 2f64.powi(exponent - from);
        let moved = |x: f32| (f64::from(x) * factor) as f32;
        return Extremes {
            ends,
            least: moved(known.least),
            most: moved(known.most),
            gain: (known.gain.0, moved(known.gain.1)),
            computed: false,
        };
    }
    let (mut least, mut most, mut gain) = ((f32::INFINITY, 0.0), (0.0f32, 0.0), (0.0f64, 0.0));
    let mut add = |x: f32, pair: [f32; 2]| {
        let scaled = subject.cast.scaling.quantize.quantize(x, pair);
        if scaled < least.0 {
            least = (scaled, x);
        }
        // NaN counts as the most.
        if !matches!(scaled.partial_cmp(&most.0), Some(Ordering::Less | Ordering::Equal)) {
            most = (scaled, x);
        }
        let off = (subject.gain(pair) - 1.0).abs();
        if !matches!(off.partial_cmp(&gain.0), Some(Ordering::Less | Ordering::Equal)) {
            gain = (off, x);
        }
    };
    let mut pairs = vec![[0.0; 2]; PART];
    for first in (first..=last).step_by(PART) {
        let part: Vec<f32> = (first..=last.min(first + PART as u32 - 1)).map(f32::from_bits).collect();
        if subject.cast.scaling.choice.is_some() {
            let pair = |scale: BlockScale| [scale.encode, scale.decode];
            part.iter().for_each(|x| subject.scales(*x).into_iter().for_each(|scale| add(*x, pair(scale))));
        } else {
            subject.cast.scaling.pairs(&subject.range, &part, None, &mut pairs);
            part.iter().zip(&pairs).for_each(|(x, pair)| add(*x, *pair));
        }
    }
    let found = Extremes { ends, least: least.1, most: most.1, gain, computed: true };
    if reference.is_none() && exponent >= -126 {
        *reference = Some((exponent, found.clone()));
    }
    found
}

/// True if a binade is the known one times `2^shift`, by both of its ends: all operations of a scale are monotone in
/// the magnitude, so that limits that hold at neither end hold nowhere between, and products of normal numbers with a
/// power of two are exact.
fn follows(subject: &Subject<'_>, ends: &[(f32, Vec<BlockScale>); 2], known: &Extremes, shift: i32) -> bool {
    let plain = subject.cast.scaling.factor == 1.0 && subject.cast.scaling.margin == 0;
    let limit = 2f64.powi(if plain { 126 } else { 126 - MARGIN });
    let is_normal = |scale: f64| scale >= 1.0 / limit && scale < limit;
    let factor = 2f64.powi(shift);
    ends.iter().zip(&known.ends).all(|((x, scales), (_, known))| {
        x.is_normal()
            && scales.iter().zip(known).all(|(scale, known)| {
                let [encode, decode] = [scale.encode, scale.decode].map(f64::from);
                is_normal(encode)
                    && is_normal(decode)
                    && encode * factor == f64::from(known.encode)
                    && decode == f64::from(known.decode) * factor
            })
    })
}

/// What the binades cover, in words.
pub(super) fn domain(binades: &[Binade]) -> String {
    let spans: usize = binades
        .iter()
        .map(|binade| if let Kind::Spans(spans) = &binade.kind { spans.len() } else { 0 })
        .sum();
    let each = |computed: bool| {
        binades
            .iter()
            .filter(|binade| matches!(&binade.kind, Kind::Each(found) if found.computed == computed))
            .count()
    };
    let mut parts = Vec::new();
    if spans > 0 {
        parts.push(format!("{spans} spans of equal scales"));
    }
    if each(true) > 0 {
        parts.push(format!("all significands of {} binades", each(true)));
    }
    if each(false) > 0 {
        parts.push(format!("{} binades by powers of two", each(false)));
    }
    parts.join(", ")
}

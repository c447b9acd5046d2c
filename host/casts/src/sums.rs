//! Matrix products whose sums have limited width, as those of tensor cores.
//!
//! An instruction adds `group` products and the accumulator at once. All are aligned to the largest exponent among
//! them, `bits` bits below it are kept, and the sum of what is kept is exact; the new accumulator keeps as many bits,
//! at most the 23 of f32. The exponent of a product is the sum of its operands' exponents, not that of the product
//! itself. Units for scaled blocks add the products of a block exactly; with both scales their sum is one term, whose
//! exponent is that of the scales. Source of the model: arXiv:2511.10909; definition: docs/numerics.md, section 4.4.

use multiversion::multiversion;

use crate::{
    nearest_bf16,
    powers::{exp2, floor_log2},
};

#[cfg(test)]
mod block_tests;
#[cfg(test)]
mod tests;

/// Columns of the result that are computed at once.
const LANES: usize = 16;
/// A number of each column.
type Lanes = [f32; LANES];
/// The bits of an f32's exponent.
const EXPONENT: u32 = 0x7f80_0000;

/// Sums of limited width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitedSum {
    /// Bits kept below the largest exponent, 4 to 36.
    pub bits: u32,
    /// True if terms and accumulators are rounded to nearest, ties to even. Otherwise bits are cut off.
    pub nearest: bool,
    /// Products that are added at once, 1 to 4096.
    pub group: usize,
    /// Products after which the accumulator is added to an f32 sum, to nearest, and begins at 0 again: a multiple of
    /// `group`.
    pub promote: Option<usize>,
    /// True if that sum is rounded toward zero.
    pub promote_truncates: bool,
    /// Products of a block that are added exactly, at least 2: `group` is a multiple of it. With the scales of the
    /// block they are one term, whose exponent is that of the scales ([`Addends::of_blocks`]).
    pub exact: Option<usize>,
}

impl LimitedSum {
    /// Terms of a sum that share one accumulator, of so many.
    #[must_use]
    pub fn span(&self, terms: usize) -> usize {
        self.promote.unwrap_or(terms).clamp(1, terms.max(1))
    }

    /// Exponents of a row of so many terms.
    fn powers(&self, terms: usize) -> usize {
        terms.div_ceil(self.exact.unwrap_or(1))
    }

    /// True if f64 is wide enough for the sums of blocks whose codes have these largest magnitudes, and whose products
    /// of two codes are multiples of `unit`.
    #[must_use]
    pub fn fits_blocks(&self, [a, b]: [f64; 2], unit: f64) -> bool {
        /// 2^53, and the significands of two scales of at most 7 bits.
        const WHOLE: f64 = (1u64 << 53) as f64;
        const SCALES: f64 = (1u64 << 14) as f64;
        let terms = 4.0 * self.group as f64 * a * b + 2.0;
        let exact = self.exact.unwrap_or(1) as f64;
        terms * f64::from(self.bits).exp2() <= WHOLE && exact * a * b / unit * SCALES <= WHOLE
    }

    /// Rows of `a b^T`, one after the other, from row `first` of `a` on. Every factor is multiplied at the end of its
    /// span: `y = fl(y + fl(accumulator fl(factor_a factor_b)))`; those of sums of blocks at the end of all. A term
    /// that is not finite makes its sum NaN.
    ///
    /// # Panics
    /// The operands have different numbers of terms.
    pub fn multiply(&self, to: &mut [f32], a: &Addends, first: usize, b: &Panels) {
        assert_eq!(a.terms, b.range.terms, "operands of different lengths");
        let columns = b.range.rows.max(1);
        let is_narrow = self.is_narrow(a, &b.range);
        for (index, row) in to.chunks_exact_mut(columns).enumerate() {
            let of_a = a.row(first + index, self);
            for (to, panel) in row.chunks_mut(LANES).zip(&b.panels) {
                let y = if is_narrow { add::<f32>(self, of_a, panel) } else { add::<f64>(self, of_a, panel) };
                to.copy_from_slice(&y[..to.len()]);
            }
            if self.exact.is_some() {
                row.iter_mut().for_each(|y| *y *= a.factor * b.range.factor);
            }
        }
    }

    /// True if f32 is wide enough for every product and every sum of what is kept. Rounding to nearest is faster in
    /// f64.
    fn is_narrow(&self, a: &Addends, b: &Addends) -> bool {
        let sum_bits = self.bits + 2 + (self.group as u32 + 1).next_power_of_two().ilog2();
        let (least, most) = (a.least * b.least, a.most * b.most);
        let is_exact = a.is_short && b.is_short && sum_bits <= 24;
        !self.nearest && self.exact.is_none() && is_exact && least >= f32::FLOOR && most <= 1.0 / f32::FLOOR
    }
}

/// An operand of such a product: rows of terms.
#[derive(Debug, Clone)]
pub struct Addends {
    rows: usize,
    terms: usize,
    values: Vec<f32>,
    /// `2^exponent` of every value, 0 for 0; of the scale of every block.
    powers: Vec<f32>,
    /// A factor of every span of a row.
    factors: Vec<f32>,
    /// That of all sums of blocks.
    factor: f32,
    /// The least and largest power but 0.
    least: f32,
    most: f32,
    /// True if all values have at most 12 significant bits, so that products are exact in f32.
    is_short: bool,
}

impl Addends {
    /// `element` gives a value at a row and a term, and the scale and factor of its block: the value is a code times
    /// the factor, and the code is the value times the scale. Factors that are all powers of two belong to the values.
    /// Otherwise codes are added, which bf16 must represent, and all terms of a span must have the same factor; the
    /// span's results are NaN if they do not. Codes below `lowest`, the format's least normal number, have its
    /// exponent.
    #[must_use]
    pub fn new(
        sum: &LimitedSum,
        [rows, terms]: [usize; 2],
        lowest: f32,
        element: impl Fn(usize, usize) -> (f32, [f32; 2]),
    ) -> Self {
        let span = sum.span(terms);
        let all = || (0..rows).flat_map(|row| (0..terms).map(move |term| (row, term)));
        let are_powers = all().all(|(row, term)| is_power(element(row, term).1[1]));
        let mut addends = Self {
            rows,
            terms,
            values: Vec::with_capacity(rows * terms),
            powers: Vec::with_capacity(rows * terms),
            factors: Vec::with_capacity(rows * terms.div_ceil(span)),
            factor: 1.0,
            least: f32::MAX,
            most: 0.0,
            is_short: true,
        };
        let lowest = lowest.max(f32::MIN_POSITIVE);
        for (row, term) in all() {
            let (value, [scale, factor]) = element(row, term);
            let code = if are_powers { value * scale } else { nearest_bf16(value * scale) };
            let power = f32::from_bits(code.to_bits() & EXPONENT).max(lowest);
            let power = if code == 0.0 { 0.0 } else { power * if are_powers { factor } else { 1.0 } };
            if power > 0.0 {
                addends.least = addends.least.min(power);
                addends.most = addends.most.max(power);
            }
            let value = if are_powers { value } else { code };
            addends.is_short &= value.to_bits() & 0xfff == 0;
            addends.values.push(value);
            addends.powers.push(power);
            let factor = if are_powers { 1.0 } else { factor };
            match addends.factors.last_mut() {
                Some(last) if term % span > 0 => {
                    if *last != factor {
                        *last = f32::NAN;
                    }
                }
                _ => addends.factors.push(factor),
            }
        }
        addends
    }

    /// An operand of sums of blocks. `element` gives a value at a row and a term, the scale of its block, and the
    /// stored scale: the value is a code times the stored scale and `factor`, and the code is the value times the
    /// scale. bf16 must represent the codes, and all terms of a block must have the same stored scale; results are NaN
    /// if they do not. Stored scales below `lowest`, the least normal number of their type, have its exponent.
    #[must_use]
    pub fn of_blocks(
        sum: &LimitedSum,
        [rows, terms]: [usize; 2],
        (lowest, factor): (f32, f32),
        element: impl Fn(usize, usize) -> (f32, [f32; 2]),
    ) -> Self {
        let exact = sum.exact.unwrap_or(1);
        let mut addends = Self {
            rows,
            terms,
            values: Vec::with_capacity(rows * terms),
            powers: Vec::with_capacity(rows * terms.div_ceil(exact)),
            factors: vec![1.0; rows * terms.div_ceil(sum.span(terms))],
            factor,
            least: f32::MAX,
            most: 0.0,
            is_short: false,
        };
        for row in 0..rows {
            let mut of_block = 0.0;
            for term in 0..terms {
                let (value, [scale, stored]) = element(row, term);
                if term % exact == 0 {
                    of_block = stored;
                    addends.powers.push(match stored {
                        0.0 => f32::MIN_POSITIVE,
                        stored => exp2(floor_log2(stored)).max(lowest),
                    });
                }
                let is_one_scale = stored == of_block;
                addends.values.push(if is_one_scale {
                    nearest_bf16(value * scale) * stored
                } else {
                    f32::NAN
                });
            }
        }
        addends
    }

    fn row(&self, row: usize, sum: &LimitedSum) -> Row<'_> {
        let spans = self.terms.div_ceil(sum.span(self.terms));
        let powers = sum.powers(self.terms);
        Row {
            values: &self.values[row * self.terms..][..self.terms],
            powers: &self.powers[row * powers..][..powers],
            factors: &self.factors[row * spans..][..spans],
        }
    }
}

/// True for a normal power of two.
fn is_power(x: f32) -> bool {
    x.is_normal() && x > 0.0 && x.to_bits() & !EXPONENT == 0
}

/// A row of an operand.
#[derive(Debug, Clone, Copy)]
struct Row<'a> {
    values: &'a [f32],
    powers: &'a [f32],
    factors: &'a [f32],
}

/// The second operand, its rows side by side.
#[derive(Debug)]
pub struct Panels {
    range: Addends,
    panels: Vec<Panel>,
}

/// Rows of an operand, as many as lanes; zeros where there are fewer.
#[derive(Debug)]
struct Panel {
    values: Vec<Lanes>,
    powers: Vec<Lanes>,
    factors: Vec<Lanes>,
}

impl Panels {
    /// The panels of an operand.
    #[must_use]
    pub fn new(sum: &LimitedSum, addends: Addends) -> Self {
        let panel = |first: usize| {
            let rows: Vec<Row<'_>> =
                (first..addends.rows.min(first + LANES)).map(|row| addends.row(row, sum)).collect();
            let aside = |of: fn(&Row<'_>, usize) -> f32, len: usize| -> Vec<Lanes> {
                let lane = |lane: usize, at: usize| rows.get(lane).map_or(0.0, |row| of(row, at));
                (0..len).map(|at| std::array::from_fn(|index| lane(index, at))).collect()
            };
            Panel {
                values: aside(|row, at| row.values[at], addends.terms),
                powers: aside(|row, at| row.powers[at], sum.powers(addends.terms)),
                factors: aside(|row, at| row.factors[at], addends.terms.div_ceil(sum.span(addends.terms))),
            }
        };
        let panels = (0..addends.rows).step_by(LANES).map(panel).collect();
        let range = Addends { values: Vec::new(), powers: Vec::new(), factors: Vec::new(), ..addends };
        Self { range, panels }
    }
}

/// The numbers in which sums are computed.
trait Number:
    Copy + std::ops::Mul<Output = Self> + std::ops::Add<Output = Self> + std::ops::Div<Output = Self> + PartialOrd
{
    const ZERO: Self;
    /// The least power to which terms are aligned: all sums are multiples of it times `2^-bits`.
    const FLOOR: Self;
    fn from_f32(x: f32) -> Self;
    fn to_f32(self) -> f32;
    /// `2^bits`.
    fn power(bits: u32) -> Self;
    /// `2^exponent`.
    fn power_of(self) -> Self;
    fn whole(self, nearest: bool) -> Self;
    /// The first `bits` bits after the leading one.
    fn keep(self, bits: u32, nearest: bool) -> Self;
    /// A sum as an f32, to which it is rounded if it is subnormal there.
    fn settle(self, nearest: bool) -> Self;
}

/// The methods of a type of numbers with this many stored bits.
macro_rules! number {
    ($bits:ty, $stored:expr, $bias:expr) => {
        const ZERO: Self = 0.0;
        #[inline(always)]
        fn power(bits: u32) -> Self {
            Self::from_bits(($bias + <$bits>::from(bits)) << $stored)
        }
        #[inline(always)]
        fn power_of(self) -> Self {
            Self::from_bits(self.to_bits() << 1 >> 1 >> $stored << $stored)
        }
        #[inline(always)]
        fn whole(self, nearest: bool) -> Self {
            if nearest { self.round_ties_even() } else { self.trunc() }
        }
        #[inline(always)]
        fn keep(self, bits: u32, nearest: bool) -> Self {
            let unit = (1 as $bits) << ($stored - bits);
            let (bits, half) = (self.to_bits(), unit >> 1);
            let up = if nearest && half > 0 { half - 1 + <$bits>::from(bits & unit > 0) } else { 0 };
            Self::from_bits((bits + up) & !(unit - 1))
        }
    };
}

impl Number for f32 {
    const FLOOR: Self = f32::from_bits((127 - 100) << 23);
    number!(u32, 23, 127);
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        x
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn settle(self, _: bool) -> Self {
        self
    }
}

impl Number for f64 {
    const FLOOR: Self = f32::MIN_POSITIVE as Self;
    number!(u64, 52, 1023);
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        x.into()
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self as f32
    }
    #[inline(always)]
    fn settle(self, nearest: bool) -> Self {
        let least = Self::power(149);
        (self * least).whole(nearest) / least
    }
}

/// The sums of a row's products with a panel. All results are exact or rounded as the model says, so that they do not
/// depend on the type of numbers.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
fn add<T: Number>(sum: &LimitedSum, a: Row<'_>, b: &Panel) -> Lanes {
    match (sum.nearest, sum.exact.is_some()) {
        (true, true) => sums::<T>(sum, a, b, true, true),
        (true, false) => sums::<T>(sum, a, b, true, false),
        (false, true) => sums::<T>(sum, a, b, false, true),
        (false, false) => sums::<T>(sum, a, b, false, false),
    }
}

/// The sum of two f32, rounded toward zero.
#[inline(always)]
fn sum_toward_zero(a: f32, b: f32) -> f32 {
    let sum = a + b;
    // Exact: the error of an f32 sum is an f32.
    let of_b = sum - a;
    let error = (a - (sum - of_b)) + (b - of_b);
    let is_beyond = sum.is_finite() && error != 0.0 && (error < 0.0) == (sum > 0.0);
    if is_beyond { f32::from_bits(sum.to_bits() - 1) } else { sum }
}

#[inline(always)]
fn sums<T: Number>(sum: &LimitedSum, a: Row<'_>, b: &Panel, nearest: bool, blocks: bool) -> Lanes {
    let larger = |x: T, y: T| if y > x { y } else { x };
    let whole = T::power(sum.bits);
    let span = sum.span(a.values.len());
    let mut y = [0f32; LANES];
    for (index, start) in (0..a.values.len()).step_by(span).enumerate() {
        let end = (start + span).min(a.values.len());
        let mut total = [T::ZERO; LANES];
        for from in (start..end).step_by(sum.group) {
            let terms = from..(from + sum.group).min(end);
            let exact = if blocks { sum.exact.unwrap_or(1) } else { 1 };
            let powers = from / exact..terms.end.div_ceil(exact);
            // No `map`: its loop is not compiled for the registers of this function.
            let mut largest = [T::FLOOR; LANES];
            for (largest, total) in largest.iter_mut().zip(&total) {
                *largest = larger(*largest, total.power_of());
            }
            for (a, b) in a.powers[powers.clone()].iter().zip(&b.powers[powers]) {
                let a = T::from_f32(*a);
                for (largest, b) in largest.iter_mut().zip(b) {
                    *largest = larger(*largest, a * T::from_f32(*b));
                }
            }
            let mut scale = largest;
            for (total, scale) in total.iter_mut().zip(&mut scale) {
                *scale = whole / *scale;
                *total = (*total * *scale).whole(nearest);
            }
            let values = (&a.values[terms.clone()], &b.values[terms]);
            if blocks {
                for (a, b) in values.0.chunks(exact).zip(values.1.chunks(exact)) {
                    let mut block = [T::ZERO; LANES];
                    for (a, b) in a.iter().zip(b) {
                        let a = T::from_f32(*a);
                        for (block, b) in block.iter_mut().zip(b) {
                            *block = *block + a * T::from_f32(*b);
                        }
                    }
                    for ((total, block), scale) in total.iter_mut().zip(&block).zip(&scale) {
                        *total = *total + (*block * *scale).whole(nearest);
                    }
                }
            } else {
                for (a, b) in values.0.iter().zip(values.1) {
                    let a = T::from_f32(*a);
                    for ((total, b), scale) in total.iter_mut().zip(b).zip(&scale) {
                        *total = *total + (a * T::from_f32(*b) * *scale).whole(nearest);
                    }
                }
            }
            for (total, scale) in total.iter_mut().zip(&scale) {
                *total = (total.keep(sum.bits.min(23), nearest) / *scale).settle(nearest);
            }
        }
        for ((y, total), b) in y.iter_mut().zip(total).zip(&b.factors[index]) {
            let promoted = total.to_f32() * (a.factors[index] * b);
            *y = if sum.promote_truncates { sum_toward_zero(*y, promoted) } else { *y + promoted };
        }
    }
    y
}

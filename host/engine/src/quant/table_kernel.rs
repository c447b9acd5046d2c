//! Rounding to a list of values in a kernel of the host, for formats without kernels of their own: the search of
//! [`Tabulated`] among its turns, bit for bit. Numbers are compared as integers, so that no device flushes them.

#![allow(missing_docs, reason = "the macro adds a module to each function")]

use std::collections::HashMap;

use altgrad_loader::FormatPlugin;
use altgrad_plugin_api::{PluginError, RandomKey, Rounding, Tabulated, ValueGrid};
use burn::backend::TensorMetadata as _;
use burn::tensor::{DType, Shape};
use burn_cubecl::{CubeBackend, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::prelude::*;
use parking_lot::Mutex;

use super::{
    own_rounding_kernel::{key_words, random_word},
    wide::{Wide, wide, wide_negated, wide_quotient, wide_sum},
};
use crate::{
    cube_parts::{INFINITY, MAGNITUDE, SIGN, UNITS, ascending, elements, ordered},
    host_words::step_word,
    kernel_text::{cubes, upload},
};

/// The values of a format, and its thresholds on a device by rounding mode.
#[derive(Debug)]
pub(super) struct TableRounding {
    table: Tabulated,
    words: Mutex<HashMap<u32, CubeTensor>>,
}

impl TableRounding {
    /// The rounding of a plugin's values.
    ///
    /// # Errors
    /// The values or the conventions are impossible.
    pub(super) fn of(plugin: &FormatPlugin, values: &ValueGrid) -> Result<Self, PluginError> {
        let by_code = (0..values.codes()).map(|code| values.decode(code as u16));
        let table = Tabulated::new(by_code)?.with_conventions(plugin.conventions.clone())?;
        Ok(Self { table, words: Mutex::default() })
    }

    /// Scaled elements rounded, contiguous. NaN is the quiet one without sign.
    ///
    /// # Errors
    /// The mode is unknown.
    pub(super) fn round(
        &self,
        scaled: &CubeTensor,
        rounding: Rounding,
        key: &RandomKey,
    ) -> Result<CubeTensor, PluginError> {
        let (client, device, count) = (scaled.client.clone(), scaled.device(), elements(scaled));
        let words = {
            let mut known = self.words.lock();
            match known.get(&rounding.0) {
                Some(words) => words.clone(),
                None => {
                    let words = words(&self.table, rounding)?;
                    let bits: Vec<f32> = words.into_iter().map(f32::from_bits).collect();
                    let words = upload::<CubeBackend>(&device, Shape::from([bits.len()]), bits);
                    known.insert(rounding.0, words.clone());
                    words
                }
            }
        };
        let points = self.table.points().count();
        let y = empty_device_contiguous_dtype(client.clone(), device, scaled.shape(), DType::F32);
        round_to_table::launch(
            &client,
            CubeCount::new_1d(cubes(count as usize) as u32),
            CubeDim::new_1d(UNITS),
            scaled.clone().into_buffer_arg(),
            words.into_buffer_arg(),
            step_word(&scaled.device(), key.step).into_buffer_arg(),
            y.clone().into_buffer_arg(),
            count,
            points as u32 - 1,
            key_words(key),
            halvings(points),
            rounding == Rounding::STOCHASTIC,
        );
        Ok(y)
    }
}

/// Halvings of the search among some values.
fn halvings(points: usize) -> u32 {
    points.next_power_of_two().ilog2()
}

/// The turns as integers that ascend with them, filled up to a power of two, then the values.
fn words(table: &Tabulated, rounding: Rounding) -> Result<Vec<u32>, PluginError> {
    let mut words: Vec<u32> = table.turns(rounding)?.iter().copied().map(ascending).collect();
    words.resize(1 << halvings(table.points().count()), u32::MAX);
    words.extend(table.points().map(f32::to_bits));
    Ok(words)
}

/// `last` is the place of the largest value, `halvings` the logarithm of the number of turns in `words`.
#[cube(launch)]
fn round_to_table(
    scaled: &[f32],
    words: &[u32],
    step: &[u32],
    y: &mut [f32],
    elements: u32,
    last: u32,
    key: Sequence<u32>,
    #[comptime] halvings: u32,
    #[comptime] is_random: bool,
) {
    let mut position = ABSOLUTE_POS;
    while position < elements as usize {
        let x = scaled[position];
        let bits = u32::reinterpret(x);
        let size = bits & MAGNITUDE;
        // Both zeros have one place.
        let wanted = ordered(f32::reinterpret(select(size == 0u32, 0u32, bits)));
        let mut place = 0u32;
        #[unroll]
        for halving in 0..halvings {
            let half = comptime!(1u32 << (halvings - 1)) >> halving;
            let fits = words[(place + half - 1u32) as usize] <= wanted;
            place += select(fits, half, 0u32);
        }
        let place = min(place, last);
        let first = comptime!(1u32 << halvings).runtime();
        let mut value = words[(first + place) as usize];
        if comptime!(is_random) {
            let above = words[(first + min(place + 1u32, last)) as usize];
            let word = random_word(position as u32, &key, step[0usize]);
            let inside = place < last && size < INFINITY;
            let up = goes_up(x, f32::reinterpret(value), f32::reinterpret(above), word);
            value = select(inside && up, above, value);
        }
        // A zero has the sign of its element.
        let signed = select((value & MAGNITUDE) == 0u32, bits & SIGN, value);
        y[position] = f32::reinterpret(select(size > INFINITY, 0x7fc0_0000u32, signed));
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
}

/// True if `word 2^-32` is less than `(x - a) / (b - a)` as f64 has it; false below `a`.
#[cube]
fn goes_up(x: f32, a: f32, b: f32, word: u32) -> bool {
    let down = wide_negated(&wide(a));
    let part = wide_sum(&wide(x), &down);
    let whole = wide_sum(&wide(b), &down);
    let share = wide_quotient(&part, &whole);
    let given = (part.high | part.low) != 0u32 && part.negative == 0u32;
    given && is_above(&share, word)
}

/// True if a number from 0 to 1, not 0, is above `word 2^-32`.
#[cube]
fn is_above(share: &Wide, word: u32) -> bool {
    let down = -(share.exponent + 64i32);
    let far = down >= 32i32;
    let by = u32::cast_from(clamp(down, 0i32, 31i32));
    let whole = select(far, 0u32, share.high >> by);
    let cut = (share.high & ((1u32 << by) - 1u32)) | share.low;
    let rest = far || cut != 0u32;
    down < 0i32 || word < whole || (word == whole && rest)
}

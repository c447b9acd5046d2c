//! States as codes of a format, with a scale for each block of consecutive elements.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_casts::{Grid, Rounding};
use altgrad_loader::FormatPlugin;
use altgrad_plugin_api::{Blocks, QuantParams, RandomKey, Scales, random::Words};
use rayon::prelude::*;

use super::range_expansion::RangeExpansion;
use crate::quant::ScaleRule;

/// Elements of a parallel task, as many whole blocks as fit.
const PART: usize = 1 << 16;
/// Bits of a code that shares a byte with another.
const PACKED_BITS: u32 = 4;
const PACKED_MASK: u8 = (1 << PACKED_BITS) - 1;

/// Suffixes of a state's name for the values of its blocks.
const SCALES: &str = ".scales";
const EXPONENTS: &str = ".exponents";
const CENTERS: &str = ".centers";

/// Codes of a format, with a scale for each block.
#[derive(Debug)]
pub struct CodeStorage {
    /// The format, of up to 256 codes.
    pub format: FormatPlugin,
    /// Its values.
    pub grid: Grid,
    /// Bits of a code: 1 to 8.
    pub bits: u32,
    /// The scale of a block, from its largest magnitude.
    pub rule: ScaleRule,
    /// Consecutive elements that share a scale.
    pub block: usize,
    /// The rounding of values.
    pub rounding: Rounding,
    /// States of fewer elements stay in f32.
    pub min_size: usize,
    /// Range expansion of each block before rounding, if any.
    pub expansion: Option<RangeExpansion>,
}

/// The codes of a state.
#[derive(Debug, Clone)]
pub struct Coded {
    elements: usize,
    /// Packed into bytes, as many per byte as fit; the first in the low bits.
    pub codes: Arc<Vec<u8>>,
    /// The factors of values: `[blocks]`.
    scales: Arc<Vec<f32>>,
    /// Exponent and center of each block's range expansion, `[blocks]` each; empty without one.
    expansion: [Arc<Vec<f32>>; 2],
}

impl Coded {
    /// Codes of that many elements, before the first values.
    #[must_use]
    pub fn new(storage: &CodeStorage, elements: usize) -> Self {
        let blocks = elements.div_ceil(storage.block);
        let expanded = || Arc::new(vec![1.0; if storage.expansion.is_some() { blocks } else { 0 }]);
        Self {
            elements,
            codes: Arc::new(vec![0; elements.div_ceil(storage.codes_a_byte())]),
            scales: Arc::new(vec![1.0; blocks]),
            expansion: [expanded(), expanded()],
        }
    }

    /// Bytes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.codes.len() + self.block_values().map(|(_, values)| 4 * values.len()).sum::<usize>()
    }

    /// The values of each block, above 0, with the suffix of the state's name in checkpoints.
    pub fn block_values(&self) -> impl Iterator<Item = (&'static str, &Arc<Vec<f32>>)> {
        let [exponents, centers] = &self.expansion;
        let all = [(SCALES, &self.scales), (EXPONENTS, exponents), (CENTERS, centers)];
        all.into_iter().filter(|(_, values)| !values.is_empty())
    }

    /// The same values, to be replaced by those of a checkpoint.
    pub fn block_values_mut(&mut self) -> impl Iterator<Item = (&'static str, &mut Arc<Vec<f32>>)> {
        let [exponents, centers] = &mut self.expansion;
        let all = [(SCALES, &mut self.scales), (EXPONENTS, exponents), (CENTERS, centers)];
        all.into_iter().filter(|(_, values)| !values.is_empty())
    }
}

impl CodeStorage {
    /// Codes that share a byte: two of at most 4 bits, else one.
    fn codes_a_byte(&self) -> usize {
        if self.bits <= PACKED_BITS { 2 } else { 1 }
    }

    /// Bytes of that many codes and of their blocks' values.
    #[must_use]
    pub fn bytes(&self, elements: usize) -> f64 {
        let values = if self.expansion.is_some() { 3 } else { 1 };
        let blocks = elements.div_ceil(self.block);
        elements.div_ceil(self.codes_a_byte()) as f64 + 4.0 * (values * blocks) as f64
    }

    /// True if two codes share a byte.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        self.codes_a_byte() > 1
    }

    /// Elements of a parallel task: whole blocks and whole bytes.
    fn part(&self) -> usize {
        let blocks = (PART / self.block).max(1) * self.block;
        if blocks.is_multiple_of(self.codes_a_byte()) { blocks } else { blocks * self.codes_a_byte() }
    }

    fn pack(&self, codes: &[u16], bytes: &mut [u8]) {
        for (byte, codes) in bytes.iter_mut().zip(codes.chunks(self.codes_a_byte())) {
            *byte = codes.iter().rev().fold(0, |byte, &code| byte << PACKED_BITS | code as u8);
        }
    }

    fn unpack(&self, bytes: &[u8], elements: usize) -> Vec<u16> {
        if !self.is_packed() {
            return bytes.iter().map(|&code| code.into()).collect();
        }
        let codes = bytes.iter().flat_map(|&byte| [byte & PACKED_MASK, byte >> PACKED_BITS]);
        codes.take(elements).map(u16::from).collect()
    }

    /// In words, for the run's record: `E4M3, blocks of 128`.
    #[must_use]
    pub fn name(&self) -> String {
        let expanded = if self.expansion.is_some() { ", range expanded" } else { "" };
        let small = match self.min_size {
            0 | 1 => String::new(),
            size => format!(", f32 below {size} elements"),
        };
        format!("{}, blocks of {}{expanded}{small}", self.format.identity.name, self.block)
    }

    /// The values: `[n]`.
    ///
    /// # Errors
    /// The format's plugin failed.
    pub fn decode(&self, coded: &Coded) -> Result<Vec<f32>, Diagnostic> {
        let (mut values, part) = (vec![0.0; coded.elements], self.part());
        let parts = values.par_chunks_mut(part).zip(coded.codes.par_chunks(part / self.codes_a_byte()));
        parts
            .zip(coded.scales.par_chunks(part / self.block))
            .enumerate()
            .try_for_each(|(index, ((values, codes), scales))| {
                let codes = self.unpack(codes, values.len());
                let pairs: Vec<[f32; 2]> = scales.iter().map(|&scale| [scale, 1.0 / scale]).collect();
                self.format.decode(&codes, values, &Scales::new(&pairs, self.blocks()))?;
                if self.expansion.is_some() {
                    let first = index * part / self.block;
                    let [exponents, centers] = coded.expansion.each_ref().map(|all| &all[first..]);
                    for (at, block) in values.chunks_mut(self.block).enumerate() {
                        RangeExpansion::undo(block, exponents[at], centers[at]);
                    }
                }
                Ok(())
            })
            .map(|()| values)
    }

    /// Replaces the codes by those of these values, `[n]`. `key` names the random bits of the first one.
    ///
    /// # Errors
    /// A value has no code, or the format's plugin failed.
    pub fn encode(&self, values: &[f32], key: RandomKey, coded: &mut Coded) -> Result<(), Diagnostic> {
        let expanded = self.expansion.map(|expansion| {
            let mut values = values.to_vec();
            let [exponents, centers] = coded.expansion.each_mut().map(Arc::make_mut);
            let blocks = values.par_chunks_mut(self.block).zip(exponents.par_iter_mut()).zip(centers);
            blocks.for_each(|((block, exponent), center)| {
                [*exponent, *center] = expansion.apply(block);
            });
            values
        });
        let values = expanded.as_deref().unwrap_or(values);
        let (part, codes, scales) =
            (self.part(), Arc::make_mut(&mut coded.codes), Arc::make_mut(&mut coded.scales));
        let parts =
            codes.par_chunks_mut(part / self.codes_a_byte()).zip(scales.par_chunks_mut(part / self.block));
        parts.zip(values.par_chunks(part)).enumerate().try_for_each(|(index, ((codes, scales), values))| {
            let mut pairs = vec![[1.0; 2]; scales.len()];
            self.rule.group_scales(values, self.block, &mut pairs);
            let key = RandomKey { offset: key.offset + (index * part) as u64, ..key };
            let mut scaled = values.to_vec();
            for (run, [scale, _]) in Scales::new(&pairs, self.blocks()).runs(values.len()) {
                scaled[run].iter_mut().for_each(|x| *x *= scale);
            }
            let wide = self.rounding.codes(&self.grid, &scaled, Words::new(&key), |scaled, rounding| {
                self.format.encode(scaled, &QuantParams { rounding, key, ..QuantParams::IDENTITY })
            })?;
            self.pack(&wide, codes);
            scales.iter_mut().zip(&pairs).for_each(|(scale, [pair, _])| *scale = *pair);
            Ok(())
        })
    }

    fn blocks(&self) -> Blocks {
        Blocks::consecutive(self.block as u64)
    }
}

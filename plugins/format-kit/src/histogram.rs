//! Counting codes while the next ones are computed.
//!
//! Two things make counting slow if it is done plainly: equal codes in a row, whose counter must go to memory and
//! back, so there are several tables; and codes still on their way to memory, so they wait a [`ROW`] first.

use crate::groups::{Group, LANES, ROW};

/// Codes of up to eight bits are counted in tables.
const SMALL: usize = 256;
/// The number of tables.
const TABLES: usize = 4;

/// Counters of the codes of one call.
#[derive(Debug)]
pub(crate) struct Histogram<'a> {
    /// A counter a code; wraps around until the end.
    total: &'a mut [u64],
    tables: [[u64; SMALL]; TABLES],
    /// Not counted yet.
    waiting: [Group<u16>; ROW],
}

impl<'a> Histogram<'a> {
    /// Adds to `total` until it is dropped; empty to count nothing.
    pub(crate) fn new(total: &'a mut [u64]) -> Self {
        let mut histogram = Self { total, tables: [[0; SMALL]; TABLES], waiting: [[0; LANES]; ROW] };
        // For those that wait from the beginning.
        histogram.uncount(0, ROW * LANES);
        histogram
    }

    /// Takes codes in, and counts those that came to the same place of the row before.
    #[inline(always)]
    pub(crate) fn add(&mut self, place: usize, codes: Group<u16>) {
        let waiting = &mut self.waiting[place];
        if self.total.len() > SMALL {
            waiting.iter().for_each(|&code| {
                self.total[usize::from(code)] = self.total[usize::from(code)].wrapping_add(1)
            });
        } else {
            for (i, &code) in waiting.iter().enumerate() {
                self.tables[i % TABLES][usize::from(code as u8)] += 1;
            }
        }
        *waiting = codes;
    }

    /// Takes back codes that were taken in.
    pub(crate) fn uncount(&mut self, code: u16, times: usize) {
        if let Some(total) = self.total.get_mut(usize::from(code)) {
            *total = total.wrapping_sub(times as u64);
        }
    }
}

impl Drop for Histogram<'_> {
    fn drop(&mut self) {
        if self.total.is_empty() {
            return;
        }
        for place in 0..ROW {
            self.add(place, [0; LANES]);
        }
        for table in &self.tables {
            for (total, &counter) in self.total.iter_mut().zip(table) {
                *total = total.wrapping_add(counter);
            }
        }
    }
}

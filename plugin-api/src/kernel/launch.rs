//! What a host does with a kernel's recipe: fills the info block, reads the statistics.

use crate::{ErrorKind, InfoKind, KernelText, MergeRule, PluginError, QuantStats};

impl KernelText {
    /// The info block of a launch. `scalars` are bit patterns; `buffer_lens` are in elements, in the order of the buffers.
    ///
    /// # Errors
    /// `UNSUPPORTED` if the recipe says something this version does not know, or asks for what is not there.
    pub fn pack_info(&self, scalars: &[u32], buffer_lens: &[u64]) -> Result<Vec<u64>, PluginError> {
        let mut words = vec![0u64; self.info_words as usize];
        for field in &self.info {
            let fault =
                || PluginError::new(ErrorKind::UNSUPPORTED, format!("kernel `{}`: {field:?}", self.entry));
            let index = field.index as usize;
            let value = match field.kind {
                InfoKind::SCALAR_F32 | InfoKind::SCALAR_U32 => *scalars.get(index).ok_or_else(fault)?,
                InfoKind::BUFFER_LEN => {
                    let len = *buffer_lens.get(index).ok_or_else(fault)?;
                    let len = len.checked_div(field.divisor.into()).ok_or_else(fault)?;
                    u32::try_from(len).map_err(|_| fault())?
                }
                InfoKind::CONSTANT => field.index,
                _ => return Err(fault()),
            };
            let word = words.get_mut(field.offset as usize / 8).ok_or_else(fault)?;
            *word |= u64::from(value) << (8 * (field.offset % 8));
        }
        Ok(words)
    }

    /// Adds what a launch saw to `stats`: the statistics words, and the partial sums of all its cubes.
    ///
    /// # Errors
    /// `UNSUPPORTED` for a statistic or rule this version does not know, `SHAPE` if lengths do not fit.
    pub fn read_stats(&self, words: &[u32], sums: &[f32], stats: &mut QuantStats) -> Result<(), PluginError> {
        let unknown = |name: &str| {
            PluginError::new(ErrorKind::UNSUPPORTED, format!("kernel `{}`: statistic `{name}`", self.entry))
        };
        let slot = self.partial_sums.len();
        if words.len() != self.statistics.len() || sums.len().checked_rem(slot).unwrap_or(sums.len()) != 0 {
            let (words, sums) = (words.len(), sums.len());
            return Err(PluginError::shape(format!(
                "kernel `{}`: {words} words and {sums} sums",
                self.entry
            )));
        }
        for (word, &value) in self.statistics.iter().zip(words) {
            match (word.name.as_str(), word.merge) {
                ("amax", MergeRule::MAX) => stats.amax = stats.amax.max(f32::from_bits(value)),
                ("overflow", MergeRule::ADD) => stats.overflow += u64::from(value),
                ("underflow", MergeRule::ADD) => stats.underflow += u64::from(value),
                ("nan", MergeRule::ADD) => stats.nan += u64::from(value),
                ("nonzero", MergeRule::ADD) => stats.nonzero += u64::from(value),
                (name, _) => return Err(unknown(name)),
            }
        }
        for (i, word) in self.partial_sums.iter().enumerate() {
            let total: f64 = sums.iter().skip(i).step_by(slot).map(|&sum| f64::from(sum)).sum();
            let total = total * 2f64.powi(word.exponent);
            match word.name.as_str() {
                "sum_x2" => stats.sum_x2 += total,
                "sum_err2" => stats.sum_err2 += total,
                "sum_x_xhat" => stats.sum_x_xhat += total,
                name => return Err(unknown(name)),
            }
        }
        Ok(())
    }
}

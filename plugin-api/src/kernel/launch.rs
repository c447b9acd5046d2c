//! The host's use of a kernel's recipe: filling the info block, reading the statistics.

use crate::{ErrorKind, InfoKind, KernelText, MergeRule, PluginError, QuantStats};

impl KernelText {
    /// The info block of a launch. `scalars` are bit patterns; `buffer_lens` are in elements, in the order of the
    /// buffers.
    ///
    /// # Errors
    /// `UNSUPPORTED` for an entry of the recipe that is unknown to this version, or for a missing value.
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

    /// Adds the statistics of a launch to `stats`: the statistics words, and the partial sums of all its cubes.
    ///
    /// # Errors
    /// `UNSUPPORTED` for a statistic or rule unknown to this version, `SHAPE` if lengths do not match.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        InfoField, KernelLanguage, KernelOp, PartialSum, RandomKey, Rounding, StatisticsWord, launch_scalars,
    };

    fn field(offset: u32, kind: InfoKind, index: u32, divisor: u32) -> InfoField {
        InfoField { offset, kind, index, divisor }
    }

    fn kernel(info: Vec<InfoField>) -> KernelText {
        let word = |name: &str, merge| StatisticsWord { name: name.into(), merge };
        let sum = |exponent| PartialSum { name: "sum_x2".into(), exponent };
        KernelText {
            language: KernelLanguage::CUDA,
            entry: "entry".into(),
            source: "".into(),
            cube_dim: [256, 1, 1],
            vector: 4,
            buffers: vec![].into(),
            info: info.into(),
            info_words: 2,
            statistics: vec![word("amax", MergeRule::MAX), word("nan", MergeRule::ADD)].into(),
            partial_sums: vec![sum(0), sum(180)].into(),
        }
    }

    #[test]
    fn the_info_block_is_little_endian_words() {
        let text = kernel(vec![
            field(0, InfoKind::SCALAR_U32, 1, 1),
            field(4, InfoKind::CONSTANT, 0x4760_0000, 1),
            field(8, InfoKind::BUFFER_LEN, 0, 4),
            field(12, InfoKind::BUFFER_LEN, 1, 1),
        ]);
        assert_eq!(
            text.pack_info(&[5, 7], &[4096, 9]).unwrap(),
            [0x4760_0000_0000_0007, 0x0000_0009_0000_0400]
        );
    }

    #[test]
    fn a_recipe_that_cannot_be_followed_is_refused() {
        let rows = [
            field(0, InfoKind::SCALAR_U32, 2, 1),
            field(0, InfoKind::BUFFER_LEN, 2, 1),
            field(0, InfoKind::BUFFER_LEN, 0, 0),
            field(0, InfoKind::BUFFER_LEN, 1, 1),
            field(16, InfoKind::CONSTANT, 0, 1),
            field(0, InfoKind(99), 0, 1),
        ];
        for row in rows {
            let error = kernel(vec![row]).pack_info(&[0, 0], &[1, 1 << 32]).unwrap_err();
            assert_eq!(error.kind, ErrorKind::UNSUPPORTED);
        }
    }

    #[test]
    fn statistics_of_launches_add_up() {
        let (text, mut stats) = (kernel(vec![]), QuantStats::default());
        let words = |amax: f32, nan| [amax.to_bits(), nan];
        text.read_stats(&words(2.0, 3), &[1.0, 0.0, 2.0, 0.0], &mut stats).unwrap();
        text.read_stats(&words(1.0, 4), &[0.5, 1.0], &mut stats).unwrap();
        assert_eq!((stats.amax, stats.nan, stats.sum_x2), (2.0, 7, 3.5 + 2f64.powi(180)));
        assert!(text.read_stats(&[0], &[], &mut stats).is_err());
        assert!(text.read_stats(&words(0.0, 0), &[1.0], &mut stats).is_err());
    }

    #[test]
    fn operations_carry_their_rounding() {
        assert_eq!(KernelOp::FAKE_QUANT.with_rounding(Rounding::NEAREST_EVEN), KernelOp::FAKE_QUANT);
        let stochastic = KernelOp::FAKE_QUANT.with_rounding(Rounding::STOCHASTIC);
        assert_eq!((stochastic.0, stochastic.kind()), (0x301, KernelOp::FAKE_QUANT));
        assert_eq!(stochastic.with_rounding(Rounding::NEAREST_EVEN), KernelOp::FAKE_QUANT);
    }

    #[test]
    fn scalars_are_the_key_and_the_group() {
        let key = RandomKey { seed: 1 << 32 | 2, step: 3, tensor: 4, offset: 5 << 32 | 6 };
        assert_eq!(launch_scalars(&key, 32), [2, 1, 3, 4, 6, 5, 32]);
    }
}

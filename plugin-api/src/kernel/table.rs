//! A plugin's kernel texts as a table, and the choice among them.
//!
//! A program writes the table (the project's own is `plugins/kernel-kit`), the plugin includes it and hands over
//! what [`find`] gives. Texts are kept deflated: dozens of them would be larger than the rest of a plugin. Nothing
//! here crosses.

use crate::{
    ErrorKind, InfoField, InfoKind, KernelBuffer, KernelLanguage, KernelOp, KernelTarget, KernelText,
    MergeRule, PartialSum, PluginError, StatisticsWord, grid::MinifloatGrid,
};

/// What NVRTC 13 still compiles for.
const OLDEST_CUDA_ARCHITECTURE: u32 = 75;

/// One text, and how to launch it.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    /// What it computes, with its rounding mode.
    pub op: KernelOp,
    /// Its language.
    pub language: KernelLanguage,
    /// Elements a unit takes at once.
    pub vector: u32,
    /// Units a cube.
    pub units: u32,
    /// Shared memory a cube, bytes.
    pub shared_bytes: u32,
    /// Name of the entry function.
    pub entry: &'static str,
    /// The text: UTF-8, deflated (RFC 1951).
    pub deflated: &'static [u8],
    /// Buffer arguments in order.
    pub buffers: &'static [KernelBuffer],
    /// How to fill the info block, but for `limits`.
    pub info: &'static [InfoField],
    /// Byte offsets in the info block of constants that the instance knows.
    pub limits: &'static [(u32, Limit)],
    /// Size of the info block in u64 words.
    pub info_words: u32,
    /// The words of the statistics buffer, in order.
    pub statistics: &'static [(&'static str, MergeRule)],
    /// The words of a slot of the partial sums, in order: name and exponent.
    pub partial_sums: &'static [(&'static str, i32)],
}

/// A constant in which the domains of a format differ: it enters a kernel's info block, so that they share a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// [`Limits::max_bits`].
    MaxBits,
    /// [`Limits::max_code`].
    MaxCode,
    /// [`Limits::nan_code`], `u32::MAX` if there is none.
    NanCode,
    /// [`Limits::inf_code`], `u32::MAX` if there is none.
    InfCode,
}

/// The values of all [`Limit`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// f32 bits of the largest finite value.
    pub max_bits: u32,
    /// Its code.
    pub max_code: u32,
    /// The positive code of NaN, if there is one.
    pub nan_code: Option<u32>,
    /// The positive code of infinity, if there is one.
    pub inf_code: Option<u32>,
}

impl Limits {
    /// For kernels without such constants.
    pub const NONE: Self = Self { max_bits: 0, max_code: 0, nan_code: None, inf_code: None };

    /// Those of a minifloat.
    #[must_use]
    pub fn of(grid: &MinifloatGrid) -> Self {
        let max_code = u32::from(grid.max_code());
        Self {
            max_bits: grid.max_finite().to_bits(),
            max_code,
            nan_code: grid.nan_code().map(u32::from),
            inf_code: grid.has_inf().then_some(max_code + 1),
        }
    }

    fn value(&self, limit: Limit) -> u32 {
        match limit {
            Limit::MaxBits => self.max_bits,
            Limit::MaxCode => self.max_code,
            Limit::NanCode => self.nan_code.unwrap_or(u32::MAX),
            Limit::InfCode => self.inf_code.unwrap_or(u32::MAX),
        }
    }
}

/// The text for an operation and target with the widest vector allowed, or `None`: there is none that the target can run.
///
/// # Errors
/// The table is damaged: a text does not inflate.
pub fn find(
    texts: &[Text],
    op: KernelOp,
    target: &KernelTarget,
    limits: &Limits,
) -> Result<Option<KernelText>, PluginError> {
    if target.language == KernelLanguage::CUDA && target.architecture < OLDEST_CUDA_ARCHITECTURE {
        return Ok(None);
    }
    let fits = |text: &&Text| {
        (text.op, text.language) == (op, target.language)
            && text.vector <= target.vector
            && text.units <= target.max_units_per_cube
            && text.shared_bytes <= target.max_shared_bytes
    };
    let widest = texts.iter().filter(fits).max_by_key(|text| text.vector);
    widest.map(|text| text.kernel(limits)).transpose()
}

impl Text {
    fn kernel(&self, limits: &Limits) -> Result<KernelText, PluginError> {
        let constant = |&(offset, limit)| InfoField {
            offset,
            kind: InfoKind::CONSTANT,
            index: limits.value(limit),
            divisor: 1,
        };
        let word = |&(name, merge): &(&'static str, _)| StatisticsWord { name: name.into(), merge };
        let sum = |&(name, exponent): &(&'static str, _)| PartialSum { name: name.into(), exponent };
        Ok(KernelText {
            language: self.language,
            entry: self.entry.into(),
            source: self.source()?.into(),
            cube_dim: [self.units, 1, 1],
            vector: self.vector,
            buffers: self.buffers.into(),
            info: self.info.iter().cloned().chain(self.limits.iter().map(constant)).collect(),
            info_words: self.info_words,
            statistics: self.statistics.iter().map(word).collect(),
            partial_sums: self.partial_sums.iter().map(sum).collect(),
        })
    }

    fn source(&self) -> Result<String, PluginError> {
        let fault = |why: &str| {
            PluginError::new(
                ErrorKind::OTHER,
                format!("the text of kernel `{}` is damaged: {why}", self.entry),
            )
        };
        let bytes =
            miniz_oxide::inflate::decompress_to_vec(self.deflated).map_err(|e| fault(&e.to_string()))?;
        String::from_utf8(bytes).map_err(|e| fault(&e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Domain, grid::minifloat};

    /// "text" in one stored block: final block, length and its complement, bytes.
    const STORED: &[u8] = &[1, 4, 0, 0xfb, 0xff, b't', b'e', b'x', b't'];

    const fn text(language: KernelLanguage, vector: u32, units: u32) -> Text {
        Text {
            op: KernelOp::ENCODE,
            language,
            vector,
            units,
            shared_bytes: 1024,
            entry: "encode",
            deflated: STORED,
            buffers: &[],
            info: &[InfoField { offset: 0, kind: InfoKind::SCALAR_U32, index: 3, divisor: 1 }],
            limits: &[(4, Limit::MaxBits), (8, Limit::InfCode)],
            info_words: 2,
            statistics: &[("nan", MergeRule::ADD)],
            partial_sums: &[("sum_x2", -180)],
        }
    }

    const TEXTS: [Text; 3] = [
        text(KernelLanguage::CUDA, 1, 64),
        text(KernelLanguage::CUDA, 4, 256),
        text(KernelLanguage::WGSL, 1, 256),
    ];

    fn target(language: KernelLanguage, vector: u32) -> KernelTarget {
        KernelTarget {
            language,
            architecture: 90,
            vector,
            plane: [32, 32],
            max_units_per_cube: 256,
            max_shared_bytes: 1024,
        }
    }

    fn limits(domain: Domain) -> Limits {
        Limits::of(&MinifloatGrid::new(minifloat(5, 2, domain).unwrap()).unwrap())
    }

    #[test]
    fn the_widest_text_that_the_target_can_run() {
        let cuda = target(KernelLanguage::CUDA, 4);
        let rows = [
            (cuda.clone(), Some(4)),
            (KernelTarget { vector: 8, ..cuda.clone() }, Some(4)),
            (KernelTarget { vector: 2, ..cuda.clone() }, Some(1)),
            (KernelTarget { max_units_per_cube: 128, ..cuda.clone() }, Some(1)),
            (KernelTarget { max_units_per_cube: 32, ..cuda.clone() }, None),
            (KernelTarget { max_shared_bytes: 1023, ..cuda.clone() }, None),
            (KernelTarget { architecture: 61, ..cuda.clone() }, None),
            (KernelTarget { language: KernelLanguage(77), ..cuda.clone() }, None),
            (KernelTarget { architecture: 0, ..target(KernelLanguage::WGSL, 4) }, Some(1)),
        ];
        for (target, vector) in rows {
            let found = find(&TEXTS, KernelOp::ENCODE, &target, &limits(Domain::IEEE)).unwrap();
            assert_eq!(found.map(|text| text.vector), vector, "{target:?}");
        }
        let other = KernelOp::ENCODE.with_rounding(crate::Rounding::STOCHASTIC);
        assert_eq!(find(&TEXTS, other, &cuda, &limits(Domain::IEEE)).unwrap(), None);
    }

    #[test]
    fn domains_share_a_text_and_differ_in_constants() {
        let cuda = target(KernelLanguage::CUDA, 1);
        for (domain, max, inf) in [
            (Domain::IEEE, 57344f32, 0x7c),
            (Domain::FN, 98304.0, u32::MAX),
            (Domain::FIN, 114_688.0, u32::MAX),
        ] {
            let found = find(&TEXTS, KernelOp::ENCODE, &cuda, &limits(domain)).unwrap().unwrap();
            assert_eq!((found.source.as_str(), found.cube_dim), ("text", [64, 1, 1]));
            let words = found.pack_info(&[0, 0, 0, 9], &[]).unwrap();
            assert_eq!(words, [u64::from(max.to_bits()) << 32 | 9, u64::from(inf)], "{domain:?}");
        }
    }

    #[test]
    fn a_damaged_text_is_an_error() {
        let damaged = [Text { deflated: &STORED[..6], ..TEXTS[0] }];
        let target = target(KernelLanguage::CUDA, 1);
        let error = find(&damaged, KernelOp::ENCODE, &target, &limits(Domain::FIN)).unwrap_err();
        assert!(error.message.starts_with("the text of kernel `encode` is damaged"), "{}", error.message);
    }
}

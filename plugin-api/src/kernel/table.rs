//! A plugin's kernel texts as a table, and the choice among them.
//!
//! A program writes the table (the project's own is `plugins/kernel-kit`), the plugin includes it and returns the
//! result of [`find`]. Texts are kept deflated: dozens of them would be larger than the rest of a plugin. Nothing here
//! crosses the boundary.

use crate::{
    ErrorKind, InfoField, InfoKind, KernelBuffer, KernelLanguage, KernelOp, KernelTarget, KernelText,
    MergeRule, PartialSum, PluginError, StatisticsWord, grid::MinifloatGrid,
};

/// The oldest architecture that NVRTC 13 still compiles for.
const OLDEST_CUDA_ARCHITECTURE: u32 = 75;

/// One text, and its launch.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    /// The operation, with its rounding mode.
    pub op: KernelOp,
    /// Its language.
    pub language: KernelLanguage,
    /// Elements per unit at once.
    pub vector: u32,
    /// Units per cube.
    pub units: u32,
    /// Shared memory per cube, bytes.
    pub shared_bytes: u32,
    /// Name of the entry function.
    pub entry: &'static str,
    /// The text: UTF-8, deflated (RFC 1951).
    pub deflated: &'static [u8],
    /// Buffer arguments in order.
    pub buffers: &'static [KernelBuffer],
    /// The recipe of the info block, except for `constants`.
    pub info: &'static [InfoField],
    /// Byte offsets of the instance's constants in the info block.
    pub constants: &'static [(u32, GridConstant)],
    /// Size of the info block in u64 words.
    pub info_words: u32,
    /// The words of the statistics buffer, in order.
    pub statistics: &'static [(&'static str, MergeRule)],
    /// The words of a slot of the partial sums, in order: name and exponent.
    pub partial_sums: &'static [(&'static str, i32)],
}

/// A constant of a grid: it enters a kernel's info block, so that all minifloats share a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GridConstant {
    /// [`GridConstants::largest`].
    Largest,
    /// [`GridConstants::smallest`].
    Smallest,
    /// [`GridConstants::edge`].
    Edge,
    /// [`GridConstants::significand_bits`].
    SignificandBits,
}

/// The values of all [`GridConstant`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GridConstants {
    /// f32 bits of the largest finite value.
    pub largest: u32,
    /// f32 bits of the smallest positive value, code 1.
    pub smallest: u32,
    /// f32 bits of `2^emin`, the smallest normal value.
    pub edge: u32,
    /// Stored significand bits.
    pub significand_bits: u32,
}

impl GridConstants {
    /// The constants of a minifloat; `None` if `2^emin` is not a normal f32. With a canonical bias it is always normal.
    #[must_use]
    pub fn of(grid: &MinifloatGrid) -> Option<Self> {
        let emin = u32::try_from(grid.emin() + 127).ok().filter(|emin| (1..255).contains(emin))?;
        Some(Self {
            largest: grid.max_finite().to_bits(),
            smallest: grid.decode(1).to_bits(),
            edge: emin << 23,
            significand_bits: grid.spec().significand_bits,
        })
    }

    fn value(&self, constant: GridConstant) -> u32 {
        match constant {
            GridConstant::Largest => self.largest,
            GridConstant::Smallest => self.smallest,
            GridConstant::Edge => self.edge,
            GridConstant::SignificandBits => self.significand_bits,
        }
    }
}

/// The text for an operation and target with the widest allowed vector; `None` if the target can run no text.
///
/// # Errors
/// The table is damaged: a text does not inflate.
pub fn find(
    texts: &[Text],
    op: KernelOp,
    target: &KernelTarget,
    constants: &GridConstants,
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
    widest.map(|text| text.kernel(constants)).transpose()
}

impl Text {
    fn kernel(&self, constants: &GridConstants) -> Result<KernelText, PluginError> {
        let constant = |&(offset, constant)| InfoField {
            offset,
            kind: InfoKind::CONSTANT,
            index: constants.value(constant),
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
            info: self.info.iter().cloned().chain(self.constants.iter().map(constant)).collect(),
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
            op: KernelOp::FAKE_QUANT,
            language,
            vector,
            units,
            shared_bytes: 1024,
            entry: "round",
            deflated: STORED,
            buffers: &[],
            info: &[InfoField { offset: 0, kind: InfoKind::SCALAR_U32, index: 3, divisor: 1 }],
            constants: &[(4, GridConstant::Largest), (8, GridConstant::SignificandBits)],
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

    fn constants(e: u32, m: u32, domain: Domain) -> GridConstants {
        GridConstants::of(&MinifloatGrid::new(minifloat(e, m, domain).unwrap()).unwrap()).unwrap()
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
            let found = find(&TEXTS, KernelOp::FAKE_QUANT, &target, &GridConstants::default()).unwrap();
            assert_eq!(found.map(|text| text.vector), vector, "{target:?}");
        }
        let other = KernelOp::FAKE_QUANT.with_rounding(crate::Rounding::STOCHASTIC);
        assert_eq!(find(&TEXTS, other, &cuda, &GridConstants::default()).unwrap(), None);
    }

    #[test]
    fn minifloats_share_a_text_and_differ_in_constants() {
        let cuda = target(KernelLanguage::CUDA, 1);
        for (e, m, domain, max) in [
            (5, 2, Domain::IEEE, 57344f32),
            (5, 2, Domain::FN, 98304.0),
            (5, 2, Domain::FIN, 114_688.0),
            (4, 3, Domain::FN, 448.0),
        ] {
            let constants = constants(e, m, domain);
            let found = find(&TEXTS, KernelOp::FAKE_QUANT, &cuda, &constants).unwrap().unwrap();
            assert_eq!((found.source.as_str(), found.cube_dim), ("text", [64, 1, 1]));
            let words = found.pack_info(&[0, 0, 0, 9], &[]).unwrap();
            assert_eq!(words, [u64::from(max.to_bits()) << 32 | 9, u64::from(m)], "{domain:?}");
        }
    }

    #[test]
    fn constants_of_the_family() {
        let rows = [
            (0, 7, Domain::FIN, 2f32.powi(1), 2f32.powi(-6)),
            (1, 6, Domain::FIN, 2f32.powi(1), 2f32.powi(-5)),
            (4, 3, Domain::FN, 2f32.powi(-6), 2f32.powi(-9)),
            (5, 2, Domain::IEEE, 2f32.powi(-14), 2f32.powi(-16)),
            (7, 0, Domain::FIN, 2f32.powi(-62), 2f32.powi(-62)),
            (8, 7, Domain::IEEE, f32::MIN_POSITIVE, f32::from_bits(1 << 16)),
        ];
        for (e, m, domain, edge, min) in rows {
            let found = constants(e, m, domain);
            assert_eq!((found.edge, found.smallest), (edge.to_bits(), min.to_bits()), "E{e}M{m}");
        }
    }

    #[test]
    fn a_damaged_text_is_an_error() {
        let damaged = [Text { deflated: &STORED[..6], ..TEXTS[0] }];
        let target = target(KernelLanguage::CUDA, 1);
        let error = find(&damaged, KernelOp::FAKE_QUANT, &target, &GridConstants::default()).unwrap_err();
        assert!(error.message.starts_with("the text of kernel `round` is damaged"), "{}", error.message);
    }
}

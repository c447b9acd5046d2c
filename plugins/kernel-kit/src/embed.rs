//! The plugin's side: a table of texts and the choice among them.
//!
//! These lines are copied, without this page, in front of each generated table, so that a plugin needs nothing of this
//! crate but the build. They know no tensor library.

use altgrad_plugin_api::{
    BufferRole, DType, InfoField, InfoKind, KernelBuffer, KernelLanguage, KernelOp, KernelTarget, KernelText,
    MergeRule, PartialSum, StatisticsWord,
};

/// Constants in which the domains of a format differ: they enter a kernel's info block.
#[derive(Debug, Clone, Copy)]
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

/// A text made when the plugin was built.
pub struct Text {
    /// What it computes, with its rounding mode.
    pub op: u32,
    /// Its language.
    pub language: u32,
    /// Elements a unit takes at once.
    pub vector: u32,
    /// Units a cube.
    pub units: u32,
    /// Shared memory a cube, bytes.
    pub shared_bytes: u32,
    /// Name of the entry function.
    pub entry: &'static str,
    /// The text.
    pub source: &'static str,
    /// Role, type, whether read, whether written.
    pub buffers: &'static [(u32, DType, bool, bool)],
    /// Offset, kind, index, divisor; index of a constant: which limit.
    pub info: &'static [(u32, u32, u32, u32)],
    /// Size of the info block in u64 words.
    pub info_words: u32,
    /// Name and merge rule.
    pub statistics: &'static [(&'static str, u32)],
    /// Name and exponent.
    pub partial_sums: &'static [(&'static str, i32)],
}

/// The text for an operation and target with the widest vector allowed, if there is any.
pub fn find(texts: &[Text], op: KernelOp, target: &KernelTarget, limits: &Limits) -> Option<KernelText> {
    /// What NVRTC 13 still compiles for.
    const OLDEST_ARCHITECTURE: u32 = 75;
    if target.language == KernelLanguage::CUDA && target.architecture < OLDEST_ARCHITECTURE {
        return None;
    }
    let fits = |text: &&Text| {
        (text.op, text.language) == (op.0, target.language.0)
            && text.vector <= target.vector
            && text.units <= target.max_units_per_cube
            && text.shared_bytes <= target.max_shared_bytes
    };
    texts.iter().filter(fits).max_by_key(|text| text.vector).map(|text| text.kernel(limits))
}

impl Limits {
    fn value(&self, index: u32) -> u32 {
        match index {
            0 => self.max_bits,
            1 => self.max_code,
            2 => self.nan_code.unwrap_or(u32::MAX),
            _ => self.inf_code.unwrap_or(u32::MAX),
        }
    }
}

impl Text {
    fn kernel(&self, limits: &Limits) -> KernelText {
        let buffers = self.buffers.iter().map(|&(role, dtype, reads, writes)| KernelBuffer {
            role: BufferRole(role),
            index: 0,
            dtype,
            reads,
            writes,
        });
        let info = self.info.iter().map(|&(offset, kind, index, divisor)| {
            let kind = InfoKind(kind);
            let index = if kind == InfoKind::CONSTANT { limits.value(index) } else { index };
            InfoField { offset, kind, index, divisor }
        });
        let statistics = self.statistics.iter();
        let partial_sums = self.partial_sums.iter();
        KernelText {
            language: KernelLanguage(self.language),
            entry: self.entry.into(),
            source: self.source.into(),
            cube_dim: [self.units, 1, 1],
            vector: self.vector,
            buffers: buffers.collect(),
            info: info.collect(),
            info_words: self.info_words,
            statistics: statistics
                .map(|&(name, merge)| StatisticsWord { name: name.into(), merge: MergeRule(merge) })
                .collect(),
            partial_sums: partial_sums
                .map(|&(name, exponent)| PartialSum { name: name.into(), exponent })
                .collect(),
        }
    }
}

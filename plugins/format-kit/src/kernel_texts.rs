//! Kernel texts, deflated, and how to launch them. Made by `cargo xtask kernels`: not to be edited.

use altgrad_plugin_api::{
    BufferRole, DType, InfoField, InfoKind, KernelBuffer, KernelLanguage, KernelOp, MergeRule, kernel::table::{GridConstant::{self, *}, Text},
};

const DEFLATED: &[u8] = include_bytes!("kernel_texts.deflate");

const fn part(start: usize, len: usize) -> &'static [u8] {
    DEFLATED.split_at(start).1.split_at(len).0
}

const BUFFERS_0: &[KernelBuffer] = &[
    KernelBuffer { role: BufferRole(1), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(2), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: false, writes: true },
    KernelBuffer { role: BufferRole(4), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(3), index: 0, dtype: DType { code: 1, bits: 32, lanes: 1 }, reads: true, writes: true },
    KernelBuffer { role: BufferRole(5), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: false, writes: true },
];

const INFO_0: &[InfoField] = &[
    InfoField { offset: 0, kind: InfoKind(2), index: 0, divisor: 1 },
    InfoField { offset: 4, kind: InfoKind(2), index: 1, divisor: 1 },
    InfoField { offset: 8, kind: InfoKind(2), index: 2, divisor: 1 },
    InfoField { offset: 12, kind: InfoKind(2), index: 3, divisor: 1 },
    InfoField { offset: 16, kind: InfoKind(2), index: 4, divisor: 1 },
    InfoField { offset: 20, kind: InfoKind(2), index: 5, divisor: 1 },
    InfoField { offset: 24, kind: InfoKind(2), index: 6, divisor: 1 },
    InfoField { offset: 48, kind: InfoKind(3), index: 0, divisor: 4 },
    InfoField { offset: 52, kind: InfoKind(3), index: 1, divisor: 4 },
    InfoField { offset: 56, kind: InfoKind(3), index: 2, divisor: 1 },
    InfoField { offset: 60, kind: InfoKind(3), index: 3, divisor: 1 },
    InfoField { offset: 64, kind: InfoKind(3), index: 4, divisor: 1 },
];

const CONSTANTS_0: &[(u32, GridConstant)] = &[
    (28, Largest),
    (32, Smallest),
    (36, Edge),
    (40, SignificandBits),
];

const SUMS_0: &[(&str, i32)] = &[
    ("sum_x2", -180),
    ("sum_x2", 0),
    ("sum_x2", 180),
    ("sum_err2", -180),
    ("sum_err2", 0),
    ("sum_err2", 180),
    ("sum_x_xhat", -180),
    ("sum_x_xhat", 0),
    ("sum_x_xhat", 180),
];

const STATISTICS_0: &[(&str, MergeRule)] = &[
    ("amax", MergeRule(2)),
    ("overflow", MergeRule(1)),
    ("underflow", MergeRule(1)),
    ("nan", MergeRule(1)),
    ("nonzero", MergeRule(1)),
];

const INFO_1: &[InfoField] = &[
    InfoField { offset: 0, kind: InfoKind(2), index: 0, divisor: 1 },
    InfoField { offset: 4, kind: InfoKind(2), index: 1, divisor: 1 },
    InfoField { offset: 8, kind: InfoKind(2), index: 2, divisor: 1 },
    InfoField { offset: 12, kind: InfoKind(2), index: 3, divisor: 1 },
    InfoField { offset: 16, kind: InfoKind(2), index: 4, divisor: 1 },
    InfoField { offset: 20, kind: InfoKind(2), index: 5, divisor: 1 },
    InfoField { offset: 24, kind: InfoKind(2), index: 6, divisor: 1 },
    InfoField { offset: 48, kind: InfoKind(3), index: 0, divisor: 1 },
    InfoField { offset: 52, kind: InfoKind(3), index: 1, divisor: 1 },
    InfoField { offset: 56, kind: InfoKind(3), index: 2, divisor: 1 },
    InfoField { offset: 60, kind: InfoKind(3), index: 3, divisor: 1 },
    InfoField { offset: 64, kind: InfoKind(3), index: 4, divisor: 1 },
];

pub const TEXTS: &[Text] = &[
    // FakeQuant NearestEven, CUDA, 4 at once
    Text { op: KernelOp(1), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_cae6483d", deflated: part(0, 5101), buffers: BUFFERS_0, info: INFO_0, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, CUDA, 4 at once
    Text { op: KernelOp(257), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_6ec68860", deflated: part(5101, 4913), buffers: BUFFERS_0, info: INFO_0, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, CUDA, 4 at once
    Text { op: KernelOp(513), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_f85a7f09", deflated: part(10014, 4792), buffers: BUFFERS_0, info: INFO_0, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, CUDA, 4 at once
    Text { op: KernelOp(769), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_e3b62545", deflated: part(14806, 5788), buffers: BUFFERS_0, info: INFO_0, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestEven, CUDA, 1 at once
    Text { op: KernelOp(1), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_adea49e8", deflated: part(20594, 3293), buffers: BUFFERS_0, info: INFO_1, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, CUDA, 1 at once
    Text { op: KernelOp(257), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_85701b9b", deflated: part(23887, 3247), buffers: BUFFERS_0, info: INFO_1, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, CUDA, 1 at once
    Text { op: KernelOp(513), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_2b86c394", deflated: part(27134, 3234), buffers: BUFFERS_0, info: INFO_1, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, CUDA, 1 at once
    Text { op: KernelOp(769), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_7a440b07", deflated: part(30368, 3880), buffers: BUFFERS_0, info: INFO_1, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestEven, WGSL, 4 at once
    Text { op: KernelOp(1), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_cae6483d", deflated: part(34248, 5478), buffers: BUFFERS_0, info: INFO_0, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, WGSL, 4 at once
    Text { op: KernelOp(257), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_6ec68860", deflated: part(39726, 5255), buffers: BUFFERS_0, info: INFO_0, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, WGSL, 4 at once
    Text { op: KernelOp(513), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_f85a7f09", deflated: part(44981, 5154), buffers: BUFFERS_0, info: INFO_0, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, WGSL, 4 at once
    Text { op: KernelOp(769), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_e3b62545", deflated: part(50135, 6591), buffers: BUFFERS_0, info: INFO_0, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestEven, WGSL, 1 at once
    Text { op: KernelOp(1), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_adea49e8", deflated: part(56726, 3337), buffers: BUFFERS_0, info: INFO_1, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, WGSL, 1 at once
    Text { op: KernelOp(257), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_85701b9b", deflated: part(60063, 3303), buffers: BUFFERS_0, info: INFO_1, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, WGSL, 1 at once
    Text { op: KernelOp(513), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_2b86c394", deflated: part(63366, 3280), buffers: BUFFERS_0, info: INFO_1, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, WGSL, 1 at once
    Text { op: KernelOp(769), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_7a440b07", deflated: part(66646, 4217), buffers: BUFFERS_0, info: INFO_1, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
];

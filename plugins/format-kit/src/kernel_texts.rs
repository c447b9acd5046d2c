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
    Text { op: KernelOp(1), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_85207647", deflated: part(0, 5101), buffers: BUFFERS_0, info: INFO_0, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, CUDA, 4 at once
    Text { op: KernelOp(257), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_e3df1371", deflated: part(5101, 4899), buffers: BUFFERS_0, info: INFO_0, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, CUDA, 4 at once
    Text { op: KernelOp(513), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_3cab90bf", deflated: part(10000, 4800), buffers: BUFFERS_0, info: INFO_0, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, CUDA, 4 at once
    Text { op: KernelOp(769), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_097146d0", deflated: part(14800, 5814), buffers: BUFFERS_0, info: INFO_0, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestEven, CUDA, 1 at once
    Text { op: KernelOp(1), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_b1ac0190", deflated: part(20614, 3291), buffers: BUFFERS_0, info: INFO_1, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, CUDA, 1 at once
    Text { op: KernelOp(257), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_97101c45", deflated: part(23905, 3246), buffers: BUFFERS_0, info: INFO_1, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, CUDA, 1 at once
    Text { op: KernelOp(513), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_862910ec", deflated: part(27151, 3213), buffers: BUFFERS_0, info: INFO_1, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, CUDA, 1 at once
    Text { op: KernelOp(769), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_d9c1457d", deflated: part(30364, 3885), buffers: BUFFERS_0, info: INFO_1, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestEven, WGSL, 4 at once
    Text { op: KernelOp(1), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_85207647", deflated: part(34249, 5462), buffers: BUFFERS_0, info: INFO_0, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, WGSL, 4 at once
    Text { op: KernelOp(257), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_e3df1371", deflated: part(39711, 5247), buffers: BUFFERS_0, info: INFO_0, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, WGSL, 4 at once
    Text { op: KernelOp(513), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_3cab90bf", deflated: part(44958, 5130), buffers: BUFFERS_0, info: INFO_0, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, WGSL, 4 at once
    Text { op: KernelOp(769), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_097146d0", deflated: part(50088, 6628), buffers: BUFFERS_0, info: INFO_0, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestEven, WGSL, 1 at once
    Text { op: KernelOp(1), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_b1ac0190", deflated: part(56716, 3347), buffers: BUFFERS_0, info: INFO_1, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, WGSL, 1 at once
    Text { op: KernelOp(257), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_97101c45", deflated: part(60063, 3296), buffers: BUFFERS_0, info: INFO_1, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, WGSL, 1 at once
    Text { op: KernelOp(513), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_862910ec", deflated: part(63359, 3265), buffers: BUFFERS_0, info: INFO_1, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, WGSL, 1 at once
    Text { op: KernelOp(769), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_d9c1457d", deflated: part(66624, 4232), buffers: BUFFERS_0, info: INFO_1, constants: CONSTANTS_0, info_words: 9, statistics: STATISTICS_0, partial_sums: SUMS_0 },
];

//! Kernel texts, deflated, and how to launch them. Made by `cargo xtask kernels`: not to be edited.

use altgrad_plugin_api::{
    BufferRole, DType, InfoField, InfoKind, KernelBuffer, KernelLanguage, KernelOp, MergeRule, kernel::{table::{Limit::{self, *}, Text}},
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
    KernelBuffer { role: BufferRole(11), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: false, writes: true },
];

const INFO_0: &[InfoField] = &[
    InfoField { offset: 0, kind: InfoKind(2), index: 0, divisor: 1 },
    InfoField { offset: 4, kind: InfoKind(2), index: 1, divisor: 1 },
    InfoField { offset: 8, kind: InfoKind(2), index: 2, divisor: 1 },
    InfoField { offset: 12, kind: InfoKind(2), index: 3, divisor: 1 },
    InfoField { offset: 16, kind: InfoKind(2), index: 4, divisor: 1 },
    InfoField { offset: 20, kind: InfoKind(2), index: 5, divisor: 1 },
    InfoField { offset: 24, kind: InfoKind(2), index: 6, divisor: 1 },
    InfoField { offset: 32, kind: InfoKind(3), index: 0, divisor: 4 },
    InfoField { offset: 36, kind: InfoKind(3), index: 1, divisor: 4 },
    InfoField { offset: 40, kind: InfoKind(3), index: 2, divisor: 1 },
    InfoField { offset: 44, kind: InfoKind(3), index: 3, divisor: 1 },
    InfoField { offset: 48, kind: InfoKind(3), index: 4, divisor: 1 },
];

const LIMITS_0: &[(u32, Limit)] = &[
    (28, MaxBits),
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

const BUFFERS_1: &[KernelBuffer] = &[
    KernelBuffer { role: BufferRole(1), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(5), index: 0, dtype: DType { code: 1, bits: 32, lanes: 1 }, reads: false, writes: true },
    KernelBuffer { role: BufferRole(4), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(3), index: 0, dtype: DType { code: 1, bits: 32, lanes: 1 }, reads: true, writes: true },
];

const INFO_1: &[InfoField] = &[
    InfoField { offset: 0, kind: InfoKind(2), index: 0, divisor: 1 },
    InfoField { offset: 4, kind: InfoKind(2), index: 1, divisor: 1 },
    InfoField { offset: 8, kind: InfoKind(2), index: 2, divisor: 1 },
    InfoField { offset: 12, kind: InfoKind(2), index: 3, divisor: 1 },
    InfoField { offset: 16, kind: InfoKind(2), index: 4, divisor: 1 },
    InfoField { offset: 20, kind: InfoKind(2), index: 5, divisor: 1 },
    InfoField { offset: 24, kind: InfoKind(2), index: 6, divisor: 1 },
    InfoField { offset: 40, kind: InfoKind(3), index: 0, divisor: 4 },
    InfoField { offset: 44, kind: InfoKind(3), index: 1, divisor: 4 },
    InfoField { offset: 48, kind: InfoKind(3), index: 2, divisor: 1 },
    InfoField { offset: 52, kind: InfoKind(3), index: 3, divisor: 1 },
];

const LIMITS_1: &[(u32, Limit)] = &[
    (28, MaxCode),
    (32, NanCode),
];

const STATISTICS_1: &[(&str, MergeRule)] = &[
    ("nan", MergeRule(1)),
];

const BUFFERS_2: &[KernelBuffer] = &[
    KernelBuffer { role: BufferRole(5), index: 0, dtype: DType { code: 1, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(2), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: false, writes: true },
];

const INFO_2: &[InfoField] = &[
    InfoField { offset: 8, kind: InfoKind(3), index: 0, divisor: 4 },
    InfoField { offset: 12, kind: InfoKind(3), index: 1, divisor: 4 },
];

const LIMITS_2: &[(u32, Limit)] = &[
    (0, MaxCode),
    (4, InfCode),
];

const BUFFERS_3: &[KernelBuffer] = &[
    KernelBuffer { role: BufferRole(5), index: 0, dtype: DType { code: 1, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(6), index: 0, dtype: DType { code: 1, bits: 32, lanes: 1 }, reads: true, writes: true },
];

const INFO_3: &[InfoField] = &[
    InfoField { offset: 0, kind: InfoKind(3), index: 0, divisor: 4 },
    InfoField { offset: 4, kind: InfoKind(3), index: 1, divisor: 1 },
];

const INFO_4: &[InfoField] = &[
    InfoField { offset: 0, kind: InfoKind(2), index: 0, divisor: 1 },
    InfoField { offset: 4, kind: InfoKind(2), index: 1, divisor: 1 },
    InfoField { offset: 8, kind: InfoKind(2), index: 2, divisor: 1 },
    InfoField { offset: 12, kind: InfoKind(2), index: 3, divisor: 1 },
    InfoField { offset: 16, kind: InfoKind(2), index: 4, divisor: 1 },
    InfoField { offset: 20, kind: InfoKind(2), index: 5, divisor: 1 },
    InfoField { offset: 24, kind: InfoKind(2), index: 6, divisor: 1 },
    InfoField { offset: 32, kind: InfoKind(3), index: 0, divisor: 1 },
    InfoField { offset: 36, kind: InfoKind(3), index: 1, divisor: 1 },
    InfoField { offset: 40, kind: InfoKind(3), index: 2, divisor: 1 },
    InfoField { offset: 44, kind: InfoKind(3), index: 3, divisor: 1 },
    InfoField { offset: 48, kind: InfoKind(3), index: 4, divisor: 1 },
];

const INFO_5: &[InfoField] = &[
    InfoField { offset: 0, kind: InfoKind(2), index: 0, divisor: 1 },
    InfoField { offset: 4, kind: InfoKind(2), index: 1, divisor: 1 },
    InfoField { offset: 8, kind: InfoKind(2), index: 2, divisor: 1 },
    InfoField { offset: 12, kind: InfoKind(2), index: 3, divisor: 1 },
    InfoField { offset: 16, kind: InfoKind(2), index: 4, divisor: 1 },
    InfoField { offset: 20, kind: InfoKind(2), index: 5, divisor: 1 },
    InfoField { offset: 24, kind: InfoKind(2), index: 6, divisor: 1 },
    InfoField { offset: 40, kind: InfoKind(3), index: 0, divisor: 1 },
    InfoField { offset: 44, kind: InfoKind(3), index: 1, divisor: 1 },
    InfoField { offset: 48, kind: InfoKind(3), index: 2, divisor: 1 },
    InfoField { offset: 52, kind: InfoKind(3), index: 3, divisor: 1 },
];

const INFO_6: &[InfoField] = &[
    InfoField { offset: 8, kind: InfoKind(3), index: 0, divisor: 1 },
    InfoField { offset: 12, kind: InfoKind(3), index: 1, divisor: 1 },
];

const INFO_7: &[InfoField] = &[
    InfoField { offset: 0, kind: InfoKind(3), index: 0, divisor: 1 },
    InfoField { offset: 4, kind: InfoKind(3), index: 1, divisor: 1 },
];

pub const TEXTS: &[Text] = &[
    // FakeQuant NearestEven, CUDA, 4 at once
    Text { op: KernelOp(1), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_17dea069", deflated: part(0, 4826), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, CUDA, 4 at once
    Text { op: KernelOp(257), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_bdb9394a", deflated: part(4826, 4766), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, CUDA, 4 at once
    Text { op: KernelOp(513), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_e8ec11b5", deflated: part(9592, 4563), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, CUDA, 4 at once
    Text { op: KernelOp(769), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_9616c5d9", deflated: part(14155, 5557), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, CUDA, 4 at once
    Text { op: KernelOp(3), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_02229766", deflated: part(19712, 2049), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, CUDA, 4 at once
    Text { op: KernelOp(259), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_5739b1f2", deflated: part(21761, 1974), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, CUDA, 4 at once
    Text { op: KernelOp(515), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_4aa0e075", deflated: part(23735, 1758), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, CUDA, 4 at once
    Text { op: KernelOp(771), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_09f8a1e9", deflated: part(25493, 2741), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, CUDA, 4 at once
    Text { op: KernelOp(4), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "decode_n_4_b0b48803", deflated: part(28234, 1342), buffers: BUFFERS_2, info: INFO_2, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, CUDA, 4 at once
    Text { op: KernelOp(6), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 1024, entry: "histogram_n_4_66cb0ca2", deflated: part(29576, 1174), buffers: BUFFERS_3, info: INFO_3, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
    // FakeQuant NearestEven, CUDA, 1 at once
    Text { op: KernelOp(1), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_03fc9cf8", deflated: part(30750, 3217), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, CUDA, 1 at once
    Text { op: KernelOp(257), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_d6a550dc", deflated: part(33967, 3195), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, CUDA, 1 at once
    Text { op: KernelOp(513), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_eba58d0b", deflated: part(37162, 3121), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, CUDA, 1 at once
    Text { op: KernelOp(769), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_1b556e8f", deflated: part(40283, 3806), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, CUDA, 1 at once
    Text { op: KernelOp(3), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_85242ca4", deflated: part(44089, 1240), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, CUDA, 1 at once
    Text { op: KernelOp(259), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_201c4e4d", deflated: part(45329, 1225), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, CUDA, 1 at once
    Text { op: KernelOp(515), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_08e020a3", deflated: part(46554, 1151), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, CUDA, 1 at once
    Text { op: KernelOp(771), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_68b9a943", deflated: part(47705, 1811), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, CUDA, 1 at once
    Text { op: KernelOp(4), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "decode_n_1_a67aad91", deflated: part(49516, 898), buffers: BUFFERS_2, info: INFO_6, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, CUDA, 1 at once
    Text { op: KernelOp(6), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 1024, entry: "histogram_n_1_ce6e8947", deflated: part(50414, 1025), buffers: BUFFERS_3, info: INFO_7, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
    // FakeQuant NearestEven, WGSL, 4 at once
    Text { op: KernelOp(1), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_17dea069", deflated: part(51439, 5209), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, WGSL, 4 at once
    Text { op: KernelOp(257), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_bdb9394a", deflated: part(56648, 5135), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, WGSL, 4 at once
    Text { op: KernelOp(513), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_e8ec11b5", deflated: part(61783, 4928), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, WGSL, 4 at once
    Text { op: KernelOp(769), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_9616c5d9", deflated: part(66711, 6370), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, WGSL, 4 at once
    Text { op: KernelOp(3), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_02229766", deflated: part(73081, 1785), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, WGSL, 4 at once
    Text { op: KernelOp(259), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_5739b1f2", deflated: part(74866, 1719), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, WGSL, 4 at once
    Text { op: KernelOp(515), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_4aa0e075", deflated: part(76585, 1521), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, WGSL, 4 at once
    Text { op: KernelOp(771), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_09f8a1e9", deflated: part(78106, 2910), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, WGSL, 4 at once
    Text { op: KernelOp(4), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "decode_n_4_b0b48803", deflated: part(81016, 1189), buffers: BUFFERS_2, info: INFO_2, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, WGSL, 4 at once
    Text { op: KernelOp(6), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 1024, entry: "histogram_n_4_66cb0ca2", deflated: part(82205, 806), buffers: BUFFERS_3, info: INFO_3, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
    // FakeQuant NearestEven, WGSL, 1 at once
    Text { op: KernelOp(1), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_03fc9cf8", deflated: part(83011, 3253), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, WGSL, 1 at once
    Text { op: KernelOp(257), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_d6a550dc", deflated: part(86264, 3242), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, WGSL, 1 at once
    Text { op: KernelOp(513), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_eba58d0b", deflated: part(89506, 3181), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, WGSL, 1 at once
    Text { op: KernelOp(769), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_1b556e8f", deflated: part(92687, 4185), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, WGSL, 1 at once
    Text { op: KernelOp(3), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_85242ca4", deflated: part(96872, 1069), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, WGSL, 1 at once
    Text { op: KernelOp(259), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_201c4e4d", deflated: part(97941, 1042), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, WGSL, 1 at once
    Text { op: KernelOp(515), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_08e020a3", deflated: part(98983, 976), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, WGSL, 1 at once
    Text { op: KernelOp(771), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_68b9a943", deflated: part(99959, 1932), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, WGSL, 1 at once
    Text { op: KernelOp(4), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "decode_n_1_a67aad91", deflated: part(101891, 794), buffers: BUFFERS_2, info: INFO_6, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, WGSL, 1 at once
    Text { op: KernelOp(6), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 1024, entry: "histogram_n_1_ce6e8947", deflated: part(102685, 697), buffers: BUFFERS_3, info: INFO_7, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
];

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
    Text { op: KernelOp(1), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_9f834d8f", deflated: part(0, 5064), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, CUDA, 4 at once
    Text { op: KernelOp(257), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_427f9156", deflated: part(5064, 4904), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, CUDA, 4 at once
    Text { op: KernelOp(513), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_a6192943", deflated: part(9968, 4675), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, CUDA, 4 at once
    Text { op: KernelOp(769), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_8970c546", deflated: part(14643, 5641), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, CUDA, 4 at once
    Text { op: KernelOp(3), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_ec030580", deflated: part(20284, 2179), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, CUDA, 4 at once
    Text { op: KernelOp(259), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_32f1f57b", deflated: part(22463, 2126), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, CUDA, 4 at once
    Text { op: KernelOp(515), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_b63dc855", deflated: part(24589, 1887), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, CUDA, 4 at once
    Text { op: KernelOp(771), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_0b607f67", deflated: part(26476, 2746), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, CUDA, 4 at once
    Text { op: KernelOp(4), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "decode_n_4_9327db2a", deflated: part(29222, 1379), buffers: BUFFERS_2, info: INFO_2, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, CUDA, 4 at once
    Text { op: KernelOp(6), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 1024, entry: "histogram_n_4_a726ea16", deflated: part(30601, 1174), buffers: BUFFERS_3, info: INFO_3, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
    // FakeQuant NearestEven, CUDA, 1 at once
    Text { op: KernelOp(1), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_9b3fce6b", deflated: part(31775, 3304), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, CUDA, 1 at once
    Text { op: KernelOp(257), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_ef17ae11", deflated: part(35079, 3246), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, CUDA, 1 at once
    Text { op: KernelOp(513), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_72052284", deflated: part(38325, 3185), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, CUDA, 1 at once
    Text { op: KernelOp(769), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_a201bccd", deflated: part(41510, 3822), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, CUDA, 1 at once
    Text { op: KernelOp(3), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_9feaaea2", deflated: part(45332, 1275), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, CUDA, 1 at once
    Text { op: KernelOp(259), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_2426b910", deflated: part(46607, 1268), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, CUDA, 1 at once
    Text { op: KernelOp(515), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_ecd28be7", deflated: part(47875, 1200), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, CUDA, 1 at once
    Text { op: KernelOp(771), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_c692b4e7", deflated: part(49075, 1813), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, CUDA, 1 at once
    Text { op: KernelOp(4), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "decode_n_1_4d23334d", deflated: part(50888, 911), buffers: BUFFERS_2, info: INFO_6, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, CUDA, 1 at once
    Text { op: KernelOp(6), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 1024, entry: "histogram_n_1_e3e479c5", deflated: part(51799, 1025), buffers: BUFFERS_3, info: INFO_7, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
    // FakeQuant NearestEven, WGSL, 4 at once
    Text { op: KernelOp(1), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_9f834d8f", deflated: part(52824, 5387), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, WGSL, 4 at once
    Text { op: KernelOp(257), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_427f9156", deflated: part(58211, 5276), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, WGSL, 4 at once
    Text { op: KernelOp(513), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_a6192943", deflated: part(63487, 5042), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, WGSL, 4 at once
    Text { op: KernelOp(769), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_8970c546", deflated: part(68529, 6445), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, WGSL, 4 at once
    Text { op: KernelOp(3), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_ec030580", deflated: part(74974, 1904), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, WGSL, 4 at once
    Text { op: KernelOp(259), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_32f1f57b", deflated: part(76878, 1854), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, WGSL, 4 at once
    Text { op: KernelOp(515), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_b63dc855", deflated: part(78732, 1633), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, WGSL, 4 at once
    Text { op: KernelOp(771), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_0b607f67", deflated: part(80365, 2924), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, WGSL, 4 at once
    Text { op: KernelOp(4), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "decode_n_4_9327db2a", deflated: part(83289, 1214), buffers: BUFFERS_2, info: INFO_2, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, WGSL, 4 at once
    Text { op: KernelOp(6), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 1024, entry: "histogram_n_4_a726ea16", deflated: part(84503, 805), buffers: BUFFERS_3, info: INFO_3, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
    // FakeQuant NearestEven, WGSL, 1 at once
    Text { op: KernelOp(1), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_9b3fce6b", deflated: part(85308, 3323), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, WGSL, 1 at once
    Text { op: KernelOp(257), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_ef17ae11", deflated: part(88631, 3303), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, WGSL, 1 at once
    Text { op: KernelOp(513), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_72052284", deflated: part(91934, 3243), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, WGSL, 1 at once
    Text { op: KernelOp(769), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_a201bccd", deflated: part(95177, 4193), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, WGSL, 1 at once
    Text { op: KernelOp(3), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_9feaaea2", deflated: part(99370, 1093), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, WGSL, 1 at once
    Text { op: KernelOp(259), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_2426b910", deflated: part(100463, 1085), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, WGSL, 1 at once
    Text { op: KernelOp(515), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_ecd28be7", deflated: part(101548, 1025), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, WGSL, 1 at once
    Text { op: KernelOp(771), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_c692b4e7", deflated: part(102573, 1948), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, WGSL, 1 at once
    Text { op: KernelOp(4), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "decode_n_1_4d23334d", deflated: part(104521, 797), buffers: BUFFERS_2, info: INFO_6, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, WGSL, 1 at once
    Text { op: KernelOp(6), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 1024, entry: "histogram_n_1_e3e479c5", deflated: part(105318, 697), buffers: BUFFERS_3, info: INFO_7, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
];

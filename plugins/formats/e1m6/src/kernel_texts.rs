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
    Text { op: KernelOp(1), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_55ffc102", deflated: part(0, 5062), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, CUDA, 4 at once
    Text { op: KernelOp(257), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_0d410c39", deflated: part(5062, 4901), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, CUDA, 4 at once
    Text { op: KernelOp(513), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_bce46fa3", deflated: part(9963, 4673), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, CUDA, 4 at once
    Text { op: KernelOp(769), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_31b43cd7", deflated: part(14636, 5637), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, CUDA, 4 at once
    Text { op: KernelOp(3), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_dfc6bd29", deflated: part(20273, 2181), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, CUDA, 4 at once
    Text { op: KernelOp(259), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_9a138f26", deflated: part(22454, 2128), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, CUDA, 4 at once
    Text { op: KernelOp(515), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_eb32f39f", deflated: part(24582, 1886), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, CUDA, 4 at once
    Text { op: KernelOp(771), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_8567ac14", deflated: part(26468, 2746), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, CUDA, 4 at once
    Text { op: KernelOp(4), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "decode_n_4_dad3e83a", deflated: part(29214, 1379), buffers: BUFFERS_2, info: INFO_2, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, CUDA, 4 at once
    Text { op: KernelOp(6), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 1024, entry: "histogram_n_4_fcb4e489", deflated: part(30593, 1174), buffers: BUFFERS_3, info: INFO_3, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
    // FakeQuant NearestEven, CUDA, 1 at once
    Text { op: KernelOp(1), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_e9815b57", deflated: part(31767, 3298), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, CUDA, 1 at once
    Text { op: KernelOp(257), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_9df5be2b", deflated: part(35065, 3247), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, CUDA, 1 at once
    Text { op: KernelOp(513), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_02437e95", deflated: part(38312, 3187), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, CUDA, 1 at once
    Text { op: KernelOp(769), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_c469fb04", deflated: part(41499, 3817), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, CUDA, 1 at once
    Text { op: KernelOp(3), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_78f65dd9", deflated: part(45316, 1274), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, CUDA, 1 at once
    Text { op: KernelOp(259), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_b6185a1a", deflated: part(46590, 1265), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, CUDA, 1 at once
    Text { op: KernelOp(515), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_e655416a", deflated: part(47855, 1198), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, CUDA, 1 at once
    Text { op: KernelOp(771), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_347bb534", deflated: part(49053, 1811), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, CUDA, 1 at once
    Text { op: KernelOp(4), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "decode_n_1_e0034ebc", deflated: part(50864, 911), buffers: BUFFERS_2, info: INFO_6, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, CUDA, 1 at once
    Text { op: KernelOp(6), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 1024, entry: "histogram_n_1_0bbe9e31", deflated: part(51775, 1025), buffers: BUFFERS_3, info: INFO_7, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
    // FakeQuant NearestEven, WGSL, 4 at once
    Text { op: KernelOp(1), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_55ffc102", deflated: part(52800, 5384), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, WGSL, 4 at once
    Text { op: KernelOp(257), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_0d410c39", deflated: part(58184, 5272), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, WGSL, 4 at once
    Text { op: KernelOp(513), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_bce46fa3", deflated: part(63456, 5040), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, WGSL, 4 at once
    Text { op: KernelOp(769), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_31b43cd7", deflated: part(68496, 6441), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, WGSL, 4 at once
    Text { op: KernelOp(3), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_dfc6bd29", deflated: part(74937, 1904), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, WGSL, 4 at once
    Text { op: KernelOp(259), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_9a138f26", deflated: part(76841, 1855), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, WGSL, 4 at once
    Text { op: KernelOp(515), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_eb32f39f", deflated: part(78696, 1633), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, WGSL, 4 at once
    Text { op: KernelOp(771), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_8567ac14", deflated: part(80329, 2927), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, WGSL, 4 at once
    Text { op: KernelOp(4), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "decode_n_4_dad3e83a", deflated: part(83256, 1214), buffers: BUFFERS_2, info: INFO_2, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, WGSL, 4 at once
    Text { op: KernelOp(6), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 1024, entry: "histogram_n_4_fcb4e489", deflated: part(84470, 806), buffers: BUFFERS_3, info: INFO_3, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
    // FakeQuant NearestEven, WGSL, 1 at once
    Text { op: KernelOp(1), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_e9815b57", deflated: part(85276, 3317), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, WGSL, 1 at once
    Text { op: KernelOp(257), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_9df5be2b", deflated: part(88593, 3301), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, WGSL, 1 at once
    Text { op: KernelOp(513), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_02437e95", deflated: part(91894, 3240), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, WGSL, 1 at once
    Text { op: KernelOp(769), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_c469fb04", deflated: part(95134, 4186), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, WGSL, 1 at once
    Text { op: KernelOp(3), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_78f65dd9", deflated: part(99320, 1093), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, WGSL, 1 at once
    Text { op: KernelOp(259), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_b6185a1a", deflated: part(100413, 1084), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, WGSL, 1 at once
    Text { op: KernelOp(515), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_e655416a", deflated: part(101497, 1023), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, WGSL, 1 at once
    Text { op: KernelOp(771), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_347bb534", deflated: part(102520, 1948), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, WGSL, 1 at once
    Text { op: KernelOp(4), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "decode_n_1_e0034ebc", deflated: part(104468, 798), buffers: BUFFERS_2, info: INFO_6, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, WGSL, 1 at once
    Text { op: KernelOp(6), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 1024, entry: "histogram_n_1_0bbe9e31", deflated: part(105266, 697), buffers: BUFFERS_3, info: INFO_7, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
];

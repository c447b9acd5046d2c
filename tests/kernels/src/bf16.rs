//! Kernel texts, deflated, and how to launch them. Made by `cargo xtask kernels`: not to be edited.

use altgrad_plugin_api::{
    BufferRole, DType, InfoField, InfoKind, KernelBuffer, KernelLanguage, KernelOp, MergeRule, kernel::{table::{Limit::{self, *}, Text}},
};

const DEFLATED: &[u8] = include_bytes!("bf16.deflate");

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
    Text { op: KernelOp(1), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_341271d5", deflated: part(0, 4928), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, CUDA, 4 at once
    Text { op: KernelOp(257), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_99fbf4dc", deflated: part(4928, 4833), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, CUDA, 4 at once
    Text { op: KernelOp(513), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_95bae894", deflated: part(9761, 4707), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, CUDA, 4 at once
    Text { op: KernelOp(769), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_b54c5062", deflated: part(14468, 5787), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, CUDA, 4 at once
    Text { op: KernelOp(3), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_33911e51", deflated: part(20255, 2214), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, CUDA, 4 at once
    Text { op: KernelOp(259), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_d06c1e04", deflated: part(22469, 2106), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, CUDA, 4 at once
    Text { op: KernelOp(515), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_8d96a82b", deflated: part(24575, 2019), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, CUDA, 4 at once
    Text { op: KernelOp(771), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_36a740a5", deflated: part(26594, 2870), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, CUDA, 4 at once
    Text { op: KernelOp(4), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "decode_n_4_de5b4b63", deflated: part(29464, 1228), buffers: BUFFERS_2, info: INFO_2, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, CUDA, 4 at once
    Text { op: KernelOp(6), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "histogram_n_4_6b7296cb", deflated: part(30692, 936), buffers: BUFFERS_3, info: INFO_3, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
    // FakeQuant NearestEven, CUDA, 1 at once
    Text { op: KernelOp(1), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_1958238c", deflated: part(31628, 3244), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, CUDA, 1 at once
    Text { op: KernelOp(257), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_711a0a09", deflated: part(34872, 3201), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, CUDA, 1 at once
    Text { op: KernelOp(513), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_7e088a6a", deflated: part(38073, 3204), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, CUDA, 1 at once
    Text { op: KernelOp(769), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_428c85cf", deflated: part(41277, 3835), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, CUDA, 1 at once
    Text { op: KernelOp(3), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_021fd8c8", deflated: part(45112, 1283), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, CUDA, 1 at once
    Text { op: KernelOp(259), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_f9d34f5b", deflated: part(46395, 1251), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, CUDA, 1 at once
    Text { op: KernelOp(515), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_016aa0db", deflated: part(47646, 1226), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, CUDA, 1 at once
    Text { op: KernelOp(771), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_5cc583d9", deflated: part(48872, 1827), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, CUDA, 1 at once
    Text { op: KernelOp(4), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "decode_n_1_a18cc8ea", deflated: part(50699, 854), buffers: BUFFERS_2, info: INFO_6, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, CUDA, 1 at once
    Text { op: KernelOp(6), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "histogram_n_1_c0269367", deflated: part(51553, 789), buffers: BUFFERS_3, info: INFO_7, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
    // FakeQuant NearestEven, WGSL, 4 at once
    Text { op: KernelOp(1), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_341271d5", deflated: part(52342, 5320), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, WGSL, 4 at once
    Text { op: KernelOp(257), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_99fbf4dc", deflated: part(57662, 5193), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, WGSL, 4 at once
    Text { op: KernelOp(513), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_95bae894", deflated: part(62855, 5081), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, WGSL, 4 at once
    Text { op: KernelOp(769), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_b54c5062", deflated: part(67936, 6548), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, WGSL, 4 at once
    Text { op: KernelOp(3), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_33911e51", deflated: part(74484, 1954), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, WGSL, 4 at once
    Text { op: KernelOp(259), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_d06c1e04", deflated: part(76438, 1838), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, WGSL, 4 at once
    Text { op: KernelOp(515), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_8d96a82b", deflated: part(78276, 1768), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, WGSL, 4 at once
    Text { op: KernelOp(771), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_36a740a5", deflated: part(80044, 3036), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, WGSL, 4 at once
    Text { op: KernelOp(4), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "decode_n_4_de5b4b63", deflated: part(83080, 1092), buffers: BUFFERS_2, info: INFO_2, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, WGSL, 4 at once
    Text { op: KernelOp(6), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 1024, entry: "histogram_n_4_6b7296cb", deflated: part(84172, 709), buffers: BUFFERS_3, info: INFO_3, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
    // FakeQuant NearestEven, WGSL, 1 at once
    Text { op: KernelOp(1), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_1958238c", deflated: part(84881, 3274), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, WGSL, 1 at once
    Text { op: KernelOp(257), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_711a0a09", deflated: part(88155, 3255), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, WGSL, 1 at once
    Text { op: KernelOp(513), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_7e088a6a", deflated: part(91410, 3235), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, WGSL, 1 at once
    Text { op: KernelOp(769), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_428c85cf", deflated: part(94645, 4192), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, WGSL, 1 at once
    Text { op: KernelOp(3), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_021fd8c8", deflated: part(98837, 1103), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, WGSL, 1 at once
    Text { op: KernelOp(259), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_f9d34f5b", deflated: part(99940, 1068), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, WGSL, 1 at once
    Text { op: KernelOp(515), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_016aa0db", deflated: part(101008, 1050), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, WGSL, 1 at once
    Text { op: KernelOp(771), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_5cc583d9", deflated: part(102058, 1957), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, WGSL, 1 at once
    Text { op: KernelOp(4), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "decode_n_1_a18cc8ea", deflated: part(104015, 755), buffers: BUFFERS_2, info: INFO_6, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, WGSL, 1 at once
    Text { op: KernelOp(6), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 1024, entry: "histogram_n_1_c0269367", deflated: part(104770, 601), buffers: BUFFERS_3, info: INFO_7, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
];

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
    Text { op: KernelOp(1), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_7b1ed492", deflated: part(0, 4951), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, CUDA, 4 at once
    Text { op: KernelOp(257), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_bed84ea5", deflated: part(4951, 4824), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, CUDA, 4 at once
    Text { op: KernelOp(513), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_ecb3e989", deflated: part(9775, 4710), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, CUDA, 4 at once
    Text { op: KernelOp(769), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_3079242a", deflated: part(14485, 5743), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, CUDA, 4 at once
    Text { op: KernelOp(3), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_a2f6df62", deflated: part(20228, 2160), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, CUDA, 4 at once
    Text { op: KernelOp(259), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_5e11a437", deflated: part(22388, 2078), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, CUDA, 4 at once
    Text { op: KernelOp(515), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_a56df7f9", deflated: part(24466, 1994), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, CUDA, 4 at once
    Text { op: KernelOp(771), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_9c37435d", deflated: part(26460, 2835), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, CUDA, 4 at once
    Text { op: KernelOp(4), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "decode_n_4_07977c2d", deflated: part(29295, 1543), buffers: BUFFERS_2, info: INFO_2, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, CUDA, 4 at once
    Text { op: KernelOp(6), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 1024, entry: "histogram_n_4_b50e6961", deflated: part(30838, 1174), buffers: BUFFERS_3, info: INFO_3, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
    // FakeQuant NearestEven, CUDA, 1 at once
    Text { op: KernelOp(1), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_0b265648", deflated: part(32012, 3252), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, CUDA, 1 at once
    Text { op: KernelOp(257), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_7c069daa", deflated: part(35264, 3199), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, CUDA, 1 at once
    Text { op: KernelOp(513), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_2ce007fd", deflated: part(38463, 3173), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, CUDA, 1 at once
    Text { op: KernelOp(769), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_e40e2c9a", deflated: part(41636, 3813), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, CUDA, 1 at once
    Text { op: KernelOp(3), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_7dde23b4", deflated: part(45449, 1271), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, CUDA, 1 at once
    Text { op: KernelOp(259), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_f1fe2b01", deflated: part(46720, 1245), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, CUDA, 1 at once
    Text { op: KernelOp(515), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_ef0b8d4c", deflated: part(47965, 1212), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, CUDA, 1 at once
    Text { op: KernelOp(771), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_8e32eb51", deflated: part(49177, 1821), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, CUDA, 1 at once
    Text { op: KernelOp(4), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "decode_n_1_400612c4", deflated: part(50998, 969), buffers: BUFFERS_2, info: INFO_6, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, CUDA, 1 at once
    Text { op: KernelOp(6), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 1024, entry: "histogram_n_1_996668b0", deflated: part(51967, 1026), buffers: BUFFERS_3, info: INFO_7, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
    // FakeQuant NearestEven, WGSL, 4 at once
    Text { op: KernelOp(1), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_7b1ed492", deflated: part(52993, 5295), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, WGSL, 4 at once
    Text { op: KernelOp(257), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_bed84ea5", deflated: part(58288, 5178), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, WGSL, 4 at once
    Text { op: KernelOp(513), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_ecb3e989", deflated: part(63466, 5082), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, WGSL, 4 at once
    Text { op: KernelOp(769), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 14336, entry: "fake_quant_n_4_3079242a", deflated: part(68548, 6540), buffers: BUFFERS_0, info: INFO_0, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, WGSL, 4 at once
    Text { op: KernelOp(3), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_a2f6df62", deflated: part(75088, 1910), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, WGSL, 4 at once
    Text { op: KernelOp(259), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_5e11a437", deflated: part(76998, 1806), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, WGSL, 4 at once
    Text { op: KernelOp(515), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_a56df7f9", deflated: part(78804, 1733), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, WGSL, 4 at once
    Text { op: KernelOp(771), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "encode_n_4_9c37435d", deflated: part(80537, 2981), buffers: BUFFERS_1, info: INFO_1, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, WGSL, 4 at once
    Text { op: KernelOp(4), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "decode_n_4_07977c2d", deflated: part(83518, 1373), buffers: BUFFERS_2, info: INFO_2, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, WGSL, 4 at once
    Text { op: KernelOp(6), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 1024, entry: "histogram_n_4_b50e6961", deflated: part(84891, 806), buffers: BUFFERS_3, info: INFO_3, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
    // FakeQuant NearestEven, WGSL, 1 at once
    Text { op: KernelOp(1), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_0b265648", deflated: part(85697, 3277), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant NearestAway, WGSL, 1 at once
    Text { op: KernelOp(257), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_7c069daa", deflated: part(88974, 3256), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant TowardZero, WGSL, 1 at once
    Text { op: KernelOp(513), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_2ce007fd", deflated: part(92230, 3228), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // FakeQuant Stochastic, WGSL, 1 at once
    Text { op: KernelOp(769), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 14336, entry: "fake_quant_n_1_e40e2c9a", deflated: part(95458, 4198), buffers: BUFFERS_0, info: INFO_4, limits: LIMITS_0, info_words: 7, statistics: STATISTICS_0, partial_sums: SUMS_0 },
    // Encode NearestEven, WGSL, 1 at once
    Text { op: KernelOp(3), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_7dde23b4", deflated: part(99656, 1084), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode NearestAway, WGSL, 1 at once
    Text { op: KernelOp(259), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_f1fe2b01", deflated: part(100740, 1060), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode TowardZero, WGSL, 1 at once
    Text { op: KernelOp(515), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_ef0b8d4c", deflated: part(101800, 1035), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Encode Stochastic, WGSL, 1 at once
    Text { op: KernelOp(771), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "encode_n_1_8e32eb51", deflated: part(102835, 1949), buffers: BUFFERS_1, info: INFO_5, limits: LIMITS_1, info_words: 7, statistics: STATISTICS_1, partial_sums: &[] },
    // Decode NearestEven, WGSL, 1 at once
    Text { op: KernelOp(4), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "decode_n_1_400612c4", deflated: part(104784, 851), buffers: BUFFERS_2, info: INFO_6, limits: LIMITS_2, info_words: 2, statistics: &[], partial_sums: &[] },
    // Histogram NearestEven, WGSL, 1 at once
    Text { op: KernelOp(6), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 1024, entry: "histogram_n_1_996668b0", deflated: part(105635, 697), buffers: BUFFERS_3, info: INFO_7, limits: &[], info_words: 1, statistics: &[], partial_sums: &[] },
];

//! Kernel texts, deflated, and how to launch them. Made by `cargo xtask kernels`: not to be edited.

use altgrad_plugin_api::{
    BufferRole, DType, InfoField, InfoKind, KernelBuffer, KernelLanguage, KernelOp, kernel::{table::{Text}, update},
};

const DEFLATED: &[u8] = include_bytes!("kernel_texts.deflate");

const fn part(start: usize, len: usize) -> &'static [u8] {
    DEFLATED.split_at(start).1.split_at(len).0
}

const BUFFERS_0: &[KernelBuffer] = &[
    KernelBuffer { role: BufferRole(8), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: true },
    KernelBuffer { role: BufferRole(9), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(10), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: true },
    KernelBuffer { role: BufferRole(10), index: 1, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: true },
    KernelBuffer { role: BufferRole(12), index: 0, dtype: DType { code: 1, bits: 32, lanes: 1 }, reads: true, writes: true },
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
    InfoField { offset: 28, kind: InfoKind(2), index: 7, divisor: 1 },
    InfoField { offset: 32, kind: InfoKind(2), index: 8, divisor: 1 },
    InfoField { offset: 36, kind: InfoKind(2), index: 9, divisor: 1 },
    InfoField { offset: 40, kind: InfoKind(2), index: 10, divisor: 1 },
    InfoField { offset: 44, kind: InfoKind(2), index: 11, divisor: 1 },
    InfoField { offset: 48, kind: InfoKind(2), index: 12, divisor: 1 },
    InfoField { offset: 52, kind: InfoKind(2), index: 13, divisor: 1 },
    InfoField { offset: 56, kind: InfoKind(2), index: 14, divisor: 1 },
    InfoField { offset: 60, kind: InfoKind(2), index: 15, divisor: 1 },
    InfoField { offset: 64, kind: InfoKind(2), index: 16, divisor: 1 },
    InfoField { offset: 68, kind: InfoKind(2), index: 17, divisor: 1 },
    InfoField { offset: 72, kind: InfoKind(2), index: 18, divisor: 1 },
    InfoField { offset: 76, kind: InfoKind(2), index: 19, divisor: 1 },
    InfoField { offset: 80, kind: InfoKind(2), index: 20, divisor: 1 },
    InfoField { offset: 84, kind: InfoKind(2), index: 21, divisor: 1 },
    InfoField { offset: 88, kind: InfoKind(3), index: 0, divisor: 4 },
    InfoField { offset: 92, kind: InfoKind(3), index: 1, divisor: 4 },
    InfoField { offset: 96, kind: InfoKind(3), index: 2, divisor: 4 },
    InfoField { offset: 100, kind: InfoKind(3), index: 3, divisor: 4 },
    InfoField { offset: 104, kind: InfoKind(3), index: 4, divisor: 4 },
    InfoField { offset: 108, kind: InfoKind(3), index: 5, divisor: 1 },
    InfoField { offset: 112, kind: InfoKind(3), index: 6, divisor: 1 },
];

const SUMS_0: &[(&str, i32)] = &[
    ("ulp_sum", 0),
];

const BUFFERS_1: &[KernelBuffer] = &[
    KernelBuffer { role: BufferRole(1), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(8), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(9), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(12), index: 0, dtype: DType { code: 1, bits: 32, lanes: 1 }, reads: true, writes: true },
    KernelBuffer { role: BufferRole(3), index: 0, dtype: DType { code: 1, bits: 32, lanes: 1 }, reads: true, writes: true },
    KernelBuffer { role: BufferRole(11), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: false, writes: true },
];

const INFO_1: &[InfoField] = &[
    InfoField { offset: 0, kind: InfoKind(2), index: 0, divisor: 1 },
    InfoField { offset: 4, kind: InfoKind(2), index: 1, divisor: 1 },
    InfoField { offset: 8, kind: InfoKind(2), index: 2, divisor: 1 },
    InfoField { offset: 12, kind: InfoKind(2), index: 3, divisor: 1 },
    InfoField { offset: 16, kind: InfoKind(2), index: 4, divisor: 1 },
    InfoField { offset: 20, kind: InfoKind(2), index: 5, divisor: 1 },
    InfoField { offset: 24, kind: InfoKind(2), index: 6, divisor: 1 },
    InfoField { offset: 28, kind: InfoKind(2), index: 7, divisor: 1 },
    InfoField { offset: 32, kind: InfoKind(3), index: 0, divisor: 4 },
    InfoField { offset: 36, kind: InfoKind(3), index: 1, divisor: 4 },
    InfoField { offset: 40, kind: InfoKind(3), index: 2, divisor: 4 },
    InfoField { offset: 44, kind: InfoKind(3), index: 3, divisor: 4 },
    InfoField { offset: 48, kind: InfoKind(3), index: 4, divisor: 1 },
    InfoField { offset: 52, kind: InfoKind(3), index: 5, divisor: 1 },
];

const INFO_2: &[InfoField] = &[
    InfoField { offset: 0, kind: InfoKind(2), index: 0, divisor: 1 },
    InfoField { offset: 4, kind: InfoKind(2), index: 1, divisor: 1 },
    InfoField { offset: 8, kind: InfoKind(2), index: 2, divisor: 1 },
    InfoField { offset: 12, kind: InfoKind(2), index: 3, divisor: 1 },
    InfoField { offset: 16, kind: InfoKind(2), index: 4, divisor: 1 },
    InfoField { offset: 20, kind: InfoKind(2), index: 5, divisor: 1 },
    InfoField { offset: 24, kind: InfoKind(2), index: 6, divisor: 1 },
    InfoField { offset: 28, kind: InfoKind(2), index: 7, divisor: 1 },
    InfoField { offset: 32, kind: InfoKind(2), index: 8, divisor: 1 },
    InfoField { offset: 36, kind: InfoKind(2), index: 9, divisor: 1 },
    InfoField { offset: 40, kind: InfoKind(2), index: 10, divisor: 1 },
    InfoField { offset: 44, kind: InfoKind(2), index: 11, divisor: 1 },
    InfoField { offset: 48, kind: InfoKind(2), index: 12, divisor: 1 },
    InfoField { offset: 52, kind: InfoKind(2), index: 13, divisor: 1 },
    InfoField { offset: 56, kind: InfoKind(2), index: 14, divisor: 1 },
    InfoField { offset: 60, kind: InfoKind(2), index: 15, divisor: 1 },
    InfoField { offset: 64, kind: InfoKind(2), index: 16, divisor: 1 },
    InfoField { offset: 68, kind: InfoKind(2), index: 17, divisor: 1 },
    InfoField { offset: 72, kind: InfoKind(2), index: 18, divisor: 1 },
    InfoField { offset: 76, kind: InfoKind(2), index: 19, divisor: 1 },
    InfoField { offset: 80, kind: InfoKind(2), index: 20, divisor: 1 },
    InfoField { offset: 84, kind: InfoKind(2), index: 21, divisor: 1 },
    InfoField { offset: 88, kind: InfoKind(3), index: 0, divisor: 1 },
    InfoField { offset: 92, kind: InfoKind(3), index: 1, divisor: 1 },
    InfoField { offset: 96, kind: InfoKind(3), index: 2, divisor: 1 },
    InfoField { offset: 100, kind: InfoKind(3), index: 3, divisor: 1 },
    InfoField { offset: 104, kind: InfoKind(3), index: 4, divisor: 1 },
    InfoField { offset: 108, kind: InfoKind(3), index: 5, divisor: 1 },
    InfoField { offset: 112, kind: InfoKind(3), index: 6, divisor: 1 },
];

const INFO_3: &[InfoField] = &[
    InfoField { offset: 0, kind: InfoKind(2), index: 0, divisor: 1 },
    InfoField { offset: 4, kind: InfoKind(2), index: 1, divisor: 1 },
    InfoField { offset: 8, kind: InfoKind(2), index: 2, divisor: 1 },
    InfoField { offset: 12, kind: InfoKind(2), index: 3, divisor: 1 },
    InfoField { offset: 16, kind: InfoKind(2), index: 4, divisor: 1 },
    InfoField { offset: 20, kind: InfoKind(2), index: 5, divisor: 1 },
    InfoField { offset: 24, kind: InfoKind(2), index: 6, divisor: 1 },
    InfoField { offset: 28, kind: InfoKind(2), index: 7, divisor: 1 },
    InfoField { offset: 32, kind: InfoKind(3), index: 0, divisor: 1 },
    InfoField { offset: 36, kind: InfoKind(3), index: 1, divisor: 1 },
    InfoField { offset: 40, kind: InfoKind(3), index: 2, divisor: 1 },
    InfoField { offset: 44, kind: InfoKind(3), index: 3, divisor: 1 },
    InfoField { offset: 48, kind: InfoKind(3), index: 4, divisor: 1 },
    InfoField { offset: 52, kind: InfoKind(3), index: 5, divisor: 1 },
];

pub const TEXTS: &[Text] = &[
    // Step(Plain), CUDA, 4 at once
    Text { op: KernelOp(5), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 2352, entry: "step_n_4_1868d4a3", deflated: part(0, 12558), buffers: BUFFERS_0, info: INFO_0, limits: &[], info_words: 15, statistics: update::STATISTICS, partial_sums: SUMS_0 },
    // Count, CUDA, 4 at once
    Text { op: KernelOp(8), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 2352, entry: "count_n_4_65ff776c", deflated: part(12558, 11172), buffers: BUFFERS_1, info: INFO_1, limits: &[], info_words: 7, statistics: update::STATISTICS, partial_sums: SUMS_0 },
    // Step(Plain), CUDA, 1 at once
    Text { op: KernelOp(5), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 2352, entry: "step_n_1_96fce147", deflated: part(23730, 4799), buffers: BUFFERS_0, info: INFO_2, limits: &[], info_words: 15, statistics: update::STATISTICS, partial_sums: SUMS_0 },
    // Count, CUDA, 1 at once
    Text { op: KernelOp(8), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 2352, entry: "count_n_1_d49f10ad", deflated: part(28529, 4352), buffers: BUFFERS_1, info: INFO_3, limits: &[], info_words: 7, statistics: update::STATISTICS, partial_sums: SUMS_0 },
    // Step(Plain), WGSL, 4 at once
    Text { op: KernelOp(5), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 2352, entry: "step_n_4_1868d4a3", deflated: part(32881, 11693), buffers: BUFFERS_0, info: INFO_0, limits: &[], info_words: 15, statistics: update::STATISTICS, partial_sums: SUMS_0 },
    // Count, WGSL, 4 at once
    Text { op: KernelOp(8), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 2352, entry: "count_n_4_65ff776c", deflated: part(44574, 10235), buffers: BUFFERS_1, info: INFO_1, limits: &[], info_words: 7, statistics: update::STATISTICS, partial_sums: SUMS_0 },
    // Step(Plain), WGSL, 1 at once
    Text { op: KernelOp(5), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 2352, entry: "step_n_1_96fce147", deflated: part(54809, 4344), buffers: BUFFERS_0, info: INFO_2, limits: &[], info_words: 15, statistics: update::STATISTICS, partial_sums: SUMS_0 },
    // Count, WGSL, 1 at once
    Text { op: KernelOp(8), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 2352, entry: "count_n_1_d49f10ad", deflated: part(59153, 3809), buffers: BUFFERS_1, info: INFO_3, limits: &[], info_words: 7, statistics: update::STATISTICS, partial_sums: SUMS_0 },
];

//! Kernel texts, deflated, and how to launch them. Made by `cargo xtask kernels`: not to be edited.

use altgrad_plugin_api::{
    BufferRole, DType, InfoField, InfoKind, KernelBuffer, KernelLanguage, KernelOp, kernel::table::{Text},
};

const DEFLATED: &[u8] = include_bytes!("kernel_texts.deflate");

const fn part(start: usize, len: usize) -> &'static [u8] {
    DEFLATED.split_at(start).1.split_at(len).0
}

const BUFFERS_0: &[KernelBuffer] = &[
    KernelBuffer { role: BufferRole(6), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: true },
    KernelBuffer { role: BufferRole(7), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(8), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: true },
    KernelBuffer { role: BufferRole(8), index: 1, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: true },
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
    InfoField { offset: 40, kind: InfoKind(3), index: 2, divisor: 4 },
    InfoField { offset: 44, kind: InfoKind(3), index: 3, divisor: 4 },
];

const BUFFERS_1: &[KernelBuffer] = &[
    KernelBuffer { role: BufferRole(6), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: true },
    KernelBuffer { role: BufferRole(7), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(8), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: true },
    KernelBuffer { role: BufferRole(8), index: 1, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: true },
    KernelBuffer { role: BufferRole(4), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: false },
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
    InfoField { offset: 32, kind: InfoKind(2), index: 8, divisor: 1 },
    InfoField { offset: 36, kind: InfoKind(2), index: 9, divisor: 1 },
    InfoField { offset: 40, kind: InfoKind(2), index: 10, divisor: 1 },
    InfoField { offset: 44, kind: InfoKind(2), index: 11, divisor: 1 },
    InfoField { offset: 48, kind: InfoKind(2), index: 12, divisor: 1 },
    InfoField { offset: 52, kind: InfoKind(2), index: 13, divisor: 1 },
    InfoField { offset: 56, kind: InfoKind(2), index: 14, divisor: 1 },
    InfoField { offset: 60, kind: InfoKind(2), index: 15, divisor: 1 },
    InfoField { offset: 64, kind: InfoKind(2), index: 16, divisor: 1 },
    InfoField { offset: 72, kind: InfoKind(3), index: 0, divisor: 4 },
    InfoField { offset: 76, kind: InfoKind(3), index: 1, divisor: 4 },
    InfoField { offset: 80, kind: InfoKind(3), index: 2, divisor: 4 },
    InfoField { offset: 84, kind: InfoKind(3), index: 3, divisor: 4 },
    InfoField { offset: 88, kind: InfoKind(3), index: 4, divisor: 1 },
];

const BUFFERS_2: &[KernelBuffer] = &[
    KernelBuffer { role: BufferRole(6), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: true },
    KernelBuffer { role: BufferRole(7), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(8), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: true },
    KernelBuffer { role: BufferRole(8), index: 1, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: true },
    KernelBuffer { role: BufferRole(4), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(9), index: 0, dtype: DType { code: 1, bits: 32, lanes: 1 }, reads: true, writes: false },
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
    InfoField { offset: 72, kind: InfoKind(3), index: 0, divisor: 4 },
    InfoField { offset: 76, kind: InfoKind(3), index: 1, divisor: 4 },
    InfoField { offset: 80, kind: InfoKind(3), index: 2, divisor: 4 },
    InfoField { offset: 84, kind: InfoKind(3), index: 3, divisor: 4 },
    InfoField { offset: 88, kind: InfoKind(3), index: 4, divisor: 1 },
    InfoField { offset: 92, kind: InfoKind(3), index: 5, divisor: 1 },
];

const BUFFERS_3: &[KernelBuffer] = &[
    KernelBuffer { role: BufferRole(6), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(4), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(9), index: 0, dtype: DType { code: 1, bits: 32, lanes: 1 }, reads: true, writes: true },
];

const INFO_3: &[InfoField] = &[
    InfoField { offset: 0, kind: InfoKind(2), index: 0, divisor: 1 },
    InfoField { offset: 4, kind: InfoKind(2), index: 1, divisor: 1 },
    InfoField { offset: 8, kind: InfoKind(2), index: 2, divisor: 1 },
    InfoField { offset: 12, kind: InfoKind(2), index: 3, divisor: 1 },
    InfoField { offset: 16, kind: InfoKind(2), index: 4, divisor: 1 },
    InfoField { offset: 24, kind: InfoKind(3), index: 0, divisor: 4 },
    InfoField { offset: 28, kind: InfoKind(3), index: 1, divisor: 1 },
    InfoField { offset: 32, kind: InfoKind(3), index: 2, divisor: 1 },
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
];

const INFO_5: &[InfoField] = &[
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
    InfoField { offset: 72, kind: InfoKind(3), index: 0, divisor: 1 },
    InfoField { offset: 76, kind: InfoKind(3), index: 1, divisor: 1 },
    InfoField { offset: 80, kind: InfoKind(3), index: 2, divisor: 1 },
    InfoField { offset: 84, kind: InfoKind(3), index: 3, divisor: 1 },
    InfoField { offset: 88, kind: InfoKind(3), index: 4, divisor: 1 },
];

const INFO_6: &[InfoField] = &[
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
    InfoField { offset: 72, kind: InfoKind(3), index: 0, divisor: 1 },
    InfoField { offset: 76, kind: InfoKind(3), index: 1, divisor: 1 },
    InfoField { offset: 80, kind: InfoKind(3), index: 2, divisor: 1 },
    InfoField { offset: 84, kind: InfoKind(3), index: 3, divisor: 1 },
    InfoField { offset: 88, kind: InfoKind(3), index: 4, divisor: 1 },
    InfoField { offset: 92, kind: InfoKind(3), index: 5, divisor: 1 },
];

const INFO_7: &[InfoField] = &[
    InfoField { offset: 0, kind: InfoKind(2), index: 0, divisor: 1 },
    InfoField { offset: 4, kind: InfoKind(2), index: 1, divisor: 1 },
    InfoField { offset: 8, kind: InfoKind(2), index: 2, divisor: 1 },
    InfoField { offset: 12, kind: InfoKind(2), index: 3, divisor: 1 },
    InfoField { offset: 16, kind: InfoKind(2), index: 4, divisor: 1 },
    InfoField { offset: 24, kind: InfoKind(3), index: 0, divisor: 1 },
    InfoField { offset: 28, kind: InfoKind(3), index: 1, divisor: 1 },
    InfoField { offset: 32, kind: InfoKind(3), index: 2, divisor: 1 },
];

pub const TEXTS: &[Text] = &[
    // Step(Plain), CUDA, 4 at once
    Text { op: KernelOp(2), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "plain_step_n_4_e5c8234a", deflated: part(0, 2409), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 6, statistics: &[], partial_sums: &[] },
    // Step(Steps), CUDA, 4 at once
    Text { op: KernelOp(65538), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_e5493aa7", deflated: part(2409, 3567), buffers: BUFFERS_1, info: INFO_1, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(Gradients), CUDA, 4 at once
    Text { op: KernelOp(131074), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_c9bf6b33", deflated: part(5976, 3555), buffers: BUFFERS_1, info: INFO_1, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(Power), CUDA, 4 at once
    Text { op: KernelOp(196610), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "power_step_n_4_97b4dfdc", deflated: part(9531, 5959), buffers: BUFFERS_2, info: INFO_2, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Prepare, CUDA, 4 at once
    Text { op: KernelOp(3), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 8, entry: "prepare_n_4_58f148b8", deflated: part(15490, 2147), buffers: BUFFERS_3, info: INFO_3, constants: &[], info_words: 5, statistics: &[], partial_sums: &[] },
    // Step(Plain), CUDA, 1 at once
    Text { op: KernelOp(2), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "plain_step_n_1_0105ef22", deflated: part(17637, 1255), buffers: BUFFERS_0, info: INFO_4, constants: &[], info_words: 6, statistics: &[], partial_sums: &[] },
    // Step(Steps), CUDA, 1 at once
    Text { op: KernelOp(65538), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_4adfdd4c", deflated: part(18892, 1638), buffers: BUFFERS_1, info: INFO_5, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(Gradients), CUDA, 1 at once
    Text { op: KernelOp(131074), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_bb524b53", deflated: part(20530, 1640), buffers: BUFFERS_1, info: INFO_5, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(Power), CUDA, 1 at once
    Text { op: KernelOp(196610), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "power_step_n_1_8f96cd0f", deflated: part(22170, 2627), buffers: BUFFERS_2, info: INFO_6, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Prepare, CUDA, 1 at once
    Text { op: KernelOp(3), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 8, entry: "prepare_n_1_20fc7c32", deflated: part(24797, 1406), buffers: BUFFERS_3, info: INFO_7, constants: &[], info_words: 5, statistics: &[], partial_sums: &[] },
    // Step(Plain), WGSL, 4 at once
    Text { op: KernelOp(2), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "plain_step_n_4_e5c8234a", deflated: part(26203, 2374), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 6, statistics: &[], partial_sums: &[] },
    // Step(Steps), WGSL, 4 at once
    Text { op: KernelOp(65538), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_e5493aa7", deflated: part(28577, 3807), buffers: BUFFERS_1, info: INFO_1, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(Gradients), WGSL, 4 at once
    Text { op: KernelOp(131074), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_c9bf6b33", deflated: part(32384, 3799), buffers: BUFFERS_1, info: INFO_1, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(Power), WGSL, 4 at once
    Text { op: KernelOp(196610), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "power_step_n_4_97b4dfdc", deflated: part(36183, 6219), buffers: BUFFERS_2, info: INFO_2, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Prepare, WGSL, 4 at once
    Text { op: KernelOp(3), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 8, entry: "prepare_n_4_58f148b8", deflated: part(42402, 1908), buffers: BUFFERS_3, info: INFO_3, constants: &[], info_words: 5, statistics: &[], partial_sums: &[] },
    // Step(Plain), WGSL, 1 at once
    Text { op: KernelOp(2), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "plain_step_n_1_0105ef22", deflated: part(44310, 1222), buffers: BUFFERS_0, info: INFO_4, constants: &[], info_words: 6, statistics: &[], partial_sums: &[] },
    // Step(Steps), WGSL, 1 at once
    Text { op: KernelOp(65538), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_4adfdd4c", deflated: part(45532, 1655), buffers: BUFFERS_1, info: INFO_5, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(Gradients), WGSL, 1 at once
    Text { op: KernelOp(131074), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_bb524b53", deflated: part(47187, 1656), buffers: BUFFERS_1, info: INFO_5, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(Power), WGSL, 1 at once
    Text { op: KernelOp(196610), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "power_step_n_1_8f96cd0f", deflated: part(48843, 2692), buffers: BUFFERS_2, info: INFO_6, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Prepare, WGSL, 1 at once
    Text { op: KernelOp(3), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 8, entry: "prepare_n_1_20fc7c32", deflated: part(51535, 1127), buffers: BUFFERS_3, info: INFO_7, constants: &[], info_words: 5, statistics: &[], partial_sums: &[] },
];

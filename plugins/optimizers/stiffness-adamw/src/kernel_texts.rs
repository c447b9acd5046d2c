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
    InfoField { offset: 28, kind: InfoKind(2), index: 7, divisor: 1 },
    InfoField { offset: 32, kind: InfoKind(2), index: 8, divisor: 1 },
    InfoField { offset: 36, kind: InfoKind(2), index: 9, divisor: 1 },
    InfoField { offset: 40, kind: InfoKind(2), index: 10, divisor: 1 },
    InfoField { offset: 44, kind: InfoKind(2), index: 11, divisor: 1 },
    InfoField { offset: 48, kind: InfoKind(2), index: 12, divisor: 1 },
    InfoField { offset: 52, kind: InfoKind(2), index: 13, divisor: 1 },
    InfoField { offset: 56, kind: InfoKind(3), index: 0, divisor: 4 },
    InfoField { offset: 60, kind: InfoKind(3), index: 1, divisor: 4 },
    InfoField { offset: 64, kind: InfoKind(3), index: 2, divisor: 4 },
    InfoField { offset: 68, kind: InfoKind(3), index: 3, divisor: 4 },
];

const BUFFERS_1: &[KernelBuffer] = &[
    KernelBuffer { role: BufferRole(6), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: true },
    KernelBuffer { role: BufferRole(7), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(8), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: true },
    KernelBuffer { role: BufferRole(8), index: 1, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: true },
    KernelBuffer { role: BufferRole(9), index: 0, dtype: DType { code: 1, bits: 32, lanes: 1 }, reads: true, writes: false },
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
    InfoField { offset: 56, kind: InfoKind(3), index: 0, divisor: 4 },
    InfoField { offset: 60, kind: InfoKind(3), index: 1, divisor: 4 },
    InfoField { offset: 64, kind: InfoKind(3), index: 2, divisor: 4 },
    InfoField { offset: 68, kind: InfoKind(3), index: 3, divisor: 4 },
    InfoField { offset: 72, kind: InfoKind(3), index: 4, divisor: 1 },
];

const BUFFERS_2: &[KernelBuffer] = &[
    KernelBuffer { role: BufferRole(6), index: 0, dtype: DType { code: 2, bits: 32, lanes: 1 }, reads: true, writes: false },
    KernelBuffer { role: BufferRole(9), index: 0, dtype: DType { code: 1, bits: 32, lanes: 1 }, reads: true, writes: true },
];

const INFO_2: &[InfoField] = &[
    InfoField { offset: 0, kind: InfoKind(2), index: 0, divisor: 1 },
    InfoField { offset: 4, kind: InfoKind(2), index: 1, divisor: 1 },
    InfoField { offset: 8, kind: InfoKind(3), index: 0, divisor: 4 },
    InfoField { offset: 12, kind: InfoKind(3), index: 1, divisor: 1 },
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
    InfoField { offset: 32, kind: InfoKind(2), index: 8, divisor: 1 },
    InfoField { offset: 36, kind: InfoKind(2), index: 9, divisor: 1 },
    InfoField { offset: 40, kind: InfoKind(2), index: 10, divisor: 1 },
    InfoField { offset: 44, kind: InfoKind(2), index: 11, divisor: 1 },
    InfoField { offset: 48, kind: InfoKind(2), index: 12, divisor: 1 },
    InfoField { offset: 52, kind: InfoKind(2), index: 13, divisor: 1 },
    InfoField { offset: 56, kind: InfoKind(3), index: 0, divisor: 1 },
    InfoField { offset: 60, kind: InfoKind(3), index: 1, divisor: 1 },
    InfoField { offset: 64, kind: InfoKind(3), index: 2, divisor: 1 },
    InfoField { offset: 68, kind: InfoKind(3), index: 3, divisor: 1 },
];

const INFO_4: &[InfoField] = &[
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
    InfoField { offset: 56, kind: InfoKind(3), index: 0, divisor: 1 },
    InfoField { offset: 60, kind: InfoKind(3), index: 1, divisor: 1 },
    InfoField { offset: 64, kind: InfoKind(3), index: 2, divisor: 1 },
    InfoField { offset: 68, kind: InfoKind(3), index: 3, divisor: 1 },
    InfoField { offset: 72, kind: InfoKind(3), index: 4, divisor: 1 },
];

const INFO_5: &[InfoField] = &[
    InfoField { offset: 0, kind: InfoKind(2), index: 0, divisor: 1 },
    InfoField { offset: 4, kind: InfoKind(2), index: 1, divisor: 1 },
    InfoField { offset: 8, kind: InfoKind(3), index: 0, divisor: 1 },
    InfoField { offset: 12, kind: InfoKind(3), index: 1, divisor: 1 },
];

pub const TEXTS: &[Text] = &[
    // Step(Plain), CUDA, 4 at once
    Text { op: KernelOp(2), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_ebefd6dd", deflated: part(0, 2408), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Steps), CUDA, 4 at once
    Text { op: KernelOp(65538), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_ea3f8095", deflated: part(2408, 2770), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Gradients), CUDA, 4 at once
    Text { op: KernelOp(131074), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_02aedb52", deflated: part(5178, 2772), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Power), CUDA, 4 at once
    Text { op: KernelOp(196610), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "power_step_n_4_70829ca6", deflated: part(7950, 4266), buffers: BUFFERS_1, info: INFO_1, constants: &[], info_words: 10, statistics: &[], partial_sums: &[] },
    // Prepare, CUDA, 4 at once
    Text { op: KernelOp(3), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 8, entry: "prepare_n_4_9d4ec2ea", deflated: part(12216, 1544), buffers: BUFFERS_2, info: INFO_2, constants: &[], info_words: 2, statistics: &[], partial_sums: &[] },
    // Step(Plain), CUDA, 1 at once
    Text { op: KernelOp(2), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_855598eb", deflated: part(13760, 1261), buffers: BUFFERS_0, info: INFO_3, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Steps), CUDA, 1 at once
    Text { op: KernelOp(65538), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_befbf78a", deflated: part(15021, 1407), buffers: BUFFERS_0, info: INFO_3, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Gradients), CUDA, 1 at once
    Text { op: KernelOp(131074), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_7d4923b2", deflated: part(16428, 1410), buffers: BUFFERS_0, info: INFO_3, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Power), CUDA, 1 at once
    Text { op: KernelOp(196610), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "power_step_n_1_cf59ae6f", deflated: part(17838, 2013), buffers: BUFFERS_1, info: INFO_4, constants: &[], info_words: 10, statistics: &[], partial_sums: &[] },
    // Prepare, CUDA, 1 at once
    Text { op: KernelOp(3), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 8, entry: "prepare_n_1_a4f23185", deflated: part(19851, 1236), buffers: BUFFERS_2, info: INFO_5, constants: &[], info_words: 2, statistics: &[], partial_sums: &[] },
    // Step(Plain), WGSL, 4 at once
    Text { op: KernelOp(2), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_ebefd6dd", deflated: part(21087, 2379), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Steps), WGSL, 4 at once
    Text { op: KernelOp(65538), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_ea3f8095", deflated: part(23466, 2720), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Gradients), WGSL, 4 at once
    Text { op: KernelOp(131074), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_02aedb52", deflated: part(26186, 2717), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Power), WGSL, 4 at once
    Text { op: KernelOp(196610), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "power_step_n_4_70829ca6", deflated: part(28903, 4138), buffers: BUFFERS_1, info: INFO_1, constants: &[], info_words: 10, statistics: &[], partial_sums: &[] },
    // Prepare, WGSL, 4 at once
    Text { op: KernelOp(3), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 8, entry: "prepare_n_4_9d4ec2ea", deflated: part(33041, 1168), buffers: BUFFERS_2, info: INFO_2, constants: &[], info_words: 2, statistics: &[], partial_sums: &[] },
    // Step(Plain), WGSL, 1 at once
    Text { op: KernelOp(2), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_855598eb", deflated: part(34209, 1218), buffers: BUFFERS_0, info: INFO_3, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Steps), WGSL, 1 at once
    Text { op: KernelOp(65538), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_befbf78a", deflated: part(35427, 1362), buffers: BUFFERS_0, info: INFO_3, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Gradients), WGSL, 1 at once
    Text { op: KernelOp(131074), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_7d4923b2", deflated: part(36789, 1360), buffers: BUFFERS_0, info: INFO_3, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Power), WGSL, 1 at once
    Text { op: KernelOp(196610), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "power_step_n_1_cf59ae6f", deflated: part(38149, 1958), buffers: BUFFERS_1, info: INFO_4, constants: &[], info_words: 10, statistics: &[], partial_sums: &[] },
    // Prepare, WGSL, 1 at once
    Text { op: KernelOp(3), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 8, entry: "prepare_n_1_a4f23185", deflated: part(40107, 908), buffers: BUFFERS_2, info: INFO_5, constants: &[], info_words: 2, statistics: &[], partial_sums: &[] },
];

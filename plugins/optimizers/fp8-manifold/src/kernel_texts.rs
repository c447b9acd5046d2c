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
    InfoField { offset: 56, kind: InfoKind(3), index: 0, divisor: 1 },
    InfoField { offset: 60, kind: InfoKind(3), index: 1, divisor: 1 },
    InfoField { offset: 64, kind: InfoKind(3), index: 2, divisor: 1 },
    InfoField { offset: 68, kind: InfoKind(3), index: 3, divisor: 1 },
];

pub const TEXTS: &[Text] = &[
    // Step(Plain), CUDA, 4 at once
    Text { op: KernelOp(2), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_ebefd6dd", deflated: part(0, 2408), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Exp), CUDA, 4 at once
    Text { op: KernelOp(262146), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_c3e0bb1d", deflated: part(2408, 5662), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Linear), CUDA, 4 at once
    Text { op: KernelOp(327682), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_fc91cfc0", deflated: part(8070, 3619), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(SmoothExp), CUDA, 4 at once
    Text { op: KernelOp(393218), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_a205d1c9", deflated: part(11689, 5007), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(SmoothLinear), CUDA, 4 at once
    Text { op: KernelOp(458754), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_2b908b68", deflated: part(16696, 3569), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Plain), CUDA, 1 at once
    Text { op: KernelOp(2), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_855598eb", deflated: part(20265, 1261), buffers: BUFFERS_0, info: INFO_1, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Exp), CUDA, 1 at once
    Text { op: KernelOp(262146), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_004ac763", deflated: part(21526, 2390), buffers: BUFFERS_0, info: INFO_1, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Linear), CUDA, 1 at once
    Text { op: KernelOp(327682), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_52c1dac9", deflated: part(23916, 1645), buffers: BUFFERS_0, info: INFO_1, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(SmoothExp), CUDA, 1 at once
    Text { op: KernelOp(393218), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_32b24888", deflated: part(25561, 2077), buffers: BUFFERS_0, info: INFO_1, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(SmoothLinear), CUDA, 1 at once
    Text { op: KernelOp(458754), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_22fd8d87", deflated: part(27638, 1625), buffers: BUFFERS_0, info: INFO_1, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Plain), WGSL, 4 at once
    Text { op: KernelOp(2), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_ebefd6dd", deflated: part(29263, 2379), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Exp), WGSL, 4 at once
    Text { op: KernelOp(262146), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_c3e0bb1d", deflated: part(31642, 5372), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Linear), WGSL, 4 at once
    Text { op: KernelOp(327682), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_fc91cfc0", deflated: part(37014, 3513), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(SmoothExp), WGSL, 4 at once
    Text { op: KernelOp(393218), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_a205d1c9", deflated: part(40527, 4851), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(SmoothLinear), WGSL, 4 at once
    Text { op: KernelOp(458754), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_2b908b68", deflated: part(45378, 3479), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Plain), WGSL, 1 at once
    Text { op: KernelOp(2), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_855598eb", deflated: part(48857, 1218), buffers: BUFFERS_0, info: INFO_1, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Exp), WGSL, 1 at once
    Text { op: KernelOp(262146), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_004ac763", deflated: part(50075, 2227), buffers: BUFFERS_0, info: INFO_1, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(Linear), WGSL, 1 at once
    Text { op: KernelOp(327682), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_52c1dac9", deflated: part(52302, 1559), buffers: BUFFERS_0, info: INFO_1, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(SmoothExp), WGSL, 1 at once
    Text { op: KernelOp(393218), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_32b24888", deflated: part(53861, 2007), buffers: BUFFERS_0, info: INFO_1, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
    // Step(SmoothLinear), WGSL, 1 at once
    Text { op: KernelOp(458754), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_22fd8d87", deflated: part(55868, 1547), buffers: BUFFERS_0, info: INFO_1, constants: &[], info_words: 9, statistics: &[], partial_sums: &[] },
];

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

const INFO_2: &[InfoField] = &[
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
    InfoField { offset: 56, kind: InfoKind(2), index: 14, divisor: 1 },
    InfoField { offset: 60, kind: InfoKind(2), index: 15, divisor: 1 },
    InfoField { offset: 64, kind: InfoKind(2), index: 16, divisor: 1 },
    InfoField { offset: 72, kind: InfoKind(3), index: 0, divisor: 1 },
    InfoField { offset: 76, kind: InfoKind(3), index: 1, divisor: 1 },
    InfoField { offset: 80, kind: InfoKind(3), index: 2, divisor: 1 },
    InfoField { offset: 84, kind: InfoKind(3), index: 3, divisor: 1 },
    InfoField { offset: 88, kind: InfoKind(3), index: 4, divisor: 1 },
];

pub const TEXTS: &[Text] = &[
    // Step(Plain), CUDA, 4 at once
    Text { op: KernelOp(2), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "plain_step_n_4_cd300675", deflated: part(0, 2410), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 6, statistics: &[], partial_sums: &[] },
    // Step(Exp), CUDA, 4 at once
    Text { op: KernelOp(262146), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_4233a6ac", deflated: part(2410, 6549), buffers: BUFFERS_1, info: INFO_1, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(Linear), CUDA, 4 at once
    Text { op: KernelOp(327682), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_9fd52746", deflated: part(8959, 4538), buffers: BUFFERS_1, info: INFO_1, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(SmoothExp), CUDA, 4 at once
    Text { op: KernelOp(393218), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_1dd490ad", deflated: part(13497, 6117), buffers: BUFFERS_1, info: INFO_1, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(SmoothLinear), CUDA, 4 at once
    Text { op: KernelOp(458754), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_020b5d87", deflated: part(19614, 4769), buffers: BUFFERS_1, info: INFO_1, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(Plain), CUDA, 1 at once
    Text { op: KernelOp(2), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "plain_step_n_1_fcdb08e6", deflated: part(24383, 1256), buffers: BUFFERS_0, info: INFO_2, constants: &[], info_words: 6, statistics: &[], partial_sums: &[] },
    // Step(Exp), CUDA, 1 at once
    Text { op: KernelOp(262146), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_492c7a76", deflated: part(25639, 2596), buffers: BUFFERS_1, info: INFO_3, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(Linear), CUDA, 1 at once
    Text { op: KernelOp(327682), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_1c271be0", deflated: part(28235, 1897), buffers: BUFFERS_1, info: INFO_3, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(SmoothExp), CUDA, 1 at once
    Text { op: KernelOp(393218), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_7e66c8e6", deflated: part(30132, 2377), buffers: BUFFERS_1, info: INFO_3, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(SmoothLinear), CUDA, 1 at once
    Text { op: KernelOp(458754), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_cb9e1d32", deflated: part(32509, 1936), buffers: BUFFERS_1, info: INFO_3, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(Plain), WGSL, 4 at once
    Text { op: KernelOp(2), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "plain_step_n_4_cd300675", deflated: part(34445, 2375), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 6, statistics: &[], partial_sums: &[] },
    // Step(Exp), WGSL, 4 at once
    Text { op: KernelOp(262146), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_4233a6ac", deflated: part(36820, 6541), buffers: BUFFERS_1, info: INFO_1, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(Linear), WGSL, 4 at once
    Text { op: KernelOp(327682), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_9fd52746", deflated: part(43361, 4753), buffers: BUFFERS_1, info: INFO_1, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(SmoothExp), WGSL, 4 at once
    Text { op: KernelOp(393218), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_1dd490ad", deflated: part(48114, 6273), buffers: BUFFERS_1, info: INFO_1, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(SmoothLinear), WGSL, 4 at once
    Text { op: KernelOp(458754), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "step_n_4_020b5d87", deflated: part(54387, 4962), buffers: BUFFERS_1, info: INFO_1, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(Plain), WGSL, 1 at once
    Text { op: KernelOp(2), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "plain_step_n_1_fcdb08e6", deflated: part(59349, 1224), buffers: BUFFERS_0, info: INFO_2, constants: &[], info_words: 6, statistics: &[], partial_sums: &[] },
    // Step(Exp), WGSL, 1 at once
    Text { op: KernelOp(262146), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_492c7a76", deflated: part(60573, 2504), buffers: BUFFERS_1, info: INFO_3, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(Linear), WGSL, 1 at once
    Text { op: KernelOp(327682), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_1c271be0", deflated: part(63077, 1873), buffers: BUFFERS_1, info: INFO_3, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(SmoothExp), WGSL, 1 at once
    Text { op: KernelOp(393218), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_7e66c8e6", deflated: part(64950, 2387), buffers: BUFFERS_1, info: INFO_3, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
    // Step(SmoothLinear), WGSL, 1 at once
    Text { op: KernelOp(458754), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "step_n_1_cb9e1d32", deflated: part(67337, 1932), buffers: BUFFERS_1, info: INFO_3, constants: &[], info_words: 12, statistics: &[], partial_sums: &[] },
];

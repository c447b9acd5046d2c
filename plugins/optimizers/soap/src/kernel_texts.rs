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

const INFO_1: &[InfoField] = &[
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

pub const TEXTS: &[Text] = &[
    // Step(Plain), CUDA, 4 at once
    Text { op: KernelOp(2), language: KernelLanguage::CUDA, vector: 4, units: 256, shared_bytes: 0, entry: "plain_step_n_4_e5c8234a", deflated: part(0, 2409), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 6, statistics: &[], partial_sums: &[] },
    // Step(Plain), CUDA, 1 at once
    Text { op: KernelOp(2), language: KernelLanguage::CUDA, vector: 1, units: 256, shared_bytes: 0, entry: "plain_step_n_1_0105ef22", deflated: part(2409, 1255), buffers: BUFFERS_0, info: INFO_1, constants: &[], info_words: 6, statistics: &[], partial_sums: &[] },
    // Step(Plain), WGSL, 4 at once
    Text { op: KernelOp(2), language: KernelLanguage::WGSL, vector: 4, units: 256, shared_bytes: 0, entry: "plain_step_n_4_e5c8234a", deflated: part(3664, 2374), buffers: BUFFERS_0, info: INFO_0, constants: &[], info_words: 6, statistics: &[], partial_sums: &[] },
    // Step(Plain), WGSL, 1 at once
    Text { op: KernelOp(2), language: KernelLanguage::WGSL, vector: 1, units: 256, shared_bytes: 0, entry: "plain_step_n_1_0105ef22", deflated: part(6038, 1222), buffers: BUFFERS_0, info: INFO_1, constants: &[], info_words: 6, statistics: &[], partial_sums: &[] },
];

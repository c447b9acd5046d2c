//! Limits of plugins' kernel texts, from the contract in [`altgrad_plugin_api::kernel`].

use altgrad_plugin_api::{ErrorKind, KernelLanguage, PluginError};

/// Most elements of a buffer.
const MOST_ELEMENTS: usize = (1 << 31) - 1;
/// Shared memory that a text in CUDA C++ can declare: more must be requested at the launch.
const CUDA_SHARED_BYTES: u32 = 48 << 10;

/// The number of elements of a kernel's buffer, if a text accepts so many.
///
/// # Errors
/// `UNSUPPORTED`: there are more.
pub(crate) fn accepted(kernel: &str, elements: usize) -> Result<u64, PluginError> {
    if elements > MOST_ELEMENTS {
        let message = format!("kernel `{kernel}`: a buffer has {elements} elements, {MOST_ELEMENTS} fit");
        return Err(PluginError::new(ErrorKind::UNSUPPORTED, message));
    }
    Ok(elements as u64)
}

/// Shared memory that a text can declare on a device that has `bytes`.
pub(crate) fn declarable(language: KernelLanguage, bytes: u32) -> u32 {
    if language == KernelLanguage::CUDA { bytes.min(CUDA_SHARED_BYTES) } else { bytes }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_beyond_the_contract_is_refused() {
        assert_eq!(accepted("entry", (1 << 31) - 1).unwrap(), (1 << 31) - 1);
        assert_eq!(accepted("entry", 1 << 31).unwrap_err().kind, ErrorKind::UNSUPPORTED);
    }

    #[test]
    fn cuda_declares_48_kib_whatever_it_may_request() {
        assert_eq!(declarable(KernelLanguage::CUDA, 227 << 10), 48 << 10);
        assert_eq!(declarable(KernelLanguage::WGSL, 64 << 10), 64 << 10);
    }
}

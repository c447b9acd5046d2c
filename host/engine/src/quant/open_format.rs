//! Opening a format on a device, with a trial of its kernels.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::FormatPlugin;
use altgrad_plugin_api::Rounding;

use super::DeviceFormat;
use crate::device::ComputeDevice;

impl DeviceFormat {
    /// The format on a device, for some rounding modes. On a GPU its kernels for them are compiled and tested here, so
    /// that a text that the device refuses is an error before the first step. Without kernels of its own, the host's
    /// search among its values rounds where it gives the same.
    ///
    /// # Errors
    /// [`Fault::Plugin`](altgrad_base::diagnostic::Fault::Plugin): the plugin refuses its kernels, or the device does.
    pub fn new(
        plugin: Arc<FormatPlugin>,
        device: &ComputeDevice,
        modes: &[Rounding],
    ) -> Result<Arc<Self>, Diagnostic> {
        let format = Arc::new(Self::untested(plugin, device)?);
        #[cfg(feature = "gpu")]
        if let Err(error) = super::gpu::try_kernels(&format, device, modes) {
            if format.kernels().is_none_or(|kernels| kernels.texts().is_some()) {
                return Err(error);
            }
            tracing::warn!("{}; its tensors go through main memory", error.message);
            return Self::on_host(format.plugin_handle(), device).map(Arc::new);
        }
        #[cfg(not(feature = "gpu"))]
        let _ = modes;
        Ok(format)
    }
}

//! What an optimizer brings for devices: texts, and which of them an update launches.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::{
    FormatSpec, KernelOp, KernelTarget, KernelText, Launch, ParamInfo, PluginError, StepScalars,
    abi::abi_stable::std_types::{ROption, RSlice},
};

use super::OptimizerPlugin;
impl OptimizerPlugin {
    /// The text of a device kernel; see [`altgrad_plugin_api::Optimizer::kernel`].
    ///
    /// # Errors
    /// The plugin's.
    pub fn kernel(&self, op: KernelOp, target: &KernelTarget) -> Result<Option<KernelText>, PluginError> {
        self.object.kernel(op, target).into_result().map(Into::into)
    }

    /// The launches of an update; see [`altgrad_plugin_api::Optimizer::launches`].
    ///
    /// # Errors
    /// [`Fault::Run`]: the plugin failed.
    pub fn launches(
        &self,
        name: &str,
        shape: &[u64],
        scalars: StepScalars,
        grid: Option<(&FormatSpec, f32)>,
    ) -> Result<Option<Vec<Launch>>, Diagnostic> {
        let info = ParamInfo { name: name.into(), shape: RSlice::from_slice(shape) };
        let (spec, scale) = (ROption::from(grid.map(|(spec, _)| spec)), grid.map_or(1.0, |(_, scale)| scale));
        let launches = self.identity.run_failure(self.object.launches(&info, scalars, spec, scale))?;
        Ok(launches.into_option().map(Into::into))
    }
}

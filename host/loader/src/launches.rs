//! An optimizer's kernels for devices: texts, and the launches of an update.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::{
    Grid, KernelOp, KernelTarget, KernelText, Launch, ParamInfo, PluginError, StepScalars,
};

use super::{OptimizerPlugin, calls::Call};
impl OptimizerPlugin {
    /// The text of a device kernel; see [`altgrad_plugin_api::Optimizer::kernel`].
    ///
    /// # Errors
    /// The plugin's error.
    pub fn kernel(&self, op: KernelOp, target: &KernelTarget) -> Result<Option<KernelText>, PluginError> {
        self.object.call(Call::Kernel, |object| object.kernel(op, target)).into_result().map(Into::into)
    }

    /// The launches of an update; see [`altgrad_plugin_api::Optimizer::launches`].
    ///
    /// # Errors
    /// `Fault::Run`: the plugin failed.
    pub fn launches(
        &self,
        param: &ParamInfo<'_>,
        scalars: StepScalars,
        grid: Option<Grid<'_>>,
    ) -> Result<Option<Vec<Launch>>, Diagnostic> {
        let launches =
            self.object.call(Call::Launches, |object| object.launches(param, scalars, grid.into()));
        Ok(self.identity.run_failure(launches)?.into_option().map(Into::into))
    }
}

//! Built with `panic = "abort"`, no guard of the boundary works.

use altgrad_plugin_api::{Config, Descriptor, Optimizer, ParamInfo, PluginError, StateSpec, Step};

struct Nothing;

impl Optimizer for Nothing {
    const DESCRIPTOR: Descriptor =
        Descriptor::optimizer("nothing", "1.0.0", "Leaves parameters as they are");

    fn new(_: &Config) -> Result<Self, PluginError> {
        Ok(Self)
    }
    fn states(&self, _: &ParamInfo<'_>) -> Vec<StateSpec> {
        Vec::new()
    }
    fn step(&self, _: Step<'_>) -> Result<(), PluginError> {
        Ok(())
    }
}

altgrad_plugin_api::export_plugin!(optimizer Nothing);

fn main() {}

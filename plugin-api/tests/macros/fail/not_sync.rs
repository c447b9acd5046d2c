//! An optimizer that threads cannot share.

use std::rc::Rc;

use altgrad_plugin_api::{Config, Descriptor, Optimizer, ParamInfo, PluginError, StateSpec, Step};

struct Counted(#[allow(dead_code)] Rc<u64>);

impl Optimizer for Counted {
    const DESCRIPTOR: Descriptor =
        Descriptor::optimizer("nothing", "1.0.0", "Leaves parameters as they are");

    fn new(_: &Config) -> Result<Self, PluginError> {
        Ok(Self(Rc::new(0)))
    }
    fn states(&self, _: &ParamInfo<'_>) -> Vec<StateSpec> {
        Vec::new()
    }
    fn step(&self, _: Step<'_>) -> Result<(), PluginError> {
        Ok(())
    }
}

altgrad_plugin_api::export_plugin!(optimizer Counted);

fn main() {}

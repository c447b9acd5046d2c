//! The instances of a run's optimizer: one for all parameters, and one more a group with options of its own.

use altgrad_loader::{OptimizerPlugin, instance::Identity};

use crate::model::{Layout, layout::ParamId};

/// The instances of a run's optimizer, and which of them updates a parameter.
pub struct OptimizerGroups {
    plugins: Vec<OptimizerPlugin>,
    /// By parameter: the instance, and what the learning rate is multiplied by.
    of: Vec<(usize, f64)>,
}

impl OptimizerGroups {
    /// One instance for all parameters.
    #[must_use]
    pub fn one(plugin: OptimizerPlugin, layout: &Layout) -> Self {
        Self { plugins: vec![plugin], of: vec![(0, 1.0); layout.specs.len()] }
    }

    /// Another instance for some parameters.
    pub fn add(&mut self, plugin: OptimizerPlugin, lr_scale: f64, members: &[ParamId]) {
        self.plugins.push(plugin);
        for &id in members {
            self.of[id] = (self.plugins.len() - 1, lr_scale);
        }
    }

    /// What the optimizer is called and where it comes from.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.plugins[0].identity
    }

    /// Which instance updates a parameter, the instance, and what the learning rate is multiplied by.
    pub(super) fn of(&self, id: ParamId) -> (usize, &OptimizerPlugin, f64) {
        let (plugin, lr_scale) = self.of[id];
        (plugin, &self.plugins[plugin], lr_scale)
    }
}

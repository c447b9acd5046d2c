//! The optimizer under test, and its constructor.

use std::sync::Arc;

use altgrad_plugin_api::{Config, ConfigValue, Descriptor, PluginError, abi::OptimizerObject};

use crate::subject::{Given, said};

/// The constructor of an optimizer, as the host has it.
type Make = dyn Fn(&Config) -> Result<OptimizerObject, PluginError> + Send + Sync;

/// The subject of the checks: an optimizer and its options.
pub struct OptimizerSubject {
    pub(super) descriptor: Descriptor,
    /// Options that are not the defaults.
    pub(super) given: Given,
    config: Config,
    make: Arc<Make>,
    pub(super) seed: u64,
}

/// Implemented by hand: a constructor has no `Debug`.
impl std::fmt::Debug for OptimizerSubject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OptimizerSubject").field("descriptor", &self.descriptor).finish_non_exhaustive()
    }
}

impl OptimizerSubject {
    /// The optimizer that describes itself so, made by `make`, with its default options.
    ///
    /// # Errors
    /// A default of its options is not allowed.
    pub fn new(
        descriptor: Descriptor,
        make: impl Fn(&Config) -> Result<OptimizerObject, PluginError> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let config = Config::resolve(&descriptor.options, [])
            .map_err(|fault| format!("the default of `{}` {}", fault.key, fault.message))?;
        Ok(Self { descriptor, given: Vec::new(), config, make: Arc::new(make), seed: 0 })
    }

    /// The same with these options beside those that it has.
    ///
    /// # Errors
    /// There is no such option, or the value is not allowed.
    pub fn with_options(
        &self,
        options: impl IntoIterator<Item = (String, ConfigValue)>,
    ) -> Result<Self, String> {
        let given: Given = self.given.iter().cloned().chain(options).collect();
        let config = Config::resolve(&self.descriptor.options, given.clone())
            .map_err(|fault| format!("option `{}` {}", fault.key, fault.message))?;
        Ok(Self { given, config, make: self.make.clone(), ..*self })
    }

    /// The same; random checks begin with `seed`.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// An instance with these options.
    pub(super) fn construct(&self, config: &Config) -> Result<OptimizerObject, PluginError> {
        (self.make)(config)
    }

    /// Makes an instance and drops it.
    ///
    /// # Errors
    /// The plugin's own error.
    pub fn try_out(&self) -> Result<(), PluginError> {
        self.construct(&self.config).map(drop)
    }

    /// An instance.
    pub(crate) fn instance(&self) -> Result<OptimizerObject, String> {
        self.construct(&self.config).map_err(|error| said("new", &error))
    }
}

//! The optimizer under test, and its constructor.

use altgrad_plugin_api::{Config, Descriptor, PluginError, abi::OptimizerObject};

use crate::subject::said;

/// The constructor of an optimizer, as the host has it.
type Make = dyn Fn(&Config) -> Result<OptimizerObject, PluginError> + Send + Sync;

/// The subject of the checks: an optimizer with its default options.
pub struct OptimizerSubject {
    pub(super) descriptor: Descriptor,
    config: Config,
    make: Box<Make>,
    pub(super) seed: u64,
}

/// Implemented by hand: a constructor has no `Debug`.
impl std::fmt::Debug for OptimizerSubject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OptimizerSubject").field("descriptor", &self.descriptor).finish_non_exhaustive()
    }
}

impl OptimizerSubject {
    /// The optimizer that describes itself so, made by `make`.
    ///
    /// # Errors
    /// A default of its options is not allowed.
    pub fn new(
        descriptor: Descriptor,
        make: impl Fn(&Config) -> Result<OptimizerObject, PluginError> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let config = Config::resolve(&descriptor.options, [])
            .map_err(|fault| format!("the default of `{}` {}", fault.key, fault.message))?;
        Ok(Self { descriptor, config, make: Box::new(make), seed: 0 })
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

    /// An instance with the default options.
    pub(super) fn instance(&self) -> Result<OptimizerObject, String> {
        self.construct(&self.config).map_err(|error| said("new", &error))
    }
}

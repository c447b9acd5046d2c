//! Registration of plugins within a library, and the one line that exports them.
//!
//! Each library has a registry of its own (`inventory`); the host sees nothing of it and asks the
//! root module, which enumerates it sorted, because link order varies.

use abi_stable::{
    prefix_type::PrefixTypeTrait,
    std_types::{ROption, RResult, RStr, RVec},
};

use crate::{
    BuildInfo, Config, Descriptor, ErrorKind, PluginError, PluginKind,
    abi::{Extension, FormatObject, OptimizerObject, PluginModule, PluginModuleRef, SinkObject},
};

/// How to make an instance of one plugin.
#[derive(Debug, Clone, Copy)]
pub enum Make {
    /// A format's constructor.
    Format(fn(&Config) -> Result<FormatObject, PluginError>),
    /// An optimizer's constructor.
    Optimizer(fn(&Config) -> Result<OptimizerObject, PluginError>),
    /// A sink's constructor.
    Sink(fn(&Config) -> Result<SinkObject, PluginError>),
}

/// One plugin of this library.
#[derive(Debug, Clone, Copy)]
pub struct Registration {
    /// What it says about itself.
    pub descriptor: fn() -> Descriptor,
    /// How to make one.
    pub make: Make,
}

impl Registration {
    fn kind(&self) -> PluginKind {
        match self.make {
            Make::Format(_) => PluginKind::Format,
            Make::Optimizer(_) => PluginKind::Optimizer,
            Make::Sink(_) => PluginKind::Sink,
        }
    }
}

inventory::collect!(Registration);

/// The module of this library. Leaked once: libraries are never unloaded.
pub fn root_module() -> PluginModuleRef {
    crate::abi::install_panic_recorder();
    PluginModule { build_info, descriptors, make_format, make_optimizer, make_sink, get_extension }
        .leak_into_prefix()
}

extern "C" fn build_info() -> BuildInfo {
    BuildInfo::current()
}

extern "C" fn descriptors() -> RResult<RVec<Descriptor>, PluginError> {
    crate::abi::adapters::guarded("descriptor", || {
        let mut all = Vec::new();
        for registration in inventory::iter::<Registration> {
            let descriptor = (registration.descriptor)();
            if descriptor.kind != registration.kind() {
                return Err(PluginError::config(format!(
                    "`{}` is registered as {} but describes itself as {}",
                    descriptor.id,
                    registration.kind(),
                    descriptor.kind
                )));
            }
            all.push(descriptor);
        }
        all.sort_by(|a, b| (a.kind, a.id.as_str()).cmp(&(b.kind, b.id.as_str())));
        Ok(RVec::from(all))
    })
}

/// The registered plugin of that kind and id, as `pick` sees it.
fn find<R>(kind: PluginKind, id: RStr<'_>, pick: impl Fn(&Make) -> Option<R>) -> Result<R, PluginError> {
    inventory::iter::<Registration>
        .into_iter()
        .filter_map(|registration| Some((pick(&registration.make)?, registration.descriptor)))
        .find(|(_, descriptor)| descriptor().id == id.as_str())
        .map(|(make, _)| make)
        .ok_or_else(|| PluginError::new(ErrorKind::UNKNOWN_ID, format!("this library has no {kind} `{id}`")))
}

macro_rules! maker {
    ($function:ident, $kind:ident, $object:ty) => {
        extern "C" fn $function(id: RStr<'_>, config: &Config) -> RResult<$object, PluginError> {
            crate::abi::adapters::guarded("new", || {
                let make = find(PluginKind::$kind, id, |make| match make {
                    Make::$kind(make) => Some(*make),
                    _ => None,
                })?;
                make(config)
            })
        }
    };
}

maker!(make_format, Format, FormatObject);
maker!(make_optimizer, Optimizer, OptimizerObject);
maker!(make_sink, Sink, SinkObject);

extern "C" fn get_extension(_: RStr<'_>) -> ROption<&'static Extension> {
    ROption::RNone
}

/// Registers plugins of this crate and exports the library: the one line of a plugin crate.
///
/// ```text
/// altgrad_plugin_api::export_plugin!(format E5M2);
/// altgrad_plugin_api::export_plugin!(format Posit8, format Lns8, optimizer Madam);
/// ```
///
/// Exactly once a library, whose crate type is `cdylib`. Types of other modules may be added to the
/// same library with [`register!`](crate::register). Building with `panic = "abort"` is refused, because then no guard works.
#[macro_export]
macro_rules! export_plugin {
    ($($kind:ident $plugin:ty),+ $(,)?) => {
        $($crate::register!($kind $plugin);)+

        const _: () = {
            assert!(
                cfg!(panic = "unwind"),
                "plugins must be built with panic = \"unwind\": with abort, a bug in the plugin ends the host"
            );

            extern "C" fn altgrad_root_module() -> $crate::__private::RootModuleResult {
                $crate::__private::__call_root_module_loader($crate::__private::root_module)
            }

            // The name is abi_stable's mangling of `root_module_loader`.
            // SAFETY: the name is reserved for this purpose, and a second export in one library does not link.
            #[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
            pub static ALTGRAD_LIBRARY: $crate::__private::LibHeader = {
                // SAFETY: `altgrad_root_module` erases a `PluginModuleRef` and nothing else.
                unsafe {
                    $crate::__private::LibHeader::from_constructor::<$crate::abi::PluginModuleRef>(
                        altgrad_root_module,
                        $crate::__private::CheckTypeLayout::Yes,
                    )
                }
            };
        };
    };
}

/// Adds one more plugin to a library that [`export_plugin!`](crate::export_plugin) exports elsewhere.
///
/// ```text
/// altgrad_plugin_api::register!(format Posit8);
/// ```
#[macro_export]
macro_rules! register {
    (format $plugin:ty) => {
        $crate::register!(@submit $plugin, $crate::Format, Format, format_object);
    };
    (optimizer $plugin:ty) => {
        $crate::register!(@submit $plugin, $crate::Optimizer, Optimizer, optimizer_object);
    };
    (sink $plugin:ty) => {
        $crate::register!(@submit $plugin, $crate::Sink, Sink, sink_object);
    };
    (@submit $plugin:ty, $trait:path, $kind:ident, $object:ident) => {
        $crate::__private::inventory::submit! {
            $crate::__private::Registration {
                descriptor: <$plugin as $trait>::descriptor,
                make: $crate::__private::Make::$kind($crate::abi::adapters::$object::<$plugin>),
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_entry_symbol_is_the_one_abi_stable_looks_for() {
        let name = abi_stable::library::ROOT_MODULE_LOADER_NAME_WITH_NUL;
        assert_eq!(name.trim_end_matches('\0'), crate::abi::ENTRY_SYMBOL);
    }
}

//! Registration of plugins within a library, and the one line that exports them.
//!
//! Each library has a registry of its own (`inventory`); the host uses only the root module, which lists the registry
//! in sorted order, because link order varies.

use crate::stable::{
    prefix_type::PrefixTypeTrait,
    std_types::{ROption, RResult, RStr, RVec},
};

use crate::{
    BuildInfo, Config, Descriptor, ErrorKind, PluginError,
    abi::{Extension, FormatObject, OptimizerObject, PluginModule, PluginModuleRef, SinkObject},
};

/// For the macros only.
pub mod private {
    pub use super::{Make, Registration, root_module};
    pub use crate::stable::library::{
        __call_root_module_loader, CheckTypeLayout, LibHeader, RootModuleResult,
    };
    pub use inventory;
}

/// The constructor of one plugin.
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
    /// The plugin's descriptor; of the kind that `make` makes.
    pub descriptor: Descriptor,
    /// The constructor.
    pub make: Make,
}

inventory::collect!(Registration);

/// The module of this library. Leaked once: libraries are never unloaded.
pub fn root_module() -> PluginModuleRef {
    crate::guard::install_panic_recorder();
    PluginModule { build_info, descriptors, make_format, make_optimizer, make_sink, get_extension }
        .leak_into_prefix()
}

extern "C" fn build_info() -> BuildInfo {
    BuildInfo::CURRENT
}

extern "C" fn descriptors() -> RVec<Descriptor> {
    let mut all: Vec<Descriptor> =
        inventory::iter::<Registration>.into_iter().map(|registration| registration.descriptor).collect();
    all.sort_by_key(|descriptor| (descriptor.kind.0, descriptor.id));
    RVec::from(all)
}

/// The registered plugin of this id that `pick` accepts.
fn find<R>(kind: &str, id: RStr<'_>, pick: impl Fn(&Make) -> Option<R>) -> Result<R, PluginError> {
    inventory::iter::<Registration>
        .into_iter()
        .filter(|registration| registration.descriptor.id == id)
        .find_map(|registration| pick(&registration.make))
        .ok_or_else(|| PluginError::new(ErrorKind::UNKNOWN_ID, format!("this library has no {kind} `{id}`")))
}

macro_rules! maker {
    ($function:ident, $name:literal, $kind:ident, $object:ty) => {
        extern "C" fn $function(id: RStr<'_>, config: &Config) -> RResult<$object, PluginError> {
            crate::adapters::guarded("new", || {
                let make = find($name, id, |make| match make {
                    Make::$kind(make) => Some(*make),
                    _ => None,
                })?;
                make(config)
            })
        }
    };
}

maker!(make_format, "format", Format, FormatObject);
maker!(make_optimizer, "optimizer", Optimizer, OptimizerObject);
maker!(make_sink, "sink", Sink, SinkObject);

extern "C" fn get_extension(_: RStr<'_>) -> ROption<&'static Extension> {
    ROption::RNone
}

/// Registers plugins of this crate and exports the library: the one line of a plugin crate. The library's file also
/// contains its build facts, as a [`note`](crate::note).
///
/// ```text
/// altgrad_plugin_api::export_plugin!(format E5M2);
/// altgrad_plugin_api::export_plugin!(format Posit8, format Lns8, optimizer Madam);
/// ```
///
/// Use it exactly once per library, whose crate type is `cdylib`. Types of other modules may be added to the same
/// library with [`register!`](crate::register). Building with `panic = "abort"` is refused, because then no guard
/// works.
#[macro_export]
macro_rules! export_plugin {
    ($($kind:ident $plugin:ty),+ $(,)?) => {
        $($crate::register!($kind $plugin);)+

        const _: () = {
            assert!(
                cfg!(panic = "unwind"),
                "plugins must be built with panic = \"unwind\": with abort, a bug in the plugin ends the host"
            );

            $crate::__note!($crate::BuildInfo::CURRENT, build_size, of_build);

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

/// Adds one more plugin to a library that [`export_plugin!`](crate::export_plugin) exports elsewhere. The library's
/// file also contains its descriptor, as a [`note`](crate::note).
///
/// ```text
/// altgrad_plugin_api::register!(format Posit8);
/// ```
#[macro_export]
macro_rules! register {
    (format $plugin:ty) => {
        $crate::register!(@submit $plugin, $crate::Format, Format, FORMAT, format_object);
    };
    (optimizer $plugin:ty) => {
        $crate::register!(@submit $plugin, $crate::Optimizer, Optimizer, OPTIMIZER, optimizer_object);
    };
    (sink $plugin:ty) => {
        $crate::register!(@submit $plugin, $crate::Sink, Sink, SINK, sink_object);
    };
    (@submit $plugin:ty, $trait:path, $make:ident, $kind:ident, $object:ident) => {
        const _: () = {
            const DESCRIPTOR: $crate::Descriptor = <$plugin as $trait>::DESCRIPTOR;

            assert!(
                DESCRIPTOR.kind.0 == $crate::PluginKind::$kind.0,
                "the plugin is registered as another kind than its descriptor says"
            );

            $crate::__private::inventory::submit! {
                $crate::__private::Registration {
                    descriptor: DESCRIPTOR,
                    make: $crate::__private::Make::$make($crate::adapters::$object::<$plugin>),
                }
            }

            $crate::__note!(DESCRIPTOR, descriptor_size, of_descriptor);
        };
    };
}

/// Puts a note into the library's file; for the macros only.
#[doc(hidden)]
#[macro_export]
macro_rules! __note {
    ($content:expr, $size:ident, $note:ident) => {
        // SAFETY: the section is the project's own and holds whole notes only, of 4 bytes' alignment; nothing reads it
        // in memory.
        #[used]
        #[unsafe(link_section = ".note.altgrad")]
        static NOTE: $crate::note::Note<{ $crate::note::$size(&$content) }> =
            $crate::note::Note::$note(&$content);
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_entry_symbol_is_the_one_abi_stable_looks_for() {
        let name = crate::stable::library::ROOT_MODULE_LOADER_NAME_WITH_NUL;
        assert_eq!(name.trim_end_matches('\0'), crate::abi::ENTRY_SYMBOL);
    }

    #[test]
    fn notes_are_written_where_they_are_looked_for() {
        let macros = include_str!("export.rs");
        assert!(macros.contains(&format!("link_section = \"{}\"", crate::note::SECTION)));
    }
}

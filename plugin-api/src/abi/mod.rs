//! The types that cross the boundary: the root module and the three object interfaces.
//!
//! Each library has one frozen root module: every field is in the first prefix, and later additions are string-named
//! extensions ([`PluginModule::get_extension`]). Instances are trait objects whose methods take the views and plain
//! structs of this crate. The adapters behind them ([`mod@crate::adapters`]) are generated for every plugin, catch its
//! panics and refuse to call a poisoned instance.
//!
//! Only the host and test suites use this module directly.

mod objects;

use crate::stable::{
    StableAbi, declare_root_module_statics,
    library::RootModule,
    package_version_strings,
    sabi_types::VersionStrings,
    std_types::{ROption, RResult, RStr, RVec},
};

pub use crate::stable;
pub use objects::{
    FormatAbi, FormatAbi_TO, FormatObject, OptimizerAbi, OptimizerAbi_TO, OptimizerObject, ServedParam,
    ServiceCall, ServicesAbi, ServicesAbi_TO, ServicesObject, SinkAbi, SinkAbi_TO, SinkObject, StepCall,
};

use crate::{BuildInfo, Config, Descriptor, PluginError};

/// Name of the symbol every plugin library exports, as abi_stable 0.11 mangles it.
pub const ENTRY_SYMBOL: &str = "_1as_0lib_1header_0root_bmodule_bloader";

/// The functions of a plugin library.
///
/// Owner: the library, for the life of the process (libraries are never unloaded). Threads: `[main-thread]`.
/// A panic comes back as [`ErrorKind::PANIC`](crate::ErrorKind::PANIC).
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PluginModuleRef)))]
#[sabi(missing_field(panic))]
pub struct PluginModule {
    /// The library's build information. Called first.
    pub build_info: extern "C" fn() -> BuildInfo,
    /// Every plugin of the library, sorted by kind and id.
    pub descriptors: extern "C" fn() -> RVec<Descriptor>,
    /// A new format instance; the host owns it.
    pub make_format: for<'a> extern "C" fn(RStr<'a>, &'a Config) -> RResult<FormatObject, PluginError>,
    /// A new optimizer instance; the host owns it.
    pub make_optimizer: for<'a> extern "C" fn(RStr<'a>, &'a Config) -> RResult<OptimizerObject, PluginError>,
    /// A new sink instance; the host owns it.
    pub make_sink: for<'a> extern "C" fn(RStr<'a>, &'a Config) -> RResult<SinkObject, PluginError>,
    /// A later revision's function table by name, such as `altgrad.kernel.cuda/2`; none are defined by 1.0.
    #[sabi(last_prefix_field)]
    pub get_extension: for<'a> extern "C" fn(RStr<'a>) -> ROption<&'static Extension>,
}

/// The head of an extension table. Its name and revision determine the fields that follow.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct Extension {
    /// Size of the whole table in bytes.
    pub struct_size: u64,
}

impl RootModule for PluginModuleRef {
    declare_root_module_statics! {PluginModuleRef}
    const BASE_NAME: &'static str = "altgrad_plugin";
    const NAME: &'static str = "altgrad-plugin";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}

//! All used items of abi_stable, in one place: no other file names the crate, here or in the host. A replacement has to
//! offer these items; ARCHITECTURE.md, "The plugin boundary", describes the work.

/// The trait of types whose layout is checked when a library is loaded, with its derive, and the macro that makes a
/// trait's methods cross.
pub use abi_stable::{StableAbi, sabi_trait};

/// The macros that declare the root module.
pub use abi_stable::{declare_root_module_statics, package_version_strings};

/// Views, texts, lists and results of a fixed layout.
pub mod std_types {
    pub use abi_stable::std_types::{RBox, ROption, RResult, RSlice, RSliceMut, RStr, RString, RVec};
}

/// The marker of objects that cannot be converted back to their type.
pub mod erased_types {
    pub use abi_stable::erased_types::TD_Opaque;
}

/// Version of a library's root module.
pub mod sabi_types {
    pub use abi_stable::sabi_types::VersionStrings;
}

/// Tables that may grow.
pub mod prefix_type {
    pub use abi_stable::prefix_type::PrefixTypeTrait;
}

/// Access to a library's exports, and its errors.
pub mod library {
    pub use abi_stable::library::{
        __call_root_module_loader, AbiHeaderRef, CheckTypeLayout, LibHeader, LibraryError,
        ROOT_MODULE_LOADER_NAME_WITH_NUL, RootModule, RootModuleResult,
    };
}

/// Layouts as data.
pub mod type_layout {
    pub use abi_stable::type_layout::{TLData, TLField, TypeLayout};
}

/// The comparison of two layouts.
pub mod abi_stability {
    pub use abi_stable::abi_stability::abi_checking;
}

//! Extensible numbers: types that cross the boundary as one `u32` and whose constants later versions may add to.
//!
//! A closed `enum` cannot grow: a value unknown to one side is undefined behaviour, and a new variant changes the
//! layout. A number of this kind can hold any value, so each side checks the numbers it receives.

/// Defines such types, each by its name and its constants:
///
/// ```text
/// numbered! {
///     /// How urgent it is.
///     Urgency {
///         /// Today.
///         HIGH = 1,
///         /// Some day.
///         LOW = 2,
///     }
/// }
/// ```
macro_rules! numbered {
    ($(
        $(#[$attribute:meta])*
        $name:ident { $($(#[$constant_doc:meta])* $constant:ident = $number:literal),+ $(,)? }
    )+) => {$(
        $(#[$attribute])*
        ///
        /// A number, so that later versions can add constants: a reader must handle unknown values.
        #[repr(transparent)]
        #[derive($crate::stable::StableAbi, Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(
            /// The number that crosses the boundary.
            pub u32,
        );
        impl $name {
            $($(#[$constant_doc])* pub const $constant: Self = Self($number);)+
        }
    )+};
}

pub(crate) use numbered;

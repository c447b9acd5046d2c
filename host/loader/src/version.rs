//! Compatibility of versions, of plugin-api and of the header for C.
//!
//! Before 1.0 a breaking change increments the minor number, from 1.0 on the major number. A library of another 0.x, or
//! of another major version, is refused by name.

use std::fmt;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::BuildInfo;

use crate::refusal::refused;

/// The version of the header for C that this host was built with, major and minor.
pub(crate) const C_VERSION: [u32; 2] = [0, 1];

/// The prefix of the API version of a library in C, see [`BuildInfo::api_version`].
pub(crate) const C: &str = "C ";

/// Major and minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version(pub(crate) [u32; 2]);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([major, minor]) = self;
        write!(f, "{major}.{minor}")
    }
}

impl Version {
    /// The version of this host's plugin-api.
    pub(crate) fn of_api() -> Self {
        Self::parse(&BuildInfo::CURRENT.api_version).unwrap_or(Self([0, 0]))
    }

    /// The version at the beginning of a text, if it begins with two numbers: `0.1.7`.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|number| number.parse().ok());
        Some(Self([numbers.next()??, numbers.next()??]))
    }

    /// True if a library made for this version is compatible with a host of the other.
    fn fits(self, host: Self) -> bool {
        let (Self([major, minor]), Self([host_major, host_minor])) = (self, host);
        major == host_major && (major > 0 || minor == host_minor)
    }
}

/// Refuses a library by the version that it was built against: [`BuildInfo::api_version`].
pub(crate) fn check(built_against: &str) -> Result<(), Diagnostic> {
    let (interface, number, host) = match built_against.strip_prefix(C) {
        Some(number) => ("altgrad_plugin.h", number, Version(C_VERSION)),
        None => ("plugin-api", built_against, Version::of_api()),
    };
    let refusal = match Version::parse(number) {
        Some(version) => refusal(interface, version, host),
        None => Some(format!("its version of {interface} is `{}`, which is none", number.escape_debug())),
    };
    let hint = format!("rebuild it against {interface} {host}");
    refusal.map_or(Ok(()), |why| Err(refused(why, hint)))
}

/// The reason why a host refuses a library made for another version; `None` if they are compatible.
pub(crate) fn refusal(interface: &str, library: Version, host: Version) -> Option<String> {
    let why = format!("it was built against {interface} {library}, this host has {host}");
    (!library.fits(host)).then_some(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_1_0_the_minor_number_must_be_equal_and_then_the_major_one() {
        for (library, host, fits) in [
            ([0, 1], [0, 1], true),
            ([0, 2], [0, 1], false),
            ([0, 1], [0, 2], false),
            ([1, 0], [0, 1], false),
            ([0, 1], [1, 1], false),
            ([1, 0], [1, 3], true),
            ([1, 3], [1, 0], true),
            ([2, 0], [1, 0], false),
        ] {
            assert_eq!(Version(library).fits(Version(host)), fits, "{library:?} {host:?}");
        }
    }

    #[test]
    fn a_version_that_does_not_fit_is_refused_by_name() {
        let said = |version: &str| check(version).map_or_else(|refusal| refusal.message, |()| "fits".into());
        let host = BuildInfo::CURRENT.api_version;
        assert_eq!(said(&host), "fits");
        let [major, minor] = Version::of_api().0;
        assert_eq!(said(&format!("{major}.{minor}.999-rc.1")), "fits");
        let (next, ours) = (format!("{}.7", major + 1), format!("{major}.{minor}"));
        assert_eq!(
            said(&format!("{next}.2")),
            format!("plugin library refused: it was built against plugin-api {next}, this host has {ours}")
        );
        assert!(
            said("C 9.1").ends_with(" against altgrad_plugin.h 9.1, this host has 0.1"),
            "{}",
            said("C 9.1")
        );
        assert!(
            said("C 0.1") == "fits"
                && said("").contains("is ``")
                && said("one.2").contains("is `one.2`, which is none")
        );
    }
}

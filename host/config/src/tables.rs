//! Keeps serde from reading an array as a table.
//!
//! A derived `Deserialize` also takes a sequence and fills the fields by
//! position, so that `[[train]]` for `[train]` would give baffling errors or none.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};

/// For `deserialize_with`: `T` from a table and from nothing else.
pub(super) fn table<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct OnlyTable<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for OnlyTable<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_map(OnlyTable(PhantomData))
}

/// A value that is a name or a table: the value of a name by `named`, that of a table by `tabled`. Not by way of a
/// `toml::Value`, which would lose the key of an error in the table.
pub(super) fn text_or_table<'de, D, S, T>(
    deserializer: D,
    expected: &'static str,
    named: impl Fn(&str) -> Option<T>,
    tabled: impl Fn(S) -> T,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    S: Deserialize<'de>,
{
    struct NameOrTable<S, N, F> {
        expected: &'static str,
        named: N,
        tabled: F,
        section: PhantomData<S>,
    }

    impl<'de, S, T, N, F> Visitor<'de> for NameOrTable<S, N, F>
    where
        S: Deserialize<'de>,
        N: Fn(&str) -> Option<T>,
        F: Fn(S) -> T,
    {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.expected)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            (self.named)(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            S::deserialize(MapAccessDeserializer::new(map)).map(self.tabled)
        }
    }

    deserializer.deserialize_any(NameOrTable { expected, named, tabled, section: PhantomData })
}

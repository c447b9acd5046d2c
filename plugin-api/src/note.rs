//! Notes: a library's description of its plugins, readable from its file without running its code.
//!
//! [`export_plugin!`](crate::export_plugin) and [`register!`](crate::register) write them; in C
//! `ALTGRAD_DESCRIBE_FORMAT` and `ALTGRAD_EXPORT_FORMATS` of `altgrad_plugin.h` do. The bytes are made while the plugin
//! is compiled.
//!
//! # The format
//!
//! The section [`SECTION`] of the library holds ELF notes, one after the other. Each begins at a multiple of 4 bytes:
//!
//! | bytes | content |
//! |---|---|
//! | 4 | size of the name, 8 |
//! | 4 | size of the text in bytes |
//! | 4 | type: [`DESCRIPTOR`] or [`BUILD`]; a reader passes over others |
//! | 8 | the name, [`NAME`] |
//! | size of the text | the text: one JSON object in UTF-8; zeros at its end do not count |
//! | up to 3 | zeros, up to a multiple of 4 |
//!
//! Numbers are in the byte order of the library. A library has one note of type [`DESCRIPTOR`] for each plugin and one
//! of type [`BUILD`]; a library without a [`DESCRIPTOR`] counts as one without notes. The order of notes means nothing.
//!
//! A text of type [`DESCRIPTOR`] is a [`Descriptor`]: `kind` (its number), `id`, `version`, `summary`, and, left out if
//! they are empty, the list `options`, `vendor` and `homepage`. An option has
//!
//! - `name`, and `help`, which may be left out;
//! - `default`, an object of one key: `{"bool": true}`, `{"integer": -3}`, `{"float": F}`, `{"text": "adamw"}` or
//!   `{"text_list": ["a", "b"]}`;
//! - `min` and `max`, each a float F, left out where there is no limit;
//! - `choices`, a list of texts, which may be left out if it is empty.
//!
//! A float F is a text of 16 hexadecimal digits: the bits of an IEEE 754 double, the highest first. `0.1` is
//! `"3fb999999999999a"`.
//!
//! A text of type [`BUILD`] is a [`BuildInfo`]: the texts `api_version`, `rustc`, `target` and `cpu_features`.
//!
//! Readers ignore unknown keys.

use crate::stable::std_types::RStr;

use crate::{BuildInfo, Descriptor, OptionDefault, OptionSpec};

/// The section of a library that holds its notes.
pub const SECTION: &str = ".note.altgrad";
/// The name of each note, with the zero that closes it.
pub const NAME: [u8; 8] = *b"altgrad\0";
/// The type of a note whose text describes one plugin.
pub const DESCRIPTOR: u32 = 1;
/// The type of the note with the library's build information.
pub const BUILD: u32 = 2;

/// Bytes before a note's text.
const HEAD: usize = 20;
/// Offset of the size of the text.
const SIZE: usize = 4;

/// A note of `N` bytes, with the section's alignment.
#[repr(C, align(4))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note<const N: usize>([u8; N]);

impl<const N: usize> Note<N> {
    /// The note that describes a plugin. `N` is [`descriptor_size`] of it.
    ///
    /// # Panics
    /// `N` is another number: the constant then does not compile.
    #[must_use]
    pub const fn of_descriptor(descriptor: &Descriptor) -> Self {
        Self::closed(Writer::of_descriptor(descriptor))
    }

    /// The note with a library's build information. `N` is [`build_size`] of it.
    ///
    /// # Panics
    /// As [`Self::of_descriptor`].
    #[must_use]
    pub const fn of_build(build: &BuildInfo) -> Self {
        Self::closed(Writer::of_build(build))
    }

    /// All bytes, padding included.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; N] {
        &self.0
    }

    const fn closed(writer: Writer<N>) -> Self {
        assert!(writer.length == N, "the note is of another size");
        Self(writer.bytes)
    }
}

/// Bytes of [`Note::of_descriptor`].
#[must_use]
pub const fn descriptor_size(descriptor: &Descriptor) -> usize {
    Writer::<0>::of_descriptor(descriptor).length
}

/// Bytes of [`Note::of_build`].
#[must_use]
pub const fn build_size(build: &BuildInfo) -> usize {
    Writer::<0>::of_build(build).length
}

/// Writes the first `N` bytes of a note and counts all of them; with `N` = 0 it only measures.
struct Writer<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Writer<N> {
    const fn of_descriptor(descriptor: &Descriptor) -> Self {
        let mut writer = Self::opened(DESCRIPTOR);
        writer.descriptor(descriptor);
        writer.close()
    }

    const fn of_build(build: &BuildInfo) -> Self {
        let mut writer = Self::opened(BUILD);
        writer.build(build);
        writer.close()
    }

    /// The beginning of a note of this type, before its text.
    const fn opened(kind: u32) -> Self {
        let mut writer = Self { bytes: [0; N], length: 0 };
        writer.all(&(NAME.len() as u32).to_ne_bytes());
        writer.all(&[0; 4]);
        writer.all(&kind.to_ne_bytes());
        writer.all(&NAME);
        writer
    }

    /// The note with the size of its text, padded.
    const fn close(mut self) -> Self {
        let size = ((self.length - HEAD) as u32).to_ne_bytes();
        let mut at = 0;
        while at < size.len() {
            self.put(SIZE + at, size[at]);
            at += 1;
        }
        while !self.length.is_multiple_of(4) {
            self.byte(0);
        }
        self
    }

    const fn put(&mut self, at: usize, byte: u8) {
        if at < N {
            self.bytes[at] = byte;
        }
    }

    const fn byte(&mut self, byte: u8) {
        self.put(self.length, byte);
        self.length += 1;
    }

    const fn all(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            self.byte(bytes[at]);
            at += 1;
        }
    }

    const fn descriptor(&mut self, descriptor: &Descriptor) {
        let Descriptor { kind, id, version, summary, options, vendor, homepage } = descriptor;
        self.all(b"{\"kind\":");
        self.integer(kind.0 as i64);
        self.member(b",\"id\":", *id);
        self.member(b",\"version\":", *version);
        self.member(b",\"summary\":", *summary);
        let options = options.as_slice();
        if !options.is_empty() {
            self.all(b",\"options\":[");
            let mut at = 0;
            while at < options.len() {
                if at > 0 {
                    self.byte(b',');
                }
                self.option(&options[at]);
                at += 1;
            }
            self.byte(b']');
        }
        if !vendor.is_empty() {
            self.member(b",\"vendor\":", *vendor);
        }
        if !homepage.is_empty() {
            self.member(b",\"homepage\":", *homepage);
        }
        self.byte(b'}');
    }

    const fn option(&mut self, option: &OptionSpec) {
        let OptionSpec { name, default, min, max, choices, help } = option;
        self.member(b"{\"name\":", *name);
        self.all(b",\"default\":{");
        match default {
            OptionDefault::Bool(true) => self.all(b"\"bool\":true"),
            OptionDefault::Bool(false) => self.all(b"\"bool\":false"),
            OptionDefault::Integer(value) => {
                self.all(b"\"integer\":");
                self.integer(*value);
            }
            OptionDefault::Float(value) => {
                self.all(b"\"float\":");
                self.float(*value);
            }
            OptionDefault::Text(text) => self.member(b"\"text\":", *text),
            OptionDefault::TextList(texts) => {
                self.all(b"\"text_list\":");
                self.texts(texts.as_slice());
            }
        }
        self.byte(b'}');
        if *min != f64::NEG_INFINITY {
            self.all(b",\"min\":");
            self.float(*min);
        }
        if *max != f64::INFINITY {
            self.all(b",\"max\":");
            self.float(*max);
        }
        if !choices.is_empty() {
            self.all(b",\"choices\":");
            self.texts(choices.as_slice());
        }
        if !help.is_empty() {
            self.member(b",\"help\":", *help);
        }
        self.byte(b'}');
    }

    const fn build(&mut self, build: &BuildInfo) {
        let BuildInfo { api_version, rustc, target, cpu_features } = build;
        self.member(b"{\"api_version\":", *api_version);
        self.member(b",\"rustc\":", *rustc);
        self.member(b",\"target\":", *target);
        self.member(b",\"cpu_features\":", *cpu_features);
        self.byte(b'}');
    }

    /// A key with its punctuation, and its text.
    const fn member(&mut self, key: &[u8], text: RStr<'static>) {
        self.all(key);
        self.text(text);
    }

    const fn texts(&mut self, texts: &[RStr<'static>]) {
        self.byte(b'[');
        let mut at = 0;
        while at < texts.len() {
            if at > 0 {
                self.byte(b',');
            }
            self.text(texts[at]);
            at += 1;
        }
        self.byte(b']');
    }

    const fn text(&mut self, text: RStr<'static>) {
        let bytes = text.as_str().as_bytes();
        self.byte(b'"');
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                byte @ (b'"' | b'\\') => {
                    self.byte(b'\\');
                    self.byte(byte);
                }
                byte @ ..0x20 => {
                    self.all(b"\\u00");
                    self.digit(byte >> 4);
                    self.digit(byte & 15);
                }
                byte => self.byte(byte),
            }
            at += 1;
        }
        self.byte(b'"');
    }

    const fn float(&mut self, value: f64) {
        let bits = value.to_bits();
        self.byte(b'"');
        let mut shift = 64;
        while shift > 0 {
            shift -= 4;
            self.digit((bits >> shift) as u8 & 15);
        }
        self.byte(b'"');
    }

    /// A hexadecimal digit.
    const fn digit(&mut self, value: u8) {
        self.byte(b"0123456789abcdef"[value as usize]);
    }

    const fn integer(&mut self, value: i64) {
        if value < 0 {
            self.byte(b'-');
        }
        let value = value.unsigned_abs();
        let mut unit: u64 = 1;
        while value / unit >= 10 {
            unit *= 10;
        }
        while unit > 0 {
            self.digit((value / unit % 10) as u8);
            unit /= 10;
        }
    }
}

#[cfg(test)]
mod tests;

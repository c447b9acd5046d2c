//! Files of raw little-endian f32, and of bytes, that commands read and write for comparisons with other programs.

use std::{fs, path::Path};

use altgrad_base::{diagnostic::Diagnostic, files};

/// The values of a file.
///
/// # Errors
/// The file cannot be read, or its length is no multiple of four bytes.
pub(crate) fn read(path: &Path) -> Result<Vec<f32>, Diagnostic> {
    const HINT: &str = "give a file of raw little-endian f32 values";
    let bytes = fs::read(path).map_err(|error| {
        Diagnostic::config(format!("cannot read the input ({error})")).at(path.display()).hint(HINT)
    })?;
    let (values, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(Diagnostic::config(format!(
            "the file size, {} bytes, is not a multiple of 4",
            bytes.len()
        ))
        .at(path.display())
        .hint(HINT));
    }
    Ok(values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

/// Writes values.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(path: &Path, values: &[f32]) -> Result<(), Diagnostic> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    write_bytes(path, &bytes)
}

/// Writes bytes.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), Diagnostic> {
    files::write_output(path, bytes)
        .map_err(|error| Diagnostic::run(format!("cannot write the output ({error})")).at(path.display()))
}

//! The layout of a bin file: where its ids begin, their type and their number.
//!
//! Three kinds of file are read: ids alone, as nanoGPT and `data prepare` write them; ids after a header of 256 32-bit
//! integers (magic number, version, number of ids, zeros), as llm.c, build-nanogpt and modded-nanogpt write them; and
//! NumPy's `.npy`. A file without a header says nothing about its type: 16 bits are the default, and contents that look
//! like wider integers are refused.

use altgrad_base::diagnostic::Diagnostic;
use serde::{Deserialize, Serialize};

/// Bytes of the header of 256 integers.
const HEADER: usize = 1024;
/// Bytes of the start of a file that determine its layout.
pub(super) const START: usize = 1 << 16;
/// Magic numbers of llm.c's headers: GPT-2's ids in 16 bits, Llama 3's in 32 bits.
const MAGIC: [(u32, usize); 2] = [(20_240_520, 2), (20_240_801, 4)];
/// The first bytes of a `.npy` file.
const NPY: &[u8] = b"\x93NUMPY";
/// Ids of headerless files that are looked at least; fewer do not show a type.
const LEAST: usize = 64;

/// The type of the ids of a bin file, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdType {
    /// Bytes.
    Uint8,
    /// The type of nanoGPT's bins.
    Uint16,
    /// 16 bits, of which ids use 15.
    Int16,
    /// The type of llm.c's bins of Llama 3.
    Uint32,
    /// 32 bits, of which ids use 31.
    Int32,
    /// 64 bits.
    Uint64,
    /// NumPy's and PyTorch's default.
    Int64,
}

impl IdType {
    /// Bytes of an id.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Uint8 => 1,
            Self::Uint16 | Self::Int16 => 2,
            Self::Uint32 | Self::Int32 => 4,
            Self::Uint64 | Self::Int64 => 8,
        }
    }

    /// The type as NumPy names it, without the byte order.
    fn of_numpy(name: &str) -> Option<Self> {
        Some(match name {
            "u1" => Self::Uint8,
            "u2" => Self::Uint16,
            "i2" => Self::Int16,
            "u4" => Self::Uint32,
            "i4" => Self::Int32,
            "u8" => Self::Uint64,
            "i8" => Self::Int64,
            _ => return None,
        })
    }
}

/// Where the ids of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BinLayout {
    /// Bytes before the first id.
    pub offset: usize,
    /// The type of an id.
    pub ids: IdType,
    /// Number of ids.
    pub count: usize,
}

impl BinLayout {
    /// The layout of a file of `bytes` bytes that begins with `start`, its first [`START`] bytes. `written` is the type
    /// that a description names.
    ///
    /// # Errors
    /// The file is cut short, or of another type.
    pub(super) fn of(start: &[u8], bytes: usize, written: Option<IdType>) -> Result<Self, Diagnostic> {
        if start.starts_with(NPY) {
            return npy(start, bytes);
        }
        if let Some(layout) = with_header(start, bytes)? {
            return Ok(layout);
        }
        if written.is_none()
            && let Some(width) = wider(start, bytes)
        {
            let message = format!("the token bin has {}-bit ids, and `dtype` does not say so", 8 * width);
            return Err(Diagnostic::config(message).hint(format!(
                "write {{\"vocab_size\": N, \"dtype\": \"uint{}\"}} into the folder's meta.json, N the tokenizer's number of ids, or save \
                 the ids in 16 bits: ids.astype('<u2').tofile(...)",
                8 * width
            )));
        }
        let ids = written.unwrap_or(IdType::Uint16);
        if !bytes.is_multiple_of(ids.bytes()) {
            let message = format!(
                "the token bin has {bytes} bytes, which is no whole number of {}-bit ids",
                8 * ids.bytes()
            );
            return Err(Diagnostic::config(message).hint("the file is cut short or of another type"));
        }
        Ok(Self { offset: 0, ids, count: bytes / ids.bytes() })
    }
}

/// The layout of a file with a header of 256 integers; `None` if it has none.
fn with_header(start: &[u8], bytes: usize) -> Result<Option<BinLayout>, Diagnostic> {
    let Some(header) = start.get(..HEADER) else { return Ok(None) };
    let words: Vec<u32> = header.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let (magic, version, count) = (words[0], words[1], words[2] as usize);
    let body = bytes - HEADER;
    let known = MAGIC.iter().find(|(known, _)| *known == magic).map(|(_, width)| *width);
    // Programs that derive from these write other magic numbers before the same fields.
    let is_empty = words[3..].iter().all(|word| *word == 0);
    let alike =
        [2, 4].into_iter().find(|width| count > 0 && is_empty && count.checked_mul(*width) == Some(body));
    let Some(width) = known.or(alike) else { return Ok(None) };
    if count.checked_mul(width) != Some(body) {
        let message = format!(
            "the header (magic number {magic}, version {version}) says {count} ids of {width} bytes, {body} bytes follow it"
        );
        return Err(Diagnostic::config(message).hint("the file is cut short: make or download it again"));
    }
    let ids = if width == 2 { IdType::Uint16 } else { IdType::Uint32 };
    Ok(Some(BinLayout { offset: HEADER, ids, count }))
}

/// The layout of a `.npy` file: magic bytes, version, length of the description, and the description, a Python
/// dictionary.
fn npy(start: &[u8], bytes: usize) -> Result<BinLayout, Diagnostic> {
    let hint = "save the ids as numpy.save(FILE, ids.astype('<u2').ravel()), or with tofile";
    let refused = |message: String| Diagnostic::config(message).hint(hint);
    let length = |from: usize, to: usize| {
        let field = start.get(from..to)?;
        Some(field.iter().rev().fold(0usize, |length, byte| length << 8 | usize::from(*byte)))
    };
    let (begin, length) = if start.get(6) == Some(&1) { (10, length(8, 10)) } else { (12, length(8, 12)) };
    let offset = length.and_then(|length| length.checked_add(begin));
    let text = offset.and_then(|offset| std::str::from_utf8(start.get(begin..offset)?).ok());
    let (Some(offset), Some(text)) = (offset, text) else {
        return Err(refused("the header of the .npy file is damaged".into()));
    };
    let value = |key: &str| {
        let rest = text.split_once(&format!("'{key}'"))?.1.trim_start().strip_prefix(':')?.trim_start();
        Some(rest)
    };
    let kind =
        value("descr").and_then(|rest| rest.strip_prefix('\'')?.split('\'').next()).unwrap_or_default();
    let little = kind.strip_prefix(['<', '|', '=']).and_then(IdType::of_numpy);
    let Some(ids) = little else {
        return Err(refused(format!("the .npy file has values of type {kind:?}, no token ids")));
    };
    let shape = value("shape").and_then(|rest| rest.strip_prefix('(')?.split(')').next()).unwrap_or_default();
    let count = shape.trim().trim_end_matches(',').trim().parse::<usize>().ok();
    let Some(count) = count else {
        return Err(refused(format!("the .npy file has the shape ({shape}), token ids have one axis")));
    };
    if count.checked_mul(ids.bytes()).and_then(|body| body.checked_add(offset)) != Some(bytes) {
        let message = format!("the .npy file says {count} values, and has {bytes} bytes");
        return Err(Diagnostic::config(message).hint("the file is cut short: make it again"));
    }
    Ok(BinLayout { offset, ids, count })
}

/// The bytes of the integers of which the start of a file looks to consist, if these are wider than 16 bits: the halves
/// above the lower 16 bits are nearly all below 4, as of ids below 2^18, and the lower halves are not.
fn wider(start: &[u8], bytes: usize) -> Option<usize> {
    let halves: Vec<u16> = start.as_chunks::<2>().0.iter().map(|half| u16::from_le_bytes(*half)).collect();
    let looks = |width: usize| {
        let each = width / 2;
        let ids = halves.len() / each;
        let (mut low, mut high) = (0, 0);
        for id in halves.chunks_exact(each) {
            low += usize::from(id[0] >= 4);
            high += usize::from(id[1..].iter().any(|half| *half >= 4));
        }
        bytes.is_multiple_of(width) && ids >= LEAST && high * 1000 <= ids && low * 2 >= ids
    };
    [8, 4].into_iter().find(|width| looks(*width))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn layout(file: &[u8]) -> Result<BinLayout, Diagnostic> {
        BinLayout::of(&file[..file.len().min(START)], file.len(), None)
    }

    fn header(magic: u32, count: u32, body: usize) -> Vec<u8> {
        let mut file: Vec<u8> = [magic, 1, count].iter().flat_map(|word| word.to_le_bytes()).collect();
        file.resize(HEADER + body, 0);
        file
    }

    #[test]
    fn headers_of_256_integers_are_recognized() {
        let at = |ids, count| BinLayout { offset: HEADER, ids, count };
        assert_eq!(layout(&header(20_240_520, 100, 200)), Ok(at(IdType::Uint16, 100)));
        assert_eq!(layout(&header(20_240_801, 100, 400)), Ok(at(IdType::Uint32, 100)));
        assert_eq!(
            layout(&header(20_250_401, 100, 200)),
            Ok(at(IdType::Uint16, 100)),
            "of a derived program"
        );
        let cut = layout(&header(20_240_520, 100, 198)).unwrap_err();
        assert_eq!(
            cut.message,
            "the header (magic number 20240520, version 1) says 100 ids of 2 bytes, 198 bytes follow it"
        );
    }

    /// Files of numpy 2.3: `numpy.save` of `numpy.arange(3, dtype=...)`.
    #[test]
    fn npy_files_say_their_type() {
        let file = |descr: &str, shape: &str, body: usize| {
            let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
            text += &" ".repeat(117 - text.len());
            let mut file = [b"\x93NUMPY\x01\x00v\x00".as_slice(), text.as_bytes(), b"\n"].concat();
            file.resize(128 + body, 0);
            file
        };
        let at = |ids, count| Ok(BinLayout { offset: 128, ids, count });
        assert_eq!(layout(&file("<u2", "(3,)", 6)), at(IdType::Uint16, 3));
        assert_eq!(layout(&file("<i8", "(3,)", 24)), at(IdType::Int64, 3));
        for (descr, shape, message) in [
            (">u2", "(3,)", "the .npy file has values of type \">u2\", no token ids"),
            ("<f4", "(3,)", "the .npy file has values of type \"<f4\", no token ids"),
            ("<u2", "(1, 3)", "the .npy file has the shape (1, 3), token ids have one axis"),
            ("<u2", "(4,)", "the .npy file says 4 values, and has 134 bytes"),
        ] {
            assert_eq!(layout(&file(descr, shape, 6)).unwrap_err().message, message);
        }
        assert!(layout(b"\x93NUMPY\x01\x00\xff\xff{'descr'").is_err());
    }

    #[test]
    fn wider_ids_without_a_header_are_refused_and_16_bits_are_not() {
        let ids = || (0..500u32).map(|n| n * 97 % 50_257);
        let narrow: Vec<u8> = ids().flat_map(|id| (id as u16).to_le_bytes()).collect();
        assert_eq!(layout(&narrow), Ok(BinLayout { offset: 0, ids: IdType::Uint16, count: 500 }));
        let wide: Vec<u8> = ids().flat_map(u32::to_le_bytes).collect();
        assert_eq!(
            layout(&wide).unwrap_err().message,
            "the token bin has 32-bit ids, and `dtype` does not say so"
        );
        let llama: Vec<u8> = ids().flat_map(|id| (id * 2 + 30_000).to_le_bytes()).collect();
        assert!(layout(&llama).is_err());
        let long: Vec<u8> = ids().flat_map(|id| u64::from(id).to_le_bytes()).collect();
        let refused = layout(&long).unwrap_err();
        assert!(refused.message.contains("64-bit") && refused.hint.unwrap().contains("\"uint64\""));
        let read = BinLayout::of(&long, long.len(), Some(IdType::Int64)).unwrap();
        assert_eq!((read.count, read.ids), (500, IdType::Int64));
        // Few ids, and ids of a tiny vocabulary, say nothing.
        for ids in [vec![7u16, 0, 9, 0], [0, 1].repeat(100), [3, 0, 2, 0].repeat(50)] {
            let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            assert_eq!(layout(&bytes).unwrap().count, ids.len());
        }
    }
}

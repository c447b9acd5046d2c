//! Incremental text: bytes in, whole characters out.

/// Holds back bytes that may become a character; other invalid bytes are shown as U+FFFD.
#[derive(Debug, Default)]
pub struct Characters {
    /// The beginning of a character, at most three bytes.
    pending: Vec<u8>,
}

impl Characters {
    /// The characters that `bytes` complete.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let whole = match self.pending.utf8_chunks().last() {
            // The last chunk's broken end may be continued; broken bytes before it cannot.
            Some(chunk) if may_go_on(chunk.invalid()) => self.pending.len() - chunk.invalid().len(),
            _ => self.pending.len(),
        };
        let rest = self.pending.split_off(whole);
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending = rest;
        text
    }

    /// The remaining text at the end.
    #[must_use]
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

/// True if these bytes are the beginning of a character.
fn may_go_on(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces that come out when bytes go in one at a time, and the end.
    fn one_by_one(bytes: &[u8]) -> (Vec<String>, String) {
        let mut characters = Characters::default();
        let pieces = bytes.iter().map(|byte| characters.push(&[*byte])).collect();
        (pieces, characters.finish())
    }

    #[test]
    fn characters_come_whole_and_bytes_that_are_none_as_replacements() {
        let (pieces, end) = one_by_one("aé€".as_bytes());
        assert_eq!(pieces, ["a", "", "é", "", "", "€"]);
        assert_eq!(end, "");
        let (pieces, end) = one_by_one(&[0xff, b'x', 0xe2, 0x82, b'y', 0xe2]);
        assert_eq!(pieces.concat(), "\u{fffd}x\u{fffd}y");
        assert_eq!(end, "\u{fffd}");
    }
}

//! Text files to parts: of any length, in bounded memory.
//!
//! A text is cut at a line end between two visible ASCII signs. No tokenizer joins across such a line end, so that the
//! parts' ids, one after the other, are the text's.

use std::io::BufRead;

use super::{
    items::{Content, Ends, Item, Items, LONGEST, Stop, damaged, place},
    layout::Split,
    skip::Reason,
};
use crate::open::nine_tenths;

/// Bytes after which a text is cut where it can be.
const PART: usize = 1 << 20;

/// One document; its split as its path names it.
pub(super) fn whole(items: &mut Items<'_>, name: &str, mut text: impl BufRead) -> Result<(), Stop> {
    parts(items, name, Split::of_path(name), true, &mut text)
}

/// A text that is all there is: its first nine tenths to train on, the rest held out, without separators; as a run of
/// `text:FILE` cuts it.
pub(super) fn cut_in_two(
    items: &mut Items<'_>,
    name: &str,
    bytes: u64,
    mut text: impl BufRead,
) -> Result<(), Stop> {
    let mut head = Head { text: &mut text, left: nine_tenths(bytes) };
    parts(items, name, Some(Split::Train), false, &mut head)?;
    parts(items, name, Some(Split::Val), false, &mut text)
}

fn parts(
    items: &mut Items<'_>,
    name: &str,
    split: Option<Split>,
    separated: bool,
    text: &mut impl BufRead,
) -> Result<(), Stop> {
    let item = |first, last, content| {
        let ends = Ends { first, last, separated };
        Item { place: place(name), split, ends, content }
    };
    let (mut bytes, mut first) = (Vec::new(), true);
    loop {
        let buffer = text.fill_buf().map_err(damaged)?;
        let taken = buffer.len();
        bytes.extend_from_slice(buffer);
        text.consume(taken);
        if taken == 0 {
            return items.push(item(first, true, Content::Text(bytes)));
        }
        if bytes.len() < PART {
            continue;
        }
        // Only new bytes are searched: earlier ones were searched before.
        let from = if bytes.len() - taken < PART { 0 } else { bytes.len() - taken - 2 };
        if let Some(cut) = last_cut(&bytes[from..]).map(|cut| from + cut) {
            let rest = bytes.split_off(cut);
            let part = std::mem::replace(&mut bytes, rest);
            items.push(item(first, false, Content::Text(part)))?;
            first = false;
        } else if bytes.len() > LONGEST {
            items.push(item(first, true, Content::Refused(Reason::TooLong(LONGEST))))?;
            return drain(text);
        }
    }
}

/// The end of the last line that can be cut off.
fn last_cut(bytes: &[u8]) -> Option<usize> {
    let visible = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_graphic);
    memchr::memrchr_iter(b'\n', bytes)
        .find(|at| *at > 0 && visible(at - 1) && visible(at + 1))
        .map(|at| at + 1)
}

fn drain(text: &mut impl BufRead) -> Result<(), Stop> {
    loop {
        let taken = text.fill_buf().map_err(damaged)?.len();
        if taken == 0 {
            return Ok(());
        }
        text.consume(taken);
    }
}

/// The first bytes of a text, and the rest of its last character.
struct Head<'a, R> {
    text: &'a mut R,
    left: u64,
}

impl<R: BufRead> std::io::Read for Head<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Head<'_, R> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        let buffer = self.text.fill_buf()?;
        let mut len = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        if self.left == 0 && buffer.first().is_some_and(|byte| byte & 0xc0 == 0x80) {
            // Bytes that follow the first of a character, three at most.
            len = buffer.iter().take(3).take_while(|byte| *byte & 0xc0 == 0x80).count();
        }
        Ok(&buffer[..len])
    }

    fn consume(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes as u64);
        self.text.consume(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_where_no_token_crosses() {
        for (text, cut) in [
            (&b"ab\ncd\nef"[..], Some(6)),
            (b"ab\ncd\n", Some(3)),
            (b"ab\n\ncd", None),
            (b"ab\n cd", None),
            (b"ab\r\ncd", None),
            (b"\ncd", None),
            ("é\né".as_bytes(), None),
        ] {
            assert_eq!(last_cut(text), cut, "{text:?}");
        }
    }
}

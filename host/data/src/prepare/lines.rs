//! Lines of bytes, of bounded length.

use std::io::{self, BufRead};

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line, or the text after the last line end.
    Whole,
    /// A line beyond the limit; it was read past and not kept.
    TooLong,
    /// The end of the file.
    End,
}

/// Appends the next line, with its end, to `line`, unless it has more than `longest` bytes.
pub(super) fn read(reader: &mut impl BufRead, line: &mut Vec<u8>, longest: usize) -> io::Result<Line> {
    let (mut any, mut too_long) = (false, false);
    loop {
        let buffer = match reader.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = memchr::memchr(b'\n', buffer).map(|at| at + 1);
        let taken = end.unwrap_or(buffer.len());
        any |= taken > 0;
        too_long |= line.len() + taken > longest;
        if too_long {
            *line = Vec::new();
        } else {
            line.extend_from_slice(&buffer[..taken]);
        }
        let done = end.is_some() || taken == 0;
        reader.consume(taken);
        if done {
            return Ok(match (any, too_long) {
                (false, _) => Line::End,
                (true, true) => Line::TooLong,
                (true, false) => Line::Whole,
            });
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_read_past() {
        let mut reader = io::BufReader::with_capacity(3, &b"ab\n\r\n0123456789abc\nlast"[..]);
        let mut next = || {
            let mut line = Vec::new();
            (read(&mut reader, &mut line, 8).unwrap(), line)
        };
        assert_eq!(next(), (Line::Whole, b"ab\n".to_vec()));
        assert_eq!(next(), (Line::Whole, b"\r\n".to_vec()));
        assert_eq!(next(), (Line::TooLong, vec![]));
        assert_eq!(next(), (Line::Whole, b"last".to_vec()));
        assert_eq!(next(), (Line::End, vec![]));
    }
}

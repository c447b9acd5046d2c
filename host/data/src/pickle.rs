//! `meta.pkl`, nanoGPT's description of the vocabulary of characters: a pickled dictionary of texts and integers.
//!
//! Reads the instructions of pickle's protocols 0 to 5 that such dictionaries consist of, and refuses all others: those
//! that name Python's classes and functions are never followed. The dictionary has `vocab_size`, and `itos` from ids to
//! characters.

use std::{collections::HashMap, rc::Rc};

use altgrad_base::diagnostic::Diagnostic;

/// A value that is understood.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Integer(i64),
    Text(Rc<str>),
    /// Of a dictionary in another, the entries whose keys are integers and whose values are texts.
    Texts(Vec<(i64, Rc<str>)>),
}

/// A vocabulary.
#[derive(Debug, PartialEq)]
pub(super) struct Vocabulary {
    /// Number of ids.
    pub size: u64,
    /// The character of each id, if all ids have one and no two have the same.
    pub characters: Option<String>,
}

/// Reads a vocabulary.
///
/// # Errors
/// The bytes are no pickled dictionary of texts and integers, or contradict themselves.
pub(super) fn vocabulary(bytes: &[u8]) -> Result<Vocabulary, Diagnostic> {
    let entries = Machine { bytes, ..Machine::default() }.run().map_err(|fault| {
        Diagnostic::config(format!("cannot be read without executing Python: {fault}"))
            .hint("write a meta.json with \"vocab_size\", \"tokenizer\": \"char\" and \"characters\": \"...\", all characters in the order of their ids")
    })?;
    let entry = |name: &str| entries.iter().rev().find(|(key, _)| &**key == name).map(|(_, value)| value);
    let itos = match entry("itos") {
        Some(Value::Texts(pairs)) => Some(pairs),
        _ => None,
    };
    let size = match entry("vocab_size") {
        Some(Value::Integer(size)) => u64::try_from(*size).ok(),
        _ => itos.map(|pairs| pairs.len() as u64),
    };
    let size = size.ok_or_else(|| {
        Diagnostic::config("the pickled dictionary has no `vocab_size`")
            .hint("write a meta.json with an integer \"vocab_size\"")
    })?;
    Ok(Vocabulary { size, characters: itos.and_then(|pairs| characters(pairs, size)) })
}

/// One text of all characters in the order of their ids.
fn characters(pairs: &[(i64, Rc<str>)], size: u64) -> Option<String> {
    let mut pairs: Vec<(i64, char)> = pairs
        .iter()
        .map(|(id, text)| {
            let mut letters = text.chars();
            Some((*id, letters.next().filter(|_| letters.next().is_none())?))
        })
        .collect::<Option<_>>()?;
    pairs.sort_unstable();
    let in_order = pairs.iter().enumerate().all(|(index, (id, _))| i64::try_from(index) == Ok(*id));
    let mut letters: Vec<char> = pairs.iter().map(|(_, letter)| *letter).collect();
    let text = letters.iter().collect();
    letters.sort_unstable();
    letters.dedup();
    (in_order && letters.len() == pairs.len() && pairs.len() as u64 == size).then_some(text)
}

/// What is on the stack.
#[derive(Debug, Clone)]
enum Slot {
    Value(Value),
    /// A dictionary that is being filled: all its entries with a text as key, and those with an integer.
    Dict(Vec<(Rc<str>, Value)>, Vec<(i64, Rc<str>)>),
    Mark,
}

/// The machine that a pickle is a program of.
#[derive(Default)]
struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Slot>,
    /// Values that are used again; dictionaries are not.
    memo: HashMap<usize, Option<Value>>,
}

/// Why a pickle is refused.
type Fault = String;

impl<'a> Machine<'a> {
    /// The entries of the dictionary that the program makes.
    fn run(mut self) -> Result<Vec<(Rc<str>, Value)>, Fault> {
        loop {
            match self.byte()? {
                // The protocol's number, and the length of what follows.
                0x80 => self.skip(1)?,
                0x95 => self.skip(8)?,
                b'}' => self.stack.push(Slot::Dict(Vec::new(), Vec::new())),
                b'(' => self.stack.push(Slot::Mark),
                b'd' => self.dict()?,
                b'K' => self.unsigned(1)?,
                b'M' => self.unsigned(2)?,
                b'J' => {
                    let bytes: [u8; 4] = self.take(4)?.try_into().map_err(|_| cut())?;
                    self.push(Value::Integer(i32::from_le_bytes(bytes).into()));
                }
                b'I' | b'L' => {
                    let line = self.line()?;
                    let digits = line.trim_end_matches('L');
                    let number: i64 = digits.parse().map_err(|_| format!("{digits:?} is no integer"))?;
                    self.push(Value::Integer(number));
                }
                0x8c => self.text(1)?,
                b'X' => self.text(4)?,
                0x8d => self.text(8)?,
                b'V' => {
                    // Latin-1, and escapes of the other characters.
                    let line: String = self.raw_line()?.iter().copied().map(char::from).collect();
                    self.push(Value::Text(unescaped(&line)?.into()));
                }
                0x94 => self.memorize(self.memo.len())?,
                b'q' => self.memorize_at(1)?,
                b'r' => self.memorize_at(4)?,
                b'p' => {
                    let index = self.index_line()?;
                    self.memorize(index)?;
                }
                b'h' => self.recall_at(1)?,
                b'j' => self.recall_at(4)?,
                b'g' => {
                    let index = self.index_line()?;
                    self.recall(index)?;
                }
                b's' => {
                    let first = self.stack.len().checked_sub(2).ok_or_else(cut)?;
                    self.fill(first)?;
                }
                b'u' => {
                    let mark = self.mark()?;
                    self.stack.remove(mark);
                    self.fill(mark)?;
                }
                b'.' => {
                    return match self.stack.pop() {
                        Some(Slot::Dict(entries, _)) => Ok(entries),
                        _ => Err("it holds no dictionary".into()),
                    };
                }
                other => {
                    return Err(format!(
                        "the instruction 0x{other:02x} at byte {} makes more than texts, integers and dictionaries",
                        self.at - 1
                    ));
                }
            }
        }
    }

    fn push(&mut self, value: Value) {
        self.stack.push(Slot::Value(value));
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let end = self.at.checked_add(count).ok_or_else(cut)?;
        let taken = self.bytes.get(self.at..end).ok_or_else(cut)?;
        self.at = end;
        Ok(taken)
    }

    fn skip(&mut self, count: usize) -> Result<(), Fault> {
        self.take(count).map(|_| ())
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        Ok(self.take(1)?[0])
    }

    /// A number of so many bytes.
    fn number(&mut self, bytes: usize) -> Result<usize, Fault> {
        Ok(self.take(bytes)?.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    fn unsigned(&mut self, bytes: usize) -> Result<(), Fault> {
        let number = self.number(bytes)?;
        self.push(Value::Integer(i64::try_from(number).map_err(|_| cut())?));
        Ok(())
    }

    /// A text after its length.
    fn text(&mut self, bytes: usize) -> Result<(), Fault> {
        let length = self.number(bytes)?;
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| "a text is not UTF-8")?;
        self.push(Value::Text(text.into()));
        Ok(())
    }

    /// A line of a program of protocol 0.
    fn raw_line(&mut self) -> Result<&'a [u8], Fault> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| *byte == b'\n').ok_or_else(cut)?;
        self.at += length + 1;
        Ok(&rest[..length])
    }

    fn line(&mut self) -> Result<&'a str, Fault> {
        std::str::from_utf8(self.raw_line()?).map_err(|_| "a line is not ASCII".into())
    }

    fn index_line(&mut self) -> Result<usize, Fault> {
        self.line()?.parse().map_err(|_| cut())
    }

    /// Keeps the value on top of the stack.
    fn memorize(&mut self, index: usize) -> Result<(), Fault> {
        let value = match self.stack.last().ok_or_else(cut)? {
            Slot::Value(value @ (Value::Integer(_) | Value::Text(_))) => Some(value.clone()),
            _ => None,
        };
        self.memo.insert(index, value);
        Ok(())
    }

    fn memorize_at(&mut self, bytes: usize) -> Result<(), Fault> {
        let index = self.number(bytes)?;
        self.memorize(index)
    }

    /// Pushes a value that was kept.
    fn recall(&mut self, index: usize) -> Result<(), Fault> {
        let value = self.memo.get(&index).cloned().flatten().ok_or("it uses a dictionary twice")?;
        self.push(value);
        Ok(())
    }

    fn recall_at(&mut self, bytes: usize) -> Result<(), Fault> {
        let index = self.number(bytes)?;
        self.recall(index)
    }

    fn mark(&self) -> Result<usize, Fault> {
        self.stack.iter().rposition(|slot| matches!(slot, Slot::Mark)).ok_or_else(cut)
    }

    /// Makes a dictionary of the slots above the mark.
    fn dict(&mut self) -> Result<(), Fault> {
        let mark = self.mark()?;
        self.stack[mark] = Slot::Dict(Vec::new(), Vec::new());
        self.fill(mark + 1)
    }

    /// Puts the slots from `first` on, keys and values, into the dictionary below them.
    fn fill(&mut self, first: usize) -> Result<(), Fault> {
        let slots = self.stack.split_off(first.min(self.stack.len()));
        let Some(Slot::Dict(by_text, by_id)) = self.stack.last_mut() else { return Err(cut()) };
        let mut slots = slots.into_iter();
        while let Some(key) = slots.next() {
            match (key, slots.next().ok_or_else(cut)?) {
                (Slot::Value(Value::Text(key)), Slot::Value(value)) => by_text.push((key, value)),
                (Slot::Value(Value::Text(key)), Slot::Dict(_, texts)) => {
                    by_text.push((key, Value::Texts(texts)))
                }
                (Slot::Value(Value::Integer(id)), Slot::Value(Value::Text(text))) => by_id.push((id, text)),
                _ => return Err("a dictionary has keys or values of other types".into()),
            }
        }
        Ok(())
    }
}

fn cut() -> Fault {
    "it is cut short or damaged".into()
}

/// A text of protocol 0, in which `\u0041` is a character.
fn unescaped(line: &str) -> Result<String, Fault> {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let digits = match rest.as_bytes().get(at + 1) {
            Some(b'u') => 4,
            Some(b'U') => 8,
            _ => 0,
        };
        let code = rest.get(at + 2..at + 2 + digits).and_then(|code| u32::from_str_radix(code, 16).ok());
        text.push(code.and_then(char::from_u32).ok_or_else(cut)?);
        rest = &rest[at + 2 + digits..];
    }
    Ok(text + rest)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// `pickle.dumps({'vocab_size': 3, 'itos': {0: '\n', 1: 'a', 2: 'é'}, 'stoi': {'\n': 0, 'a': 1, 'é': 2}},
    /// protocol)` of CPython 3.11.
    const BY_PROTOCOL: [(u8, &[u8]); 3] = [
        (
            0,
            b"(dp0\nVvocab_size\np1\nI3\nsVitos\np2\n(dp3\nI0\nV\\u000a\np4\nsI1\nVa\np5\nsI2\nV\xe9\np6\nssVstoi\np7\n(dp8\ng4\nI0\nsg5\nI1\nsg6\nI2\nss.",
        ),
        (
            2,
            b"\x80\x02}q\x00(X\n\x00\x00\x00vocab_sizeq\x01K\x03X\x04\x00\x00\x00itosq\x02}q\x03(K\x00X\x01\x00\x00\x00\nq\x04K\x01X\x01\x00\x00\x00aq\x05K\x02X\x02\x00\x00\x00\xc3\xa9q\x06uX\x04\x00\x00\x00stoiq\x07}q\x08(h\x04K\x00h\x05K\x01h\x06K\x02uu.",
        ),
        (
            4,
            b"\x80\x04\x95I\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\nvocab_size\x94K\x03\x8c\x04itos\x94}\x94(K\x00\x8c\x01\n\x94K\x01\x8c\x01a\x94K\x02\x8c\x02\xc3\xa9\x94u\x8c\x04stoi\x94}\x94(h\x04K\x00h\x05K\x01h\x06K\x02uu.",
        ),
    ];

    #[test]
    fn the_vocabulary_is_read_in_every_protocol() {
        for (protocol, bytes) in BY_PROTOCOL {
            let read = vocabulary(bytes).unwrap();
            assert_eq!(read, Vocabulary { size: 3, characters: Some("\naé".into()) }, "protocol {protocol}");
        }
    }

    #[test]
    fn programs_and_damage_are_refused() {
        // `os.system("true")`.
        let program = b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94.";
        let refused = vocabulary(program).unwrap_err();
        assert_eq!(
            refused.message,
            "cannot be read without executing Python: the instruction 0x93 at byte 19 makes more than texts, integers and dictionaries"
        );
        assert!(refused.hint.unwrap().contains("meta.json"));
        for (_, bytes) in BY_PROTOCOL {
            assert!((0..bytes.len()).all(|end| vocabulary(&bytes[..end]).is_err()));
        }
        assert!(vocabulary(b"\x80\x04}\x94h\x00.").is_err(), "the dictionary itself");
    }

    #[test]
    fn other_vocabularies_are_only_counted() {
        let only = |bytes: &[u8]| vocabulary(bytes).unwrap();
        assert_eq!(only(b"}(\x8c\nvocab_sizeK\x41u."), Vocabulary { size: 65, characters: None });
        let words = only(b"}(\x8c\x04itos}(K\x00\x8c\x02ab\x4b\x01\x8c\x01cuu.");
        assert_eq!(words, Vocabulary { size: 2, characters: None }, "ids of words");
    }
}

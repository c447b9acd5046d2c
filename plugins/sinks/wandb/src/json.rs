//! JSON of Weights & Biases: NaN, Infinity and -Infinity are bare words, which standard JSON does not have.
//!
//! Writing keeps them ([`push_number`]); reading makes numbers strings ([`parse`]). [`fields`] cuts an object of our
//! own making into keys and values without building it.

use serde_json::Value;

/// Appends a number: the shortest text that reads back as the same f64.
pub(crate) fn push_number(text: &mut String, value: f64) {
    use std::fmt::Write;
    let _ = match value {
        _ if value.is_nan() => text.write_str("NaN"),
        f64::INFINITY => text.write_str("Infinity"),
        f64::NEG_INFINITY => text.write_str("-Infinity"),
        _ => write!(text, "{value:?}"),
    };
}

/// Appends a string in quotes, line breaks and quotes escaped.
pub(crate) fn push_string(text: &mut String, value: &str) {
    text.push_str(&Value::from(value).to_string());
}

/// Appends numbers as a list.
pub(crate) fn push_list<T: Copy>(text: &mut String, values: &[T], push: impl Fn(&mut String, T)) {
    text.push('[');
    for (index, &value) in values.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        push(text, value);
    }
    text.push(']');
}

/// The end of a string that begins at `from` (its opening quote), closing quote included.
fn string_end(text: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

/// Key (in its quotes, as written) and value (as written) of each field of an object without blanks.
pub(crate) fn fields(object: &str) -> impl Iterator<Item = (&str, &str)> {
    let bytes = object.as_bytes();
    let mut at = 1;
    std::iter::from_fn(move || {
        if bytes.get(at) != Some(&b'"') {
            return None;
        }
        let key_end = string_end(bytes, at);
        let key = object.get(at..key_end)?;
        let start = key_end + 1;
        let (mut end, mut depth) = (start, 0usize);
        while end < bytes.len() {
            match bytes[end] {
                b'"' => {
                    end = string_end(bytes, end);
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth > 0 => depth -= 1,
                b',' | b'}' if depth == 0 => break,
                _ => {}
            }
            end += 1;
        }
        at = end + 1;
        Some((key, object.get(start..end)?))
    })
}

/// The same JSON without blanks between its parts.
pub(crate) fn compact(text: &str) -> String {
    let (mut compact, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = text.as_bytes().get(at) {
        let end = if byte == b'"' { string_end(text.as_bytes(), at) } else { at + 1 };
        if !byte.is_ascii_whitespace() {
            compact.extend_from_slice(&text.as_bytes()[at..end]);
        }
        at = end;
    }
    String::from_utf8_lossy(&compact).into_owned()
}

/// Reads JSON that may have bare NaN and infinities. Every number becomes a string, spelled in one way and exact; see
/// [`number`].
pub(crate) fn parse(text: &str) -> Option<Value> {
    let bytes = text.as_bytes();
    let (mut strict, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let end = match byte {
            b'"' => string_end(bytes, at),
            b'-' | b'0'..=b'9' | b'N' | b'I' => {
                let end = bytes[at..].iter().position(|byte| b",]} \t\r\n".contains(byte));
                let end = end.map_or(bytes.len(), |len| at + len);
                let number: f64 = text.get(at..end)?.parse().ok()?;
                strict.extend_from_slice(format!("\"{number:?}\"").as_bytes());
                at = end;
                continue;
            }
            _ => at + 1,
        };
        strict.extend_from_slice(&bytes[at..end]);
        at = end;
    }
    serde_json::from_slice(&strict).ok()
}

/// A number that [`parse`] has read.
pub(crate) fn number(value: &Value) -> Option<f64> {
    value.as_str()?.parse().ok()
}

/// True if two texts have the same content, independent of the order of keys and the spelling of numbers.
pub(crate) fn same(one: &str, other: &str) -> bool {
    one == other || parse(one).is_some_and(|one| Some(one) == parse(other))
}

/// TOML as JSON; values without a JSON number become strings.
pub(crate) fn from_toml(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) if number.is_finite() => number.into(),
        toml::Value::Float(number) => number.to_string().into(),
        toml::Value::Boolean(value) => value.into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(values) => values.into_iter().map(from_toml).collect(),
        toml::Value::Table(table) => table
            .into_iter()
            .map(|(key, value)| (key, from_toml(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back_bit_for_bit_and_nan_is_bare() {
        for value in [0.1 + 0.2, 5e-324, f64::MAX, f64::MIN_POSITIVE, -0.0, 1e-7, 3.0, 1e16] {
            let mut text = String::new();
            push_number(&mut text, value);
            let read = number(&parse(&text).unwrap()).unwrap();
            assert_eq!(read.to_bits(), value.to_bits(), "{text}");
        }
        let mut text = String::new();
        push_list(&mut text, &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY], push_number);
        assert_eq!(text, "[NaN,Infinity,-Infinity]");
    }

    #[test]
    fn fields_are_cut_where_they_end() {
        let row = r#"{"_step":1,"a,\"b}":NaN,"h":{"_type":"x","v":[1,2]},"z":-1e-7}"#;
        let all: Vec<_> = fields(row).collect();
        let expected = [
            ("\"_step\"", "1"),
            (r#""a,\"b}""#, "NaN"),
            ("\"h\"", r#"{"_type":"x","v":[1,2]}"#),
            ("\"z\"", "-1e-7"),
        ];
        assert_eq!(all, expected);
        assert_eq!(fields("{}").count(), 0);
        assert_eq!(compact("{ \"a b\" : NaN,\n \"é\": 1 }"), "{\"a b\":NaN,\"é\":1}");
    }

    #[test]
    fn sameness_ignores_order_and_spelling_only() {
        assert!(same(r#"{"a":1,"b":NaN}"#, r#"{ "b": NaN, "a": 1.0 }"#));
        assert!(!same(r#"{"a":1,"b":NaN}"#, r#"{"a":1,"b":2}"#));
        assert!(!same(r#"{"a":NaN}"#, r#"{"a":Infinity}"#));
        assert_eq!(parse(r#"{"NaN":"a NaN é","b":[-Infinity]}"#).unwrap()["b"][0], "-inf");
    }
}

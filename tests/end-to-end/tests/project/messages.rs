//! All messages of the host and of shipped plugins in one snapshot, so that a change of words is seen beside the others.

use std::collections::BTreeMap;

use insta::assert_snapshot;

use super::sources::files_named;

/// Words of the shortest text that is taken for a message.
const FEWEST_WORDS: usize = 3;

/// A string literal of code.
struct Literal {
    /// Offset of its first quote.
    start: usize,
    text: String,
}

/// The string literals of a source, without those of comments. A line that goes on in the next is one text.
fn literals(source: &str) -> Vec<Literal> {
    let bytes = source.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => {
                at += source[at..].find('\n').unwrap_or(source.len() - at);
            }
            // The character of a quote; other apostrophes are of lifetimes or characters without quotes.
            b'\'' if bytes[at..].starts_with(b"'\"'") => at += 3,
            b'\'' if bytes[at..].starts_with(b"'\\\"'") => at += 4,
            b'r' if bytes[at..].starts_with(b"r#\"") => {
                let len = source[at + 3..].find("\"#").unwrap_or(0);
                at += 3 + len + 2;
            }
            b'"' => {
                let end = end_of(bytes, at + 1);
                found.push(Literal { start: at, text: unescaped(&source[at + 1..end]) });
                at = end + 1;
            }
            _ => at += 1,
        }
    }
    found
}

/// The offset of the quote that ends a literal.
fn end_of(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at
}

/// One line: escaped line ends and the spaces behind them are gone.
fn unescaped(text: &str) -> String {
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_string();
    let joined = lines.fold(first, |text, line| text + line.trim_start());
    joined.replace("\\\"", "\"").replace('\n', " ")
}

/// `error`, `hint` or `text`, by the call whose argument begins here.
fn kind(before: &str) -> &'static str {
    let call = before.trim_end().trim_end_matches("format!(").trim_end();
    if call.ends_with(".hint(") {
        "hint "
    } else if ["config(", "run(", "plugin(", "refuse(", "PluginError::new("]
        .iter()
        .any(|name| call.ends_with(name))
    {
        "error"
    } else {
        "text "
    }
}

/// True if a file has messages: it is no test, kernel or text of the generated corpus.
fn is_code(path: &str) -> bool {
    let of_program = path.starts_with("host/") || path.starts_with("plugins/");
    let others = [
        "/tests/",
        "/tests.rs",
        "/testing.rs",
        "/benches/",
        "kernel_texts",
        "kernel-generator",
        "host/lawgen",
    ];
    of_program && path.contains("/src/") && !others.iter().any(|part| path.contains(part))
}

#[test]
fn messages_are_those_of_the_snapshot() {
    let mut page = String::new();
    let sources: BTreeMap<String, String> = files_named(".rs").into_iter().collect();
    for (path, source) in sources.iter().filter(|(path, _)| is_code(path)) {
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        let messages = literals(code).into_iter().filter(|literal| {
            let is_attribute = code[..literal.start].trim_end().ends_with(['=', ']']);
            literal.text.split_whitespace().count() >= FEWEST_WORDS && !is_attribute
        });
        let lines: Vec<String> = messages
            .map(|literal| format!("{} {}\n", kind(&code[..literal.start]), literal.text.trim()))
            .collect();
        if !lines.is_empty() {
            page += &format!("\n## {path}\n{}", lines.concat());
        }
    }
    assert_snapshot!("messages", page);
}

#[test]
fn a_literal_is_found_with_its_kind() {
    let source = r#"
        // "not this one"
        let quote = '"';
        Err(Diagnostic::config(format!("`{key}` must be \"a\" \
            number")).hint("give one"))
    "#;
    let found = literals(source);
    let texts: Vec<&str> = found.iter().map(|literal| literal.text.as_str()).collect();
    assert_eq!(texts, ["`{key}` must be \"a\" number", "give one"]);
    let kinds: Vec<&str> = found.iter().map(|literal| kind(&source[..literal.start])).collect();
    assert_eq!(kinds, ["error", "hint "]);
}

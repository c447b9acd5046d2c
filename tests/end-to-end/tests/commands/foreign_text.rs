//! Text from strangers (names of files, formats, runs and archives, values of run files) never commands the terminal.

use altgrad_end_to_end::{Bench, TINY};

/// Clears the screen, sets the title, colours, rings, overwrites the line, and turns the direction of text around.
const COMMANDS: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}[31m\r\u{9b}32m\u{202e}";

#[test]
fn foreign_text_is_shown_and_not_obeyed() {
    let bench = Bench::new();
    let name = format!("x{COMMANDS}y");
    bench.write(&format!("{name}.toml"), "[run]\nnam = 1\n");
    let written: String = name.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    bench.write("value.toml", &TINY.replace("\"E5M2\"", &format!("\"{written}\"")));
    bench.write(&format!("runs/{name}/run.json"), "{}");
    bench.write(&format!("plugins/{name}.so"), "no library");
    let path = |path: &str| format!("{path}{name}");
    let rows: [&[&str]; 8] = [
        &["check", &format!("{name}.toml")],
        &["check", "value.toml"],
        &["compare", &path("runs/")],
        &["compare", "runs", "--json"],
        &["plugins", "list", "--dir", "plugins"],
        &["plugins", "inspect", &format!("plugins/{name}.so")],
        &["formats", "show", &name],
        &["sample", &path("runs/"), "--prompt", "x"],
    ];
    for args in rows {
        let outcome = bench.host(args);
        let said = outcome.stdout + &outcome.stderr;
        let obeyed = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
        assert!(!said.contains(obeyed), "{args:?}: {said:?}");
        assert!(said.contains("\\u001b[2J"), "{args:?}: {said:?}");
    }
}

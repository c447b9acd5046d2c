//! A table, and the five ways it is written: terminal (in `fit`), Markdown, LaTeX, CSV, JSON.
//!
//! Text has rounded numbers; CSV and JSON have every digit. A missing value is an empty cell, in the terminal a dash.

use serde_json::{Map, Value, json};

/// The notation of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digits {
    /// A number of digits after the point.
    Fixed(usize),
    /// As a percentage, two digits after the point.
    Percent,
    /// Three significant ones, with a power of ten.
    Scientific,
}

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number.
    Number(f64, Digits),
    /// A number and half the width of its interval.
    Spread(f64, f64, Digits),
    /// Not measured.
    Missing,
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A number, if there is one.
    #[must_use]
    pub fn number(value: Option<f64>, digits: Digits) -> Self {
        value.map_or(Self::Missing, |value| Self::Number(value, digits))
    }

    /// A number with its spread, if it has one.
    #[must_use]
    pub fn spread(value: Option<f64>, spread: Option<f64>, digits: Digits) -> Self {
        match (value, spread) {
            (Some(value), Some(spread)) => Self::Spread(value, spread, digits),
            (value, _) => Self::number(value, digits),
        }
    }

    /// For people; `dash` where nothing was measured.
    #[must_use]
    pub fn show(&self, dash: &str) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(value, digits) => shown(*value, *digits),
            Self::Spread(value, spread, digits) => {
                format!("{} ± {}", shown(*value, *digits), shown(*spread, *digits))
            }
            Self::Missing => dash.to_string(),
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Number(..) | Self::Spread(..))
    }
}

fn shown(value: f64, digits: Digits) -> String {
    match digits {
        Digits::Fixed(digits) if value.abs() < 1e15 => format!("{value:.digits$}"),
        Digits::Percent if value == 0.0 => "0".into(),
        Digits::Percent if (5e-5..1e12).contains(&value.abs()) => format!("{:.2} %", value * 100.0),
        _ => format!("{value:.2e}"),
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Short name: the file's.
    pub id: &'static str,
    /// One line.
    pub title: String,
    /// Heads. One that ends in `±` has cells with a spread, a column of its own in CSV and JSON.
    pub columns: Vec<String>,
    /// As many cells each as there are columns.
    pub rows: Vec<Vec<Cell>>,
    /// Heads of the columns that a narrow terminal shows, the most important first.
    pub keep: &'static [&'static str],
}

impl Table {
    /// An empty table.
    pub fn new(id: &'static str, title: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(ToString::to_string).collect();
        Self { id, title: title.into(), columns, rows: Vec::new(), keep: &[] }
    }

    /// True if a column holds numbers.
    #[must_use]
    pub fn is_numeric(&self, column: usize) -> bool {
        self.rows.iter().any(|row| row[column].is_number())
    }

    /// For a README.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let escape = |text: &str| {
            let text = text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;");
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.columns.iter().map(|name| escape(name)).collect());
        let rule = |column: usize| if self.is_numeric(column) { "---:" } else { "---" }.to_string();
        text.push_str(&line((0..self.columns.len()).map(rule).collect()));
        for row in &self.rows {
            text.push_str(&line(row.iter().map(|cell| escape(&cell.show(""))).collect()));
        }
        text
    }

    /// For a paper: a `tabular` with booktabs' rules.
    #[must_use]
    pub fn to_latex(&self) -> String {
        let align = |column: usize| if self.is_numeric(column) { 'r' } else { 'l' };
        let align: String = (0..self.columns.len()).map(align).collect();
        let line = |cells: Vec<String>| format!("{} \\\\\n", cells.join(" & "));
        let heads = line(self.columns.iter().map(|name| latex(name)).collect());
        let rows: String = self
            .rows
            .iter()
            .map(|row| line(row.iter().map(|cell| latex(&cell.show(""))).collect()))
            .collect();
        let title = latex(&self.title);
        format!(
            "% {title}\n\\begin{{tabular}}{{{align}}}\n\\toprule\n{heads}\\midrule\n{rows}\\bottomrule\n\\end{{tabular}}\n"
        )
    }

    /// For other programs: every digit, a column more where a number has a spread.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Neither can fail: the writer's end is memory, and all rows are of one length.
        let _ = writer.write_record(self.raw_columns());
        for row in &self.rows {
            let cells = self.raw_cells(row).into_iter().map(|cell| match cell {
                Value::Null => String::new(),
                Value::String(text) => text,
                number => number.to_string(),
            });
            let _ = writer.write_record(cells);
        }
        String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
    }

    /// A list of objects.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let heads = self.raw_columns();
        let row = |row: &Vec<Cell>| -> Value {
            heads.iter().cloned().zip(self.raw_cells(row)).collect::<Map<_, _>>().into()
        };
        self.rows.iter().map(row).collect()
    }

    fn raw_columns(&self) -> Vec<String> {
        self.columns
            .iter()
            .flat_map(|name| match name.split_once(" ±") {
                Some((name, spread)) => vec![name.to_string(), format!("{name} ±{spread}")],
                None => vec![name.clone()],
            })
            .collect()
    }

    fn raw_cells(&self, row: &[Cell]) -> Vec<Value> {
        let mut cells = Vec::new();
        for (name, cell) in self.columns.iter().zip(row) {
            let (value, spread) = match cell {
                Cell::Text(text) => (json!(text), Value::Null),
                Cell::Number(value, _) => (json!(value), Value::Null),
                Cell::Spread(value, spread, _) => (json!(value), json!(spread)),
                Cell::Missing => (Value::Null, Value::Null),
            };
            cells.push(value);
            if name.contains(" ±") {
                cells.push(spread);
            }
        }
        cells
    }
}

/// Text as LaTeX takes it.
fn latex(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', letter]),
            '\\' => escaped.push_str("\\textbackslash{}"),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '±' => escaped.push_str("$\\pm$"),
            '·' => escaped.push_str("$\\cdot$"),
            '…' => escaped.push_str("\\ldots{}"),
            '–' => escaped.push_str("--"),
            '<' | '>' => escaped.extend(['$', letter, '$']),
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("t", "A & B", &["run|name", "loss ± sd", "stall"]);
        let loss = Cell::spread(Some(2.123_456_789), Some(0.1), Digits::Fixed(3));
        table.rows.push(vec![Cell::text("a_1\n<b>, 50 %"), loss, Cell::number(Some(0.5), Digits::Percent)]);
        table.rows.push(vec![Cell::text("b"), Cell::number(Some(1e300), Digits::Fixed(2)), Cell::Missing]);
        table
    }

    #[test]
    fn markdown_and_latex_escape_what_they_must() {
        let markdown = "| run\\|name | loss ± sd | stall |\n| --- | ---: | ---: |\n\
                        | a_1 &lt;b>, 50 % | 2.123 ± 0.100 | 50.00 % |\n| b | 1.00e300 |  |\n";
        assert_eq!(table().to_markdown(), markdown);
        let latex = table().to_latex();
        assert!(latex.contains("% A \\& B\n\\begin{tabular}{lrr}"), "{latex}");
        assert!(latex.contains("a\\_1\n$<$b$>$, 50 \\% & 2.123 $\\pm$ 0.100 & 50.00 \\% \\\\"), "{latex}");
    }

    #[test]
    fn csv_and_json_carry_every_digit() {
        let csv = "run|name,loss,loss ± sd,stall\n\"a_1\n<b>, 50 %\",2.123456789,0.1,0.5\nb,1e+300,,\n";
        assert_eq!(table().to_csv(), csv);
        assert_eq!(table().to_json()[0]["loss"], 2.123_456_789);
        assert_eq!(table().to_json()[1]["stall"], Value::Null);
        assert!(table().to_terminal().contains("2.123 ± 0.100"));
    }
}

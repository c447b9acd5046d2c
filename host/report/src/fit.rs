//! Tables for a terminal. Columns that do not fit are left out, the least important first, and a line below names them.

use comfy_table::{Cell as ComfyCell, CellAlignment, ContentArrangement, presets::UTF8_FULL_CONDENSED};

use super::table::Table;

/// Columns that are always shown; their texts are wrapped where they are too wide.
const FEWEST: usize = 2;

impl Table {
    /// For a terminal, no wider than it; every column where standard output is none, or a terminal of unknown width.
    #[must_use]
    pub fn to_terminal(&self) -> String {
        match comfy_table::Table::new().width().filter(|width| *width > 0) {
            Some(width) => self.fitted(width),
            None => self.drawn(&self.every_column(), None),
        }
    }

    /// For a terminal of this width.
    #[must_use]
    pub fn fitted(&self, width: u16) -> String {
        let mut columns = self.every_column();
        let mut left_out = Vec::new();
        let mut text = self.drawn(&columns, None);
        while columns.len() > FEWEST && widest(&text) > usize::from(width) {
            left_out.push(columns.remove(self.least_important(&columns)));
            text = self.drawn(&columns, None);
        }
        if widest(&text) > usize::from(width) {
            text = self.drawn(&columns, Some(width));
        }
        if !left_out.is_empty() {
            left_out.sort_unstable();
            let names: Vec<&str> = left_out.iter().map(|column| self.columns[*column].as_str()).collect();
            let names = names.join(", ");
            text.push_str(&format!(
                "Columns left out for lack of width: {names}. Redirected output has all columns.\n"
            ));
        }
        text
    }

    fn every_column(&self) -> Vec<usize> {
        (0..self.columns.len()).collect()
    }

    /// Place of the column to leave out next: the last one that need not be kept, then the least important of the
    /// others.
    fn least_important(&self, columns: &[usize]) -> usize {
        let rank = |place: &usize| {
            let name = &self.columns[columns[*place]];
            self.keep.iter().position(|kept| kept == name).unwrap_or(self.keep.len() + place)
        };
        (0..columns.len()).max_by_key(rank).unwrap_or_default()
    }

    /// These columns, wrapped to a width if there is one.
    fn drawn(&self, columns: &[usize], width: Option<u16>) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        if let Some(width) = width {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            table.set_width(width);
        }
        table.set_header(columns.iter().map(|column| &self.columns[*column]));
        for row in &self.rows {
            table.add_row(columns.iter().map(|column| {
                let cell = &row[*column];
                let align = if cell.is_number() { CellAlignment::Right } else { CellAlignment::Left };
                ComfyCell::new(cell.show("–")).set_alignment(align)
            }));
        }
        format!("{table}\n")
    }
}

/// Characters of the widest line.
fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Cell;

    fn table() -> Table {
        let mut table = Table::new("t", "T", &["run", "best loss", "perplexity", "verdict", "stall"]);
        table.keep = &["run", "verdict"];
        let cells = ["fp32, AdamW, 0.001", "2.1234", "8.360", "baseline", "0.12"].map(Cell::text);
        table.rows.push(cells.to_vec());
        table
    }

    #[test]
    fn columns_without_room_are_left_out_from_the_least_important_and_named() {
        let whole = table().drawn(&[0, 1, 2, 3, 4], None);
        assert_eq!((widest(&whole), table().fitted(66)), (66, whole));
        let narrow = table().fitted(65);
        assert!(narrow.contains("8.360") && !narrow.contains("0.12"), "{narrow}");
        assert!(
            narrow
                .ends_with("Columns left out for lack of width: stall. Redirected output has all columns.\n"),
            "{narrow}"
        );
        let narrow = table().fitted(40);
        assert!(narrow.contains("verdict") && !narrow.contains("8.360"), "{narrow}");
        assert!(
            narrow.contains("Columns left out for lack of width: best loss, perplexity, stall. "),
            "{narrow}"
        );
    }

    #[test]
    fn two_columns_are_wrapped_rather_than_left_out() {
        let narrow = table().fitted(26);
        let table: String = narrow.lines().filter(|line| !line.starts_with("Columns")).collect();
        assert!(table.contains("baseline"), "{narrow}");
        let lines = narrow.lines().filter(|line| !line.starts_with("Columns"));
        assert!(lines.into_iter().all(|line| line.chars().count() <= 26), "{narrow}");
    }
}

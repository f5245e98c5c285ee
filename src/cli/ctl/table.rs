//! Columns for people.
//!
//! In: rows of cells, and what an answer holds for them. Out: lines whose columns stand below each other, counted by characters. Cells are made plain here, so that no
//! text of others can leave its row.

use serde_json::Value;

use super::plain;

/// A table.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(headings: &[&str]) -> Table {
        let headings = headings.iter().map(|heading| (*heading).to_owned());
        Table {
            rows: vec![headings.collect()],
        }
    }

    /// One row more. An empty cell shows as a dash where it is not the first.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        let cells = cells.into_iter().enumerate();
        let cells = cells.map(|(index, cell)| match cell.as_ref() {
            "" if index > 0 => "-".to_owned(),
            cell => plain::line(cell).into_owned(),
        });
        self.rows.push(cells.collect());
    }

    /// Its lines, without a line end after the last.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths);
            let cells: Vec<String> = cells
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            cells.join("  ").trim_end().to_owned()
        };
        let lines: Vec<String> = self.rows.iter().map(line).collect();
        lines.join("\n")
    }

    /// Its lines; or this, where it has no row.
    pub fn text_or(&self, none: &str) -> String {
        match self.rows.len() {
            0 | 1 => none.to_owned(),
            _ => self.text(),
        }
    }
}

/// A list that an answer holds.
pub fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    let list = value.get(key).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// A value that an answer holds, for a cell; empty where it is not said. The table makes it plain.
pub fn cell(value: &Value, key: &str) -> String {
    match value.get(key) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => plain::value(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["NAME", "STATE", "WHY"]);
        table.row(["stable", "up", ""]);
        table.row(["für-später", "down\x1b[2J", "a b"]);
        let expected = "NAME        STATE          WHY\nstable      up             -\nfür-später  down\\u{1b}[2J  a b";
        assert_eq!(table.text(), expected);
        assert_eq!(Table::new(&["NAME"]).text_or("none"), "none");
    }
}

//! Formats tables without borders.

use comfy_table::{Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, presets};
use pillarbox::model::Status;

use super::Ink;
use crate::printable::one_line;

/// The name and the kind of a column.
#[derive(Debug, Clone, Copy)]
pub enum TableColumn {
    /// A column whose values are never wrapped, such as ids.
    Whole(&'static str),
    /// A column that is never wrapped and is aligned to the right.
    Number(&'static str),
    /// A column that is wrapped if the terminal is narrow.
    Wrapped(&'static str),
}

impl TableColumn {
    fn name(self) -> &'static str {
        match self {
            Self::Whole(name) | Self::Number(name) | Self::Wrapped(name) => name,
        }
    }
}

/// A table for people, at most as wide as the terminal.
pub struct TextTable {
    inner: comfy_table::Table,
    ink: Ink,
}

impl TextTable {
    /// A table with these columns.
    pub fn new(ink: Ink, columns: &[TableColumn]) -> Self {
        let mut inner = comfy_table::Table::new();
        inner.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        inner.style_text_only();
        inner.set_header(columns.iter().map(|column| dress(Cell::new(column.name()), ink, Attribute::Bold)));
        for (made, column) in inner.column_iter_mut().zip(columns) {
            made.set_padding((0, 2));
            if matches!(column, TableColumn::Number(_)) {
                made.set_cell_alignment(CellAlignment::Right);
            }
            if !matches!(column, TableColumn::Wrapped(_)) {
                made.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        Self { inner, ink }
    }

    /// Adds a row of texts, without characters that would control the terminal.
    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.inner.add_row(cells.into_iter().map(|cell| Cell::new(one_line(cell.as_ref()))));
    }

    /// Adds a row whose second cell is a coloured status.
    pub fn row_with_status<T: AsRef<str>>(
        &mut self,
        first: &str,
        status: Status,
        rest: impl IntoIterator<Item = T>,
    ) {
        let status_cell = match self.ink {
            Ink::Plain => Cell::new(status),
            Ink::Coloured => Cell::new(status).fg(colour(status)),
        };
        let rest = rest.into_iter().map(|cell| Cell::new(one_line(cell.as_ref())));
        self.inner.add_row([Cell::new(one_line(first)), status_cell].into_iter().chain(rest));
    }

    /// The table as text.
    pub fn render(&self) -> String {
        self.inner.trim_fmt()
    }
}

/// Formats names and values in two columns, without wrapping. The lines of a long value are indented to its
/// column.
pub fn fields(ink: Ink, pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| {
        let value = value.replace('\n', &format!("\n{:width$}  ", ""));
        format!("{}  {value}", ink.bold(&format!("{name:width$}")))
    };
    pairs.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn dress(cell: Cell, ink: Ink, attribute: Attribute) -> Cell {
    match ink {
        Ink::Plain => cell,
        Ink::Coloured => cell.add_attribute(attribute),
    }
}

fn colour(status: Status) -> Color {
    match status {
        Status::New => Color::Cyan,
        Status::Done => Color::Green,
        Status::Retry => Color::Yellow,
        Status::Dead => Color::Red,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up_and_end_without_spaces() {
        let mut table = TextTable::new(Ink::Plain, &[TableColumn::Whole("id"), TableColumn::Number("count")]);
        table.row(["a", "1"]);
        table.row(["bcd", "1,234"]);
        assert_eq!(table.render(), "id   count\na        1\nbcd  1,234");
    }

    #[test]
    fn fields_line_up_and_keep_lines_together() {
        let text = fields(Ink::Plain, &[("id", "1".to_owned()), ("error", "a\nb".to_owned())]);
        assert_eq!(text, "id     1\nerror  a\n       b");
    }
}

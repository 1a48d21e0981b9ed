//! Columns that fit their widest cell. Never wrapped; a terminal does that better than a table.

/// Space between two columns.
const GUTTER: &str = "  ";

/// Widths of columns, which only grow, so that rows that come later stand below the earlier ones.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    header: Vec<&'static str>,
    widths: Vec<usize>,
}

impl Table {
    /// A table with these headers.
    pub(crate) fn new(header: &[&'static str]) -> Self {
        Self {
            header: header.to_vec(),
            widths: header.iter().map(|word| width(word)).collect(),
        }
    }

    /// Makes room for a row.
    pub(crate) fn fit(&mut self, row: &[String]) {
        for (room, cell) in self.widths.iter_mut().zip(row) {
            *room = width(cell).max(*room);
        }
    }

    /// The line of the headers.
    pub(crate) fn head(&self) -> String {
        self.line(&self.header)
    }

    /// The line of a row.
    pub(crate) fn line<S: AsRef<str>>(&self, row: &[S]) -> String {
        let mut line = String::new();
        for (room, cell) in self.widths.iter().zip(row) {
            let cell = cell.as_ref();
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', room.saturating_sub(width(cell))));
            line.push_str(GUTTER);
        }
        line.truncate(line.trim_end().len());
        line
    }

    /// All lines of a table that is known as a whole.
    pub(crate) fn lines(header: &[&'static str], rows: &[Vec<String>], headers: bool) -> Vec<String> {
        let mut table = Self::new(header);
        if !headers {
            table.widths.fill(0);
        }
        rows.iter().for_each(|row| table.fit(row));
        let head = headers.then(|| table.head());
        head.into_iter()
            .chain(rows.iter().map(|row| table.line(row)))
            .collect()
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

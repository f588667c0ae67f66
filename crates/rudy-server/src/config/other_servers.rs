//! Directives of other servers, each with what to write in Rudy. Error messages give this advice, and the tables in
//! docs/from-nginx.md and docs/from-caddy.md are made of it.

use std::sync::LazyLock;

/// The data: a row for each advice.
const DATA: &str = include_str!("other_servers.tsv");

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| DATA.lines().filter_map(Row::parse).collect());

/// A row of the data.
pub(super) struct Row {
    /// `nginx`, `caddy`, `apache` or `haproxy`; `any` for words that users expect without having them from a server.
    pub(super) server: &'static str,
    /// The directives, spelled as in the server.
    pub(super) directives: Vec<&'static str>,
    /// What to write, or why nothing is needed.
    pub(super) advice: &'static str,
    /// The pages that explain it, relative to docs/.
    #[cfg(test)]
    pub(super) pages: Vec<&'static str>,
}

impl Row {
    fn parse(line: &'static str) -> Option<Self> {
        let mut columns = line.split('\t');
        let (server, directives, advice) = (columns.next()?, columns.next()?, columns.next()?);
        (!server.starts_with('#')).then(|| Self {
            server,
            directives: directives.split(' ').collect(),
            advice,
            #[cfg(test)]
            pages: columns.next().into_iter().flat_map(|pages| pages.split(' ')).collect(),
        })
    }

    fn has(&self, directive: &str) -> bool {
        self.directives.iter().any(|known| known.eq_ignore_ascii_case(directive))
    }
}

/// All rows.
#[cfg(test)]
pub(super) fn rows() -> &'static [Row] {
    &ROWS
}

/// What to write in place of a directive. If several servers have it, nginx comes first.
pub(super) fn advice(directive: &str) -> Option<&'static str> {
    ROWS.iter().find(|row| row.has(directive)).map(|row| row.advice)
}

/// Whether a server has a directive.
pub(super) fn is_directive(server: &str, directive: &str) -> bool {
    ROWS.iter().any(|row| row.server == server && row.has(directive))
}

//! Statements by server: they are written for MySQL and MariaDB, and changed in one place for TiDB.

use std::sync::OnceLock;

use pillarbox::model::{Layout, TableName};

use crate::sql::{Names, Sql};

/// The SQL that a server understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// MySQL and MariaDB.
    Mysql,
    /// TiDB, which lacks some of MySQL's statements.
    Tidb,
}

/// Words that TiDB refuses or ignores, and those that replace them, in this order.
const FOR_TIDB: [(&str, &str); 5] = [
    // TiDB has no share locks.
    ("LOCK IN SHARE MODE", "FOR UPDATE"),
    ("START TRANSACTION READ ONLY", "START TRANSACTION"),
    // CHECK constraints are off by default.
    ("CHECK (event_id IS NOT NULL)", "NOT NULL"),
    // No default of TiDB is the time in UTC. A local time would delay rows that are written in a session
    // east of UTC, so a row that names no time is due from the beginning of time on.
    (
        "available_at   datetime(6)  NOT NULL DEFAULT (utc_timestamp(6))",
        "available_at   datetime(6)  NOT NULL DEFAULT '1970-01-01 00:00:00'",
    ),
    ("DEFAULT (utc_timestamp(6))", "DEFAULT current_timestamp(6)"),
];

impl Dialect {
    /// The dialect of a server, by the version that it reports.
    pub(crate) fn of_version(version: &str) -> Self {
        if version.contains("TiDB") { Self::Tidb } else { Self::Mysql }
    }

    /// Changes a statement that is written for MySQL and MariaDB into one for this server.
    pub(crate) fn adapt(self, statement: String) -> String {
        match self {
            Self::Mysql => statement,
            Self::Tidb => FOR_TIDB.iter().fold(statement, |text, (words, tidb)| text.replace(words, tidb)),
        }
    }
}

/// The statements of one outbox in every dialect, and the dialect of its server once that is known.
pub(crate) struct Statements {
    mysql: Sql,
    tidb: Sql,
    known: OnceLock<Dialect>,
}

impl Statements {
    pub(crate) fn new(table: &TableName, layout: Layout) -> Self {
        let sql = |dialect| Sql::new(&Names::new(table, layout, dialect));
        Self { mysql: sql(Dialect::Mysql), tidb: sql(Dialect::Tidb), known: OnceLock::new() }
    }

    pub(crate) fn of(&self, dialect: Dialect) -> &Sql {
        match dialect {
            Dialect::Mysql => &self.mysql,
            Dialect::Tidb => &self.tidb,
        }
    }

    /// The statements for a server, whose dialect is remembered.
    pub(crate) fn learn(&self, dialect: Dialect) -> &Sql {
        if self.known.set(dialect).is_ok() && dialect == Dialect::Tidb {
            tracing::info!("the server is TiDB: the MySQL guide says what differs there");
        }
        self.of(dialect)
    }

    /// The statements for the server of this outbox, if it has answered before.
    pub(crate) fn known(&self) -> Option<&Sql> {
        self.known.get().map(|dialect| self.of(*dialect))
    }

    /// The statements for the server of this outbox, or those for MySQL until it has answered.
    pub(crate) fn likely(&self) -> &Sql {
        self.known().unwrap_or(&self.mysql)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::migrate::MIGRATIONS;

    fn statements() -> Statements {
        Statements::new(&TableName::usual(Layout::Native), Layout::Native)
    }

    /// Every statement of the files, and the migrations.
    fn texts() -> Vec<String> {
        let files = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql")).unwrap();
        let files = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
        let named = files.flat_map(|text| text.split("-- name: ").map(str::to_owned).collect::<Vec<_>>());
        named.chain(MIGRATIONS.iter().map(|text| (*text).to_owned())).collect()
    }

    #[test]
    fn the_version_tells_the_dialect() {
        for (version, dialect) in [
            ("8.0.11-TiDB-v8.5.6", Dialect::Tidb),
            ("9.7.0", Dialect::Mysql),
            ("10.11.6-MariaDB-0+deb12u1", Dialect::Mysql),
        ] {
            assert_eq!(Dialect::of_version(version), dialect, "{version}");
        }
    }

    #[test]
    fn words_that_tidb_refuses_are_replaced_in_every_statement() {
        for text in texts().into_iter().map(|text| Dialect::Tidb.adapt(text)) {
            for refused in ["SHARE", "READ ONLY", "DEFAULT (utc", "CHECK (event_id"] {
                assert!(!text.contains(refused), "{refused} in {text}");
            }
        }
        for (words, _) in FOR_TIDB {
            assert!(texts().iter().any(|text| text.contains(words)), "no statement has {words}");
        }
    }

    #[test]
    fn other_statements_are_the_same_on_every_server() {
        let changed = |text: &String| Dialect::Tidb.adapt(text.clone()) != *text;
        let mut names: Vec<String> = texts()
            .iter()
            .filter(|text| changed(text))
            .map(|text| text.lines().next().unwrap_or_default().to_owned())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "-- The outbox and the tables beside it. A plain writer needs only event_id, event_type and payload.",
                "done_lock",
                "items_leads",
                "join_show",
                "members_there",
                "node_lock",
                "peek",
                "written",
            ]
        );
        for text in texts() {
            assert_eq!(Dialect::Mysql.adapt(text.clone()), text);
        }
    }

    #[test]
    fn a_fence_is_an_exclusive_lock_on_tidb() {
        let statements = statements();
        assert!(statements.of(Dialect::Mysql).node_lock.ends_with("WHERE node_id = ? LOCK IN SHARE MODE"));
        assert!(statements.of(Dialect::Tidb).node_lock.ends_with("WHERE node_id = ? FOR UPDATE"));
    }

    #[test]
    fn columns_of_tidb_have_defaults_that_it_accepts() {
        let table = &statements().tidb.migrations[0];
        for column in [
            "event_id       varchar(255) NOT NULL,",
            "created_at     datetime(6)  NOT NULL DEFAULT current_timestamp(6),",
            "available_at   datetime(6)  NOT NULL DEFAULT '1970-01-01 00:00:00',",
        ] {
            assert!(table.contains(column), "{column}");
        }
    }

    #[test]
    fn the_dialect_of_the_server_is_remembered() {
        let statements = statements();
        assert!(statements.known().is_none());
        assert!(statements.likely().node_lock.contains("SHARE"));
        statements.learn(Dialect::Tidb);
        assert!(!statements.likely().node_lock.contains("SHARE"));
    }
}

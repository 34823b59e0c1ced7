//! The only place where SQLite and PostgreSQL are told different things.

/// A statement in the words of each database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sql {
    /// For SQLite.
    pub sqlite: &'static str,
    /// For PostgreSQL.
    pub postgres: &'static str,
}

impl From<&'static str> for Sql {
    fn from(both: &'static str) -> Self {
        Self {
            sqlite: both,
            postgres: both,
        }
    }
}

/// A SELECT whose rows stay as they are until the transaction ends. SQLite has one writer, so that nothing is needed;
/// PostgreSQL locks the rows, but not against rows that merely refer to them.
macro_rules! locking {
    ($($part:expr),+ $(,)?) => {
        $crate::dialect::Sql {
            sqlite: concat!($($part),+),
            postgres: concat!($($part),+, " FOR NO KEY UPDATE"),
        }
    };
}
pub(crate) use locking;

macro_rules! keep_hosts_into {
    () => {
        "INSERT INTO setup_run_hosts (setup_run_id, host, port, outcome, attempt, position, rule, redirected_from, \
         script_line, asked) "
    };
}

macro_rules! keep_hosts_update {
    () => {
        "ON CONFLICT (setup_run_id, host, port, outcome) DO UPDATE SET \
         rule = COALESCE(setup_run_hosts.rule, excluded.rule), \
         redirected_from = COALESCE(setup_run_hosts.redirected_from, excluded.redirected_from), \
         script_line = COALESCE(setup_run_hosts.script_line, excluded.script_line), \
         asked = CASE WHEN excluded.asked > setup_run_hosts.asked THEN excluded.asked ELSE setup_run_hosts.asked END"
    };
}

/// Keeps two first organizations from being made at once: with no row yet there is none to lock.
pub(crate) const LOCK_ORGANIZATIONS: Sql = Sql {
    sqlite: "SELECT 1",
    postgres: "LOCK TABLE organizations IN SHARE ROW EXCLUSIVE MODE",
};

/// How a transaction that writes begins. A deferred SQLite transaction that reads first and writes then would fail at
/// once when another one wrote in between, whatever the busy timeout is.
pub(crate) const BEGIN_WRITE: Sql = Sql {
    sqlite: "BEGIN IMMEDIATE",
    postgres: "BEGIN",
};

/// Rings a topic in every process that listens (PostgreSQL only: SQLite serves one process).
pub(crate) const NOTIFY: &str = "SELECT pg_notify($1, $2)";
/// The channel of [`NOTIFY`].
pub(crate) const CHANNEL: &str = "groundwork_doorbell";
/// Tells which connection's notifications are our own.
pub(crate) const BACKEND: &str = "SELECT CAST(pg_backend_pid() AS BIGINT)";

/// Inserts a list of hosts that a run asked for (`$3`, JSON) or adds to what is known of them, all in one statement:
/// thousands come at once, and a round trip for each would hold the transaction open for seconds.
pub(crate) const KEEP_HOSTS: Sql = Sql {
    sqlite: concat!(
        keep_hosts_into!(),
        "SELECT $1, value->>'host', value->>'port', value->>'outcome', $2, value->>'position', value->>'rule', \
         value->>'redirected_from', value->>'line', value->>'count' FROM json_each($3) WHERE true ",
        keep_hosts_update!()
    ),
    postgres: concat!(
        keep_hosts_into!(),
        "SELECT $1, host, port, outcome, $2, position, rule, redirected_from, line, count \
         FROM json_to_recordset(CAST($3 AS JSON)) AS asked (host TEXT, port BIGINT, outcome TEXT, position BIGINT, \
         rule BIGINT, redirected_from TEXT, line BIGINT, count BIGINT) ",
        keep_hosts_update!()
    ),
};

/// The tables of somebody else's SQLite file: tables, though no migration of ours was ever applied.
pub(crate) const FOREIGN_TABLES: &str = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND NOT EXISTS \
     (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '_sqlx_migrations')";

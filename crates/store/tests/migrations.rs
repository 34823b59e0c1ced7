//! The twin migrations: same steps, same schema.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::{collections::BTreeSet, fs, path::PathBuf};

use common::Bed;
use sha2::{Digest, Sha256};

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../migrations")
        .join(name)
}

/// File name and text of each step, in order.
fn steps(name: &str) -> Vec<(String, String)> {
    let mut steps: Vec<_> = fs::read_dir(folder(name))
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let text = fs::read_to_string(entry.path()).unwrap();
            (entry.file_name().into_string().unwrap(), text)
        })
        .collect();
    steps.sort();
    steps
}

#[test]
fn both_folders_have_the_same_steps_each_number_once() {
    let names = |folder| -> Vec<String> { steps(folder).into_iter().map(|step| step.0).collect() };
    assert_eq!(names("sqlite"), names("postgres"));
    let mut numbers = BTreeSet::new();
    for name in names("sqlite") {
        let (number, rest) = name.split_at_checked(4).unwrap_or((&name, ""));
        assert!(
            number.parse::<u16>().is_ok() && numbers.insert(number.to_owned()),
            "{name}: a number of its own in four digits"
        );
        let stem = rest
            .strip_prefix('_')
            .and_then(|rest| rest.strip_suffix(".sql"));
        let well_named = stem.is_some_and(|stem| {
            stem.chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        });
        assert!(well_named, "{name}: expected {number}_what_it_does.sql");
    }
}

/// The steps that have landed, with the digest of each twin. Whoever adds a step adds a line; no line ever changes,
/// since databases that have the step would be refused (`OpenError::Edited`).
const LANDED: &[(&str, &str, &str)] = &[
    (
        "0001_first_tables.sql",
        "d7ad72562779e2ec769d9f647089e2decbb283c67c23a3763f81f02f5847db13",
        "d7ad72562779e2ec769d9f647089e2decbb283c67c23a3763f81f02f5847db13",
    ),
    (
        "0002_sessions.sql",
        "8542c9001a3674d31aab4abf1ca2f3642ee94c4af28e0f36f15325d608f23df3",
        "8542c9001a3674d31aab4abf1ca2f3642ee94c4af28e0f36f15325d608f23df3",
    ),
    (
        "0003_run_records.sql",
        "7b8cc3012ec6b06e7c617edcfebf03acf0d22599bfdd4896c52af78b141e6a59",
        "7b8cc3012ec6b06e7c617edcfebf03acf0d22599bfdd4896c52af78b141e6a59",
    ),
    (
        "0004_secrets.sql",
        "b573384342ea4c42934dbb4d9f48a208498df2ec3e9a9a4085764ba9ca650c1c",
        "b573384342ea4c42934dbb4d9f48a208498df2ec3e9a9a4085764ba9ca650c1c",
    ),
    (
        "0008_open_lines.sql",
        "8717acce7f5f57d1e6ea141a4e3376da1eebd6b27391f2a5c5893c82ca771b97",
        "8717acce7f5f57d1e6ea141a4e3376da1eebd6b27391f2a5c5893c82ca771b97",
    ),
    (
        "0010_session_slots.sql",
        "5620c0a4103211d65ba2b0926f56526a5dcd54c0e509166429f3b81c951d4e33",
        "5620c0a4103211d65ba2b0926f56526a5dcd54c0e509166429f3b81c951d4e33",
    ),
];

#[test]
fn a_landed_step_is_never_edited() {
    let digests = |folder| -> Vec<String> {
        steps(folder)
            .iter()
            .map(|(_, text)| hex::encode(Sha256::digest(text)))
            .collect()
    };
    let found: Vec<_> = steps("sqlite")
        .into_iter()
        .zip(digests("sqlite").into_iter().zip(digests("postgres")))
        .map(|((name, _), (sqlite, postgres))| (name, sqlite, postgres))
        .collect();
    let landed: Vec<_> = LANDED
        .iter()
        .map(|(name, sqlite, postgres)| {
            (
                (*name).to_owned(),
                (*sqlite).to_owned(),
                (*postgres).to_owned(),
            )
        })
        .collect();
    assert_eq!(found, landed, "found in the folders, landed");
}

#[test]
fn a_column_added_to_rows_that_exist_has_a_value_for_them() {
    for folder in ["sqlite", "postgres"] {
        for (name, text) in steps(folder) {
            for statement in text.to_uppercase().split(';') {
                let adds = statement.contains("ADD COLUMN") && statement.contains("NOT NULL");
                assert!(
                    !adds || statement.contains("DEFAULT"),
                    "{folder}/{name}: a NOT NULL column needs a DEFAULT"
                );
            }
        }
    }
}

#[tokio::test]
async fn both_schemas_have_the_same_columns() {
    let sqlite = Bed::sqlite()
        .await
        .dump(
            "SELECT t.name || '.' || c.name || ' ' || LOWER(c.type) || \
             CASE WHEN c.\"notnull\" = 1 THEN ' NOT NULL' ELSE '' END || \
             CASE WHEN c.dflt_value IS NULL THEN '' ELSE ' DEFAULT ' || LOWER(REPLACE(c.dflt_value, '''', '')) END \
             FROM sqlite_master t JOIN pragma_table_info(t.name) c \
             WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' AND t.name <> '_sqlx_migrations'",
        )
        .await;
    let postgres = Bed::postgres()
        .await
        .dump(
            "SELECT table_name || '.' || column_name || ' ' || data_type || \
             CASE WHEN is_nullable = 'NO' THEN ' NOT NULL' ELSE '' END || \
             CASE WHEN column_default IS NULL THEN '' \
             ELSE ' DEFAULT ' || REGEXP_REPLACE(column_default, '''?::(bigint|text)|''', '', 'g') END \
             FROM information_schema.columns \
             WHERE table_schema = 'public' AND table_name <> '_sqlx_migrations'",
        )
        .await;
    same(sqlite, postgres);
}

#[tokio::test]
async fn both_schemas_have_the_same_indexes() {
    let sqlite = Bed::sqlite()
        .await
        .dump(
            "SELECT t.name || '.' || i.name || CASE WHEN i.\"unique\" = 1 THEN ' UNIQUE' ELSE '' END || \
             CASE WHEN i.partial = 1 THEN ' WHERE' ELSE '' END || ' ' || \
             (SELECT GROUP_CONCAT(x.name, ',') FROM pragma_index_info(i.name) x) \
             FROM sqlite_master t JOIN pragma_index_list(t.name) i WHERE t.type = 'table' AND i.origin = 'c'",
        )
        .await;
    let postgres = Bed::postgres()
        .await
        .dump(
            "SELECT t.relname || '.' || i.relname || CASE WHEN x.indisunique THEN ' UNIQUE' ELSE '' END || \
             CASE WHEN x.indpred IS NOT NULL THEN ' WHERE' ELSE '' END || ' ' || \
             (SELECT STRING_AGG(a.attname, ',' ORDER BY k.ord) \
             FROM UNNEST(x.indkey) WITH ORDINALITY AS k (attnum, ord) \
             JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.attnum) \
             FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid \
             JOIN pg_namespace n ON n.oid = t.relnamespace \
             WHERE n.nspname = 'public' AND NOT x.indisprimary AND t.relname <> '_sqlx_migrations'",
        )
        .await;
    same(sqlite, postgres);
}

fn same(sqlite: Vec<String>, postgres: Vec<String>) {
    assert!(sqlite.len() > 10, "{sqlite:?}");
    let sqlite: BTreeSet<_> = sqlite.into_iter().collect();
    let postgres: BTreeSet<_> = postgres.into_iter().collect();
    let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| -> Vec<String> {
        one.difference(other).cloned().collect()
    };
    assert_eq!(
        (only(&sqlite, &postgres), only(&postgres, &sqlite)),
        (Vec::new(), Vec::new()),
        "on SQLite only, on PostgreSQL only"
    );
}

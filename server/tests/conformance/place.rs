//! The built program on a data directory of its own, with a database of either kind.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::{live::Wire, postgres};

/// A data directory with the program on it.
pub struct Place {
    directory: tempfile::TempDir,
    database: Option<String>,
}

pub struct Running {
    pub child: Child,
    pub wire: Wire,
}

impl Place {
    pub fn new(database: Option<String>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("site/pkg")).unwrap();
        fs::write(
            directory.path().join("groundwork.toml"),
            format!(
                "site = {:?}\nlog = \"error\"\n[rate_limit]\nkey_per_second = 100000\nkey_burst = 100000\n\
                 address_per_second = 100000\naddress_burst = 100000\n",
                directory.path().join("site")
            ),
        )
        .unwrap();
        Self {
            directory,
            database,
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_groundwork"));
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env(
                "GROUNDWORK_CONFIG",
                self.directory.path().join("groundwork.toml"),
            )
            .env("GROUNDWORK_DATA", self.directory.path().join("data"))
            .stdin(Stdio::null());
        if let Some(url) = &self.database {
            command.env("GROUNDWORK_DATABASE", url);
        }
        command
    }

    pub fn say(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub fn start(&self) -> Running {
        let mut child = self
            .command(&["serve", "--no-worker", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let Some(address) = line.trim().strip_prefix("Groundwork is at http://") else {
            let mut errors = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut errors)
                .unwrap();
            panic!("{line:?}: {errors}");
        };
        Running {
            wire: Wire::to(address.parse().unwrap()),
            child,
        }
    }

    /// Rows of the database as JSON, as nobody but the server writes them.
    pub fn rows(&self, sql: &str) -> Vec<Value> {
        let output = match &self.database {
            Some(url) => postgres::query(
                url,
                &format!("SELECT COALESCE(json_agg(t), '[]') FROM ({sql}) t"),
            ),
            None => {
                let output = Command::new("python3")
                    .args([
                        "-c",
                        "import json, sqlite3, sys\nd = sqlite3.connect(sys.argv[1])\nd.row_factory = sqlite3.Row\n\
                         print(json.dumps([dict(r) for r in d.execute(sys.argv[2])]))\nd.commit()",
                    ])
                    .arg(self.directory.path().join("data/groundwork.sqlite3"))
                    .arg(sql)
                    .output()
                    .unwrap();
                assert!(
                    output.status.success(),
                    "{}",
                    String::from_utf8_lossy(&output.stderr)
                );
                String::from_utf8(output.stdout).unwrap()
            }
        };
        serde_json::from_str(&output).unwrap()
    }

    /// As if an hour had gone by: what a crash left claimed may be taken over.
    pub fn age_claims(&self) {
        let sql =
            "UPDATE receipts SET claimed_at = claimed_at - 7200000000 WHERE completed_at IS NULL";
        match &self.database {
            Some(url) => {
                postgres::query(url, sql);
            }
            None => {
                self.rows(sql);
            }
        }
    }

    /// An admin's key.
    pub fn admin(&self) -> String {
        let member = ["--email", "admin@example.com", "--role", "admin"];
        self.say(&[&["admin", "create-member"], &member[..]].concat());
        self.say(&[&["admin", "create-api-key"], &member[..]].concat())
    }
}

impl Running {
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

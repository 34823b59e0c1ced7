//! The invariants of ARCHITECTURE.md that a look at the source decides. A failure names the file and the rule.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that cannot go on ends the test"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// Files under `dir` that are ours, with their path from the root.
fn files(dir: &str, endings: &[&str]) -> Vec<(String, String)> {
    fn walk(path: &Path, found: &mut Vec<PathBuf>) {
        let Ok(entries) = fs::read_dir(path) else {
            return;
        };
        for entry in entries.map(Result::unwrap) {
            let name = entry.file_name();
            let skip = ["target", "node_modules", ".git", "data", "site"]
                .iter()
                .any(|s| name == *s);
            if skip {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), found);
            } else {
                found.push(entry.path());
            }
        }
    }
    let root = root();
    let mut paths = Vec::new();
    walk(&root.join(dir), &mut paths);
    paths.sort();
    paths
        .into_iter()
        .filter(|path| {
            path.extension()
                .and_then(|e| e.to_str())
                .is_some_and(|e| endings.contains(&e))
        })
        .map(|path| {
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
            (name, text)
        })
        .collect()
}

/// The code of a Rust file without comment lines and without what is compiled for tests alone (by our convention the
/// last item of a file).
fn code(text: &str) -> String {
    text.split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Every crate of the workspace with the names of its dependencies, development ones apart.
fn dependencies() -> BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> {
    let root = root();
    let mut manifests = vec![root.join("app/Cargo.toml"), root.join("server/Cargo.toml")];
    manifests.extend(
        fs::read_dir(root.join("crates"))
            .unwrap()
            .map(|entry| entry.unwrap().path().join("Cargo.toml"))
            .filter(|path| path.is_file()),
    );
    manifests
        .into_iter()
        .map(|path| {
            let manifest: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
            let name = manifest["package"]["name"].as_str().unwrap().to_owned();
            let keys = |table: Option<&toml::Value>| -> BTreeSet<String> {
                table
                    .and_then(toml::Value::as_table)
                    .into_iter()
                    .flat_map(|table| table.keys().cloned())
                    .collect()
            };
            let mut normal = keys(manifest.get("dependencies"));
            normal.extend(keys(manifest.get("build-dependencies")));
            for target in manifest
                .get("target")
                .and_then(toml::Value::as_table)
                .into_iter()
                .flat_map(|targets| targets.values())
            {
                normal.extend(keys(target.get("dependencies")));
            }
            (name, (normal, keys(manifest.get("dev-dependencies"))))
        })
        .collect()
}

#[test]
fn each_crate_knows_only_what_the_architecture_lets_it() {
    let crates = dependencies();
    let only = |dependency: &str, allowed: &[&str]| {
        for (name, (normal, dev)) in &crates {
            let uses = normal
                .iter()
                .chain(dev)
                .any(|d| d == dependency || d.starts_with(&format!("{dependency}_")));
            assert!(
                !uses || allowed.contains(&name.as_str()),
                "{name} depends on {dependency}; only {allowed:?} may"
            );
        }
    };
    only("sqlx", &["store"]);
    only("axum", &["server", "app"]);
    only("tower", &["server"]);
    only("leptos", &["server", "app", "frontend"]);
    only("clap", &["server"]);
    only("kube", &["execution"]);

    let own: BTreeSet<&str> = crates.keys().map(String::as_str).collect();
    let may = |name: &str, allowed: &[&str]| {
        for dependency in &crates[name].0 {
            assert!(
                !own.contains(dependency.as_str()) || allowed.contains(&dependency.as_str()),
                "{name} depends on {dependency}; of ours it may know {allowed:?}"
            );
        }
    };
    may("domain", &[]);
    may("wire", &["domain"]);
    may("control", &["domain", "wire"]);
    may("store", &["control", "domain", "wire"]);
    may("execution", &["domain"]);
    may("worker", &["domain", "execution", "wire"]);
    may("app", &["control", "domain", "wire"]);
    may("frontend", &["app"]);
    // Only the server knows all of them, and none but tests knows the test kit.
    for (name, (normal, _)) in &crates {
        assert!(!normal.contains("testkit"), "{name} ships the test kit");
        assert!(
            name == "server" || !normal.contains("server"),
            "{name} knows the server"
        );
    }
}

#[test]
fn the_rules_depend_on_no_runtime_database_or_framework() {
    let allowed: BTreeSet<&str> = [
        "aho-corasick",
        "hex",
        "idna",
        "regex",
        "schemars",
        "serde",
        "serde_json",
        "sha2",
        "thiserror",
        "time",
        "uuid",
    ]
    .into();
    for dependency in &dependencies()["domain"].0 {
        assert!(
            allowed.contains(dependency.as_str()),
            "domain depends on {dependency}: it holds rules alone, and compiles for the browser"
        );
    }
}

/// Where time, chance and the environment may be asked directly.
#[test]
fn time_ids_and_settings_come_through_their_ports() {
    let rules: &[(&[&str], &[&str], &str)] = &[
        (
            &[
                "SystemTime::now",
                "Instant::now",
                "OffsetDateTime::now",
                "Uuid::now_v7",
                "Uuid::new_v4",
                "Uuid::new_v7",
                "time::sleep",
                "rand::random",
                "rand::rng()",
            ],
            &[
                "crates/domain/src",
                "crates/control/src",
                "crates/store/src",
                "crates/wire/src",
                "crates/worker/src",
                "app/src",
            ],
            "ask the Clock and Ids ports",
        ),
        (
            &["env::var", "env::vars"],
            &[
                "crates/domain/src",
                "crates/control/src",
                "crates/store/src",
                "crates/wire/src",
                "crates/worker/src",
                "app/src",
                "server/src",
            ],
            "settings are read in server/src/config alone",
        ),
        (
            &["println!", "eprintln!", "print!", "dbg!"],
            &[
                "crates/domain/src",
                "crates/control/src",
                "crates/store/src",
                "crates/worker/src",
                "server/src",
            ],
            "log with tracing",
        ),
    ];
    // Path, word, reason.
    let exceptions: &[(&str, &str, &str)] = &[(
        "server/src/config/",
        "env::var",
        "the one place that reads settings",
    )];
    let mut wrong = Vec::new();
    for (words, dirs, instead) in rules {
        for dir in *dirs {
            for (name, text) in files(dir, &["rs"]) {
                if name.ends_with("tests.rs") || name.contains("/tests/") {
                    continue;
                }
                let code = code(&text);
                for word in *words {
                    let excepted = exceptions.iter().any(|(path, excepted, _)| {
                        name.starts_with(path) && word.starts_with(excepted)
                    });
                    if code.contains(word) && !excepted {
                        wrong.push(format!("{name} uses {word}: {instead}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sql_takes_time_and_chance_as_parameters() {
    let mut wrong = Vec::new();
    let sources = files("crates/store/src", &["rs"])
        .into_iter()
        .chain(files("migrations", &["sql"]));
    for (name, text) in sources {
        let code = code(&text).to_ascii_lowercase();
        for word in [
            "now()",
            "current_timestamp",
            "random()",
            "strftime",
            "ilike",
        ] {
            // `clock.now()` is the port.
            let hits = code.matches(word).count();
            let port = if word == "now()" {
                code.matches(".now()").count() + code.matches("_now()").count()
            } else {
                0
            };
            if hits > port {
                wrong.push(format!("{name}: {word}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unsafe_code_is_in_execution_alone() {
    for dir in ["app", "server/src", "crates"] {
        for (name, text) in files(dir, &["rs"]) {
            if name.starts_with("crates/execution/") {
                continue;
            }
            let code = code(&text);
            assert!(
                !code.contains("unsafe {")
                    && !code.contains("unsafe fn")
                    && !code.contains("unsafe impl")
                    && !code.contains("allow(unsafe_code)"),
                "{name} holds unsafe code"
            );
        }
    }
}

#[test]
fn files_can_be_read_in_a_sitting() {
    const MOST: usize = 500;
    // Path, reason.
    let exceptions: BTreeMap<&str, &str> = [(
        "crates/domain/tests/environment_create.rs",
        "one row for each refusal of the spec's tables",
    )]
    .into();
    let mut long = Vec::new();
    for dir in [
        "app",
        "server",
        "crates",
        "style",
        "end2end",
        "migrations",
        "runner",
        "scripts",
    ] {
        for (name, text) in files(dir, &["rs", "ts", "css", "sql", "sh"]) {
            let lines = text.lines().count();
            if lines > MOST && !exceptions.contains_key(name.as_str()) {
                long.push(format!("{name}: {lines} lines"));
            }
        }
    }
    assert!(
        long.is_empty(),
        "over {MOST} lines; split them, or list a reason here:\n{}",
        long.join("\n")
    );
    for name in exceptions.keys() {
        assert!(
            root().join(name).is_file(),
            "{name} is listed here and is no more"
        );
    }
}

#[test]
fn both_databases_have_the_same_migrations() {
    let names = |dir: &str| -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(root().join("migrations").join(dir))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let sqlite = names("sqlite");
    assert!(!sqlite.is_empty());
    assert_eq!(sqlite, names("postgres"));
    // A number may be free: steps are made side by side, each with a number of its own.
    let numbers: BTreeSet<&str> = sqlite.iter().filter_map(|name| name.get(..4)).collect();
    assert_eq!(
        numbers.len(),
        sqlite.len(),
        "a number is used twice: {sqlite:?}"
    );
    for name in &sqlite {
        let number = name.split_once('_').map(|(number, _)| number.as_bytes());
        assert!(
            number.is_some_and(|n| n.len() == 4 && n.iter().all(u8::is_ascii_digit))
                && name.ends_with(".sql"),
            "{name}: migrations are called NNNN_name.sql"
        );
    }
}

#[test]
fn package_registries_are_named_in_the_host_groups_alone() {
    // Put together here, so that this file does not name them either.
    let hosts = [
        ["registry.npm", "js.org"].concat(),
        ["files.python", "hosted.org"].concat(),
        ["pypi", ".org"].concat(),
        ["static.crates", ".io"].concat(),
        ["deb.debian", ".org"].concat(),
    ];
    let mut wrong = Vec::new();
    for dir in [
        "app",
        "server",
        "crates",
        "style",
        "end2end",
        "runner",
        "scripts",
        "docs",
        "migrations",
    ] {
        for (name, text) in files(
            dir,
            &[
                "rs", "ts", "css", "sh", "md", "toml", "json", "sql", "env", "packages",
            ],
        ) {
            if name.starts_with("crates/domain/src/host_groups") {
                continue;
            }
            for host in &hosts {
                if text.contains(host.as_str()) {
                    wrong.push(format!("{name}: {host}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn guides_name_only_files_targets_tests_and_settings_that_are_there() {
    let root = root();
    let makefile = fs::read_to_string(root.join("Makefile")).unwrap();
    let sources: String = ["server", "crates", "scripts", "end2end", "app"]
        .iter()
        .flat_map(|dir| files(dir, &["rs", "sh", "py", "ts"]))
        .map(|(_, text)| text)
        .collect();
    let there = |path: &str| {
        // Of a pattern its directory.
        let start = path.split('*').next().unwrap_or(path);
        let dir = start.rsplit_once('/').map_or(start, |(dir, _)| dir);
        root.join(if start == path { path } else { dir }).exists()
    };
    let mut guides = files("docs", &["md"]);
    for own in ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"] {
        guides.push((own.into(), fs::read_to_string(root.join(own)).unwrap()));
    }
    let mut wrong = Vec::new();
    let mut looked_at = 0;
    for (name, text) in guides {
        let mut missing = |what: &str, found: bool| {
            looked_at += 1;
            if !found {
                wrong.push(format!("{name}: {what}"));
            }
        };
        let apart = |c: char| !c.is_ascii_alphanumeric() && !"_./*-".contains(c);
        for word in text.split(apart).map(|word| word.trim_end_matches('.')) {
            let top = word.split_once('/').map_or("", |(top, _)| top);
            if [
                "crates",
                "server",
                "app",
                "scripts",
                "end2end",
                "migrations",
            ]
            .contains(&top)
                && !word.contains("NNNN")
            {
                missing(word, there(word));
            }
            if let Some(setting) = word.strip_prefix("GROUNDWORK_") {
                let setting = setting.split(['/', '.']).next().unwrap_or_default();
                missing(word, sources.contains(&format!("GROUNDWORK_{setting}")));
            }
        }
        for command in text.split('`').skip(1).step_by(2) {
            let said: Vec<&str> = command.split_whitespace().collect();
            match said.as_slice() {
                ["make", target, ..] => {
                    missing(command, makefile.contains(&format!("\n{target}:")));
                }
                ["cargo", "test" | "bench", "-p", of, rest @ ..] => {
                    let file = match rest {
                        ["--test", test, ..] => format!("{of}/tests/{test}"),
                        ["--bench", bench, ..] => format!("{of}/benches/{bench}.rs"),
                        _ => (*of).to_owned(),
                    };
                    let places = ["", "crates/"].map(|parent| format!("{parent}{file}"));
                    let found = places.iter().any(|p| there(p) || there(&format!("{p}.rs")));
                    missing(command, found);
                }
                _ => {}
            }
        }
    }
    assert!(looked_at > 60, "only {looked_at}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

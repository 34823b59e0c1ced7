//! What asks, on a terminal of its own (`script` of util-linux makes one).

use std::process::Stdio;

use tokio::{io::AsyncWriteExt, process::ChildStdin};

use crate::place::{Place, Ran, Running};

/// The program on a terminal; what is typed goes to the second.
fn on_a_terminal(place: &Place, signed_in: bool, args: &[&str]) -> (Running, ChildStdin) {
    then_on_a_terminal(place, signed_in, args, "")
}

/// The program on a terminal and, when it has ended, more commands on the same one.
fn then_on_a_terminal(
    place: &Place,
    signed_in: bool,
    args: &[&str],
    then: &str,
) -> (Running, ChildStdin) {
    let mut line = [env!("CARGO_BIN_EXE_groundwork")]
        .iter()
        .chain(args)
        .map(|word| format!("'{word}'"))
        .collect::<Vec<_>>()
        .join(" ");
    if !then.is_empty() {
        // Ctrl-C goes to the shell, too, which is to stay.
        line = format!("trap : INT; {line}; {then}");
    }
    let mut command = if signed_in {
        place.command(&[])
    } else {
        place.bare(&[])
    };
    let variables: Vec<_> = command
        .as_std()
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    command = tokio::process::Command::new("script");
    command
        .args([
            "--quiet",
            "--return",
            "--flush",
            "--command",
            &line,
            "/dev/null",
        ])
        .env_clear()
        .envs(variables)
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut running = Running::start(command);
    let typed = running.input();
    (running, typed)
}

#[tokio::test(flavor = "multi_thread")]
async fn login_asks_for_the_server_and_for_the_key_which_it_does_not_show() {
    let place = Place::open().await;
    let (mut login, mut typed) = on_a_terminal(&place, false, &["login"]);
    login.until("Server URL: ").await;
    typed
        .write_all(format!("{}\r", place.url).as_bytes())
        .await
        .unwrap();
    login.until("/account").await;
    login.until("API key: ").await;
    typed
        .write_all(format!("{}\r", place.key).as_bytes())
        .await
        .unwrap();
    login.until("The key is stored in").await;
    let said = login.end().await.ok();
    assert!(!said.contains("rma_"), "the key was shown: {said}");
    place.app.environment("Stored", "").await;
    let listed = Ran::of(place.bare(&["env", "list"]).output().await.unwrap());
    assert!(listed.ok().contains("Stored"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_at_the_key_ends_login_and_gives_the_terminal_back() {
    let place = Place::open().await;
    let args = ["login", "--url", &place.url];
    let (mut login, mut typed) =
        then_on_a_terminal(&place, false, &args, "echo ended with $?; stty -a");
    login.until("API key: ").await;
    typed.write_all(b"rma_half\x03").await.unwrap();
    login.until("ended with 130").await;
    let said = login.end().await.ok();
    assert!(!said.contains("rma_"), "the key was shown: {said}");
    let settings: Vec<_> = said.split_whitespace().collect();
    for setting in ["echo", "icanon", "isig", "-echonl"] {
        assert!(settings.contains(&setting), "{setting}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_asks_and_a_plan_that_is_old_by_the_answer_is_not_carried_out() {
    let place = Place::open().await;
    let id = place.app.environment("shared", "").await;
    let path = place.file("env.yaml", "name: shared\nresources: {cpu_milli: 1000}\n");
    let ask = async |answer: &str, meanwhile: bool| {
        let (mut apply, mut typed) = on_a_terminal(&place, true, &["env", "apply", "-f", &path]);
        apply.until("Apply these changes? [y/N] ").await;
        assert!(apply.seen.contains("resources"), "{}", apply.seen);
        if meanwhile {
            let change = serde_json::json!({"resources": {"cpu_milli": 4000}});
            let control = &place.app.control;
            control
                .update_environment(&place.app.admin, id, &change, None)
                .await
                .unwrap();
        }
        typed
            .write_all(format!("{answer}\r").as_bytes())
            .await
            .unwrap();
        apply.end().await
    };
    let no = ask("", false).await;
    assert!(
        no.code == Some(1) && no.out.contains("Nothing was changed"),
        "{no:#?}"
    );
    let old = ask("y", true).await;
    assert!(
        old.code == Some(1) && old.out.contains("while you read the plan"),
        "{old:#?}"
    );
    let yes = ask("yes", false).await;
    assert!(yes.ok().contains("changed"));
}

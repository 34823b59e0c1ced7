//! Normalising, statements, and every warning with what must not draw it (spec 1-domain, *Script*, *Script warnings*).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use domain::setup_script::{WarningCode, lint, normalise, problem, statement_at};
use proptest::prelude::*;

/// The warnings as `line:code`.
fn warnings(script: &str) -> Vec<String> {
    lint(script)
        .iter()
        .map(|warning| format!("{}:{}", warning.line, warning.code.as_str()))
        .collect()
}

/// Whether `code` is among the warnings.
fn warns(code: &str, script: &str) -> bool {
    lint(script)
        .iter()
        .any(|warning| warning.code.as_str() == code)
}

#[test]
fn normalising_keeps_the_lines_where_they_are() {
    for (sent, saved) in [
        ("", ""),
        (" \r\n\t\n", ""),
        ("a", "a\n"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("\n\na  \n", "\n\na\n"),
        ("  a\t \n\n b \n\n\n", "  a\n\n b\n"),
        ("a\\ \nb", "a\\\nb\n"),
        ("a\rb", "a\rb\n"),
        ("é\u{a0}\n", "é\n"),
    ] {
        assert_eq!(normalise(sent), saved, "{sent:?}");
    }
    assert_eq!(problem(&"x".repeat(65_536)), None);
    assert_eq!(problem(&format!("{}\n", "x".repeat(65_536))), None);
    assert!(problem(&"x".repeat(65_537)).unwrap().contains("65536"));
    assert!(problem("a\0").unwrap().contains("NUL"));
}

#[test]
fn each_code_is_drawn_by_what_it_is_about() {
    for (code, scripts) in [
        (
            "bash_lc_wrapper",
            vec![
                "bash -lc 'make'",
                "bash -l -c make",
                "bash -o pipefail -c 'make'",
                "bash --rcfile x -lc make",
                "sh -c \"make all\"",
                "exec bash -c make",
                "A=1 bash -ec make",
                "sudo bash -lc 'npm ci'",
                "timeout 60 bash -lc 'make'",
                "/bin/bash -lc make",
                "if true; then bash -lc make; fi",
            ],
        ),
        (
            "curl_pipe_sh",
            vec![
                "curl -fsSL https://a.example/i | sh",
                "curl https://a.example | sudo -E bash -",
                "curl https://a.example | bash -o pipefail",
                "curl https://a.example | bash -eu -o pipefail -s -- --yes",
                "wget -qO- https://a.example | bash -s -- --yes",
                "curl https://a.example | tee i.sh | bash",
                "bash <(curl -s https://a.example)",
                "sh -c \"$(curl -fsSL https://a.example)\"",
                "eval \"$(curl https://a.example)\"",
                "source <(curl https://a.example)",
                "curl https://a.example | python3 -",
                "curl https://a.example | python3",
                "curl https://a.example |\n  bash",
                "curl https://a.example | env A=1 sh",
                "(curl https://a.example) | sh",
                "curl \\\n  https://a.example \\\n  | sh",
                "x=`curl https://a.example | sh`",
                "bash -c \"$(wget -O- https://a.example)\"",
            ],
        ),
        (
            "unpinned_install",
            vec![
                "/workspace/.venv/bin/pip install requests",
                "pip3 install 'requests>=2'",
                "python3 -m pip install requests pandas==2.0",
                "uv pip install --python /workspace/.venv/bin/python requests",
                "uv tool install ruff",
                "pipx install ruff",
                "pip install -U pip",
                "pip install git+https://a.example/b",
                "pip install --index-url https://a.example/simple requests",
                "npm install -g typescript",
                "npm i -g typescript@latest",
                "npm install -g @scope/tool",
                "npm i -g pnpm@^9",
                "yarn global add serve",
                "pnpm add -g serve",
                "sudo apt-get install -y jq",
                "sudo apt install -y jq=1.6 curl",
                "cargo install ripgrep",
                "cargo install --git https://a.example/b",
                "cargo +stable install a",
                "sudo gem install bundler",
                "sudo DEBIAN_FRONTEND=noninteractive apt-get install -yq jq",
                "sudo apt-get update && sudo apt-get install -y jq",
                "cd /x && npm install -g typescript || true",
                "for p in a b; do pip install requests; done",
                "f() { pip install requests; }",
            ],
        ),
        (
            "rm_rf_root",
            vec![
                "rm -rf /",
                "sudo rm -rf /*",
                "rm -fr -- /",
                "rm -r /usr",
                "rm -rf ~",
                "rm -rf $HOME",
                "rm -rf \"${HOME}/\"",
                "rm -rf \"$BUILD_DIR/\"",
                "rm -rf $DIR/*",
                "rm -rf ${DIR}/",
                "rm --recursive --force /etc/",
                "rm -rf --no-preserve-root /",
                "cd /x; rm -Rf //",
            ],
        ),
        (
            "apt_without_sudo",
            vec![
                "apt-get update",
                "apt-get install -y jq=1",
                "apt install -y jq",
                "A=1 apt-get -y install jq",
                "apt-get update && sudo apt-get install -y jq",
                "dpkg -i ./a.deb",
                "/usr/bin/apt-get update",
                "x=$(apt-get update)",
            ],
        ),
        (
            "apt_without_yes",
            vec![
                "sudo apt-get install jq",
                "sudo apt upgrade",
                "sudo apt-get -q install jq",
                "sudo apt-get remove jq",
                "sudo apt-get install \\\n  jq \\\n  curl",
            ],
        ),
        (
            "export_does_not_persist",
            vec![
                "export A=1",
                "export A",
                "declare -x A=1",
                "source /workspace/.venv/bin/activate",
                ". ./env.sh",
                "alias ll='ls -l'",
                "true && export A=1",
            ],
        ),
        (
            "trace_prints_values",
            vec![
                "set -x",
                "set -ex",
                "set -euxo pipefail",
                "set -o xtrace",
                "set -o errexit -o xtrace",
                "set -eu -o pipefail -x",
                "set +o history -x",
                "bash -o xtrace build.sh",
                "bash -x build.sh",
            ],
        ),
        (
            "broken_continuation",
            vec![
                "make \\ \n  all",
                "make \\  # note\n  all",
                "make \\\n  # note\n  all",
                "make \\\t\n all",
            ],
        ),
        (
            "system_python",
            vec![
                "pip install requests==2",
                "sudo pip install requests==2",
                "python3 -m pip install requests==2",
                "pip install --break-system-packages requests==2",
                "uv pip install --system requests==2",
                "/usr/bin/pip3 install requests==2",
                "/usr/bin/python3 -m pip install -r requirements.txt",
            ],
        ),
        (
            "path_replaced",
            vec![
                "PATH=/opt/bin",
                "export PATH=/opt/bin:/usr/bin",
                "export PATH=\"/opt/bin\"",
                "declare -x PATH=/opt/bin",
            ],
        ),
        (
            "background_process",
            vec![
                "sleep 600 &",
                "npm run dev &\necho started",
                "nohup ./server > /dev/null 2>&1 &",
                "(cd a && ./server) &",
                "while true; do sleep 1; done &",
            ],
        ),
        (
            "inner_shell_hides_failure",
            vec![
                "bash <<'E'\nfalse\necho after\nE",
                "sudo -u postgres sh -s <<-E\n\tcd /x\n\tmake\n\tE\necho done",
                "bash <<E\nfalse; echo after\nE",
                "cat <<A | bash <<B\nx\nA\nmake\n# note\nmake install\nB",
                "bash <<E\nset +e\nmake\nE",
            ],
        ),
        (
            "docker_not_kept",
            vec![
                "docker pull alpine",
                "sudo docker build -t x .",
                "docker compose up -d",
                "docker-compose up",
            ],
        ),
    ] {
        for script in scripts {
            assert!(
                warns(code, script),
                "{script:?} draws no {code}: {:?}",
                warnings(script)
            );
        }
    }
    assert_eq!(WarningCode::ALL.len(), 14);
}

#[test]
fn what_is_no_fault_draws_nothing() {
    for script in [
        "",
        "\n\n",
        "echo hello",
        // Comments, quotes, heredocs.
        "# curl https://a.example | sh",
        "true # rm -rf /",
        "echo 'curl https://a.example | sh'",
        "echo \"rm -rf / ; apt-get update\"",
        "echo it\\'s; echo \"apt-get install\"",
        "cat > run.sh <<'EOF'\nexport A=1\nrm -rf /\ncurl x | sh\nit's\nEOF\necho done",
        "cat > run.sh <<EOF\nset -x\napt-get update\nEOF",
        "cat <<-EOF\n\tset -x\n\tEOF\necho \"$A\"",
        "cat <<A <<B\nset -x\nA\nset -x\nB\necho x",
        "x=$(cat <<'E'\nset -x ) it's\nE\n)\necho \"$x\"",
        "cat <<< 'set -x'",
        "echo a#b; echo ${#a}; echo $#",
        "a=(apt-get install jq)",
        "a=(\n  curl # the (list\n  pip install\n)\necho \"${a[@]}\"",
        "case $1 in\n  apt-get) echo a ;;\n  (b|c) echo b ;;\n  *) echo c;;\nesac",
        "x=$(case a in a) echo 1;; esac); echo $x",
        "echo $'it\\'s set -x'; echo ok",
        "echo $(( (1 + 2) * 3 )) \"$((2<<3))\"; (( i = 1 << 2 )); echo ok",
        "[[ $a =~ ^(x|y)$ ]] && echo yes",
        "echo \"${a:-'}\" ok; echo \"set -x\"",
        "echo \"$(echo \"nested $(echo 'deep )')\")\"",
        // A shell where it is needed.
        "sudo sh -c 'echo 1 > /proc/sys/vm/drop_caches'",
        "find . | xargs -n1 sh -c 'echo $0'",
        "timeout 5 bash -c 'until nc -z localhost 80; do sleep 1; done'",
        "bash build.sh -c x",
        "bash ./install.sh",
        // One that stops at a failure, or has one command to fail.
        "bash -e <<E\nfalse\necho after\nE",
        "bash -eu -o pipefail <<E\nfalse\necho after\nE",
        "bash -o errexit <<E\nfalse\necho after\nE",
        "bash -o pipefail -o errexit <<E\nfalse\necho after\nE",
        "set +x",
        "set +o xtrace",
        "set -o pipefail -- -x",
        "bash <<E\n# first\nset -euo pipefail\nmake\nE",
        "bash <<E\ncd x &&\n  make\nE",
        "bash build.sh <<E\nyes\nyes\nE",
        "cat <<E\none\ntwo\nE",
        "docker --version",
        // Downloads that are not run.
        "curl https://a.example -o i.sh\nsha256sum -c sums\nbash i.sh",
        "curl https://a.example | python3 -m json.tool",
        "curl https://a.example | python3 -c 'import sys'",
        "curl https://a.example | tar xz",
        "curl https://a.example | sudo tee /etc/apt/keyrings/a.asc",
        "curl https://a.example || sh fallback.sh",
        "curl https://a.example | jq . ; sh ok.sh",
        "cat a | sh",
        "curl https://a.example | bash fixed.sh",
        "curl https://a.example | node process.js",
        "(curl https://a.example | cat); sh a.sh",
        // Pinned, or not to be judged here.
        "uv venv /workspace/.venv\nuv pip install --python /workspace/.venv/bin/python \"requests==2.32.3\" pandas==2.2.3",
        "/workspace/.venv/bin/pip install -r requirements.txt",
        "/workspace/.venv/bin/pip install -e . ./local a.whl \"$PACKAGES\"",
        "/workspace/.venv/bin/pip install -c constraints.txt requests",
        "/workspace/.venv/bin/pip install 'a @ https://a.example/a-1.whl' git+https://a.example/b@v1",
        "/workspace/.venv/bin/pip install --index-url https://a.example/simple requests==2",
        "uv tool install ruff@0.4.0",
        "uv sync",
        "uv add requests",
        "npm ci",
        "npm install",
        "npm run install",
        "npm install -g typescript@5.9.3 @scope/a@1",
        "npm install ./local",
        "npm --prefix web install",
        "yarn install",
        "pnpm install --frozen-lockfile",
        "sudo apt-get install -y jq=1.6-2.1",
        "sudo apt-get install -y ./a.deb",
        "sudo apt-get update",
        "sudo apt-get update -y",
        "apt list --installed",
        "apt-cache policy jq",
        "sudo apt-get -s install jq=1",
        "yes | sudo apt-get install jq=1",
        "sudo apt-get -qq install jq=1",
        "sudo apt-get -o APT::Get::Assume-Yes=true install jq=1",
        "sudo apt-get install -t stable -y jq=1",
        "sudo -E apt-get --assume-yes install jq=1",
        "sudo -u root apt-get install -y jq=1",
        "cargo install ripgrep --version 14.1.0",
        "cargo install ripgrep@14.1.0",
        "cargo install --path .",
        "cargo install --git https://a.example/b --rev 1234",
        "cargo build",
        "sudo gem install bundler:2.5.0",
        "sudo gem install bundler -v 2.5.0",
        // Removing what may go.
        "rm -rf /workspace/build",
        "rm -rf build",
        "rm -rf \"${DIR:?}/\"",
        "rm -rf \"$DIR/cache\"",
        "sudo rm -rf /var/lib/apt/lists/*",
        "rm -f /",
        "rm -rf ./*",
        "rm -rf \"$DIR\"",
        "rm file",
        // Values.
        "PATH=/opt/bin:$PATH make",
        "PATH=/opt/bin make",
        "PATH=\"/opt/bin:${PATH}\"",
        "readonly A=1",
        "MYPATH=/x",
        "declare -a x",
        "set -e",
        "set +x",
        "set -euo pipefail",
        "set -- -x",
        // Continuations.
        "make \\\n  all \\\n  && echo ok",
        "echo a\\ b",
        "echo 'a \\ '\necho b",
        "echo \"a \\\nb\"",
        // Python of its own.
        "python3 -m venv /workspace/.venv\npip install requests==2",
        "/workspace/.venv/bin/python -m pip install requests==2",
        "pip install --target /opt/lib requests==2",
        "pip download requests",
        "pip --version",
        "uv pip install requests==2",
        // Background that ends.
        "make a &\nmake b &\nwait",
        "./server &\npid=$!\ncurl localhost\nkill $pid",
        "a && b",
        "cmd 2>&1",
        "cmd &> log",
        "cmd >& log",
        "cmd |& tee log",
    ] {
        assert_eq!(warnings(script), Vec::<String>::new(), "{script:?}");
    }
}

#[test]
fn warnings_name_their_line_in_order() {
    let script = "#!/bin/bash\nset -ex\n\ncat <<EOF > f\nset -x\nEOF\nsudo apt-get install \\\n  jq\nexport PATH=/x\ncurl https://a.example |\n  sh\n";
    assert_eq!(
        warnings(script),
        [
            "2:trace_prints_values",
            "7:unpinned_install",
            "7:apt_without_yes",
            "9:export_does_not_persist",
            "9:path_replaced",
            "11:curl_pipe_sh",
        ]
    );
    for warning in lint(script) {
        assert!(
            warning.message.ends_with('.') && warning.message.len() > 40,
            "{}",
            warning.message
        );
    }
    let message = &lint("pip install pandas numpy==1 scipy")[0].message;
    assert!(
        message.contains("pandas (and 1 more)") && message.contains("pandas==VERSION"),
        "{message}"
    );
}

#[test]
fn a_warning_stands_once_for_a_line_and_their_number_is_bounded() {
    assert_eq!(warnings("set -x; set -x"), ["1:trace_prints_values"]);
    assert_eq!(lint(&"set -x\n".repeat(9_000)).len(), 100);
}

#[test]
fn deep_nesting_and_odd_ends_are_survived() {
    for piece in [
        "$(",
        "`",
        "\"$(",
        "${",
        "((",
        "(",
        "<(",
        "a=(",
        "case x in ",
        "eval $(",
        "<<E ",
        "'",
        "\"",
        "\\",
        "a &\n",
        "\\\n",
        "${'",
        "if ",
        ")",
        "}",
        ";;",
        "$'",
    ] {
        let script = piece.repeat(65_536 / piece.len());
        let _ = lint(&script);
        let _ = statement_at(&script, 1);
    }
}

proptest! {
    #[test]
    fn normalising_twice_is_once_and_line_numbers_never_move(script in "(?s)[ \t\r\na-c\u{a0}\\\\]{0,60}") {
        let once = normalise(&script);
        prop_assert_eq!(&normalise(&once), &once);
        let before: Vec<&str> = script.split('\n').collect();
        for (index, line) in once.split('\n').enumerate().take(once.matches('\n').count()) {
            prop_assert_eq!(line, before[index].trim_end());
        }
        prop_assert!(once.is_empty() || (once.ends_with('\n') && !once.ends_with("\n\n")));
    }

    #[test]
    fn no_text_makes_the_reader_panic_or_name_a_line_that_is_not_there(script in "[ \n\\\\'\"`$(){}<>|&;#=a-c!-]{0,80}") {
        let lines = u32::try_from(script.split('\n').count()).unwrap();
        for warning in lint(&script) {
            prop_assert!((1..=lines).contains(&warning.line));
        }
        for line in 1..=lines {
            let _ = statement_at(&script, line);
        }
    }

    #[test]
    fn any_unicode_is_survived(script in "\\PC{0,60}") {
        let _ = lint(&script);
        let _ = statement_at(&script, 1);
    }
}

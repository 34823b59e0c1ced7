//! The table of scripts that the driver must judge rightly (design/sandbox.md, section 4, and more). The same table runs
//! on the host and in a real sandbox.

use std::time::Duration;

use execution::runtime::Event;

/// A script and what must come of it.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: &'static str,
    pub script: String,
    pub exit: i32,
    /// First line of the failing statement; 0 where nothing fails.
    pub line: u32,
    /// The failing statement as written.
    pub command: Option<&'static str>,
    pub failed_in: Option<&'static str>,
    /// Markers as `[line]` and all output, in order.
    pub transcript: Option<&'static str>,
    /// Text that the output holds.
    pub output: Option<&'static str>,
    pub timeout: Duration,
    /// Longest time that the run may take.
    pub within: Duration,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub exit: i32,
    pub line: u32,
    pub command: String,
    pub failed_in: Option<String>,
    pub took: Duration,
    pub events: Vec<Event>,
}

impl Outcome {
    /// Markers as `[line]` and output, in order.
    pub fn transcript(&self) -> String {
        let mut text = String::new();
        for event in &self.events {
            match event {
                Event::Marker { text: source, .. } if source.is_empty() => {}
                Event::Marker { line, .. } => text.push_str(&format!("[{line}]")),
                Event::Output { bytes, .. } => text.push_str(&String::from_utf8_lossy(bytes)),
                _ => {}
            }
        }
        text
    }
}

impl Case {
    /// What is wrong with an outcome; empty when nothing is.
    pub fn complaints(&self, got: &Outcome) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut check = |what: &str, fine: bool, got: String, wanted: String| {
            if !fine {
                wrong.push(format!("{}: {what} is {got}, wanted {wanted}", self.name));
            }
        };
        check(
            "exit",
            got.exit == self.exit,
            got.exit.to_string(),
            self.exit.to_string(),
        );
        check(
            "line",
            got.line == self.line,
            got.line.to_string(),
            self.line.to_string(),
        );
        if let Some(command) = self.command {
            check(
                "command",
                got.command == command,
                format!("{:?}", got.command),
                format!("{command:?}"),
            );
        }
        check(
            "place in another file",
            match (self.failed_in, &got.failed_in) {
                (None, None) => true,
                (Some(end), Some(got)) => got.ends_with(end),
                _ => false,
            },
            format!("{:?}", got.failed_in),
            format!("{:?}", self.failed_in),
        );
        let transcript = got.transcript();
        if let Some(wanted) = self.transcript {
            check(
                "transcript",
                transcript == wanted,
                format!("{transcript:?}"),
                format!("{wanted:?}"),
            );
        }
        if let Some(wanted) = self.output {
            check(
                "output",
                transcript.contains(wanted),
                format!("{transcript:.400?}"),
                format!("{wanted:?}"),
            );
        }
        check(
            "duration",
            got.took <= self.within,
            format!("{:?}", got.took),
            format!("{:?}", self.within),
        );
        wrong
    }

    fn command(mut self, command: &'static str) -> Self {
        self.command = Some(command);
        self
    }
    fn in_file(mut self, place: &'static str) -> Self {
        self.failed_in = Some(place);
        self
    }
    fn transcript(mut self, transcript: &'static str) -> Self {
        self.transcript = Some(transcript);
        self
    }
    fn output(mut self, text: &'static str) -> Self {
        self.output = Some(text);
        self
    }
    fn timeout(mut self, millis: u64) -> Self {
        self.timeout = Duration::from_millis(millis);
        self
    }
}

fn case(name: &'static str, script: impl Into<String>, exit: i32, line: u32) -> Case {
    Case {
        name,
        script: script.into(),
        exit,
        line,
        command: None,
        failed_in: None,
        transcript: None,
        output: None,
        timeout: Duration::from_secs(60),
        within: Duration::from_secs(20),
    }
}

/// All of them.
pub fn all() -> Vec<Case> {
    [
        plain(),
        compound(),
        shell_options(),
        processes(),
        texts(),
        seen_by_the_script(),
    ]
    .concat()
}

fn plain() -> Vec<Case> {
    vec![
        case("passes", "echo a\necho b\n", 0, 0).transcript("[1]a\n[2]b\n"),
        case("nothing to do", "# only a comment\n", 0, 0).transcript(""),
        case("false", "echo a\nfalse\necho b\n", 1, 2)
            .command("false")
            .transcript("[1]a\n[2]"),
        case("command not found", "echo a\n# why\n\nnope --x\n", 127, 4).command("nope --x"),
        case("not executable", "echo a\n/etc/passwd\n", 126, 2),
        case("exit", "true\nexit 3\necho no\n", 3, 2).command("exit 3"),
        case("exit 0 early", "true\nexit 0\nfalse\n", 0, 0),
        case(
            "exit in a function body",
            "f() {\n  true\n  exit 7\n}\nf\n",
            7,
            3,
        )
        .command("exit 7"),
        case(
            "exit in a one-line function",
            "f() { exit 7; }\ntrue\nf\n",
            7,
            1,
        ),
        case("exit in a subshell on one line", "true\n( exit 7 )\n", 7, 2).command("( exit 7 )"),
        case(
            "exit in a subshell over lines",
            "true\n(\n  exit 7\n)\n",
            7,
            4,
        )
        .command("(\n  exit 7\n)"),
        case(
            "last command of several on a line",
            "true\necho a; false; echo b\n",
            1,
            2,
        )
        .command("echo a; false; echo b")
        .transcript("[1][2]a\n"),
        case(
            "the text is not expanded",
            "X=secret\nls --no-such-$X\n",
            2,
            2,
        )
        .command("ls --no-such-$X"),
        case("indented", "true\n   false   # why\n", 1, 2).command("false   # why"),
        case(
            "continued by backslashes",
            "true\nls \\\n  --bad \\\n  /\n",
            2,
            2,
        )
        .command("ls \\\n  --bad \\\n  /"),
        case("continued, then another", "echo a \\\n b\nfalse\n", 1, 3).transcript("[1]a b\n[3]"),
        case("escaped backslash at the end", "echo a\\\\\nfalse\n", 1, 2),
        case(
            "quoted over lines",
            "true\npython3 -c '\nimport sys\nsys.exit(4)\n'\n",
            4,
            2,
        ),
        case(
            "double-quoted over lines",
            "true\nbash -c \"\nexit 4\n\"\n",
            4,
            2,
        ),
        case(
            "command substitution over lines",
            "true\nx=$(\n  true\n  false\n)\n",
            1,
            2,
        ),
        case("array over lines", "true\na=(\n 1\n $(false)\n)\n", 1, 2),
        case("after a heredoc", "cat <<EOF\n1\n2\nEOF\nfalse\n", 1, 5).transcript("[1]1\n2\n[5]"),
        case(
            "heredoc given to a shell",
            "bash <<EOF\nexit 9\nEOF\n",
            9,
            1,
        )
        .command("bash <<EOF\nexit 9\nEOF"),
        case(
            "heredoc, quoted and indented",
            "true\nbash <<-'E'\n\texit 9\n\tE\n",
            9,
            2,
        ),
        case(
            "heredoc in a pipeline",
            "cat <<E |\nfoo\nE\n  grep bar\n",
            1,
            1,
        ),
        case("two heredocs", "cat <<A - <<B\n1\nA\n2\nB\nfalse\n", 1, 6).transcript("[1]2\n[6]"),
        case("here-string", "true\ngrep x <<<abc\n", 1, 2),
        case(
            "sourced file",
            "true\nprintf 'true\\nfalse\\n' >in.sh\n. ./in.sh\n",
            1,
            3,
        )
        .in_file("in.sh:2")
        .command(". ./in.sh"),
        case(
            "function of a sourced file",
            "printf 'g() {\\n false\\n}\\n' >in.sh\n. ./in.sh\ntrue\ng\n",
            1,
            4,
        )
        .in_file("in.sh:2"),
        case("eval", "true\neval 'false'\n", 1, 2),
        case(
            "eval over lines",
            "eval 'true\ntrue\nfalse'\necho a\necho b\n",
            1,
            1,
        ),
        case("xargs", "true\necho a | xargs false\n", 123, 2),
        case("no such directory", "true\ncd /nope\n", 1, 2),
        case("redirection fails", "true\necho a >/nope/x\n", 1, 2),
        case(
            "read-only variable",
            "readonly A=1\ntrue\nA=2\necho no\n",
            1,
            3,
        ),
        case(
            "bash itself goes on after a division by zero",
            "true\necho $(( 1 / 0 ))\nfalse\n",
            1,
            3,
        ),
        case("bad substitution", "true\necho ${x!y}\necho no\n", 1, 2),
        case(
            "parameter with an error",
            "true\n: ${NOPE:?is not set}\n",
            1,
            2,
        )
        .output("is not set"),
        case("failing test", "true\ntest -f ./package.json\n", 1, 2)
            .command("test -f ./package.json"),
        case(
            "failing conditional over lines",
            "true\n[[ a == b ||\n  c == d ]]\n",
            1,
            2,
        ),
        case("failing arithmetic", "true\n(( 1 > 2 ))\n", 1, 2),
        case("let", "true\nlet x=0\n", 1, 2),
        case("return outside of a function", "true\nreturn 4\n", 4, 2),
    ]
}

fn compound() -> Vec<Case> {
    vec![
        case("subshell over lines", "true\n(\n  cd /\n  false\n  true\n)\n", 1, 4).command("false"),
        case("subshell as in the study", "true\n( cd /\n\n  false\n)\n", 1, 4),
        case("nested subshells", "true\n(\n  (\n    true\n    false\n  )\n)\n", 1, 5).command("false"),
        case("subshell on one line", "true\n(cd / && false)\n", 1, 2),
        case("statements in a subshell are marked", "true\n(\n  echo a\n  echo b\n)\necho c\n", 0, 0)
            .transcript("[1][3]a\n[4]b\n[6]c\n"),
        case("function body", "f() {\n  true\n  false\n  echo no\n}\ntrue\nf\n", 1, 3),
        case("function called twice", "f() {\n  [ \"$1\" = a ]\n}\nf a\nf b\n", 1, 2),
        case("function returns", "f() {\n  return 5\n}\ntrue\nf\n", 5, 5),
        case("nested functions", "g() {\n false\n}\nf() {\n g\n}\nf\n", 1, 2),
        case("function in a subshell", "f() {\n false\n}\n( f )\n", 1, 2),
        case("function in a pipeline", "f() {\n false\n}\nf | cat\n", 1, 2),
        case("function with keyword", "function f {\n  false\n}\nf\n", 1, 2),
        case("for", "for i in 1 2 3; do\n  true\n  [ $i != 2 ]\ndone\n", 1, 3),
        case("for, C style", "for (( i = 0; i < 3; i++ )); do\n  [ $i != 2 ]\ndone\n", 1, 2),
        case("while", "i=0\nwhile true; do\n  i=$(( i + 1 ))\n  test $i -lt 3\ndone\n", 1, 4),
        case("until", "i=0\nuntil false; do\n  i=$(( i + 1 ))\n  test $i -lt 3\ndone\n", 1, 4),
        case("case", "x=b\ncase $x in\n  a) true ;;\n  b)\n    true\n    false ;;\nesac\n", 1, 6),
        case("brace group", "true\n{\n  true\n  false\n}\n", 1, 4),
        case("if body", "if true; then\n  false\nfi\n", 1, 2),
        case("else body", "if false; then\n  true\nelse\n  true\n  exit 3\nfi\n", 3, 5),
        case("select nothing to read", "select x in a b; do\n  false\ndone\ntrue\n", 0, 0),
        case("pipeline", "true\nfalse | cat\n", 1, 2).command("false | cat"),
        case("pipeline over lines", "true\nfalse |\n  cat |\n  cat\necho no\n", 1, 2).command("false |\n  cat |\n  cat"),
        case("pipeline continued by backslash", "true\nfalse \\\n  | cat\n", 1, 2),
        case("middle of a pipeline", "true\necho a | grep b | cat\n", 1, 2),
        case("while read after a pipe", "true\necho b | while read -r x; do\n  [ \"$x\" = a ]\ndone\n", 1, 3),
        case("loop into a pipe", "true\nfor i in a b; do\n  echo $i\n  [ $i = a ]\ndone | cat\n", 1, 4),
        case("SIGPIPE", "true\nyes | head -1\n", 141, 2).output("y\n"),
        case("and-list over lines", "true\ntrue &&\n  false\n", 1, 2),
        case("left of and is no failure", "false && echo x\necho y\n", 0, 0).transcript("[1][2]y\n"),
        case("left of and as the last one", "true\nfalse && true\n", 1, 2),
        case("or", "false || echo x\n", 0, 0).transcript("[1]x\n"),
        case("not", "! true\necho x\n", 0, 0),
        case("if condition", "if false; then echo a; fi\necho b\n", 0, 0),
        case("while condition", "while false; do :; done\necho b\n", 0, 0),
        case("function in a condition", "f() {\n  false\n  echo on\n}\nif f; then echo yes; fi\n", 0, 0).output("on\n"),
        case("assignment from a failure", "true\nx=$(false)\necho no\n", 1, 2),
        case("echo of a failure", "echo $(false)\necho b\n", 0, 0),
        case("local of a failure", "f() {\n  local x=$(false)\n}\nf\necho b\n", 0, 0),
        case("process substitution", "cat <(echo a)\ncat <(false)\necho b\n", 0, 0).transcript("[1]a\n[2][3]b\n"),
        case("cd, variables and functions last", "mkdir d\ncd d\nX=5\nf() { echo $X; }\nf\nbasename \"$PWD\"\n", 0, 0).output("5\n[6]d\n"),
        case("one line marked at most twenty times",
            "for i in {1..200}; do\n  :\ndone\necho end\n", 0, 0)
            .transcript("[1][2][1][2][1][2][1][2][1][2][1][2][1][2][1][2][1][2][1][2][1][2][1][2][1][2][1][2][1][2][1][2][1][2][1][2][1][2][1][2][4]end\n"),
        case("exit late in a long loop", "for i in {1..100}; do\n  true\n  [ $i -lt 90 ] || exit 4\ndone\n", 4, 3),
        case("fails late in a long loop", "i=0\nwhile :; do\n  i=$(( i + 1 ))\n  true\n  [ $i -lt 90 ]\ndone\n", 1, 5),
        case("recursion", "f() {\n  [ $1 -gt 0 ] || exit 5\n  f $(( $1 - 1 ))\n}\nf 50\n", 5, 2),
    ]
}

fn shell_options() -> Vec<Case> {
    vec![
        case("set +e, exit later", "set +e\nfalse\ntrue\nexit 5\n", 5, 4),
        case("set +e, last command fails", "set +e\ntrue\nfalse\n", 1, 3),
        case("set +e and passes", "set +e\nfalse\ntrue\n", 0, 0),
        case("set -e again", "set +e\nfalse\nset -e\ntrue\nfalse\n", 1, 5),
        case(
            "set +o pipefail",
            "set +o pipefail\nfalse | cat\necho a\n",
            0,
            0,
        ),
        case("set -u", "set -u\ntrue\necho $nope\n", 1, 3)
            .command("echo $nope")
            .output("unbound variable"),
        case(
            "set -u in a function",
            "set -u\nf() {\n  echo $nope\n}\nf\n",
            1,
            3,
        ),
        case("set -x", "set -x\ntrue\nfalse\n", 1, 3).transcript("[1][2]++ true\n[3]++ false\n"),
        case("set -v", "set -v\ntrue\nfalse\n", 1, 3),
        case("set -C", "set -C\ntrue\necho a >f\necho b >f\n", 1, 4),
        case("set -f", "set -f\necho *\nfalse\n", 1, 3).output("*\n"),
        case("set -o posix", "set -o posix\ntrue\nfalse\n", 1, 3),
        case("set +T", "set +T\ntrue\nf() {\n  false\n}\nf\n", 1, 4),
        case(
            "set +E",
            "set +E\ntrue\nf() {\n  true\n  false\n}\nf\n",
            1,
            5,
        ),
        case("set -m", "set -m\ntrue\nsleep 0\nfalse\n", 1, 4),
        case(
            "shopt -s extglob",
            "shopt -s extglob\ntouch keep drop\nrm !(keep)\nls\nfalse\n",
            1,
            5,
        )
        .output("keep\n"),
        case(
            "shopt -s inherit_errexit",
            "shopt -s inherit_errexit\ntrue\nx=$(\n  false\n  true\n)\n",
            1,
            3,
        ),
        case(
            "shopt -s lastpipe",
            "shopt -s lastpipe\necho a | read -r x\n[ \"$x\" = b ]\n",
            1,
            3,
        ),
        case(
            "aliases",
            "shopt -s expand_aliases\nalias ll='ls --bad'\ntrue\nll\n",
            2,
            4,
        )
        .command("ll"),
        case("IFS", "IFS=,\ntrue\nfalse\n", 1, 3),
        case("IFS of digits", "IFS=0123456789\ntrue\nfalse\n", 1, 3),
        case("PATH emptied", "PATH=\nfalse2\n", 127, 2),
        case("own EXIT trap", "trap 'echo bye' EXIT\ntrue\nfalse\n", 1, 3).output("bye\n"),
        case(
            "own EXIT trap, exit",
            "cleanup() {\n  true\n  echo bye\n}\ntrap cleanup EXIT\ntrue\nexit 3\n",
            3,
            7,
        )
        .output("bye\n"),
        case(
            "own EXIT trap changes the code",
            "trap 'exit 9' EXIT\ntrue\nfalse\n",
            9,
            3,
        ),
        case(
            "own EXIT trap fails",
            "f() {\n  false\n}\ntrap f EXIT\ntrue\ntrue\n",
            1,
            4,
        ),
        case("own ERR trap", "trap 'echo oops' ERR\ntrue\nfalse\n", 1, 3).output("oops\n"),
        case(
            "own ERR trap that exits",
            "trap 'exit 6' ERR\ntrue\nfalse\n",
            6,
            3,
        ),
        case("own DEBUG trap", "trap ': mine' DEBUG\ntrue\nfalse\n", 1, 3),
        case(
            "own RETURN trap",
            "trap 'echo ret' RETURN\nf() { true; }\nf\nfalse\n",
            1,
            4,
        )
        .output("ret\n"),
        case("traps removed", "trap - ERR DEBUG\ntrue\nfalse\n", 1, 1),
        case(
            "functions named like builtins",
            "printf() { return 1; }\nread() { return 1; }\ntrue\nfalse\n",
            1,
            4,
        ),
        case(
            "a name of the driver is read-only",
            "true\n__gw_dir=/x\n",
            1,
            2,
        ),
        case("command prefix", "true\ncommand false\n", 1, 2),
        case("time prefix", "true\ntime false\n", 1, 2),
        case("umask 777", "umask 777\ntrue\nfalse\n", 1, 3),
        case("LC_ALL set", "export LC_ALL=C\necho ä\nfalse\n", 1, 3),
    ]
}

fn processes() -> Vec<Case> {
    vec![
        case("descriptors closed", "exec 3>&- 9>&-\ntrue\nfalse\n", 1, 3),
        case("descriptors used", "exec 3>f 4<f 9>&1\necho a >&3\necho b >&9\ncat f\nfalse\n", 1, 5).output("b\n[4]a\n"),
        case("stdout away", "exec >/dev/null\necho a\necho b >&2\nfalse\n", 1, 4).transcript("[1][2][3]b\n[4]"),
        case("both away", "exec >/dev/null 2>&1\necho a\nfalse\n", 1, 3),
        case("both closed", "exec >&- 2>&-\ntrue\nfalse\n", 1, 3),
        case("stderr into stdout", "exec 2>&1\necho a >&2\nfalse\n", 1, 3).transcript("[1][2]a\n[3]"),
        case("stdout through tee", "exec > >(tee log)\necho a\n", 0, 0).output("a\n"),
        case("exec replaces the shell", "true\nexec bash -c 'exit 6'\n", 6, 2),
        case("exec of nothing", "true\nexec /nope\n", 127, 2),
        case("kills itself", "true\nkill -9 $$\nsleep 5\n", 137, 2),
        case("terminates itself", "true\nkill $$\nsleep 5\n", 143, 2),
        case("child crashes", "true\nbash -c 'kill -SEGV $$'\n", 139, 2),
        case("background job left", "sleep 3 >/dev/null 2>&1 &\necho a\n", 0, 0).transcript("[1][2]a\n"),
        Case { within: Duration::from_secs(3), ..case("background job holds stdout", "sleep 30 &\necho a\nfalse\n", 1, 3) },
        Case { within: Duration::from_secs(3), ..case("background job holds stdout, passes", "sleep 30 &\necho a\n", 0, 0) },
        Case { within: Duration::from_secs(4), ..case("background job writes on", "(while :; do echo x; sleep 0.1; done) &\necho a\nsleep 0.3\n", 0, 0) },
        case("failing job is not waited for", "false &\nsleep 0.1\necho a\n", 0, 0),
        case("failing job is waited for", "false &\ntrue\nwait $!\n", 1, 3),
        case("failing group is waited for", "(\n  true\n  false\n) &\ntrue\nwait $!\n", 1, 6),
        case("another fails than the job", "( exit 1 ) & \nsleep 0.1\nfalse\n", 1, 3),
        case("job fails while another does", "{ sleep 0.2; false; } &\ntrue\nsleep 0.4; false\n", 1, 3),
        case("coproc", "coproc cat\necho a >&\"${COPROC[1]}\"\nread -r x <&\"${COPROC[0]}\"\necho \"got $x\"\nfalse\n", 1, 5).output("got a\n"),
        case("stdin is empty", "read -r x\necho no\n", 1, 1),
        case("cat of stdin ends", "cat\necho a\n", 0, 0).transcript("[1][2]a\n"),
        case("timeout while asleep", "true\nsleep 30\n", 124, 2).timeout(2_500).command("sleep 30"),
        case("timeout in a busy loop", "true\nwhile :; do :; done\n", 124, 2).timeout(2_500),
        case("timeout in a loop over lines", "true\nwhile :; do\n  sleep 30\ndone\n", 124, 3).timeout(2_500),
        case("timeout in a subshell", "true\n(\n  true\n  sleep 30\n)\n", 124, 4).timeout(2_500),
        case("timeout with TERM ignored", "trap '' TERM\nsleep 30\n", 124, 2).timeout(2_500),
        case("timeout in a function", "f() {\n  sleep 30\n}\ntrue\nf\n", 124, 2).timeout(2_500),
        case("timeout in a child", "true\nbash -c 'sleep 30; true'\n", 124, 2).timeout(2_500),
        case("timeout command of the script itself", "true\ntimeout 0.1 sleep 5\n", 124, 2).within(5),
        case("output is between its markers", "echo 1\nbash -c 'echo 2; echo 3 >&2'\necho 4 >&2\necho 5\n", 0, 0).output("[4]5\n"),
        case("sudo-like child closes descriptors", "python3 -c 'import os; os.closerange(3, 99); print(1)'\nfalse\n", 1, 2).transcript("[1]1\n[2]"),
    ]
}

impl Case {
    fn within(mut self, seconds: u64) -> Self {
        self.within = Duration::from_secs(seconds);
        self
    }
}

fn texts() -> Vec<Case> {
    vec![
        case("no newline at the end", "true\nfalse", 1, 2),
        case("output without newline", "printf abc\nprintf def\n", 0, 0).transcript("[1]abc[2]def"),
        case(
            "binary output",
            "head -c 3000 /dev/zero\nprintf '\\377\\376'\nfalse\n",
            1,
            3,
        ),
        case("CRLF", "true\r\nfalse\r\n", 127, 1),
        case("syntax error", "echo a\nif then\n", 2, 2).transcript_without_output(),
        case("unclosed quote", "echo a\necho 'b\n", 2, 2),
        case("unclosed block", "echo a\nif true; then\n echo b\n", 2, 4),
        case("stray done", "echo a\ndone\n", 2, 2),
        case("200,000 lines", "seq 200000\nfalse\n", 1, 2).output("\n200000\n[2]"),
        case("unicode", "echo 'héllo ✓ 日本'\nls --no-такого\n", 2, 2)
            .command("ls --no-такого")
            .output("héllo ✓ 日本\n"),
        case("tab in a command", "true\nls\t--bad\n", 2, 2).command("ls\t--bad"),
        case(
            "very long line",
            format!("true\nfalse {}\n", "x ".repeat(10_000)),
            1,
            2,
        ),
        case(
            "long script",
            format!("{}false\n", "true\n".repeat(600)),
            1,
            601,
        )
        .within(30),
        case("line of stderr", "echo a >&2\nfalse\n", 1, 2).transcript("[1]a\n[2]"),
        case(
            "200 KB on stderr",
            "python3 -c \"import sys;sys.stderr.write('x'*200000)\"\nfalse\n",
            1,
            2,
        ),
        case(
            "a curl into a shell fails",
            "bash -c 'exit 6' | bash\necho ok\n",
            6,
            1,
        ),
        case(
            "a comment with a quote",
            "# it's fine\ntrue # isn't\nfalse\n",
            1,
            3,
        ),
        case("backslash and blank", "echo a \\ \n\nfalse\n", 1, 3),
    ]
}

impl Case {
    /// Bash's own message is all that comes out.
    fn transcript_without_output(mut self) -> Self {
        self.output = Some("syntax error near unexpected token");
        self
    }
}

fn seen_by_the_script() -> Vec<Case> {
    vec![
        case(
            "$? is unchanged",
            "set +e\nbash -c 'exit 4'\necho \"<$?>\"\n",
            0,
            0,
        )
        .output("<4>"),
        case("$_ is unchanged", "true a b\necho \"<$_>\"\n", 0, 0).output("<b>"),
        case(
            "PIPESTATUS is unchanged",
            "set +e +o pipefail\ntrue | false | bash -c 'exit 3'\necho \"<${PIPESTATUS[@]}>\"\n",
            0,
            0,
        )
        .output("<0 1 3>"),
        case("$# is 0", "echo \"<$#>\"\n", 0, 0).output("<0>"),
        case("$0 is the script", "basename \"$0\"\n", 0, 0).output("script\n"),
        case(
            "$! is unchanged",
            "true &\nx=$!\ntrue\n[ \"$x\" = \"$!\" ]\n",
            0,
            0,
        ),
        case(
            "options",
            "[[ $- == *e* ]]\n[[ :$SHELLOPTS: == *:pipefail:* ]]\n",
            0,
            0,
        ),
        case(
            "BASH_SOURCE is the script",
            "basename \"${BASH_SOURCE[0]}\"\n",
            0,
            0,
        )
        .output("script\n"),
        case("LINENO is right", "true\necho \"<$LINENO>\"\n", 0, 0).output("<2>"),
        case(
            "REPLY is unchanged",
            "REPLY=x\ntrue\n[ \"$REPLY\" = x ]\n",
            0,
            0,
        ),
        case("the profile was read", "echo \"<$GW_PROFILE>\"\n", 0, 0).output("<yes>"),
        case(
            "no positional rest",
            "f() {\n  echo \"<$#:$1>\"\n}\nf a\n",
            0,
            0,
        )
        .output("<1:a>"),
    ]
}

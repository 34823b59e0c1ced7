//! Simple commands, and texts of every kind.

use super::{Case, case};

pub(super) fn plain() -> Vec<Case> {
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

pub(super) fn texts() -> Vec<Case> {
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

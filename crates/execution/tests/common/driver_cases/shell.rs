//! Shell options, traps, processes, and what the script sees of itself.

use std::time::Duration;

use super::{Case, case};

pub(super) fn shell_options() -> Vec<Case> {
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
            "shopt -s extdebug",
            "shopt -s extdebug\ntrue\nfalse\n",
            1,
            3,
        ),
        case(
            "shopt -s failglob nullglob",
            "shopt -s failglob nullglob\ntrue\nfalse\n",
            1,
            3,
        ),
        case(
            "positional parameters",
            "set -- a b c\n[ $# = 3 ]\n[ $# = 2 ]\n",
            1,
            3,
        ),
        // No transcript: between two markers, the order of standard output and error is not defined.
        case(
            "the usual head of a script",
            "#!/usr/bin/env bash\nset -euxo pipefail\necho hi\nfalse\n",
            1,
            4,
        )
        .transcript("[2][3]++ echo hi\nhi\n[4]++ false\n"),
        case(
            "set -u with an empty default",
            "set -u\ntrue\n: \"${FOO}\"\n",
            1,
            3,
        ),
        case(
            "a temporary directory and a trap",
            "trap 'rm -rf \"$tmp\"' EXIT\ntmp=$(mktemp -d)\ncd \"$tmp\"\nls nope\n",
            2,
            4,
        ),
        case(
            "sourced from standard input",
            "true\nsource /dev/stdin <<E\ntrue\nfalse\nE\n",
            1,
            2,
        )
        .in_file("/dev/stdin:2"),
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

pub(super) fn processes() -> Vec<Case> {
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
        Case { within: Duration::from_secs(15), ..case("background job holds stdout", "sleep 30 &\necho a\nfalse\n", 1, 3) },
        Case { within: Duration::from_secs(15), ..case("background job holds stdout, passes", "sleep 30 &\necho a\n", 0, 0) },
        Case { within: Duration::from_secs(15), ..case("background job writes on", "(while :; do echo x; sleep 0.1; done) &\necho a\nsleep 0.3\n", 0, 0) },
        case("failing job is not waited for", "false &\nsleep 0.1\necho a\n", 0, 0),
        case("failing job is waited for", "false &\ntrue\nwait $!\n", 1, 3),
        case("failing group is waited for", "(\n  true\n  false\n) &\ntrue\nwait $!\n", 1, 6),
        case("another fails than the job", "( exit 1 ) & \nsleep 0.1\nfalse\n", 1, 3),
        case("job fails while another does", "{ sleep 0.2; false; } &\ntrue\nsleep 0.4; false\n", 1, 3),
        case("coproc", "coproc cat\necho a >&\"${COPROC[1]}\"\nread -r x <&\"${COPROC[0]}\"\necho \"got $x\"\nfalse\n", 1, 5).output("got a\n"),
        case("stdin is empty", "read -r x\necho no\n", 1, 1),
        case("cat of stdin ends", "cat\necho a\n", 0, 0).transcript("[1][2]a\n"),
        case("timeout while asleep", "true\nsleep 30\n", 124, 2).timeout(4_000).command("sleep 30"),
        case("timeout in a busy loop", "true\nwhile :; do :; done\n", 124, 2).timeout(4_000),
        case("timeout in a loop over lines", "true\nwhile :; do\n  sleep 30\ndone\n", 124, 3).timeout(4_000),
        case("timeout in a subshell", "true\n(\n  true\n  sleep 30\n)\n", 124, 4).timeout(4_000),
        case("timeout with TERM ignored", "trap '' TERM\nsleep 30\n", 124, 2).timeout(4_000),
        case("timeout in a function", "f() {\n  sleep 30\n}\ntrue\nf\n", 124, 2).timeout(4_000),
        case("timeout in a child", "true\nbash -c 'sleep 30; true'\n", 124, 2).timeout(4_000),
        case("timeout command of the script itself", "true\ntimeout 0.1 sleep 5\n", 124, 2).within(5),
        case("output is between its markers", "echo 1\nbash -c 'echo 2; echo 3 >&2'\necho 4 >&2\necho 5\n", 0, 0).output("[4]5\n"),
        case("sudo-like child closes descriptors", "python3 -c 'import os; os.closerange(3, 99); print(1)'\nfalse\n", 1, 2).transcript("[1]1\n[2]"),
    ]
}

pub(super) fn seen_by_the_script() -> Vec<Case> {
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
        Case {
            host_only: true,
            ..case("the profile was read", "echo \"<$GW_PROFILE>\"\n", 0, 0).output("<yes>")
        },
        case(
            "no positional rest",
            "f() {\n  echo \"<$#:$1>\"\n}\nf a\n",
            0,
            0,
        )
        .output("<1:a>"),
    ]
}

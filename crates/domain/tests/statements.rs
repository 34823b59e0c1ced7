//! Statements of a script as written.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use domain::setup_script::{first_line, statement_at};

#[test]
fn a_statement_is_shown_as_written() {
    let script = "\
echo one
  ls \\
    --bad \\
    /
python3 -c '
import sys
sys.exit(1)
'
cat <<EOF > f
body
EOF
bash <<'E'
exit 9
E
( cd /
  false
)
for x in a b; do
  false $x
done
false |
  cat
false && # why
  true
f() {
  false
}
x=\"two
lines\"; false
last";
    for (line, text) in [
        (1, "echo one"),
        (2, "ls \\\n    --bad \\\n    /"),
        (5, "python3 -c '\nimport sys\nsys.exit(1)\n'"),
        (9, "cat <<EOF > f\nbody\nEOF"),
        (12, "bash <<'E'\nexit 9\nE"),
        (15, "( cd /\n  false\n)"),
        (16, "false"),
        (18, "for x in a b; do"),
        (19, "false $x"),
        (20, "done"),
        (21, "false |\n  cat"),
        (23, "false && # why\n  true"),
        (25, "f() {"),
        (26, "false"),
        (28, "x=\"two\nlines\"; false"),
        (30, "last"),
        (31, ""),
        (400, ""),
    ] {
        assert_eq!(statement_at(script, line), text, "line {line}");
    }
    assert_eq!(statement_at("", 1), "");
    assert_eq!(statement_at("a\n\nb", 2), "");
    assert_eq!(statement_at("cat <<E\nno end", 1), "cat <<E\nno end");
    assert_eq!(statement_at("echo 'open\nend", 1), "echo 'open\nend");
}

#[test]
fn a_continued_command_begins_where_its_first_line_is() {
    let script = "a\nls \\\n  b \\\n  c\necho 'x\\\\'\nd";
    for (line, first) in [(1, 1), (2, 2), (3, 2), (4, 2), (5, 5), (6, 6)] {
        assert_eq!(first_line(script, line), first, "line {line}");
    }
    assert_eq!(first_line("a \\\\\nb", 2), 2);
}

use super::*;

/// First lines of all lines, as one string of numbers.
fn firsts(script: &str) -> Vec<u32> {
    let statements = Statements::parse(script);
    (1..=statements.line_count())
        .map(|l| statements.first_line(l))
        .collect()
}

#[test]
fn lines_of_one_statement_have_its_first_line() {
    let cases: &[(&str, &[u32])] = &[
        ("a\nb\nc", &[1, 2, 3]),
        ("ls \\\n --bad \\\n /\nb", &[1, 1, 1, 4]),
        ("echo '\\'\nb", &[1, 2]),
        ("echo \\\\\nb", &[1, 2]),
        ("a |\n b |\n c\nd", &[1, 1, 1, 4]),
        ("a &&\n b ||\n c\nd", &[1, 1, 1, 4]),
        ("a & \nb", &[1, 2]),
        ("a | # why\n b\nc", &[1, 1, 3]),
        ("p -c '\nimport x\n'\nb", &[1, 1, 1, 4]),
        ("p -c \"\nimport 'x\n\"\nb", &[1, 1, 1, 4]),
        ("p $'a\\'\nb'\nb", &[1, 1, 3]),
        ("cat <<E\n a '\nE\nb", &[1, 1, 1, 4]),
        ("cat <<-'E F'\n\ta \"\n\tE F\nb", &[1, 1, 1, 4]),
        ("cat <<E | \nx\nE\n grep y\nb", &[1, 1, 1, 1, 5]),
        ("cat <<A <<B\n1\nA\n2\nB\nb", &[1, 1, 1, 1, 1, 6]),
        ("cat <<<\"$x\"\nb", &[1, 2]),
        ("x=$(\n a\n b <<E\n)\nE\n)\nc", &[1, 1, 1, 1, 1, 1, 7]),
        ("x=`\n a\n`\nc", &[1, 1, 1, 4]),
        ("a=(\n 1\n 2\n)\nb", &[1, 1, 1, 1, 5]),
        ("(( x = 1 <<\n 2 ))\nb", &[1, 1, 3]),
        ("echo $(( (1\n+2) ))\nb", &[1, 1, 3]),
        ("[[ a == b ||\n c == d ]]\nb", &[1, 1, 3]),
        ("(\n a\n b\n)\nc", &[1, 2, 3, 4, 5]),
        ("f() {\n a\n}\nb", &[1, 2, 3, 4]),
        ("if a\nthen\n b\nfi", &[1, 2, 3, 4]),
        (
            "case x in\n a) b ;;\n c|\\\n d) e ;;\nesac\nf",
            &[1, 2, 3, 3, 5, 6],
        ),
        ("( case x in\n a) b ;;\nesac\n)\nf", &[1, 2, 3, 4, 5]),
        (
            "case x in\n a) b |\n  c ;;\n d |\n e) f ;;\nesac",
            &[1, 2, 2, 4, 4, 6],
        ),
        ("echo ${x:-a\nb}\nc", &[1, 1, 3]),
        ("echo \"${x:-it's}\"\nc", &[1, 2]),
        ("echo $# a#b # it's\nc", &[1, 2]),
        ("echo $$ \"$(echo \")\")\"\nc", &[1, 2]),
        ("diff <(a\n) <(b\n)\nc", &[1, 1, 1, 4]),
        ("shopt -s extglob\nls !(a|b)\nc", &[1, 2, 3]),
    ];
    for (script, expected) in cases {
        assert_eq!(firsts(script), *expected, "{script}");
    }
}

#[test]
fn a_statement_is_quoted_as_written() {
    let cases = [
        ("a\n  false | cat  \nb", 2, "false | cat"),
        ("ls \\\n  --bad\n", 2, "ls \\\n  --bad"),
        ("(\n exit 7\n)\n", 3, "(\n exit 7\n)"),
        ("a\n", 9, ""),
    ];
    for (script, line, expected) in cases {
        assert_eq!(Statements::parse(script).text(line), expected, "{script}");
    }
}

#[test]
fn statements_in_subshells_are_marked_only_where_nothing_else_runs_beside() {
    let cases: &[(&str, &[u32])] = &[
        ("( a )\nb", &[1]),
        ("x\n(\n a\n b\n)\nb", &[2, 3, 4, 5]),
        ("( a ) || b", &[1]),
        ("( a ) 2>&1", &[1]),
        ("( a ) >&2", &[1]),
        ("( a ) &\nb", &[]),
        ("( a ) |\n b", &[]),
        ("b |\n ( a )", &[]),
        ("( a ) && b &", &[]),
        ("( a ) < <(b)", &[]),
        ("f() { a; }", &[]),
        ("x=(a)", &[]),
        ("if ( a ); then\n b\nfi", &[1]),
        ("for i in 1; do\n ( a )\ndone", &[2]),
    ];
    for (script, expected) in cases {
        let plain: Vec<u32> = Statements::parse(script).plain_lines().collect();
        assert_eq!(plain, *expected, "{script}");
    }
}

#[test]
fn function_heads_are_known() {
    for head in [
        "f() {",
        "f () {",
        "function f {",
        "function f() {",
        "f()",
        "f() { # x",
    ] {
        assert!(Statements::parse(head).opens_function(1), "{head}");
    }
    for other in ["f() { a; }", "f", "(", "a && f() {", "{", "echo $(x)"] {
        assert!(!Statements::parse(other).opens_function(1), "{other}");
    }
}

#[test]
fn any_text_is_survived() {
    for script in [
        "", "'", "\"$(", "<<", "cat <<", "cat <<E", "((", "$((", "\\", "case", ")))", "}}}", "`",
        "a <<E\n",
    ] {
        let statements = Statements::parse(script);
        for line in 0..4 {
            statements.text(line);
        }
    }
}

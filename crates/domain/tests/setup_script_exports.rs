//! Which exports of a script could be variables of the environment instead.

use domain::setup_script::{movable_exports, without_line};

fn moved(script: &str) -> Vec<String> {
    movable_exports(script)
        .into_iter()
        .map(|export| {
            let pairs: Vec<String> = export
                .variables
                .into_iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            format!("{}: {}", export.line, pairs.join(" "))
        })
        .collect()
}

#[test]
fn an_export_of_fixed_values_can_be_moved() {
    for (script, lines) in [
        ("export A=1", vec!["1: A=1"]),
        (
            "make\n  export A=1 B=\"two words\"\n",
            vec!["2: A=1 B=two words"],
        ),
        (
            "export URL='https://a.example/x?y=z'",
            vec!["1: URL=https://a.example/x?y=z"],
        ),
        ("export EMPTY=", vec!["1: EMPTY="]),
        (
            "export A=1 # why\nexport B=a'b'c",
            vec!["1: A=1", "2: B=abc"],
        ),
        ("if true; then\n  make\nfi\nexport A=1", vec!["4: A=1"]),
        (
            "f() {\n make\n}\nfunction g {\n make\n}\nexport A=1",
            vec!["7: A=1"],
        ),
        ("case $1 in\n a) make ;;\nesac\nexport A=1", vec!["4: A=1"]),
        ("cat > f <<E\nexport A=1\nE\nexport B=2", vec!["4: B=2"]),
    ] {
        assert_eq!(moved(script), lines, "{script:?}");
    }
}

#[test]
fn an_export_whose_place_matters_stays() {
    for script in [
        "",
        // Computed.
        "export A=$B",
        "export A=\"$(date)\"",
        "export A=`date`",
        "export A=~/x",
        "export A={1,2}",
        "export A=a\\ b",
        // Not a value.
        "export A",
        "export A=1 B",
        "export -n A=1",
        "export A+=x",
        "export 1A=x",
        // Names that are the sandbox's.
        "export PATH=/opt/bin",
        "export LD_LIBRARY_PATH=/opt/lib",
        // Not always done, or not in this shell.
        "if true; then\n  export A=1\nfi",
        "for i in 1 2; do\n  export A=1\ndone",
        "f() {\n  export A=1\n}",
        "function f {\n  export A=1\n}",
        "(\n  export A=1\n)",
        "{\n  export A=1\n} 2>log",
        "case x in\n  x)\n    export A=1\n    ;;\nesac",
        "true &&\nexport A=1",
        "true || # or\n  export A=1",
        "true |\n\n# then\nexport A=1",
        "true && export A=1",
        "export A=1; make",
        "export A=1 &",
        "export A=1 > log",
        // A part of something longer.
        "export A=\"one\ntwo\"",
        "export A=1 \\\n  B=2",
        "echo '\nexport A=1\n'",
        "x=$(\nexport A=1\n)",
        "bash <<E\nexport A=1\nE",
        "sudo export A=1",
    ] {
        assert_eq!(moved(script), Vec::<String>::new(), "{script:?}");
    }
}

#[test]
fn a_line_is_taken_out() {
    for (script, line, left) in [
        ("a\nb\nc\n", 2, "a\nc\n"),
        ("a\nb", 2, "a\n"),
        ("a\n", 1, ""),
        ("a\n", 7, "a\n"),
        ("", 1, ""),
    ] {
        assert_eq!(without_line(script, line), left);
    }
}

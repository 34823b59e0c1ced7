//! Lines that may still change.

use super::*;

#[test]
fn batches_say_whether_their_last_line_may_still_change() {
    let open_then = |more: &str, ended: bool| {
        let mut pipeline = pipeline();
        pipeline.event(&out("whole\nwork"), ms(0));
        assert!(!pipeline.take_rest().unwrap().open, "only what is whole");
        pipeline.tick(ms(250));
        assert!(pipeline.take_rest().unwrap().open);
        pipeline.event(&out(more), ms(300));
        if ended {
            pipeline.end_of_output(ms(310));
        }
        let batch = pipeline.take_rest().expect("readers are told");
        let texts: Vec<String> = batch.lines.into_iter().map(|line| line.text).collect();
        (texts, batch.open)
    };
    // Also where its text does not change any more.
    assert_eq!(open_then("\n", false), (vec!["work".to_owned()], false));
    assert_eq!(open_then("", true), (vec!["work".to_owned()], false));
    assert_eq!(open_then("ed\n", false), (vec!["worked".to_owned()], false));
    let mut pipeline = pipeline();
    pipeline.event(&out("work"), ms(0));
    pipeline.tick(ms(250));
    pipeline.system("a note", ms(260));
    let batch = pipeline.take_rest().unwrap();
    assert_eq!(
        (batch.lines.len(), batch.open),
        (2, false),
        "closed by another line"
    );
}

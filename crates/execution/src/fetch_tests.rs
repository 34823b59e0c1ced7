//! Places of fetched files.

use super::*;

#[test]
fn of_two_files_at_once_that_only_one_has_room_for_one_is_refused() {
    let state = tempfile::tempdir().unwrap();
    let space = Space {
        dir: state.path().join("fetched"),
        sandboxes: state.path().join(SANDBOXES),
        reserve: 1 << 20,
    };
    fs::create_dir(&space.dir).unwrap();
    // Each has room for itself, and none takes a block of it here.
    let bytes = space.available().unwrap() / 5 * 3;
    for round in 0..20 {
        let barrier = std::sync::Barrier::new(2);
        let results = std::thread::scope(|scope| {
            [(), ()]
                .map(|()| {
                    scope.spawn(|| {
                        barrier.wait();
                        Place::promised(&space, bytes)
                    })
                })
                .map(|running| running.join().unwrap())
        });
        let refused: Vec<_> = results
            .iter()
            .filter_map(|result| result.as_ref().err()?.raw_os_error())
            .collect();
        assert_eq!(refused, [libc::ENOSPC], "round {round}");
    }
}

#[test]
fn a_file_whose_process_is_gone_is_found_and_one_in_use_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (place, _) = Place::take(dir.path()).unwrap();
    let (other, _) = Place::take(dir.path()).unwrap();
    assert_ne!(place.path, other.path);
    let stale = dir.path().join("1.0");
    fs::write(&stale, "half").unwrap();
    assert_eq!(left(dir.path()), [stale]);
    let path = place.path.clone();
    drop(place);
    assert!(!path.exists() && other.path.exists());
}

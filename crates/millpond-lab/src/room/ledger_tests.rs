use super::*;
use std::os::unix::fs::PermissionsExt;

/// No system has so many. Of those who are not root nobody can say that it is not there.
const NO_LOOP: u32 = 900_001;

fn place() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn begin(place: &Path) -> Ledger {
    Ledger::begin(place, Duration::ZERO).unwrap()
}

/// A folder, two settings and a mount that never came to be.
fn change(ledger: &mut Ledger, at: &Path) {
    let (folder, setting) = (at.join("folder"), at.join("setting"));
    fs::write(&setting, "mq-deadline").unwrap();
    ledger.note(Step::Folder(folder.clone())).unwrap();
    fs::create_dir(&folder).unwrap();
    ledger.set(&setting, "mq-deadline".into(), "none").unwrap();
    ledger.set(&setting, "none".into(), "bfq").unwrap();
    ledger.note(Step::Mount(folder.join("never"))).unwrap();
    ledger.note(Step::Loop(NO_LOOP)).unwrap();
}

fn assert_undone(at: &Path) {
    assert!(!at.join("folder").exists());
    assert_eq!(fs::read_to_string(at.join("setting")).unwrap(), "mq-deadline");
    assert!(!at.join("ledger").exists());
}

#[test]
fn steps_are_undone_from_the_last_to_the_first_and_once() {
    let place = place();
    let mut ledger = begin(place.path());
    change(&mut ledger, place.path());
    ledger.undo().unwrap();
    assert_undone(place.path());
    fs::write(place.path().join("setting"), "somebody else's").unwrap();
    ledger.undo().unwrap();
    assert_eq!(
        fs::read_to_string(place.path().join("setting")).unwrap(),
        "somebody else's"
    );
}

#[test]
fn what_a_killed_run_left_is_undone_by_the_next() {
    let place = place();
    let mut killed = begin(place.path());
    change(&mut killed, place.path());
    // its last line was not written in full: then the step was not done
    killed.file.write_all(b"{\"folder\":\"/etc").unwrap();
    drop(killed);
    drop(begin(place.path()));
    assert!(!place.path().join("folder").exists());
    assert_eq!(
        fs::read_to_string(place.path().join("setting")).unwrap(),
        "mq-deadline"
    );
}

#[test]
fn the_process_that_is_left_undoes_its_own_room_and_no_other() {
    let place = place();
    let mut killed = begin(place.path());
    change(&mut killed, place.path());
    let room = killed.room().to_owned();
    drop(killed);
    undo_room(place.path(), "another-room").unwrap();
    assert!(place.path().join("folder").exists());
    undo_room(place.path(), &room).unwrap();
    assert_undone(place.path());
    undo_room(place.path(), &room).unwrap();
}

#[test]
fn there_is_one_room_at_a_time() {
    let place = place();
    let first = begin(place.path());
    let error = Ledger::begin(place.path(), Duration::ZERO).unwrap_err();
    assert!(error.contains("another run"), "{error}");
    drop(first);
    drop(begin(place.path()));
}

#[test]
fn what_cannot_be_undone_is_named_and_tried_again_and_the_rest_is_undone() {
    let place = place();
    let mut ledger = begin(place.path());
    change(&mut ledger, place.path());
    // somebody has put something into it
    fs::write(place.path().join("folder/file"), "x").unwrap();
    let error = ledger.undo().unwrap_err().to_string();
    assert!(
        error.contains("folder") && error.contains("the next run will try again"),
        "{error}"
    );
    assert_eq!(
        fs::read_to_string(place.path().join("setting")).unwrap(),
        "mq-deadline"
    );
    drop(ledger);
    let error = Ledger::begin(place.path(), Duration::ZERO).unwrap_err();
    assert!(error.contains("folder"), "{error}");
    fs::remove_file(place.path().join("folder/file")).unwrap();
    drop(begin(place.path()));
    assert!(!place.path().join("folder").exists());
}

#[test]
fn ledger_of_before_the_machine_was_started_again_is_only_removed() {
    let place = place();
    let mut ledger = begin(place.path());
    change(&mut ledger, place.path());
    drop(ledger);
    let path = place.path().join("ledger");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(&boot(), "another-boot")).unwrap();
    drop(begin(place.path()));
    assert_eq!(fs::read_to_string(place.path().join("setting")).unwrap(), "bfq");
}

#[test]
fn setting_that_is_gone_is_no_failure_and_one_that_refuses_is() {
    let place = place();
    let step = |name: &str| Step::Text {
        path: place.path().join(name),
        before: "1".into(),
    };
    undo(&step("gone")).unwrap();
    if rustix::process::geteuid().is_root() {
        println!("skipped: root may write anything");
        return;
    }
    fs::write(place.path().join("locked"), "0").unwrap();
    fs::set_permissions(place.path().join("locked"), fs::Permissions::from_mode(0o400)).unwrap();
    assert!(undo(&step("locked")).unwrap_err().contains("locked"));
}

#[test]
fn steps_survive_the_way_through_the_file() {
    let steps = [
        Step::Folder("/a b/\u{e9}".into()),
        Step::Disk {
            pid: 7,
            started: u64::MAX,
            point: "/p".into(),
        },
        Step::Loop(8),
        Step::Text {
            path: "/x".into(),
            before: "[a] \"b\"\n".into(),
        },
        Step::Mount("/m".into()),
    ];
    let place = place();
    let mut ledger = begin(place.path());
    for step in &steps {
        ledger.note(step.clone()).unwrap();
    }
    let (header, read) = read(place.path()).unwrap();
    assert_eq!(header.room, ledger.room());
    assert_eq!(read, steps);
    ledger.steps = None;
}

#[test]
fn a_process_of_the_same_number_that_was_started_later_is_left_alone() {
    let own = std::process::id() as i32;
    let started = started_at(own).unwrap();
    // would not return if it took this process for the disk's
    end(own, started + 1);
    end(i32::MAX, 0);
}

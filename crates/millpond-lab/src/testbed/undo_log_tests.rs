use super::*;
use std::os::unix::fs::PermissionsExt;

/// More than any system has.
const NO_LOOP: u32 = 900_001;

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn begin(run_dir: &Path) -> UndoLog {
    UndoLog::begin(run_dir, Duration::ZERO).unwrap()
}

/// A folder, two settings and a mount that never came to be.
fn change(undo_log: &mut UndoLog, at: &Path) {
    let (folder, setting) = (at.join("folder"), at.join("setting"));
    fs::write(&setting, "mq-deadline").unwrap();
    undo_log.note(Step::Folder(folder.clone())).unwrap();
    fs::create_dir(&folder).unwrap();
    undo_log.set(&setting, "mq-deadline".into(), "none").unwrap();
    undo_log.set(&setting, "none".into(), "bfq").unwrap();
    undo_log.note(Step::Mount(folder.join("never"))).unwrap();
    undo_log.note(Step::Loop(NO_LOOP)).unwrap();
}

fn assert_undone(at: &Path) {
    assert!(!at.join("folder").exists());
    assert_eq!(fs::read_to_string(at.join("setting")).unwrap(), "mq-deadline");
    assert!(!at.join("undo_log").exists());
}

#[test]
fn steps_are_undone_from_the_last_to_the_first_and_once() {
    let run_dir = temporary();
    let mut undo_log = begin(run_dir.path());
    change(&mut undo_log, run_dir.path());
    undo_log.undo().unwrap();
    assert_undone(run_dir.path());
    fs::write(run_dir.path().join("setting"), "somebody else's").unwrap();
    undo_log.undo().unwrap();
    assert_eq!(
        fs::read_to_string(run_dir.path().join("setting")).unwrap(),
        "somebody else's"
    );
}

#[test]
fn remains_of_a_killed_run_are_undone_by_the_next() {
    let run_dir = temporary();
    let mut killed = begin(run_dir.path());
    change(&mut killed, run_dir.path());
    // its last line was not written in full: then the step was not done
    killed.file.write_all(b"{\"folder\":\"/etc").unwrap();
    drop(killed);
    drop(begin(run_dir.path()));
    assert!(!run_dir.path().join("folder").exists());
    assert_eq!(
        fs::read_to_string(run_dir.path().join("setting")).unwrap(),
        "mq-deadline"
    );
}

#[test]
fn the_process_that_is_left_undoes_its_own_testbed_and_no_other() {
    let run_dir = temporary();
    let mut killed = begin(run_dir.path());
    change(&mut killed, run_dir.path());
    let testbed = killed.testbed().to_owned();
    drop(killed);
    undo_of(run_dir.path(), "another-testbed").unwrap();
    assert!(run_dir.path().join("folder").exists());
    undo_of(run_dir.path(), &testbed).unwrap();
    assert_undone(run_dir.path());
    undo_of(run_dir.path(), &testbed).unwrap();
}

#[test]
fn there_is_one_testbed_at_a_time() {
    let run_dir = temporary();
    let first = begin(run_dir.path());
    let error = UndoLog::begin(run_dir.path(), Duration::ZERO).unwrap_err();
    assert!(error.contains("another run"), "{error}");
    drop(first);
    drop(begin(run_dir.path()));
}

#[test]
fn entries_that_cannot_be_undone_are_named_and_retried_and_the_rest_is_undone() {
    let run_dir = temporary();
    let mut undo_log = begin(run_dir.path());
    change(&mut undo_log, run_dir.path());
    // a user has put something into it
    fs::write(run_dir.path().join("folder/file"), "x").unwrap();
    let error = undo_log.undo().unwrap_err().to_string();
    assert!(
        error.contains("folder") && error.contains("the next run will try again"),
        "{error}"
    );
    assert_eq!(
        fs::read_to_string(run_dir.path().join("setting")).unwrap(),
        "mq-deadline"
    );
    drop(undo_log);
    let error = UndoLog::begin(run_dir.path(), Duration::ZERO).unwrap_err();
    assert!(error.contains("folder"), "{error}");
    fs::remove_file(run_dir.path().join("folder/file")).unwrap();
    drop(begin(run_dir.path()));
    assert!(!run_dir.path().join("folder").exists());
}

#[test]
fn an_undo_log_of_before_the_machine_was_started_again_is_only_removed() {
    let run_dir = temporary();
    let mut undo_log = begin(run_dir.path());
    change(&mut undo_log, run_dir.path());
    drop(undo_log);
    let path = run_dir.path().join("undo_log");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(&boot(), "another-boot")).unwrap();
    drop(begin(run_dir.path()));
    assert_eq!(fs::read_to_string(run_dir.path().join("setting")).unwrap(), "bfq");
}

#[test]
fn setting_that_is_gone_is_no_failure_and_one_that_refuses_is() {
    let run_dir = temporary();
    let step = |name: &str| Step::Text {
        path: run_dir.path().join(name),
        before: "1".into(),
    };
    undo(&step("gone")).unwrap();
    if rustix::process::geteuid().is_root() {
        println!("skipped: root may write anything");
        return;
    }
    fs::write(run_dir.path().join("locked"), "0").unwrap();
    fs::set_permissions(run_dir.path().join("locked"), fs::Permissions::from_mode(0o400)).unwrap();
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
    let run_dir = temporary();
    let mut undo_log = begin(run_dir.path());
    for step in &steps {
        undo_log.note(step.clone()).unwrap();
    }
    let (header, read) = read(run_dir.path()).unwrap();
    assert_eq!(header.testbed, undo_log.testbed());
    assert_eq!(read, steps);
    undo_log.steps = None;
}

#[test]
fn a_process_of_the_same_number_that_was_started_later_is_left_alone() {
    let own = std::process::id() as i32;
    let started = started_at(own).unwrap();
    // would not return if it took this process for the disk's
    end(own, started + 1);
    end(i32::MAX, 0);
}

//! What a host needs to run Millpond as a service: pages, completions, a unit, the helper of mount(8).
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests: they fail by panicking, and say why they were skipped"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_millpond");

fn contrib(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib");
    path.canonicalize().unwrap().join(name)
}

fn output(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Names that `--help` lists below a command.
fn commands(of: &[&str]) -> Vec<String> {
    let help = said(&output(PROGRAM, &[of, &["--help"]].concat()));
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed.take_while(|line| line.starts_with("  "));
    let names = names.filter(|line| !line.starts_with("   "));
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Every command that users see, as words.
fn all_commands() -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for name in commands(&[]) {
        let below = commands(&[&name]);
        all.extend(below.into_iter().map(|below| vec![name.clone(), below]));
        all.push(vec![name]);
    }
    assert!(all.len() > 12, "{all:?}");
    all
}

#[test]
fn every_command_has_a_page_with_an_example() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let written = output(PROGRAM, &["man", pages.to_str().unwrap()]);
    assert!(written.status.success(), "{}", said(&written));
    let mut expected: BTreeSet<String> = all_commands()
        .iter()
        .map(|words| format!("millpond-{}.1", words.join("-")))
        .collect();
    expected.insert("millpond.1".into());
    let there: BTreeSet<String> = fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(there, expected);
    for name in &there {
        let page = fs::read_to_string(pages.join(name)).unwrap();
        assert!(page.contains(".SH EXAMPLE"), "{name} has no example");
        assert!(
            page.contains(".SH SYNOPSIS") || page.contains(".SH NAME"),
            "{name}"
        );
    }
    if Command::new("man").arg("--version").output().is_err() {
        return println!("skipped: no man(1) to show a page with");
    }
    let shown = Command::new("man")
        .args(["-l", "--warnings"])
        .arg(pages.join("millpond-mount.1"))
        .env("MANPAGER", "cat")
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let text = said(&shown);
    assert!(shown.status.success() && text.contains("--memory"), "{text}");
    assert!(
        text.contains("millpond mount") && !text.contains("warning:"),
        "{text}"
    );
    // What options take, and examples a line each: they were filled into a paragraph.
    for line in ["[--memory SIZE]", "millpond umount /mnt/pond  "] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    let starts = |line: &&str| line.trim_start().starts_with("millpond ");
    assert!(text.lines().filter(starts).count() >= 5, "{text}");
}

#[test]
fn help_that_can_not_be_written_is_an_error_and_a_closed_pipe_is_none() {
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else {
        return println!("skipped: no /dev/full");
    };
    for arguments in [&["--help"][..], &["--version"], &["mount", "--help"]] {
        let mut command = Command::new(PROGRAM);
        let told = command
            .args(arguments)
            .stdout(full.try_clone().unwrap())
            .output()
            .unwrap();
        assert_eq!(told.status.code(), Some(1), "{arguments:?}");
        assert!(
            said(&told).contains("millpond: cannot write: "),
            "{}",
            said(&told)
        );
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let told = Command::new(PROGRAM)
            .args(arguments)
            .stdout(writer)
            .output()
            .unwrap();
        assert_eq!(
            (told.status.code(), said(&told).as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
    assert_eq!(output(PROGRAM, &["--help"]).status.code(), Some(0));
    assert_eq!(output(PROGRAM, &["--no-such"]).status.code(), Some(2));
}

#[test]
fn every_command_has_an_example_in_its_help() {
    for words in all_commands() {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let help = said(&output(PROGRAM, &[&words[..], &["--help"]].concat()));
        assert!(help.contains("Example"), "{words:?} has none:\n{help}");
    }
}

#[test]
fn completions_know_commands_options_and_names_and_the_shells_take_them() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = output(PROGRAM, &["completions", shell]);
        assert!(script.status.success(), "{shell}");
        let text = said(&script);
        assert!(text.contains(PROGRAM), "{shell}: {text}");
        let path = folder.path().join(shell);
        fs::write(&path, &text).unwrap();
        match Command::new(shell).arg("-n").arg(&path).output() {
            Err(_) => println!("skipped: no {shell} to read its completions"),
            Ok(read) => assert!(read.status.success(), "{shell}: {}", said(&read)),
        }
    }
    let cache = millpond::PageCache::builder().memory(2 << 20).calibrate(false);
    let _cache = cache.name("a-pond").control(true).build().unwrap();
    let pid = std::process::id().to_string();
    // What bash itself makes of these words, and fish of the same line. bash takes words apart at `=`.
    for (words, offered) in [
        (&["sta"][..], "stat"),
        (&["umount", "--la"], "--lazy"),
        (&["lab", "run", "ki"], "kim2020"),
        (&["lab", "run", "hills2015", "--variant", "f"], "fixed"),
        (
            &["lab", "run", "kim2020", "--workload", "toy-protect,hot"],
            "toy-protect,hot-cold",
        ),
        (&["lab", "run", "axboe2016", "--on", "si"], "sim"),
        (&["set", "dirty.b"], "dirty.background="),
        (&["set", "admission", "=", "g"], "goal"),
        (
            &["replay", "a.trace", "--policy", "linux-6,dil"],
            "linux-6,dillon-2000",
        ),
        (&["stat", "--cache", "a-p"], "a-pond"),
        (&["stat", "--cache", &pid], &pid),
    ] {
        let last = words.last().unwrap();
        let asks = format!(
            "source {}; COMP_WORDS=(millpond {}); COMP_CWORD={}; COMP_TYPE=9; \
             _clap_complete_millpond millpond '{last}' ''; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            folder.path().join("bash").display(),
            words.join(" "),
            words.len()
        );
        let answer = output("bash", &["-c", &asks]);
        assert_eq!(
            said(&answer).lines().collect::<Vec<_>>(),
            [offered],
            "bash: {words:?}"
        );
        let line = words.join(" ").replace(" = ", "=");
        let asks = format!(
            "source {}; complete -C 'millpond {line}'",
            folder.path().join("fish").display()
        );
        let Ok(answer) = Command::new("fish").args(["-c", &asks]).output() else {
            continue;
        };
        let offered = match words.contains(&"=") {
            true => format!("admission={offered}"),
            false => offered.to_owned(),
        };
        let text = said(&answer);
        let firsts: Vec<_> = text.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(firsts, [offered], "fish: {line}");
    }
    let unknown = output(PROGRAM, &["completions", "tcsh"]);
    assert_eq!(unknown.status.code(), Some(2), "{}", said(&unknown));
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let unit = contrib("systemd/millpond@.service");
    let Ok(verified) = Command::new("systemd-analyze").arg("verify").arg(&unit).output() else {
        return println!("skipped: no systemd-analyze");
    };
    let text = said(&verified);
    // Others may be wrong on this host; and it fails if a page is named that is not installed.
    let about_us = text.lines().filter(|line| line.contains("millpond")).count();
    assert!(about_us == 0, "{text}");
    assert!(verified.status.success() || !text.is_empty(), "{text}");
}

#[test]
fn the_helper_is_no_more_than_posix_and_says_what_it_does_not_know() {
    let helper = contrib("mount.fuse.millpond");
    let helper = helper.to_str().unwrap();
    for shell in ["dash", "sh"] {
        if let Ok(read) = Command::new(shell).args(["-n", helper]).output() {
            assert!(read.status.success(), "{shell}: {}", said(&read));
        }
    }
    let wrong = output(helper, &["/a", "/b", "-o", "memory=1G,speed=high"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        said(&wrong).contains("unknown option speed=high"),
        "{}",
        said(&wrong)
    );
    // What mount(8) hands on of a line in /etc/fstab that has `user,noexec,...`.
    let usual = "rw,noexec,nosuid,nodev,user=ann,relatime,nofail,_netdev,x-systemd.automount,memory=1G";
    let fake = output(helper, &["/a", "/b", "-f", "-o", usual]);
    assert_eq!(fake.status.code(), Some(0), "{}", said(&fake));
    let none = output(helper, &["/a"]);
    assert_eq!(none.status.code(), Some(1), "{}", said(&none));
    let fake = output(helper, &["/a", "/b", "-f", "-s", "-o", "speed=high,rw"]);
    assert_eq!(fake.status.code(), Some(0), "{}", said(&fake));
}

/// In a mount name space of its own, in which the helper is where mount(8) looks for it.
#[test]
fn mount_8_mounts_and_unmounts_by_the_helper() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return println!("skipped: mount(8) needs root and /dev/fuse");
    }
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
set -e
cd "$FOLDER"
trap 'umount -l "$FOLDER/m n" "$FOLDER/mnt" 2>/dev/null || true' EXIT
mkdir src "m n" mnt sbin
echo hello > src/file
mount --make-rprivate /
# The folder of helpers, with ours in it.
mkdir real && mount --bind "$(readlink -f /sbin)" real
for helper in real/*; do ln -s "$FOLDER/$helper" sbin/; done
cp "$HELPER" sbin/mount.fuse.millpond
ln -s "$PROGRAM" sbin/millpond
mount --bind sbin "$(readlink -f /sbin)"
PATH=$PATH:/sbin
mount -t fuse.millpond "$FOLDER/src" "$FOLDER/m n" -o memory=16M,allow_other,no_control,nofail,pid_file="$FOLDER/pid"
grep -q "m.040n fuse.millpond" /proc/mounts
cat "m n/file"
echo more >> "m n/file"
mount -o remount,ro "$FOLDER/m n"
if echo no > "m n/other"; then exit 9; fi
mount -o remount,rw "$FOLDER/m n"
echo most >> "m n/file"
millpond umount "m n"
for n in $(seq 600); do [ -e pid ] || break; sleep 0.1; done
[ ! -e pid ]
cat src/file
mount -t fuse.millpond "$FOLDER/src" "$FOLDER/mnt" -o ro,expire=7s,user,nofail > all 2>&1
# Where the system has no log that is said.
if grep -v "no system log" all > said; then cat said; exit 8; fi
mount -o remount,memory=32M "$FOLDER/mnt"
millpond inspect --cache "$FOLDER/mnt" options memory | grep -q "memory=32M"
millpond inspect --cache "$FOLDER/mnt" options flusher.expire | grep -q "flusher.expire=7s"
mount -o remount,expire=500ms "$FOLDER/mnt"
millpond inspect --cache "$FOLDER/mnt" options flusher.expire | grep -q "flusher.expire=500ms"
grep " $FOLDER/mnt fuse.millpond" /proc/mounts | grep noexec | grep nosuid | grep -q nodev
if echo no > mnt/file; then exit 9; fi
millpond umount mnt
if mount -t fuse.millpond "$FOLDER/none" "$FOLDER/mnt" -o no_control; then exit 9; fi
"#;
    let ran = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .env("FOLDER", folder.path())
        .env("PROGRAM", PROGRAM)
        .env("HELPER", contrib("mount.fuse.millpond"))
        .output();
    let Ok(ran) = ran else {
        return println!("skipped: no unshare(1)");
    };
    if said(&ran).contains("unshare failed") {
        return println!("skipped: {}", said(&ran));
    }
    assert!(ran.status.success(), "{}", said(&ran));
    assert_eq!(
        String::from_utf8_lossy(&ran.stdout),
        "hello\nhello\nmore\nmost\n",
        "{}",
        said(&ran)
    );
}

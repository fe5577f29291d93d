//! Real servers and real processes: writers that are killed, that fight, that sleep, and readers that follow.
//!
//! A test starts a server and runs this program once more with a role, so that the credentials are in the environment of that
//! process alone, as they are a user's. `MILLPOND_KILLS=200` kills as often.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a test says what it skips")]

#[path = "../shared/draw.rs"]
mod draw;
#[path = "../shared/prefixes.rs"]
mod prefixes;
mod roles;
mod server;
#[cfg(feature = "s3")]
mod stops;
#[cfg(feature = "s3")]
mod tls;

use server::Server;
use std::process::Command;

const ROLE: &str = "MILLPOND_ROLE";
const URL: &str = "MILLPOND_URL";

/// This program in a role.
fn in_role(role: &str, url: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "takes_a_role_when_it_is_given_one",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ROLE, role)
        .env(URL, url);
    command
}

#[test]
fn takes_a_role_when_it_is_given_one() {
    if let (Ok(role), Ok(url)) = (std::env::var(ROLE), std::env::var(URL)) {
        roles::take(&role, &url);
    }
}

/// Runs a scenario on each server.
fn on_all(scenario: &str) {
    for Server {
        name,
        url,
        environment,
        ..
    } in &server::all()
    {
        let mut command = in_role(scenario, url);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{scenario} on {name}: {said}{errors}");
        let last = said
            .lines()
            .find(|line| line.starts_with("seen: "))
            .unwrap_or_else(|| panic!("{scenario} on {name} has seen nothing: {said}"));
        println!("{scenario} on {name}: {last}");
    }
}

#[test]
fn what_a_killed_writer_was_told_is_in_the_store() {
    on_all("kills");
}

#[test]
fn of_two_writers_that_fight_neither_is_told_ok_for_what_the_other_does_not_find() {
    on_all("fight");
}

#[test]
fn a_reader_sees_whole_commits_while_all_is_written_anew_twice() {
    on_all("follows");
}

#[test]
fn a_process_that_was_stopped_through_a_takeover_and_a_cleaning_is_never_told_ok() {
    on_all("sleeps");
}

#[test]
fn a_store_is_found_again_whatever_its_prefix_and_its_names_are() {
    on_all("names");
}

#[test]
fn what_was_in_a_cache_and_in_no_commit_when_another_process_took_the_store_can_be_had() {
    on_all("loses");
}

#[cfg(feature = "s3")]
#[test]
fn a_wrong_key_is_an_error_without_the_key() {
    let Some(server) = server::versitygw() else { return };
    let mut command = in_role("refused", &server.url);
    command.envs(server.environment.iter().map(|(name, value)| (name, value)));
    command
        .env("AWS_ACCESS_KEY_ID", "AKIDWRONG")
        .env("AWS_SECRET_ACCESS_KEY", "SECRETWRONG");
    let output = command.output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("seen: "), "{said}");
    assert!(
        !said.contains("AKIDWRONG") && !said.contains("SECRETWRONG"),
        "{said}"
    );
}

//! No message has a secret in it, wherever that is from: a server that refuses all, and says every header that it got.

#![cfg(feature = "s3")]
#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a role says what it was told")]

use millpond_volumes::{Store, StoreOptions, StoreReader};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const ROLE: &str = "MILLPOND_SECRETS_ROLE";

/// All that may not be said. None is as long as what is left out for its length.
const KEY: &str = "AKIDOFTHISKIND";
const SECRET: &str = "secret/of+this/kind";
const TOKEN: &str = "token+of/this==";
const ENCRYPTION: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
const AUTHORIZATION: &str = "authorization-of-a-container";

fn handed_out() -> String {
    format!(
        "{{\"AccessKeyId\":\"{KEY}\",\"SecretAccessKey\":\"{SECRET}\",\"Token\":\"{TOKEN}\",\
         \"Expiration\":\"2999-01-01T00:00:00Z\",\"Code\":\"Success\"}}"
    )
}

/// Gives a role its credentials; refuses all else, and says what it was asked with.
fn answer(mut stream: TcpStream) -> Option<()> {
    let mut from = BufReader::new(stream.try_clone().ok()?);
    let (mut first, mut headers, mut length) = (String::new(), String::new(), 0);
    from.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        from.read_line(&mut line).ok()?;
        let line = line.trim();
        if line.is_empty() {
            break;
        }
        if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = bytes.trim().parse().ok()?;
        }
        headers += &format!("{line}; ");
    }
    from.read_exact(&mut vec![0; length]).ok()?;
    let path = first.split(' ').nth(1)?;
    let (status, body) = match path {
        "/latest/api/token" => ("200 OK", String::from("token-for-metadata")),
        "/latest/meta-data/iam/security-credentials/" => ("200 OK", String::from("role")),
        "/latest/meta-data/iam/security-credentials/role" | "/container" => ("200 OK", handed_out()),
        _ => {
            // The shortest first: a message has its bounds.
            let mut said: Vec<&str> = headers
                .split("; ")
                .filter(|line| line.starts_with("x-amz-s"))
                .collect();
            said.sort_by_key(|line| line.len());
            let authorization = headers
                .split("; ")
                .find(|line| line.starts_with("authorization"))?;
            let said = format!("{}; {authorization}", said.join("; "));
            let said = format!("<Error><Code>AccessDenied</Code><Message>{SECRET} {said}</Message></Error>");
            ("403 Forbidden", said)
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).ok()
}

fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream));
        }
    });
    port
}

#[test]
fn takes_its_role() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let (began, options) = (Instant::now(), || StoreOptions::new().retries(0));
    let error = Store::open("s3://vol/store", options()).unwrap_err();
    println!("\nseen: {error} {error:?}");
    let error = StoreReader::open("s3://vol/store", options()).unwrap_err();
    println!("\nseen: {error} {error:?}");
    // Neither waits for a store that may be there later.
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
}

fn said(home: &Path, port: u16, environment: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "takes_its_role", "--nocapture", "--test-threads=1"]);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
        command.env_remove(name);
    }
    let here = format!("http://127.0.0.1:{port}");
    command
        .env(ROLE, "yes")
        .env("HOME", home)
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT_URL", &here)
        .envs(
            environment
                .iter()
                .map(|(name, value)| (name, value.replace("HERE", &here))),
        );
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

/// What it is, where a process is at home, and what is in its environment.
type Kind<'a> = (&'a str, &'a Path, &'a [(&'a str, &'a str)]);

#[test]
fn no_message_has_a_key_or_a_token_in_it_wherever_it_is_from() {
    let (port, home) = (serve(), tempfile::tempdir().unwrap());
    let aws = home.path().join(".aws");
    std::fs::create_dir(&aws).unwrap();
    let keys =
        format!("aws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\naws_session_token = {TOKEN}\n");
    std::fs::write(aws.join("credentials"), format!("[default]\n{keys}")).unwrap();
    std::fs::write(aws.join("config"), format!("[profile named]\n{keys}")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let token_file = elsewhere.path().join("token");
    std::fs::write(&token_file, AUTHORIZATION).unwrap();
    let of_environment = [("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET)];
    let token_file = token_file.to_str().unwrap();
    let kinds: [Kind; 7] = [
        (
            "environment",
            elsewhere.path(),
            &[&of_environment[..], &[("AWS_SESSION_TOKEN", TOKEN)]].concat(),
        ),
        (
            "the token's other name",
            elsewhere.path(),
            &[&of_environment[..], &[("AWS_TOKEN", TOKEN)]].concat(),
        ),
        (
            "a key for encryption",
            elsewhere.path(),
            &[
                &of_environment[..],
                &[
                    ("AWS_SERVER_SIDE_ENCRYPTION", "sse-c"),
                    ("AWS_SSE_CUSTOMER_KEY_BASE64", ENCRYPTION),
                ],
            ]
            .concat(),
        ),
        ("a file of credentials", home.path(), &[]),
        ("a profile", home.path(), &[("AWS_PROFILE", "named")]),
        (
            "a role of the machine",
            elsewhere.path(),
            &[("AWS_METADATA_ENDPOINT", "HERE")],
        ),
        (
            "a role of a container",
            elsewhere.path(),
            &[
                ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "HERE/container"),
                ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token_file),
            ],
        ),
    ];
    for (kind, home, environment) in kinds {
        let said = said(home, port, environment);
        // The server has said the credentials that it was asked with, each of them masked.
        assert_eq!(said.matches("seen: ").count(), 2, "{kind}: {said}");
        let refusals = said.matches("seen: s3://vol/store: AccessDenied: … ").count();
        assert_eq!(refusals, 2, "{kind}: {said}");
        assert!(said.contains("Credential=…/"), "{kind}: {said}");
        for secret in [KEY, SECRET, TOKEN, ENCRYPTION, AUTHORIZATION] {
            assert!(!said.contains(secret), "{kind}: {said}");
        }
    }
}

#[test]
fn an_endpoint_that_is_no_address_and_credentials_that_are_not_there_are_said_at_once() {
    let (port, home) = (serve(), tempfile::tempdir().unwrap());
    for endpoint in ["127.0.0.1:9207", "nonsense", "ftp://127.0.0.1"] {
        let said = said(home.path(), port, &[("AWS_ENDPOINT_URL", endpoint)]);
        let refusal = "seen: s3://vol: an endpoint begins with http:// or https://";
        assert_eq!(said.matches(refusal).count(), 2, "{endpoint}: {said}");
        assert!(!said.contains("panicked"), "{endpoint}: {said}");
    }
    let said = said(home.path(), port, &[("AWS_METADATA_ENDPOINT", "HERE/none")]);
    let without =
        "there is no AWS_ACCESS_KEY_ID, no key and no credential_process in the profile default, and";
    assert!(said.matches(without).count() >= 2, "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

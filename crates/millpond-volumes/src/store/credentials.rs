//! Credentials that are not in the environment: from a profile, whose files may change, or from a program named by a
//! profile.

use super::profile::Profile;
use async_trait::async_trait;
use object_store::aws::AwsCredential;
use object_store::{CredentialProvider, Error as StoreError};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How often the files of a profile are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// A program is run again so long before what it gave ends.
const BEFORE: Duration = Duration::from_secs(60);

fn failed(why: String) -> StoreError {
    let source = why.into();
    StoreError::Generic { store: "S3", source }
}

/// Keys of a profile: those that are in its files now.
#[derive(Debug)]
pub(super) struct OfFiles {
    profile: Mutex<(Profile, Instant)>,
}

impl OfFiles {
    pub(super) fn new(profile: Profile) -> OfFiles {
        OfFiles {
            profile: Mutex::new((profile, Instant::now())),
        }
    }
}

#[async_trait]
impl CredentialProvider for OfFiles {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut known = self.profile.lock().unwrap_or_else(PoisonError::into_inner);
        if known.1.elapsed() >= LOOK {
            let read = known.0.again();
            // One that is being written has none for a moment.
            if read.keys().is_some() {
                known.0 = read;
            }
            known.1 = Instant::now();
        }
        let keys = known.0.keys();
        let keys =
            keys.ok_or_else(|| failed(format!("the profile {} has no keys any more", known.0.name())))?;
        Ok(Arc::new(keys))
    }
}

/// What a program gives, as long as it is good for.
#[derive(Debug)]
pub(super) struct OfProcess {
    profile: String,
    command: String,
    known: tokio::sync::Mutex<Option<(Arc<AwsCredential>, Option<SystemTime>)>>,
}

impl OfProcess {
    pub(super) fn new(profile: &str, command: &str) -> OfProcess {
        OfProcess {
            profile: profile.to_owned(),
            command: command.to_owned(),
            known: tokio::sync::Mutex::default(),
        }
    }
}

#[async_trait]
impl CredentialProvider for OfProcess {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut known = self.known.lock().await;
        if let Some((credential, end)) = &*known
            && end.is_none_or(|end| SystemTime::now() + BEFORE < end)
        {
            return Ok(credential.clone());
        }
        let command = self.command.clone();
        let ran = tokio::task::spawn_blocking(move || run(&command)).await;
        let ran = ran.unwrap_or_else(|_| Err(String::from("it ended early")));
        let name = &self.profile;
        let (credential, end) =
            ran.map_err(|why| failed(format!("credential_process of the profile {name}: {why}")))?;
        let credential = Arc::new(credential);
        *known = Some((credential.clone(), end));
        Ok(credential)
    }
}

/// Runs a program that prints credentials, and reads them. What it says of itself is seen where this program's errors are.
fn run(command: &str) -> Result<(AwsCredential, Option<SystemTime>), String> {
    let words = words(command);
    let Some((program, arguments)) = words.split_first() else {
        return Err(String::from("it names no program"));
    };
    let ran = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    let ran = ran.map_err(|error| format!("{program} can't be run: {error}"))?;
    if !ran.status.success() {
        return Err(format!("{program} ended with {}", ran.status));
    }
    // What it printed is not said: it may have keys in it.
    let printed: serde_json::Value =
        serde_json::from_slice(&ran.stdout).map_err(|_| format!("{program} has printed no JSON"))?;
    let text = |name: &str| printed[name].as_str().map(str::to_owned);
    if printed["Version"].as_u64() != Some(1) {
        return Err(format!("{program} has printed no \"Version\": 1"));
    }
    let needed = |name: &str| text(name).ok_or_else(|| format!("{program} has printed no \"{name}\""));
    let credential = AwsCredential {
        key_id: needed("AccessKeyId")?,
        secret_key: needed("SecretAccessKey")?,
        token: text("SessionToken"),
    };
    let end = match text("Expiration") {
        None => None,
        Some(end) => {
            let end = chrono::DateTime::parse_from_rfc3339(&end)
                .map_err(|_| format!("{program} has printed an \"Expiration\" that is no time"))?;
            Some(SystemTime::UNIX_EPOCH + Duration::from_secs(end.timestamp().max(0) as u64))
        }
    };
    Ok((credential, end))
}

/// The words of a command as a shell splits them: blanks between, quotes around and backslashes before what is to stay.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = command.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (end, Some(begin)) if end == begin => quote = None,
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(letters.next()),
            (blank, None) if blank.is_whitespace() => words.extend(word.take()),
            (letter, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_command_is_split_as_a_shell_does() {
        let split = words("  /opt/a\\ b  --x 'one \"two\"' \"it's\" \"\" c\"d\"e ");
        assert_eq!(split, ["/opt/a b", "--x", "one \"two\"", "it's", "", "cde"]);
        assert_eq!(words("   "), [""; 0]);
    }

    #[test]
    fn keys_of_a_profile_are_those_that_are_in_its_files_now() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credentials");
        let write = |key: &str| {
            std::fs::write(
                &file,
                format!("[p]\naws_access_key_id = {key}\naws_secret_access_key = s\n"),
            )
            .unwrap();
        };
        write("one");
        let of = OfFiles::new(Profile::read_from(
            "p",
            file.clone(),
            folder.path().join("config"),
        ));
        let runtime = super::super::driver::runtime().unwrap();
        let ask = || {
            runtime
                .block_on(of.get_credential())
                .map(|keys| keys.key_id.clone())
        };
        assert_eq!(ask().unwrap(), "one");
        write("two");
        let deadline = Instant::now() + Duration::from_secs(60);
        while ask().unwrap() != "two" {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
        // One that is being written.
        std::fs::write(&file, "").unwrap();
        assert_eq!(ask().unwrap(), "two");
    }

    #[test]
    fn a_program_gives_credentials_until_they_end_and_is_then_run_again() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("a program");
        let end = |seconds: u64| {
            let end = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
                + Duration::from_secs(seconds);
            chrono::DateTime::from_timestamp(end.as_secs() as i64, 0)
                .unwrap()
                .to_rfc3339()
        };
        let gives = |n: u32, end: &str| {
            let text = format!(
                "#!/bin/sh\necho '{{\"Version\": 1, \"AccessKeyId\": \"AK'$1'\", \"SecretAccessKey\": \"secret{n}\", \
                 \"SessionToken\": \"token\", \"Expiration\": \"{end}\"}}'\n"
            );
            std::fs::write(&program, text).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        };
        let command = format!("'{}' one", program.display());
        let of = OfProcess::new("p", &command);
        let runtime = super::super::driver::runtime().unwrap();
        let ask = || runtime.block_on(of.get_credential());
        gives(1, &end(30));
        assert_eq!(ask().unwrap().secret_key, "secret1");
        assert_eq!(ask().unwrap().key_id, "AKone");
        // It ends within a minute: the program is asked each time.
        gives(2, &end(3600));
        assert_eq!(ask().unwrap().secret_key, "secret2");
        gives(3, &end(3600));
        assert_eq!(ask().unwrap().secret_key, "secret2");

        for (script, why) in [
            ("exit 3", "ended with exit status: 3"),
            ("echo secret", "printed no JSON"),
            (
                "echo '{\"Version\": 1, \"AccessKeyId\": \"AK\"}'",
                "printed no \"SecretAccessKey\"",
            ),
            ("echo '{\"Version\": 2}'", "printed no \"Version\": 1"),
        ] {
            let error = run(&format!("sh -c \"{}\"", script.replace('"', "\\\""))).unwrap_err();
            assert!(error.contains(why) && !error.contains("secret"), "{error}");
        }
    }
}

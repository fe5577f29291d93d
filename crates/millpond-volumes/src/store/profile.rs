//! A profile of AWS's own tools: the entries for its name in `~/.aws/credentials` and `~/.aws/config`.

use object_store::aws::AwsCredential;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What the files say below a name.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Profile {
    name: String,
    files: [PathBuf; 2],
    credentials: BTreeMap<String, String>,
    config: BTreeMap<String, String>,
}

/// What a profile may have instead of keys, and is not known here.
const OTHERS: [&str; 4] = ["sso_session", "sso_start_url", "role_arn", "login_session"];

impl Profile {
    pub(super) fn read(name: &str) -> Profile {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let file = |variable: &str, name: &str| {
            std::env::var_os(variable).map_or_else(|| home.join(".aws").join(name), PathBuf::from)
        };
        let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
        Profile::read_from(name, credentials, file("AWS_CONFIG_FILE", "config"))
    }

    pub(super) fn read_from(name: &str, credentials: PathBuf, config: PathBuf) -> Profile {
        let text = |file: &PathBuf| std::fs::read_to_string(file).unwrap_or_default();
        Profile {
            files: [credentials.clone(), config.clone()],
            ..Profile::of(name, &text(&credentials), &text(&config))
        }
    }

    /// As its files say it now.
    pub(super) fn again(&self) -> Profile {
        let [credentials, config] = self.files.clone();
        Profile::read_from(&self.name, credentials, config)
    }

    fn of(name: &str, credentials: &str, config: &str) -> Profile {
        let named = format!("profile {name}");
        let names: &[&str] = match name {
            "default" => &["default", "profile default"],
            _ => &[&named],
        };
        Profile {
            name: name.to_owned(),
            files: Default::default(),
            credentials: section(credentials, &[name]),
            config: section(config, names),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn get(&self, setting: &str) -> Option<&str> {
        let found = self.credentials.get(setting).or_else(|| self.config.get(setting));
        found.map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Its keys, all of one file.
    pub(super) fn keys(&self) -> Option<AwsCredential> {
        let of = |settings: &BTreeMap<String, String>| {
            Some(AwsCredential {
                key_id: settings.get("aws_access_key_id")?.clone(),
                secret_key: settings.get("aws_secret_access_key")?.clone(),
                token: settings.get("aws_session_token").cloned(),
            })
        };
        of(&self.credentials).or_else(|| of(&self.config))
    }

    /// What it has that would say where credentials are, and is not known here.
    pub(super) fn other(&self) -> Option<&str> {
        OTHERS.into_iter().find(|other| self.get(other).is_some())
    }
}

/// The settings of a section of such a file. What is indented belongs to the setting above it.
fn section(text: &str, names: &[&str]) -> BTreeMap<String, String> {
    let mut is_in = false;
    let mut settings = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with([' ', '\t'])) {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            is_in = names.contains(&name.trim());
        } else if let Some((name, value)) = line.split_once('=').filter(|_| is_in) {
            settings.insert(name.trim().to_lowercase(), value.trim().to_owned());
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_the_lines_below_its_name() {
        let credentials = "[default]\naws_access_key_id = one\naws_secret_access_key=s\n# a note\n\
                           [other]\naws_access_key_id=two\n";
        let config = "[profile other]\nregion = here\ns3 =\n  addressing_style = path\naws_access_key_id=three\n\
                      aws_secret_access_key=t\ncredential_process = /a/b --c\n";
        let one = Profile::of("default", credentials, config);
        assert_eq!(one.keys().map(|keys| keys.key_id).as_deref(), Some("one"));
        assert_eq!(one.get("region"), None);
        let two = Profile::of("other", credentials, config);
        assert_eq!(two.get("region"), Some("here"));
        assert_eq!(two.get("addressing_style"), None);
        assert_eq!(two.get("credential_process"), Some("/a/b --c"));
        // Not half of one file and half of the other.
        assert_eq!(two.keys().map(|keys| keys.key_id).as_deref(), Some("three"));
        let sso = Profile::of("a", "", "[profile a]\nsso_session = s\n");
        assert_eq!((sso.keys().is_some(), sso.other()), (false, Some("sso_session")));
    }
}

//! Settings and credentials as AWS' own tools read them: the variables `AWS_*`, else the profile `AWS_PROFILE` (`default`) in
//! `~/.aws/credentials` and `~/.aws/config`, else what the machine's role has.

use super::error::Error;
use super::message::{note, say};
use super::options::StoreOptions;
use async_trait::async_trait;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, AwsCredentialProvider};
use object_store::{ClientOptions, CredentialProvider, Error as StoreError, ObjectStore, RetryConfig};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

pub(super) fn store(bucket: &str, options: &StoreOptions) -> Result<Arc<dyn ObjectStore>, Error> {
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    let profile = std::env::var("AWS_PROFILE").unwrap_or_else(|_| String::from("default"));
    let has_keys = builder
        .get_config_value(&AmazonS3ConfigKey::AccessKeyId)
        .is_some();
    for (key, value) in profile_settings(&profile) {
        let is_secret = matches!(
            key,
            AmazonS3ConfigKey::AccessKeyId | AmazonS3ConfigKey::SecretAccessKey | AmazonS3ConfigKey::Token
        );
        let is_known = match is_secret {
            true => has_keys,
            false => builder.get_config_value(&key).is_some(),
        };
        if !is_known {
            builder = builder.with_config(key, value);
        }
    }
    if let Some(endpoint) = &options.endpoint {
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    note_settings(&builder);
    let endpoint = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
    let endpoint = endpoint.iter().find_map(|key| builder.get_config_value(key));
    let endpoint = endpoint.unwrap_or_default();
    if endpoint.rsplit_once('@').is_some() {
        let why = "an endpoint has no user and password: credentials are read as AWS' tools read them";
        return Err(Error::Address(String::from(why)));
    }
    // The client would not survive another.
    let is_address = |parsed: Url| matches!(parsed.scheme(), "http" | "https") && parsed.has_host();
    if !endpoint.is_empty() && !Url::parse(&endpoint).is_ok_and(is_address) {
        let why = "an endpoint begins with http:// or https:// and a host (StoreOptions::endpoint, AWS_ENDPOINT_URL, or \
                   endpoint_url of the profile)";
        return Err(Error::Address(format!("s3://{bucket}: {why}")));
    }
    let client = ClientOptions::new()
        .with_timeout(options.request_timeout)
        .with_connect_timeout((options.request_timeout / 3).max(Duration::from_millis(100)))
        .with_allow_http(endpoint.starts_with("http://"));
    let retry = RetryConfig {
        max_retries: options.retries,
        retry_timeout: options.request_timeout,
        ..RetryConfig::default()
    };
    let has_keys = builder
        .get_config_value(&AmazonS3ConfigKey::AccessKeyId)
        .is_some();
    let without = (!has_keys).then(|| {
        format!(
            "there is no AWS_ACCESS_KEY_ID, no key in the profile {profile}, and what the machine's role has can't be had"
        )
    });
    let builder = builder.with_client_options(client).with_retry(retry);
    let failed = |error| Error::Address(format!("s3://{bucket}: {}", say(&error)));
    let of = builder.clone().build().map_err(failed)?.credentials().clone();
    let store = builder.with_credentials(Arc::new(Noted { of, without })).build();
    Ok(Arc::new(store.map_err(failed)?))
}

/// Notes what is secret of the settings, from wherever they are.
fn note_settings(builder: &AmazonS3Builder) {
    let keys = [
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "aws_sse_customer_key_base64",
    ];
    let files = [
        "aws_container_authorization_token_file",
        "aws_web_identity_token_file",
    ];
    let setting = |key: &&str| builder.get_config_value(&key.parse().ok()?);
    keys.iter().filter_map(setting).for_each(|value| note(&value));
    let tokens = files.iter().filter_map(setting).map(std::fs::read_to_string);
    tokens.flatten().for_each(|token| note(&token));
}

/// Credentials, each of which is noted before it is used.
#[derive(Debug)]
struct Noted {
    of: AwsCredentialProvider,
    /// What to say if there are none.
    without: Option<String>,
}

#[async_trait]
impl CredentialProvider for Noted {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let credential = self.of.get_credential().await;
        let credential = credential.map_err(|error| match &self.without {
            Some(without) => StoreError::Generic {
                store: "S3",
                source: format!("{without}: {}", say(&error)).into(),
            },
            None => error,
        })?;
        note(&credential.key_id);
        note(&credential.secret_key);
        credential.token.iter().for_each(|token| note(token));
        Ok(credential)
    }
}

/// What the files of a profile say.
fn profile_settings(profile: &str) -> Vec<(AmazonS3ConfigKey, String)> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let file = |variable: &str, name: &str| {
        let path = std::env::var_os(variable).map_or_else(|| home.join(".aws").join(name), PathBuf::from);
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let mut settings = section(&file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), &[profile]);
    let named = format!("profile {profile}");
    let names: &[&str] = match profile {
        "default" => &["default", "profile default"],
        _ => &[&named],
    };
    settings.extend(section(&file("AWS_CONFIG_FILE", "config"), names));
    settings
}

/// The settings of a section of such a file that a store needs.
fn section(text: &str, names: &[&str]) -> Vec<(AmazonS3ConfigKey, String)> {
    let mut is_in = false;
    let mut settings = Vec::new();
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with(['#', ';']))
    {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            is_in = names.contains(&name.trim());
        } else if let Some((name, value)) = line.split_once('=').filter(|_| is_in) {
            let key = match name.trim() {
                "aws_access_key_id" => AmazonS3ConfigKey::AccessKeyId,
                "aws_secret_access_key" => AmazonS3ConfigKey::SecretAccessKey,
                "aws_session_token" => AmazonS3ConfigKey::Token,
                "region" => AmazonS3ConfigKey::Region,
                "endpoint_url" => AmazonS3ConfigKey::Endpoint,
                _ => continue,
            };
            settings.push((key, value.trim().to_owned()));
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_the_lines_below_its_name() {
        let text = "[default]\naws_access_key_id = one\n# a note\n[other]\naws_access_key_id=two\nregion = here\ncolour = red\n";
        let one = section(text, &["default"]);
        assert_eq!(one, [(AmazonS3ConfigKey::AccessKeyId, String::from("one"))]);
        let two = section(text, &["other"]);
        assert_eq!(two.len(), 2);
        assert_eq!(two[1], (AmazonS3ConfigKey::Region, String::from("here")));
    }
}

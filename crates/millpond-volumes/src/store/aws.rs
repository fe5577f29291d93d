//! Settings and credentials as AWS's own tools read them: the variables `AWS_*`, else the profile `AWS_PROFILE`
//! (`default`) in `~/.aws/credentials` and `~/.aws/config`, with its keys or the program that supplies them, else those
//! of the machine's role.

use super::credentials::{OfFiles, OfProcess};
use super::error::Error;
use super::message::{note, say};
use super::options::StoreOptions;
use super::profile::Profile;
use async_trait::async_trait;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, AwsCredentialProvider};
use object_store::{
    Certificate, ClientOptions, CredentialProvider, Error as StoreError, ObjectStore, RetryConfig,
};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// What speaks to a bucket, and the same for uploads: a client that gives none of them up by itself.
type Clients = (Arc<dyn ObjectStore>, Arc<dyn ObjectStore>);

pub(super) fn store(bucket: &str, options: &StoreOptions) -> Result<Clients, Error> {
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    let name = std::env::var("AWS_PROFILE").unwrap_or_else(|_| String::from("default"));
    let profile = Profile::read(&name);
    for (key, setting) in [
        (AmazonS3ConfigKey::Region, "region"),
        (AmazonS3ConfigKey::Endpoint, "endpoint_url"),
    ] {
        if let Some(value) = profile
            .get(setting)
            .filter(|_| builder.get_config_value(&key).is_none())
        {
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
    let mut client = ClientOptions::new()
        .with_connect_timeout((options.request_timeout / 3).max(Duration::from_millis(100)))
        .with_allow_http(endpoint.starts_with("http://"));
    for certificate in certificates(&profile)? {
        client = client.with_root_certificate(certificate);
    }
    let retry = RetryConfig {
        max_retries: options.retries,
        retry_timeout: options.request_timeout,
        ..RetryConfig::default()
    };
    let has_keys = builder
        .get_config_value(&AmazonS3ConfigKey::AccessKeyId)
        .is_some();
    let without = (!has_keys).then(|| match profile.other() {
        Some(other) => format!(
            "the profile {name} has {other}, which is not known here; give one credential_process = aws configure \
             export-credentials --profile {name}, and what the machine's role has can't be had"
        ),
        None => format!(
            "there is no AWS_ACCESS_KEY_ID, no key and no credential_process in the profile {name}, and what the machine's \
             role has can't be had"
        ),
    });
    // A piece of an answer may take that long, and all of it longer.
    let reads = client
        .clone()
        .with_timeout_disabled()
        .with_read_timeout(options.request_timeout);
    let builder = builder.with_client_options(reads).with_retry(retry);
    let failed = |error| Error::Address(format!("s3://{bucket}: {}", say(&error)));
    let of: AwsCredentialProvider = match profile.get("credential_process") {
        _ if has_keys => builder.clone().build().map_err(failed)?.credentials().clone(),
        // As AWS's tools look for them: keys, then a program.
        _ if profile.keys().is_some() => Arc::new(OfFiles::new(profile)),
        Some(command) => Arc::new(OfProcess::new(&name, command)),
        None => builder.clone().build().map_err(failed)?.credentials().clone(),
    };
    let builder = builder.with_credentials(Arc::new(Noted { of, without }));
    let uploads = builder
        .clone()
        .with_client_options(client.with_timeout_disabled());
    let uploads = uploads.build().map_err(failed)?;
    Ok((Arc::new(builder.build().map_err(failed)?), Arc::new(uploads)))
}

/// Certificates that are trusted beside the system's: of `AWS_CA_BUNDLE`, or `ca_bundle` of the profile.
fn certificates(profile: &Profile) -> Result<Vec<Certificate>, Error> {
    let of_environment = std::env::var("AWS_CA_BUNDLE")
        .ok()
        .filter(|path| !path.is_empty());
    let (said, path) = match (of_environment, profile.get("ca_bundle")) {
        (Some(path), _) => (String::from("AWS_CA_BUNDLE"), path),
        (None, Some(path)) => (
            format!("ca_bundle of the profile {}", profile.name()),
            path.to_owned(),
        ),
        (None, None) => return Ok(Vec::new()),
    };
    let failed = |why: String| Error::Address(format!("{said}, {path}: {why}"));
    let text = std::fs::read(&path).map_err(|error| failed(format!("it can't be read: {error}")))?;
    match Certificate::from_pem_bundle(&text) {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(failed(String::from("it has no certificate in PEM"))),
    }
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

//! Servers with certificates of an authority that no system knows.

use crate::{in_role, server};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::path::Path;

/// An authority, and what it has signed for this machine's loopback: `ca.pem`, `cert.pem` and `key.pem` of a folder.
fn authority(folder: &Path) {
    std::fs::create_dir(folder).unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new([String::from("localhost"), String::from("127.0.0.1")]).unwrap();
    let signed = params.signed_by(&key, &authority).unwrap();
    for (name, text) in [
        ("ca.pem", authority.pem()),
        ("cert.pem", signed.pem()),
        ("key.pem", key.serialize_pem()),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

/// By both ways that a user has to name it, and by none; one of a bundle of several.
#[test]
fn an_authority_that_is_named_is_trusted_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, other) = (folder.path().join("ours"), folder.path().join("other"));
    authority(&ours);
    authority(&other);
    let (cert, key) = (ours.join("cert.pem"), ours.join("key.pem"));
    let arguments = ["--cert".as_ref(), cert.as_ref(), "--key".as_ref(), key.as_ref()];
    let Some(server) = server::versitygw_with(&arguments) else {
        return;
    };
    let bundle = folder.path().join("bundle.pem");
    let pem = |of: &Path| std::fs::read_to_string(of.join("ca.pem")).unwrap();
    std::fs::write(&bundle, pem(&other) + "\n# ours\n" + &pem(&ours)).unwrap();
    let config = folder.path().join("config");
    let say = |path: &Path| {
        std::fs::write(
            &config,
            format!("[profile pond]\nca_bundle = {}\n", path.display()),
        )
        .unwrap();
    };
    let opens = |variables: &[(&str, &Path)]| {
        let mut command = in_role("opens", &server.url);
        command
            .envs(server.environment.iter().map(|(name, value)| (name, value)))
            .env_remove("AWS_CA_BUNDLE")
            .env_remove("AWS_PROFILE");
        for (name, value) in &server.environment {
            command.env(name, value.replace("http://", "https://"));
        }
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let seen = said.lines().find_map(|line| line.strip_prefix("seen: "));
        seen.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)))
            .to_owned()
    };
    let refused = |seen: String| assert!(seen.starts_with("Err") && seen.contains("certificate"), "{seen}");
    let profile = [("AWS_PROFILE", Path::new("pond")), ("AWS_CONFIG_FILE", &config)];
    refused(opens(&[]));
    refused(opens(&[("AWS_CA_BUNDLE", &other.join("ca.pem"))]));
    assert_eq!(opens(&[("AWS_CA_BUNDLE", &ours.join("ca.pem"))]), "Ok(())");
    assert_eq!(opens(&[("AWS_CA_BUNDLE", &bundle)]), "Ok(())");
    say(&bundle);
    assert_eq!(opens(&profile), "Ok(())");
    // The variable goes before the profile.
    let both = [profile[0], profile[1], ("AWS_CA_BUNDLE", &other.join("ca.pem"))];
    refused(opens(&both));
    say(&folder.path().join("none.pem"));
    let seen = opens(&profile);
    assert!(
        seen.contains("ca_bundle of the profile pond") && seen.contains("none.pem"),
        "{seen}"
    );
    say(&key);
    let seen = opens(&profile);
    assert!(seen.contains("no certificate in PEM"), "{seen}");
}

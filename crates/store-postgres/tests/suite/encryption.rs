//! Encrypted connections: what each word of `sslmode` takes and refuses.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use semel_store_postgres::{OpenError, PostgresOptions, PostgresStore};
use tempfile::TempDir;

use crate::postgres::{NOBODY, Postgres, skip};
use crate::steps::{Step, one};

/// An authority, a server's certificate for `localhost` by it, and an authority of somebody else.
fn certificates() -> Option<TempDir> {
    let directory = tempfile::tempdir().unwrap();
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        command.current_dir(directory.path()).args(arguments.split(' '));
        command.output().is_ok_and(|output| output.status.success())
    };
    let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    fs::write(directory.path().join("names"), "subjectAltName=DNS:localhost").unwrap();
    let made = openssl(&format!("{new} -subj /CN=authority -keyout ca.key -out ca.pem"))
        && openssl(&format!("{new} -subj /CN=stranger -keyout stranger.key -out stranger.pem"))
        && openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost \
             -keyout server.key -out server.csr",
        )
        && openssl(
            "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
             -extfile names -out server.pem",
        );
    if !made {
        skip("encrypted connections to PostgreSQL: openssl can not make certificates");
        return None;
    }
    hand_over(directory.path());
    Some(directory)
}

/// The server reads its key only if it is its own and nobody else's.
fn hand_over(directory: &Path) {
    let key = directory.join("server.key");
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(&key, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_word_of_sslmode_means_what_it_says() {
    let Some(made) = certificates() else { return };
    let file = |name: &str| made.path().join(name).to_str().unwrap().to_owned();
    let settings = [
        "ssl=on".to_owned(),
        format!("ssl_cert_file={}", file("server.pem")),
        format!("ssl_key_file={}", file("server.key")),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let Some(server) = Postgres::start("encrypted connections", &settings) else { return };
    let (ours, strange) = (file("ca.pem"), file("stranger.pem"));
    let cases = [
        ("127.0.0.1", "disable", None, Ok("off")),
        ("127.0.0.1", "prefer", None, Ok("on")),
        ("127.0.0.1", "require", None, Ok("on")),
        ("127.0.0.1", "require", Some(&strange), Err("invalid peer certificate")),
        ("127.0.0.1", "verify-ca", Some(&ours), Ok("on")),
        ("127.0.0.1", "verify-ca", Some(&strange), Err("invalid peer certificate")),
        ("127.0.0.1", "verify-ca", None, Err("need sslrootcert")),
        ("localhost", "verify-full", Some(&ours), Ok("on")),
        ("127.0.0.1", "verify-full", Some(&ours), Err("invalid peer certificate")),
        ("localhost", "verify-full", Some(&strange), Err("invalid peer certificate")),
    ];
    for (host, mode, root, expected) in cases {
        let root = root.map_or(String::new(), |root| format!("&sslrootcert={root}"));
        let port = server.port();
        let url = format!("postgres://semel@{host}:{port}/postgres?sslmode={mode}{root}");
        let found = encrypted(&server, &url).await;
        match (&found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{mode} to {host}{root}"),
            (Err(error), Err(expected)) => {
                assert!(error.to_string().contains(expected), "{mode} to {host}{root}: {error}");
            }
            _ => panic!("{mode} to {host}{root}: {found:?}, not {expected:?}"),
        }
    }
}

/// Whether the sessions of a store are encrypted: `on` or `off`.
async fn encrypted(server: &Postgres, url: &str) -> Result<String, OpenError> {
    let store = PostgresStore::open(PostgresOptions::parse(url)?).await?;
    one(&store, "key", Step::Add).await;
    let client = crate::steps::foreign(server).await;
    let sessions = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                    WHERE application_name = 'semel' AND ssl";
    let on = client.count(sessions).await > 0;
    Ok(if on { "on" } else { "off" }.to_owned())
}

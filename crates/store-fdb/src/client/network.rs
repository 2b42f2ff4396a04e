//! The network thread of the client library.
//!
//! Invariant: it is started once in a process, and it is stopped and joined before the last handle to
//! it is gone: stores hold one.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use foundationdb::FdbError;
use foundationdb::api::{FdbApiBuilder, NetworkAutoStop, NetworkBuilder, get_max_api_version};
use foundationdb::options::NetworkOption;

use crate::error::OpenError;
use crate::options::NetworkOptions;

/// The version of the library's interface that is used.
const API_VERSION: i32 = 730;

static STARTED: AtomicBool = AtomicBool::new(false);

/// The running client library. Stores are opened on it and keep it running; it stops with the last of
/// them.
///
/// It must be dropped before the process ends, which it is unless it is leaked.
pub struct Network {
    _running: NetworkAutoStop,
}

impl Network {
    /// Starts the client library of this process.
    ///
    /// # Errors
    ///
    /// [`OpenError::Started`] if that was done before, even if it was stopped since;
    /// [`OpenError::File`] for the file of a password; [`OpenError::Network`] for the rest.
    pub fn start(options: &NetworkOptions) -> Result<Self, OpenError> {
        let password = options.tls_password_file.as_deref().map(read_password).transpose()?;
        let newest = get_max_api_version();
        if newest < API_VERSION {
            return Err(OpenError::Network(format!(
                "the library libfdb_c speaks up to version {newest}, and {API_VERSION} is needed: install the \
                 client of FoundationDB 7.3 or later"
            )));
        }
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(OpenError::Started);
        }
        let mut builder = FdbApiBuilder::default().build().map_err(refused)?;
        for option in chosen(options, password) {
            builder = builder.set_option(option).map_err(refused)?;
        }
        Ok(Self { _running: boot(builder).map_err(refused)? })
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Network").finish_non_exhaustive()
    }
}

#[expect(
    unsafe_code,
    reason = "the library demands that its thread is stopped before the process exits; `Network` does that when it \
              is dropped, and nothing here leaks it"
)]
fn boot(builder: NetworkBuilder) -> Result<NetworkAutoStop, FdbError> {
    // Safety: what is returned is dropped with `Network`, which stops the thread and joins it.
    unsafe { builder.boot() }
}

/// The options of the library. The password comes before the key that it is for.
fn chosen(options: &NetworkOptions, password: Option<String>) -> Vec<NetworkOption> {
    let of =
        |value: &Option<String>, option: fn(String) -> NetworkOption| value.clone().map(option);
    let peers = |rule: String| NetworkOption::TLSVerifyPeers(rule.into_bytes());
    [
        password.map(NetworkOption::TLSPassword),
        of(&options.tls_certificate_file, NetworkOption::TLSCertPath),
        of(&options.tls_key_file, NetworkOption::TLSKeyPath),
        of(&options.tls_ca_file, NetworkOption::TLSCaPath),
        of(&options.tls_verify_peers, peers),
        of(&options.external_client_directory, NetworkOption::ExternalClientDirectory),
        of(&options.trace_directory, NetworkOption::TraceEnable),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn read_password(path: &str) -> Result<String, OpenError> {
    let text = std::fs::read_to_string(path).map_err(|error| OpenError::File {
        option: "tls_password_file",
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(text.trim().to_owned())
}

fn refused(error: FdbError) -> OpenError {
    OpenError::Network(format!("{} ({})", error.message(), error.code()))
}

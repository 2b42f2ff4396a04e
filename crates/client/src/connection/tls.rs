//! Connections by TLS. Authorities and certificates are PEM texts; without a word about whom to trust, the
//! machine's own authorities are.
//!
//! The files that hold them are read when a client is made, and not again.

use rustls_native_certs::{CertificateResult, load_native_certs};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// How every certificate begins in a PEM text.
const CERTIFICATE_BEGIN: &str = "-----BEGIN CERTIFICATE-----";

/// Whom to trust, and who one is.
#[derive(Clone)]
#[must_use]
pub struct Tls {
    /// Not the machine's authorities, but these.
    authorities_pem: Option<String>,
    identity: Option<Identity>,
    server_name: Option<String>,
}

impl Tls {
    /// Trusts nodes whose certificate was issued by an authority that this machine trusts: what
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR` name, or else the system's own store.
    pub const fn trusting_the_machine() -> Self {
        Self { authorities_pem: None, identity: None, server_name: None }
    }

    /// Trusts nodes whose certificate was issued by one of these authorities, and no others.
    pub fn trusting(authorities_pem: &str) -> Self {
        Self { authorities_pem: Some(authorities_pem.to_owned()), ..Self::trusting_the_machine() }
    }

    /// Shows this certificate to the nodes.
    pub fn identity(self, certificate_pem: &str, key_pem: &str) -> Self {
        Self { identity: Some(Identity::from_pem(certificate_pem, key_pem)), ..self }
    }

    /// Expects this name in the nodes' certificates, instead of the host of their addresses.
    pub fn server_name(self, name: &str) -> Self {
        Self { server_name: Some(name.to_owned()), ..self }
    }

    /// The endpoint by TLS, or what is wrong.
    pub(super) fn apply(&self, endpoint: Endpoint) -> Result<Endpoint, String> {
        let config = match &self.authorities_pem {
            Some(pem) if !pem.contains(CERTIFICATE_BEGIN) => {
                return Err(format!("the authorities to trust have no {CERTIFICATE_BEGIN}"));
            }
            Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        let config = match &self.identity {
            Some(identity) => config.identity(identity.clone()),
            None => config,
        };
        let config = match &self.server_name {
            Some(name) => config.domain_name(name),
            None => config,
        };
        endpoint.tls_config(config).map_err(|error| {
            let is_without = self.authorities_pem.is_none();
            is_without.then(nobody_to_trust).flatten().unwrap_or_else(|| super::chain(&error))
        })
    }
}

/// What to do if the machine trusts nobody.
fn nobody_to_trust() -> Option<String> {
    let CertificateResult { certs, errors, .. } = load_native_certs();
    if !certs.is_empty() {
        return None;
    }
    let mut text = "no certificate authority is found on this machine: install them (on Linux the package \
        ca-certificates), name a file of them with SSL_CERT_FILE, or say whom to trust with Tls::trusting"
        .to_owned();
    for error in errors {
        text = format!("{text}; {error}");
    }
    Some(text)
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // No key is shown.
        formatter.debug_struct("Tls").finish_non_exhaustive()
    }
}

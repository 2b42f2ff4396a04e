//! Connections by TLS, in PEM texts only.

use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// Whom to trust, and who one is.
#[derive(Clone)]
#[must_use]
pub struct Tls(ClientTlsConfig);

impl Tls {
    /// Trusts nodes whose certificate was issued by one of these authorities.
    pub fn trusting(authorities_pem: &str) -> Self {
        Self(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authorities_pem)))
    }

    /// Shows this certificate to the nodes.
    pub fn identity(self, certificate_pem: &str, key_pem: &str) -> Self {
        Self(self.0.identity(Identity::from_pem(certificate_pem, key_pem)))
    }

    /// Expects this name in the nodes' certificates, instead of the host of their addresses.
    pub fn server_name(self, name: &str) -> Self {
        Self(self.0.domain_name(name))
    }

    pub(super) fn config(&self) -> ClientTlsConfig {
        self.0.clone()
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // No key is shown.
        formatter.debug_struct("Tls").finish_non_exhaustive()
    }
}

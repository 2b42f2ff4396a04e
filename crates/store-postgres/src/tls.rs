//! Encryption of the way to the database, by the words that libpq knows.
//!
//! | `sslmode` | what is demanded |
//! |---|---|
//! | `disable` | nothing: plain text |
//! | `prefer` | encryption if the server offers it, whoever it is |
//! | `require` | encryption; whoever the server is, unless `sslrootcert` is given: then as `verify-ca` |
//! | `verify-ca` | a certificate that `sslrootcert` vouches for, for whatever host |
//! | `verify-full` | the same, for the host that was connected to |
//!
//! `sslrootcert` is a file of PEM certificates, or `system` for those that Debian keeps in one file.
//! Without `sslmode`: `prefer` if all hosts are loopback addresses or sockets, else `require`, so that
//! no password crosses a network in plain text by an oversight.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::OpenError;

const SYSTEM_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// How much is demanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Demand {
    pub(crate) fn parse(word: &str) -> Result<Self, OpenError> {
        Ok(match word {
            "disable" => Self::Disable,
            "allow" | "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => {
                return Err(OpenError::Address(
                    "sslmode must be disable, prefer, require, verify-ca or verify-full".to_owned(),
                ));
            }
        })
    }

    /// What the protocol is told: whether to ask for encryption, and whether to go on without.
    pub(crate) fn mode(self) -> SslMode {
        match self {
            Self::Disable => SslMode::Disable,
            Self::Prefer => SslMode::Prefer,
            Self::Require | Self::VerifyCa | Self::VerifyFull => SslMode::Require,
        }
    }
}

/// Makes what encrypts connections.
pub(crate) fn connector(
    demand: Demand,
    root_file: Option<&str>,
) -> Result<MakeRustlsConnect, OpenError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| OpenError::Certificates(error.to_string()))?;
    let config = match (demand, root_file) {
        (Demand::VerifyFull, Some(file)) => {
            builder.with_root_certificates(roots(file)?).with_no_client_auth()
        }
        (Demand::VerifyCa | Demand::VerifyFull, None) => {
            return Err(OpenError::Certificates(
                "sslmode=verify-ca and verify-full need sslrootcert: a file, or `system`"
                    .to_owned(),
            ));
        }
        (Demand::VerifyCa | Demand::Require, Some(file)) => {
            let verifier = WebPkiServerVerifier::builder_with_provider(
                Arc::new(roots(file)?),
                Arc::clone(&provider),
            );
            let chain =
                verifier.build().map_err(|error| OpenError::Certificates(error.to_string()))?;
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyHost { chain }))
                .with_no_client_auth()
        }
        (Demand::Disable | Demand::Prefer | Demand::Require, _) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody { provider }))
            .with_no_client_auth(),
    };
    Ok(MakeRustlsConnect::new(config))
}

fn roots(file: &str) -> Result<RootCertStore, OpenError> {
    let file = if file == "system" { SYSTEM_BUNDLE } else { file };
    let unreadable = |error: &dyn std::fmt::Display| {
        OpenError::Certificates(format!("sslrootcert={file}: {error}"))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unreadable(&error))? {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        // A bundle may hold one that is of no use here; what matters is that some are.
        if let Err(error) = roots.add(certificate) {
            tracing::debug!(%error, "a root certificate is left out");
        }
    }
    if roots.is_empty() {
        return Err(OpenError::Certificates(format!("sslrootcert={file} holds no certificate")));
    }
    Ok(roots)
}

/// Vouched for, though for any host.
#[derive(Debug)]
struct AnyHost {
    chain: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.chain.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // The name is looked at last, once the chain is good.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// Encrypted, though with whomever: what `prefer` and `require` mean.
#[derive(Debug)]
struct Anybody {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

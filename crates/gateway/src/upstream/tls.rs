//! How encrypted connections trust: the system's certificates, and a file's beside them.

use std::{io, path::Path, sync::Arc};

use rustls::{
    ClientConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, pem::PemObject},
};
use rustls_platform_verifier::Verifier;

/// Why a provider's connections cannot be encrypted.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificates that the system trusts cannot be read.
    #[error("the system's certificates cannot be used: {0}; install ca-certificates")]
    System(#[source] rustls::Error),
    /// The file of further certificates cannot be read.
    #[error("the certificates in {file} cannot be used: {detail}; give a PEM file as `ca_file`")]
    File {
        /// The file.
        file: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The host is neither a name nor an address.
    #[error("{0} is no host name")]
    Name(String),
}

/// The way to trust for one provider. Sessions are resumed by all connections that share the result.
pub(super) fn client(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = match ca_file {
        None => Verifier::new(Arc::clone(&provider)).map_err(TlsError::System)?,
        Some(file) => with_file(file, &provider)?,
    };
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = builder
        .map_err(TlsError::System)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Whether a handshake failed because the certificate is expired, unknown or another's, and not in transit.
pub(super) fn is_about_the_certificate(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    matches!(cause, Some(rustls::Error::InvalidCertificate(_)))
}

fn with_file(file: &Path, provider: &Arc<CryptoProvider>) -> Result<Verifier, TlsError> {
    let wrong = |detail: String| TlsError::File { file: file.display().to_string(), detail };
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(error.to_string()))?;
    if certificates.is_empty() {
        return Err(wrong("it holds no certificate".to_owned()));
    }
    Verifier::new_with_extra_roots(certificates, Arc::clone(provider))
        .map_err(|error| wrong(error.to_string()))
}

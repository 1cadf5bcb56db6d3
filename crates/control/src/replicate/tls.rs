//! Who is who: certificates, and TLS 1.3 with them on both sides.
//!
//! All certificates of a cluster come from one authority, which is used for nothing else. A node's certificate has its name
//! as a DNS name; the control node's is checked against the name that a node expects, a node's against the one that it
//! says.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::fmt;
use std::sync::Arc;

/// Why there is no TLS with these.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// A text is not what it should be.
    #[error("{what} is not PEM: {why}")]
    Pem {
        /// Which.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// A name is no DNS name.
    #[error("`{0}` is not a name for a certificate: expected a DNS name such as node-a")]
    Name(String),
    /// They do not belong together, or are of a kind that is not supported.
    #[error("certificates: {0}")]
    Tls(String),
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Make(String),
}

fn tls(error: impl fmt::Display) -> IdentityError {
    IdentityError::Tls(error.to_string())
}

fn make(error: impl fmt::Display) -> IdentityError {
    IdentityError::Make(error.to_string())
}

/// What a node shows, and what it believes; all of it PEM.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    /// The certificate of the authority that the others' are from.
    pub authority: String,
    /// The node's certificate, and those between it and the authority if there are any.
    pub certificate: String,
    /// The node's private key.
    pub key: String,
}

/// Without the key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// What an [`Identity`] consists of.
struct Parts {
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    fn parts(&self) -> Result<Parts, IdentityError> {
        let certificates = |what, text: &str| {
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
            all.map_err(|why| IdentityError::Pem { what, why: why.to_string() })
        };
        let mut roots = RootCertStore::empty();
        for root in certificates("the certificate of the authority", &self.authority)? {
            roots.add(root).map_err(tls)?;
        }
        let chain = certificates("the certificate", &self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|why| IdentityError::Pem { what: "the private key", why: why.to_string() })?;
        Ok(Parts { roots: Arc::new(roots), chain, key })
    }

    /// For the control node.
    ///
    /// # Errors
    /// See [`IdentityError`].
    pub fn server(&self) -> Result<Arc<ServerConfig>, IdentityError> {
        let Parts { roots, chain, key } = self.parts()?;
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build().map_err(tls)?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(tls)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(tls)?;
        // Connections last; tickets would only be another way in.
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    /// For the other nodes.
    ///
    /// # Errors
    /// See [`IdentityError`].
    pub fn client(&self) -> Result<Arc<ClientConfig>, IdentityError> {
        let Parts { roots, chain, key } = self.parts()?;
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build().map_err(tls)?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(tls)?
            .with_webpki_verifier(verifier)
            .with_client_auth_cert(chain, key)
            .map_err(tls)?;
        Ok(Arc::new(config))
    }
}

/// A name as certificates have it.
///
/// # Errors
/// If it is no DNS name.
pub fn server_name(name: &str) -> Result<ServerName<'static>, IdentityError> {
    match ServerName::try_from(name.to_owned()) {
        Ok(name @ ServerName::DnsName(_)) => Ok(name),
        _ => Err(IdentityError::Name(name.to_owned())),
    }
}

/// True if the certificate, which was verified, has this name.
pub fn is_named(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let parsed = ParsedCertificate::try_from(certificate);
    let name = server_name(name);
    parsed.is_ok_and(|parsed| name.is_ok_and(|name| verify_server_name(&parsed, &name).is_ok()))
}

/// Makes certificates for a cluster: for one whose nodes are all on this machine, or by whoever sets up several. The keys
/// are of the curve P-256.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new() -> Result<Authority, IdentityError> {
        let key = KeyPair::generate().map_err(make)?;
        let certificate = Self::params()?.self_signed(&key).map_err(make)?.pem();
        Ok(Authority { certificate, issuer: Issuer::new(Self::params()?, key) })
    }

    /// The authority again, of what [`certificate`](Self::certificate) and [`key`](Self::key) gave.
    ///
    /// # Errors
    /// If the key is none.
    pub fn load(certificate: &str, key: &str) -> Result<Authority, IdentityError> {
        let key = KeyPair::from_pem(key).map_err(make)?;
        Ok(Authority { certificate: certificate.to_owned(), issuer: Issuer::new(Self::params()?, key) })
    }

    /// Its certificate, PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Its private key, PEM: whoever has it can make nodes.
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// What the node of this name needs.
    ///
    /// # Errors
    /// If that is no DNS name.
    pub fn issue(&self, name: &str) -> Result<Identity, IdentityError> {
        server_name(name)?;
        let key = KeyPair::generate().map_err(make)?;
        let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(make)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer).map_err(make)?.pem();
        Ok(Identity { authority: self.certificate.clone(), certificate, key: key.serialize_pem() })
    }

    fn params() -> Result<CertificateParams, IdentityError> {
        let mut params = CertificateParams::new(Vec::new()).map_err(make)?;
        params.distinguished_name.push(DnType::CommonName, "RouteBricks cluster");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Ok(params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_makes_identities() {
        let authority = Authority::new().unwrap();
        let again = Authority::load(authority.certificate(), &authority.key()).unwrap();
        for authority in [&authority, &again] {
            let identity = authority.issue("node-b").unwrap();
            identity.server().unwrap();
            identity.client().unwrap();
            let parts = identity.parts().unwrap();
            let named = |name| is_named(&parts.chain[0], name);
            assert_eq!(
                [named("node-b"), named("node-a"), named(""), named("10.0.0.1")],
                [true, false, false, false]
            );
            assert!(!format!("{identity:?}").contains("PRIVATE"));
        }
        let name = "no name";
        assert_eq!(authority.issue(name).err(), Some(IdentityError::Name(name.to_owned())));
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let (one, other) = (Authority::new().unwrap(), Authority::new().unwrap());
        let (a, b) = (one.issue("a").unwrap(), other.issue("b").unwrap());
        let mixed = Identity { key: b.key, ..a.clone() };
        assert!(matches!(mixed.server(), Err(IdentityError::Tls(_))));
        let empty = Identity { key: String::new(), ..a.clone() };
        assert!(matches!(empty.client(), Err(IdentityError::Pem { what: "the private key", .. })));
        let empty = Identity { authority: String::new(), ..a };
        assert!(matches!(empty.server(), Err(IdentityError::Tls(_))));
    }
}

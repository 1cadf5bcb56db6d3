//! A client of etcd's JSON gateway (`/v3/…`): leases, keys under a prefix, and a word when something changes there.
//!
//! A connection for each request: there are two a second. Requests go to the member that answered last, and when it does not
//! to the next one. Keys and values are base64, 64-bit numbers are strings.

use super::super::config::parts;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// A longer answer is none: there are a few hundred nodes at most.
const MOST: usize = 1 << 20;
/// The code of etcd's error when there is no such lease (`NOT_FOUND` of gRPC).
const NOT_FOUND: u64 = 5;
/// That when it does not know (any more) who asks (`UNAUTHENTICATED`).
const UNAUTHENTICATED: u64 = 16;
/// In a message of a watch that will tell nothing.
const CANCELED: &[u8] = b"\"canceled\":true";

/// How to reach etcd, with certificates as PEM.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Access {
    /// URLs of members.
    pub endpoints: Vec<String>,
    /// Who signed their certificates.
    pub authority: Option<String>,
    /// Ours.
    pub certificate: Option<String>,
    /// Its key.
    pub key: Option<String>,
    /// As whom we ask, and the password.
    pub user: Option<(String, String)>,
}

/// Why there is no answer, or which one.
#[derive(Debug)]
pub enum Failure {
    /// No member answers.
    Silent(String),
    /// There is no such lease (any more).
    NoLease,
    /// Etcd does not want to.
    Refused(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Silent(why) | Failure::Refused(why) => f.write_str(why),
            Failure::NoLease => f.write_str("the lease is gone"),
        }
    }
}

/// A key as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: Vec<u8>,
    /// The number of the change that made it.
    pub made: u64,
    /// The lease that it is under; 0 = none.
    pub lease: i64,
}

/// A member of etcd.
#[derive(Clone, Debug)]
struct Endpoint {
    tls: bool,
    host: String,
    port: u16,
}

/// See the module.
#[derive(Clone)]
pub struct Etcd {
    endpoints: Vec<Endpoint>,
    tls: Option<TlsConnector>,
    /// The one that answered last.
    last: usize,
    patience: Duration,
    user: Option<(String, String)>,
    /// What etcd gave the user: all members know it, until they forget it.
    token: Option<String>,
}

impl Etcd {
    /// A client that has not asked anything yet. A member may take `patience` for an answer.
    ///
    /// # Errors
    /// What to tell the user.
    pub fn new(access: &Access, patience: Duration) -> Result<Etcd, String> {
        let endpoint = |text: &String| parts(text).map(|(tls, host, port)| Endpoint { tls, host, port });
        let endpoints = access.endpoints.iter().map(endpoint).collect::<Result<Vec<_>, _>>()?;
        let any_tls = endpoints.iter().any(|endpoint| endpoint.tls);
        let tls =
            any_tls.then(|| tls(access)).transpose().map_err(|e| format!("certificates for etcd: {e}"))?;
        let (tls, user) = (tls.map(TlsConnector::from), access.user.clone());
        Ok(Etcd { endpoints, tls, last: 0, patience, user, token: None })
    }

    /// A lease for so many seconds. Returns its number, and for how long it is.
    pub async fn grant(&mut self, seconds: u64) -> Result<(i64, Duration), Failure> {
        let answer = self.ask("/v3/lease/grant", &json!({ "TTL": seconds.to_string() })).await?;
        let (id, ttl) = (number(&answer["ID"]), number(&answer["TTL"]));
        match (id, ttl) {
            (Some(id), Some(ttl)) if ttl > 0 => Ok((id, Duration::from_secs(ttl.unsigned_abs()))),
            _ => Err(Failure::Refused("no lease: an answer that is not understood".to_owned())),
        }
    }

    /// Renews a lease. Returns for how long.
    pub async fn renew(&mut self, lease: i64) -> Result<Duration, Failure> {
        let answer = self.ask("/v3/lease/keepalive", &json!({ "ID": lease.to_string() })).await?;
        match number(&answer["result"]["TTL"]).filter(|ttl| *ttl > 0) {
            Some(ttl) => Ok(Duration::from_secs(ttl.unsigned_abs())),
            None if answer["result"].is_object() => Err(Failure::NoLease),
            None => Err(Failure::Refused("not renewed: an answer that is not understood".to_owned())),
        }
    }

    /// Ends a lease, and with it what is under it.
    pub async fn revoke(&mut self, lease: i64) -> Result<(), Failure> {
        self.ask("/v3/lease/revoke", &json!({ "ID": lease.to_string() })).await.map(drop)
    }

    /// Writes a key under a lease.
    pub async fn put(&mut self, key: &str, value: &str, lease: i64) -> Result<(), Failure> {
        self.ask("/v3/kv/put", &put(key, value, lease)).await.map(drop)
    }

    /// Writes a key under a lease if there is none.
    pub async fn make(&mut self, key: &str, value: &str, lease: i64) -> Result<(), Failure> {
        let is_new = json!({ "target": "CREATE", "result": "EQUAL", "key": STANDARD.encode(key), "create_revision": "0" });
        let request = json!({ "compare": [is_new], "success": [{ "request_put": put(key, value, lease) }] });
        self.ask("/v3/kv/txn", &request).await.map(drop)
    }

    /// All keys that begin so.
    pub async fn list(&mut self, prefix: &str) -> Result<Vec<Entry>, Failure> {
        let answer = self.ask("/v3/kv/range", &range(prefix)).await?;
        let none = Vec::new();
        Ok(answer["kvs"].as_array().unwrap_or(&none).iter().filter_map(entry).collect())
    }

    /// Calls `changed` when watching has begun, and each time that a key changes that begins so; until etcd ends it, or does
    /// not answer.
    pub async fn watch(&mut self, prefix: &str, mut changed: impl FnMut()) -> Failure {
        let request = json!({ "create_request": range(prefix) });
        let mut body = match self.first(&request).await {
            Ok(body) => body,
            Err(failure) => return failure,
        };
        loop {
            // What it says does not matter: whoever wants to know asks.
            match body.frame().await {
                Some(Ok(frame)) if frame.data_ref().is_some_and(is_canceled) => {
                    return Failure::Refused("etcd refuses to watch".to_owned());
                }
                Some(Ok(_)) => changed(),
                Some(Err(e)) => return Failure::Silent(e.to_string()),
                None => return Failure::Silent("the watch has ended".to_owned()),
            }
        }
    }

    /// Goes on to the next member.
    pub fn next(&mut self) {
        self.last = (self.last + 1) % self.endpoints.len().max(1);
    }

    async fn first(&mut self, request: &Value) -> Result<Incoming, Failure> {
        let endpoint = self.endpoints.get(self.last).or(self.endpoints.first()).cloned();
        let Some(endpoint) = endpoint else { return Err(Failure::Silent("no endpoints".to_owned())) };
        let patience = self.patience;
        // Nothing is known of a token here until it is too late: a watch that is not allowed says nothing.
        let asked = async {
            if let Some((status, answer)) = self.log_in(&endpoint).await? {
                return Err(refusal(&answer, status));
            }
            self.send(&endpoint, "/v3/watch", request).await
        };
        match timeout(patience, asked).await {
            Ok(Ok(response)) => Ok(response.into_body()),
            Ok(Err(why)) => Err(Failure::Silent(why)),
            Err(_) => Err(Failure::Silent("no answer".to_owned())),
        }
    }

    /// The answer of the first member that gives one.
    async fn ask(&mut self, path: &str, request: &Value) -> Result<Value, Failure> {
        let count = self.endpoints.len();
        let mut why = "no endpoints".to_owned();
        let first = self.last;
        for i in (0..count).map(|i| (first + i) % count) {
            let Some(endpoint) = self.endpoints.get(i).cloned() else { continue };
            let asked = timeout(self.patience, self.exchange(&endpoint, path, request)).await;
            match asked {
                Ok(Ok((status, answer))) if status == StatusCode::OK && answer["error"].is_null() => {
                    self.last = i;
                    return Ok(answer);
                }
                // One that has lost the others, or its leader, says that it is unavailable.
                Ok(Ok((status, answer))) if status.is_server_error() => why = refusal(&answer, status),
                Ok(Ok((_, answer))) if answer["code"].as_u64() == Some(NOT_FOUND) => {
                    return Err(Failure::NoLease);
                }
                Ok(Ok((status, answer))) => return Err(Failure::Refused(refusal(&answer, status))),
                Ok(Err(e)) => why = format!("{}:{}: {e}", endpoint.host, endpoint.port),
                Err(_) => why = format!("{}:{}: no answer", endpoint.host, endpoint.port),
            }
        }
        Err(Failure::Silent(why))
    }

    /// The answer of a member, asked as our user if there is one.
    async fn exchange(
        &mut self,
        endpoint: &Endpoint,
        path: &str,
        request: &Value,
    ) -> Result<(StatusCode, Value), String> {
        let had_token = self.token.is_some();
        if !had_token && let Some(refused) = self.log_in(endpoint).await? {
            return Ok(refused);
        }
        let (status, answer) = self.exchange_once(endpoint, path, request).await?;
        if !(had_token && answer["code"].as_u64() == Some(UNAUTHENTICATED)) {
            return Ok((status, answer));
        }
        match self.log_in(endpoint).await? {
            Some(refused) => Ok(refused),
            None => self.exchange_once(endpoint, path, request).await,
        }
    }

    /// Gets a token for our user, if there is one; the answer if that is none.
    async fn log_in(&mut self, endpoint: &Endpoint) -> Result<Option<(StatusCode, Value)>, String> {
        self.token = None;
        let Some((name, password)) = &self.user else { return Ok(None) };
        let request = json!({ "name": name, "password": password });
        let (status, mut answer) = self.exchange_once(endpoint, "/v3/auth/authenticate", &request).await?;
        match answer["token"].take() {
            Value::String(token) => {
                self.token = Some(token);
                Ok(None)
            }
            _ => Ok(Some((status, answer))),
        }
    }

    async fn exchange_once(
        &self,
        endpoint: &Endpoint,
        path: &str,
        request: &Value,
    ) -> Result<(StatusCode, Value), String> {
        let response = self.send(endpoint, path, request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST).collect().await.map_err(|e| e.to_string())?;
        let body = body.to_bytes();
        let answer = serde_json::from_slice(&body);
        let answer = if status == StatusCode::OK {
            answer.map_err(|e| format!("not the JSON of etcd: {e}"))?
        } else {
            // What does not come from etcd itself, but from what is in front of it, is plain text.
            answer.unwrap_or_else(|_| json!({ "error": String::from_utf8_lossy(&body).trim() }))
        };
        Ok((status, answer))
    }

    async fn send(
        &self,
        endpoint: &Endpoint,
        path: &str,
        request: &Value,
    ) -> Result<Response<Incoming>, String> {
        let Endpoint { tls, host, port } = endpoint;
        let tcp = TcpStream::connect((&**host, *port)).await.map_err(|e| e.to_string())?;
        tcp.set_nodelay(true).map_err(|e| e.to_string())?;
        match &self.tls {
            Some(connector) if *tls => {
                let name = ServerName::try_from(host.clone()).map_err(|e| e.to_string())?;
                let stream = connector.connect(name, tcp).await.map_err(|e| format!("TLS: {e}"))?;
                post(stream, endpoint, (path, self.token.as_deref()), request).await
            }
            _ => post(tcp, endpoint, (path, self.token.as_deref()), request).await,
        }
    }
}

/// Sends a request on a new connection, which lives as long as the answer is read. `token`: who asks.
async fn post(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    endpoint: &Endpoint,
    (path, token): (&str, Option<&str>),
    request: &Value,
) -> Result<Response<Incoming>, String> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
    tokio::spawn(connection);
    let host = match endpoint.host.contains(':') {
        true => format!("[{}]:{}", endpoint.host, endpoint.port),
        false => format!("{}:{}", endpoint.host, endpoint.port),
    };
    let mut head = Request::post(path).header(HOST, host).header(CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        head = head.header(AUTHORIZATION, token);
    }
    let request = head.body(Full::new(Bytes::from(request.to_string()))).map_err(|e| e.to_string())?;
    sender.send_request(request).await.map_err(|e| e.to_string())
}

/// TLS 1.3, no authority but the given one.
fn tls(access: &Access) -> Result<Arc<ClientConfig>, String> {
    let certificates = |pem: &str| {
        CertificateDer::pem_slice_iter(pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| e.to_string())
    };
    let mut roots = RootCertStore::empty();
    for root in certificates(access.authority.as_deref().unwrap_or_default())? {
        roots.add(root).map_err(|e| e.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|e| e.to_string())?.with_root_certificates(roots);
    let config = match (&access.certificate, &access.key) {
        (Some(certificate), Some(key)) => {
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|e| format!("the key: {e}"))?;
            builder.with_client_auth_cert(certificates(certificate)?, key).map_err(|e| e.to_string())?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

fn put(key: &str, value: &str, lease: i64) -> Value {
    json!({ "key": STANDARD.encode(key), "value": STANDARD.encode(value), "lease": lease.to_string() })
}

/// The keys from a prefix to the first that does not begin so.
fn range(prefix: &str) -> Value {
    let mut end = prefix.as_bytes().to_vec();
    // It is ASCII: the last byte can be one more.
    end.last_mut().into_iter().for_each(|last| *last += 1);
    json!({ "key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end) })
}

fn entry(value: &Value) -> Option<Entry> {
    let bytes = |field: &str| STANDARD.decode(value[field].as_str().unwrap_or_default()).ok();
    Some(Entry {
        key: String::from_utf8(bytes("key")?).ok()?,
        value: bytes("value")?,
        made: number(&value["create_revision"])?.unsigned_abs(),
        lease: number(&value["lease"]).unwrap_or(0),
    })
}

/// Whether a message of a watch says that there will be no others.
fn is_canceled(message: &Bytes) -> bool {
    message.windows(CANCELED.len()).any(|part| part == CANCELED)
}

/// A number, which the gateway writes as a string.
fn number(value: &Value) -> Option<i64> {
    value.as_str().map_or_else(|| value.as_i64(), |text| text.parse().ok())
}

fn refusal(answer: &Value, status: StatusCode) -> String {
    let said = ["error", "message"]
        .into_iter()
        .find_map(|field| answer[field].as_str())
        .filter(|said| !said.is_empty());
    said.map_or_else(|| format!("HTTP {status}"), str::to_owned)
}

#[cfg(test)]
mod tests;

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
use hyper::header::{CONTENT_TYPE, HOST};
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
        Ok(Etcd { endpoints, tls: tls.map(TlsConnector::from), last: 0, patience })
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
        let asked = timeout(self.patience, self.send(&endpoint, "/v3/watch", request)).await;
        match asked {
            Ok(Ok(response)) => Ok(response.into_body()),
            Ok(Err(why)) => Err(Failure::Silent(why)),
            Err(_) => Err(Failure::Silent("no answer".to_owned())),
        }
    }

    /// The answer of the first member that gives one.
    async fn ask(&mut self, path: &str, request: &Value) -> Result<Value, Failure> {
        let count = self.endpoints.len();
        let mut why = "no endpoints".to_owned();
        for i in (0..count).map(|i| (self.last + i) % count) {
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

    async fn exchange(
        &self,
        endpoint: &Endpoint,
        path: &str,
        request: &Value,
    ) -> Result<(StatusCode, Value), String> {
        let response = self.send(endpoint, path, request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST).collect().await.map_err(|e| e.to_string())?;
        let answer = serde_json::from_slice(&body.to_bytes());
        let answer = if status == StatusCode::OK {
            answer.map_err(|e| format!("not the JSON of etcd: {e}"))?
        } else {
            answer.unwrap_or_default()
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
                post(stream, endpoint, path, request).await
            }
            _ => post(tcp, endpoint, path, request).await,
        }
    }
}

/// Sends a request on a new connection, which lives as long as the answer is read.
async fn post(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    endpoint: &Endpoint,
    path: &str,
    request: &Value,
) -> Result<Response<Incoming>, String> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
    tokio::spawn(connection);
    let host = match endpoint.host.contains(':') {
        true => format!("[{}]:{}", endpoint.host, endpoint.port),
        false => format!("{}:{}", endpoint.host, endpoint.port),
    };
    let request = Request::post(path)
        .header(HOST, host)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(request.to_string())))
        .map_err(|e| e.to_string())?;
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

/// A number, which the gateway writes as a string.
fn number(value: &Value) -> Option<i64> {
    value.as_str().map_or_else(|| value.as_i64(), |text| text.parse().ok())
}

fn refusal(answer: &Value, status: StatusCode) -> String {
    let said = ["error", "message"].into_iter().find_map(|field| answer[field].as_str());
    said.map_or_else(|| format!("HTTP {status}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::replicate::Authority;
    use std::net::TcpListener;
    use std::process::{Command, Stdio};

    #[test]
    fn entries_are_read_as_the_gateway_writes_them() {
        let value = json!({
            "key": "L3JiL2EvY29udHJvbA==", "create_revision": "4", "mod_revision": "7", "version": "2",
            "value": "e30=", "lease": "7587862069545473545"
        });
        let expected = Entry {
            key: "/rb/a/control".to_owned(),
            value: b"{}".to_vec(),
            made: 4,
            lease: 7_587_862_069_545_473_545,
        };
        assert_eq!(entry(&value), Some(expected));
        for wrong in
            [json!({}), json!({ "key": "!", "value": "", "create_revision": "1" }), json!(7), Value::Null]
        {
            assert_eq!(entry(&wrong), None, "{wrong}");
        }
        assert_eq!(
            [number(&json!("-3")), number(&json!(4)), number(&json!("x")), number(&Value::Null)],
            [Some(-3), Some(4), None, None]
        );
    }

    #[test]
    fn a_prefix_is_a_range() {
        let (key, end) = (STANDARD.encode("/rb/a/"), STANDARD.encode("/rb/a0"));
        assert_eq!(range("/rb/a/"), json!({ "key": key, "range_end": end }));
    }

    #[test]
    fn certificates_are_looked_at_before_anything_is_asked() {
        let access = Access { endpoints: vec!["https://a:1".to_owned()], ..Access::default() };
        assert!(Etcd::new(&access, Duration::ZERO).is_ok());
        let faulty = Access { certificate: Some(String::new()), key: Some("no key".to_owned()), ..access };
        assert!(
            Etcd::new(&faulty, Duration::ZERO)
                .is_err_and(|e| e.starts_with("certificates for etcd: the key: "))
        );
    }

    /// A member of its own on this machine, by TLS that asks for a certificate; killed when dropped.
    struct Member(std::process::Child);

    impl Drop for Member {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Starts it with its files in this directory; where it listens.
    fn member(directory: &std::path::Path, authority: &Authority) -> (Member, String) {
        let identity = authority.issue("localhost").unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (ca, certificate) = (file("ca", &identity.authority), file("certificate", &identity.certificate));
        let (key, data) = (file("key", &identity.key), directory.join("data").display().to_string());
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (url, peer) = (format!("https://localhost:{}", free()), format!("http://127.0.0.1:{}", free()));
        let listen = url.replace("localhost", "127.0.0.1");
        let member = Command::new("etcd")
            .args(["--data-dir", &data, "--trusted-ca-file", &ca, "--client-cert-auth"])
            .args(["--cert-file", &certificate, "--key-file", &key])
            .args(["--listen-client-urls", &listen, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        (Member(member.unwrap()), url)
    }

    #[test]
    fn a_real_etcd_answers_by_tls() {
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
            println!("skipped: there is no etcd");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let (authority, other) = (Authority::new().unwrap(), Authority::new().unwrap());
        let (_member, url) = member(directory.path(), &authority);
        let ours = authority.issue("node-a").unwrap();
        let access = Access {
            endpoints: vec![url],
            authority: Some(ours.authority),
            certificate: Some(ours.certificate),
            key: Some(ours.key),
        };
        let stranger = Access { authority: Some(other.certificate().to_owned()), ..access.clone() };
        let unknown = Access { certificate: None, key: None, ..access.clone() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = |access: &Access| Etcd::new(access, Duration::from_secs(5)).unwrap();
            let mut etcd = client(&access);
            let mut granted = etcd.grant(60).await;
            for _ in 0..300 {
                if granted.is_ok() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                granted = etcd.grant(60).await;
            }
            let (lease, ttl) = granted.unwrap();
            assert_eq!(ttl, Duration::from_secs(60));
            etcd.put("/rb/members/a", "word", lease).await.unwrap();
            etcd.put("/rc", "not ours", lease).await.unwrap();
            etcd.make("/rb/control", "first", lease).await.unwrap();
            let before = etcd.list("/rb/").await.unwrap();
            // Who is there first stays.
            let (second, _) = etcd.grant(60).await.unwrap();
            etcd.make("/rb/control", "second", second).await.unwrap();
            assert_eq!(etcd.list("/rb/").await.unwrap(), before);
            let keys: Vec<_> = before.iter().map(|entry| (&*entry.key, &*entry.value, entry.lease)).collect();
            assert_eq!(keys, [("/rb/control", &b"first"[..], lease), ("/rb/members/a", b"word", lease)]);
            assert_eq!(etcd.renew(lease).await.unwrap(), ttl);
            etcd.revoke(lease).await.unwrap();
            assert!(matches!(etcd.renew(lease).await, Err(Failure::NoLease)));
            assert!(matches!(etcd.put("/rb/members/a", "", lease).await, Err(Failure::NoLease)));
            assert_eq!(etcd.list("/rb/").await.unwrap(), []);
            etcd.make("/rb/control", "second", second).await.unwrap();
            assert!(etcd.list("/rb/").await.unwrap()[0].made > before[0].made);
            for wrong in [stranger, unknown] {
                assert!(matches!(client(&wrong).grant(60).await, Err(Failure::Silent(_))));
            }
        });
    }
}

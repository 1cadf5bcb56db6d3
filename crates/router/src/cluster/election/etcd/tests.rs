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
        Etcd::new(&faulty, Duration::ZERO).is_err_and(|e| e.starts_with("certificates for etcd: the key: "))
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

/// Starts it with its files in this directory; where it listens. `certified`: it answers no client without a certificate.
fn member(directory: &std::path::Path, authority: &Authority, certified: bool) -> (Member, String) {
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
        .args(["--data-dir", &data])
        .args(&["--client-cert-auth", "--trusted-ca-file", &*ca][..if certified { 3 } else { 0 }])
        .args(["--cert-file", &certificate, "--key-file", &key])
        .args(["--listen-client-urls", &listen, "--advertise-client-urls", &url])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    (Member(member.unwrap()), url)
}

/// A client of this member, which answers as soon as it is up.
async fn client_of(access: &Access) -> Etcd {
    let mut etcd = Etcd::new(access, Duration::from_secs(5)).unwrap();
    for _ in 0..300 {
        if !matches!(etcd.list("/").await, Err(Failure::Silent(_))) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    etcd
}

/// Says so and gives true where no etcd is installed.
fn skipped() -> bool {
    let missing = Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err();
    if missing {
        println!("skipped: there is no etcd");
    }
    missing
}

fn refused<T: std::fmt::Debug>(answer: Result<T, Failure>) -> String {
    match answer {
        Err(Failure::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// From now on etcd asks who asks: `root`, or `rb`, who may read and write what begins with `/rb/`.
async fn demand_users(root: &mut Etcd) {
    let (first, end) = (STANDARD.encode("/rb/"), STANDARD.encode("/rb0"));
    let perm = json!({ "permType": "READWRITE", "key": first, "range_end": end });
    for (path, request) in [
        ("/v3/auth/role/add", json!({ "name": "root" })),
        ("/v3/auth/user/add", json!({ "name": "root", "password": "r" })),
        ("/v3/auth/user/grant", json!({ "user": "root", "role": "root" })),
        ("/v3/auth/role/add", json!({ "name": "rb" })),
        ("/v3/auth/role/grant", json!({ "name": "rb", "perm": perm })),
        ("/v3/auth/user/add", json!({ "name": "rb", "password": "secret" })),
        ("/v3/auth/user/grant", json!({ "user": "rb", "role": "rb" })),
        ("/v3/auth/enable", json!({})),
    ] {
        root.ask(path, &request).await.unwrap();
    }
}

#[test]
fn a_real_etcd_answers_its_users() {
    if skipped() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new().unwrap();
    let (_member, url) = member(directory.path(), &authority, false);
    let ours = authority.issue("node-a").unwrap();
    let access = Access { endpoints: vec![url], authority: Some(ours.authority), ..Access::default() };
    let of_user = |name: &str, password: &str| Access {
        user: Some((name.to_owned(), password.to_owned())),
        ..access.clone()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut root = client_of(&access).await;
        let early =
            refused(Etcd::new(&of_user("rb", "x"), Duration::from_secs(5)).unwrap().list("/rb/").await);
        assert!(early.contains("authentication is not enabled"), "{early}");
        demand_users(&mut root).await;
        refused(root.list("/rb/").await);
        let wrong = Etcd::new(&of_user("rb", "Secret"), Duration::from_secs(5)).unwrap().list("/rb/").await;
        let wrong = refused(wrong);
        assert!(wrong.contains("authentication failed"), "{wrong}");
        let mut etcd = client_of(&of_user("rb", "secret")).await;
        let (lease, _) = etcd.grant(60).await.unwrap();
        etcd.make("/rb/control", "first", lease).await.unwrap();
        assert!(refused(etcd.put("/rc", "not ours", lease).await).contains("permission denied"));
        // As if etcd had been started anew.
        etcd.token = Some("forgotten".to_owned());
        assert_eq!(etcd.list("/rb/").await.unwrap().len(), 1);
        etcd.token = Some("forgotten".to_owned());
        assert!(etcd.renew(lease).await.is_ok());
        let mut seen = 0;
        let mut watching = etcd.clone();
        let changes = watching.watch("/rb/", || seen += 1);
        let write = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            etcd.put("/rb/members/a", "word", lease).await.unwrap();
            tokio::time::sleep(Duration::from_millis(500)).await;
        };
        tokio::select! { why = changes => panic!("{why}"), () = write => {} }
        assert!(seen >= 2, "begun, and changed: {seen}");
        let not_ours = watching.watch("/rc/", || ());
        let why = timeout(Duration::from_secs(5), not_ours).await.unwrap();
        assert!(matches!(why, Failure::Refused(_)), "{why:?}");
    });
}

#[test]
fn a_real_etcd_answers_by_tls() {
    if skipped() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::new().unwrap(), Authority::new().unwrap());
    let (_member, url) = member(directory.path(), &authority, true);
    let ours = authority.issue("node-a").unwrap();
    let access = Access {
        endpoints: vec![url],
        authority: Some(ours.authority),
        certificate: Some(ours.certificate),
        key: Some(ours.key),
        user: None,
    };
    let stranger = Access { authority: Some(other.certificate().to_owned()), ..access.clone() };
    let unknown = Access { certificate: None, key: None, ..access.clone() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut etcd = client_of(&access).await;
        let (lease, ttl) = etcd.grant(60).await.unwrap();
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
            let mut etcd = Etcd::new(&wrong, Duration::from_secs(5)).unwrap();
            assert!(matches!(etcd.grant(60).await, Err(Failure::Silent(_))));
        }
        // With users, its gateway for JSON takes no certificates with names.
        demand_users(&mut etcd).await;
        let named = refused(etcd.list("/rb/").await);
        assert!(named.contains("CommonName"), "{named}");
    });
}

//! Which path answers what.
//!
//! | | |
//! |---|---|
//! | `GET /handlers` | every element's handlers, JSON |
//! | `GET /handlers/ELEMENT/NAME[?PARAMETER]` | a handler's value, as text |
//! | `PUT /handlers/ELEMENT/NAME` | writes the body to a handler |
//! | `GET /api/{interfaces,elements,runtime,drops,control}` | tables, JSON |
//! | `PUT /control/restart` | starts the control side again |
//! | `GET /metrics` | for Prometheus |

use super::{Subject, metrics, tables};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, RawQuery, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use graph::HandlerError;
use std::net::IpAddr;
use std::sync::Arc;

/// Largest value that may be written to a handler, in bytes.
pub const MAX_BODY: usize = 4 << 20;

const INDEX: &str = "/handlers\n/handlers/ELEMENT/NAME\n/api/interfaces\n/api/elements\n/api/runtime\n/api/drops\n/api/control\n/control/restart\n/metrics\n";
const JSON: &str = "application/json";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

type Answer = Result<Response, (StatusCode, String)>;

/// All paths.
pub fn routes(subject: Arc<Subject>) -> Router {
    Router::new()
        .route("/", get(|| async { INDEX }))
        .route("/handlers", get(list))
        .route("/handlers/{*path}", get(read).put(write))
        .route("/api/{table}", get(table))
        .route("/control/restart", put(restart))
        .route("/metrics", get(scrape))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(subject)
}

/// For a server on the loopback address: refuses requests under a host name, which web pages of others could have made
/// to point here (DNS rebinding).
pub fn local_only(routes: Router) -> Router {
    routes.layer(middleware::from_fn(|request: Request, next: Next| async move {
        let host = request.headers().get(header::HOST).and_then(|h| h.to_str().ok()).unwrap_or("");
        if is_local(host) {
            next.run(request).await
        } else {
            (StatusCode::FORBIDDEN, "use an IP address or localhost\n").into_response()
        }
    }))
}

/// `localhost` or an IP address, with or without a port.
fn is_local(host: &str) -> bool {
    let digits = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if digits(port) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

/// Calls a function that may take a while (a table of a million routes) in a thread of its own.
async fn aside(call: impl FnOnce() -> Answer + Send + 'static) -> Answer {
    let failed = |_| (StatusCode::INTERNAL_SERVER_ERROR, "a fault of this program\n".to_owned());
    tokio::task::spawn_blocking(call).await.map_err(failed)?
}

fn typed(content_type: &'static str, body: String) -> Response {
    ([(header::CONTENT_TYPE, content_type)], body).into_response()
}

async fn list(State(subject): State<Arc<Subject>>) -> Answer {
    aside(move || Ok(typed(JSON, tables::handlers(&subject)))).await
}

async fn table(State(subject): State<Arc<Subject>>, Path(name): Path<String>) -> Answer {
    aside(move || match tables::table(&subject, &name) {
        Some(text) => Ok(typed(JSON, text)),
        None => {
            let names = tables::NAMES.join(", ");
            Err((StatusCode::NOT_FOUND, format!("no such table; there are: {names}\n")))
        }
    })
    .await
}

async fn restart(State(subject): State<Arc<Subject>>) -> Answer {
    aside(move || {
        let refused = |why: String| (StatusCode::CONFLICT, format!("{why}\n"));
        let control = subject.control.as_ref();
        let control = control.ok_or_else(|| refused("this router has no control side".to_owned()))?;
        control.restart().map_err(refused)?;
        Ok(StatusCode::NO_CONTENT.into_response())
    })
    .await
}

async fn scrape(State(subject): State<Arc<Subject>>) -> Answer {
    aside(move || Ok(typed(PROMETHEUS, metrics::text(&subject)))).await
}

async fn read(
    State(subject): State<Arc<Subject>>,
    Path(path): Path<String>,
    RawQuery(query): RawQuery,
) -> Answer {
    let parameter = decoded(query.as_deref().unwrap_or(""))
        .ok_or_else(|| (StatusCode::BAD_REQUEST, "the parameter is not UTF-8\n".to_owned()))?;
    aside(move || {
        let (element, handler) = split(&path)?;
        subject
            .router
            .read(element, handler, &parameter)
            .map(IntoResponse::into_response)
            .map_err(|e| refused(&e))
    })
    .await
}

async fn write(State(subject): State<Arc<Subject>>, Path(path): Path<String>, value: String) -> Answer {
    aside(move || {
        let (element, handler) = split(&path)?;
        let written = subject.router.write(element, handler, &value);
        written.map(|()| StatusCode::NO_CONTENT.into_response()).map_err(|e| refused(&e))
    })
    .await
}

/// Names of elements inside compounds have slashes; the last part is the handler.
fn split(path: &str) -> Result<(&str, &str), (StatusCode, String)> {
    path.rsplit_once('/')
        .ok_or_else(|| (StatusCode::NOT_FOUND, "a path is /handlers/ELEMENT/NAME\n".to_owned()))
}

fn refused(error: &HandlerError) -> (StatusCode, String) {
    let status = match error {
        HandlerError::NoElement(_) | HandlerError::NoHandler(_) => StatusCode::NOT_FOUND,
        HandlerError::NotReadable(_) | HandlerError::NotWritable(_) => StatusCode::METHOD_NOT_ALLOWED,
        HandlerError::Failed(_) => StatusCode::BAD_REQUEST,
    };
    (status, format!("{error}\n"))
}

/// Undoes percent encoding (RFC 3986 §2.1); `None` if the result is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let hex = |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16));
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while let Some(&byte) = bytes.get(i) {
        match (byte, hex(bytes.get(i + 1)), hex(bytes.get(i + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                i += 3;
            }
            _ => {
                out.push(byte);
                i += 1;
            }
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:8080", "[::1]:80", "[::1]"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["", "example.org", "example.org:80", "127.0.0.1.example.org", "localhost.example.org:1"]
        {
            assert!(!is_local(host), "{host}");
        }
    }

    #[test]
    fn percent_encoding() {
        assert_eq!(decoded("10.0.0.1%20a%2fb").as_deref(), Some("10.0.0.1 a/b"));
        assert_eq!(decoded("100%").as_deref(), Some("100%"));
        assert_eq!(decoded("%zz%4").as_deref(), Some("%zz%4"));
        assert_eq!(decoded("%ff"), None);
    }
}

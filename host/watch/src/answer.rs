//! Requests and their answers: the refusals, and the three resources.

use hyper::{
    Method, Request, Response, StatusCode,
    body::Bytes,
    header::{self, HeaderValue},
};

use crate::{body::Body, news::News, pages::Pages};

/// The state of the server.
pub(crate) struct LivePage {
    pub port: u16,
    pub token: String,
    pub news: News,
    pub pages: Pages,
}

impl LivePage {
    /// Answers a request. Its body is not read.
    pub(crate) async fn answer<B>(&self, request: &Request<B>) -> Response<Body> {
        match self.allowed(request) {
            Err(status) => text(status, "text/plain; charset=utf-8", refusal(status)),
            Ok("") => self.page(true).await,
            Ok("content") => self.page(false).await,
            Ok("events") => {
                with_headers(StatusCode::OK, "text/event-stream", Body::Events(self.news.listen()))
            }
            Ok(_) => {
                let status = StatusCode::NOT_FOUND;
                text(status, "text/plain; charset=utf-8", refusal(status))
            }
        }
    }

    /// The requested path below the token, or the status of a refusal.
    fn allowed<'a, B>(&self, request: &'a Request<B>) -> Result<&'a str, StatusCode> {
        // A page of another site that has a name for this address sends that name.
        let hosts = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        if !host.is_some_and(|host| hosts.iter().any(|own| own == host)) {
            return Err(StatusCode::MISDIRECTED_REQUEST);
        }
        let path = request.uri().path().strip_prefix('/').unwrap_or_default();
        let (token, below) = path.split_once('/').unwrap_or((path, "/"));
        if !same(token.as_bytes(), self.token.as_bytes()) {
            return Err(StatusCode::FORBIDDEN);
        }
        if request.method() != Method::GET {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        Ok(below)
    }

    async fn page(&self, whole: bool) -> Response<Body> {
        let pages = self.pages.clone();
        let made = tokio::task::spawn_blocking(move || pages.make(whole)).await;
        match made {
            Ok(Ok((html, took))) => {
                if !whole {
                    self.news.charts_took(took);
                }
                text(StatusCode::OK, "text/html; charset=utf-8", html)
            }
            Ok(Err(fault)) => {
                text(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", fault.to_string())
            }
            Err(_) => {
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                text(status, "text/plain; charset=utf-8", refusal(status))
            }
        }
    }
}

/// True if two texts are equal, in a time that does not depend on the place of a difference.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
}

fn refusal(status: StatusCode) -> String {
    format!("{}\n", status.canonical_reason().unwrap_or("refused"))
}

fn text(status: StatusCode, kind: &'static str, text: String) -> Response<Body> {
    with_headers(status, kind, Body::Whole(Some(Bytes::from(text))))
}

fn with_headers(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // This directive has no effect in the page's own policy.
        (header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
    ];
    headers.into_iter().for_each(|(name, value)| {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    });
    response
}

//! The report's page, live, for a browser on this machine.
//!
//! The server listens on 127.0.0.1 and answers only requests that have its token and name it as their host, so that
//! other users and pages of other sites have no access. It reads run folders and writes nothing. The module `news`
//! follows the runs while a browser is connected, `pages` updates the page, and `answer` handles requests.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod answer;
mod body;
mod news;
mod pages;

use std::{
    io::{self, Read},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use altgrad_base::{diagnostic::Diagnostic, files};
use altgrad_report::{compare::Comparison, find::FoundRuns, group::Group};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use answer::LivePage;
use news::News;
use pages::Pages;

/// Bytes of the token: too many to guess.
const TOKEN: usize = 16;

/// Compares the runs as the user requested.
pub type Compare = Box<dyn Fn(&FoundRuns, &[Group]) -> Result<Comparison, Diagnostic> + Send + Sync>;

/// Options of the server.
pub struct WatchOptions {
    /// Run folders, folders of run folders, or CSV files.
    pub named: Vec<PathBuf>,
    /// The page's heading.
    pub title: String,
    /// The port; 0 for one that is free.
    pub port: u16,
    /// Compares the runs.
    pub compare: Compare,
}

/// Serves the page until the process ends; `announce` gets its address once it answers.
///
/// # Errors
/// The port is taken, or the system gives no random numbers.
pub fn serve(options: WatchOptions, announce: impl FnOnce(&str)) -> Result<(), Diagnostic> {
    let failed = |error: io::Error| Diagnostic::run(format!("the page cannot be served ({error})"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let token = token().map_err(failed)?;
    runtime.block_on(async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
        let listener = TcpListener::bind(address).await.map_err(|error| {
            Diagnostic::config(format!("cannot listen on {address} ({error})"))
                .hint("choose another `--port`")
        })?;
        let port = listener.local_addr().map_err(failed)?.port();
        announce(&format!("http://127.0.0.1:{port}/{token}/"));
        let news = News::new(options.named.clone());
        tokio::spawn(news.clone().tell());
        let site = Arc::new(LivePage { port, token, news, pages: Pages::new(options) });
        loop {
            let (stream, _) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(_) => {
                    // Out of descriptors, for example: others may be closed soon.
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    continue;
                }
            };
            let site = site.clone();
            let service = service_fn(move |request| {
                let site = site.clone();
                async move { Ok::<_, std::convert::Infallible>(site.answer(&request).await) }
            });
            let mut server = http1::Builder::new();
            // A client that sends no request for a while is disconnected.
            server.timer(TokioTimer::new()).header_read_timeout(std::time::Duration::from_secs(10));
            let connection = server.serve_connection(TokioIo::new(stream), service);
            tokio::spawn(async move {
                // A browser that disconnects is not a fault.
                let _ = connection.await;
            });
        }
    })
}

/// A new token, as hexadecimal digits.
fn token() -> io::Result<String> {
    let mut bytes = [0; TOKEN];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(files::hex(&bytes))
}

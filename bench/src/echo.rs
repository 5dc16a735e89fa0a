//! The ceiling of the HTTP stack: a server that parses a small JSON body and answers with another, and keeps nothing.
//!
//! It stands on what the hub stands on (axum's router, hyper's HTTP/1 connection, tokio's threads, the same allocator), in a
//! process of its own, so that dividing by its speed says what the hub adds.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing;
use bytes::Bytes;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::scripts::{Prepared, post};

/// The echo server in a child process; it ends with this value.
pub struct Echo {
    child: Child,
    pub server: SocketAddr,
}

impl Echo {
    pub fn start() -> anyhow::Result<Self> {
        Self::start_as(&["serve-echo"])
    }

    /// Runs this program as another bare server, which says its address first.
    pub fn start_as(arguments: &[&str]) -> anyhow::Result<Self> {
        let this_program = std::env::current_exe().context("cannot find this program's file")?;
        let mut child = Command::new(this_program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the echo server")?;
        let stdout = child.stdout.take().expect("stdout was piped");
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        // The child is owned before anything can fail, so that it never outlives us.
        let unbound = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut echo = Self {
            child,
            server: unbound,
        };
        read.context("the echo server said nothing")?;
        echo.server = line
            .trim()
            .parse()
            .context("the echo server did not say its address")?;
        Ok(echo)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // It may be gone already; then there is nothing left to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child process: prints its address, then serves until its input ends, as it does when the parent is gone.
pub fn serve_until_orphaned(
    serve: impl AsyncFnOnce(TcpListener) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    std::thread::spawn(|| {
        let ended = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(i32::from(ended.is_err()));
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the echo server's threads")?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        println!("{}", listener.local_addr()?);
        serve(listener).await
    })
}

/// The HTTP echo's process.
pub fn serve() -> anyhow::Result<()> {
    serve_until_orphaned(async |listener| {
        let router = Router::new().route("/api/v1/echo/{id}", routing::post(echo));
        route(listener, router).await
    })
}

/// Answers whoever connects.
pub async fn route(listener: TcpListener, router: Router) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                eprintln!("echo: {error}");
            }
        });
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    agent_id: &'a str,
    status: &'a str,
    progress: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reply<'a> {
    success: bool,
    agent_id: &'a str,
    status: &'a str,
    progress: u32,
}

async fn echo(body: Bytes) -> Response {
    let Ok(question) = serde_json::from_slice::<Question<'_>>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let reply = Reply {
        success: true,
        agent_id: question.agent_id,
        status: question.status,
        progress: question.progress,
    };
    let json = serde_json::to_vec(&reply).expect("text and numbers are always JSON");
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}

/// Each asks the same question again and again.
pub fn scripts(server: SocketAddr, connections: usize) -> Vec<Prepared> {
    let script = |number: usize| {
        let body = format!(
            r#"{{"protocolVersion":"1.0","agentId":"bench-{number}","status":"busy","progress":50}}"#
        );
        let path = format!("/api/v1/echo/bench-{number}");
        Prepared::new(vec![post(server, &path, &body)])
    };
    (0..connections).map(script).collect()
}

//! A client of the admin API.
//!
//! In: where the API is and who asks; a method, a path and perhaps a body. Out: a status, fields and a body, or a stream of bytes; or
//! why there is none. One connection a request, and a deadline for each. A token is sent as a field of a head and shown nowhere.

mod ask;
mod fault;
mod link;
mod target;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderValue};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub use ask::Ask;
pub use fault::Fault;
pub use link::Trust;
pub use target::Target;

/// How long a request may take, and the head of a stream.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a stream may be silent: three times as long as its server is.
const SILENCE: Duration = Duration::from_secs(45);
/// The longest answer that is read, in bytes.
const LONGEST: usize = 64 << 20;

/// The API of one Greylag.
#[derive(Debug, Clone)]
pub struct Api {
    target: Target,
    trust: Trust,
    // `Bearer …`; marked as sensitive, so that it is not shown when this is
    token: Option<HeaderValue>,
}

/// An answer of the API.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    head: HeaderMap,
    body: Vec<u8>,
}

/// An answer without an end.
#[derive(Debug)]
pub struct Stream {
    body: Incoming,
    name: String,
    _driver: Driver,
}

/// What an endless operation answers.
#[derive(Debug)]
pub enum Streamed {
    /// A stream.
    Stream(Stream),
    /// Why there is none.
    Answer(Answer),
}

// Moves the bytes of a connection, for as long as somebody reads them.
#[derive(Debug)]
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Api {
    /// The API at this address, over HTTP, without a token.
    pub fn at(address: SocketAddr) -> Self {
        Api::of(Target::at(address), Trust::default(), None)
    }

    /// The API there; `token` is what follows `Bearer`.
    pub fn of(target: Target, trust: Trust, token: Option<HeaderValue>) -> Self {
        Api {
            target,
            trust,
            token,
        }
    }

    /// How people call it: where it is.
    pub fn name(&self) -> String {
        self.target.to_string()
    }

    /// Where it is.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Reads a thing.
    ///
    /// # Errors
    /// A [`Fault`].
    pub async fn get(&self, path: &str) -> Result<Answer, Fault> {
        self.ask(Ask::get(path)).await
    }

    /// Asks, and reads all of the answer.
    ///
    /// # Errors
    /// A [`Fault`].
    pub async fn ask(&self, ask: Ask) -> Result<Answer, Fault> {
        let talk = async {
            let (status, head, mut stream) = self.begin(ask).await?;
            let body = stream.rest().await?;
            Ok(Answer { status, head, body })
        };
        let late = |_| self.silent(PATIENCE);
        timeout(PATIENCE, talk).await.map_err(late)?
    }

    /// Asks for a stream.
    ///
    /// # Errors
    /// A [`Fault`].
    pub async fn stream(&self, ask: Ask) -> Result<Streamed, Fault> {
        let talk = async {
            let (status, head, mut stream) = self.begin(ask).await?;
            if status == 200 {
                return Ok(Streamed::Stream(stream));
            }
            let body = stream.rest().await?;
            Ok(Streamed::Answer(Answer { status, head, body }))
        };
        let late = |_| self.silent(PATIENCE);
        timeout(PATIENCE, talk).await.map_err(late)?
    }

    async fn begin(&self, ask: Ask) -> Result<(u16, HeaderMap, Stream), Fault> {
        let name = self.name();
        let mut request = ask.request()?;
        let connected = link::connect(&self.target, &self.trust).await;
        let socket = connected.map_err(|error| Fault::unreachable(&name, &error))?;
        let shaken = http1::handshake(TokioIo::new(socket)).await;
        let (mut sender, connection) = shaken.map_err(|error| Fault::unreachable(&name, &error))?;
        // What breaks there is seen by whoever waits for the answer.
        let driver = Driver(tokio::spawn(async { drop(connection.await) }));
        let fields = request.headers_mut();
        let host = HeaderValue::try_from(self.target.authority());
        let host = host.map_err(|error| Fault::unreachable(&name, &error))?;
        fields.insert(HOST, host);
        if let Some(token) = &self.token {
            fields.insert(AUTHORIZATION, token.clone());
        }
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|error| Fault::broken(&name, &error))?;
        let (head, body) = answer.into_parts();
        let stream = Stream {
            body,
            name,
            _driver: driver,
        };
        Ok((head.status.as_u16(), head.headers, stream))
    }

    fn silent(&self, patience: Duration) -> Fault {
        let name = self.name();
        Fault::Silent { name, patience }
    }
}

impl Stream {
    /// The next bytes; none once it has ended.
    ///
    /// # Errors
    /// A [`Fault`].
    pub async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        let read = timeout(SILENCE, self.bytes()).await;
        read.map_err(|_| Fault::Silent {
            name: self.name.clone(),
            patience: SILENCE,
        })?
    }

    async fn bytes(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            let body = &mut self.body;
            let frame = std::future::poll_fn(|cx| std::pin::Pin::new(&mut *body).poll_frame(cx));
            let Some(frame) = frame.await else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| Fault::broken(&self.name, &error))?;
            // Trailers say nothing here.
            if let Ok(bytes) = frame.into_data() {
                return Ok(Some(bytes));
            }
        }
    }

    async fn rest(&mut self) -> Result<Vec<u8>, Fault> {
        let mut body = Vec::new();
        while let Some(bytes) = self.bytes().await? {
            if body.len().saturating_add(bytes.len()) > LONGEST {
                return Err(Fault::Nonsense {
                    name: self.name.clone(),
                    why: format!("its answer is longer than {LONGEST} bytes"),
                });
            }
            body.extend_from_slice(&bytes);
        }
        Ok(body)
    }
}

impl Answer {
    /// The value of a field, if it is there.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.get(name)?.to_str().ok()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// It is none.
    pub fn json(&self) -> Result<serde_json::Value, String> {
        serde_json::from_slice(&self.body)
            .map_err(|error| format!("the answer is not JSON: {error}"))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

#[cfg(test)]
mod tests;

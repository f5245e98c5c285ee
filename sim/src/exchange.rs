//! One request and its answer, from the first byte to the last.
//!
//! In: a connection and what the engine is like. Out: an answer, or what was ordered instead, and how the connection
//! goes on. Every request that was read ends in the ledger exactly once.

use std::sync::Arc;

use tokio::time::Instant;

use crate::body::Unread;
use crate::call::{Call, Refusal, Route};
use crate::carrier::{Carrier, Http1};
use crate::chance::generator;
use crate::engine::Shared;
use crate::http::{Answer, Ends, Server};
use crate::order::{How, Instead, Order};
use crate::page::Page;
use crate::request::Head;
use crate::script::{self, Script};
use crate::seen::{Ending, Open};
use crate::settings::Settings;
use crate::triton::Asked;
use crate::wire::{Gone, Wire};

mod answer;
mod tensors;
mod upgrade;

/// How the connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// With the next request.
    Again,
    /// The client has left it, or its stream.
    Gone,
    /// It ends by FIN.
    Close,
    /// It ends by RST.
    Reset,
}

/// Answers the next request of a connection of HTTP/1.
pub(crate) async fn exchange(http: &mut Http1, shared: &Shared, open: &Open) -> Next {
    let head = match Head::read(&mut http.wire).await {
        Ok(head) => head,
        Err(Unread::Gone) => return Next::Close,
        Err(unread @ (Unread::Bad | Unread::TooLong)) => {
            shared.ledger.refused();
            return refuse(&mut http.wire, unread).await;
        }
    };
    let number = shared.ledger.arrived(open, &head);
    answer(http, shared, head, number).await
}

/// Answers a request that was read, and sees it to its end.
pub(crate) async fn answer(
    carrier: &mut impl Carrier,
    shared: &Shared,
    head: Head,
    number: u64,
) -> Next {
    let settings = shared.settings.borrow().clone();
    let mut exchange = Exchange {
        carrier,
        shared,
        settings,
        order: Order::default(),
        head,
        number,
        turn: number,
        events: 0,
    };
    let (ending, next) = match exchange.run().await {
        Ok(next) => (
            Ending::Answered {
                events: exchange.events,
            },
            next,
        ),
        Err(End::Gone) => (
            Ending::ClientClosed {
                after_events: exchange.events,
            },
            Next::Gone,
        ),
        Err(End::Broken(How::Fin)) => (
            Ending::Broken {
                after_events: exchange.events,
            },
            Next::Close,
        ),
        Err(End::Broken(How::Rst)) => (
            Ending::Broken {
                after_events: exchange.events,
            },
            Next::Reset,
        ),
        Err(End::Refused(unread)) => (
            Ending::Refused,
            match exchange.carrier.wire() {
                Some(wire) => refuse(wire, unread).await,
                None => Next::Reset,
            },
        ),
    };
    shared.ledger.ended(number, ending);
    next
}

struct Exchange<'a, C> {
    carrier: &'a mut C,
    shared: &'a Shared,
    settings: Arc<Settings>,
    order: Order,
    head: Head,
    /// Among all requests.
    number: u64,
    /// Among inference requests, which all chance is drawn by; else the same as `number`.
    turn: u64,
    events: u64,
}

/// Why an exchange ended without its answer.
enum End {
    Gone,
    Broken(How),
    Refused(Unread),
}

impl From<Gone> for End {
    fn from(_: Gone) -> End {
        End::Gone
    }
}

impl From<Unread> for End {
    fn from(unread: Unread) -> End {
        match unread {
            Unread::Gone => End::Gone,
            Unread::Bad | Unread::TooLong => End::Refused(unread),
        }
    }
}

impl<C: Carrier> Exchange<'_, C> {
    async fn run(&mut self) -> Result<Next, End> {
        let posted = Some(&self.head).filter(|head| head.method == "POST");
        let route = posted.and_then(|head| Route::of(head.path()));
        let triton = posted.and_then(|head| Asked::of(head.path()));
        let infers = route.is_some() || triton.is_some();
        if infers {
            self.turn = self.shared.turn();
        }
        let order = match self.head.header("x-sim") {
            Some(text) => text.parse(),
            None if infers => Ok(self.settings.order(self.turn)),
            None => Ok(Order::default()),
        };
        match order {
            Ok(order) => self.order = order,
            Err(error) => {
                self.read_body().await?;
                return self
                    .page(Page::refusal(&Refusal::header("x-sim", error.to_string())))
                    .await;
            }
        }
        if let Some(Instead::Early(status)) = self.order.instead {
            self.wait().await?;
            self.page(Page::ordered(self.server(), status, None))
                .await?;
            return Ok(Next::Close);
        }
        let body = self.read_body().await?;
        self.wait().await?;
        match self.shared.scripts.next(&self.head) {
            Err(name) => {
                let message = format!("no script is called {name:?}");
                return self
                    .page(Page::refusal(&Refusal::header("x-sim-script", message)))
                    .await;
            }
            Ok(Some(script)) => return self.play(&script).await,
            Ok(None) => {}
        }
        if let Some(status) = self.order.interim {
            self.carrier.interim(status).await?;
        }
        if let Some(instead) = self.order.instead {
            return self.instead(instead).await;
        }
        if upgrade::is_asked(&self.head) && self.carrier.wire().is_some() {
            return self.tunnel().await;
        }
        if let Some(asked) = triton {
            return self.triton(&asked, &body).await;
        }
        match route {
            Some(route) => match Call::read(route, &self.head, &body, &self.settings) {
                Ok(call) => self.answer(&call).await,
                Err(refusal) => self.page(Page::refusal(&refusal)).await,
            },
            None => self.page(self.beside()).await,
        }
    }

    /// What comes before any byte of the answer.
    async fn wait(&mut self) -> Result<(), Gone> {
        let key = self.turn.to_le_bytes();
        let wait = self
            .order
            .wait
            .draw(&mut generator(self.settings.seed, "wait", &key));
        if wait.is_zero() {
            Ok(())
        } else {
            self.carrier.until(Instant::now() + wait).await
        }
    }

    async fn play(&mut self, script: &Script) -> Result<Next, End> {
        match script::play(script, self.wire()?).await {
            Ok(()) => Ok(self.next()),
            Err(script::Stop::Gone) => Err(End::Gone),
            Err(script::Stop::Ended(how)) => Err(End::Broken(how)),
        }
    }

    async fn read_body(&mut self) -> Result<Vec<u8>, End> {
        let body = self.carrier.body(&self.head).await?;
        self.shared.ledger.read(self.number, &body);
        Ok(body)
    }

    /// Whose answers are given.
    fn server(&self) -> Server {
        Server::of(self.head.path())
    }

    /// The connection, for what is written on it byte for byte; over HTTP/2 that ends in a reset of the stream.
    fn wire(&mut self) -> Result<&mut Wire, End> {
        self.carrier.wire().ok_or(End::Broken(How::Rst))
    }

    async fn instead(&mut self, instead: Instead) -> Result<Next, End> {
        match instead {
            Instead::Reset => Err(End::Broken(How::Rst)),
            Instead::Close => Err(End::Broken(How::Fin)),
            Instead::Garbage => {
                self.wire()?
                    .write(b"\x16\x03\x01\x00\xffthis is not HTTP\r\n\r\n")
                    .await?;
                Err(End::Broken(How::Fin))
            }
            Instead::Hang => Err(self.carrier.gone().await.into()),
            Instead::HangHead => {
                self.wire()?
                    .write(b"HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan")
                    .await?;
                Err(self.carrier.gone().await.into())
            }
            Instead::Early(status)
            | Instead::Status {
                status,
                retry_after: None,
            } => self.page(Page::ordered(self.server(), status, None)).await,
            Instead::Status {
                status,
                retry_after,
            } => {
                self.page(Page::ordered(self.server(), status, retry_after))
                    .await
            }
            Instead::NotSse => {
                self.page(Page {
                    status: 200,
                    content_type: "text/plain; charset=utf-8",
                    body: b"this is not an event stream\n".to_vec(),
                    chunked: false,
                    fields: Vec::new(),
                })
                .await
            }
        }
    }
}

/// Answers what is not a request, and ends the connection.
async fn refuse(wire: &mut Wire, unread: Unread) -> Next {
    let (status, body) = match unread {
        Unread::Gone | Unread::Bad => (400, "Invalid HTTP request received."),
        Unread::TooLong => (413, "Request too large."),
    };
    let ends = Ends::Length(body.len());
    let mut answer = Answer {
        server: Server::Uvicorn,
        status,
        content_type: "text/plain; charset=utf-8",
        ends,
        fields: Vec::new(),
        request_id: None,
        close: true,
    }
    .head();
    answer.extend(body.bytes());
    // The connection ends either way.
    let _ = wire.write(&answer).await;
    Next::Close
}

//! Triton's gRPC service and gRPC's own health service, on a stream of HTTP/2.
//!
//! In: a stream, its request's head. Out: an answer as Triton 2.51 gave it. Every call that begins ends in the ledger
//! once; its events are the messages sent. An `x-sim` header orders waits, ends and stalls, counted in messages.

use std::sync::Arc;

use tokio::time::Instant;

use super::infer::{Infer, response};
use super::message::{Messages, fail, finish, send};
use super::proto::{Value, Writer, fields};
use super::{Fault, Kind, Model, Replies, page};
use crate::carrier::Carrier;
use crate::chance::generator;
use crate::engine::Shared;
use crate::exchange::Next;
use crate::http2::Lane;
use crate::order::{How, Instead, Order};
use crate::request::Head;
use crate::seen::Ending;
use crate::settings::Settings;
use crate::wire::Gone;

mod stream;

const TRITON: &str = "/inference.GRPCInferenceService/";
const HEALTH: &str = "/grpc.health.v1.Health/";

/// Whether a request's path is one of a gRPC service.
pub(crate) fn is_call(head: &Head) -> bool {
    head.path().starts_with(TRITON) || head.path().starts_with(HEALTH)
}

/// Answers a call.
pub(crate) async fn serve(lane: &mut Lane, head: &Head, shared: &Arc<Shared>) -> Next {
    let settings = shared.settings.borrow().clone();
    let mut call = Call {
        lane,
        head,
        shared,
        settings,
        order: Order::default(),
        turn: 0,
        sent: 0,
        stalled: false,
        asked: false,
    };
    let end = call.run().await;
    let events = call.sent;
    let (ending, next) = match end {
        Ok(()) | Err(End::Told) => (Ending::Answered { events }, Next::Again),
        Err(End::Gone) => (
            Ending::ClientClosed {
                after_events: events,
            },
            Next::Gone,
        ),
        Err(End::Broken(how)) => (
            Ending::Broken {
                after_events: events,
            },
            match how {
                How::Fin => Next::Close,
                How::Rst => Next::Reset,
            },
        ),
    };
    shared.ledger.ended(lane.number, ending);
    next
}

struct Call<'a> {
    lane: &'a mut Lane,
    head: &'a Head,
    shared: &'a Arc<Shared>,
    settings: Arc<Settings>,
    order: Order,
    /// Among inference requests.
    turn: u64,
    /// Messages.
    sent: u64,
    stalled: bool,
    /// Whether a request of its stream was read.
    asked: bool,
}

/// Why a call ended before its answer did.
enum End {
    /// With the status of an error, as ordered.
    Told,
    Gone,
    Broken(How),
}

impl From<Gone> for End {
    fn from(_: Gone) -> End {
        End::Gone
    }
}

impl Call<'_> {
    async fn run(&mut self) -> Result<(), End> {
        let infers = self.head.path().ends_with("Infer");
        if infers {
            self.turn = self.shared.turn();
        }
        match self.head.header("x-sim").map(str::parse::<Order>) {
            Some(Ok(order)) => self.order = order,
            Some(Err(error)) => return self.fail(&Fault::invalid(format!("x-sim: {error}"))),
            None if infers => self.order = self.settings.order(self.turn),
            None => {}
        }
        if self.before().await? {
            return Ok(());
        }
        if let Some(method) = self.head.path().strip_prefix(HEALTH) {
            return match method {
                "Check" => self.unary(|call, _| Ok(call.serving())).await,
                "Watch" => self.watch().await,
                _ => self.unknown(),
            };
        }
        match self.head.path().strip_prefix(TRITON).unwrap_or_default() {
            "ServerLive" => self.unary(|_, _| Ok(flag(true))).await,
            "ServerReady" => self.unary(|call, _| Ok(flag(call.settings.healthy))).await,
            "ServerMetadata" => self.unary(|_, _| Ok(page::server_message())).await,
            "ModelReady" => {
                self.unary(|_, message| Ok(flag(named(message)?.is_ok())))
                    .await
            }
            "ModelMetadata" => {
                self.unary(|_, message| Ok(page::model_message(named(message)??)))
                    .await
            }
            "ModelInfer" => self.infer().await,
            "ModelStreamInfer" => self.stream().await,
            _ => self.unknown(),
        }
    }

    /// What an order puts before the answer, or instead of it; true when that was all.
    async fn before(&mut self) -> Result<bool, End> {
        let key = self.turn.to_le_bytes();
        let mut chance = generator(self.settings.seed, "wait", &key);
        let wait = self.order.wait.draw(&mut chance);
        if !wait.is_zero() {
            self.lane.until(Instant::now() + wait).await?;
        }
        match self.order.instead {
            None | Some(Instead::NotSse) => Ok(false),
            Some(Instead::Reset | Instead::Garbage | Instead::HangHead) => {
                Err(End::Broken(How::Rst))
            }
            Some(Instead::Close) => Err(End::Broken(How::Fin)),
            Some(Instead::Hang) => Err(self.lane.gone().await.into()),
            // As from a proxy that knows no gRPC.
            Some(Instead::Early(status) | Instead::Status { status, .. }) => {
                self.lane.begin(status, http::HeaderMap::new());
                self.lane.open(true)?;
                Ok(true)
            }
        }
    }

    /// Answers a call of one message with one, or with a fault.
    async fn unary(
        &mut self,
        answer: impl Fn(&Self, &[u8]) -> Result<Vec<u8>, Fault>,
    ) -> Result<(), End> {
        let message = Messages::only(self.lane).await?;
        match message.and_then(|message| answer(self, &message)) {
            Ok(message) => {
                self.message(&message).await?;
                Ok(finish(self.lane)?)
            }
            Err(fault) => self.fail(&fault),
        }
    }

    async fn infer(&mut self) -> Result<(), End> {
        let _running = self.shared.ledger.running();
        let message = Messages::only(self.lane).await?;
        let asked = message.and_then(|message| {
            let infer = Infer::read(&message)?;
            let model = Model::find(&infer.model, &infer.version)?;
            if model.decoupled() {
                let message =
                    "ModelInfer RPC doesn't support models with decoupled transaction policy";
                return Err(Fault::new(Kind::Unimplemented, message));
            }
            model.check(&infer.id, &infer.inputs)?;
            Ok((model, infer))
        });
        let (model, infer) = match asked {
            Ok(asked) => asked,
            Err(fault) => return self.fail(&fault),
        };
        let replies = Replies::new(model, &infer.inputs, &self.settings, &self.order, self.turn);
        for reply in replies {
            self.lane.until(Instant::now() + reply.wait).await?;
            match reply.said {
                Ok(outputs) => {
                    self.message(&response(model, &infer.id, &outputs, None))
                        .await?
                }
                Err(fault) => return self.fail(&fault),
            }
        }
        Ok(finish(self.lane)?)
    }

    /// Tells the health whenever it changes, until the client leaves.
    async fn watch(&mut self) -> Result<(), End> {
        if let Err(fault) = Messages::only(self.lane).await? {
            return self.fail(&fault);
        }
        let mut settings = self.shared.settings.subscribe();
        let mut told = None;
        loop {
            self.settings = settings.borrow_and_update().clone();
            if told.replace(self.settings.healthy) != Some(self.settings.healthy) {
                self.message(&self.serving()).await?;
            }
            tokio::select! {
                // The sender lives as long as the engine, which ends this task with itself.
                _ = settings.changed() => {}
                gone = self.lane.gone() => return Err(gone.into()),
            }
        }
    }

    /// A `HealthCheckResponse`: SERVING or NOT_SERVING.
    fn serving(&self) -> Vec<u8> {
        let status = if self.settings.healthy { 1 } else { 2 };
        Writer::default().number(1, status).done()
    }

    /// Sends a message, or breaks off where that is ordered.
    async fn message(&mut self, message: &[u8]) -> Result<(), End> {
        if let Some((after, length)) = self.order.stall
            && after == self.sent
            && !std::mem::replace(&mut self.stalled, true)
        {
            match length {
                Some(length) => self.lane.until(Instant::now() + length).await?,
                None => return Err(self.lane.gone().await.into()),
            }
        }
        if let Some((after, how)) = self.order.cut
            && after == self.sent
        {
            return Err(End::Broken(how));
        }
        if self.order.error == Some(self.sent) {
            self.fail(&Fault::new(Kind::Internal, "ordered: an error"))?;
            return Err(End::Told);
        }
        send(self.lane, message).await?;
        self.sent += 1;
        Ok(())
    }

    fn fail(&mut self, fault: &Fault) -> Result<(), End> {
        Ok(fail(self.lane, fault)?)
    }

    fn unknown(&mut self) -> Result<(), End> {
        // As gRPC's C++ server says it.
        self.fail(&Fault::new(Kind::Unimplemented, ""))
    }
}

/// A message with a flag as its first field.
fn flag(value: bool) -> Vec<u8> {
    Writer::default().number(1, value.into()).done()
}

/// The model that a message names by its first two fields.
fn named(message: &[u8]) -> Result<Result<Model, Fault>, Fault> {
    let (mut name, mut version) = ("", "");
    for (number, value) in fields(message)? {
        match (number, value) {
            (1, Value::Bytes(found)) => name = std::str::from_utf8(found).unwrap_or_default(),
            (2, Value::Bytes(found)) => version = std::str::from_utf8(found).unwrap_or_default(),
            _ => {}
        }
    }
    Ok(Model::find(name, version))
}

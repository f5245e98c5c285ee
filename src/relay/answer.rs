//! The answer's way to the client.
//!
//! In: an engine that has begun to answer. Out: the head, then the body by the pump that fits it, then the connection
//! back to the pool. The meter only looks on: what it makes of the bytes never changes them.

use std::time::Duration;

use greylag_filters::eye::{Asked, Eye, is_sse};
use greylag_filters::meter::{Offset, Unmetered};
use http::{Method, StatusCode};

use super::client::Client;
use super::cut::Cut;
use super::patience::{Patience, Spent};
use super::send::Sent;
use super::stop::Stop;
use super::{Worker, head, stream, tunnel, whole};
use crate::exchange::Exchange;
use crate::upstream::Call;

/// Gives the answer to the client, to its end.
pub async fn give(
    worker: &Worker,
    exchange: &mut Exchange,
    client: &mut Client,
    cut: &mut Cut,
    mut sent: Sent,
) -> Result<(), Stop> {
    let now = exchange.now();
    exchange.record.times.head = Some(now);
    exchange.record.engine_status = Some(sent.head.status.as_u16());
    let idle = now + sent.request.timeouts.idle;
    sent.patience.until(exchange.at(idle), Spent::Idle);

    if sent.head.status == StatusCode::SWITCHING_PROTOCOLS {
        let Sent {
            call,
            head,
            request,
            ..
        } = sent;
        return tunnel::carry(exchange, client, cut, call, head, &request).await;
    }
    let eye = look(worker, exchange, &sent);
    exchange.sse = is_sse(&sent.head.headers);
    exchange.is_framed = sent.call.is_framed();
    let strips = sent.request.strips_usage && exchange.sse;
    let Sent {
        mut call,
        head,
        request,
        is_complete,
        mut patience,
    } = sent;
    let out = head::to_client(head, client.head(), &request.tag, !strips);
    exchange.record.status = Some(out.status.as_u16());
    client.write_head(out, call.is_over());

    let mut flow = Flow {
        worker,
        exchange,
        client,
        cut,
        call: &mut call,
        patience: &mut patience,
        idle: request.timeouts.idle,
        read_at: now,
    };
    match eye {
        Eye::Stream(meter) => stream::pump(&mut flow, meter, strips).await?,
        Eye::Whole(meter) => whole::pump(&mut flow, Some(meter)).await?,
        Eye::Blind(_) => whole::pump(&mut flow, None).await?,
    }
    let finished = tokio::select! {
        biased;
        finished = client.finish(call.trailers()) => finished,
        () = cut.come() => return Err(Stop::Cut),
    };
    finished.map_err(|gone| Stop::left(exchange, gone))?;
    if is_complete {
        call.release(&worker.pool);
    }
    Ok(())
}

/// All that a pump moves between.
pub struct Flow<'a> {
    /// The worker.
    pub worker: &'a Worker,
    /// The exchange.
    pub exchange: &'a mut Exchange,
    /// Where the bytes go.
    pub client: &'a mut Client,
    /// The drain's end.
    pub cut: &'a mut Cut,
    /// Where they come from.
    call: &'a mut Call,
    patience: &'a mut Patience,
    // how long the engine may pause
    idle: Duration,
    /// When the last piece was read.
    pub read_at: Offset,
}

impl Flow<'_> {
    /// Waits for the next piece of the answer and adds to `out` all that has come by then, up to a bound. False: the
    /// answer is whole, and `out` has its end. What was written to the client leaves meanwhile.
    pub async fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Stop> {
        let more = tokio::select! {
            biased;
            more = self.call.read(out) => more?,
            gone = self.client.gone_early() => return Err(Stop::left(self.exchange, gone)),
            spent = self.patience.spent() => return Err(Stop::Spent(spent)),
            () = self.cut.come() => return Err(Stop::Cut),
        };
        self.read_at = self.exchange.now();
        let idle = self.exchange.at(self.read_at + self.idle);
        self.patience.until(idle, Spent::Idle);
        Ok(more)
    }

    /// Writes to the client, unless the drain ends first.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        tokio::select! {
            biased;
            written = self.client.write(bytes) => {
                written.map_err(|gone| Stop::left(self.exchange, gone))
            }
            () = self.cut.come() => Err(Stop::Cut),
        }
    }
}

fn look(worker: &Worker, exchange: &Exchange, sent: &Sent) -> Eye {
    // What is asked of the path with other methods (a browser's preflight) is no inference.
    if !exchange.record.route.is_inference() || exchange.record.method != Method::POST {
        return Eye::Blind(None);
    }
    let eye = match exchange.record.route.dialect() {
        None => Eye::Blind(Some(Unmetered::NoDialect)),
        Some(dialect) => {
            let asked = Asked {
                stream: exchange.record.stream,
                one_choice: sent.request.one_choice,
                echoes: sent.request.echoes,
                checks: sent.request.checks,
            };
            let head = (sent.head.status, &sent.head.headers);
            Eye::of(dialect, head, asked, worker.shared.longest_event())
        }
    };
    if let Eye::Blind(Some(why)) = eye {
        exchange.telemetry().unmetered(why);
    }
    eye
}

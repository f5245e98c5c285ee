//! The thread that makes spans and sends them.
//!
//! In: records. Out: batches to the collector, each tried again for a while. What the collector does not take is dropped and
//! counted, and the next batch has the same chance: a collector that is away costs memory for what waits, and no more.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

use super::sender::{self, Why};
use super::span::Maker;
use super::{Lost, Waiting, resource, ring};
use crate::config::Otlp;
use crate::record::Record;
use crate::telemetry::metrics::Exported;

/// How long what waits may take to be sent once the process ends.
pub const LAST: Duration = Duration::from_secs(2);
/// The most spans of a batch.
const BATCH: usize = 512;
/// How long the first span of a batch waits for more.
const LINGER: Duration = Duration::from_secs(1);

/// The thread's work, and what it runs on.
pub(super) struct Exporter {
    runtime: Runtime,
    work: Work,
}

struct Work {
    sender: SpanExporter,
    // why the last try failed, where the sender itself does not say it
    why: Why,
    maker: Maker,
    timeout: Duration,
    waiting: Arc<Waiting>,
    counts: Exported,
    // whether the last batch was lost, so that the log says when that changes
    is_failing: bool,
}

impl Exporter {
    /// One that sends to `url`.
    ///
    /// # Errors
    /// The runtime cannot be made, or the libraries refuse what is configured.
    pub(super) fn new(
        config: &Otlp,
        url: &str,
        waiting: Arc<Waiting>,
        counts: Exported,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let why = Why::default();
        let made = {
            let _inside = runtime.enter();
            sender::make(config, url, &why)
        };
        let mut sender =
            made.map_err(|error| io::Error::other(format!("telemetry.otlp: {error}")))?;
        sender.set_resource(&resource::of(config));
        let work = Work {
            sender,
            why,
            maker: Maker::new(config.semconv),
            timeout: config.timeout.get(),
            waiting,
            counts,
            is_failing: false,
        };
        Ok(Exporter { runtime, work })
    }

    /// Sends until it is told to end, and for at most [`LAST`] beyond that.
    pub(super) fn run(self, records: mpsc::Receiver<Arc<Record>>, end: oneshot::Receiver<()>) {
        let Exporter { runtime, mut work } = self;
        runtime.block_on(async {
            let (close, closing) = oneshot::channel();
            let inlet = Inlet {
                records,
                closing,
                is_closed: false,
            };
            let too_late = async {
                // The other side is gone only with the process.
                let _ = end.await;
                let _ = close.send(());
                tokio::time::sleep(LAST).await;
            };
            tokio::select! {
                () = work.serve(inlet) => {}
                () = too_late => {}
            }
        });
        let left = work.waiting.spans.load(Ordering::Relaxed);
        work.counts.lost(Lost::Shutdown, left);
        // A name that is still being looked up must not hold the process.
        runtime.shutdown_background();
    }
}

// Where records come from.
struct Inlet {
    records: mpsc::Receiver<Arc<Record>>,
    closing: oneshot::Receiver<()>,
    is_closed: bool,
}

impl Inlet {
    // Waits for more and adds them to a batch that has room; 0 once it is closed and empty.
    async fn more(&mut self, batch: &mut Vec<Arc<Record>>) -> usize {
        let room = BATCH - batch.len();
        tokio::select! {
            biased;
            _ = &mut self.closing, if !self.is_closed => {
                self.is_closed = true;
                self.records.close();
            }
            came = self.records.recv_many(batch, room) => return came,
        }
        self.records.recv_many(batch, room).await
    }
}

impl Work {
    async fn serve(&mut self, mut inlet: Inlet) {
        let mut batch = Vec::with_capacity(BATCH);
        while inlet.more(&mut batch).await > 0 {
            let mut linger = pin!(tokio::time::sleep(LINGER));
            while batch.len() < BATCH {
                tokio::select! {
                    came = inlet.more(&mut batch) => if came == 0 { break },
                    () = &mut linger => break,
                }
            }
            self.send(&mut batch).await;
        }
    }

    async fn send(&mut self, batch: &mut Vec<Arc<Record>>) {
        let spans = batch.iter().map(|record| self.maker.span(record)).collect();
        let sent = tokio::time::timeout(self.timeout, self.sender.export(spans)).await;
        let count = batch.len() as u64;
        let bytes = batch.iter().map(|record| ring::weight(record)).sum();
        batch.clear();
        self.waiting.give_back(count, bytes);
        let (lost, error) = match sent {
            Ok(Ok(())) => {
                self.counts.sent(count);
                self.why.take();
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(name: "greylag.spans.accepted", "the collector takes spans again");
                }
                return;
            }
            Ok(Err(error)) => (Lost::Refused, error.to_string()),
            Err(_) => (Lost::Timeout, format!("not within {:?}", self.timeout)),
        };
        let error = self.why.take().unwrap_or(error);
        self.counts.lost(lost, count);
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(
                name: "greylag.spans.refused",
                error,
                spans = count,
                "the collector took no spans: they are dropped until it does"
            );
        }
    }
}

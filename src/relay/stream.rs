//! The pump for a token stream.
//!
//! In: pieces of a stream of server-sent events, in any cutting. Out: the same bytes to the client, each as soon as it
//! is here; a meter sees every event, and its gaps go to the metrics. Where the usage event was asked for by Greylag it
//! is taken out, and only then is an incomplete last event held back until it is whole.

use greylag_filters::meter::{Fed, Meter};
use greylag_filters::usage_strip::Strip;

use super::answer::Flow;
use super::stop::Stop;
use crate::record::Timeline;
use crate::telemetry::Gaps;

/// Moves the stream to its end.
pub async fn pump(flow: &mut Flow<'_>, meter: Meter, strips: bool) -> Result<(), Stop> {
    flow.exchange.record.timeline = Timeline::with_room();
    let gaps = flow.exchange.telemetry().gaps(&flow.exchange.record);
    let mut watch = Watch {
        meter,
        gaps,
        reads: 0,
        is_due: false,
    };
    let moved = if strips {
        let strip = Strip::new(flow.worker.shared.longest_event());
        without_usage(flow, &mut watch, strip).await
    } else {
        as_it_comes(flow, &mut watch).await
    };
    flow.exchange.record.figures = Some(watch.meter.finish());
    moved
}

async fn as_it_comes(flow: &mut Flow<'_>, watch: &mut Watch) -> Result<(), Stop> {
    let mut piece = Vec::new();
    loop {
        piece.clear();
        let more = flow.next(&mut piece).await?;
        watch.see(flow, &piece);
        flow.write(&piece).await?;
        watch.time(flow).await?;
        if !more {
            return Ok(());
        }
    }
}

async fn without_usage(
    flow: &mut Flow<'_>,
    watch: &mut Watch,
    mut strip: Strip,
) -> Result<(), Stop> {
    let (mut piece, mut kept) = (Vec::new(), Vec::new());
    loop {
        piece.clear();
        kept.clear();
        let next = flow.next(&mut piece).await;
        watch.see(flow, &piece);
        strip.feed(&piece, &mut kept);
        match next {
            Ok(true) => {
                flow.write(&kept).await?;
                watch.time(flow).await?;
            }
            Ok(false) => {
                strip.finish(&mut kept);
                return flow.write(&kept).await;
            }
            // What was held back is the client's, if the engine is to blame.
            Err(stop @ Stop::Broken(_)) => {
                strip.finish(&mut kept);
                flow.write(&kept).await?;
                return Err(stop);
            }
            Err(stop) => return Err(stop),
        }
    }
}

struct Watch {
    meter: Meter,
    gaps: Gaps,
    // so many brought token events
    reads: u64,
    // whether the last of them is to be timed
    is_due: bool,
}

/// Of so many reads with token events one is timed to its end.
const TIMED: u64 = 64;

impl Watch {
    fn see(&mut self, flow: &mut Flow<'_>, piece: &[u8]) {
        let Fed { token_events, gap } = self.meter.feed(flow.read_at, piece);
        if token_events > 0 {
            let timeline = &mut flow.exchange.record.timeline;
            timeline.note(flow.read_at, token_events);
            self.gaps.note(token_events, gap);
            self.reads += 1;
            self.is_due = self.reads % TIMED == 1;
        }
    }

    // How long what was read last took to the client, if its turn has come and the client takes it at once: what a client
    // makes wait is not ours.
    async fn time(&mut self, flow: &mut Flow<'_>) -> Result<(), Stop> {
        if !std::mem::take(&mut self.is_due) {
            return Ok(());
        }
        let sent = flow.client.send_now().await;
        if sent.map_err(|gone| Stop::left(flow.exchange, gone))? {
            self.gaps.relayed(flow.exchange.now() - flow.read_at);
        }
        Ok(())
    }
}

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
    let mut watch = Watch { meter, gaps };
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
            Ok(true) => flow.write(&kept).await?,
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
}

impl Watch {
    fn see(&mut self, flow: &mut Flow<'_>, piece: &[u8]) {
        let Fed { token_events, gap } = self.meter.feed(flow.read_at, piece);
        if token_events > 0 {
            let timeline = &mut flow.exchange.record.timeline;
            timeline.note(flow.read_at, token_events);
            self.gaps.note(token_events, gap);
        }
    }
}

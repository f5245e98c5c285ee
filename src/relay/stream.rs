//! The pump for a token stream.
//!
//! In: pieces of a stream of server-sent events, in any cutting. Out: the same bytes to the client, each as soon as it
//! is here; a meter sees every event, and its gaps go to the metrics. Where the usage event was asked for by Greylag it
//! is taken out, and only then is an incomplete last event held back until it is whole.

use greylag_filters::meter::{Fed, Meter, Offset};
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
    let limit = flow.worker.shared.limits.event.bytes();
    let strip = strips.then(|| Strip::new(usize::try_from(limit).unwrap_or(usize::MAX)));
    let moved = moved(flow, &mut watch, strip).await;
    flow.exchange.record.figures = Some(watch.meter.finish());
    moved
}

async fn moved(
    flow: &mut Flow<'_>,
    watch: &mut Watch,
    mut strip: Option<Strip>,
) -> Result<(), Stop> {
    let mut piece = Vec::new();
    let mut kept = Vec::new();
    loop {
        piece.clear();
        let more = flow.next(&mut piece).await;
        // Pieces that came before the engine broke have been returned by an earlier turn.
        let more = match (more, &mut strip) {
            (Ok(more), _) => more,
            (Err(stop), None) => return Err(stop),
            (Err(stop), Some(_)) => {
                // What was held back is the client's, if the engine is to blame.
                if let (Stop::Broken(_), Some(strip)) = (&stop, strip) {
                    kept.clear();
                    strip.finish(&mut kept);
                    flow.write(&kept).await?;
                }
                return Err(stop);
            }
        };
        watch.see(flow.read_at, &piece, &mut flow.exchange.record.timeline);
        let Some(held) = &mut strip else {
            flow.write(&piece).await?;
            if more {
                continue;
            }
            return Ok(());
        };
        kept.clear();
        held.feed(&piece, &mut kept);
        if !more && let Some(strip) = strip.take() {
            strip.finish(&mut kept);
        }
        flow.write(&kept).await?;
        if !more {
            return Ok(());
        }
    }
}

struct Watch {
    meter: Meter,
    gaps: Gaps,
}

impl Watch {
    fn see(&mut self, at: Offset, piece: &[u8], timeline: &mut Timeline) {
        let Fed { token_events, gap } = self.meter.feed(at, piece);
        if token_events > 0 {
            timeline.note(at, token_events);
            self.gaps.note(token_events, gap);
        }
    }
}

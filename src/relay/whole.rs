//! The pump for an answer that is one thing: JSON, a page, a file.
//!
//! In: pieces from the engine. Out: the same bytes to the client, each piece at once. A meter, if there is one, gets to
//! see them.

use greylag_filters::meter::Meter;

use super::answer::Flow;
use super::stop::Stop;

/// Moves the answer's body to its end.
pub async fn pump(flow: &mut Flow<'_>, mut meter: Option<Meter>) -> Result<(), Stop> {
    let moved = moved(flow, &mut meter).await;
    if let Some(meter) = meter {
        flow.exchange.record.figures = Some(meter.finish());
    }
    moved
}

async fn moved(flow: &mut Flow<'_>, meter: &mut Option<Meter>) -> Result<(), Stop> {
    let mut piece = Vec::new();
    loop {
        piece.clear();
        let more = flow.next(&mut piece).await?;
        if let Some(meter) = meter {
            meter.feed(flow.read_at, &piece);
        }
        flow.write(&piece).await?;
        if !more {
            return Ok(());
        }
    }
}

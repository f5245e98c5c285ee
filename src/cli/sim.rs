//! `greylag sim`: an engine without a model, until a signal.

use std::io;

use greylag_sim::{Args, Engine};
use tokio::net::TcpListener;

use super::signals::Signals;
use super::{Exit, complain, print, runtime};

/// Serves as an engine.
pub(super) fn sim(args: &Args) -> Result<(), Exit> {
    let failed = |error: io::Error| {
        complain(&format_args!("cannot listen on {}: {error}", args.listen));
        Exit::System
    };
    runtime().map_err(failed)?.block_on(async {
        let mut signals = Signals::catch().map_err(failed)?;
        let listener = TcpListener::bind(args.listen).await.map_err(failed)?;
        let engine = Engine::serve(listener, args.settings())
            .await
            .map_err(failed)?;
        print(&format!("an engine is at http://{}", engine.address()))?;
        signals.next().await;
        engine.stop().await;
        Ok(())
    })
}

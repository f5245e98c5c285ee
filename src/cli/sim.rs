//! `greylag sim`: an engine without a model, until a signal.

use std::io;
use std::net::SocketAddr;

use greylag_sim::{Args, Door, Engine};
use tokio::net::TcpListener;

use super::signals::Signals;
use super::{Exit, complain, print, runtime};

/// Serves as an engine.
pub(super) fn sim(args: &Args) -> Result<(), Exit> {
    let failed = |error| unheard(args.listen, &error);
    runtime().map_err(failed)?.block_on(async {
        let mut signals = Signals::catch().map_err(failed)?;
        let listener = TcpListener::bind(args.listen).await.map_err(failed)?;
        let engine = Engine::serve(listener, args.settings())
            .await
            .map_err(failed)?;
        print(&format!("an engine is at http://{}", engine.address()))?;
        if let Some(address) = args.http2 {
            let failed = |error| unheard(address, &error);
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            let address = engine.open_on(listener, Door::http2()).map_err(failed)?;
            print(&format!("it speaks HTTP/2 at http://{address}"))?;
        }
        signals.next(|| {}).await;
        engine.stop().await;
        Ok(())
    })
}

/// An address that cannot be listened on.
fn unheard(address: SocketAddr, error: &io::Error) -> Exit {
    complain(&format_args!("cannot listen on {address}: {error}"));
    Exit::System
}

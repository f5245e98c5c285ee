//! Greylag's command line.

use std::path::Path;

use greylag::app::App;
use greylag::config::Config;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let file = std::env::args().nth(1).expect("a file");
    let config = Config::load(Path::new(&file)).unwrap_or_else(|fault| panic!("{fault}"));
    let app = App::start(config).unwrap_or_else(|fault| panic!("{fault}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
            .expect("signal");
        term.recv().await;
    });
    let cut = app.stop();
    eprintln!("cut {cut}");
}

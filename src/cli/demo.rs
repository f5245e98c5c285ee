//! `greylag demo`: the main job in a minute, on two simulated engines.
//!
//! In: for how long. Out: a table of what Greylag measures while a split moves from 90/10 to 50/50, and a summary.
//! Everything runs in this process on loopback, with ports that the system chooses.

mod table;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use greylag_sim::{Engine, Load, Settings};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::api::{Api, Ask, Fault};
use super::period::between;
use super::runtime;
use crate::app::App;
use crate::config::Config;
use table::Table;

/// What `greylag demo` is told.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How long it runs, such as 60s; 4s to 1h.
    #[arg(long = "for", default_value = "60s", value_parser = length)]
    length: Duration,
}

fn length(text: &str) -> Result<Duration, String> {
    between(text, Duration::from_secs(4)..=Duration::from_secs(3600))
}

/// Runs the demo.
///
/// # Errors
/// A sentence that says which part of it could not be done.
pub fn run(args: &Args) -> Result<(), String> {
    let runtime = runtime().map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(show(args.length))
}

async fn show(length: Duration) -> Result<(), String> {
    let engine = |settings: Settings| async {
        let started = Engine::start(settings).await;
        started.map_err(|error| format!("no simulated engine: {error}"))
    };
    let stable = engine(settings(1, "lognormal:60ms,160ms", "lognormal:12ms,30ms")).await?;
    let candidate = engine(settings(2, "lognormal:110ms,300ms", "lognormal:20ms,50ms")).await?;
    let config = config(&stable, &candidate)?;
    let app = App::start(config).map_err(|error| format!("Greylag did not start: {error}"))?;
    let client = *app.addresses.first().ok_or("Greylag has no address")?;
    introduce(&app, client);

    // So many that the last one goes out when the time is over; those under way are then waited for.
    let load = Load {
        connections: 32,
        rate: Some(f64::from(RATE)),
        requests: length.as_secs() * u64::from(RATE),
        time: length + Duration::from_secs(30),
        users: 200,
        model: MODEL.into(),
        ..Load::to(client)
    };
    let loading = load.start();
    let start = Instant::now();
    let mut table = Table::new(io::stdout().is_terminal(), length);
    let mut moved = false;
    let mut tick = start;
    while tick < start + length {
        tick += Duration::from_secs(1);
        sleep_until(tick).await;
        if !moved && start.elapsed() >= length / 2 {
            table.end();
            move_split(&app).await?;
            table = Table::new(io::stdout().is_terminal(), length);
            moved = true;
        }
        table.draw(&app.shared, start.elapsed());
    }
    let counts = loading.done().await;
    table.finish(&app.shared, start.elapsed());
    say(&format!(
        "\nIn {} {} requests were sent: {} answered well, {} refused, {} failed or cut, {} unanswered.",
        humantime::format_duration(length),
        counts.sent,
        counts.ok,
        counts.refused.values().sum::<u64>(),
        counts.errors + counts.truncated,
        counts.unanswered,
    ));
    say("The split moved while streams ran; every exchange kept the rules it had begun with:");
    say(&table::by_version(&app.shared));
    let cut = tokio::task::spawn_blocking(move || app.stop())
        .await
        .map_err(|error| format!("Greylag did not stop: {error}"))?;
    stable.stop().await;
    candidate.stop().await;
    if cut > 0 {
        return Err(format!("{cut} connections had to be cut at the end"));
    }
    Ok(())
}

const MODEL: &str = "tiny";
/// Requests a second.
const RATE: u32 = 12;

fn settings(seed: u64, ttft: &str, inter_token: &str) -> Settings {
    Settings {
        model: MODEL.into(),
        seed,
        ttft: ttft.parse().expect("the delays above are well-formed"),
        inter_token: inter_token
            .parse()
            .expect("the delays above are well-formed"),
        tokens: "20..60".parse().expect("a range of tokens is well-formed"),
        ..Settings::default()
    }
}

fn config(stable: &Engine, candidate: &Engine) -> Result<Config, String> {
    let text = json!({
        "listen": [{ "address": "127.0.0.1:0" }],
        "admin": { "address": "127.0.0.1:0" },
        "observe": { "address": "127.0.0.1:0" },
        "telemetry": { "log": { "format": "off" } },
        "limits": { "drain_wait": "0s", "drain": "5s", "ring": "64MiB" },
        "rules": rules(&stable.address().to_string(), &candidate.address().to_string()),
    });
    Config::read(&text.to_string(), "demo").map_err(|fault| fault.to_string())
}

fn rules(stable: &str, candidate: &str) -> serde_json::Value {
    json!({
        "engines": {
            "stable": { "kind": "vllm", "url": format!("http://{stable}"), "usage": "inject" },
            "candidate": { "kind": "vllm", "url": format!("http://{candidate}"), "tag": "v2-canary", "usage": "inject" },
        },
        "default_engine": "stable",
        "splits": [{
            "name": "canary",
            "weights": { "stable": 90, "candidate": 10 },
            "sticky": [{ "header": "x-user-id" }],
        }],
    })
}

fn introduce(app: &App, client: std::net::SocketAddr) {
    say(&format!(
        "Greylag splits 90/10 between two simulated vLLM engines; the candidate is the slower one.\n\
         Half-way the split moves to 50/50. While it runs, try in another terminal:\n\n\
         curl -N http://{client}/v1/chat/completions -H 'content-type: application/json' \\\n  \
         -d '{{\"model\":\"{MODEL}\",\"messages\":[{{\"role\":\"user\",\"content\":\"hi\"}}],\"stream\":true}}'\n\
         curl 'http://{}/v1/exchanges?limit=1'\n\
         curl http://{}/metrics\n",
        app.admin, app.observe
    ));
}

// Moves the split as a release engineer would: by the admin API, on the condition that nobody else has moved it.
async fn move_split(app: &App) -> Result<(), String> {
    let api = Api::at(app.admin);
    let told = |fault: Fault| fault.to_string();
    let current = api.get("/v1/rules").await.map_err(told)?;
    let tag = current
        .header("etag")
        .and_then(|tag| tag.parse().ok())
        .ok_or("the rules came without an ETag")?;
    let mut rules: serde_json::Value = current.json()?;
    rules["splits"][0]["weights"] = json!({ "stable": 50, "candidate": 50 });
    let put = Ask::put("/v1/rules", rules.to_string()).expecting(Some(&tag));
    let put = api.ask(put).await.map_err(told)?;
    if put.status != 200 {
        return Err(format!(
            "PUT /v1/rules was answered {}: {}",
            put.status,
            put.text()
        ));
    }
    say("\nPUT /v1/rules: the split is now 50/50; users who were on the candidate stay there.\n");
    Ok(())
}

// A closed terminal must not end the demo in the middle; its exit code tells how it went.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

//! A process that is killed while it writes what was set: the next one finds it, or what was before.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::admin::get;
use crate::commands::{File, Running};
use crate::harness::longer;
use crate::layers::Pod;
use crate::talk::comes_true;

/// So often; `KILLS=200` for the long run.
const USUAL: u64 = 20;

fn rules(number: u64) -> Value {
    json!({
        "engines": { "stable": { "kind": "vllm", "url": "http://127.0.0.1:9", "set": { "number": number } } },
        "default_engine": "stable",
    })
}

fn number(rules: &Value) -> u64 {
    rules["engines"]["stable"]["set"]["number"]
        .as_u64()
        .unwrap()
}

// Puts rules, one after the other, until nobody answers.
fn write(admin: SocketAddr, sent: &AtomicU64, acknowledged: &AtomicU64) -> std::io::Result<()> {
    let mut socket = TcpStream::connect(admin)?;
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    loop {
        let number = sent.fetch_add(1, Ordering::SeqCst) + 1;
        let body = rules(number).to_string();
        let head = format!(
            "PUT /v1/rules HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        socket.write_all((head + &body).as_bytes())?;
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        // Its body is JSON without a blank line, and ends with the last brace.
        while !(answer.starts_with(b"HTTP/1.1 200") && answer.ends_with(b"\"saved\":true}")) {
            match socket.read(&mut piece)? {
                0 => return Ok(()),
                read => answer.extend_from_slice(&piece[..read]),
            }
        }
        acknowledged.store(number, Ordering::SeqCst);
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    let kills = longer("KILLS", USUAL);
    let pod = Pod::new();
    let file = File::new(&format!(
        "listen: [{{ address: \"127.0.0.1:0\" }}]\nadmin: {{ address: \"127.0.0.1:0\" }}\nobserve: {{ address: \"127.0.0.1:0\" }}\n\
         telemetry: {{ log: {{ format: off }} }}\nstate_file: {}\nrules: {}\n",
        pod.state().display(),
        rules(0)
    ));
    let (sent, acknowledged) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut version = 0;
    for kill in 0..kills {
        let mut running = Running::start(&file);
        let admin = running.address("the admin API is here");
        let told = running.line("rules in force");
        let status = get(admin, "/v1/status").json();
        let found = number(&get(admin, "/v1/rules").json());
        let (least, most) = (
            acknowledged.load(Ordering::SeqCst),
            sent.load(Ordering::SeqCst),
        );
        // What was sent and not acknowledged may have been written; a state that was torn would be told of.
        assert!(
            (least..=most).contains(&found),
            "kill {kill}: {least} <= {found} <= {most}: {told}"
        );
        let now = status["rules"]["version"].as_u64().unwrap();
        assert!(now > version, "kill {kill}: version {now} after {version}");
        version = now;
        let writer = std::thread::spawn({
            let (sent, acknowledged) = (sent.clone(), acknowledged.clone());
            move || {
                // The kill shows as an error, or as an end.
                let _ = write(admin, &sent, &acknowledged);
            }
        });
        // At the first acknowledgement, and then at some point of one of the next writes.
        assert!(comes_true(|| acknowledged.load(Ordering::SeqCst) > found));
        let moment = (kill * 7919) % 5000;
        std::thread::sleep(Duration::from_micros(moment));
        running.signal("KILL");
        assert_eq!(running.end().0, None);
        writer.join().unwrap();
    }
    assert!(acknowledged.load(Ordering::SeqCst) >= kills);
}

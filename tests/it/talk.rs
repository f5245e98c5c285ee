//! One question after the other, for tests that have nothing to do meanwhile.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::net::SocketAddr;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::harness::{Answer, Client};

/// A client whose every call waits for its end.
pub struct Talk {
    runtime: Runtime,
    client: Client,
}

impl Talk {
    pub fn with(address: SocketAddr) -> Talk {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(Client::to(address));
        Talk { runtime, client }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.runtime.block_on(self.client.send(bytes));
    }

    pub fn answer(&mut self) -> Answer {
        self.runtime.block_on(self.client.answer())
    }

    /// Sends a request to `localhost` with a body and reads the answer; of one to HEAD only the head. `fields` are
    /// lines without their ends.
    pub fn ask(&mut self, method: &str, target: &str, fields: &[&str], body: &str) -> Answer {
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        self.send(format!(
            "{method} {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n{fields}\r\n{body}",
            body.len()
        ));
        match method {
            "HEAD" => self.runtime.block_on(self.client.head()),
            _ => self.answer(),
        }
    }
}

/// One question over a connection of its own.
pub fn ask(address: SocketAddr, method: &str, target: &str, fields: &[&str], body: &str) -> Answer {
    Talk::with(address).ask(method, target, fields, body)
}

/// Waits until something holds; false when it has not for ten seconds.
pub fn comes_true(mut holds: impl FnMut() -> bool) -> bool {
    const STEP: Duration = Duration::from_millis(10);
    (0..1000).any(|_| {
        let holds = holds();
        if !holds {
            std::thread::sleep(STEP);
        }
        holds
    })
}

//! An API that says one thing, whatever is asked.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

/// A listener whose thread ends with the test's process.
pub struct Fake {
    /// Where it is.
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    /// Answers with this status and JSON.
    pub fn answering(status: u16, json: &str) -> Fake {
        let length = json.len();
        Fake::saying(&format!(
            "HTTP/1.1 {status} Fake\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{json}"
        ))
    }

    /// Says this and closes.
    pub fn saying(text: &str) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (text, told) = (text.to_owned(), asked.clone());
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                let mut bytes = [0; 4096];
                let length = socket.read(&mut bytes).unwrap_or_default();
                let head = String::from_utf8_lossy(&bytes[..length]).into_owned();
                told.lock().unwrap().push(head);
                // Whoever has left hears nothing.
                let _ = socket.write_all(text.as_bytes());
            }
        });
        Fake { address, asked }
    }

    /// What it was asked so far: what came first on each connection.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

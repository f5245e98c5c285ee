//! An API that says what a test has it say.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
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
        Fake::saying(&answer(status, json))
    }

    /// Says this and closes.
    pub fn saying(text: &str) -> Fake {
        let text = text.to_owned();
        Fake::by(move |_| text.clone())
    }

    /// Says to each head of a request what this makes of it, and closes.
    pub fn by(mut told: impl FnMut(&str) -> String + Send + 'static) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let heads = asked.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                let head = head(&socket);
                let text = told(&head);
                heads.lock().unwrap().push(head);
                // Whoever has left hears nothing.
                let _ = socket.write_all(text.as_bytes());
            }
        });
        Fake { address, asked }
    }

    /// The heads of what it was asked so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

// A head. The body is read too, since a connection that is closed before would be reset.
fn head(socket: &TcpStream) -> String {
    let mut reader = BufReader::new(socket);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or_default() == 0 {
            return head;
        }
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.parse().unwrap());
    let _ = reader.read_exact(&mut vec![0; length]);
    head
}

/// An answer of this status and JSON, whose entity tag is `"1-1"`.
pub fn answer(status: u16, json: &str) -> String {
    let length = json.len();
    format!(
        "HTTP/1.1 {status} Fake\r\ncontent-type: application/json\r\netag: \"1-1\"\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{json}"
    )
}

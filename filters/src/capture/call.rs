//! The inference calls of a gRPC session of NVIDIA's client with Triton.
//!
//! In: its HTTP/2 frames, a line each. Out: each call with its bodies as they were cut into DATA frames, in both ways.

use crate::meter::Offset;

/// One call of the session.
pub(crate) struct Call {
    pub(crate) path: String,
    /// Its DATA frames in order.
    pub(crate) frames: Vec<Frame>,
    /// `grpc-status` at its end.
    pub(crate) status: String,
}

/// What one DATA frame carried.
pub(crate) struct Frame {
    pub(crate) from_client: bool,
    /// When it passed, since the session began.
    pub(crate) at: Offset,
    pub(crate) bytes: Vec<u8>,
}

impl Call {
    /// The body of the request.
    pub(crate) fn sent(&self) -> Vec<u8> {
        self.body(true)
    }

    /// The body of the answer.
    pub(crate) fn received(&self) -> Vec<u8> {
        self.body(false)
    }

    fn body(&self, from_client: bool) -> Vec<u8> {
        let frames = self.frames.iter();
        frames
            .filter(|frame| frame.from_client == from_client)
            .flat_map(|frame| frame.bytes.clone())
            .collect()
    }
}

/// The calls of the recorded session that ask for inference, in order.
pub(crate) fn calls() -> Vec<Call> {
    let lines = super::text("triton/grpc.frames.jsonl");
    let mut calls: Vec<(u64, Call)> = Vec::new();
    for line in lines.lines() {
        let frame: serde_json::Value = serde_json::from_str(line).expect("a frame in JSON");
        let Some(stream) = frame["stream"].as_u64() else {
            continue;
        };
        let field = |name: &str| {
            let fields = frame["headers"].as_array()?.iter();
            let mut fields = fields.filter(|field| field[0] == name);
            fields.next()?[1].as_str().map(str::to_owned)
        };
        if let Some(path) = field(":path") {
            let call = Call {
                path,
                frames: Vec::new(),
                status: String::new(),
            };
            calls.push((stream, call));
        }
        let Some((_, call)) = calls.iter_mut().find(|(of, _)| *of == stream) else {
            continue;
        };
        if let Some(status) = field("grpc-status") {
            call.status = status;
        }
        if frame["frame"] == "DATA" {
            call.frames.push(Frame {
                from_client: frame["dir"] == "client->server",
                at: Offset::from_nanos(frame["t_ns"].as_u64().expect("a time")),
                bytes: frame["hex"].as_str().map(unhex).unwrap_or_default(),
            });
        }
    }
    calls
        .into_iter()
        .map(|(_, call)| call)
        .filter(|call| crate::route::Route::of(&call.path).is_inference())
        .collect()
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).expect("ASCII");
            u8::from_str_radix(pair, 16).expect("two hex digits")
        })
        .collect()
}

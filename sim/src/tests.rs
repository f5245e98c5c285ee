//! The engine as its clients meet it: real sockets on ports of the kernel's choice.
//!
//! Every wait has a deadline of [`DEADLINE`], far longer than anything here takes; nothing sleeps and hopes.

use std::time::Duration;

mod client;
mod closes;
mod frames;
mod grpc;
mod http;
mod http2;
mod http2_client;
mod misbehaves;
mod scripts;
mod shape;
mod sigterm;
mod tls;
mod triton;
mod tunnel;

const DEADLINE: Duration = Duration::from_secs(20);

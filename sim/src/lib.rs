//! An inference engine that behaves, or misbehaves, on demand: the wire formats of vLLM and Triton without a model.
//!
//! In: requests over HTTP/1.1 or HTTP/2, and settings or an `x-sim` header that say how to answer them. Out: answers byte
//! for byte like theirs, and a record of what clients did. No HTTP framework: the bytes, cuts, pauses and resets on the
//! wire are the product. No chance that is not drawn from the seed, and no clock in any byte: equal runs give equal bytes.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use greylag_sim::{Engine, Settings};
//! let engine = Engine::start(Settings { ttft: "50ms".parse().unwrap(), ..Settings::default() }).await.unwrap();
//! println!("an engine is at http://{}", engine.address());
//! engine.stop().await;
//! # });
//! ```
#![forbid(unsafe_code)]

mod args;
mod body;
mod call;
mod carrier;
pub mod certs;
mod chance;
mod delay;
mod door;
mod engine;
mod events;
mod exchange;
mod frames;
mod http;
mod http2;
pub mod load;
pub mod order;
mod page;
mod queue;
mod refuse;
mod request;
mod script;
pub mod seen;
mod settings;
mod sigterm;
mod socket;
mod story;
mod stream;
mod tally;
mod tls;
mod tokens;
mod triton;
mod vllm;
mod wire;

pub use args::Args;
pub use delay::{Delay, DelayError, LONGEST};
pub use door::{Door, Speaks, Windows};
pub use engine::Engine;
pub use frames::{Act, Fields, Frames, fields};
pub use load::Load;
pub use order::Order;
pub use refuse::{Refusing, refusing_address};
pub use script::{Cuts, Script, Step};
pub use seen::{Ended, Ending, Seen, Stream};
pub use settings::{Misbehaviour, MisbehaviourError, Settings, When};
pub use sigterm::Sigterm;
pub use tls::{Handshake, Tls, TlsError};
pub use tokens::{Tokens, TokensError};
pub use triton::{WordsRequest, grpc_messages};

#[cfg(test)]
mod tests;

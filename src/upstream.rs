//! From an engine's name to a connection, and the exchange of bytes on it.
//!
//! In: a compiled engine and a request. Out: an answer, piece by piece, or what broke and whose fault it was.
//! A connection goes back to the pool only after a complete answer; dropping a [`Call`] closes its connection, which is
//! how an engine learns that nobody waits any more.

pub mod addresses;
pub mod answer;
pub mod call;
pub mod h1;
pub mod h2;
pub mod key;
pub mod link;
pub mod pool;
pub mod probe;
pub mod standing;
pub mod target;
pub mod watch;

pub use call::{Broken, Call, Limits, Reach, Untouched};
pub use key::ApiKey;
pub use pool::{Pool, Pools};
pub use target::{Speaks, Target, UnderWay};

//! All integration tests, in one binary: a module a subject, real sockets on ports that the system picks; and the house
//! rules, read from the repository's own files.

#[path = "it/access_log.rs"]
mod access_log;
#[path = "it/admin.rs"]
mod admin;
#[path = "it/answers.rs"]
mod answers;
#[path = "it/bad_engines.rs"]
mod bad_engines;
#[path = "it/bad_framing.rs"]
mod bad_framing;
#[path = "it/bad_requests.rs"]
mod bad_requests;
#[path = "it/basics.rs"]
mod basics;
#[path = "it/bodies.rs"]
mod bodies;
#[path = "it/certs.rs"]
mod certs;
#[path = "it/churn.rs"]
mod churn;
#[path = "it/client.rs"]
mod client;
#[path = "it/collector.rs"]
mod collector;
#[path = "it/commands.rs"]
mod commands;
#[path = "it/contention.rs"]
mod contention;
#[path = "it/ctl.rs"]
mod ctl;
#[path = "it/disk.rs"]
mod disk;
#[path = "it/drain.rs"]
mod drain;
#[path = "it/engines.rs"]
mod engines;
#[path = "it/exchanges.rs"]
mod exchanges;
#[path = "it/feedback.rs"]
mod feedback;
#[path = "it/figures.rs"]
mod figures;
#[path = "it/forwarded.rs"]
mod forwarded;
#[path = "it/frames.rs"]
mod frames;
#[path = "it/gate.rs"]
mod gate;
#[path = "it/grpc.rs"]
mod grpc;
#[path = "it/guard.rs"]
mod guard;
#[path = "it/h2.rs"]
mod h2;
#[path = "it/hand.rs"]
mod hand;
#[path = "it/harness.rs"]
mod harness;
#[path = "it/health.rs"]
mod health;
#[path = "it/hops.rs"]
mod hops;
#[path = "it/http2.rs"]
mod http2;
#[path = "it/identity.rs"]
mod identity;
#[path = "it/image.rs"]
mod image;
#[path = "it/injection.rs"]
mod injection;
#[path = "it/killed.rs"]
mod killed;
#[path = "it/kubernetes.rs"]
mod kubernetes;
#[path = "it/layers.rs"]
mod layers;
#[path = "it/leaving.rs"]
mod leaving;
#[path = "it/limits.rs"]
mod limits;
#[path = "it/marks.rs"]
mod marks;
#[path = "it/meter.rs"]
mod meter;
#[path = "it/nouns.rs"]
mod nouns;
#[path = "it/observe.rs"]
mod observe;
#[path = "it/pairs.rs"]
mod pairs;
#[path = "it/payload.rs"]
mod payload;
#[path = "it/pool.rs"]
mod pool;
#[path = "it/promtool.rs"]
mod promtool;
#[path = "it/proxy_protocol.rs"]
mod proxy_protocol;
#[path = "it/readme.rs"]
mod readme;
#[path = "it/recorded.rs"]
mod recorded;
#[path = "it/recorded_calls.rs"]
mod recorded_calls;
#[path = "it/resets.rs"]
mod resets;
#[path = "it/retry.rs"]
mod retry;
#[path = "it/samples.rs"]
mod samples;
#[path = "it/sequences.rs"]
mod sequences;
#[path = "it/spans.rs"]
mod spans;
#[path = "it/talk.rs"]
mod talk;
#[path = "it/tidy.rs"]
mod tidy;
#[path = "it/tls.rs"]
mod tls;
#[path = "it/triton.rs"]
mod triton;
#[path = "it/tunnel.rs"]
mod tunnel;
#[path = "it/unheard.rs"]
mod unheard;
#[path = "it/unix.rs"]
mod unix;
#[path = "it/uploads.rs"]
mod uploads;
#[path = "it/whole_calls.rs"]
mod whole_calls;
#[path = "it/workers.rs"]
mod workers;

//! Collectors for the tests: real receivers of OTLP, over gRPC (tonic) and over HTTP, which may misbehave.

use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::codec::CompressionEncoding;
use tonic::{Request, Response, Status};

use crate::certs::{Authority, Pair};
use crate::harness::Client;

/// What a collector does with what it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It takes it.
    Takes,
    /// It says that it cannot: UNAVAILABLE, or 503.
    Refuses,
    /// It never answers.
    Hangs,
    /// It takes its time.
    IsSlow,
}

/// How long a slow one thinks.
const SLOW: Duration = Duration::from_millis(300);

/// A running collector; gone when it is dropped.
pub struct Collector {
    address: SocketAddr,
    protocol: &'static str,
    got: Got,
    manner: Ways,
    task: JoinHandle<()>,
}

type Ways = Arc<Mutex<Manner>>;

type Got = Arc<Mutex<Vec<Batch>>>;

/// What came in one request.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The fields of its head, a line each.
    pub head: String,
    /// What it said.
    pub request: ExportTraceServiceRequest,
}

impl Collector {
    /// One that speaks `grpc` or `http`.
    pub async fn start(protocol: &'static str, manner: Manner) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (got, manner) = (Got::default(), Arc::new(Mutex::new(manner)));
        let task = match protocol {
            "grpc" => tokio::spawn(serve_grpc(listener, manner.clone(), got.clone())),
            _ => tokio::spawn(serve_http(listener, manner.clone(), got.clone())),
        };
        Collector {
            address,
            protocol,
            got,
            manner,
            task,
        }
    }

    /// It behaves otherwise from now on.
    pub fn turns(&self, manner: Manner) {
        *self.manner.lock().expect("nobody panicked with it") = manner;
    }

    /// The static keys that send spans here, with more of `otlp`.
    pub fn keys(&self, more: &str) -> String {
        let (address, protocol) = (self.address, self.protocol);
        format!(
            "telemetry: {{ log: {{ format: off }}, otlp: {{ endpoint: \"http://{address}\", protocol: {protocol}, {more} }} }}"
        )
    }

    /// The same behind TLS: a door that shows this certificate, and asks for one of the authority's.
    pub async fn keys_behind_tls(&self, authority: &Authority, pair: &Pair) -> String {
        let alpn = match self.protocol {
            "grpc" => "h2",
            _ => "http/1.1",
        };
        let acceptor = TlsAcceptor::from(pair.server(Some(authority), &[alpn]));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let door = listener.local_addr().expect("it is bound");
        let inside = self.address;
        // It ends with the test's runtime.
        tokio::spawn(async move {
            while let Ok((outer, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut outer) = acceptor.accept(outer).await else {
                        return;
                    };
                    let mut inner = TcpStream::connect(inside).await.expect("it listens");
                    let _ = copy_bidirectional(&mut outer, &mut inner).await;
                });
            }
        });
        let (protocol, ca) = (self.protocol, authority.file());
        format!(
            "telemetry: {{ log: {{ format: off }}, otlp: {{ endpoint: \"https://localhost:{}\", protocol: {protocol}, tls: {{ ca: {ca:?}, cert: {:?}, key: {:?} }} }} }}",
            door.port(),
            pair.cert,
            pair.key
        )
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All batches so far.
    pub fn batches(&self) -> Vec<Batch> {
        self.got.lock().expect("nobody panicked with it").clone()
    }

    /// All spans so far.
    pub fn spans(&self) -> Vec<Span> {
        let batches = self.batches().into_iter();
        let resources = batches.flat_map(|batch| batch.request.resource_spans);
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    /// What the sender says of itself.
    pub fn resource(&self, name: &str) -> Option<String> {
        let batch = self.batches().pop()?;
        let resource = batch.request.resource_spans.into_iter().next()?.resource?;
        text(&resource.attributes, name)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The value of a span's attribute, as text.
pub fn attribute(span: &Span, name: &str) -> Option<String> {
    text(&span.attributes, name)
}

fn text(attributes: &[KeyValue], name: &str) -> Option<String> {
    let mut all = attributes.iter();
    let found = all.find(|attribute| attribute.key == name)?;
    Some(shown(found.value.as_ref()?))
}

fn shown(value: &AnyValue) -> String {
    match value.value.as_ref() {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::BoolValue(value)) => value.to_string(),
        Some(Value::IntValue(value)) => value.to_string(),
        Some(Value::DoubleValue(value)) => value.to_string(),
        Some(Value::ArrayValue(list)) => {
            let all: Vec<String> = list.values.iter().map(shown).collect();
            all.join(",")
        }
        other => format!("{other:?}"),
    }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unzipped(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = GzDecoder::new(body).read_to_end(&mut bytes);
    read.expect("gzip, as its content encoding says");
    bytes
}

// What it does with the next request; a slow one has thought by then.
async fn thought(manner: &Ways) -> Manner {
    let manner = *manner.lock().expect("nobody panicked with it");
    match manner {
        Manner::Hangs => std::future::pending().await,
        Manner::IsSlow => {
            tokio::time::sleep(SLOW).await;
            Manner::Takes
        }
        Manner::Takes | Manner::Refuses => manner,
    }
}

struct Service {
    manner: Ways,
    got: Got,
}

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        if thought(&self.manner).await == Manner::Refuses {
            return Err(Status::unavailable("not now"));
        }
        let (metadata, _, request) = request.into_parts();
        let head = format!("{metadata:?}");
        let mut got = self.got.lock().expect("nobody panicked with it");
        got.push(Batch { head, request });
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

async fn serve_grpc(listener: TcpListener, manner: Ways, got: Got) {
    let service = TraceServiceServer::new(Service { manner, got })
        .accept_compressed(CompressionEncoding::Gzip);
    let served = tonic::transport::Server::builder()
        .add_service(service)
        .serve_with_incoming(TcpListenerStream::new(listener));
    // It ends with the test.
    let _ = served.await;
}

async fn serve_http(listener: TcpListener, manner: Ways, got: Got) {
    while let Ok((socket, _)) = listener.accept().await {
        let (got, manner) = (got.clone(), manner.clone());
        tokio::spawn(async move {
            let mut client = Client::on(socket);
            while client.more().await {
                let asked = client.request().await;
                let takes = thought(&manner).await == Manner::Takes;
                if takes {
                    let body = match asked.all("content-encoding")[..] {
                        ["gzip"] => unzipped(&asked.body),
                        _ => asked.body,
                    };
                    let request = ExportTraceServiceRequest::decode(&body[..]);
                    let request = request.expect("protobuf, as its content type says");
                    let head = asked.head;
                    let mut got = got.lock().expect("nobody panicked with it");
                    got.push(Batch { head, request });
                }
                let status = if takes { "200 OK" } else { "503 Not Now" };
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                client.send(answer).await;
            }
        });
    }
}

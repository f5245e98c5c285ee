//! What carries batches to the collector, by either protocol.
//!
//! In: the configuration. Out: OpenTelemetry's exporter, over Greylag's own connections. A failed try is tried again by the
//! exporter, at most three times; over HTTP it does not say why it failed, so that is noted here.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use greylag_filters::written::start;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use opentelemetry_otlp::{
    self as otlp, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig, WithTonicConfig,
};
use parking_lot::Mutex;
use tonic::metadata::MetadataMap;
use tonic::transport::Endpoint;

use super::connector::Connector;
use crate::config::{Compression, Otlp, OtlpProtocol};

/// Why the last try failed.
#[derive(Debug, Default, Clone)]
pub(super) struct Why(Arc<Mutex<Option<String>>>);

impl Why {
    /// The reason, once.
    pub(super) fn take(&self) -> Option<String> {
        self.0.lock().take()
    }

    // An error and what it came of, which is where the reason stands.
    fn note(&self, error: &(dyn Error + 'static)) {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        *self.0.lock() = Some(text);
    }
}

/// The exporter that sends to `url`; it must be made within a runtime.
///
/// # Errors
/// What the libraries do not take.
pub(super) fn make(config: &Otlp, url: &str, why: &Why) -> Result<SpanExporter, String> {
    match config.protocol {
        OtlpProtocol::Http => over_http(config, url, why),
        OtlpProtocol::Grpc => over_grpc(config, url),
    }
}

// Sends, and notes why that failed.
#[derive(Debug)]
struct Noting {
    client: HyperClient<Connector>,
    why: Why,
}

#[async_trait]
impl HttpClient for Noting {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.client.send_bytes(request).await;
        match &sent {
            Ok(response) if !response.status().is_success() => {
                let said = String::from_utf8_lossy(response.body());
                let text = format!("{} {}", response.status(), start(said.trim()));
                *self.why.0.lock() = Some(text.trim_end().to_owned());
            }
            Ok(_) => {}
            Err(error) => self.why.note(&**error),
        }
        sent
    }
}

fn over_http(config: &Otlp, url: &str, why: &Why) -> Result<SpanExporter, String> {
    let connector = Connector::new(&config.tls, false);
    let timeout = config.timeout.get();
    // A batch is bounded as a whole, so a single try must not end before it.
    let client = Noting {
        client: HyperClient::new(connector, timeout.saturating_mul(2), None),
        why: why.clone(),
    };
    let headers = config.headers.iter();
    let headers: HashMap<_, _> = headers
        .map(|(name, value)| (name.clone(), value.reveal().to_owned()))
        .collect();
    let mut builder = SpanExporter::builder()
        .with_http()
        .with_protocol(otlp::Protocol::HttpBinary)
        .with_endpoint(url)
        .with_timeout(timeout)
        .with_headers(headers)
        .with_http_client(client)
        .with_retry_policy(RetryPolicy::recommended());
    if config.compression == Compression::Gzip {
        builder = builder.with_compression(otlp::Compression::Gzip);
    }
    builder.build().map_err(|error| error.to_string())
}

fn over_grpc(config: &Otlp, url: &str) -> Result<SpanExporter, String> {
    let timeout = config.timeout.get();
    let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| error.to_string())?;
    let channel = endpoint.connect_with_connector_lazy(Connector::new(&config.tls, true));
    let mut headers = HeaderMap::new();
    for (name, value) in &config.headers {
        let name = name.parse::<HeaderName>();
        let value = HeaderValue::from_str(value.reveal());
        // Both were checked with the configuration.
        if let (Ok(name), Ok(mut value)) = (name, value) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
    let mut builder = SpanExporter::builder()
        .with_tonic()
        .with_timeout(timeout)
        .with_metadata(MetadataMap::from_headers(headers))
        .with_channel(channel)
        .with_retry_policy(RetryPolicy::recommended());
    if config.compression == Compression::Gzip {
        builder = builder.with_compression(otlp::Compression::Gzip);
    }
    builder.build().map_err(|error| error.to_string())
}

//! The HTTP client: follows no redirects, and limits the time and the size of every response.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use pillarbox::port::Cause;
use reqwest::redirect::Policy;
use reqwest::{Certificate, ClientBuilder, Proxy, Response, Url};

use super::answer::{Body, EndpointResponse};
use super::frames::Frames;
use super::resolver::{Resolver, Unresolved};
use super::retry_after::retry_after;
use super::text::shown;
use super::token::{Bearer, Token};
use crate::cleartext;
use crate::egress::{Blocked, Egress};
use crate::error::SinkError;
use crate::fault::{Fault, cause_of};
use crate::options::{Http2, KeepAnswers, SinkOptions};
use crate::tls::ensure_tls_provider;

/// How long an idle connection is kept open.
const IDLE: Duration = Duration::from_secs(30);
/// Maximum size of a certificate file, in bytes.
const CA_FILE_MAX: u64 = 1_048_576;

/// The HTTP client of one sink.
pub(crate) struct Client {
    http: reqwest::Client,
    token: Option<Token>,
    connect_timeout: Duration,
    timeout: Duration,
    retry_after_max: Duration,
    keep_answers: KeepAnswers,
}

/// A POST request.
pub(crate) struct Post {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Frames,
    /// Maximum bytes of the response body that are read.
    pub(crate) answer_max: usize,
}

impl Client {
    /// A client that connects only to addresses that `egress` allows, or to any address without `egress`.
    pub(crate) fn new(
        target: &Url,
        options: &SinkOptions,
        egress: Option<Arc<Egress>>,
    ) -> Result<Self, SinkError> {
        ensure_tls_provider();
        if options.token.is_some() && target.scheme() == "http" {
            cleartext::check(target.host_str(), options, "token", "https")?;
        }
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .referer(false)
            .connect_timeout(options.connect_timeout)
            .timeout(options.timeout)
            .pool_idle_timeout(IDLE)
            .user_agent(concat!("pillarbox/", env!("CARGO_PKG_VERSION")));
        if options.http2 == Http2::PriorKnowledge {
            builder = builder.http2_prior_knowledge();
        }
        if let Some(proxy) = &options.proxy {
            let bad = || SinkError::option("proxy", "is no URL of a proxy");
            let url = Url::parse(proxy.reveal()).map_err(|_| bad())?;
            if url.password().is_some() && url.scheme() != "https" {
                cleartext::check(url.host_str(), options, "password of the proxy", "a proxy with https")?;
            }
            builder = builder.proxy(Proxy::all(url).map_err(|_| bad())?);
        }
        builder = builder.dns_resolver(Resolver(egress));
        let builder = trusting(builder, options)?;
        let token = options.token.clone().map(Token::new).transpose();
        Ok(Self {
            http: builder.build().map_err(|error| {
                SinkError::option("ca-file", format!("TLS can't be set up: {}", root(&error)))
            })?,
            token: token.map_err(|reason| SinkError::option("token", reason))?,
            connect_timeout: options.connect_timeout,
            timeout: options.timeout,
            retry_after_max: options.retry_after_max,
            keep_answers: options.keep_answers,
        })
    }

    /// Posts with the token. If the endpoint refuses the token and its file contains another one by now,
    /// posts again.
    pub(crate) async fn post(&self, post: &Post) -> Result<EndpointResponse, Fault> {
        let Some(token) = &self.token else { return self.once(post, None).await };
        let bearer = token.current().await.map_err(|error| Fault::new(Cause::Unauthorized, error))?;
        let answer = self.once(post, Some(&bearer)).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        match token.another(&bearer).await {
            Some(another) => self.once(post, Some(&another)).await,
            None => Ok(answer),
        }
    }

    async fn once(&self, post: &Post, bearer: Option<&Bearer>) -> Result<EndpointResponse, Fault> {
        let mut request = self
            .http
            .post(post.url.clone())
            .headers(post.headers.clone())
            .body(post.body.clone().into_body());
        if let Some(bearer) = bearer {
            request = request.header(AUTHORIZATION, bearer.header.clone());
        }
        let secret = bearer.map(|bearer| bearer.secret.clone());
        let response = request.send().await.map_err(|error| self.unreached(&error))?;
        let status = response.status();
        let after = retry_after(response.headers(), Timestamp::now(), self.retry_after_max);
        let body = read(response, post.answer_max).await;
        Ok(EndpointResponse { status, after, body, secret, keep: self.keep_answers })
    }

    /// The reason why there is no response. It does not contain the URL, parts of which may be secret.
    fn unreached(&self, error: &reqwest::Error) -> Fault {
        if let Some(blocked) = causes(error).find_map(|cause| cause.downcast_ref::<Blocked>()) {
            return blocked.to_string().into();
        }
        let error_text = match (error.is_connect(), error.is_timeout()) {
            (true, true) => format!("could not connect in {:?}", self.connect_timeout),
            (true, false) => format!("could not connect: {}", root(error)),
            (false, true) => format!("no answer in {:?}", self.timeout),
            (false, false) => format!("the request failed: {}", root(error)),
        };
        let cause = if error.is_timeout() { Cause::Timeout } else { cause(error) };
        Fault::new(cause, error_text)
    }
}

/// Adds the certificates of the configured file to those of the system.
fn trusting(builder: ClientBuilder, options: &SinkOptions) -> Result<ClientBuilder, SinkError> {
    let Some(path) = &options.ca_file else { return Ok(builder) };
    let bad = |reason: String| SinkError::option("ca-file", reason);
    let size =
        std::fs::metadata(path).map_err(|error| bad(format!("can't be read: {}", error.kind())))?.len();
    if size > CA_FILE_MAX {
        return Err(bad(format!("has {size} bytes, and the maximum is {CA_FILE_MAX}")));
    }
    let pem = std::fs::read(path).map_err(|error| bad(format!("can't be read: {}", error.kind())))?;
    let certificates = Certificate::from_pem_bundle(&pem).unwrap_or_default();
    if certificates.is_empty() {
        return Err(bad("holds no certificate in PEM".to_owned()));
    }
    Ok(builder.tls_certs_merge(certificates))
}

/// Reads at most `max` bytes. The client's timeout ends a response that never completes.
async fn read(mut response: Response, max: usize) -> Body {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() > max => {
                bytes.extend_from_slice(&chunk[..max - bytes.len()]);
                return Body::Cut(bytes);
            }
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => return Body::Whole(bytes),
            Err(_) => return Body::Broken(bytes),
        }
    }
}

fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (**error).source()).take(16)
}

/// The class of an error that prevented a response.
fn cause(error: &reqwest::Error) -> Cause {
    let known = causes(error).find_map(|cause| {
        if cause.is::<Unresolved>() {
            return Some(Cause::Dns);
        }
        let io = cause.downcast_ref::<io::Error>()?;
        if is_tls(io) {
            return Some(Cause::Tls);
        }
        Some(cause_of(io.kind())).filter(|cause| *cause != Cause::Other)
    });
    known.unwrap_or_default()
}

/// Whether this is a TLS error. It is wrapped in an I/O error, which the connector wraps in another one.
/// Neither returns it as its `source`, so both are unwrapped here.
fn is_tls(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(|inner| inner.is::<rustls::Error>() || inner.downcast_ref().is_some_and(is_tls))
}

/// The text of the innermost cause.
fn root(error: &reqwest::Error) -> String {
    let last = causes(error).skip(1).last();
    last.map_or_else(|| "the client gave up".to_owned(), |cause| shown(&cause.to_string(), None))
}

//! A client whose credentials are renewed while it works: tokens in files rotate, and those of programs expire.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, Response, StatusCode};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::client::{AuthError, Body};
use kube::{Client, Config};
use tokio::sync::Mutex;

use super::exec::Plugin;
use crate::ui::trace::Trace;

/// How long a token that was read from a file is used without another look.
const REREAD: Duration = Duration::from_secs(60);

/// What a caller shows to the server.
#[derive(Clone, Debug, Default)]
pub(super) struct Credential {
    pub(super) bearer: Option<HeaderValue>,
    /// Certificate and key, PEM.
    pub(super) identity: Option<(String, String)>,
    /// When it is to be renewed; `None`: never.
    pub(super) until: Option<Timestamp>,
}

impl Credential {
    /// `None` for a token that cannot stand in a header.
    pub(super) fn new(
        token: Option<&str>,
        identity: Option<(String, String)>,
        until: Option<Timestamp>,
    ) -> Option<Self> {
        let bearer = match token.map(str::trim) {
            Some(token) => {
                let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        Some(Self {
            bearer,
            identity,
            until,
        })
    }
}

/// Where credentials come from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// What stands in the configuration.
    Fixed(Credential),
    /// A file that somebody replaces.
    File(PathBuf),
    /// A program.
    Plugin(Box<Plugin>),
}

impl Source {
    async fn obtain(&self) -> Result<Credential, String> {
        match self {
            Self::Fixed(credential) => Ok(credential.clone()),
            Self::File(path) => {
                let said = |cause: &dyn std::fmt::Display| format!("token file {}: {cause}", path.display());
                let token = std::fs::read_to_string(path).map_err(|error| said(&error))?;
                if token.trim().is_empty() {
                    return Err(said(&"it is empty"));
                }
                let until = Timestamp::now().checked_add(REREAD).ok();
                Credential::new(Some(&token), None, until).ok_or_else(|| said(&"it holds no token"))
            }
            Self::Plugin(plugin) => plugin.run().await,
        }
    }
}

/// A connection with credentials that are renewed when their time is up or the server does not accept them any more.
pub(super) struct Session {
    config: Config,
    source: Source,
    trace: Trace,
    current: Mutex<Current>,
}

struct Current {
    client: Client,
    credential: Credential,
    /// How often it has been renewed.
    renewed: u64,
}

impl Session {
    /// Obtains the first credential.
    ///
    /// # Errors
    /// There is none, or the configuration cannot be used.
    pub(super) async fn open(config: Config, source: Source, trace: Trace) -> Result<Self, kube::Error> {
        let credential = source.obtain().await.map_err(refused)?;
        let client = client(&config, &credential)?;
        Ok(Self {
            config,
            source,
            trace,
            current: Mutex::new(Current {
                client,
                credential,
                renewed: 0,
            }),
        })
    }

    /// Sends a request. One that is answered with 401 is sent again with renewed credentials, once.
    pub(super) async fn send(&self, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let again = match self.source {
            Source::Fixed(_) => None,
            _ => copy(&request),
        };
        let (client, bearer, renewed) = self.credentials(None).await?;
        let response = self.exchange(&client, bearer, request).await?;
        let Some(again) = again.filter(|_| response.status() == StatusCode::UNAUTHORIZED) else {
            return Ok(response);
        };
        let (client, bearer, _) = self.credentials(Some(renewed)).await?;
        self.exchange(&client, bearer, again).await
    }

    fn server(&self) -> String {
        self.config
            .cluster_url
            .to_string()
            .trim_end_matches('/')
            .to_owned()
    }

    async fn exchange(
        &self,
        client: &Client,
        bearer: Option<HeaderValue>,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, kube::Error> {
        if let Some(bearer) = bearer {
            request.headers_mut().insert(AUTHORIZATION, bearer);
        }
        let asked = self.trace.requests().then(|| {
            (
                format!("{} {}{}", request.method(), self.server(), request.uri()),
                Instant::now(),
            )
        });
        let response = client.send(request).await;
        if let Some((asked, begin)) = asked {
            let answer = match &response {
                Ok(response) => response.status().as_u16().to_string(),
                Err(_) => "no answer".to_owned(),
            };
            self.trace
                .say(&format!("{asked} {answer} in {} ms", begin.elapsed().as_millis()));
        }
        response
    }

    /// What is valid now. `refused`: the number of renewals of a credential that the server has not accepted.
    async fn credentials(
        &self,
        refused: Option<u64>,
    ) -> Result<(Client, Option<HeaderValue>, u64), kube::Error> {
        let mut current = self.current.lock().await;
        let over = current
            .credential
            .until
            .is_some_and(|until| until <= Timestamp::now());
        if over || refused == Some(current.renewed) {
            self.renew(&mut current).await?;
        }
        Ok((
            current.client.clone(),
            current.credential.bearer.clone(),
            current.renewed,
        ))
    }

    async fn renew(&self, current: &mut Current) -> Result<(), kube::Error> {
        let credential = match (self.source.obtain().await, &self.source) {
            (Ok(credential), _) => credential,
            // Some make a token available only at the start; what was read last is what there is.
            (Err(_), Source::File(_)) => Credential {
                until: Timestamp::now().checked_add(REREAD).ok(),
                ..current.credential.clone()
            },
            (Err(cause), _) => return Err(self::refused(cause)),
        };
        self.trace.note("credentials renewed");
        // A certificate belongs to the connection, a token to a request.
        if credential.identity != current.credential.identity {
            current.client = client(&self.config, &credential)?;
        }
        current.credential = credential;
        current.renewed += 1;
        Ok(())
    }
}

fn refused(cause: String) -> kube::Error {
    kube::Error::Auth(AuthError::AuthExec(cause))
}

fn client(config: &Config, credential: &Credential) -> Result<Client, kube::Error> {
    let mut config = config.clone();
    if let Some((certificate, key)) = &credential.identity {
        let user = &mut config.auth_info;
        user.client_certificate_data = Some(base64(certificate)?);
        user.client_key_data = Some(base64(key)?.into());
    }
    Client::try_from(config)
}

fn base64(text: &str) -> Result<String, kube::Error> {
    let value =
        serde_json::to_value(ByteString(text.as_bytes().to_vec())).map_err(kube::Error::SerdeError)?;
    Ok(value.as_str().unwrap_or_default().to_owned())
}

/// The same request, where its body can be sent twice.
pub(super) fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

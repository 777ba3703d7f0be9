//! A greeting page whose settings are watched, reloaded, changed and explained over HTTP.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | the page, built from settings and kept until one that it read changes |
//! | `GET /config` | every setting as JSON, secrets redacted |
//! | `GET /config/explain/{leaf}` | where the value of a leaf comes from |
//! | `POST /reload` | reads the sources again; answers once the page is built from them |
//! | `POST /config/plan` | what the settings of the body would change, and what stands against them |
//! | `POST /config/set` | sets those of the body; with `?confirm_within=30s` until then unless confirmed |
//! | `POST /config/confirm/{trial}` | keeps what was set until confirmed |
//! | `POST /config/rollback/{changes}` | takes the latest changes back |
//!
//! A body has one `LEAF=VALUE` a line. Every `POST` carries the token of the setting `admin.token`, which can itself be
//! changed while the service runs.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use kitbag::{Captured, ConfigNamespaces, Context, Errors, Leaf, Loader, Secret, Subscription, Watch};
use tokio::task::{JoinHandle, spawn_blocking};

/// How long a change waits for the page.
const PATIENCE: Duration = Duration::from_secs(5);

/// Greeting service.
#[derive(ConfigNamespaces)]
#[config(env = "GREET")]
pub struct Args {
    /// Address to listen on.
    #[config(ns = "http", default = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// What a request that changes something has to carry.
    #[config(ns = "admin", secret, hot)]
    token: Secret<String>,
    /// How often the files are looked at.
    #[config(ns = "watch", default = "500ms", range = Duration::from_millis(1)..)]
    interval: Duration,
    /// What the page says.
    #[config(ns = "page", default = "hello", hot)]
    greeting: String,
    /// How often it says so.
    #[config(ns = "page", default = 1, range = 1..=10, hot)]
    times: usize,
    /// Seconds that a browser may keep the page.
    #[config(ns = "page", default = 0, hot)]
    max_age: u32,
}

/// What handlers share.
#[derive(Clone)]
struct Shared {
    cfg: Context<Args>,
    loader: Loader<Args>,
    page: Arc<Mutex<Page>>,
}

/// A built page, and what it read.
struct Page {
    text: Arc<str>,
    captured: Captured,
}

impl Page {
    fn build(cfg: &Context<Args>) -> Self {
        let (text, captured) = cfg.capture(|now| {
            let page = now.page();
            let line = format!("{}\n", *page.greeting());
            Arc::from(line.repeat(*page.times()))
        });
        Self { text, captured }
    }
}

/// The running parts of the service; dropping it ends the watch and the page's task.
#[must_use = "files are watched, and the page follows, while this is held"]
#[derive(Debug)]
pub struct Service {
    router: Router,
    _watch: Watch,
    page_task: JoinHandle<()>,
}

impl Service {
    /// Starts what follows the settings. To be called inside a Tokio runtime.
    ///
    /// # Errors
    /// The system gives no thread for the watch.
    pub fn start(cfg: &Context<Args>, loader: &Loader<Args>) -> std::io::Result<Self> {
        let page = Arc::new(Mutex::new(Page::build(cfg)));
        let subscription = cfg.subscribe("page");
        let page_task = tokio::spawn(follow(cfg.clone(), subscription, Arc::clone(&page)));
        let watch = cfg.watch(loader.clone(), cfg.pin().watch().interval(), |report| match report {
            Ok(leaves) => eprintln!("reloaded: {}", leaves.join(", ")),
            Err(errors) => eprintln!("not reloaded: {errors}"),
        })?;
        let shared = Shared { cfg: cfg.clone(), loader: loader.clone(), page };
        let router = Router::new()
            .route("/", get(show_page))
            .route("/config", get(show_config))
            .route("/config/explain/{leaf}", get(explain))
            .route("/reload", post(reload))
            .route("/config/plan", post(plan))
            .route("/config/set", post(set))
            .route("/config/confirm/{trial}", post(confirm))
            .route("/config/rollback/{changes}", post(rollback))
            .with_state(shared);
        Ok(Self { router, _watch: watch, page_task })
    }

    /// What answers requests.
    pub fn router(&self) -> Router {
        self.router.clone()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.page_task.abort();
    }
}

/// Builds the page anew when a setting that it read has changed, and says so.
async fn follow(cfg: Context<Args>, mut subscription: Subscription<Args>, page: Arc<Mutex<Page>>) {
    while let Some(update) = subscription.next().await {
        let mut page = page.lock().unwrap_or_else(PoisonError::into_inner);
        if !page.captured.is_current(&cfg) {
            *page = Page::build(&cfg);
        }
        drop(page);
        subscription.acknowledge(&update);
    }
}

async fn show_page(State(shared): State<Shared>) -> Response {
    let text = Arc::clone(&shared.page.lock().unwrap_or_else(PoisonError::into_inner).text);
    // Not part of the page, so a change of it does not build the page anew.
    let max_age = *shared.cfg.pin().page().max_age();
    ([(header::CACHE_CONTROL, format!("max-age={max_age}"))], text.to_string()).into_response()
}

async fn show_config(State(shared): State<Shared>) -> Response {
    let values: BTreeMap<_, _> = shared.cfg.values().into_iter().collect();
    match serde_json::to_string_pretty(&values) {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn explain(State(shared): State<Shared>, Path(leaf): Path<String>) -> Response {
    match shared.cfg.explain(&leaf) {
        Ok(explanation) => explanation.to_string().into_response(),
        Err(error) => (StatusCode::NOT_FOUND, format!("{error}\n")).into_response(),
    }
}

async fn reload(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    admin(shared, &headers, |shared| {
        let changed = shared.cfg.reload(&shared.loader)?;
        Ok(applied(shared, &changed.join(", ")))
    })
    .await
}

async fn plan(State(shared): State<Shared>, headers: HeaderMap, body: String) -> Response {
    admin(shared, &headers, move |shared| {
        let plan = shared.cfg.plan_by_name("POST /config/plan", &settings(&body)?)?;
        // A change that would be refused is planned all the same.
        Ok(plan.to_string())
    })
    .await
}

async fn set(State(shared): State<Shared>, RawQuery(query): RawQuery, headers: HeaderMap, body: String) -> Response {
    admin(shared, &headers, move |shared| {
        let values = settings(&body)?;
        let Some(query) = query else {
            shared.cfg.override_by_name("POST /config/set", &values)?;
            return Ok(applied(shared, "set"));
        };
        // A slip in the parameter must not make a change that stays.
        let within = query.strip_prefix("confirm_within=").and_then(<Duration as Leaf>::from_text);
        let within = within.ok_or_else(|| Refusal::Asked("expected ?confirm_within=30s or the like".to_owned()))?;
        let trial = shared.cfg.try_by_name("POST /config/set", &values, within)?;
        let (id, leaves) = (trial.id(), trial.leaves().join(", "));
        Ok(applied(shared, &format!("{leaves}, until confirmed: POST /config/confirm/{id} within {within:?}")))
    })
    .await
}

async fn confirm(State(shared): State<Shared>, Path(trial): Path<u64>, headers: HeaderMap) -> Response {
    admin(shared, &headers, move |shared| {
        shared.cfg.confirm(trial)?;
        Ok(format!("trial {trial} stays\n"))
    })
    .await
}

async fn rollback(State(shared): State<Shared>, Path(changes): Path<usize>, headers: HeaderMap) -> Response {
    admin(shared, &headers, move |shared| {
        shared.cfg.rollback("POST /config/rollback", changes)?;
        Ok(applied(shared, &format!("{changes} changes taken back")))
    })
    .await
}

/// Why an admin's request is not done.
enum Refusal {
    /// It is no good as a request.
    Asked(String),
    /// The settings say no.
    Config(Errors),
}

impl From<Errors> for Refusal {
    fn from(errors: Errors) -> Self {
        Self::Config(errors)
    }
}

/// Runs what an admin asks for, if it is one.
async fn admin(
    shared: Shared,
    headers: &HeaderMap,
    act: impl FnOnce(&Shared) -> Result<String, Refusal> + Send + 'static,
) -> Response {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let known = given.is_some_and(|given| equal(given, shared.cfg.pin().admin().token().expose().as_bytes()));
    if !known {
        return (StatusCode::UNAUTHORIZED, "this needs the token\n").into_response();
    }
    // Reads files, asks subscribers and waits for the page: not for a thread that serves requests.
    match spawn_blocking(move || act(&shared)).await {
        Ok(Ok(text)) => text.into_response(),
        Ok(Err(Refusal::Asked(problem))) => (StatusCode::BAD_REQUEST, format!("{problem}\n")).into_response(),
        Ok(Err(Refusal::Config(errors))) => (StatusCode::CONFLICT, format!("{errors}\n")).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// Leaves and values of a body. What stands in a line is not repeated in an error: it may be a secret.
fn settings(body: &str) -> Result<Vec<(&str, &str)>, Refusal> {
    let mut settings = Vec::new();
    for (number, line) in body.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let Some((leaf, value)) = line.split_once('=') else {
            return Err(Refusal::Asked(format!("line {}: expected LEAF=VALUE", number + 1)));
        };
        settings.push((leaf.trim(), value.trim()));
    }
    if settings.is_empty() { Err(Refusal::Asked("expected LEAF=VALUE, one a line".to_owned())) } else { Ok(settings) }
}

/// Waits until the page is built from the newest epoch, and says so after what was done.
fn applied(shared: &Shared, done: &str) -> String {
    let epoch = shared.cfg.epoch();
    match shared.cfg.wait_applied(epoch, PATIENCE) {
        Ok(()) => format!("epoch {epoch}: {done}\n"),
        Err(behind) => format!("epoch {epoch}: {done}; not yet applied by {}\n", behind.join(", ")),
    }
}

/// Takes as long for a wrong token as for the right one of its length.
fn equal(one: &[u8], two: &[u8]) -> bool {
    one.len() == two.len() && one.iter().zip(two).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

//! The two questions that are asked of a hub: what files has a model, and what is in one of them?

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::time::Duration;

use serde::Deserialize;
use ureq::http::{HeaderMap, Response};
use ureq::{Agent, Body, Timeout};

use super::connection::Connection;

/// More than any list of files.
const LONGEST_LISTING: u64 = 64 << 20;

/// A hub, and who asks it.
pub struct Hub {
    connection: Connection,
    /// Made for the first question, so that what is wrong with a connection is told when it matters.
    agent: OnceCell<Agent>,
    endpoint: String,
    token: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// Asking again may help, and goes on from what has come; after so long, if the hub says.
    Passing(String, Option<Duration>),
    /// The same, and the hub did not hear the question.
    Unheard(String),
    /// Asking again does not help.
    Lasting(String),
}

/// A model at one moment.
#[derive(Debug, Deserialize)]
pub(super) struct Listing {
    /// The commit.
    #[serde(rename = "sha")]
    pub(super) commit: String,
    #[serde(rename = "siblings")]
    pub(super) files: Vec<ListedFile>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ListedFile {
    #[serde(rename = "rfilename")]
    pub(super) name: String,
    #[serde(default)]
    pub(super) size: Option<u64>,
    #[serde(default)]
    lfs: Option<LargeFile>,
}

#[derive(Debug, Deserialize)]
struct LargeFile {
    sha256: String,
}

impl ListedFile {
    /// The SHA-256 of a file that the hub keeps as a large one; it has none of the others.
    pub(super) fn sha256(&self) -> Option<&str> {
        self.lfs.as_ref().map(|lfs| lfs.sha256.as_str())
    }
}

/// A beginning of a file that is here already.
pub(super) struct Beginning<'a> {
    pub(super) bytes: u64,
    /// What the hub called the content that it is of, if it had a name for it.
    pub(super) tag: Option<&'a str>,
}

/// What a hub says to a question for a file.
pub(super) enum Answer {
    /// The file from its first byte.
    Whole(Download),
    /// What comes after the beginning.
    Rest(Download),
    /// The beginning is of another content.
    Changed,
}

/// The bytes of a file as they come.
pub(super) struct Download {
    pub(super) url: String,
    pub(super) reader: Box<dyn Read>,
    /// The length of the whole file.
    pub(super) total: Option<u64>,
    /// What the hub calls this content.
    pub(super) tag: Option<String>,
}

impl Hub {
    /// The hub at `endpoint`, an address such as `https://hub.example`; a `token` opens models that are not open to all.
    #[must_use]
    pub fn new(endpoint: &str, token: Option<&str>, connection: Connection) -> Self {
        Self {
            connection,
            agent: OnceCell::new(),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token: token.map(str::to_owned),
        }
    }

    /// How often a fetch is tried again without getting any further.
    pub(super) fn retries(&self) -> u32 {
        self.connection.retries
    }

    /// Its address.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(super) fn listing(&self, repository: &str, revision: &str) -> Result<Listing, Problem> {
        let revision = escaped(revision);
        let url = format!("{}/api/models/{repository}/revision/{revision}?blobs=true", self.endpoint);
        let mut response = self.get(&url, None)?;
        if let Some(problem) = self.refusal(&url, &response) {
            return Err(problem);
        }
        let text = response.body_mut().with_config().limit(LONGEST_LISTING).read_to_string();
        let text = text.map_err(|error| Problem::passing(format!("{url}: {}", self.explained(&error))))?;
        serde_json::from_str(&text).map_err(|error| Problem::Lasting(format!("{url} is no list of files: {error}")))
    }

    /// Asks for a file of a repository at a commit, or for what comes after a beginning of it.
    pub(super) fn download(
        &self,
        (repository, commit, file): (&str, &str, &str),
        beginning: Option<&Beginning<'_>>,
    ) -> Result<Answer, Problem> {
        let url = format!("{}/{repository}/resolve/{}/{}", self.endpoint, escaped(commit), escaped(file));
        let response = self.get(&url, beginning)?;
        let status = response.status().as_u16();
        let headers = response.headers();
        let tag = header(headers, "etag").filter(|tag| tag.starts_with('"')).map(str::to_owned);
        let (at, total) = match (status, beginning) {
            (206, Some(beginning)) => match header(headers, "content-range").and_then(content_range) {
                Some((first, total)) if first == beginning.bytes => (first, total),
                _ => return Ok(Answer::Changed),
            },
            (416, Some(_)) => return Ok(Answer::Changed),
            _ => match self.refusal(&url, &response) {
                Some(problem) => return Err(problem),
                None => (0, header(headers, "content-length").and_then(|length| length.parse().ok())),
            },
        };
        let had = beginning.and_then(|beginning| beginning.tag);
        if at > 0 && had.is_some() && tag.is_some() && had != tag.as_deref() {
            return Ok(Answer::Changed);
        }
        let download = Download { url, reader: Box::new(response.into_body().into_reader()), total, tag };
        Ok(if at > 0 { Answer::Rest(download) } else { Answer::Whole(download) })
    }

    /// Why a download breaks off.
    pub(super) fn broken_off(&self, error: &io::Error) -> String {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>()) {
            Some(inner) => self.explained(inner),
            None => error.to_string(),
        }
    }

    fn get(&self, url: &str, beginning: Option<&Beginning<'_>>) -> Result<Response<Body>, Problem> {
        let agent = match self.agent.get() {
            Some(agent) => agent,
            None => {
                let agent = self.connection.agent().map_err(Problem::Lasting)?;
                self.agent.get_or_init(|| agent)
            }
        };
        let mut request = agent.get(url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if let Some(beginning) = beginning {
            request = request.header("Range", format!("bytes={}-", beginning.bytes));
            if let Some(tag) = beginning.tag {
                request = request.header("If-Range", tag);
            }
        }
        request.call().map_err(|error| {
            let said = format!("{url}: {}", self.explained(&error));
            match error {
                ureq::Error::Io(_) | ureq::Error::Timeout(_) | ureq::Error::HostNotFound => Problem::Unheard(said),
                _ => Problem::Lasting(said),
            }
        })
    }

    /// What an answer other than 200 says.
    fn refusal(&self, url: &str, response: &Response<Body>) -> Option<Problem> {
        let said = match response.status().as_u16() {
            200 => return None,
            status @ (401 | 403) => {
                let token =
                    if self.token.is_some() { "the token given does not open it" } else { "it may need --hub-token" };
                format!("the hub refuses it (status {status}): there is no such model, or {token}")
            }
            404 => "the hub has no such model, revision or file (status 404)".to_owned(),
            status => {
                let asked = header(response.headers(), "retry-after");
                let wait = match asked {
                    Some(time) if time.bytes().all(|byte| byte.is_ascii_digit()) => {
                        format!(" and asks to wait {} s", shortened(time))
                    }
                    Some(time) => format!(" and asks to wait until {}", shortened(time)),
                    None => String::new(),
                };
                let said = format!("{url}: the hub answers with status {status}{wait}");
                return Some(if status == 429 || status >= 500 {
                    Problem::Passing(said, asked.and_then(|time| time.parse().ok()).map(Duration::from_secs))
                } else {
                    Problem::Lasting(said)
                });
            }
        };
        Some(Problem::Lasting(format!("{url}: {said}")))
    }

    /// An error in the words of this program where the library has its own.
    fn explained(&self, error: &ureq::Error) -> String {
        match error {
            ureq::Error::Timeout(Timeout::Connect) => {
                format!("no connection for {}", seconds(self.connection.stall_timeout))
            }
            ureq::Error::Timeout(_) => {
                format!("nothing came for {} (--hub-stall-timeout)", seconds(self.connection.stall_timeout))
            }
            // This is what TLS makes of a certificate that it does not trust.
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                format!("{error}; --hub-ca-file or SSL_CERT_FILE names a file of certificates to trust")
            }
            ureq::Error::Io(error) => error.to_string(),
            other => other.to_string(),
        }
    }
}

impl Problem {
    /// A problem that may have passed at any time.
    pub(super) fn passing(text: String) -> Self {
        Self::Passing(text, None)
    }

    /// What is wrong.
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Passing(text, _) | Self::Unheard(text) | Self::Lasting(text) => text,
        }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The first byte and the length of the whole of `bytes 5-9/10`; a length that is not known is `*`.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    Some((first.trim().parse().ok()?, total.trim().parse().ok()))
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

/// A foreign text that ends before it is a nuisance.
fn shortened(text: &str) -> &str {
    text.get(..40).unwrap_or(text)
}

/// A part of an address in which everything but letters, digits and `-._` is written as bytes.
pub(super) fn escaped(part: &str) -> String {
    let mut out = String::new();
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to memory does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::{Hub, Problem, content_range, escaped};
    use crate::hub::Connection;

    #[test]
    fn a_list_that_breaks_off_may_come_the_next_time() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a question");
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{");
        });
        let problem = Hub::new(&endpoint, None, Connection::default()).listing("a/b", "main").expect_err("half a list");
        assert!(matches!(problem, Problem::Passing(..)), "{problem:?}");
        server.join().expect("no panic");
    }

    #[test]
    fn parts_of_addresses_stay_parts() {
        assert_eq!(escaped("refs/pr/1"), "refs%2Fpr%2F1");
        assert_eq!(escaped("model-Q4_0.gguf"), "model-Q4_0.gguf");
        assert_eq!(escaped("a b?ü"), "a%20b%3F%C3%BC");
    }

    #[test]
    fn ranges_are_read_as_the_standard_writes_them() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(content_range("bytes 0-0/*"), Some((0, None)));
        for wrong in ["bytes */10", "5-9/10", "bytes 5/10", "bytes 5-9", "bytes -5-9/10", ""] {
            assert_eq!(content_range(wrong), None, "{wrong}");
        }
    }
}

//! The two questions that are asked of a hub: what files has a model, and what is in one of them?

use std::fmt::Write as _;
use std::io::Read;
use std::time::Duration;

use serde::Deserialize;
use ureq::http::Response;
use ureq::{Agent, Body};

/// How long a hub may take to say anything.
const PATIENCE: Duration = Duration::from_secs(30);
/// More than any list of files.
const LONGEST_LISTING: u64 = 64 << 20;

/// A hub, and who asks it.
pub struct Hub {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
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

/// The bytes of a file as they come.
pub(super) struct Download {
    pub(super) reader: Box<dyn Read>,
    pub(super) length: Option<u64>,
}

impl Hub {
    /// The hub at `endpoint`, an address such as `https://hub.example`; a `token` opens models that are not open to all.
    #[must_use]
    pub fn new(endpoint: &str, token: Option<&str>) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            // The default is whatever the environment says.
            .proxy(None)
            .build();
        Self {
            agent: config.new_agent(),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token: token.map(str::to_owned),
        }
    }

    /// Its address.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(super) fn listing(&self, repository: &str, revision: &str) -> Result<Listing, String> {
        let revision = escaped(revision);
        let url = format!("{}/api/models/{repository}/revision/{revision}?blobs=true", self.endpoint);
        let mut response = self.get(&url)?;
        let text = response.body_mut().with_config().limit(LONGEST_LISTING).read_to_string();
        let text = text.map_err(|error| format!("{url}: {error}"))?;
        serde_json::from_str(&text).map_err(|error| format!("{url} is no list of files: {error}"))
    }

    pub(super) fn download(&self, repository: &str, commit: &str, file: &str) -> Result<Download, String> {
        let url = format!("{}/{repository}/resolve/{}/{}", self.endpoint, escaped(commit), escaped(file));
        let body = self.get(&url)?.into_body();
        Ok(Download { length: body.content_length(), reader: Box::new(body.into_reader()) })
    }

    fn get(&self, url: &str) -> Result<Response<Body>, String> {
        let mut request = self.agent.get(url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let response = request.call().map_err(|error| format!("{url}: {error}"))?;
        match response.status().as_u16() {
            200 => Ok(response),
            status @ (401 | 403) => {
                let token =
                    if self.token.is_some() { "the token given does not open it" } else { "it may need --hub-token" };
                Err(format!("{url}: the hub refuses it (status {status}): there is no such model, or {token}"))
            }
            404 => Err(format!("{url}: the hub has no such model, revision or file (status 404)")),
            status => Err(format!("{url}: the hub answers with status {status}")),
        }
    }
}

/// A part of an address in which everything but letters, digits and `-._` is written as bytes.
fn escaped(part: &str) -> String {
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
    use super::escaped;

    #[test]
    fn parts_of_addresses_stay_parts() {
        assert_eq!(escaped("refs/pr/1"), "refs%2Fpr%2F1");
        assert_eq!(escaped("model-Q4_0.gguf"), "model-Q4_0.gguf");
        assert_eq!(escaped("a b?ü"), "a%20b%3F%C3%BC");
    }
}

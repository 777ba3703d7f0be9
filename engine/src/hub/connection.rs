//! How a hub is reached: through which proxy, trusting whom, and with how much patience.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::config::RedirectAuthHeaders;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Proxy, ProxyBuilder, ProxyProtocol};

/// How a hub is reached.
///
/// ```
/// use std::time::Duration;
/// use engine::hub::Connection;
///
/// let direct = Connection::default();
/// assert!(direct.proxy.is_none() && direct.ca_file.is_none());
/// let patient = Connection { stall_timeout: Duration::from_secs(300), ..direct };
/// assert!(patient.stall_timeout > Connection::default().stall_timeout);
/// ```
#[derive(Clone, Debug)]
pub struct Connection {
    /// An HTTP proxy, such as `http://user:password@proxy.example:3128`.
    pub proxy: Option<String>,
    /// Hosts that are reached without the proxy: `host`, `.domain`, or `*` for all.
    pub no_proxy: Vec<String>,
    /// A file of certificates in PEM form that are trusted instead of those that are built in.
    pub ca_file: Option<PathBuf>,
    /// How long nothing may come.
    pub stall_timeout: Duration,
    /// How often a fetch that broke off is tried again without getting any further.
    pub retries: u32,
}

impl Default for Connection {
    fn default() -> Self {
        let stall_timeout = Duration::from_secs(30);
        Self { proxy: None, no_proxy: Vec::new(), ca_file: None, stall_timeout, retries: 5 }
    }
}

impl Connection {
    /// What asks questions this way.
    pub(super) fn agent(&self) -> Result<Agent, String> {
        let patience = Some(self.stall_timeout);
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(patience)
            .timeout_recv_response(patience)
            .timeout_per_read(patience)
            // Hubs send those who ask for a small file to another address of their own.
            .redirect_auth_headers(RedirectAuthHeaders::SameHost)
            .tls_config(TlsConfig::builder().root_certs(self.trusted()?).build())
            // The default is whatever the environment says.
            .proxy(self.proxy()?);
        Ok(config.build().new_agent())
    }

    fn trusted(&self) -> Result<RootCerts, String> {
        match &self.ca_file {
            None => Ok(RootCerts::WebPki),
            Some(path) => {
                certificates(path).map(RootCerts::from).map_err(|problem| format!("{}: {problem}", path.display()))
            }
        }
    }

    fn proxy(&self) -> Result<Option<Proxy>, String> {
        let Some(text) = self.proxy.as_deref().filter(|text| !text.is_empty()) else { return Ok(None) };
        // The text may have a password in it, so no message shows it.
        let wrong = || "the proxy of --hub-proxy or HTTPS_PROXY is no address such as http://HOST:PORT".to_owned();
        let parsed = Proxy::new(text).map_err(|_| wrong())?;
        let protocol = parsed.protocol();
        if !matches!(protocol, ProxyProtocol::Http | ProxyProtocol::Https) {
            return Err(format!(
                "the proxy of --hub-proxy or HTTPS_PROXY is one of {protocol}: only HTTP proxies are supported"
            ));
        }
        let mut builder = Proxy::builder(protocol).host(parsed.host()).port(parsed.port());
        if let Some(user) = parsed.username() {
            builder = builder.username(user).password(parsed.password().unwrap_or_default());
        }
        self.no_proxy
            .iter()
            .map(|host| host.trim())
            .fold(builder, ProxyBuilder::no_proxy)
            .build()
            .map(Some)
            .map_err(|_| wrong())
    }
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let mut certificates = Vec::new();
    for item in parse_pem(&bytes) {
        match item {
            Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(format!("no certificates in PEM form: {error}")),
        }
    }
    if certificates.is_empty() { Err("there is no certificate in it".into()) } else { Ok(certificates) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_that_cannot_be_used_is_told_without_its_password() {
        let problem = |proxy: &str| Connection { proxy: Some(proxy.into()), ..Connection::default() }.agent().err();
        for proxy in ["http://user:hunter2@proxy:3128", "proxy:3128", "https://proxy", "http://[::1]:3128", ""] {
            assert_eq!(problem(proxy), None, "{proxy}");
        }
        for (proxy, part) in [
            ("socks5://user:hunter2@proxy", "SOCKS5: only HTTP proxies"),
            ("ftp://user:hunter2@proxy", "no address such as http://HOST:PORT"),
            ("http://user:hunter2@", "no address such as http://HOST:PORT"),
            ("a proxy", "no address such as http://HOST:PORT"),
        ] {
            let said = problem(proxy).expect("refused");
            assert!(said.contains(part) && !said.contains("hunter2"), "{proxy}: {said}");
        }
    }

    #[test]
    fn certificates_that_are_none_are_told_with_their_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("roots.pem");
        let problem = || {
            let said = Connection { ca_file: Some(path.clone()), ..Connection::default() }.agent().err();
            said.filter(|said| said.contains("roots.pem")).expect("refused by its name")
        };
        assert!(problem().contains("No such file"), "{}", problem());
        fs::write(&path, "words").expect("written");
        assert!(problem().contains("there is no certificate in it"), "{}", problem());
        fs::write(&path, "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").expect("written");
        assert!(problem().contains("no certificates in PEM form"), "{}", problem());
    }
}

//! A model hub on this machine: it answers two kinds of questions from memory, and misbehaves if it is told to.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

/// What is in a hub.
#[derive(Clone, Default)]
pub(crate) struct Contents {
    /// `owner/name`.
    pub(crate) repository: String,
    pub(crate) commit: String,
    /// Files by name, with the SHA-256 that the hub says they have.
    pub(crate) files: BTreeMap<String, (Vec<u8>, Option<String>)>,
    /// What happens to whoever asks for a file.
    pub(crate) trouble: BTreeMap<String, Trouble>,
    /// How many more answers there is trouble for; no end to it unless said.
    pub(crate) troubled_answers: Option<usize>,
    /// What its list says of the size of every file, whatever it is.
    pub(crate) listed_size: Option<usize>,
    /// Whether answers have a name for the content, by which a rest of another content is told.
    pub(crate) has_tags: bool,
    /// Whether these names are weak: of contents that mean the same, and may differ in their bytes.
    pub(crate) has_weak_tags: bool,
    /// What opens it; open to all without.
    pub(crate) token: Option<String>,
}

/// What happens to whoever asks for a file.
#[derive(Clone)]
pub(crate) enum Trouble {
    /// The connection ends after so many bytes.
    BreakOff(usize),
    /// Nothing more comes after so many bytes.
    Stall(usize),
    /// An answer that is no file, `429 Too Many Requests` for example, with more headers.
    Status(&'static str, &'static str),
    /// The file comes whole whatever part was asked for.
    Whole,
    /// The part that comes begins elsewhere.
    OtherPart,
    /// The part is none of the file.
    NoPart,
    /// The part is of another content, whatever was asked for.
    OtherContent,
    /// The answer says that it is of this length, and has the file's.
    Length(usize),
    /// The file is at this address.
    Elsewhere(String),
}

/// A hub that runs until it is dropped.
pub(crate) struct HubServer {
    pub(crate) endpoint: String,
    address: String,
    contents: Arc<Mutex<Contents>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    thread: Option<JoinHandle<()>>,
}

/// One question.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) target: String,
    /// The headers, in lower case but for their values.
    pub(crate) headers: Vec<(String, String)>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

impl HubServer {
    pub(crate) fn start(contents: Contents) -> Self {
        Self::serve(contents, "http", |stream| Some(Box::new(stream)))
    }

    /// A hub that speaks TLS as `localhost` and `127.0.0.1`, with a certificate that nobody trusts by default.
    pub(crate) fn start_tls(contents: Contents) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls");
        let certificate = CertificateDer::from_pem_file(folder.join("server.pem")).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).expect("a key");
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key);
        let config = Arc::new(config.expect("the key fits"));
        Self::serve(contents, "https", move |stream| {
            let connection = ServerConnection::new(Arc::clone(&config)).ok()?;
            Some(Box::new(StreamOwned::new(connection, stream)))
        })
    }

    fn serve(
        contents: Contents,
        scheme: &str,
        talk: impl Fn(TcpStream) -> Option<Box<dyn Stream>> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (contents, asked) = (Arc::new(Mutex::new(contents)), Arc::new(Mutex::new(Vec::new())));
        let thread = {
            let (contents, asked) = (Arc::clone(&contents), Arc::clone(&asked));
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let Ok(stream) = stream else { break };
                    // A connection without a question ends the loop.
                    let mut first = [0];
                    if !matches!(stream.peek(&mut first), Ok(1)) {
                        break;
                    }
                    let now = contents.lock().expect("no test has failed").clone();
                    if let Some(stream) = talk(stream) {
                        answer(stream, &now, &contents, &asked);
                    }
                }
            })
        };
        Self { endpoint: format!("{scheme}://{address}"), address, contents, asked, thread: Some(thread) }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Contents)) {
        change(&mut self.contents.lock().expect("no test has failed"));
    }

    /// The addresses asked for since the last call.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.questions().into_iter().map(|asked| asked.target).collect()
    }

    /// The questions since the last call.
    pub(crate) fn questions(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock().expect("no test has failed"))
    }
}

impl Drop for HubServer {
    fn drop(&mut self) {
        let connected = TcpStream::connect(&self.address);
        if let (Ok(stream), Some(thread)) = (connected, self.thread.take()) {
            let _ = stream.shutdown(Shutdown::Both);
            let _ = thread.join();
        }
    }
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// Answers the question of a connection, if there is one.
fn answer(stream: Box<dyn Stream>, now: &Contents, contents: &Mutex<Contents>, asked: &Mutex<Vec<Asked>>) {
    let mut stream = BufReader::new(stream);
    let Some(question) = question(&mut stream) else { return };
    asked.lock().expect("no test has failed").push(question.clone());
    let mut reply = reply(&question, now);
    if now.trouble.keys().any(|name| question.target.ends_with(name)) {
        let mut contents = contents.lock().expect("no test has failed");
        contents.troubled_answers = contents.troubled_answers.map(|left| left.saturating_sub(1));
        if contents.troubled_answers == Some(0) {
            contents.trouble.clear();
        }
    }
    if !reply.head.contains("content-length") {
        reply.says_length(reply.body.len());
    }
    let sent = reply.sent.map_or(reply.body.len(), |sent| sent.min(reply.body.len()));
    let out = stream.get_mut();
    // Whoever asked may have gone.
    let _ = write!(out, "HTTP/1.1 {}connection: close\r\n\r\n", reply.head)
        .and_then(|()| out.write_all(&reply.body[..sent]))
        .and_then(|()| out.flush());
    if reply.stalls {
        // Until whoever asked goes away.
        let _ = stream.read_to_end(&mut Vec::new());
    }
}

fn question(stream: &mut impl BufRead) -> Option<Asked> {
    let mut lines = stream.lines().map_while(Result::ok);
    let target = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers = lines.take_while(|line| !line.is_empty());
    let headers = headers.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_lowercase(), value.trim().to_owned()))
    });
    Some(Asked { target, headers: headers.collect() })
}

#[derive(Default)]
struct Reply {
    /// Status and headers.
    head: String,
    body: Vec<u8>,
    /// How much of it is sent; all unless said.
    sent: Option<usize>,
    stalls: bool,
}

impl Reply {
    fn says_length(&mut self, length: usize) {
        self.head = format!("{}content-length: {length}\r\n", self.head);
    }
}

fn reply(question: &Asked, contents: &Contents) -> Reply {
    let status = |status: &str| Reply { head: format!("{status}\r\n"), ..Reply::default() };
    let Contents { repository, commit, files, trouble, .. } = contents;
    let bearer = contents.token.as_ref().map(|token| format!("Bearer {token}"));
    if bearer.is_some() && question.header("authorization") != bearer.as_deref() {
        return status("401 Unauthorized");
    }
    if question.target.starts_with(&format!("/api/models/{repository}/revision/")) {
        return Reply { body: listing_of(contents).to_string().into_bytes(), ..status("200 OK") };
    }
    let resolve = format!("/{repository}/resolve/{commit}/");
    // A file may be at another address, too.
    let name = question.target.strip_prefix(&resolve).or_else(|| question.target.strip_prefix("/elsewhere/"));
    let Some((name, (body, _))) = name.and_then(|name| files.get_key_value(name)) else {
        return status("404 Not Found");
    };
    let trouble = trouble.get(name).filter(|_| question.target.starts_with(&resolve));
    let mut reply = of_file(question, contents, body, trouble);
    match trouble {
        Some(Trouble::BreakOff(bytes)) => reply.sent = Some(*bytes),
        Some(Trouble::Stall(bytes)) => (reply.sent, reply.stalls) = (Some(*bytes), true),
        Some(Trouble::Status(line, headers)) => return status(format!("{line}\r\n{headers}").trim_end()),
        Some(Trouble::NoPart) => return status("416 Range Not Satisfiable"),
        Some(Trouble::Length(length)) => reply.says_length(*length),
        Some(Trouble::Elsewhere(address)) => return status(&format!("302 Found\r\nlocation: {address}")),
        Some(Trouble::Whole | Trouble::OtherPart | Trouble::OtherContent) | None => {}
    }
    reply
}

/// A file or the part that was asked for.
fn of_file(question: &Asked, contents: &Contents, body: &[u8], trouble: Option<&Trouble>) -> Reply {
    let tag = format!("\"{}-{}\"", contents.commit, body.iter().map(|byte| u64::from(*byte)).sum::<u64>());
    let weak = if contents.has_weak_tags { "W/" } else { "" };
    let tagged = match trouble {
        Some(Trouble::OtherContent) => "etag: \"other\"\r\n".to_owned(),
        _ if contents.has_tags => format!("etag: {weak}{tag}\r\n"),
        _ => String::new(),
    };
    let first =
        question.header("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    let is_same =
        question.header("if-range").is_none_or(|asked| asked == tag) || matches!(trouble, Some(Trouble::OtherContent));
    match first.filter(|_| is_same && !matches!(trouble, Some(Trouble::Whole))) {
        None => Reply { head: format!("200 OK\r\n{tagged}"), body: body.to_vec(), ..Reply::default() },
        Some(first) if first >= body.len() => Reply {
            head: format!("416 Range Not Satisfiable\r\ncontent-range: bytes */{}\r\n", body.len()),
            ..Reply::default()
        },
        Some(first) => {
            let first = if matches!(trouble, Some(Trouble::OtherPart)) { first + 1 } else { first };
            let range = format!("bytes {first}-{}/{}", body.len() - 1, body.len());
            let head = format!("206 Partial Content\r\n{tagged}content-range: {range}\r\n");
            Reply { head, body: body[first..].to_vec(), ..Reply::default() }
        }
    }
}

fn listing_of(contents: &Contents) -> Value {
    let files: Vec<_> = contents
        .files
        .iter()
        .map(|(name, (body, sha256))| {
            let mut file = json!({"rfilename": name, "size": contents.listed_size.unwrap_or(body.len())});
            if let Some(sha256) = sha256 {
                file["lfs"] = json!({"sha256": sha256, "size": body.len(), "pointerSize": 130});
            }
            file
        })
        .collect();
    json!({"sha": contents.commit, "siblings": files})
}

/// An HTTP proxy on this machine that connects whoever asks, and remembers what was asked.
pub(crate) struct ProxyServer {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl ProxyServer {
    /// Its thread waits for connections until the test process ends.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let questions = Arc::clone(&asked);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let Some(question) = question(&mut BufReader::new(&mut stream)) else { continue };
                let target = question.target.clone();
                questions.lock().expect("no test has failed").push(question);
                let Ok(mut to) = TcpStream::connect(target) else { continue };
                let _ = stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n");
                let (Ok(mut from), Ok(mut back)) = (stream.try_clone(), to.try_clone()) else { continue };
                let there = std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
                let _ = std::io::copy(&mut back, &mut stream);
                let _ = stream.shutdown(Shutdown::Both);
                let _ = there.join();
            }
        });
        Self { address, asked }
    }

    /// The questions since the last call.
    pub(crate) fn questions(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock().expect("no test has failed"))
    }
}

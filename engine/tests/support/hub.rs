//! A model hub on this machine: it answers two kinds of questions from memory, and lies if it is told to.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::{Value, json};

/// What is in a hub.
#[derive(Clone, Default)]
pub(crate) struct Contents {
    /// `owner/name`.
    pub(crate) repository: String,
    pub(crate) commit: String,
    /// Files by name, with the SHA-256 that the hub says they have.
    pub(crate) files: BTreeMap<String, (Vec<u8>, Option<String>)>,
    /// The file whose download breaks off in the middle.
    pub(crate) broken: Option<String>,
    /// What opens it; open to all without.
    pub(crate) token: Option<String>,
}

/// A hub that runs until it is dropped.
pub(crate) struct HubServer {
    pub(crate) endpoint: String,
    contents: Arc<Mutex<Contents>>,
    asked: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl HubServer {
    pub(crate) fn start(contents: Contents) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let (contents, asked) = (Arc::new(Mutex::new(contents)), Arc::new(Mutex::new(Vec::new())));
        let thread = {
            let (contents, asked) = (Arc::clone(&contents), Arc::clone(&asked));
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let contents = contents.lock().expect("no test has failed").clone();
                    if !stream.is_ok_and(|stream| answer(stream, &contents, &asked)) {
                        break;
                    }
                }
            })
        };
        Self { endpoint, contents, asked, thread: Some(thread) }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Contents)) {
        change(&mut self.contents.lock().expect("no test has failed"));
    }

    /// The addresses asked for since the last call.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().expect("no test has failed"))
    }
}

impl Drop for HubServer {
    fn drop(&mut self) {
        // A connection without a question ends the loop.
        let connected = TcpStream::connect(self.endpoint.trim_start_matches("http://"));
        if let (Ok(stream), Some(thread)) = (connected, self.thread.take()) {
            let _ = stream.shutdown(Shutdown::Both);
            let _ = thread.join();
        }
    }
}

/// Answers one question of a connection; false when there is none.
fn answer(mut stream: TcpStream, contents: &Contents, asked: &Mutex<Vec<String>>) -> bool {
    let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return false };
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let Some(target) = first.split(' ').nth(1).map(str::to_owned) else { return false };
    asked.lock().expect("no test has failed").push(target.clone());
    let is_open = contents.token.as_ref().is_none_or(|token| {
        headers.iter().any(|header| header.to_lowercase() == format!("authorization: bearer {}", token.to_lowercase()))
    });
    let Contents { repository, commit, files, broken, .. } = contents;
    let listing = format!("/api/models/{repository}/revision/");
    let resolve = format!("/{repository}/resolve/{commit}/");
    let (status, body, cut) = if !is_open {
        ("401 Unauthorized", Vec::new(), false)
    } else if target.starts_with(&listing) {
        ("200 OK", listing_of(contents).to_string().into_bytes(), false)
    } else if let Some((name, (body, _))) = target.strip_prefix(&resolve).and_then(|name| files.get_key_value(name)) {
        ("200 OK", body.clone(), broken.as_ref() == Some(name))
    } else {
        ("404 Not Found", Vec::new(), false)
    };
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let sent = if cut { &body[..body.len() / 2] } else { &body[..] };
    // Whoever asked may have gone.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(sent));
    true
}

fn listing_of(contents: &Contents) -> Value {
    let files: Vec<_> = contents
        .files
        .iter()
        .map(|(name, (body, sha256))| {
            let mut file = json!({"rfilename": name, "size": body.len()});
            if let Some(sha256) = sha256 {
                file["lfs"] = json!({"sha256": sha256, "size": body.len(), "pointerSize": 130});
            }
            file
        })
        .collect();
    json!({"sha": contents.commit, "siblings": files})
}

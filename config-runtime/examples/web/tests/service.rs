//! The service over real connections of this machine, its files changed under it.

use std::fs;
use std::future::IntoFuture;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kitbag::ConfigNamespaces;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use web_example::{Args, Service};

/// More than anything here takes, also on a busy machine.
const LONG: Duration = Duration::from_secs(30);

/// A service with two files: one saved by rename, one mounted through symbolic links as Kubernetes does.
struct Fixture {
    folder: TempDir,
    address: SocketAddr,
    _service: Service,
    // Dropped last: it runs the service.
    runtime: Option<Runtime>,
}

impl Fixture {
    /// `interval` is how often files are looked at.
    fn start(interval: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (saved, mounted) = (folder.path().join("greet.toml"), folder.path().join("mounted.toml"));
        rename_save(&saved, "[page]\ngreeting = \"hello\"\n");
        symlink(version(folder.path(), 1), folder.path().join("data")).unwrap();
        symlink("data/mounted.toml", &mounted).unwrap();
        let env = [("GREET_ADMIN_TOKEN", "hunter2"), ("GREET_WATCH_INTERVAL", interval)];
        let loader = Args::loader().file(saved).file(mounted).env(env);
        let cfg = loader.load().unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (service, listener) = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            (Service::start(&cfg, &loader).unwrap(), listener)
        });
        let address = listener.local_addr().unwrap();
        runtime.spawn(axum::serve(listener, service.router()).into_future());
        Self { folder, address, _service: service, runtime: Some(runtime) }
    }

    fn save(&self, text: &str) {
        rename_save(&self.folder.path().join("greet.toml"), text);
    }

    /// Swaps the mounted folder in one step.
    fn mount(&self, times: usize) {
        let next = self.folder.path().join("data.next");
        symlink(version(self.folder.path(), times), &next).unwrap();
        fs::rename(next, self.folder.path().join("data")).unwrap();
    }

    /// Status and body.
    fn request(&self, method: &str, path: &str, token: Option<&str>) -> (u16, String) {
        self.send(method, path, token, "")
    }

    /// What an admin asks for.
    fn post(&self, path: &str, body: &str) -> (u16, String) {
        self.send("POST", path, Some("hunter2"), body)
    }

    fn send(&self, method: &str, path: &str, token: Option<&str>, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let length = format!("Content-Length: {}\r\n", body.len());
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{token}{length}\r\n");
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.request("GET", path, None)
    }

    fn wait_for_page(&self, expected: &str) {
        let deadline = Instant::now() + LONG;
        while self.get("/").1 != expected {
            assert!(Instant::now() < deadline, "the page is {:?}, not {expected:?}", self.get("/"));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Replaces the file as editors do.
fn rename_save(path: &Path, text: &str) {
    let beside = path.with_extension("tmp");
    fs::write(&beside, text).unwrap();
    fs::rename(beside, path).unwrap();
}

fn version(folder: &Path, times: usize) -> PathBuf {
    let path = folder.join(format!("v{times}"));
    fs::create_dir(&path).unwrap();
    fs::write(path.join("mounted.toml"), format!("[page]\ntimes = {times}\n")).unwrap();
    path
}

#[test]
fn the_page_follows_saved_and_mounted_files() {
    let fixture = Fixture::start("2ms");
    assert_eq!(fixture.get("/"), (200, "hello\n".to_owned()));
    fixture.save("[page]\ngreeting = \"good day\"\n");
    fixture.wait_for_page("good day\n");
    fixture.mount(2);
    fixture.wait_for_page("good day\ngood day\n");
    // What does not fit changes nothing, and the next good file is taken.
    fixture.save("[page]\ngreeting = \n");
    fixture.save("[page]\ngreeting = \"bye\"\n");
    fixture.wait_for_page("bye\nbye\n");
}

#[test]
fn an_admin_call_reloads_and_says_what_changed() {
    let fixture = Fixture::start("1h");
    assert_eq!(fixture.request("POST", "/reload", None).0, 401);
    assert_eq!(fixture.request("POST", "/reload", Some("hunter3")).0, 401);
    fixture.save("[page]\ngreeting = \"good day\"\nmax_age = 60\n");
    assert_eq!(fixture.get("/").1, "hello\n", "nobody looked yet");
    let answer = fixture.request("POST", "/reload", Some("hunter2"));
    assert_eq!(answer, (200, "epoch 1: page.greeting, page.max_age\n".to_owned()));
    assert_eq!(fixture.get("/").1, "good day\n", "applied before the answer");
    fixture.save("[http]\nlisten = \"127.0.0.1:1\"\n[page]\ntimes = 11\n");
    let (status, text) = fixture.request("POST", "/reload", Some("hunter2"));
    assert_eq!(status, 409);
    assert!(text.contains("greet.toml:4:9: page.times: 11 is outside 1..=10"), "{text}");
    fixture.save("[http]\nlisten = \"127.0.0.1:1\"\n[page]\ngreeting = \"bye\"\n");
    let (status, text) = fixture.request("POST", "/reload", Some("hunter2"));
    assert_eq!(status, 409);
    assert!(text.contains("http.listen: changed from") && text.contains("needs a restart"), "{text}");
    assert_eq!(fixture.get("/").1, "good day\n");
}

#[test]
fn settings_are_shown_and_explained_without_secrets() {
    let fixture = Fixture::start("1h");
    let (status, json) = fixture.get("/config");
    assert_eq!(status, 200);
    let values: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&values["page.greeting"], &values["page.times"]), (&"hello".into(), &1.into()));
    assert_eq!(values["admin.token"], "<redacted>");
    let (status, chain) = fixture.get("/config/explain/page.greeting");
    assert_eq!(status, 200);
    assert!(chain.starts_with("page.greeting = \"hello\"\n  default: \"hello\"\n> "), "{chain}");
    assert!(chain.contains("greet.toml:2:12: \"hello\""), "{chain}");
    let (status, hint) = fixture.get("/config/explain/page.greting");
    assert_eq!((status, hint.trim_end()), (404, "no setting is called `page.greting`; did you mean `page.greeting`?"));
    for path in ["/config", "/config/explain/admin.token"] {
        assert!(!fixture.get(path).1.contains("hunter2"), "{path}");
    }
}

#[test]
fn an_admin_plans_sets_confirms_and_rolls_back() {
    let fixture = Fixture::start("1h");
    let pages = |text: &str| assert_eq!(fixture.get("/").1, text);
    for path in ["/config/plan", "/config/set", "/config/confirm/0", "/config/rollback/1"] {
        assert_eq!(fixture.send("POST", path, Some("hunter3"), "page.times=2").0, 401, "{path}");
    }
    // A plan changes nothing, and says why it would be refused.
    let (status, plan) = fixture.post("/config/plan", "page.times=2\npage.greeting = bye \n\n");
    assert_eq!((status, plan.as_str()), (200, "page.greeting: \"hello\" -> \"bye\"\npage.times: 1 -> 2\n"));
    let (status, plan) = fixture.post("/config/plan", "page.times=11\nhttp.listen=127.0.0.1:1\npage.tims=2\n");
    assert_eq!(status, 200);
    assert!(
        plan.contains("needs a restart: http.listen: ") && plan.contains("page.times: 11 is outside 1..=10"),
        "{plan}"
    );
    assert!(plan.contains("no setting is called `page.tims`; did you mean `page.times`?"), "{plan}");
    pages("hello\n");
    // Set for good, until confirmed, and confirmed.
    assert_eq!(fixture.post("/config/set", "page.times=2"), (200, "epoch 1: set\n".to_owned()));
    pages("hello\nhello\n");
    let (status, text) = fixture.post("/config/set?confirm_within=1h", "page.greeting=bye");
    assert_eq!(status, 200);
    assert!(text.starts_with("epoch 2: page.greeting, until confirmed: POST /config/confirm/1 within 3600s"), "{text}");
    pages("bye\nbye\n");
    assert_eq!(fixture.post("/config/confirm/1", ""), (200, "trial 1 stays\n".to_owned()));
    let (status, text) = fixture.post("/config/confirm/1", "");
    assert!(status == 409 && text.contains("there is no trial 1 to confirm"), "{text}");
    let (_, chain) = fixture.get("/config/explain/page.greeting");
    assert!(chain.contains("> permanent override \"POST /config/set\""), "{chain}");
    // Not confirmed in time: it goes by itself, and the page follows.
    assert_eq!(fixture.post("/config/set?confirm_within=1ms", "page.greeting=oops").0, 200);
    fixture.wait_for_page("bye\nbye\n");
    // Back.
    assert_eq!(fixture.post("/config/rollback/1", "").0, 200);
    pages("hello\nhello\n");
    assert_eq!(fixture.post("/config/rollback/3", "").0, 200);
    pages("hello\n");
    let (status, text) = fixture.post("/config/rollback/99", "");
    assert!(status == 409 && text.contains("can be rolled back"), "{text}");
    // Asked wrongly.
    for (path, body) in [
        ("/config/set", ""),
        ("/config/set", "page.times"),
        ("/config/set?confirm_within=soon", "page.times=2"),
        ("/config/set?confirm_wihtin=1h", "page.times=2"),
        ("/config/rollback/some", ""),
    ] {
        assert_eq!(fixture.post(path, body).0, 400, "{path} {body}");
    }
    assert_eq!(fixture.post("/config/set", "page.times=0").0, 409);
    pages("hello\n");
}

#[test]
fn the_token_can_be_changed_and_no_answer_shows_it() {
    let fixture = Fixture::start("1h");
    let mut answers = vec![
        fixture.post("/config/plan", "admin.token=hunter4"),
        fixture.post("/config/set?confirm_within=1h", "admin.token=hunter4"),
    ];
    assert_eq!(answers[0].1, "admin.token: \"<redacted>\" -> \"<redacted>\"\n");
    let (status, text) = fixture.post("/config/confirm/0", "");
    assert_eq!(status, 401, "the old one is no good any more: {text}");
    let post = |path: &str, body: &str| fixture.send("POST", path, Some("hunter4"), body);
    answers.extend([
        post("/config/confirm/0", ""),
        post("/config/set", "admin.token hunter5"),
        post("/config/set", "admin.tokn=hunter5"),
        post("/config/plan", "admin.token=hunter5\nadmin.token=hunter6"),
        fixture.get("/config"),
        fixture.get("/config/explain/admin.token"),
    ]);
    assert_eq!(answers[2].0, 200);
    answers.push(post("/config/rollback/1", ""));
    assert_eq!(fixture.post("/config/plan", "page.times=1").0, 200, "the old one again");
    assert!(!format!("{answers:?}").contains("hunter"), "{answers:?}");
}

//! Fetching a model: whole, checked and recorded, or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::client::{Hub, ListedFile, Listing, Problem, escaped};
use super::name::ModelName;
use super::staging::Staging;
use super::transfer::{Begin, Contact, Open, Wanted, open, transfer};
use crate::error::{Error, Result};

/// The file that says what was fetched; a folder that has it has everything in it.
const RECORD: &str = "pulled.json";
/// What a folder of safetensors needs, or is better for having.
const BESIDE_WEIGHTS: &[&str] = &[
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "model.safetensors.index.json",
];

/// What was fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// `owner/name`.
    pub repository: String,
    /// The branch, tag or commit that was asked for.
    pub revision: String,
    /// The commit that it was.
    pub commit: String,
    /// The files.
    pub files: Vec<PulledFile>,
}

/// A file that was fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PulledFile {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256 in hexadecimal digits.
    pub sha256: String,
}

/// Where a model lies within `cache_dir`.
fn folder_of(cache_dir: &Path, name: &ModelName, revision: &str) -> PathBuf {
    let variant = name.quantisation.as_deref().unwrap_or("default");
    cache_dir.join("hub").join(&name.repository).join(revision.replace('/', "%2F")).join(variant)
}

/// The model as it lies in `cache_dir`, if it was fetched: its folder or GGUF file, and what is known of it.
#[must_use]
pub fn cached(cache_dir: &Path, name: &ModelName, revision: &str) -> Option<(PathBuf, Record)> {
    let folder = folder_of(cache_dir, name, revision);
    let record: Record = serde_json::from_str(&fs::read_to_string(folder.join(RECORD)).ok()?).ok()?;
    let gguf = record.files.iter().find(|file| is_gguf(&file.name)).map(|file| folder.join(&file.name));
    Some((gguf.unwrap_or(folder), record))
}

/// Fetches a model into `cache_dir`, unless what is there is what the hub has.
///
/// Progress is shown on standard error when that is a terminal. The model appears when all its files are there and every
/// hash that the hub knows is right. A connection that broke off is made again as often as [`Connection`](super::Connection)
/// says, which is told on standard error in any case. What came before the last one is kept apart, and the next fetch goes
/// on from it; any other failure leaves nothing behind.
pub fn pull(hub: Option<&Hub>, cache_dir: &Path, name: &ModelName, revision: &str) -> Result<(PathBuf, Record)> {
    pull_with(hub, cache_dir, name, revision, &open)
        .map_err(|problem| Error::Pull(ways_out(&problem, cache_dir, name, revision)))
}

/// The problem and everything a user can do about it.
fn ways_out(problem: &str, cache_dir: &Path, name: &ModelName, revision: &str) -> String {
    format!(
        "cannot fetch {name}, which is no file or folder here: {problem}\n\
         Any one of these helps:\n  \
         - name a model that is here: --model-path FOLDER or --model-path FILE.gguf\n  \
         - name none: the default model is fetched without a hub\n  \
         - with a network: say where the hub is, --hub-endpoint URL or HF_ENDPOINT=URL, and try again\n  \
         - without one: on another machine run `engine pull {name}`, and put the folder that it names here as {}",
        folder_of(cache_dir, name, revision).display()
    )
}

fn pull_with(
    hub: Option<&Hub>,
    cache_dir: &Path,
    name: &ModelName,
    revision: &str,
    open: Open<'_>,
) -> std::result::Result<(PathBuf, Record), String> {
    let hub = hub.ok_or("no hub is set")?;
    let Listing { commit, files } = hub.listing(&name.repository, revision).map_err(Problem::into_text)?;
    let as_cached = || cached(cache_dir, name, revision).filter(|(_, record)| record.commit == commit);
    if let Some(there) = as_cached() {
        return Ok(there);
    }
    let wanted = chosen(&files, name.quantisation.as_deref())?;
    let key = escaped(&format!("{name}@{revision}"));
    let staging = Staging::enter(cache_dir, &key)?;
    // Another process may have fetched it while this one waited.
    if let Some(there) = as_cached() {
        return Ok(there);
    }
    let cannot = |path: &Path, error: io::Error| format!("cannot write to {}: {error}", path.display());
    let parts = staging.parts();
    staging.keep_if(&commit).map_err(|error| cannot(&parts, error))?;
    let mut record = Record {
        repository: name.repository.clone(),
        revision: revision.to_owned(),
        commit: commit.clone(),
        files: Vec::with_capacity(wanted.len()),
    };
    for file in wanted {
        let (size, sha256) = (file.size, file.sha256());
        let asked = Wanted { repository: &name.repository, commit: &commit, name: &file.name, size, sha256 };
        let file =
            transfer(hub, &asked, &staging, open, Contact::Made).map_err(|problem| settled(problem, &staging))?;
        record.files.push(file);
    }
    let staged = staging.files();
    let text = serde_json::to_string_pretty(&record).map_err(|error| error.to_string())?;
    let record_path = staged.join(RECORD);
    open(&record_path, Begin::Anew)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.flush()))
        .map_err(|error| settled(Problem::Lasting(cannot(&record_path, error)), &staging))?;

    let folder = folder_of(cache_dir, name, revision);
    let parent = folder.parent().unwrap_or(cache_dir);
    fs::create_dir_all(parent).map_err(|error| cannot(parent, error))?;
    let old = staging.replaced();
    if folder.exists() {
        // What a process that ended between two steps put there.
        let _ = fs::remove_dir_all(&old);
        fs::rename(&folder, &old).map_err(|error| cannot(&folder, error))?;
    }
    if let Err(error) = fs::rename(&staged, &folder) {
        // What was there is better than nothing; if it cannot come back either, the first error says why.
        let _ = fs::rename(&old, &folder);
        return Err(cannot(&folder, error));
    }
    // Of files that belong to nothing now.
    let _ = staging.clear();
    cached(cache_dir, name, revision).ok_or_else(|| format!("{} has no record", folder.display()))
}

/// Says what a user does about a problem, after forgetting what is of no use any more.
fn settled(problem: Problem, staging: &Staging) -> String {
    match problem {
        Problem::Passing(said, _) | Problem::Unheard(said) => {
            format!("{said}; what has come is kept, and the same command goes on from there")
        }
        Problem::Lasting(said) => {
            // The problem counts; what cannot be removed is cleared by the next fetch.
            let _ = staging.clear();
            said
        }
    }
}

fn is_gguf(name: &str) -> bool {
    name.to_lowercase().ends_with(".gguf")
}

/// The files of a model that are needed: the one GGUF file of a quantisation, or safetensors with what belongs to them.
fn chosen<'a>(files: &'a [ListedFile], quantisation: Option<&str>) -> std::result::Result<Vec<&'a ListedFile>, String> {
    // What lies in folders is of other formats.
    let top: Vec<_> =
        files.iter().filter(|file| !file.name.contains(['/', '\\']) && !file.name.starts_with('.')).collect();
    let ggufs = || top.iter().copied().filter(|file| is_gguf(&file.name));
    let quantisations = || {
        let names: Vec<_> = ggufs().map(|file| file.name.as_str()).collect();
        if names.is_empty() {
            "it has no GGUF file".to_owned()
        } else {
            format!("its GGUF files are {}", names.join(", "))
        }
    };
    if let Some(quantisation) = quantisation {
        let is_meant = |file: &&ListedFile| {
            let stem = &file.name[..file.name.len() - ".gguf".len()];
            let rest = stem.to_uppercase();
            rest.strip_suffix(quantisation).is_some_and(|rest| rest.is_empty() || rest.ends_with(['-', '.', '_']))
        };
        let meant: Vec<_> = ggufs().filter(is_meant).collect();
        return match meant.len() {
            1 => Ok(meant),
            0 => Err(format!("there is no file of {quantisation}: {}", quantisations())),
            _ => Err(format!("several files are of {quantisation}: {}", quantisations())),
        };
    }
    let is_weight = |name: &str| name.ends_with(".safetensors");
    if top.iter().any(|file| is_weight(&file.name)) {
        let needed = |file: &&ListedFile| is_weight(&file.name) || BESIDE_WEIGHTS.contains(&file.name.as_str());
        return Ok(top.iter().copied().filter(needed).collect());
    }
    let ggufs: Vec<_> = ggufs().collect();
    match ggufs.len() {
        1 => Ok(ggufs),
        0 => Err("it has neither safetensors nor a GGUF file".to_owned()),
        _ => Err(format!("say which file is meant, as in OWNER/NAME:Q4_0: {}", quantisations())),
    }
}

/// Fetches the file called `file` of the main branch into a staging folder; whoever asks knows how to check it.
pub(crate) fn pull_file(
    hub: &Hub,
    repository: &str,
    file: &str,
    staging: &Staging,
) -> std::result::Result<PathBuf, String> {
    let wanted = Wanted { repository, commit: "main", name: file, size: None, sha256: None };
    transfer(hub, &wanted, staging, &open, Contact::New).map_err(|problem| settled(problem, staging))?;
    Ok(staging.files().join(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::Connection;
    use crate::hub_server::{Contents, HubServer, Trouble};

    /// Takes some bytes, and then says that the disk is full.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match bytes.len().min(self.0) {
                0 => Err(io::ErrorKind::StorageFull.into()),
                room => {
                    self.0 -= room;
                    Ok(room)
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_told_and_leaves_nothing() {
        let files = [("a.gguf".to_owned(), (vec![7; 1000], None))].into();
        let contents = Contents { repository: "a/b".into(), commit: "1".into(), files, ..Contents::default() };
        let server = HubServer::start(contents);
        let hub = Hub::new(&server.endpoint, None, Connection::default());
        let name = ModelName::parse("a/b").expect("a name");
        let cache = tempfile::tempdir().expect("a folder");
        for room in [0, 999] {
            let open = |path: &Path, begin| -> io::Result<Box<dyn Write>> {
                open(path, begin)?;
                Ok(Box::new(Full(room)))
            };
            let problem = pull_with(Some(&hub), cache.path(), &name, "main", &open).expect_err("no room");
            assert!(problem.starts_with("cannot write a.gguf to "), "{problem}");
            assert_eq!(fs::read_dir(cache.path()).expect("the cache").count(), 0);
        }
        let open = |path: &Path, begin| -> io::Result<Box<dyn Write>> {
            let is_record = path.ends_with(RECORD);
            if is_record { Ok(Box::new(Full(10))) } else { open(path, begin) }
        };
        let problem = pull_with(Some(&hub), cache.path(), &name, "main", &open).expect_err("no room");
        assert!(problem.contains(RECORD), "{problem}");
        assert_eq!(fs::read_dir(cache.path()).expect("the cache").count(), 0);
        let (path, record) = pull(Some(&hub), cache.path(), &name, "main").expect("there is room");
        assert_eq!(fs::read(&path).expect("fetched"), [7; 1000]);
        assert_eq!((record.commit.as_str(), record.files[0].bytes), ("1", 1000));
    }

    /// A hub of one file of so many bytes, and a cache.
    fn one_file(bytes: usize) -> (HubServer, Hub, ModelName, tempfile::TempDir) {
        let files = [("a.gguf".to_owned(), (vec![7; bytes], None))].into();
        let contents = Contents { repository: "a/b".into(), commit: "1".into(), files, ..Contents::default() };
        let server = HubServer::start(contents);
        let hub = Hub::new(&server.endpoint, None, Connection { retries: 0, ..Connection::default() });
        (server, hub, ModelName::parse("a/b").expect("a name"), tempfile::tempdir().expect("a folder"))
    }

    #[test]
    fn what_is_in_the_way_in_the_cache_is_told_and_another_file_goes_where_it_belongs() {
        // What is a folder or a file where the other belongs; what is said.
        let table = [
            ("partial/a%2Fb%40main/files", false, "cannot write to the cache folder"),
            ("partial/a%2Fb%40main/state/x", true, "cannot write to "),
            ("partial/a%2Fb%40main/parts/a.gguf", true, "cannot write a.gguf to "),
            ("partial/a%2Fb%40main/parts/a.gguf.etag", true, "cannot write a.gguf to "),
            ("partial/a%2Fb%40main/files/a.gguf", true, "cannot write to "),
            ("hub", false, "cannot write to "),
        ];
        for (path, is_folder, said) in table {
            let (server, hub, name, cache) = one_file(10);
            server.change(|contents| contents.has_tags = true);
            let path = cache.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            if is_folder { fs::create_dir(&path) } else { fs::write(&path, "") }.expect("made");
            if path.components().any(|part| part.as_os_str() == "parts" || part.as_os_str() == "files") && is_folder {
                fs::write(cache.path().join("partial/a%2Fb%40main/state"), "1").expect("written");
            }
            let problem = pull_with(Some(&hub), cache.path(), &name, "main", &open).expect_err("it is in the way");
            assert!(problem.contains(said), "{}: {problem}", path.display());
            assert_eq!(cached(cache.path(), &name, "main"), None, "{}", path.display());
        }
    }

    #[test]
    fn a_model_that_is_there_is_used_and_one_whose_record_is_damaged_is_none() {
        let (_server, hub, name, cache) = one_file(10);
        let (path, record) = pull(Some(&hub), cache.path(), &name, "main").expect("fetched");
        // What is there and right is used, even where nothing could be written.
        fs::write(cache.path().join("partial"), "no folder").expect("written");
        assert_eq!(pull(Some(&hub), cache.path(), &name, "main").expect("there"), (path.clone(), record.clone()));
        fs::remove_file(cache.path().join("partial")).expect("removed");
        let record_path = path.with_file_name(RECORD);
        for text in ["", "{", "[]"] {
            fs::write(&record_path, text).expect("written");
            assert_eq!(cached(cache.path(), &name, "main"), None, "{text}");
        }
        assert_eq!(pull(Some(&hub), cache.path(), &name, "main").expect("fetched"), (path, record));
    }

    #[test]
    fn what_was_there_comes_back_when_what_replaces_it_does_not_come() {
        let (server, hub, name, cache) = one_file(10);
        pull(Some(&hub), cache.path(), &name, "main").expect("fetched");
        server.change(|contents| {
            contents.commit = "2".into();
            contents.files.insert("a.gguf".into(), (vec![8; 9], None));
        });
        let staged = cache.path().join("partial/a%2Fb%40main/files");
        let open = |path: &Path, begin| -> io::Result<Box<dyn Write>> {
            if path.ends_with(RECORD) {
                fs::remove_dir_all(&staged)?;
                return Ok(Box::new(io::sink()));
            }
            open(path, begin)
        };
        let problem = pull_with(Some(&hub), cache.path(), &name, "main", &open).expect_err("nothing is staged");
        assert!(problem.contains("cannot write to "), "{problem}");
        let (path, record) = cached(cache.path(), &name, "main").expect("what was there");
        assert_eq!((record.commit.as_str(), fs::read(&path).expect("its file")), ("1", vec![7; 10]));

        // What a process left that ended while it replaced something is in nobody's way.
        let left = cache.path().join("partial/a%2Fb%40main/replaced/x");
        fs::create_dir_all(&left).expect("made");
        let (path, record) = pull(Some(&hub), cache.path(), &name, "main").expect("fetched");
        assert_eq!((record.commit.as_str(), fs::read(&path).expect("its file")), ("2", vec![8; 9]));
        assert!(!cache.path().join("partial").exists());
    }

    #[test]
    fn what_is_not_written_to_the_end_is_told() {
        /// Says only in the end that something is wrong.
        struct Unflushed;
        impl Write for Unflushed {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Err(io::ErrorKind::StorageFull.into())
            }
        }
        let (server, hub, name, cache) = one_file(10);
        let open = |path: &Path, begin| -> io::Result<Box<dyn Write>> {
            open(path, begin)?;
            Ok(Box::new(Unflushed))
        };
        for trouble in [None, Some(Trouble::BreakOff(3))] {
            server.change(|contents| contents.trouble.extend(trouble.map(|trouble| ("a.gguf".to_owned(), trouble))));
            let problem = pull_with(Some(&hub), cache.path(), &name, "main", &open).expect_err("no room");
            assert!(problem.starts_with("cannot write a.gguf to "), "{problem}");
        }
    }

    #[test]
    fn a_refusal_of_the_rest_is_told_and_what_has_come_is_kept() {
        let (server, hub, name, cache) = one_file(10);
        let trouble = |trouble| server.change(|contents| _ = contents.trouble.insert("a.gguf".to_owned(), trouble));
        let problem = || pull_with(Some(&hub), cache.path(), &name, "main", &open).expect_err("it is troubled");
        trouble(Trouble::BreakOff(3));
        assert!(problem().contains("breaks off after 3 of 10 bytes"));
        trouble(Trouble::Status("503 Service Unavailable", ""));
        let said = problem();
        assert!(said.contains("status 503") && said.contains("what has come is kept"), "{said}");
        server.change(|contents| contents.trouble.clear());
        server.questions();
        pull(Some(&hub), cache.path(), &name, "main").expect("fetched");
        assert!(server.questions().iter().any(|asked| asked.header("range") == Some("bytes=3-")));
    }

    #[test]
    fn the_file_of_a_quantisation_is_told_from_those_of_others() {
        let files: Vec<ListedFile> = ["m-Q4_K.gguf", "m-Q4_K_M.gguf", "Q8_0.gguf", "m-IQ8_0.gguf", "x/m-F16.gguf"]
            .map(|name| serde_json::from_value(serde_json::json!({ "rfilename": name })).expect("a file"))
            .into();
        let name = |quantisation| chosen(&files, Some(quantisation)).map(|files| files[0].name.clone());
        assert_eq!(name("Q4_K").as_deref(), Ok("m-Q4_K.gguf"));
        assert_eq!(name("Q4_K_M").as_deref(), Ok("m-Q4_K_M.gguf"));
        assert_eq!(name("Q8_0").as_deref(), Ok("Q8_0.gguf"));
        assert!(name("F16").is_err(), "what lies in folders is not meant");
        assert!(chosen(&files, None).is_err_and(|problem| problem.contains("say which file is meant")));
        // What is hidden is not meant either.
        let files: Vec<ListedFile> = [".m.gguf", "m.gguf"]
            .map(|name| serde_json::from_value(serde_json::json!({ "rfilename": name })).expect("a file"))
            .into();
        let names: Vec<_> = chosen(&files, None).expect("one").iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["m.gguf"]);
    }
}

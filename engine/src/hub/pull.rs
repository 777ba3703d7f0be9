//! Fetching a model: whole, checked and recorded, or not at all.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::client::{Hub, ListedFile, Listing};
use super::name::ModelName;
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
/// hash that the hub knows is right; a failure leaves nothing behind.
pub fn pull(hub: Option<&Hub>, cache_dir: &Path, name: &ModelName, revision: &str) -> Result<(PathBuf, Record)> {
    let create = |path: &Path| File::create(path).map(|file| Box::new(file) as Box<dyn Write>);
    pull_with(hub, cache_dir, name, revision, &create)
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

type Create<'a> = &'a dyn Fn(&Path) -> io::Result<Box<dyn Write>>;

fn pull_with(
    hub: Option<&Hub>,
    cache_dir: &Path,
    name: &ModelName,
    revision: &str,
    create: Create<'_>,
) -> std::result::Result<(PathBuf, Record), String> {
    let hub = hub.ok_or("no hub is set")?;
    let Listing { commit, files } = hub.listing(&name.repository, revision)?;
    if let Some((path, record)) = cached(cache_dir, name, revision).filter(|(_, record)| record.commit == commit) {
        return Ok((path, record));
    }
    let wanted = chosen(&files, name.quantisation.as_deref())?;

    let cannot = |path: &Path, error: io::Error| format!("cannot write to {}: {error}", path.display());
    fs::create_dir_all(cache_dir).map_err(|error| cannot(cache_dir, error))?;
    // Beside its final place, so that the last step is a rename within one file system.
    let work = tempfile::Builder::new().prefix(".pull-").tempdir_in(cache_dir).map_err(|e| cannot(cache_dir, e))?;
    let staged = work.path().join("new");
    fs::create_dir(&staged).map_err(|error| cannot(&staged, error))?;
    let mut record = Record {
        repository: name.repository.clone(),
        revision: revision.to_owned(),
        commit,
        files: Vec::with_capacity(wanted.len()),
    };
    for file in wanted {
        record.files.push(fetch(hub, &record, file, &staged, create)?);
    }
    let text = serde_json::to_string_pretty(&record).map_err(|error| error.to_string())?;
    let record_path = staged.join(RECORD);
    create(&record_path)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.flush()))
        .map_err(|error| cannot(&record_path, error))?;

    let folder = folder_of(cache_dir, name, revision);
    let parent = folder.parent().unwrap_or(cache_dir);
    fs::create_dir_all(parent).map_err(|error| cannot(parent, error))?;
    let old = work.path().join("old");
    if folder.exists() {
        fs::rename(&folder, &old).map_err(|error| cannot(&folder, error))?;
    }
    if let Err(error) = fs::rename(&staged, &folder) {
        // What was there is better than nothing; if it cannot come back either, the first error says why.
        let _ = fs::rename(&old, &folder);
        return Err(cannot(&folder, error));
    }
    cached(cache_dir, name, revision).ok_or_else(|| format!("{} has no record", folder.display()))
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

/// Fetches the file called `file` of the main branch into `folder`; whoever asks knows how to check it.
pub(crate) fn pull_file(hub: &Hub, repository: &str, file: &str, folder: &Path) -> std::result::Result<(), String> {
    let create = |path: &Path| File::create(path).map(|file| Box::new(file) as Box<dyn Write>);
    transfer(hub, (repository, "main", file), None, folder, &create).map(drop)
}

/// Fetches one file and checks it.
fn fetch(
    hub: &Hub,
    record: &Record,
    file: &ListedFile,
    folder: &Path,
    create: Create<'_>,
) -> std::result::Result<PulledFile, String> {
    let name = &file.name;
    let place = (record.repository.as_str(), record.commit.as_str(), name.as_str());
    let (bytes, sha256) = transfer(hub, place, file.size, folder, create)?;
    if let Some(size) = file.size.filter(|&size| size != bytes) {
        return Err(format!("{name} has {bytes} bytes, and the hub says {size}"));
    }
    if let Some(wanted) = file.sha256().filter(|wanted| !wanted.eq_ignore_ascii_case(&sha256)) {
        return Err(format!("{name} has the SHA-256 {sha256}, and the hub says {wanted}"));
    }
    Ok(PulledFile { name: name.clone(), bytes, sha256 })
}

/// Copies a file of a repository at a commit into `folder`; its length and SHA-256.
fn transfer(
    hub: &Hub,
    (repository, commit, name): (&str, &str, &str),
    size: Option<u64>,
    folder: &Path,
    create: Create<'_>,
) -> std::result::Result<(u64, String), String> {
    let mut download = hub.download(repository, commit, name)?;
    let style = ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec}")
        .map_err(|error| error.to_string())?;
    let bar = ProgressBar::new(size.or(download.length).unwrap_or(0)).with_style(style);
    bar.set_message(name.to_owned());
    let path = folder.join(name);
    let write = |error: io::Error| format!("cannot write {name} to {}: {error}", folder.display());
    let mut out = create(&path).map_err(write)?;
    let mut hasher = Sha256::new();
    let mut bytes = 0;
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read =
            download.reader.read(&mut buffer).map_err(|error| format!("the hub breaks off in {name}: {error}"))?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        out.write_all(&buffer[..read]).map_err(write)?;
        bytes += read as u64;
        bar.inc(read as u64);
    }
    out.flush().map_err(write)?;
    bar.finish_and_clear();
    Ok((bytes, hexadecimal(&hasher.finalize())))
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut digits = String::new();
    for byte in bytes {
        // Writing to memory does not fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub_server::{Contents, HubServer};

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
        let hub = Hub::new(&server.endpoint, None);
        let name = ModelName::parse("a/b").expect("a name");
        let cache = tempfile::tempdir().expect("a folder");
        for room in [0, 999] {
            let create = |path: &Path| -> io::Result<Box<dyn Write>> {
                File::create(path)?;
                Ok(Box::new(Full(room)))
            };
            let problem = pull_with(Some(&hub), cache.path(), &name, "main", &create).expect_err("no room");
            assert!(problem.starts_with("cannot write a.gguf to "), "{problem}");
            assert_eq!(fs::read_dir(cache.path()).expect("the cache").count(), 0);
        }
        let create = |path: &Path| -> io::Result<Box<dyn Write>> {
            let is_record = path.ends_with(RECORD);
            if is_record { Ok(Box::new(Full(10))) } else { Ok(Box::new(File::create(path)?)) }
        };
        let problem = pull_with(Some(&hub), cache.path(), &name, "main", &create).expect_err("no room");
        assert!(problem.contains(RECORD), "{problem}");
        assert_eq!(fs::read_dir(cache.path()).expect("the cache").count(), 0);
        let (path, record) = pull(Some(&hub), cache.path(), &name, "main").expect("there is room");
        assert_eq!(fs::read(&path).expect("fetched"), [7; 1000]);
        assert_eq!((record.commit.as_str(), record.files[0].bytes), ("1", 1000));
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
    }
}

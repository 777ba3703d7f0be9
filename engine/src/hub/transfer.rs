//! One file from a hub, from where an earlier fetch was cut short, and again when this one is.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest, Sha256};

use super::client::{Answer, Beginning, Download, Hub, Problem};
use super::pull::PulledFile;
use super::staging::Staging;

/// A file that is wanted, and what is known of it.
pub(super) struct Wanted<'a> {
    pub(super) repository: &'a str,
    pub(super) commit: &'a str,
    pub(super) name: &'a str,
    pub(super) size: Option<u64>,
    pub(super) sha256: Option<&'a str>,
}

/// Opens a file for writing, at its end or anew.
pub(super) type Open<'a> = &'a dyn Fn(&Path, Begin) -> io::Result<Box<dyn Write>>;

/// Where writing begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    /// With an empty file.
    Anew,
    /// Behind what is in it.
    AtEnd,
}

/// Opens files of the file system.
pub(super) fn open(path: &Path, begin: Begin) -> io::Result<Box<dyn Write>> {
    let file = match begin {
        Begin::Anew => File::create(path)?,
        Begin::AtEnd => File::options().append(true).open(path)?,
    };
    Ok(Box::new(file))
}

/// Whether the hub has answered a question of this fetch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Contact {
    /// So a connection that does not come about is one that broke.
    Made,
    /// So it may be the wrong address, or there is no network, which no waiting helps.
    New,
}

/// The longest time between two tries.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Fetches one file into the folder of whole files and checks it. When it breaks off, it is tried again after a while, which doubles;
/// that is told on standard error. Tries that brought more of the file than there ever was are not counted.
///
/// When it is given up, the beginning that has come stays where the next fetch finds it.
pub(super) fn transfer(
    hub: &Hub,
    wanted: &Wanted<'_>,
    staging: &Staging,
    open: Open<'_>,
    mut contact: Contact,
) -> Result<PulledFile, Problem> {
    let length = || fs::metadata(staging.parts().join(wanted.name)).map_or(0, |metadata| metadata.len());
    let (mut tries, mut longest) = (0, length());
    loop {
        let problem = match attempt(hub, wanted, staging, open) {
            Err(problem) => problem,
            done => return done,
        };
        if length() > longest {
            (tries, longest) = (0, length());
        }
        let wait = match &problem {
            Problem::Passing(_, wait) => wait.unwrap_or_default().max(waits(tries)),
            Problem::Unheard(_) if contact == Contact::Made => waits(tries),
            Problem::Unheard(_) | Problem::Lasting(_) => return Err(problem),
        };
        if tries == hub.retries() || wait > LONGEST_WAIT {
            return Err(problem);
        }
        (tries, contact) = (tries + 1, Contact::Made);
        let (said, all) = (problem.into_text(), hub.retries());
        // A fetch whose words nobody reads goes on.
        let _ = writeln!(io::stderr(), "{said}; trying again in {} s ({tries} of {all})", wait.as_secs_f64());
        thread::sleep(wait);
    }
}

/// How long a try waits after so many others: half a second, then twice as long each time.
fn waits(tries: u32) -> Duration {
    Duration::from_millis(500).saturating_mul(1 << tries.min(6))
}

/// Fetches one file as far as it comes.
fn attempt(hub: &Hub, wanted: &Wanted<'_>, staging: &Staging, open: Open<'_>) -> Result<PulledFile, Problem> {
    let name = wanted.name;
    let whole = staging.files().join(name);
    if let Ok((bytes, hasher)) = hash(&whole) {
        return checked(wanted, bytes, hasher);
    }
    let mut part = Part::of(staging, wanted);
    let answer = match part.beginning() {
        Some(beginning) if wanted.size != Some(beginning.bytes) => {
            Some(hub.download((wanted.repository, wanted.commit, name), Some(&beginning))?)
        }
        // Everything has come.
        Some(_) => None,
        None => Some(Answer::Changed),
    };
    let download = match answer {
        None => None,
        Some(Answer::Rest(download)) if wanted.size.is_none() || download.total == wanted.size => Some(download),
        Some(Answer::Whole(download)) => {
            part.forget();
            Some(download)
        }
        Some(Answer::Rest(_) | Answer::Changed) => {
            part.forget();
            match hub.download((wanted.repository, wanted.commit, name), None)? {
                Answer::Whole(download) => Some(download),
                // Nothing but the whole was asked for.
                Answer::Rest(_) | Answer::Changed => {
                    return Err(Problem::Lasting(format!(
                        "the hub sends a part of {name}, and the whole was asked for"
                    )));
                }
            }
        }
    };
    if let Some(download) = download {
        part.receive(hub, wanted, download, open)?;
    }
    let file = checked(wanted, part.bytes, part.hasher.clone())?;
    fs::rename(&part.path, &whole)
        .map_err(|error| Problem::Lasting(format!("cannot write to {}: {error}", whole.display())))?;
    Ok(file)
}

/// The file if it is what the hub says it is.
fn checked(wanted: &Wanted<'_>, bytes: u64, hasher: Sha256) -> Result<PulledFile, Problem> {
    let name = wanted.name;
    if let Some(size) = wanted.size.filter(|&size| size != bytes) {
        return Err(Problem::Lasting(format!("{name} has {bytes} bytes, and the hub says {size}")));
    }
    let sha256 = hexadecimal(&hasher.finalize());
    match wanted.sha256 {
        Some(right) if !right.eq_ignore_ascii_case(&sha256) => {
            Err(Problem::Lasting(format!("{name} has the SHA-256 {sha256}, and the hub says {right}")))
        }
        _ => Ok(PulledFile { name: name.to_owned(), bytes, sha256 }),
    }
}

/// The beginning of a file that has come so far.
struct Part {
    path: PathBuf,
    /// Where it is written what the hub calls the content.
    tag_path: PathBuf,
    tag: Option<String>,
    bytes: u64,
    hasher: Sha256,
}

impl Part {
    fn of(staging: &Staging, wanted: &Wanted<'_>) -> Self {
        let path = staging.parts().join(wanted.name);
        let tag_path = staging.parts().join(format!("{}.etag", wanted.name));
        let (bytes, hasher) = hash(&path).unwrap_or_default();
        let tag = fs::read_to_string(&tag_path).ok();
        let mut part = Self { path, tag_path, tag, bytes, hasher };
        if wanted.size.is_some_and(|size| part.bytes > size) {
            part.forget();
        }
        part
    }

    fn beginning(&self) -> Option<Beginning<'_>> {
        (self.bytes > 0).then_some(Beginning { bytes: self.bytes, tag: self.tag.as_deref() })
    }

    fn forget(&mut self) {
        // What cannot be removed is written over.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(&self.tag_path);
        (self.bytes, self.hasher, self.tag) = (0, Sha256::new(), None);
    }

    /// Writes what comes behind the beginning.
    fn receive(
        &mut self,
        hub: &Hub,
        wanted: &Wanted<'_>,
        mut download: Download,
        open: Open<'_>,
    ) -> Result<(), Problem> {
        let name = wanted.name;
        let total = wanted.size.or(download.total);
        let folder = self.path.with_file_name("");
        let cannot =
            |error: io::Error| Problem::Lasting(format!("cannot write {name} to {}: {error}", folder.display()));
        let begin = if self.bytes > 0 { Begin::AtEnd } else { Begin::Anew };
        let mut out = open(&self.path, begin).map_err(cannot)?;
        if let Some(tag) = download.tag.take().filter(|_| begin == Begin::Anew) {
            fs::write(&self.tag_path, &tag).map_err(cannot)?;
        }
        let bar = bar(name, total, self.bytes);
        let mut buffer = vec![0; 1 << 18];
        loop {
            let read = match download.reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    out.flush().map_err(cannot)?;
                    let of = total.map_or_else(String::new, |total| format!(" of {total}"));
                    return Err(Problem::passing(format!(
                        "{} breaks off after {}{of} bytes: {}",
                        download.url,
                        self.bytes,
                        hub.broken_off(&error)
                    )));
                }
            };
            self.bytes += read as u64;
            if let Some(size) = wanted.size.filter(|&size| self.bytes > size) {
                return Err(Problem::Lasting(format!("{name} has more than the {size} bytes that the hub says")));
            }
            out.write_all(&buffer[..read]).map_err(cannot)?;
            self.hasher.update(&buffer[..read]);
            bar.inc(read as u64);
        }
        out.flush().map_err(cannot)?;
        bar.finish_and_clear();
        Ok(())
    }
}

fn bar(name: &str, total: Option<u64>, begin: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec}");
    let bar = ProgressBar::new(total.unwrap_or(0)).with_style(style.expect("the template is a constant and correct"));
    bar.set_message(name.to_owned());
    bar.with_position(begin)
}

/// The length of a file, and what has read it.
fn hash(path: &Path) -> io::Result<(u64, Sha256)> {
    let mut file = File::open(path)?;
    let (mut bytes, mut hasher, mut buffer) = (0, Sha256::new(), vec![0; 1 << 18]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((bytes, hasher)),
            read => {
                bytes += read as u64;
                hasher.update(&buffer[..read]);
            }
        }
    }
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
    use crate::hub::Connection;

    /// Is interrupted before each byte.
    struct Interrupted {
        left: u8,
        is_next: bool,
    }

    impl Read for Interrupted {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.is_next = !self.is_next;
            if self.is_next {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if self.left == 0 {
                return Ok(0);
            }
            buffer[0] = self.left;
            self.left -= 1;
            Ok(1)
        }
    }

    #[test]
    fn a_read_that_is_interrupted_is_made_again() {
        let cache = tempfile::tempdir().expect("a folder");
        let staging = Staging::enter(cache.path(), "a").expect("a place");
        let hub = Hub::new("http://hub.example", None, Connection::default());
        let wanted = Wanted { repository: "a/b", commit: "1", name: "x", size: Some(3), sha256: None };
        let mut part = Part::of(&staging, &wanted);
        let reader = Box::new(Interrupted { left: 3, is_next: false });
        let download = Download { url: String::new(), reader, total: None, tag: None };
        assert!(part.receive(&hub, &wanted, download, &open).is_ok());
        assert_eq!(fs::read(staging.parts().join("x")).expect("written"), [3, 2, 1]);
    }

    #[test]
    fn a_try_waits_twice_as_long_each_time() {
        let waits: Vec<_> = [0, 1, 2, 5, 6, 7, u32::MAX].map(|tries| waits(tries).as_millis()).into();
        assert_eq!(waits, [500, 1000, 2000, 16_000, 32_000, 32_000, 32_000]);
    }
}

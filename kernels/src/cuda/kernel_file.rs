//! A compiled kernel in a file, which is trusted only as far as its hash says that it is whole.
//!
//! The file is text up to the messages of the compiler: the format, the SHA-256 of everything that follows, the key, what
//! it is for a human reader, and the lengths of messages and code, each on a line.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::nvrtc::{Compiled, Program, options, texts};
use super::target::Target;

/// The end of the names of these files.
pub(super) const EXTENSION: &str = "kernel";
const FORMAT: &str = "compiled kernel 1";

/// What a kernel is compiled from: source, headers, options and target, and perhaps by which compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KernelKey(String);

impl KernelKey {
    /// The key of a program for a target.
    pub(super) fn of(program: &Program, target: Target) -> Self {
        Self::of_texts(texts(&program.source), &options(program, target))
    }

    fn of_texts<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>, options: &[String]) -> Self {
        let mut digest = Sha256::new();
        let mut add = |field: &str| {
            // With its length, so that no two lists of fields are the same bytes.
            digest.update((field.len() as u64).to_le_bytes());
            digest.update(field);
        };
        add(FORMAT);
        for (name, text) in texts {
            add(name);
            add(text);
        }
        for option in options {
            add(option);
        }
        Self(hex(&digest.finalize()))
    }

    /// The key of the same as a certain compiler compiles it.
    pub(super) fn by(&self, compiler: &str) -> Self {
        Self(hex(&Sha256::digest(format!("{}\n{compiler}", self.0))))
    }

    /// Hexadecimal digits.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    pub(super) fn file_name(&self) -> String {
        format!("{}.{EXTENSION}", self.0)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Writes a file that a reader sees whole or not at all, whoever else writes it at the same time.
///
/// It is not flushed to the disk: what a crash leaves of it is found out by its hash.
pub(super) fn write(folder: &Path, key: &KernelKey, about: &str, compiled: &Compiled) -> io::Result<()> {
    let Compiled { code, log } = compiled;
    let mut content = format!("{}\n{}\n{} {}\n", key.0, about.replace('\n', " "), log.len(), code.len()).into_bytes();
    content.extend_from_slice(log.as_bytes());
    content.extend_from_slice(code);
    let mut scratch = Scratch::create(folder, key)?;
    write!(scratch.file, "{FORMAT}\n{}\n", hex(&Sha256::digest(&content)))?;
    scratch.file.write_all(&content)?;
    scratch.publish(&folder.join(key.file_name()))
}

/// Reads a file; none if it is not there, and what is wrong with it if it is not what was written.
pub(super) fn read(folder: &Path, key: &KernelKey) -> Result<Option<Compiled>, String> {
    let path = folder.join(key.file_name());
    let whole = || {
        // Asked before it is opened: opening a pipe waits for somebody who writes into it.
        if fs::metadata(&path)?.is_file() { fs::read(&path) } else { Err(io::Error::other("it is no file")) }
    };
    let bytes = match whole() {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(format!("it cannot be read: {error}")),
    };
    parse(&bytes, key).map(Some)
}

fn parse(bytes: &[u8], key: &KernelKey) -> Result<Compiled, String> {
    let (format, rest) = line(bytes).ok_or("it is cut short")?;
    if format != FORMAT {
        return Err("it is no compiled kernel".to_owned());
    }
    let (hash, content) = line(rest).ok_or("it is cut short")?;
    if hash != hex(&Sha256::digest(content)) {
        return Err("its hash is not that of its content".to_owned());
    }
    // From here on the file is as it was written, perhaps under another name.
    let (own_key, rest) = line(content).ok_or("it has no key")?;
    if own_key != key.0 {
        return Err("it holds another kernel".to_owned());
    }
    let (_about, rest) = line(rest).ok_or("it has no description")?;
    let (lengths, rest) = line(rest).ok_or("it has no lengths")?;
    let lengths = lengths.split_once(' ').and_then(|(log, code)| Some((log.parse().ok()?, code.parse().ok()?)));
    let (log, code): (usize, usize) = lengths.ok_or("it has no lengths")?;
    if log.checked_add(code) != Some(rest.len()) {
        return Err("its lengths are not those of its content".to_owned());
    }
    let (log, code) = rest.split_at(log);
    Ok(Compiled { code: code.to_owned(), log: String::from_utf8_lossy(log).into_owned() })
}

fn line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

/// A file of a name that nobody else uses, which goes away unless it is published.
struct Scratch {
    file: File,
    path: PathBuf,
    is_published: bool,
}

/// The end of the names of files that are being written.
pub(super) const SCRATCH_EXTENSION: &str = "partial";

impl Scratch {
    fn create(folder: &Path, key: &KernelKey) -> io::Result<Self> {
        for attempt in 0.. {
            let path = folder.join(format!("{}.{}.{attempt}.{SCRATCH_EXTENSION}", key.0, std::process::id()));
            match File::create_new(&path) {
                Ok(file) => return Ok(Self { file, path, is_published: false }),
                // Of another thread, or of a process of that number that ended while it wrote.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1000 => {}
                Err(error) => return Err(error),
            }
        }
        unreachable!("the loop ends by returning")
    }

    fn publish(mut self, name: &Path) -> io::Result<()> {
        fs::rename(&self.path, name)?;
        self.is_published = true;
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // After a rename, a file of this name is another writer's. One that cannot be removed is cleaned up later.
        if !self.is_published {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::cuda::{Architecture, KernelSource};

    fn program(text: &'static str, defines: &[(&'static str, usize)]) -> Program {
        Program { source: KernelSource { name: "a.cu", text: text.into() }, defines: defines.to_vec() }
    }

    fn compiled() -> Compiled {
        Compiled { code: vec![0, 1, 10, 255], log: "two\nlines".to_owned() }
    }

    #[test]
    fn everything_that_decides_the_code_decides_the_key() {
        let sm_80 = Target::Cubin(Architecture::of(8, 0));
        let base = KernelKey::of(&program("text", &[("A", 1)]), sm_80);
        assert_eq!(base, KernelKey::of(&program("text", &[("A", 1)]), sm_80));
        let others = [
            KernelKey::of(&program("text ", &[("A", 1)]), sm_80),
            KernelKey::of(&program("text", &[("A", 2)]), sm_80),
            KernelKey::of(&program("text", &[("B", 1)]), sm_80),
            KernelKey::of(&program("text", &[]), sm_80),
            KernelKey::of(&program("text", &[("A", 1)]), Target::Cubin(Architecture::of(9, 0))),
            KernelKey::of(&program("text", &[("A", 1)]), Target::Ptx),
            base.by("one compiler"),
            base.by("another"),
        ];
        for (index, other) in others.iter().enumerate() {
            assert!(*other != base && !others[..index].contains(other), "{index}");
        }
    }

    #[test]
    fn a_changed_header_is_another_key() {
        let source = program("text", &[]).source;
        let of = |texts: &[(&str, &str)]| KernelKey::of_texts(texts.iter().copied(), &[]);
        let whole: Vec<_> = texts(&source).collect();
        assert!(whole.len() > 1, "the headers are among the texts");
        for changed in 1..whole.len() {
            let edited = format!("{}\n", whole[changed].1);
            let mut other = whole.clone();
            other[changed].1 = &edited;
            assert_ne!(of(&other), of(&whole), "{}", whole[changed].0);
        }
    }

    #[test]
    fn a_file_gives_back_what_was_written_and_every_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let key = KernelKey::of(&program("text", &[]), Target::Ptx);
        assert!(read(folder.path(), &key).unwrap().is_none());
        write(folder.path(), &key, "a.cu\nfor ptx", &compiled()).unwrap();
        let found = read(folder.path(), &key).unwrap().unwrap();
        assert_eq!((found.code, found.log), (compiled().code, compiled().log));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");

        let path = folder.path().join(key.file_name());
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            assert!(parse(&whole[..length], &key).is_err(), "cut to {length} bytes");
        }
        for place in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[place] ^= 0x20;
            assert!(parse(&flipped, &key).is_err(), "byte {place} flipped");
        }
        assert!(parse(&[whole.clone(), vec![0]].concat(), &key).is_err(), "a byte more");
        assert!(parse(&whole, &key.by("a compiler")).is_err(), "another's name");
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let key = KernelKey::of(&program("text", &[]), Target::Ptx);
        let made = std::process::Command::new("mkfifo").arg(folder.path().join(key.file_name())).status();
        assert!(made.unwrap().success());
        assert_eq!(read(folder.path(), &key).unwrap_err(), "it cannot be read: it is no file");
    }

    /// A file is never written where a reader may find it: who has opened one that is written anew reads what was there.
    #[test]
    fn a_reader_sees_a_file_whole_whoever_writes_it_anew() {
        let folder = tempfile::tempdir().unwrap();
        let key = KernelKey::of(&program("text", &[]), Target::Ptx);
        let path = folder.path().join(key.file_name());
        write(folder.path(), &key, "a.cu", &compiled()).unwrap();
        let before = fs::read(&path).unwrap();
        let mut reader = File::open(&path).unwrap();
        let other = Compiled { code: vec![7; 5000], log: String::new() };
        write(folder.path(), &key, "a.cu", &other).unwrap();
        let mut seen = Vec::new();
        reader.read_to_end(&mut seen).unwrap();
        assert!(seen == before);
        assert_eq!(read(folder.path(), &key).unwrap().unwrap().code, other.code);
    }
}

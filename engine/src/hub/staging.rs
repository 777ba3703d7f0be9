//! Where a fetch gathers what comes until it is whole: a folder of the cache that outlives the fetch if it is cut short.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The folder of all unfinished fetches within a cache.
const FOLDER: &str = "partial";
const LOCK: &str = "lock";
const STATE: &str = "state";

/// The place of one fetch, for one process at a time.
///
/// Whole files are gathered in one folder and beginnings of files in another, beside their final place, so that the last
/// step is a rename within one file system. Dropped with both empty, it leaves nothing.
pub(crate) struct Staging {
    folder: PathBuf,
    _lock: File,
}

impl Staging {
    /// Enters the place called `key` of a cache; waits while another process is in it.
    pub(crate) fn enter(cache_dir: &Path, key: &str) -> Result<Self, String> {
        let folder = cache_dir.join(FOLDER).join(key);
        let cannot = |error: io::Error| format!("cannot write to the cache folder {}: {error}", cache_dir.display());
        let path = folder.join(LOCK);
        let open = || {
            fs::create_dir_all(&folder)?;
            File::options().create(true).truncate(false).write(true).open(&path)
        };
        let is_passing =
            |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists);
        let mut tries = 0;
        let lock = loop {
            match open() {
                Ok(lock) => {
                    wait_for(&lock, key);
                    if is_still_at(&lock, &path) {
                        break lock;
                    }
                }
                // Whoever was in it may have removed it just now, or while it was found to be there already.
                Err(error) if is_passing(&error) && tries < 100 => tries += 1,
                Err(error) => return Err(cannot(error)),
            }
        };
        let staging = Self { folder, _lock: lock };
        for folder in [staging.files(), staging.parts()] {
            fs::create_dir_all(&folder).map_err(cannot)?;
        }
        Ok(staging)
    }

    /// Keeps what is there if it was gathered for the same `state` of what is fetched.
    pub(crate) fn keep_if(&self, state: &str) -> io::Result<()> {
        let path = self.folder.join(STATE);
        if fs::read_to_string(&path).ok().as_deref() != Some(state) {
            self.clear()?;
            fs::write(&path, state)?;
        }
        Ok(())
    }

    /// Forgets everything that is there.
    pub(crate) fn clear(&self) -> io::Result<()> {
        for folder in [self.files(), self.parts()] {
            fs::remove_dir_all(&folder).or_else(|error| match error.kind() {
                // It became the final one.
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })?;
            fs::create_dir(&folder)?;
        }
        Ok(())
    }

    /// Where whole files are.
    pub(crate) fn files(&self) -> PathBuf {
        self.folder.join("files")
    }

    /// Where beginnings of files are.
    pub(crate) fn parts(&self) -> PathBuf {
        self.folder.join("parts")
    }

    /// A place for what another folder replaces; it is gone when this is.
    pub(crate) fn replaced(&self) -> PathBuf {
        self.folder.join("replaced")
    }

    /// A place to unpack something in; it is gone when this is.
    pub(crate) fn unpacked(&self) -> PathBuf {
        self.folder.join("unpacked")
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What cannot be removed is in nobody's way: the next fetch uses it or clears it.
        let _ = fs::remove_dir_all(self.replaced());
        let _ = fs::remove_dir_all(self.unpacked());
        let _ = fs::remove_dir(self.files());
        let _ = fs::remove_dir(self.parts());
        if !self.files().exists() && !self.parts().exists() {
            let _ = fs::remove_file(self.folder.join(STATE));
            let _ = fs::remove_file(self.folder.join(LOCK));
            let _ = fs::remove_dir(&self.folder);
            if let Some(all) = self.folder.parent() {
                let _ = fs::remove_dir(all);
            }
        }
    }
}

/// Takes the lock, after whoever has it. Where a file system has no locks there is nothing to wait for.
fn wait_for(lock: &File, key: &str) {
    if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
        let spinner = ProgressBar::new_spinner().with_message(format!("another process is fetching {key}"));
        let spinner = spinner.with_style(style.expect("the template is a constant and correct"));
        spinner.enable_steady_tick(Duration::from_millis(200));
        let _ = lock.lock();
        spinner.finish_and_clear();
    }
}

/// Whether a file is the one at `path`: another process may have removed it before its lock was free.
#[cfg(unix)]
fn is_still_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    fs::metadata(path).is_ok_and(|there| file.metadata().is_ok_and(|here| id(here) == id(there)))
}

/// A file that is open cannot be removed there.
#[cfg(not(unix))]
fn is_still_at(_: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    fn entries(folder: &Path) -> usize {
        fs::read_dir(folder).map_or(0, Iterator::count)
    }

    #[test]
    fn an_empty_place_leaves_nothing_and_a_full_one_what_is_in_it() {
        let cache = tempfile::tempdir().expect("a folder");
        let enter = || Staging::enter(cache.path(), "a").expect("a place");
        drop(enter());
        assert_eq!(entries(cache.path()), 0);

        let staging = enter();
        staging.keep_if("one").expect("written");
        fs::write(staging.parts().join("x"), "half").expect("written");
        drop(staging);
        let staging = enter();
        staging.keep_if("one").expect("written");
        assert_eq!(fs::read(staging.parts().join("x")).expect("kept"), b"half");
        staging.keep_if("another").expect("written");
        assert_eq!(entries(&staging.parts()), 0, "what belongs to another state is gone");
        // A whole file is kept with its state, though nothing is half done.
        fs::write(staging.files().join("x"), "whole").expect("written");
        drop(staging);
        let staging = enter();
        staging.keep_if("another").expect("written");
        assert_eq!(fs::read(staging.files().join("x")).expect("kept"), b"whole");
        staging.clear().expect("cleared");
        drop(staging);
        assert_eq!(entries(cache.path()), 0);
    }

    #[test]
    fn what_cannot_be_written_or_removed_is_told() {
        let cache = tempfile::tempdir().expect("a folder");
        let staging = Staging::enter(cache.path(), "a").expect("a place");
        let (state, parts) = (staging.folder.join(STATE), staging.parts());
        fs::create_dir(&state).expect("made");
        assert!(staging.keep_if("one").is_err(), "the state is a folder");
        fs::remove_dir(&state).expect("removed");
        fs::remove_dir(&parts).expect("removed");
        fs::write(&parts, "no folder").expect("written");
        assert!(staging.keep_if("one").is_err(), "what belongs to another state cannot be removed");
        assert!(!state.exists(), "and is not taken for what belongs to this one");
        fs::remove_dir_all(&staging.folder).expect("removed");
        assert!(staging.clear().is_err(), "nothing can be put there again");
    }

    #[cfg(unix)]
    #[test]
    fn a_lock_that_can_never_be_made_is_told() {
        let cache = tempfile::tempdir().expect("a folder");
        let folder = cache.path().join(FOLDER).join("a");
        fs::create_dir_all(&folder).expect("made");
        std::os::unix::fs::symlink("/nowhere/at/all", folder.join(LOCK)).expect("made");
        let problem = Staging::enter(cache.path(), "a").err().expect("it leads nowhere");
        assert!(problem.contains("cannot write to the cache folder"), "{problem}");
    }

    #[test]
    fn a_place_that_is_removed_while_it_is_entered_is_made_again() {
        let cache = tempfile::tempdir().expect("a folder");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        drop(Staging::enter(cache.path(), "a").expect("a place"));
                    }
                });
            }
        });
        assert_eq!(entries(cache.path()), 0);
    }

    #[test]
    fn a_lock_that_was_removed_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(LOCK);
        let lock = File::create(&path).expect("made");
        assert!(is_still_at(&lock, &path));
        fs::remove_file(&path).expect("removed");
        assert!(!is_still_at(&lock, &path));
        File::create(&path).expect("made");
        assert!(!is_still_at(&lock, &path), "it is another one");
    }

    #[test]
    fn one_is_in_it_at_a_time() {
        let cache = tempfile::tempdir().expect("a folder");
        let first = Staging::enter(cache.path(), "a").expect("a place");
        let (sender, receiver) = channel();
        thread::scope(|scope| {
            let folder = cache.path();
            for _ in 0..3 {
                let sender = sender.clone();
                scope.spawn(move || {
                    let staging = Staging::enter(folder, "a").expect("a place");
                    let mark = staging.folder.join("mark");
                    // Two at once would meet here.
                    assert!(File::create_new(&mark).is_ok(), "two are in it");
                    assert!(staging.folder.join(LOCK).exists(), "the next one would not wait");
                    fs::remove_file(&mark).expect("removed");
                    sender.send(()).expect("the test listens");
                });
            }
            // Some have begun to wait by then, for a lock that is removed with what it was for.
            thread::sleep(Duration::from_millis(50));
            assert!(receiver.try_recv().is_err(), "somebody did not wait");
            drop(first);
        });
        assert_eq!(receiver.try_iter().count(), 3);
        assert_eq!(entries(cache.path()), 0);
    }
}

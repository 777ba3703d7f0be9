//! New input for a published context: republish, reload, and a watch over its files.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use super::commit::{Past, Terms};
use super::layer::{Kind, Mode};
use super::{Context, DroppedOverride, Inner, Sources, lock};
use crate::error::{ConfigError, Errors};
use crate::loader::Loader;
use crate::resolved::Resolved;
use crate::schema::ConfigNamespaces;
use crate::table::Recompute;

/// What a republish does with the overrides in force.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outstanding {
    /// They stay in force over the new values.
    Carry,
    /// They end; their guards have nothing left to do.
    Drop,
}

impl<S: ConfigNamespaces> Context<S> {
    /// Replaces what was published, leaves of every class, and returns the overrides that were dropped.
    ///
    /// # Errors
    /// An override carried over or a child is not valid with the new values, a subscriber vetoes, or this context is
    /// a child, which follows its parent. Nothing has changed then.
    pub fn republish(&self, resolved: Resolved<S>, outstanding: Outstanding) -> Result<Vec<DroppedOverride>, Errors> {
        self.refuse_child("republish")?;
        let Resolved { record, facts, values, declared, .. } = resolved;
        let sources = Arc::new(Sources::of(record, facts, declared));
        let table = &self.0.shared.table;
        self.0.commit(|draft| {
            let mut dropped = Vec::new();
            if outstanding == Outstanding::Drop {
                let (kept, ended): (Vec<_>, Vec<_>) =
                    std::mem::take(&mut draft.layers).into_iter().partition(|layer| layer.kind == Kind::Child);
                draft.layers = kept;
                dropped.extend(ended.into_iter().map(|layer| DroppedOverride {
                    origin: layer.origin.to_string(),
                    leaves: layer.edit.iter().map(|(index, _)| table.entries[*index].info.path).collect(),
                }));
            }
            draft.base = values;
            draft.recompute = Recompute::Publish;
            draft.sources = Some(sources);
            let (what, persist) = ("republish".to_owned(), outstanding == Outstanding::Drop);
            Ok((dropped, Terms { mode: Mode::Refuse, what, persist, past: Past::New }))
        })
    }

    /// Reads the loader's sources again and takes over changed `hot` leaves.
    ///
    /// What was declared while loading stays declared. Returns the paths of the leaves whose input changed; with none
    /// there is no new epoch. Call it from a file watch ([`watch`](Self::watch)), a signal handler or an admin call.
    ///
    /// # Errors
    /// Anything wrong in any source, every changed leaf that needs a restart, or a veto. Nothing has changed then.
    pub fn reload(&self, loader: &Loader<S>) -> Result<Vec<&'static str>, Errors> {
        self.refuse_child("reload")?;
        let request = self.read_again(loader)?;
        let table = &self.0.shared.table;
        let result = self.0.commit(|draft| {
            let mut errors = Errors::default();
            errors.extend(request.fixed(table, &draft.base).into_iter().map(|fixed| fixed.error));
            errors.check(())?;
            request.draft(&self.0, draft)
        });
        match result {
            // Nothing to do is no error and makes no epoch.
            Err(errors) if errors.is_empty() => Ok(Vec::new()),
            Err(errors) => Err(errors),
            Ok(changed) => Ok(changed.into_iter().map(|index| table.entries[index].info.path).collect()),
        }
    }

    pub(super) fn refuse_child(&self, act: &str) -> Result<(), Errors> {
        if lock(&self.0.state).layers.iter().any(|layer| layer.kind == Kind::Child) {
            let problem = format!("a child context follows its parent; {act} the parent");
            return Err(ConfigError::new(problem).into());
        }
        Ok(())
    }

    /// Watches the loader's files and reloads when they have changed and come to rest.
    ///
    /// Looks at the files' content every `interval`, so it sees files replaced by rename, swapped symbolic links and
    /// mounted directories alike. `report` is told of every reload that changed something and of every failure once;
    /// after a failure the settings stay as they were. When the files are in order again it is told so, with no paths if
    /// nothing has changed. Ends when the guard or the context is dropped.
    ///
    /// # Errors
    /// The system gives no thread, or this context is a child, which follows its parent.
    pub fn watch(
        &self,
        loader: Loader<S>,
        interval: Duration,
        report: impl FnMut(Result<Vec<&'static str>, Errors>) + Send + 'static,
    ) -> std::io::Result<Watch> {
        self.refuse_child("watch").map_err(std::io::Error::other)?;
        let (stop, stopped) = mpsc::channel();
        let files = loader.files();
        // Looked at before this returns: what is emptied from now on is noticed, however late the thread starts.
        let whole = look(&files);
        let watcher = Watcher { context: Arc::downgrade(&self.0), files, whole, loader, report, reported: None };
        let thread = std::thread::Builder::new()
            .name("config-watch".to_owned())
            .spawn(move || watcher.run(interval, &stopped))?;
        Ok(Watch { stop: Some(stop), thread: Some(thread) })
    }
}

struct Watcher<S: ConfigNamespaces, F> {
    context: Weak<Inner<S>>,
    loader: Loader<S>,
    /// Files that the loader reads, includes and those it failed to read too.
    files: Vec<PathBuf>,
    /// What they held when they were last taken over.
    whole: Vec<(PathBuf, Look)>,
    report: F,
    /// The failure that was reported last, so that it is reported once.
    reported: Option<Errors>,
}

impl<S: ConfigNamespaces, F: FnMut(Result<Vec<&'static str>, Errors>)> Watcher<S, F> {
    fn run(mut self, interval: Duration, stopped: &mpsc::Receiver<()>) {
        // What was loaded may be older than the files are now, so the first look is a change.
        let mut taken: Option<Vec<(PathBuf, Look)>> = None;
        let mut last = Vec::new();
        while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            let found = look(&self.files);
            // A file still being written differs from one look to the next.
            let at_rest = found == last;
            last.clone_from(&found);
            if !at_rest || taken.as_ref() == Some(&found) {
                continue;
            }
            let Some(inner) = self.context.upgrade() else { return };
            let result = match self.emptied(&found) {
                Some(errors) => Err(errors),
                None => Context(inner).reload(&self.loader),
            };
            let files = self.loader.files();
            // Files that have come to be read were not looked at before they were read: they count as not taken yet.
            taken = (files == self.files).then(|| found.clone());
            self.files = files;
            if result.is_ok() {
                self.whole = found;
            }
            self.tell(result);
        }
    }

    fn tell(&mut self, result: Result<Vec<&'static str>, Errors>) {
        let failure = result.as_ref().err().cloned();
        let is_news = match &result {
            Ok(changed) => !changed.is_empty() || self.reported.is_some(),
            Err(errors) => self.reported.as_ref() != Some(errors),
        };
        self.reported = failure;
        if is_news {
            // A panic of the program's function has been printed by the panic hook; the watch goes on.
            let _ = crate::guard::catch(|| (self.report)(result));
        }
    }

    /// A file that held something and is empty now was cut off by its writer: many first empty a file, then fill it.
    fn emptied(&self, now: &[(PathBuf, Look)]) -> Option<Errors> {
        let mut errors = Errors::default();
        for (file, _) in now.iter().filter(|(_, look)| *look == Look::Empty) {
            if self.whole.iter().any(|(before, look)| before == file && matches!(look, Look::Content(_))) {
                let problem = "the file is empty, which is taken for half-written; nothing is reloaded";
                errors.push(ConfigError::new(problem).at(file.display()));
            }
        }
        (!errors.is_empty()).then_some(errors)
    }
}

/// What a look at a file found. Compared within this process only.
#[derive(Clone, PartialEq)]
enum Look {
    Content(u64),
    Empty,
    Unreadable(std::io::ErrorKind),
}

fn look(files: &[PathBuf]) -> Vec<(PathBuf, Look)> {
    let one = |file: &PathBuf| match std::fs::read(file) {
        Ok(content) if content.trim_ascii().is_empty() => Look::Empty,
        Ok(content) => {
            let mut hasher = DefaultHasher::new();
            content.hash(&mut hasher);
            Look::Content(hasher.finish())
        }
        Err(error) => Look::Unreadable(error.kind()),
    };
    files.iter().map(|file| (file.clone(), one(file))).collect()
}

/// Guard of [`Context::watch`]; dropping it ends the watch and waits for its thread.
#[must_use = "the watch ends when this guard is dropped"]
pub struct Watch {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic in `report` has been printed by its thread.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

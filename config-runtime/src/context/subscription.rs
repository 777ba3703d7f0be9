//! Subscribers: they may veto a change, are told of it, and acknowledge that they applied it.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use super::epoch::Epoch;
use super::{Context, Inner, Pinned, lock};
use crate::role::Everything;
use crate::schema::{ConfigNamespaces, Key};

/// Says why a change from one epoch to the next must not happen.
type Veto<S> = Arc<dyn Fn(&Pinned<S>, &Pinned<S>) -> Result<(), String> + Send + Sync>;

/// The subscribers of one context, in order of subscription.
pub(super) struct Subscribers<S: ConfigNamespaces> {
    list: Mutex<List<S>>,
    told: Condvar,
}

struct List<S: ConfigNamespaces> {
    next: u64,
    members: Vec<Member<S>>,
    lost: VecDeque<Lost>,
}

/// A subscriber that a panic took away before it had applied what it was told.
struct Lost {
    name: String,
    applied: u64,
    /// The newest epoch then: later ones it was never told of.
    told: u64,
}

/// Lost subscribers that are remembered.
const LOST: usize = 64;

struct Member<S: ConfigNamespaces> {
    id: u64,
    name: String,
    /// The last epoch it says it applied.
    applied: u64,
    veto: Option<Veto<S>>,
    waker: Option<Waker>,
}

impl<S: ConfigNamespaces> Default for Subscribers<S> {
    fn default() -> Self {
        Self { list: Mutex::new(List { next: 0, members: Vec::new(), lost: VecDeque::new() }), told: Condvar::new() }
    }
}

impl<S: ConfigNamespaces> Drop for Subscribers<S> {
    fn drop(&mut self) {
        // The context is gone: who waits for its next epoch is told that there will be none.
        self.tell();
    }
}

impl<S: ConfigNamespaces> Subscribers<S> {
    pub(super) fn vetoes(&self) -> Vec<(String, Veto<S>)> {
        let list = lock(&self.list);
        list.members.iter().filter_map(|member| Some((member.name.clone(), member.veto.clone()?))).collect()
    }

    /// Wakes everybody who waits, in order of subscription.
    pub(super) fn tell(&self) {
        let wakers: Vec<_> = lock(&self.list).members.iter_mut().filter_map(|member| member.waker.take()).collect();
        self.told.notify_all();
        for waker in wakers {
            waker.wake();
        }
    }

    fn with<T>(&self, id: u64, act: impl FnOnce(&mut Member<S>) -> T) -> Option<T> {
        lock(&self.list).members.iter_mut().find(|member| member.id == id).map(act)
    }

    /// Names of those who have not applied `epoch` and may do so yet.
    fn behind(list: &List<S>, epoch: u64) -> Vec<String> {
        list.members.iter().filter(|member| member.applied < epoch).map(|member| member.name.clone()).collect()
    }

    /// Those who never will.
    fn lost(list: &List<S>, epoch: u64) -> impl Iterator<Item = String> {
        let lost = list.lost.iter().filter(move |lost| lost.applied < epoch && epoch <= lost.told);
        lost.map(|lost| format!("{} (panicked)", lost.name))
    }
}

impl<S: ConfigNamespaces> Context<S> {
    /// Subscribes to changes; the current epoch counts as applied.
    ///
    /// A subscriber may be told of several epochs at once: only the newest is kept.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use kitbag::ConfigNamespaces;
    /// # #[derive(ConfigNamespaces)]
    /// # struct Args {
    /// #     /// Jobs that may wait.
    /// #     #[config(ns = "pool", default = 32, hot)]
    /// #     queue: usize,
    /// # }
    /// let cfg = Args::for_test(|_| {});
    /// let mut pool = cfg.subscribe("pool");
    /// cfg.override_permanently("grow", |o| o.pool().queue(64))?;
    /// let update = pool.wait(Duration::from_secs(1)).expect("told");
    /// assert!(update.changed(&Args::keys().pool.queue));
    /// assert!(update.pin().pool().queue() == 64); // resize, then say so:
    /// pool.acknowledge(&update);
    /// cfg.wait_applied(cfg.epoch(), Duration::from_secs(1)).expect("applied by all");
    /// # Ok::<(), kitbag::Errors>(())
    /// ```
    pub fn subscribe(&self, name: &str) -> Subscription<S> {
        self.add_subscriber(name, None)
    }

    /// Subscribes with a say: `veto` sees the pinned epochs before and after every change, and an error refuses it.
    ///
    /// It runs inside the commit, so it should be quick, and looks only: a change of the same context from there is refused
    /// at once, and one from a thread that it waits for after a while ([`set_patience`](Self::set_patience)). It is not
    /// asked about a change that leaves every value as it is, nor about the end of an override, which always succeeds.
    pub fn subscribe_with_veto(
        &self,
        name: &str,
        veto: impl Fn(&S::Pin<Everything>, &S::Pin<Everything>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Subscription<S> {
        let veto: Veto<S> = Arc::new(move |old, new| veto(&S::Pin::from(old.clone()), &S::Pin::from(new.clone())));
        self.add_subscriber(name, Some(veto))
    }

    fn add_subscriber(&self, name: &str, veto: Option<Veto<S>>) -> Subscription<S> {
        let mut list = lock(&self.0.subscribers.list);
        let seen = self.0.current.load();
        let id = list.next;
        list.next += 1;
        list.members.push(Member { id, name: name.to_owned(), applied: seen.number, veto, waker: None });
        Subscription { context: Arc::downgrade(&self.0), id, seen }
    }

    /// Waits until every subscriber has acknowledged `epoch` or a newer one.
    ///
    /// A subscription that was dropped is not waited for: who has gone holds nothing built from the settings any more.
    /// Only if a panic dropped it before it had acknowledged, what it had built may be anywhere, half applied: it is named
    /// as one that has not, for every epoch up to the one that was current then.
    ///
    /// # Errors
    /// The names of those who have not within `timeout`.
    pub fn wait_applied(&self, epoch: u64, timeout: Duration) -> Result<(), Vec<String>> {
        let subscribers = &self.0.subscribers;
        let list = lock(&subscribers.list);
        let waits = |list: &mut List<S>| !Subscribers::behind(list, epoch).is_empty();
        let (list, _) =
            subscribers.told.wait_timeout_while(list, timeout, waits).unwrap_or_else(PoisonError::into_inner);
        let mut behind = Subscribers::behind(&list, epoch);
        behind.extend(Subscribers::lost(&list, epoch));
        if behind.is_empty() { Ok(()) } else { Err(behind) }
    }
}

/// A subscriber's end. It does not keep the context alive.
///
/// Dropping it ends the subscription: it is not asked, told or waited for any longer. Keep it for as long as anything
/// built from the settings is in use; [`wait_applied`](Context::wait_applied) says what a panic does.
#[must_use = "a subscription ends when it is dropped"]
pub struct Subscription<S: ConfigNamespaces> {
    context: Weak<Inner<S>>,
    id: u64,
    /// The epoch that changes are counted from.
    seen: Arc<Epoch<S>>,
}

impl<S: ConfigNamespaces> Subscription<S> {
    /// The newest epoch, if it is not yet acknowledged; waits for one for at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Option<Update<S>> {
        let inner = self.context.upgrade()?;
        // A time-out too far to be a point in time is none.
        let deadline = Instant::now().checked_add(timeout);
        let mut list = lock(&inner.subscribers.list);
        loop {
            if let Some(update) = self.update(&inner) {
                return Some(update);
            }
            let told = &inner.subscribers.told;
            list = match deadline {
                Some(deadline) => {
                    let left = deadline.checked_duration_since(Instant::now())?;
                    told.wait_timeout(list, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => told.wait(list).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// The newest epoch that is not yet acknowledged, as soon as there is one; `None` once the context is gone.
    pub async fn next(&mut self) -> Option<Update<S>> {
        poll_fn(|task| {
            let Some(inner) = self.context.upgrade() else { return Poll::Ready(None) };
            // Registered first: a change between the two is then seen by one of them.
            // What is replaced goes outside the lock: the last waker of a task takes the task along.
            let waker = task.waker().clone();
            let replaced = inner.subscribers.with(self.id, |member| member.waker.replace(waker));
            drop(replaced);
            self.update(&inner).map_or(Poll::Pending, |update| Poll::Ready(Some(update)))
        })
        .await
    }

    fn update(&self, inner: &Arc<Inner<S>>) -> Option<Update<S>> {
        if inner.current.number() == self.seen.number {
            return None;
        }
        let context = Weak::clone(&self.context);
        Some(Update { context, old: Arc::clone(&self.seen), new: inner.current.load() })
    }

    /// Says that everything up to this update is applied. An update of another context says nothing of this one and is
    /// not counted.
    pub fn acknowledge(&mut self, update: &Update<S>) {
        if !Weak::ptr_eq(&self.context, &update.context) {
            return;
        }
        self.seen = Arc::clone(&update.new);
        let Some(inner) = self.context.upgrade() else { return };
        inner.subscribers.with(self.id, |member| member.applied = member.applied.max(update.new.number));
        inner.subscribers.told.notify_all();
    }
}

impl<S: ConfigNamespaces> Drop for Subscription<S> {
    fn drop(&mut self) {
        let Some(inner) = self.context.upgrade() else { return };
        let removed = {
            let mut list = lock(&inner.subscribers.list);
            let position = list.members.iter().position(|member| member.id == self.id);
            let removed = position.map(|position| list.members.remove(position));
            let told = inner.current.number();
            if let Some(member) = &removed
                && std::thread::panicking()
                && member.applied < told
            {
                if list.lost.len() == LOST {
                    list.lost.pop_front();
                }
                list.lost.push_back(Lost { name: member.name.clone(), applied: member.applied, told });
            }
            removed
        };
        // Its veto may own anything; it goes outside the lock. Who waits for this subscriber need not any longer.
        drop(removed);
        inner.subscribers.told.notify_all();
    }
}

impl<S: ConfigNamespaces> fmt::Debug for Subscription<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscription({}, seen epoch {})", self.id, self.seen.number)
    }
}

/// What a subscriber is told: the newest epoch, and what changed since it last acknowledged.
pub struct Update<S: ConfigNamespaces> {
    context: Weak<Inner<S>>,
    old: Arc<Epoch<S>>,
    new: Arc<Epoch<S>>,
}

impl<S: ConfigNamespaces> Update<S> {
    /// The newest epoch.
    #[must_use]
    pub fn pin(&self) -> S::Pin<Everything> {
        S::Pin::from(Pinned(Arc::clone(&self.new)))
    }

    /// Its number.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.new.number
    }

    /// Whether this leaf's value differs from the one last acknowledged.
    #[must_use]
    pub fn changed<T, P>(&self, key: &Key<S, T, P>) -> bool {
        let index = key.index();
        !self.old.values[index].same(&*self.new.values[index])
    }
}

impl<S: ConfigNamespaces> fmt::Debug for Update<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Update(epoch {} -> {})", self.old.number, self.new.number)
    }
}

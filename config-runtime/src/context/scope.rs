//! Overrides that one thread or one future sees.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context as TaskContext, Poll};

use pin_project_lite::pin_project;

use super::epoch::Epoch;
use super::layer::{Before, Kind, Layer, Mode, solve};
use super::overrides::collect;
use super::{Context, Inner, OneThread, lock};
use crate::edit::ScopedOverride;
use crate::error::{ConfigError, Errors};
use crate::facts::Facts;
use crate::leaf::Erased;
use crate::origin::Origin;
use crate::resolved::check_ranges;
use crate::schema::ConfigNamespaces;
use crate::table::Recompute;

/// One scoped override: its layer, and the epoch last seen through it.
struct ScopeState<S: ConfigNamespaces> {
    /// Keeps the address of the context from being used again while the scope lives.
    context: Weak<Inner<S>>,
    layer: Layer,
    cache: Mutex<Option<Overlay<S>>>,
}

/// An epoch as seen through scopes: valid for one engine-wide epoch and one stack of scopes.
struct Overlay<S: ConfigNamespaces> {
    under: u64,
    through: Vec<u64>,
    epoch: Arc<Epoch<S>>,
}

/// A scope in force on this thread.
struct Frame {
    /// Tells this entry from others of the same scope, for removal in any order.
    entry: u64,
    /// Number of the scope.
    scope: u64,
    /// Address of the context.
    context: *const (),
    /// An `Arc<ScopeState<S>>`.
    state: Box<dyn Any>,
}

thread_local! {
    /// Scopes in force on this thread, innermost last.
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
    /// How many there are. Nothing of it has to be dropped with the thread, so a look at it is a load: that is all that
    /// scopes cost a read where there are none.
    static IN_FORCE: Cell<usize> = const { Cell::new(0) };
}

fn any_in_force() -> bool {
    IN_FORCE.get() != 0
}

/// Numbers of scopes and of their entries. Only identity matters, so one counter serves every context.
static NEXT: AtomicU64 = AtomicU64::new(0);

fn number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn address<S: ConfigNamespaces>(inner: &Arc<Inner<S>>) -> *const () {
    Arc::as_ptr(inner).cast()
}

/// Puts a scope in force on this thread; `None` in a thread's last moments, when its list is gone.
fn enter<S: ConfigNamespaces>(state: &Arc<ScopeState<S>>) -> Option<Entry> {
    let entry = number();
    let frame = Frame {
        entry,
        scope: state.layer.id,
        context: state.context.as_ptr().cast(),
        state: Box::new(Arc::clone(state)),
    };
    FRAMES.try_with(|frames| frames.borrow_mut().push(frame)).ok()?;
    IN_FORCE.set(IN_FORCE.get() + 1);
    Some(Entry(entry))
}

/// Takes a frame away when dropped, also while panicking.
struct Entry(u64);

impl Drop for Entry {
    fn drop(&mut self) {
        // While the thread ends its list may be gone already. The state is dropped outside the borrow.
        let removed = FRAMES.try_with(|frames| {
            let mut frames = frames.borrow_mut();
            let position = frames.iter().rposition(|frame| frame.entry == self.0);
            IN_FORCE.set(frames.len() - usize::from(position.is_some()));
            position.map(|position| frames.remove(position))
        });
        drop(removed);
    }
}

/// The scopes of a context in force on this thread, outermost first.
fn scopes<S: ConfigNamespaces>(inner: &Arc<Inner<S>>) -> Vec<Arc<ScopeState<S>>> {
    let context = address(inner);
    let found = FRAMES.try_with(|frames| {
        let frames = frames.borrow();
        let own = frames.iter().filter(|frame| std::ptr::eq(frame.context, context));
        own.filter_map(|frame| frame.state.downcast_ref::<Arc<ScopeState<S>>>().cloned()).collect()
    });
    found.unwrap_or_default()
}

fn before<'a, S: ConfigNamespaces>(epoch: &'a Epoch<S>, facts: &'a Facts) -> Before<'a> {
    Before { base: &epoch.values, facts, values: &epoch.values }
}

/// The layers of those scopes over an epoch, for explain.
pub(super) fn layers<S: ConfigNamespaces>(inner: &Arc<Inner<S>>, current: &Epoch<S>, facts: &Facts) -> Vec<Layer> {
    let scopes = scopes(inner);
    let mut layers: Vec<_> = scopes.iter().map(|scope| scope.layer.clone()).collect();
    if layers.is_empty() {
        return layers;
    }
    // An error leaves all as they are: then none is effective.
    let _ = solve(&inner.shared, &before(current, facts), &mut layers, Mode::Suspend, Recompute::Live);
    layers
}

/// The epoch that `current` gives as seen through this thread's scopes; `None` if there are none.
#[inline]
pub(super) fn overlaid<S: ConfigNamespaces>(
    inner: &Arc<Inner<S>>,
    current: impl FnOnce() -> Arc<Epoch<S>>,
) -> Option<Arc<Epoch<S>>> {
    if !any_in_force() {
        return None;
    }
    overlaid_by_these(inner, current)
}

/// Away from the usual case, in which no scope is in force.
#[cold]
fn overlaid_by_these<S: ConfigNamespaces>(
    inner: &Arc<Inner<S>>,
    current: impl FnOnce() -> Arc<Epoch<S>>,
) -> Option<Arc<Epoch<S>>> {
    let context = address(inner);
    let through: Vec<u64> = FRAMES
        .try_with(|frames| {
            let frames = frames.borrow();
            frames.iter().filter(|frame| std::ptr::eq(frame.context, context)).map(|frame| frame.scope).collect()
        })
        .unwrap_or_default();
    if through.is_empty() {
        return None;
    }
    let scopes = scopes(inner);
    let innermost = scopes.last()?;
    let current = current();
    if let Some(overlay) = &*lock(&innermost.cache)
        && overlay.under == current.number
        && overlay.through == through
    {
        return Some(Arc::clone(&overlay.epoch));
    }
    let mut layers: Vec<_> = scopes.iter().map(|scope| scope.layer.clone()).collect();
    // A scope that no longer fits what changed below it is set aside; what changed below was valid without it.
    let facts = &inner.shared.sources().facts;
    let values = solve(&inner.shared, &before(&current, facts), &mut layers, Mode::Suspend, Recompute::Live).ok()?;
    let epoch = Arc::new(current.next(current.number, values));
    // Rules have run, and what is replaced goes, outside the lock: they are code of the program.
    let overlay = Overlay { under: current.number, through, epoch: Arc::clone(&epoch) };
    let replaced = lock(&innermost.cache).replace(overlay);
    drop(replaced);
    Some(epoch)
}

impl<S: ConfigNamespaces> Context<S> {
    /// Overrides `hot` leaves for this thread until the guard is dropped; seen by [`pin`](Self::pin).
    ///
    /// The guard cannot leave its thread, so it cannot be held across an `.await` of a task that may move. Guards may
    /// be dropped in any order. Changes of the context show through unless shadowed.
    ///
    /// # Errors
    /// A value out of range, a broken cross-field rule, or the thread is ending.
    #[track_caller]
    pub fn override_thread(
        &self,
        why: &str,
        set: impl FnOnce(&mut S::Setters<ScopedOverride>),
    ) -> Result<ThreadOverride, Errors> {
        let state = self.scope_state(why, Location::caller(), collect::<S, _>(set))?;
        let ending = || ConfigError::new("this thread is ending, so nothing can be overridden for it").at(why);
        Ok(ThreadOverride { entry: enter(&state).ok_or_else(ending)?, thread: PhantomData })
    }

    /// Overrides `hot` leaves while `future` runs, on whatever thread it is polled; seen by [`pin`](Self::pin).
    ///
    /// A task spawned inside does not inherit the override: hand it over with [`carry`](Self::carry).
    ///
    /// # Errors
    /// A value out of range or a broken cross-field rule.
    #[track_caller]
    pub fn scope<F: Future>(
        &self,
        why: &str,
        set: impl FnOnce(&mut S::Setters<ScopedOverride>),
        future: F,
    ) -> Result<Scoped<S, F>, Errors> {
        let state = self.scope_state(why, Location::caller(), collect::<S, _>(set))?;
        Ok(Scoped { states: vec![state], future })
    }

    /// Gives `future` the scoped overrides that are in force here, to be spawned on its own.
    pub fn carry<F: Future>(&self, future: F) -> Scoped<S, F> {
        Scoped { states: scopes(&self.0), future }
    }

    fn scope_state(
        &self,
        why: &str,
        location: &'static Location<'static>,
        edit: Vec<(usize, Erased)>,
    ) -> Result<Arc<ScopeState<S>>, Errors> {
        let id = number();
        let origin = Origin::Scope { why: why.to_owned(), location };
        let shared = &self.0.shared;
        check_ranges(&shared.table, &edit, &origin)?;
        let layer = Layer::new(id, Kind::Scope, origin, edit);
        let below = self.pinned();
        let facts = &shared.sources().facts;
        solve(shared, &before(&below.0, facts), &mut [layer.clone()], Mode::Refuse, Recompute::Live)?;
        Ok(Arc::new(ScopeState { context: Arc::downgrade(&self.0), layer, cache: Mutex::default() }))
    }
}

/// Guard of [`Context::override_thread`]; the override ends when it is dropped. Bound to its thread.
#[must_use = "the override ends when this guard is dropped"]
pub struct ThreadOverride {
    entry: Entry,
    thread: OneThread,
}

impl fmt::Debug for ThreadOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ThreadOverride({})", self.entry.0)
    }
}

pin_project! {
    /// A future that runs under scoped overrides: in force during each poll, gone after it.
    #[must_use = "futures do nothing unless polled"]
    pub struct Scoped<S: ConfigNamespaces, F> {
        states: Vec<Arc<ScopeState<S>>>,
        #[pin]
        future: F,
    }
}

impl<S: ConfigNamespaces, F: Future> Future for Scoped<S, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _entries: Vec<_> = this.states.iter().filter_map(enter).collect();
        this.future.poll(task)
    }
}

impl<S: ConfigNamespaces, F> fmt::Debug for Scoped<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scoped({} overrides)", self.states.len())
    }
}

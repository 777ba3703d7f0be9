//! A current context, for code that cannot be handed one.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

use super::{Context, OneThread};
use crate::error::{ConfigError, Errors};
use crate::schema::ConfigNamespaces;

/// Contexts entered on a thread, innermost last, each with the number of its guard.
struct Stack {
    next: u64,
    entered: Vec<(u64, Box<dyn Any>)>,
}

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack { next: 0, entered: Vec::new() }) };
}

impl<S: ConfigNamespaces> Context<S> {
    /// Makes this the current context of this thread until the guard is dropped.
    ///
    /// For callbacks that cannot be handed a context; everything else takes one as an argument.
    ///
    /// ```
    /// # use kitbag::{ConfigNamespaces, Context};
    /// # #[derive(ConfigNamespaces)]
    /// # struct Args {
    /// #     /// Jobs that may wait.
    /// #     #[config(ns = "pool", default = 32)]
    /// #     queue: usize,
    /// # }
    /// let cfg = Args::for_test(|_| {});
    /// assert!(Context::<Args>::current().is_err()); // there is no default
    /// let entered = cfg.enter();
    /// assert_eq!(Context::<Args>::current()?.pin().pool().queue(), 32);
    /// drop(entered);
    /// # Ok::<(), kitbag::Errors>(())
    /// ```
    pub fn enter(&self) -> Entered {
        // In a thread's last moments its list is gone: then nothing is current, as `current` says.
        let id = STACK.try_with(|stack| {
            let stack = &mut *stack.borrow_mut();
            stack.next += 1;
            stack.entered.push((stack.next, Box::new(self.clone())));
            stack.next
        });
        Entered { id: id.unwrap_or_default(), thread: PhantomData }
    }

    /// The context of this schema that was entered last on this thread.
    ///
    /// # Errors
    /// There is none; it never falls back to defaults.
    pub fn current() -> Result<Self, Errors> {
        let found = STACK.try_with(|stack| {
            let stack = stack.borrow();
            stack.entered.iter().rev().find_map(|(_, context)| context.downcast_ref::<Self>().cloned())
        });
        found.ok().flatten().ok_or_else(|| {
            let schema = std::any::type_name::<S>();
            let namespaces: Vec<_> = S::schema().children.iter().map(|namespace| namespace.path).collect();
            let problem = format!("nothing is published here for `{schema}` (namespaces {})", namespaces.join(", "));
            let hint = "publish with `load()` and hold `context.enter()` on this thread, or pass the context in";
            Errors::from(ConfigError::new(problem).hint(Some(hint.to_owned())))
        })
    }
}

/// Guard of [`Context::enter`]. Bound to its thread.
#[must_use = "the context is current only while this guard is held"]
pub struct Entered {
    id: u64,
    thread: OneThread,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // While the thread ends its list may be gone already. The context is dropped outside the borrow.
        let removed = STACK.try_with(|stack| {
            let entered = &mut stack.borrow_mut().entered;
            let position = entered.iter().position(|(id, _)| *id == self.id);
            position.map(|position| entered.remove(position))
        });
        drop(removed);
    }
}

impl fmt::Debug for Entered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entered({})", self.id)
    }
}

//! The process's one driver.
//!
//! A C interface hands out no object that could hold this state, so it is global: one driver behind one lock, and each
//! thread's current context. Everything else in this crate gets what it works on from here.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ptx_emu::Memory;

use crate::code::{Answer, Code};
use crate::console::Console;
use crate::context::Context;
use crate::order::Order;

static DRIVER: Mutex<Driver> = Mutex::new(Driver::new());

thread_local! {
    /// The number of the context that is current on a thread; 0 is none.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// The driver's state.
pub(crate) struct Driver {
    initialised: bool,
    /// References to the primary context, which is destroyed with the last.
    retained: usize,
    primary: Option<Context>,
    /// The number of the latest primary context. A destroyed one's number is not used again.
    generation: usize,
    pub(crate) console: Console,
}

impl Driver {
    const fn new() -> Self {
        Self { initialised: false, retained: 0, primary: None, generation: 0, console: Console::new() }
    }

    pub(crate) fn initialise(&mut self) {
        self.initialised = true;
    }

    /// There is one device, number 0.
    pub(crate) fn check_device(&self, device: i32) -> Answer {
        if !self.initialised {
            Err(Code::NOT_INITIALIZED)
        } else if device == 0 {
            Ok(())
        } else {
            Err(Code::INVALID_DEVICE)
        }
    }

    /// Takes a reference to the primary context, which is made if there is none, and gives its number.
    pub(crate) fn retain(&mut self) -> usize {
        if self.primary.is_none() {
            self.generation += 1;
            self.primary = Some(Context::new(Memory::with_capacity(self.memory())));
        }
        self.retained += 1;
        self.generation
    }

    /// Gives a reference back; the last destroys the context with all it holds, a failure that sticks included.
    pub(crate) fn release(&mut self) -> Answer {
        self.retained = self.retained.checked_sub(1).ok_or(Code::INVALID_CONTEXT)?;
        if self.retained == 0 {
            self.primary = None;
        }
        Ok(())
    }

    /// Work that is submitted from now on waits until something waits for it, in an order that follows from the seed;
    /// without one it is done at once, as what has waited so far is now.
    pub(crate) fn defer(&mut self, seed: Option<u64>) {
        self.console.order = seed.map(Order::new);
        if let Some(context) = &mut self.primary {
            context.unless_deferred(&mut self.console);
        }
    }

    /// Bytes of the device's memory.
    pub(crate) fn memory(&self) -> u64 {
        self.console.memory.unwrap_or_else(|| Memory::default().capacity())
    }

    /// The device has so much memory from now on, or as much as at first; what is taken stays taken.
    pub(crate) fn set_memory(&mut self, bytes: Option<u64>) {
        self.console.memory = bytes;
        let bytes = self.memory();
        if let Some(context) = &mut self.primary {
            context.memory.set_capacity(bytes);
        }
    }

    /// The context that is current on this thread, and what tests set and read.
    pub(crate) fn current(&mut self) -> Answer<(&mut Context, &mut Console)> {
        if !self.initialised {
            return Err(Code::NOT_INITIALIZED);
        }
        let is_current = current() == self.generation;
        let context = self.primary.as_mut().filter(|_| is_current);
        context.map(|context| (context, &mut self.console)).ok_or(Code::INVALID_CONTEXT)
    }
}

/// The driver, for this call alone.
pub(crate) fn driver() -> MutexGuard<'static, Driver> {
    // A panic elsewhere must not hide what it was about behind a second one.
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of this thread's current context, 0 if it has none.
pub(crate) fn current() -> usize {
    CURRENT.get()
}

/// Makes a context current on this thread; 0 is none.
pub(crate) fn set_current(number: usize) -> Answer {
    if number > driver().generation {
        return Err(Code::INVALID_CONTEXT);
    }
    CURRENT.set(number);
    Ok(())
}

/// Does something in this thread's current context, unless an earlier failure stuck to it.
pub(crate) fn in_context<T>(action: impl FnOnce(&mut Context, &mut Console) -> Answer<T>) -> Answer<T> {
    let mut driver = driver();
    let (context, console) = driver.current()?;
    context.check()?;
    action(context, console)
}

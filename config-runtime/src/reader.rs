//! What a rule, a derived value or a cross-field check reads its inputs from.

use std::cell::RefCell;

use crate::facts::Facts;
use crate::leaf::{Erased, Leaf, reveal};
use crate::schema::Key;

/// The inputs of a computation: values by typed key, and the machine's facts. Notes what was read.
pub struct Inputs<'a> {
    values: Values<'a>,
    /// Index of the first leaf of the namespace that declares the computation; its keys count from there.
    offset: usize,
    facts: &'a Facts,
    read: RefCell<Vec<usize>>,
}

/// The values of all leaves: while they are being settled, or afterwards.
#[derive(Clone, Copy)]
pub(crate) enum Values<'a> {
    Partial(&'a [Option<Erased>]),
    Settled(&'a [Erased]),
}

impl<'a> Inputs<'a> {
    pub(crate) fn new(values: Values<'a>, offset: usize, facts: &'a Facts) -> Self {
        Self { values, offset, facts, read: RefCell::default() }
    }

    /// The value of a leaf as its accessor would give it.
    ///
    /// # Panics
    /// If the leaf has no value yet, which the order of evaluation rules out.
    #[must_use]
    pub fn get<S, T: Leaf, P>(&self, key: Key<S, T, P>) -> T::Read<'a> {
        reveal::<T>(self.value(key.index())).read()
    }

    /// Not generic, so that it is not compiled for every type of input.
    fn value(&self, key: usize) -> &'a Erased {
        let index = self.offset + key;
        self.read.borrow_mut().push(index);
        match self.values {
            Values::Settled(values) => &values[index],
            Values::Partial(values) => match &values[index] {
                Some(value) => value,
                None => panic!("fault in kitbag: leaf {index} is read before it has a value"),
            },
        }
    }

    /// The machine's facts.
    #[must_use]
    pub fn facts(&self) -> &'a Facts {
        self.facts
    }

    /// Indices of the leaves read so far, in order.
    pub(crate) fn read(&self) -> Vec<usize> {
        self.read.borrow().clone()
    }
}

/// An argument of an oracle call as the function takes it; the key gives the type.
#[doc(hidden)]
#[must_use]
pub fn argument<S, T: Leaf, P>(arguments: &[Erased], position: usize, _: Key<S, T, P>) -> T::Read<'_> {
    reveal::<T>(&arguments[position]).read()
}

//! Types as far as a census needs them: references are dropped, and what is not of this package is a wrapper or plain.

/// The type of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ty {
    /// Not known: may be anything.
    Unknown,
    /// Known to lead to no type of this package.
    Plain,
    /// A type of this package, by its full path, with type arguments.
    Named(String, Vec<Ty>),
    Tuple(Vec<Ty>),
    /// Anything around it: `Arc<T>`, `Option<T>`, `Vec<Mutex<T>>`.
    Wrapped(Box<Ty>),
    Fn(Vec<Ty>, Box<Ty>),
    /// A closure whose parameters have no types yet, by number.
    Closure(usize),
    /// A type parameter.
    Param(String),
}

impl Ty {
    pub(crate) fn wrapped(self) -> Self {
        match self {
            Self::Unknown | Self::Plain | Self::Wrapped(_) => self,
            inner => Self::Wrapped(Box::new(inner)),
        }
    }

    /// Without wrappers.
    pub(crate) fn bare(&self) -> &Self {
        match self {
            Self::Wrapped(inner) => inner.bare(),
            other => other,
        }
    }

    /// The type of this package behind the wrappers.
    pub(crate) fn name(&self) -> Option<&str> {
        match self.bare() {
            Self::Named(name, _) => Some(name),
            _ => None,
        }
    }

    /// Whether it may lead to a type of this package.
    pub(crate) fn leads_on(&self) -> bool {
        !matches!(self, Self::Plain | Self::Unknown)
    }

    /// With type parameters replaced.
    pub(crate) fn with(&self, known: &[(String, Ty)]) -> Self {
        match self {
            Self::Param(name) => {
                known.iter().find(|(param, _)| param == name).map_or(Self::Unknown, |(_, ty)| ty.clone())
            }
            Self::Named(name, arguments) => {
                Self::Named(name.clone(), arguments.iter().map(|argument| argument.with(known)).collect())
            }
            Self::Tuple(parts) => Self::Tuple(parts.iter().map(|part| part.with(known)).collect()),
            Self::Wrapped(inner) => inner.with(known).wrapped(),
            Self::Fn(inputs, output) => {
                Self::Fn(inputs.iter().map(|input| input.with(known)).collect(), Box::new(output.with(known)))
            }
            other => other.clone(),
        }
    }

    /// Learns type parameters of `self`, a declared type, from the type of what is given for it.
    pub(crate) fn learn(&self, given: &Self, known: &mut Vec<(String, Ty)>) {
        match (self, given) {
            (Self::Param(name), given) if *given != Self::Unknown && !known.iter().any(|(param, _)| param == name) => {
                known.push((name.clone(), given.clone()));
            }
            (Self::Wrapped(inner), given) => inner.learn(given.bare(), known),
            (Self::Named(name, inner), given) => {
                if let Self::Named(other, arguments) = given.bare()
                    && other == name
                {
                    inner.iter().zip(arguments).for_each(|(inner, argument)| inner.learn(argument, known));
                }
            }
            (Self::Tuple(inner), Self::Tuple(parts)) => {
                inner.iter().zip(parts).for_each(|(inner, part)| inner.learn(part, known));
            }
            (Self::Fn(inputs, output), Self::Fn(given, result)) => {
                inputs.iter().zip(given).for_each(|(input, given)| input.learn(given, known));
                output.learn(result, known);
            }
            _ => {}
        }
    }
}

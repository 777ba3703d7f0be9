//! The kernels, and for each of them problems small enough to be solved some hundred times, which together reach every
//! line of it: a broken kernel must fail one of them.

mod attention;
mod experts;
mod operations;

use kernels::cuda::{CudaDevice, CudaError, KernelSource};

type Solve = dyn Fn(&CudaDevice, KernelSource) -> Result<bool, CudaError>;

/// A problem for whatever a kernel's source is.
pub struct Problem {
    /// What it is, for messages.
    pub name: &'static str,
    /// Compiles a source, solves the problem with it, and says whether the results are right and nothing else was
    /// written. An error is the compiler's or the device's.
    pub solve: Box<Solve>,
}

impl Problem {
    fn new(name: &'static str, solve: impl Fn(&CudaDevice, KernelSource) -> Result<bool, CudaError> + 'static) -> Self {
        Self { name, solve: Box::new(solve) }
    }
}

/// A kernel and its problems, the ones that are solved fastest first.
pub struct Subject {
    /// Its file in `kernels/cu`.
    pub file: &'static str,
    /// Its problems.
    pub problems: Vec<Problem>,
}

/// All kernels.
#[must_use]
pub fn subjects() -> Vec<Subject> {
    let mut subjects = operations::subjects();
    subjects.extend(experts::subjects());
    subjects.extend(attention::subjects());
    subjects
}

//! Weight files: an index of checked tensors over mapped files.
//!
//! [`safetensors`] and [`gguf`] read the two formats into one [`Weights`] index. Everything the index says has been checked against
//! the files: a tensor in it can be read. [`dummy`] needs no files.

pub mod dummy;
pub mod gguf;
mod mapped_file;
pub mod safetensors;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub use kernels::cpu::ElementType;
use kernels::cpu::{Isa, Matrix, Workers};

pub use mapped_file::MappedFile;

use crate::error::{Error, Result};

/// Where a tensor lies.
#[derive(Debug)]
pub struct Tensor {
    /// Its dimensions, slowest first.
    pub shape: Vec<usize>,
    /// How its elements are stored.
    pub element: ElementType,
    file: usize,
    bytes: Range<usize>,
}

impl Tensor {
    /// The bytes it takes in its file.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// The tensors of a checkpoint by name.
#[derive(Debug)]
pub struct Weights {
    path: PathBuf,
    files: Vec<MappedFile>,
    tensors: BTreeMap<String, Tensor>,
}

impl Weights {
    /// An index without tensors; `path` is what messages call the checkpoint.
    fn empty(path: &Path) -> Self {
        Self { path: path.to_owned(), files: Vec::new(), tensors: BTreeMap::new() }
    }

    /// Adds a file and its tensors, given as name, shape, element type and first byte.
    ///
    /// Refuses a tensor that has no elements, that ends outside the file, that overlaps another one, or whose name is taken.
    fn add_file(
        &mut self,
        file: MappedFile,
        tensors: impl IntoIterator<Item = (String, Vec<usize>, ElementType, usize)>,
    ) -> Result<()> {
        let index = self.files.len();
        let mut extents = Vec::new();
        for (name, shape, element, start) in tensors {
            let problem = |problem: String| Error::damaged(file.path(), format!("tensor `{name}` {problem}"));
            if let Some(dimension) = shape.iter().position(|&size| size == 0) {
                let what = format!("at offset {start} has no elements: dimension {dimension} of {shape:?} is 0");
                return Err(problem(what));
            }
            let len = stored_bytes(&shape, element).ok_or_else(|| {
                problem(format!("has shape {shape:?}, which {} elements cannot fill", element.name()))
            })?;
            let end = start.checked_add(len).filter(|&end| end <= file.bytes().len()).ok_or_else(|| {
                problem(format!(
                    "of {len} bytes at offset {start} ends beyond the file of {} bytes",
                    file.bytes().len()
                ))
            })?;
            extents.push((start, end, name.clone()));
            let tensor = Tensor { shape, element, file: index, bytes: start..end };
            if self.tensors.insert(name.clone(), tensor).is_some() {
                return Err(Error::damaged(file.path(), format!("tensor `{name}` is there twice")));
            }
        }
        extents.sort_unstable();
        for pair in extents.windows(2) {
            let ((_, end, first), (start, _, second)) = (&pair[0], &pair[1]);
            if start < end {
                return Err(Error::damaged(
                    file.path(),
                    format!("tensor `{second}` at offset {start} overlaps tensor `{first}`, which ends at {end}"),
                ));
            }
        }
        self.files.push(file);
        Ok(())
    }

    /// The checkpoint's name for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The tensor called `name`.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// All tensors in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// Expands a tensor into `out`.
    ///
    /// # Panics
    ///
    /// When `out` has not as many elements.
    pub fn read(&self, workers: &Workers, tensor: &Tensor, out: &mut [f32]) {
        tensor.element.expand(workers.isa(), self.stored(tensor), out);
    }

    /// Copies `rows` rows of a tensor as they are stored: row `r` is the stored row `stored_row(r)`.
    ///
    /// # Panics
    ///
    /// When the tensor has no elements or `stored_row` names a row that is not there.
    #[must_use]
    pub fn matrix(&self, tensor: &Tensor, rows: usize, stored_row: impl Fn(usize) -> usize) -> Matrix {
        let columns = tensor.shape.last().copied().unwrap_or(1);
        let row_bytes = tensor.element.bytes(columns).expect("checked to be whole blocks");
        let stored = self.stored(tensor);
        let mut bytes = Vec::with_capacity(rows * row_bytes);
        for row in 0..rows {
            let start = stored_row(row) * row_bytes;
            bytes.extend_from_slice(&stored[start..start + row_bytes]);
        }
        Matrix::stored(tensor.element, columns, bytes)
    }

    /// Refuses a tensor with an element that is no finite number.
    ///
    /// # Panics
    ///
    /// When the tensor is none of these.
    pub fn check_finite(&self, workers: &Workers, name: &str, tensor: &Tensor) -> Result<()> {
        // As many elements as fit the cache, and whole blocks of every type.
        const PART: usize = 1 << 14;
        let len = tensor.shape.iter().product::<usize>();
        let stored = self.stored(tensor);
        let bytes_of = |elements: usize| tensor.element.bytes(elements).expect("checked to be whole blocks");
        let check = |part: usize| {
            let (start, end) = (part * PART, len.min((part + 1) * PART));
            let mut numbers = vec![0.0; end - start];
            tensor.element.expand(workers.isa(), &stored[bytes_of(start)..bytes_of(end)], &mut numbers);
            let index = numbers.iter().position(|number: &f32| !number.is_finite())?;
            Some((start + index, numbers[index]))
        };
        match workers.find_first(len.div_ceil(PART), check) {
            None => Ok(()),
            Some((index, number)) => Err(self.bad_element(name, tensor, (index, number), "")),
        }
    }

    /// Refuses a small tensor with an element that is no positive number.
    ///
    /// # Panics
    ///
    /// When the tensor is none of these.
    pub fn check_positive(&self, name: &str, tensor: &Tensor) -> Result<()> {
        let mut numbers = vec![0.0; tensor.shape.iter().product()];
        tensor.element.expand(Isa::scalar(), self.stored(tensor), &mut numbers);
        match numbers.iter().position(|number: &f32| !(number.is_finite() && *number > 0.0)) {
            None => Ok(()),
            Some(index) => {
                Err(self.bad_element(name, tensor, (index, numbers[index]), ", where a positive number belongs"))
            }
        }
    }

    fn bad_element(&self, name: &str, tensor: &Tensor, (index, number): (usize, f32), wanted: &str) -> Error {
        let (block, _) = tensor.element.block();
        let before = tensor.element.bytes(index - index % block).expect("whole blocks");
        let offset = tensor.bytes.start + before;
        let problem = format!("tensor `{name}` has {number} as element {index}, at offset {offset}{wanted}");
        Error::damaged(self.files[tensor.file].path(), problem)
    }

    /// The bytes of a tensor.
    fn stored(&self, tensor: &Tensor) -> &[u8] {
        &self.files[tensor.file].bytes()[tensor.bytes.clone()]
    }
}

/// The bytes of a tensor, or nothing when its rows are not whole blocks or its size overflows.
fn stored_bytes(shape: &[usize], element: ElementType) -> Option<usize> {
    let (&columns, outer) = shape.split_last().unwrap_or((&1, &[]));
    outer.iter().try_fold(element.bytes(columns)?, |bytes, &rows| bytes.checked_mul(rows))
}

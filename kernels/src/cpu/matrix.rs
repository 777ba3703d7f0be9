//! A matrix of weights, kept as its file stores it.

use super::dequant::ElementType;
use super::matmul::{Rows, product};
use super::{Isa, Workers};

/// A matrix `[rows, columns]` of weights, which products expand while they read it.
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use kernels::cpu::{ElementType, Matrix, Workers};
///
/// // Two rows of two bfloat16 numbers: 1, 2 and 3, 4; and one row of float32 numbers below them.
/// let stored = Matrix::stored(ElementType::Bf16, 2, vec![0x80, 0x3f, 0x00, 0x40, 0x40, 0x40, 0x80, 0x40]);
/// let matrix = Matrix::stacked([stored, Matrix::floats(2, vec![5.0, 6.0])]);
///
/// let workers = Workers::new(NonZeroUsize::MIN)?;
/// let mut y = [0.0; 3];
/// matrix.multiply(&workers, &[1.0, 10.0], &mut y);
/// assert_eq!(y, [21.0, 43.0, 65.0]);
/// # Ok::<(), kernels::cpu::WorkersError>(())
/// ```
pub struct Matrix {
    columns: usize,
    parts: Vec<Part>,
}

enum Part {
    Floats(Vec<f32>),
    Stored(ElementType, Vec<u8>),
}

impl Part {
    fn rows(&self) -> Rows<'_> {
        match self {
            Self::Floats(all) => Rows::Floats(all),
            Self::Stored(element, bytes) => Rows::Stored(*element, bytes),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Floats(all) => size_of_val(all.as_slice()),
            Self::Stored(_, bytes) => bytes.len(),
        }
    }
}

impl Matrix {
    /// A matrix of float32 numbers.
    ///
    /// # Panics
    ///
    /// When `columns` is zero or the numbers are not whole rows.
    #[must_use]
    pub fn floats(columns: usize, numbers: Vec<f32>) -> Self {
        assert!(columns > 0 && numbers.len().is_multiple_of(columns), "{} are not rows of {columns}", numbers.len());
        Self { columns, parts: vec![Part::Floats(numbers)] }
    }

    /// A matrix of elements as a file stores them, row by row.
    ///
    /// # Panics
    ///
    /// When `columns` is zero or no whole number of blocks, or the bytes are not whole rows.
    #[must_use]
    pub fn stored(element: ElementType, columns: usize, bytes: Vec<u8>) -> Self {
        let row_bytes = element.bytes(columns).filter(|&bytes| bytes > 0);
        assert!(row_bytes.is_some_and(|row| bytes.len().is_multiple_of(row)), "{} are not rows", bytes.len());
        if element == ElementType::F32 {
            // Nothing is gained by expanding it for each product.
            let mut numbers = vec![0.0; bytes.len() / size_of::<f32>()];
            element.expand(Isa::scalar(), &bytes, &mut numbers);
            return Self::floats(columns, numbers);
        }
        Self { columns, parts: vec![Part::Stored(element, bytes)] }
    }

    /// The rows of one matrix below those of another; their types may differ.
    ///
    /// # Panics
    ///
    /// When there is none or they differ in their columns.
    #[must_use]
    pub fn stacked(matrices: impl IntoIterator<Item = Self>) -> Self {
        let mut matrices = matrices.into_iter();
        let mut all = matrices.next().expect("a matrix");
        for matrix in matrices {
            assert_eq!(matrix.columns, all.columns, "matrices of different width");
            all.parts.extend(matrix.parts);
        }
        all
    }

    /// The type of its rows and their bytes as a file has them, in parts that follow one another; nothing where types differ or
    /// numbers are in single precision.
    #[must_use]
    pub fn as_stored(&self) -> Option<(ElementType, Vec<&[u8]>)> {
        let stored = |part| match part {
            &Part::Stored(element, ref bytes) => Some((element, bytes.as_slice())),
            Part::Floats(_) => None,
        };
        let parts: Vec<_> = self.parts.iter().map(stored).collect::<Option<_>>()?;
        let &(element, _) = parts.first()?;
        let bytes = parts.into_iter().map(|(other, bytes)| (other == element).then_some(bytes));
        Some((element, bytes.collect::<Option<_>>()?))
    }

    /// The same numbers in single precision, with which products have the same bits.
    #[must_use]
    pub fn expanded(&self, workers: &Workers) -> Self {
        let mut numbers = vec![0.0; self.rows() * self.columns];
        workers.for_each_row(&mut numbers, self.columns, |row, out| self.expand_row(workers.isa(), row, out));
        Self::floats(self.columns, numbers)
    }

    /// The elements of a row.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.rows().count(self.columns)).sum()
    }

    /// The memory it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(Part::bytes).sum()
    }

    /// Row `index` in single precision.
    ///
    /// # Panics
    ///
    /// When there is no such row or `out` is of another length.
    pub fn expand_row(&self, isa: Isa, mut index: usize, out: &mut [f32]) {
        assert_eq!(out.len(), self.columns, "a row of another length");
        for part in &self.parts {
            let count = part.rows().count(self.columns);
            if index < count {
                return match part.rows().part(self.columns, index, 1) {
                    Rows::Floats(row) => out.copy_from_slice(row),
                    Rows::Stored(element, bytes) => element.expand(isa, bytes, out),
                };
            }
            index -= count;
        }
        panic!("{} rows end {index} rows before that one", self.rows());
    }

    /// Its rows, in parts that follow one another.
    pub(super) fn parts(&self) -> impl Iterator<Item = Rows<'_>> {
        self.parts.iter().map(Part::rows)
    }

    /// `y = x · Wᵀ`, with `x` of `[tokens, columns]` and `y` of `[tokens, rows]`.
    ///
    /// Parallel over the rows. The result has the bits of a product with the expanded matrix.
    ///
    /// # Panics
    ///
    /// When the lengths do not fit one another.
    pub fn multiply(&self, workers: &Workers, x: &[f32], y: &mut [f32]) {
        let parts: Vec<Rows<'_>> = self.parts().collect();
        product(workers, x, self.columns, &parts, y);
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // These results are exact.
mod tests {
    use super::super::testing::{Random, reference, with_references, workers_of_every_kind};
    use super::super::{ElementType, Isa, matmul};
    use super::Matrix;

    #[test]
    fn every_type_expands_to_the_bits_of_the_reference_on_every_instruction_set() {
        for element in with_references() {
            let (bytes, want) = reference(element);
            assert_eq!(want.len(), 1024);
            for isa in Isa::available() {
                let mut got = vec![0.0; want.len()];
                element.expand(isa, &bytes, &mut got);
                for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                    assert_eq!(got, want, "{} on {isa:?}: element {i}", element.name());
                }
            }
        }
    }

    #[test]
    fn products_have_the_bits_of_those_with_the_expanded_matrix() {
        let mut random = Random::announced(0x6d61_7472);
        for element in with_references() {
            let (bytes, numbers) = reference(element);
            for (columns, rows) in [(256, 4), (512, 2), (256, 3), (1024, 1)] {
                let numbers = &numbers[..rows * columns];
                let stored = &bytes[..element.bytes(rows * columns).expect("whole blocks")];
                for workers in workers_of_every_kind() {
                    let matrix = Matrix::stored(element, columns, stored.to_vec());
                    for tokens in [1, 2, 9] {
                        let x = random.floats(tokens * columns);
                        let (mut got, mut want) = (vec![0.0; tokens * rows], vec![0.0; tokens * rows]);
                        matrix.multiply(&workers, &x, &mut got);
                        matmul(&workers, &x, numbers, columns, &mut want);
                        assert_eq!(got, want, "{}, {rows} x {columns}, {tokens} tokens", element.name());
                    }
                }
            }
        }
    }

    #[test]
    fn half_precision_rows_of_any_length_are_multiplied() {
        let mut random = Random::announced(0x6861_6c66);
        for element in [ElementType::F16, ElementType::Bf16] {
            let (bytes, numbers) = reference(element);
            for columns in (1..40).chain([63, 64, 65]) {
                let rows = 9;
                let matrix = Matrix::stored(element, columns, bytes[..2 * rows * columns].to_vec());
                for workers in workers_of_every_kind() {
                    for tokens in [1, 3] {
                        let x = random.floats(tokens * columns);
                        let (mut got, mut want) = (vec![0.0; tokens * rows], vec![0.0; tokens * rows]);
                        matrix.multiply(&workers, &x, &mut got);
                        matmul(&workers, &x, &numbers[..rows * columns], columns, &mut want);
                        assert_eq!(got, want, "{} rows of {columns} on {:?}", element.name(), workers.isa());
                    }
                }
            }
        }
    }

    #[test]
    fn a_stack_of_one_type_has_the_bytes_of_all() {
        let part = |element, bytes: &[u8]| Matrix::stored(element, 2, bytes.to_vec());
        let of_one = Matrix::stacked([part(ElementType::F16, &[1, 2, 3, 4]), part(ElementType::F16, &[5; 8])]);
        assert_eq!(of_one.as_stored(), Some((ElementType::F16, vec![&[1, 2, 3, 4][..], &[5; 8]])));
        let of_two = Matrix::stacked([part(ElementType::F16, &[1; 4]), part(ElementType::Bf16, &[2; 4])]);
        assert!(of_two.as_stored().is_none() && Matrix::floats(2, vec![1.0; 4]).as_stored().is_none());
    }

    #[test]
    fn a_stack_of_types_has_the_rows_of_all() {
        let mut random = Random::announced(0x7374_6163);
        let columns = 256;
        let numbers = random.floats(70 * columns);
        let mut want = numbers.clone();
        let mut parts = vec![Matrix::floats(columns, numbers)];
        for element in with_references() {
            let (bytes, numbers) = reference(element);
            parts.push(Matrix::stored(element, columns, bytes));
            want.extend(numbers);
        }
        let matrix = Matrix::stacked(parts);
        assert!(matrix.as_stored().is_none());
        assert_eq!((matrix.rows(), matrix.columns()), (want.len() / columns, columns));
        for workers in workers_of_every_kind() {
            assert_eq!(matrix.expanded(&workers).bytes(), size_of_val(want.as_slice()));
            let mut row = vec![0.0; columns];
            for index in 0..matrix.rows() {
                matrix.expand_row(workers.isa(), index, &mut row);
                assert_eq!(row, want[index * columns..(index + 1) * columns], "row {index}");
            }
            for tokens in [1, 60] {
                let x = random.floats(tokens * columns);
                let (mut got, mut expected) = (vec![0.0; tokens * matrix.rows()], vec![0.0; tokens * matrix.rows()]);
                matrix.multiply(&workers, &x, &mut got);
                matmul(&workers, &x, &want, columns, &mut expected);
                assert_eq!(got, expected, "{tokens} tokens on {:?}", workers.isa());
            }
        }
    }
}

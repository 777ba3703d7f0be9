//! Which pages are free.

/// Hands out page numbers `0..size` and takes them back.
///
/// At any time each page is either free or held, never both: [`PageAllocator::check`] verifies it.
#[derive(Debug)]
pub struct PageAllocator {
    /// Free pages; the last one goes out next.
    free: Vec<u32>,
    held: Vec<bool>,
}

/// More pages were asked for than are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "out of pages for keys and values: {wanted} wanted, {free} of {size} free \
     (raise --max-total-tokens or ask for fewer tokens)"
)]
pub struct OutOfPages {
    /// Pages asked for.
    pub wanted: usize,
    /// Pages that were free.
    pub free: usize,
    /// Pages there are.
    pub size: usize,
}

/// A page was returned that is not held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FreeError {
    /// It is free already, or named twice.
    #[error("page {0} freed twice")]
    NotHeld(u32),
    /// It was never there.
    #[error("page {0} does not exist")]
    Unknown(u32),
}

impl PageAllocator {
    /// An allocator of `size` free pages.
    #[must_use]
    pub fn new(size: u32) -> Self {
        Self { free: (0..size).rev().collect(), held: vec![false; size as usize] }
    }

    /// The number of pages, free or held.
    #[must_use]
    pub fn size(&self) -> usize {
        self.held.len()
    }

    /// The number of free pages.
    #[must_use]
    pub fn available(&self) -> usize {
        self.free.len()
    }

    /// Takes `count` pages, or none when fewer are free.
    pub fn allocate(&mut self, count: usize) -> Result<Vec<u32>, OutOfPages> {
        let Some(rest) = self.free.len().checked_sub(count) else {
            return Err(OutOfPages { wanted: count, free: self.free.len(), size: self.size() });
        };
        let mut pages = self.free.split_off(rest);
        pages.reverse();
        for &page in &pages {
            self.held[page as usize] = true;
        }
        Ok(pages)
    }

    /// Returns held pages; when one of them is not held, nothing changes.
    pub fn free(&mut self, pages: &[u32]) -> Result<(), FreeError> {
        for (done, &page) in pages.iter().enumerate() {
            let error = match self.held.get_mut(page as usize) {
                Some(held) if *held => {
                    *held = false;
                    continue;
                }
                Some(_) => FreeError::NotHeld(page),
                None => FreeError::Unknown(page),
            };
            for &page in &pages[..done] {
                self.held[page as usize] = true;
            }
            return Err(error);
        }
        self.free.extend(pages.iter().rev());
        Ok(())
    }

    /// Verifies that free and held pages together are all pages and that no page is both.
    ///
    /// # Panics
    ///
    /// When that does not hold, which would be an error in this type.
    pub fn check(&self) {
        let held = self.held.iter().filter(|&&held| held).count();
        assert_eq!(self.free.len() + held, self.size(), "free and held pages do not add up");
        assert!(self.free.iter().all(|&page| !self.held[page as usize]), "a free page is held");
        let mut free = self.free.clone();
        free.sort_unstable();
        free.dedup();
        assert_eq!(free.len(), self.free.len(), "a page is free twice");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{FreeError, OutOfPages, PageAllocator};
    use crate::sampling::Random;

    #[test]
    fn agrees_with_a_pair_of_sets_over_random_operations() {
        let seed = 0x0061_6c6c_6f63;
        eprintln!("random operations from seed {seed:#x}");
        let mut random = Random::new(seed);
        let mut below = |bound: usize| (random.bits() % bound as u64) as usize;
        for size in [0_u32, 1, 2, 5, 64] {
            let mut allocator = PageAllocator::new(size);
            let mut free: BTreeSet<u32> = (0..size).collect();
            let mut held: Vec<u32> = Vec::new();
            for _ in 0..2_000 {
                match below(4) {
                    0 | 1 => {
                        let wanted = below(size as usize + 2);
                        match allocator.allocate(wanted) {
                            Ok(pages) => {
                                assert_eq!(pages.len(), wanted);
                                assert!(pages.iter().all(|page| free.remove(page)), "a page was not free");
                                held.extend(pages);
                            }
                            Err(error) => {
                                let size = size as usize;
                                assert_eq!(error, OutOfPages { wanted, free: free.len(), size });
                                assert!(wanted > free.len());
                            }
                        }
                    }
                    2 if !held.is_empty() => {
                        let count = below(held.len()) + 1;
                        let pages: Vec<u32> = (0..count).map(|_| held.swap_remove(below(held.len()))).collect();
                        allocator.free(&pages).expect("held pages are accepted");
                        free.extend(pages);
                    }
                    _ => {
                        // A batch with one page that is not held changes nothing.
                        let bad = free.first().copied().unwrap_or(size);
                        let pages: Vec<u32> = held.iter().copied().take(2).chain([bad]).collect();
                        let want = if bad < size { FreeError::NotHeld(bad) } else { FreeError::Unknown(bad) };
                        assert_eq!(allocator.free(&pages), Err(want));
                    }
                }
                allocator.check();
                assert_eq!(allocator.available(), free.len());
            }
        }
    }

    #[test]
    fn a_check_finds_what_is_wrong() {
        let panics = |free: &[u32], held: [bool; 2]| {
            let allocator = PageAllocator { free: free.to_vec(), held: held.to_vec() };
            std::panic::catch_unwind(move || allocator.check()).is_err()
        };
        assert!(!panics(&[1, 0], [false, false]) && !panics(&[1], [true, false]));
        assert!(panics(&[1], [false, false]), "one is neither");
        assert!(panics(&[0], [true, false]), "one is both");
        assert!(panics(&[1, 1], [false, false]), "one is there twice");
    }

    #[test]
    fn a_page_named_twice_in_one_call_is_a_double_free() {
        let mut allocator = PageAllocator::new(3);
        let pages = allocator.allocate(2).expect("three are free");
        assert_eq!(allocator.free(&[pages[0], pages[1], pages[0]]), Err(FreeError::NotHeld(pages[0])));
        allocator.check();
        assert_eq!(allocator.available(), 1);
        assert_eq!(allocator.free(&pages), Ok(()));
        assert_eq!(allocator.free(&pages), Err(FreeError::NotHeld(pages[0])));
        allocator.check();
    }
}

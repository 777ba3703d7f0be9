//! Which slots the tokens of one sequence use.

use std::ops::Range;

/// The pages of a sequence, in order, and how many of their slots are filled.
#[derive(Debug)]
pub struct BlockTable {
    pages: Vec<u32>,
    tokens: usize,
    page_size: usize,
}

impl BlockTable {
    /// The table of a sequence without tokens.
    ///
    /// # Panics
    ///
    /// When a page holds no token.
    #[must_use]
    pub fn new(page_size: usize) -> Self {
        assert!(page_size > 0, "pages of no tokens");
        Self { pages: Vec::new(), tokens: 0, page_size }
    }

    /// The pages in order.
    #[must_use]
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// Gives the pages up.
    #[must_use]
    pub fn into_pages(self) -> Vec<u32> {
        self.pages
    }

    /// The number of tokens.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// How many pages must be added before `new` more tokens fit.
    #[must_use]
    pub fn pages_short(&self, new: usize) -> usize {
        (self.tokens + new).div_ceil(self.page_size).saturating_sub(self.pages.len())
    }

    /// Adds pages at the end.
    pub fn add_pages(&mut self, pages: Vec<u32>) {
        self.pages.extend(pages);
    }

    /// Fills the next `new` slots and returns the positions of their tokens.
    ///
    /// # Panics
    ///
    /// When the pages are too few.
    pub fn append(&mut self, new: usize) -> Range<usize> {
        assert_eq!(self.pages_short(new), 0, "too few pages");
        let first = self.tokens;
        self.tokens += new;
        first..self.tokens
    }

    /// Forgets all but the first `tokens` tokens, and gives up the pages that are not needed any more.
    #[must_use = "the pages stay taken until they are given to the allocator"]
    pub fn truncate(&mut self, tokens: usize) -> Vec<u32> {
        self.tokens = self.tokens.min(tokens);
        self.pages.split_off(self.tokens.div_ceil(self.page_size))
    }

    /// The slot of the token at `position`.
    ///
    /// # Panics
    ///
    /// When the position has no page.
    #[must_use]
    pub fn slot(&self, position: usize) -> usize {
        self.pages[position / self.page_size] as usize * self.page_size + position % self.page_size
    }
}

#[cfg(test)]
mod tests {
    use super::BlockTable;

    #[test]
    #[should_panic(expected = "pages of no tokens")]
    fn a_page_holds_a_token_at_least() {
        let _ = BlockTable::new(0);
    }

    #[test]
    fn a_part_filled_page_is_filled_before_another_is_asked_for() {
        let mut table = BlockTable::new(4);
        assert_eq!((table.pages_short(0), table.pages_short(1), table.pages_short(5)), (0, 1, 2));
        table.add_pages(vec![7, 2]);
        assert_eq!(table.append(5), 0..5);
        assert_eq!((table.pages_short(3), table.pages_short(4)), (0, 1));
        assert_eq!(table.append(3), 5..8);
        let slots: Vec<usize> = (0..8).map(|position| table.slot(position)).collect();
        assert_eq!(slots, [28, 29, 30, 31, 8, 9, 10, 11]);
    }

    #[test]
    fn a_shorter_sequence_keeps_the_pages_it_needs() {
        let mut table = BlockTable::new(4);
        table.add_pages(vec![7, 2, 5, 3]);
        assert_eq!(table.append(9), 0..9);
        assert_eq!(table.truncate(8), [5, 3]);
        assert_eq!((table.tokens(), table.pages()), (8, &[7, 2][..]));
        assert!(table.truncate(99).is_empty());
        assert!(table.truncate(5).is_empty());
        assert_eq!((table.append(1), table.slot(5)), (5..6, 9));
        assert_eq!(table.truncate(0), [7, 2]);
        assert_eq!(table.tokens(), 0);
    }
}

//! How many pages does a step of a request take?
//!
//! A token goes behind the last one of its request, and into a new page only when the last page is full. Nothing calls
//! this yet: [`crate::kv::BlockTable`] grows by the same rule for one request. A scheduler that has
//! `schedule.page_size` and looks at many requests before it admits one will.

/// The least multiple of the page size that is at least `tokens`.
///
/// # Panics
/// If a page has no tokens.
#[must_use]
pub fn ceil_to_page(tokens: usize, page_size: usize) -> usize {
    tokens.div_ceil(page_size) * page_size
}

/// The greatest multiple of the page size that is at most `tokens`.
///
/// # Panics
/// If a page has no tokens.
#[must_use]
pub fn floor_to_page(tokens: usize, page_size: usize) -> usize {
    tokens / page_size * page_size
}

/// New pages when a sequence grows from `from` to `to` tokens: pages of the whole − pages that it has, of which the
/// last one may be there in part.
///
/// # Panics
/// If a page has no tokens.
#[must_use]
pub fn new_pages(from: usize, to: usize, page_size: usize) -> usize {
    to.div_ceil(page_size).saturating_sub(from.div_ceil(page_size))
}

/// New pages of one decode step in which each of the sequences grows by `width` tokens (1 without speculation).
///
/// # Panics
/// If a page has no tokens.
#[must_use]
pub fn decode_pages(lengths: &[usize], width: usize, page_size: usize) -> usize {
    lengths.iter().map(|length| new_pages(*length, length + width, page_size)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: [usize; 4] = [1, 2, 16, 64];

    #[test]
    fn rounding_by_hand() {
        // Tokens, page size, down, up.
        let table =
            [(0, 16, 0, 0), (1, 16, 0, 16), (16, 16, 16, 16), (17, 16, 16, 32), (7, 1, 7, 7), (127, 64, 64, 128)];
        for (tokens, page, down, up) in table {
            assert_eq!((floor_to_page(tokens, page), ceil_to_page(tokens, page)), (down, up), "{tokens} {page}");
        }
    }

    #[test]
    fn growth_by_hand() {
        // From, to, page size, pages.
        let table = [
            (0, 0, 16, 0),
            (0, 1, 16, 1),
            (0, 17, 16, 2),
            (15, 16, 16, 0),
            (16, 17, 16, 1),
            (10, 33, 16, 2),
            (5, 8, 1, 3),
            (64, 64, 64, 0),
        ];
        for (from, to, page, pages) in table {
            assert_eq!(new_pages(from, to, page), pages, "{from} {to} {page}");
        }
        assert_eq!(decode_pages(&[15, 16, 17, 0], 1, 16), 2);
        assert_eq!(decode_pages(&[15, 16, 17, 0], 5, 16), 3);
    }

    #[test]
    fn growing_in_steps_takes_the_same_pages_as_at_once() {
        for page in PAGES {
            for to in 0..200 {
                let steps: usize = (0..to).map(|length| decode_pages(&[length], 1, page)).sum();
                assert_eq!(steps, new_pages(0, to, page));
                for from in 0..=to {
                    assert_eq!(new_pages(0, from, page) + new_pages(from, to, page), new_pages(0, to, page));
                    assert!(new_pages(from, to, page) <= new_pages(from, to + 1, page));
                }
            }
        }
    }

    #[test]
    fn rounding_brackets_the_number() {
        for page in PAGES {
            for tokens in 0..300 {
                let (down, up) = (floor_to_page(tokens, page), ceil_to_page(tokens, page));
                assert!(down <= tokens && tokens <= up && up - down <= page);
                assert!(down % page == 0 && up % page == 0);
            }
        }
    }
}

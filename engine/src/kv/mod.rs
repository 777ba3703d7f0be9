//! The paged store of keys and values.
//!
//! [`PageAllocator`] decides who owns which page, [`BlockTable`] maps the tokens of one sequence to the slots of its pages, and
//! [`KvStore`] holds the numbers. The three know nothing of one another's insides.

mod allocator;
mod block_table;
mod store;

pub use allocator::{FreeError, OutOfPages, PageAllocator};
pub use block_table::BlockTable;
pub use store::KvStore;

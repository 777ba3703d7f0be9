//! Capture: work that is written down instead of done.

use std::collections::BTreeSet;
use std::thread::{self, ThreadId};

use crate::code::{Answer, Code};
use crate::work::Work;

/// Which threads a capture keeps from calls that may not be seen by it, such as allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// All.
    Global,
    /// That which began the capture.
    ThreadLocal,
    /// None; and any thread may end it.
    Relaxed,
}

/// A capture that has begun.
pub(crate) struct Capture {
    pub(crate) mode: Mode,
    thread: ThreadId,
    /// The stream in which it began and has to end.
    pub(crate) origin: usize,
    nodes: Vec<Node>,
    /// Something was tried that a capture does not allow.
    pub(crate) is_invalid: bool,
}

/// A piece of work of a graph, and the nodes before it that it waits for.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) after: Vec<usize>,
    pub(crate) work: Work,
}

/// What a capture has written down. Nodes wait only for nodes before them.
#[derive(Clone, Default)]
pub(crate) struct Graph(pub(crate) Vec<Node>);

impl Graph {
    /// Nodes that no other waits for.
    pub(crate) fn leaves(&self) -> Vec<usize> {
        let inner: BTreeSet<_> = self.0.iter().flat_map(|node| &node.after).collect();
        (0..self.0.len()).filter(|node| !inner.contains(node)).collect()
    }
}

impl Capture {
    pub(crate) fn new(mode: Mode, origin: usize) -> Self {
        Self { mode, thread: thread::current().id(), origin, nodes: Vec::new(), is_invalid: false }
    }

    pub(crate) fn is_of_this_thread(&self) -> bool {
        self.thread == thread::current().id()
    }

    /// Whether this thread must not make calls that the capture might not see.
    pub(crate) fn forbids_unseen_calls(&self) -> bool {
        match self.mode {
            Mode::Global => true,
            Mode::ThreadLocal => self.is_of_this_thread(),
            Mode::Relaxed => false,
        }
    }

    /// An answer for whoever goes on with a capture that cannot succeed any more.
    pub(crate) fn check(&self) -> Answer {
        if self.is_invalid { Err(Code::CAPTURE_INVALIDATED) } else { Ok(()) }
    }

    /// Writes work down, and gives the number of its node.
    pub(crate) fn add(&mut self, after: Vec<usize>, work: Work) -> usize {
        self.nodes.push(Node { after, work });
        self.nodes.len() - 1
    }

    /// The graph, if all of it has been waited for by the stream that ends it, whose next work would wait for `tail`.
    pub(crate) fn finish(self, tail: &[usize]) -> Answer<Graph> {
        self.check()?;
        let mut joined = BTreeSet::new();
        let mut open = tail.to_vec();
        while let Some(node) = open.pop() {
            if joined.insert(node) {
                open.extend(&self.nodes[node].after);
            }
        }
        if joined.len() == self.nodes.len() { Ok(Graph(self.nodes)) } else { Err(Code::CAPTURE_UNJOINED) }
    }
}

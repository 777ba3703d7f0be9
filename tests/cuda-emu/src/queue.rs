//! Work that has been submitted and is not done.

use std::collections::{BTreeMap, BTreeSet};

use crate::order::{Order, Pace};
use crate::work::Work;

/// Names a piece of work. Later work has a higher number.
pub(crate) type Ticket = u64;

#[derive(Default)]
pub(crate) struct Queue {
    last: Ticket,
    pending: BTreeMap<Ticket, Item>,
}

struct Item {
    after: Vec<Ticket>,
    work: Work,
}

impl Queue {
    /// Adds work that may begin when all of `after` is done.
    pub(crate) fn push(&mut self, mut after: Vec<Ticket>, work: Work) -> Ticket {
        after.retain(|&ticket| self.is_pending(ticket));
        self.last += 1;
        self.pending.insert(self.last, Item { after, work });
        self.last
    }

    pub(crate) fn is_pending(&self, ticket: Ticket) -> bool {
        self.pending.contains_key(&ticket)
    }

    /// All that is not done.
    pub(crate) fn all(&self) -> BTreeSet<Ticket> {
        self.pending.keys().copied().collect()
    }

    /// Those of `tickets` that are not done, and what they wait for.
    pub(crate) fn needed(&self, tickets: &[Ticket]) -> BTreeSet<Ticket> {
        let mut needed = BTreeSet::new();
        let mut open = tickets.to_vec();
        while let Some(ticket) = open.pop() {
            let Some(item) = self.pending.get(&ticket) else { continue };
            if needed.insert(ticket) {
                open.extend(&item.after);
            }
        }
        needed
    }

    /// Chooses what is done next while `needed` is waited for. It has all that it waits for in it, and something is not done.
    pub(crate) fn choose(&self, needed: &BTreeSet<Ticket>, order: Option<(&mut Order, Pace)>) -> Ticket {
        let is_ready = |item: &Item| item.after.iter().all(|&ticket| !self.is_pending(ticket));
        let ready = self.pending.iter().filter(|(_, item)| is_ready(item)).map(|(&ticket, _)| ticket);
        let (mut from, others): (Vec<_>, Vec<_>) = ready.partition(|ticket| needed.contains(ticket));
        let Some((order, pace)) = order else { return from[0] };
        match pace {
            Pace::Early if !others.is_empty() => from = others,
            Pace::Any => from.extend(others),
            Pace::Early | Pace::Late => {}
        }
        from[order.below(from.len())]
    }

    /// Takes work out, which is then done.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Work> {
        self.pending.remove(&ticket).map(|item| item.work)
    }

    /// Forgets all of it.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
    }
}

//! Settled values handed to another process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::error::{ConfigError, Errors};
use crate::facts::Facts;
use crate::origin::Origin;
use crate::record::Record;
use crate::resolved::Resolved;
use crate::schema::ConfigNamespaces;
use crate::source::{Candidates, Given};
use crate::table::{Name, Table};
use crate::value::Value;

/// The effective values of a context, overrides included, for a child process of the same program.
///
/// Derived values that are fixed at launch or publish go along, so that both processes agree on a capacity; the others
/// are computed from what was sent.
///
/// Serialise it with any serde format and hand it over a channel that others cannot read: **it holds secrets in the
/// clear**. `Debug` shows none.
///
/// ```
/// # use kitbag::{ConfigNamespaces, Snapshot};
/// # #[derive(ConfigNamespaces)]
/// # struct Args {
/// #     /// Jobs that may wait.
/// #     #[config(ns = "pool", default = 32, hot)]
/// #     queue: usize,
/// # }
/// let parent = Args::for_test(|_| {});
/// let _burst = parent.override_with("burst", |o| o.pool().queue(64))?;
/// let sent = serde_json::to_string(&parent.snapshot()).expect("plain data");
/// // in the child process:
/// let received: Snapshot = serde_json::from_str(&sent).expect("what was sent");
/// let child = received.publish::<Args>()?;
/// assert!(child.pin().pool().queue() == 64);
/// assert_eq!(child.fingerprint(), parent.fingerprint());
/// # Ok::<(), kitbag::Errors>(())
/// ```
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Fingerprint of the schema.
    schema: String,
    leaves: BTreeMap<String, Sent>,
}

/// A value on its way.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Sent {
    value: Value,
    /// Where the sender had it from, for explain.
    origin: String,
    /// Whether somebody chose it there.
    is_chosen: bool,
}

impl Snapshot {
    /// Publishes the values in this process.
    ///
    /// # Errors
    /// It was made by a program with another schema, or a value is not one of its leaf.
    pub fn publish<S: ConfigNamespaces>(&self) -> Result<Context<S>, Errors> {
        let table = Arc::new(Table::of::<S>());
        let ours = table.fingerprint().to_string();
        if ours != self.schema {
            let problem = format!("made by another schema ({} here, {} there)", ours, self.schema);
            let hint = "start parent and child from the same build".to_owned();
            return Err(ConfigError::new(problem).at("snapshot").hint(Some(hint)).into());
        }
        let mut candidates = Candidates::new(&table);
        for (path, Sent { value, origin, is_chosen }) in &self.leaves {
            let origin = Origin::Snapshot { origin: origin.clone(), is_chosen: *is_chosen };
            match table.index(path).filter(|index| table.entries[*index].is_sent()) {
                Some(index) => candidates.give(
                    &table,
                    &Name::Leaf(index),
                    origin.clone(),
                    Given::Value(value, &|_| origin.clone()),
                ),
                None => {
                    let error = ConfigError::new(format!("no setting is called `{path}`"));
                    candidates.errors.push(error.at("snapshot"));
                }
            }
        }
        let record = Record::new(table, std::mem::take(&mut candidates.of_leaf));
        // Every rule's leaf is in the snapshot, so facts decide nothing here.
        let facts = Facts::of_this_machine();
        Resolved::of(record, &facts, &candidates.refused, candidates.errors).map(Resolved::publish)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot(schema {}, {} leaves)", self.schema, self.leaves.len())
    }
}

impl<S: ConfigNamespaces> Context<S> {
    /// The effective values, for a child process.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let table = self.table();
        let moment = self.moment();
        let values = moment.pinned.values();
        let leaves = table.entries.iter().enumerate().filter(|(_, entry)| entry.is_sent()).map(|(index, entry)| {
            let explanation = moment.explain(index);
            let origin = explanation.origin();
            // A value passed on keeps the origin that it was received with.
            let origin = origin.strip_prefix(Origin::RECEIVED).unwrap_or(origin).to_owned();
            let sent = Sent { value: values[index].to_raw_value(), origin, is_chosen: explanation.is_chosen() };
            (entry.info.path.to_owned(), sent)
        });
        Snapshot { schema: table.fingerprint().to_string(), leaves: leaves.collect() }
    }
}

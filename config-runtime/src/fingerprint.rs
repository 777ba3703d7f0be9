//! Fingerprints of values, and what a captured thing has read.

use std::cell::RefCell;
use std::fmt;

use crate::context::{Context, Pinned};
use crate::leaf::Erased;
use crate::schema::ConfigNamespaces;
use crate::table::Table;

/// A stable 128-bit digest: the same on every machine and in every run. Not for secrets, which are left out.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// Of text parts, in order; parts are kept apart, so `["ab", "c"]` differs from `["a", "bc"]`.
    pub(crate) fn of<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        // FNV-1a.
        let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        for part in parts {
            for byte in part.bytes().chain([0xff]) {
                hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
            }
        }
        Self(hash)
    }

    fn of_leaves(table: &Table, values: &[Erased], leaves: impl IntoIterator<Item = usize>) -> Self {
        let mut texts = Vec::new();
        for index in leaves {
            texts.push(table.entries[index].info.path.to_owned());
            texts.push(values[index].to_value().to_string());
        }
        Self::of(texts.iter().map(String::as_str))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl std::str::FromStr for Fingerprint {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(Self)
    }
}

/// The leaves read under a recorder.
#[doc(hidden)]
#[derive(Default)]
pub struct Reads(RefCell<Vec<usize>>);

impl Reads {
    /// Notes a read.
    pub fn note(&self, index: usize) {
        let mut reads = self.0.borrow_mut();
        if let Err(position) = reads.binary_search(&index) {
            reads.insert(position, index);
        }
    }

    /// What was read, in order.
    pub(crate) fn leaves(&self) -> Vec<usize> {
        self.0.borrow().clone()
    }
}

/// A pinned epoch under a recorder; emitted for each schema as `ArgsRecording`.
pub trait Recording<S: ConfigNamespaces>: From<Pinned<S>> {
    #[doc(hidden)]
    fn parts(&self) -> (&Pinned<S>, &Reads);
}

/// What something built from configuration has read: its cache key, and the means to tell that it is stale.
#[derive(Clone, Debug)]
pub struct Captured {
    leaves: Vec<usize>,
    paths: Vec<&'static str>,
    /// What was read; secrets, of which the fingerprint says nothing, are compared too.
    values: Vec<Erased>,
    fingerprint: Fingerprint,
}

impl PartialEq for Captured {
    fn eq(&self, other: &Self) -> bool {
        let same = |(one, two): (&Erased, &Erased)| one.same(&**two);
        self.paths == other.paths && self.values.iter().zip(&other.values).all(same)
    }
}

impl Captured {
    /// Key of exactly the leaves read: it changes if and only if one of them does. Of a secret it says only that it was
    /// read.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Paths of the leaves read.
    pub fn leaves(&self) -> &[&'static str] {
        &self.paths
    }

    /// Whether every leaf read still has the value that was read.
    ///
    /// ```
    /// # use kitbag::{ConfigNamespaces, Secret};
    /// # #[derive(ConfigNamespaces)]
    /// # struct Args {
    /// #     /// Token of the store.
    /// #     #[config(ns = "store", secret, hot)]
    /// #     token: Secret<String>,
    /// # }
    /// let cfg = Args::for_test(|o| o.store().token(Secret::new("old".to_owned())));
    /// let (_client, captured) = cfg.capture(|now| now.store().token().expose().clone());
    /// assert!(captured.is_current(&cfg));
    /// cfg.override_permanently("rotated", |o| o.store().token(Secret::new("new".to_owned())))?;
    /// assert!(!captured.is_current(&cfg));
    /// # Ok::<(), kitbag::Errors>(())
    /// ```
    pub fn is_current<S: ConfigNamespaces>(&self, context: &Context<S>) -> bool {
        let now = context.pinned();
        self.leaves.iter().zip(&self.values).all(|(index, read)| now.values()[*index].same(&**read))
    }
}

impl<S: ConfigNamespaces> Context<S> {
    /// Builds something under a recorder and returns it with the fingerprint of what it read.
    ///
    /// ```
    /// # use kitbag::ConfigNamespaces;
    /// # #[derive(ConfigNamespaces)]
    /// # struct Args {
    /// #     /// Jobs that may wait.
    /// #     #[config(ns = "pool", default = 32, hot)]
    /// #     queue: usize,
    /// #     /// Limit.
    /// #     #[config(ns = "pool", default = 9, hot)]
    /// #     limit: usize,
    /// # }
    /// let cfg = Args::for_test(|_| {});
    /// let (plan, captured) = cfg.capture(|now| vec![0u8; *now.pool().queue()]);
    /// assert_eq!((plan.len(), captured.leaves()), (32, &["pool.queue"][..]));
    /// cfg.override_permanently("unrelated", |o| o.pool().limit(1))?;
    /// assert!(captured.is_current(&cfg));
    /// cfg.override_permanently("grow", |o| o.pool().queue(64))?;
    /// assert!(!captured.is_current(&cfg)); // build it again
    /// # Ok::<(), kitbag::Errors>(())
    /// ```
    pub fn capture<T>(&self, build: impl FnOnce(&S::Recording) -> T) -> (T, Captured) {
        let recording = S::Recording::from(self.pinned());
        let built = build(&recording);
        let (pinned, reads) = recording.parts();
        let leaves = reads.leaves();
        let table = self.table();
        let paths = leaves.iter().map(|index| table.entries[*index].info.path).collect();
        let values = leaves.iter().map(|index| Erased::clone(&pinned.values()[*index])).collect();
        let fingerprint = Fingerprint::of_leaves(table, pinned.values(), leaves.iter().copied());
        (built, Captured { leaves, paths, values, fingerprint })
    }

    /// Fingerprint of all effective values except secrets and leaves marked `cache_key = false`.
    ///
    /// Equal in two processes that run with the same settings: compare to find drift.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let table = self.table();
        let leaves = (0..table.entries.len()).filter(|index| {
            let info = table.entries[*index].info;
            info.cache_key && !info.is_secret()
        });
        Fingerprint::of_leaves(table, self.pinned().values(), leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::Fingerprint;

    /// Expected values from an independent implementation of 128-bit FNV-1a, checked against its published vectors.
    /// They are stored in users' files, so they must never change.
    #[test]
    fn digests_are_fnv_1a() {
        assert_eq!(Fingerprint::of([]).to_string(), "6c62272e07bb014262b821756295c58d");
        assert_eq!(Fingerprint::of(["pool.queue", "32"]).to_string(), "1873624d7f4c25fb12a34c7467a07c23");
        assert_eq!(Fingerprint::of(["ab", "c"]).to_string(), "32763e664083d94f70814487f805ad59");
        assert_ne!(Fingerprint::of(["ab", "c"]), Fingerprint::of(["a", "bc"]));
    }
}

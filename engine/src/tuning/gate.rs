//! May products be tuned, and if not, why not?

/// What a user wants of the blocks of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autotune {
    /// The built-in ones.
    Off,
    /// Those of the table that was kept, as far as it goes.
    Kept,
    /// The same, and what is missing there is measured.
    Auto,
}

/// All that the decision follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    /// What the user wants.
    pub wanted: Autotune,
    /// Whether the model runs on a CUDA device.
    pub on_cuda: bool,
    /// Whether results may depend on nothing but the request.
    pub is_deterministic: bool,
    /// Whether a product has the same bits in every block that may be chosen.
    pub blocks_agree: bool,
    /// Sizes of products that are to be prepared.
    pub sizes: usize,
    /// Those of them that the kept table lacks.
    pub missing: usize,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The built-in blocks are used, whatever has been kept.
    BuiltIn(Reason),
    /// The kept table is used, and covers everything.
    Kept,
    /// The kept table is used, if there is one; for what it lacks the built-in blocks are.
    KeptInPart,
    /// What the kept table lacks is measured.
    Tune,
}

/// Why nothing is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There are no such blocks elsewhere.
    NotOnCuda,
    /// The user does not want it.
    Disabled,
    /// A measurement would decide bits.
    Deterministic,
    /// Nothing is prepared, so there is no size to choose for.
    NothingPrepared,
}

/// Whether products are tuned. What is against it counts in the order of [`Reason`].
#[must_use]
pub fn gate(situation: Situation) -> Verdict {
    let Situation { wanted, on_cuda, is_deterministic, blocks_agree, sizes, missing } = situation;
    if !on_cuda {
        return Verdict::BuiltIn(Reason::NotOnCuda);
    }
    if wanted == Autotune::Off {
        return Verdict::BuiltIn(Reason::Disabled);
    }
    if is_deterministic && !blocks_agree {
        return Verdict::BuiltIn(Reason::Deterministic);
    }
    if sizes == 0 {
        return Verdict::BuiltIn(Reason::NothingPrepared);
    }
    match (missing, wanted) {
        (0, _) => Verdict::Kept,
        (_, Autotune::Auto) => Verdict::Tune,
        (_, Autotune::Kept | Autotune::Off) => Verdict::KeptInPart,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of conditions, of which `None` is any; the first that holds says what is right.
    type Row = (Option<Autotune>, Option<bool>, Option<bool>, Option<bool>, Option<usize>, Option<usize>, Verdict);

    const TRUTH: [Row; 8] = {
        use Autotune::{Auto, Kept, Off};
        let (yes, no) = (Some(true), Some(false));
        [
            // Wanted, on CUDA, deterministic, blocks agree, sizes, missing.
            (None, no, None, None, None, None, Verdict::BuiltIn(Reason::NotOnCuda)),
            (Some(Off), yes, None, None, None, None, Verdict::BuiltIn(Reason::Disabled)),
            (None, yes, yes, no, None, None, Verdict::BuiltIn(Reason::Deterministic)),
            (None, yes, None, None, Some(0), None, Verdict::BuiltIn(Reason::NothingPrepared)),
            (Some(Kept), yes, None, None, None, Some(0), Verdict::Kept),
            (Some(Auto), yes, None, None, None, Some(0), Verdict::Kept),
            (Some(Kept), yes, None, None, None, None, Verdict::KeptInPart),
            (Some(Auto), yes, None, None, None, None, Verdict::Tune),
        ]
    };

    fn is<T: PartialEq + Copy>(condition: Option<T>, value: T) -> bool {
        condition.is_none_or(|wanted| wanted == value)
    }

    #[test]
    fn every_situation_has_its_verdict() {
        let mut met = [0; TRUTH.len()];
        let both = [false, true];
        for wanted in [Autotune::Off, Autotune::Kept, Autotune::Auto] {
            for (on_cuda, is_deterministic) in both.into_iter().flat_map(|one| both.map(|other| (one, other))) {
                for blocks_agree in both {
                    for (sizes, missing) in [(0, 0), (3, 0), (3, 1), (3, 3)] {
                        let situation = Situation { wanted, on_cuda, is_deterministic, blocks_agree, sizes, missing };
                        let row = TRUTH.iter().position(|(a, b, c, d, e, f, _)| {
                            is(*a, wanted)
                                && is(*b, on_cuda)
                                && is(*c, is_deterministic)
                                && is(*d, blocks_agree)
                                && is(*e, sizes)
                                && is(*f, missing)
                        });
                        let row = row.expect("the table is complete");
                        met[row] += 1;
                        assert_eq!(gate(situation), TRUTH[row].6, "{situation:?}");
                    }
                }
            }
        }
        // Of 96 situations, half are not on CUDA; of the 48 others a third is off, a quarter of the rest forbids a choice, in a
        // quarter of what is left nothing is prepared, and in a third of that rest nothing is missing.
        assert_eq!(met, [48, 16, 8, 6, 3, 3, 6, 6]);
    }
}

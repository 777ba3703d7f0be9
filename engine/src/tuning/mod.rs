//! Which kernels do the products of a model need, and in which blocks are they fastest?
//!
//! [`prepare`] answers both before the first request. The list of [`warm_up`] says for which numbers of rows: their kernels are
//! compiled, and where [`gate`] allows it, [`search()`] measures blocks on the device and [`TileTable`] keeps what it chose.
//! No bit of a result depends on any of this.

mod gate;
mod search;
mod table;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use kernels::cuda::{CudaError, DeviceFacts};

use crate::error::Result;
use crate::model::{CudaDecoder, Product};
use crate::sizing::warm_up::{self, WarmUp};

pub use gate::{Autotune, Reason, Situation, Verdict, gate};
pub use search::{Choice, Found, Size, Stopwatch, candidates, search};
pub use table::{KeyParts, TableKey, TileTable};

/// Rows of the smallest block: fewer take as long.
const LEAST_ROWS: usize = 16;
/// A sum goes over its row in one order in every block, which the tests of the kernels hold all candidates to.
const BLOCKS_AGREE: bool = true;

/// What is to be prepared, and how.
#[derive(Clone, Debug)]
pub struct Preparation {
    /// Which numbers of rows.
    pub warm_up: WarmUp,
    /// Tokens of a piece of a prompt.
    pub chunk: usize,
    /// Rows of a product at most: tokens of a step.
    pub most_rows: usize,
    /// What is wanted of blocks.
    pub autotune: Autotune,
    /// Whether somebody has said that this is wanted, who is told where there is nothing to use then.
    pub is_asked: bool,
    /// How long measuring may take.
    pub limit: Duration,
    /// Whether results may depend on nothing but the request.
    pub is_deterministic: bool,
    /// Where tables are kept; nothing: nowhere.
    pub folder: Option<PathBuf>,
    /// The fingerprint of the settings that `warm_up`, `chunk` and `most_rows` follow from.
    pub settings_key: u128,
}

/// What has been done, for the person who started the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What was done.
    pub notes: Vec<String>,
    /// What went wrong, and what is not as it was asked for.
    pub warnings: Vec<String>,
}

/// Makes the products of a model ready. States that were made for it before are not for it any more if its blocks change.
///
/// What goes wrong with measuring or the table is in the report, and the built-in blocks do then. The error is a kernel that
/// cannot be compiled, or a device that is lost.
pub fn prepare(model: &mut CudaDecoder, preparation: &Preparation) -> Result<Report> {
    let mut report = Report::default();
    let rows = |most: usize| {
        let most = most.min(preparation.most_rows);
        warm_up::rows(preparation.warm_up, Some(preparation.chunk), most)
    };
    let sizes = sizes(model, preparation.warm_up, rows);
    choose_blocks(model, preparation, &sizes, &mut report)?;
    model.compile_products(rows)?;
    Ok(report)
}

/// The sizes that are measured, the smallest first.
fn sizes(model: &CudaDecoder, warm_up: WarmUp, rows: impl Fn(usize) -> Vec<usize>) -> Vec<Size> {
    let of_product = |product: Product| {
        let rows = warm_up::representatives(warm_up, &rows(product.most_rows), LEAST_ROWS);
        let Product { format, columns, depth, .. } = product;
        rows.into_iter().map(move |rows| Size { format, columns, depth, rows })
    };
    let mut sizes: Vec<_> = model.products().into_iter().flat_map(of_product).collect();
    sizes.sort_by_key(|size| (size.rows, *size));
    sizes
}

/// Finds the table, measures what it lacks if that is wanted, and has the model use it.
fn choose_blocks(
    model: &mut CudaDecoder,
    preparation: &Preparation,
    sizes: &[Size],
    report: &mut Report,
) -> Result<()> {
    let situation = |missing: usize| Situation {
        wanted: preparation.autotune,
        on_cuda: true,
        is_deterministic: preparation.is_deterministic,
        blocks_agree: BLOCKS_AGREE,
        sizes: sizes.len(),
        missing,
    };
    if let Verdict::BuiltIn(_) = gate(situation(sizes.len())) {
        return Ok(());
    }
    let device = model.device_facts()?;
    let of = |product: &Product| (product.format, product.columns, product.depth);
    let products: Vec<_> = model.products().iter().map(of).collect();
    let key = TableKey::of(KeyParts {
        device: &device,
        code: &model.product_code()?,
        products: &products,
        settings: preparation.settings_key,
    });
    let mut table = TileTable::default();
    if let Some(folder) = &preparation.folder {
        match TileTable::read(folder, &key) {
            Ok(kept) => table = kept.unwrap_or_default(),
            Err(why) => report.warnings.push(format!("{why}: the table of blocks is not used")),
        }
    }
    let missing: Vec<_> = sizes.iter().copied().filter(|size| !table.has(*size)).collect();
    let of_all = sizes.len();
    match gate(situation(missing.len())) {
        Verdict::BuiltIn(_) | Verdict::Kept => {}
        // Who has not asked for blocks that were kept misses none.
        Verdict::KeptInPart if !preparation.is_asked => {}
        Verdict::KeptInPart => report.warnings.push(format!(
            "--gemm-autotune kept: nothing has been kept for {} of {of_all} sizes of products with this model, device and \
             compiler, which run in built-in blocks (--gemm-autotune auto measures)",
            missing.len()
        )),
        Verdict::Tune => match tune(model, preparation, &missing) {
            Ok(Measured { found, too_large, seconds }) => {
                let changed = found.choices.iter().filter(|choice| choice.best != choice.built_in).count();
                let measured = found.choices.len();
                if measured > 0 {
                    report.notes.push(format!(
                        "measured the blocks of products at {measured} sizes in {seconds:.1} s: others than the built-in \
                         ones are faster at {changed}"
                    ));
                }
                if found.left > 0 {
                    report.warnings.push(format!(
                        "--gemm-autotune-limit {:?} was over before {} of {of_all} sizes of products were measured: they \
                         run in built-in blocks, and the next start goes on with them",
                        preparation.limit, found.left
                    ));
                }
                if too_large > 0 {
                    report.warnings.push(format!(
                        "{too_large} of {of_all} sizes of products were not measured, for which the device has not enough \
                         free memory: they run in built-in blocks (--chunked-prefill-size of less needs less)"
                    ));
                }
                if measured > 0 {
                    table = TileTable::new(table.choices().iter().copied().chain(found.choices));
                    keep(&table, preparation, (&key, &device), report);
                }
            }
            Err(error) if error.is_lasting() => return Err(error.into()),
            Err(error) => report.warnings.push(format!("products run in built-in blocks, since {error}")),
        },
    }
    if !table.choices().is_empty() {
        model.use_table(&table);
    }
    Ok(())
}

/// What measuring on a device has come to.
struct Measured {
    found: Found,
    /// Sizes that there is no memory for.
    too_large: usize,
    seconds: f64,
}

fn tune(model: &CudaDecoder, preparation: &Preparation, missing: &[Size]) -> std::result::Result<Measured, CudaError> {
    let start = Instant::now();
    let most = missing.iter().map(|size| size.rows).max().unwrap_or(0);
    // Some is left for what a launch needs.
    let free = model.free_memory()? / 2;
    let most = warm_up::rows_that_fit(most, |rows| model.measuring_bytes(rows) as u64, free);
    let fitting: Vec<_> = missing.iter().copied().filter(|size| size.rows <= most).collect();
    let mut stopwatch = model.stopwatch(most)?;
    stopwatch
        .compile(fitting.iter().flat_map(|&size| candidates(size).into_iter().map(move |tile| (size.format, tile))));
    let found = search(&fitting, preparation.limit, &mut stopwatch)?;
    Ok(Measured { found, too_large: missing.len() - fitting.len(), seconds: start.elapsed().as_secs_f64() })
}

/// Keeps a table for the next start, or says why it is lost.
fn keep(table: &TileTable, preparation: &Preparation, (key, device): (&TableKey, &DeviceFacts), report: &mut Report) {
    let Some(folder) = &preparation.folder else {
        report.warnings.push(
            "the measured blocks are kept nowhere, so that each start measures them (--kernel-cache-limit 0)"
                .to_owned(),
        );
        return;
    };
    match table.write(folder, key, device) {
        Ok(path) => report.notes.push(format!("the blocks are kept in {}", path.display())),
        Err(error) => report.warnings.push(format!(
            "the measured blocks cannot be kept in {} ({error}): each start measures them",
            folder.display()
        )),
    }
}

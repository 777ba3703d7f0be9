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

use kernels::cuda::{CompiledAhead, CudaError, DeviceFacts};

use crate::error::{Error, Result};
use crate::model::{CudaDecoder, Product};
use crate::sizing::warm_up::{self, WarmUp};

pub use gate::{Autotune, Reason, Situation, Verdict, gate};
pub use search::{Choice, Found, Size, Stopwatch, candidates, search};
pub use table::{KeyParts, TableKey, TileTable};

/// Rows of the smallest block: fewer take as long.
const LEAST_ROWS: usize = 16;
/// A sum goes over its row in one order in every block, which the tests of the kernels hold all candidates to.
const BLOCKS_AGREE: bool = true;

/// Told to who has asked for blocks that are measured, where there is nothing to measure.
const NOTHING_PREPARED: &str = "--gemm-autotune chooses blocks for the sizes that --gemm-warmup prepares, and that is off: \
                                products run in built-in blocks";

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
    // What was compiled for measuring is not compiled again for what was chosen.
    let _ahead = choose_blocks(model, preparation, &sizes, &mut report)?;
    match model.compile_products(rows) {
        Err(error) if model.has_table() && !matches!(error, Error::DeviceLost(_)) => {
            report.warnings.push(format!("products run in built-in blocks, since those of the table fail: {error}"));
            model.use_table(&TileTable::default());
            model.compile_products(rows)?;
        }
        other => other?,
    }
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

/// Finds the table, measures what it lacks if that is wanted, and has the model use it. What was compiled for that.
fn choose_blocks(
    model: &mut CudaDecoder,
    preparation: &Preparation,
    sizes: &[Size],
    report: &mut Report,
) -> Result<CompiledAhead> {
    let situation = |missing: usize| Situation {
        wanted: preparation.autotune,
        on_cuda: true,
        is_deterministic: preparation.is_deterministic,
        blocks_agree: BLOCKS_AGREE,
        sizes: sizes.len(),
        missing,
    };
    let mut ahead = CompiledAhead::default();
    if let Verdict::BuiltIn(reason) = gate(situation(sizes.len())) {
        if reason == Reason::NothingPrepared && preparation.is_asked {
            report.warnings.push(NOTHING_PREPARED.to_owned());
        }
        return Ok(ahead);
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
            Ok(measured) => {
                let chosen = measured.found.choices.iter().copied();
                table = TileTable::new(table.choices().iter().copied().chain(chosen));
                measured.tell(of_all, report);
                // A start that has all the kernels would find a table of some, and measure nothing.
                let is_worth_keeping = !measured.found.choices.is_empty() && measured.not_prebuilt == 0;
                let is_kept = is_worth_keeping && keep(&table, preparation, (&key, &device), report);
                measured.tell_of_the_rest(preparation.limit, of_all, is_kept, report);
                ahead = measured.ahead;
            }
            Err(error) if error.is_lasting() => return Err(error.into()),
            Err(error) => report.warnings.push(format!("blocks of products are not measured, since {error}")),
        },
    }
    if !table.choices().is_empty() {
        model.use_table(&table);
    }
    Ok(ahead)
}

/// What measuring on a device has come to.
struct Measured {
    found: Found,
    /// Sizes that there is no memory for.
    too_large: usize,
    /// Why blocks could not be measured.
    failures: Vec<CudaError>,
    /// Kinds of blocks without a kernel.
    not_prebuilt: usize,
    seconds: f64,
    /// What was compiled.
    ahead: CompiledAhead,
}

impl Measured {
    fn tell(&self, of_all: usize, report: &mut Report) {
        let choices = &self.found.choices;
        if !choices.is_empty() {
            let changed = choices.iter().filter(|choice| choice.best != choice.built_in).count();
            report.notes.push(format!(
                "measured the blocks of products at {} of {of_all} sizes in {:.1} s: others than the built-in ones are \
                 faster at {changed}",
                choices.len(),
                self.seconds
            ));
        }
    }

    fn tell_of_the_rest(&self, limit: Duration, of_all: usize, is_kept: bool, report: &mut Report) {
        let Self { found: Found { failed, left, .. }, too_large, failures, not_prebuilt, .. } = self;
        if *not_prebuilt > 0 {
            report.warnings.push(format!(
                "{not_prebuilt} kinds of blocks were not measured, which are not among the prebuilt kernels: what was measured \
                 of the others is not kept (with NVRTC all are measured)"
            ));
        }
        if *left > 0 {
            let next = if is_kept { ", and the next start goes on with them" } else { "" };
            report.warnings.push(format!(
                "--gemm-autotune-limit {limit:?} was over before {left} of {of_all} sizes of products were measured: they \
                 run in built-in blocks{next}"
            ));
        }
        if *too_large > 0 {
            report.warnings.push(format!(
                "{too_large} of {of_all} sizes of products were not measured, for which the device has not enough free \
                 memory: they run in built-in blocks (--chunked-prefill-size of less needs less)"
            ));
        }
        if *failed > 0 {
            report.warnings.push(format!(
                "{failed} of {of_all} sizes of products could not be measured in their built-in blocks, which are used"
            ));
        }
        if let [first, ..] = &failures[..] {
            report.warnings.push(format!(
                "blocks of products that failed when they were to be measured are not used ({} failures; the first: {first})",
                failures.len()
            ));
        }
    }
}

fn tune(model: &CudaDecoder, preparation: &Preparation, missing: &[Size]) -> std::result::Result<Measured, CudaError> {
    let start = Instant::now();
    // Some is left for what a launch needs.
    let free = model.free_memory()? / 2;
    let fits = |size: &&Size| model.measuring_bytes(size.rows) as u64 <= free;
    let fitting: Vec<_> = missing.iter().filter(fits).copied().collect();
    let most = fitting.iter().map(|size| size.rows).max().unwrap_or(0);
    let mut stopwatch = model.stopwatch(most)?;
    let found = search(&fitting, preparation.limit, &mut stopwatch)?;
    let (ahead, failures, not_prebuilt) = stopwatch.finish();
    let too_large = missing.len() - fitting.len();
    Ok(Measured { found, too_large, failures, not_prebuilt, seconds: start.elapsed().as_secs_f64(), ahead })
}

/// Keeps a table for the next start, or says why it is lost. Whether it is kept.
fn keep(
    table: &TileTable,
    preparation: &Preparation,
    (key, device): (&TableKey, &DeviceFacts),
    report: &mut Report,
) -> bool {
    let Some(folder) = &preparation.folder else {
        report.warnings.push(
            "the measured blocks are kept nowhere, so that each start measures them (--kernel-cache-limit 0)"
                .to_owned(),
        );
        return false;
    };
    match table.write(folder, key, device) {
        Ok(path) => {
            report.notes.push(format!("the blocks are kept in {}", path.display()));
            true
        }
        Err(error) => {
            report.warnings.push(format!(
                "the measured blocks cannot be kept in {} ({error}): each start measures them",
                folder.display()
            ));
            false
        }
    }
}

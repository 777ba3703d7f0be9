//! Products are made ready before the first request, and which blocks they are computed in changes no bit.

use std::fs;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::model::{Batch, CudaChoices, CudaDecoder, CudaSizes, CudaState, MatrixFormat, Product, cuda};
use engine::sizing::warm_up::WarmUp;
use engine::tuning::{Autotune, Choice, KeyParts, Preparation, Report, Size, TableKey, TileTable, prepare};
use kernel_tests::options;
use kernels::cpu::{SequenceSpan, Workers};
use kernels::cuda::{
    BlockFormat, CacheCounts, CudaDevice, CudaOptions, Gemm, GemmTile, GemmTiles, KernelCache, Prebuilt, Target,
};
use tempfile::TempDir;

use super::quantised::{in_blocks, mixed};
use super::{Reference, SPLIT, open};

const STEP: usize = 20;
const SIZES: CudaSizes = CudaSizes { page_size: 8, pages: 8, step_tokens: STEP, sequences: 1, context_length: 64 };

/// A model whose kernels are kept in a cache that counts.
fn load(model: &str, cache: &Arc<KernelCache>) -> CudaDecoder {
    load_from(&open(model), cache)
}

/// One with matrices in bf16 and in blocks of every kind.
fn load_mixed(cache: &Arc<KernelCache>) -> CudaDecoder {
    let files = tempfile::tempdir().expect("a folder");
    let path = files.path().join("mixed.gguf");
    fs::write(&path, in_blocks("llama", mixed)).expect("written");
    load_from(&Checkpoint::open(&path, LoadFormat::Auto).unwrap_or_else(|error| panic!("{error}")), cache)
}

fn load_from(checkpoint: &Checkpoint, cache: &Arc<KernelCache>) -> CudaDecoder {
    load_with(checkpoint, &CudaOptions { kernel_cache: Some(Arc::clone(cache)), ..options() }, true)
}

fn load_with(checkpoint: &Checkpoint, options: &CudaOptions, graphs: bool) -> CudaDecoder {
    let device = CudaDevice::open(options).unwrap_or_else(|error| panic!("{error}"));
    let workers = Workers::new(NonZeroUsize::MIN).expect("threads start");
    let plan = checkpoint.plan().unwrap_or_else(|error| panic!("{error}"));
    let choices = CudaChoices { page_size: 8, decode: SPLIT, graphs, settings_key: 0 };
    CudaDecoder::load(&plan, &workers, device, choices).unwrap_or_else(|error| panic!("{error}"))
}

fn preparation(warm_up: WarmUp, autotune: Autotune, folder: Option<&Path>) -> Preparation {
    Preparation {
        warm_up,
        chunk: STEP,
        most_rows: STEP,
        autotune,
        is_asked: true,
        limit: Duration::from_hours(1),
        is_deterministic: false,
        folder: folder.map(Path::to_owned),
        settings_key: 3,
    }
}

fn bf16(model: &CudaDecoder) -> &GemmTiles {
    model.tiles(MatrixFormat::Bf16).expect("every model has them")
}

fn prepared(model: &mut CudaDecoder, preparation: &Preparation) -> Report {
    prepare(model, preparation).unwrap_or_else(|error| panic!("{error}"))
}

/// Tokens after those that are there; the bits of their logits.
fn step(model: &CudaDecoder, state: &mut CudaState, cached: usize, token_ids: &[u32]) -> Vec<u32> {
    let table: Vec<u32> = (0..8).collect();
    let positions: Vec<usize> = (cached..cached + token_ids.len()).collect();
    let rows: Vec<usize> = (0..token_ids.len()).collect();
    let span = SequenceSpan { block_table: &table, cached, new: token_ids.len() };
    let batch = Batch { token_ids, positions: &positions, slots: &positions, sequences: &[span], logit_rows: &rows };
    let logits = model.forward(state, batch, &AtomicBool::new(false)).unwrap_or_else(|error| panic!("{error}"));
    logits.expect("nobody cancels it").into_iter().map(f32::to_bits).collect()
}

/// Prompts of several lengths, and then single tokens, of which the last is captured.
fn run(model: &CudaDecoder, tokens: &[u32]) -> (CudaState, Vec<Vec<u32>>) {
    let mut state = model.state(SIZES).unwrap_or_else(|error| panic!("{error}"));
    let (mut cached, mut logits) = (0, Vec::new());
    for length in [STEP, 17, 2, 1, 1, 1] {
        logits.push(step(model, &mut state, cached, &tokens[cached..cached + length]));
        cached += length;
    }
    (state, logits)
}

type Load = fn(&Arc<KernelCache>) -> CudaDecoder;

/// Those of which steps are run, and whose tokens these are.
const MODELS: [(&str, Load); 3] =
    [("llama", |cache| load("llama", cache)), ("qwen3_moe", |cache| load("qwen3_moe", cache)), ("llama", load_mixed)];

#[test]
fn what_the_list_prepares_is_compiled_before_the_first_request_and_nothing_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Arc::new(KernelCache::new(folder.path().to_owned(), 1 << 30));
    let loaded = |counts: CacheCounts| counts.found + counts.compiled;
    for (model, load) in MODELS {
        let tokens = Reference::of(model).tokens;
        for (warm_up, is_ready) in [(WarmUp::Off, false), (WarmUp::Fast, true), (WarmUp::Full, true)] {
            let mut decoder = load(&cache);
            let before = loaded(cache.counts());
            let report = prepared(&mut decoder, &preparation(warm_up, Autotune::Off, None));
            assert_eq!(report, Report::default());
            assert_eq!(loaded(cache.counts()) > before, is_ready, "{model}, {warm_up:?}");
            let mut state = decoder.state(SIZES).unwrap_or_else(|error| panic!("{error}"));
            let ready = loaded(cache.counts());
            for length in 1..=STEP {
                step(&decoder, &mut state, 0, &tokens[..length]);
            }
            assert_eq!(loaded(cache.counts()) == ready, is_ready, "{model}, {warm_up:?}");
        }
    }
}

#[test]
fn experts_get_blocks_of_many_rows_ready_where_a_step_may_need_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Arc::new(KernelCache::new(folder.path().to_owned(), 1 << 30));
    let mut decoder = load("qwen3_moe", &cache);
    // Two of eight experts each: from 68 tokens on, an expert has more than 16 on average.
    let mut compiled_for = |most_rows: usize| {
        let before = cache.counts().compiled;
        let few = Preparation { chunk: most_rows, most_rows, ..preparation(WarmUp::Full, Autotune::Off, None) };
        prepared(&mut decoder, &few);
        cache.counts().compiled - before
    };
    // Products with one matrix of one row and of some, and what is sorted, multiplied and multiplied again.
    assert_eq!([67, 68, 69].map(&mut compiled_for), [2 + 3, 3, 0]);
}

/// A table in which each product has another block than the built-in one, and one to itself.
fn other_blocks(model: &CudaDecoder) -> TileTable {
    let products = model.products();
    let choices = products.iter().enumerate().flat_map(|(place, product)| {
        [1, 16, STEP].map(|rows| {
            let Product { format, columns, depth, .. } = *product;
            let size = Size { format, columns, depth, rows };
            let built_in = GemmTiles::default().choose(rows, product.columns, product.depth);
            let mut others = GemmTile::CANDIDATES.into_iter().cycle().skip(place).filter(|tile| *tile != built_in);
            let tile = others.next().expect("there are several");
            Choice { size, tile, built_in: Duration::from_nanos(2), best: Duration::from_nanos(1) }
        })
    });
    TileTable::new(choices)
}

#[test]
fn blocks_change_no_bit_and_captured_steps_carry_their_number() {
    let cache = Arc::new(kernel_tests::kernel_cache());
    for (model, load) in MODELS {
        let tokens = Reference::of(model).tokens;
        let mut decoder = load(&cache);
        let (mut before, expected) = run(&decoder, &tokens);
        assert_eq!((before.graph_use().launched, before.graph_use().tiles_id), (2, 0));
        let table = other_blocks(&decoder);
        decoder.use_table(&table);
        for Product { format, .. } in decoder.products() {
            assert_eq!(decoder.tiles(format), Some(&GemmTiles::tuned(table.tiles(format))));
        }
        let (state, got) = run(&decoder, &tokens);
        assert!(got == expected, "{model}");
        assert_eq!((state.graph_use().launched, state.graph_use().tiles_id), (2, table.id()));
        // What was captured before has kernels that are gone.
        let stale = catch_unwind(AssertUnwindSafe(|| step(&decoder, &mut before, 0, &tokens[..1])));
        assert!(stale.is_err(), "{model}");
    }
}

#[test]
fn what_was_measured_is_kept_found_again_and_replaced_when_it_is_damaged() {
    let cache = Arc::new(kernel_tests::kernel_cache());
    let folder = tempfile::tempdir().expect("a folder");
    let start = |autotune: Autotune, settings_key: u128| {
        let mut decoder = load("llama", &cache);
        let preparation = Preparation { settings_key, ..preparation(WarmUp::Fast, autotune, Some(folder.path())) };
        let report = prepared(&mut decoder, &preparation);
        println!("{report:#?}");
        (report, bf16(&decoder).clone())
    };
    let files = || {
        let entries = fs::read_dir(folder.path()).expect("the folder").map(|entry| entry.expect("a file").path());
        entries.collect::<Vec<_>>()
    };
    let built_in = GemmTiles::default();
    let (none, tiles) = start(Autotune::Kept, 3);
    assert!(none.notes.is_empty() && tiles == built_in && files().is_empty());
    // Two numbers of rows, 16 and 20, of each of five products.
    let [warning] = &none.warnings[..] else { panic!("{none:?}") };
    assert!(warning.contains("nothing has been kept for 10 of 10 sizes"), "{warning}");
    // Nobody has said that there should be any.
    let unasked = Preparation { is_asked: false, ..preparation(WarmUp::Fast, Autotune::Kept, Some(folder.path())) };
    assert_eq!(prepared(&mut load("llama", &cache), &unasked), Report::default());

    let (measured, tuned) = start(Autotune::Auto, 3);
    assert!(measured.warnings.is_empty(), "{measured:?}");
    assert!(measured.notes[0].starts_with("measured the blocks of products at 10 of 10 sizes in "), "{measured:?}");
    let [path] = &files()[..] else { panic!("one file") };
    assert!(measured.notes[1].contains(&path.display().to_string()), "{measured:?}");
    assert!(tuned != built_in);
    for autotune in [Autotune::Kept, Autotune::Auto] {
        let (found, tiles) = start(autotune, 3);
        assert!(found == Report::default() && tiles == tuned, "{autotune:?}: {found:?}");
    }
    assert!(start(Autotune::Off, 3) == (Report::default(), built_in.clone()));
    // Other settings are another table.
    let (other, tiles) = start(Autotune::Kept, 4);
    assert!(other.warnings.len() == 1 && tiles == built_in);

    let whole = fs::read_to_string(path).expect("text");
    fs::write(path, whole.replacen("\"rows\": 16", "\"rows\": 17", 1)).expect("written");
    let (damaged, tiles) = start(Autotune::Kept, 3);
    assert!(damaged.warnings.len() == 2 && tiles == built_in, "{damaged:?}");
    assert!(damaged.warnings[0].contains("its hash is not that of its content"), "{damaged:?}");
    // What is wrong with a file is said whether or not it was asked for.
    let told = prepared(&mut load("llama", &cache), &unasked);
    assert_eq!(told.warnings, damaged.warnings[..1]);
    let (mended, _) = start(Autotune::Auto, 3);
    assert!(mended.warnings.len() == 1 && mended.notes.len() == 2, "{mended:?}");
    let (found, _) = start(Autotune::Kept, 3);
    assert_eq!(found, Report::default());
}

#[test]
fn who_asks_for_blocks_where_no_size_is_prepared_is_told() {
    let cache = Arc::new(kernel_tests::kernel_cache());
    let mut decoder = load("llama", &cache);
    for (autotune, is_asked, told) in
        [(Autotune::Auto, true, 1), (Autotune::Kept, true, 1), (Autotune::Kept, false, 0), (Autotune::Off, true, 0)]
    {
        let preparation = Preparation { is_asked, ..preparation(WarmUp::Off, autotune, None) };
        let Report { notes, warnings } = prepared(&mut decoder, &preparation);
        assert!(notes.is_empty() && warnings.len() == told, "{autotune:?}: {warnings:?}");
        assert!(warnings.iter().all(|warning| warning.contains("--gemm-warmup")), "{warnings:?}");
    }
}

#[test]
fn what_there_was_no_time_for_is_measured_by_the_next_start() {
    let cache = Arc::new(kernel_tests::kernel_cache());
    let folder = tempfile::tempdir().expect("a folder");
    let start = |limit: Duration, folder: Option<&Path>| {
        let mut decoder = load("llama", &cache);
        let report =
            prepared(&mut decoder, &Preparation { limit, ..preparation(WarmUp::Fast, Autotune::Auto, folder) });
        (report, bf16(&decoder).clone())
    };
    // One size is measured however short the time.
    let (one, tiles) = start(Duration::ZERO, Some(folder.path()));
    assert!(one.notes[0].starts_with("measured the blocks of products at 1 of 10 sizes"), "{one:?}");
    let [warning] = &one.warnings[..] else { panic!("{one:?}") };
    assert!(warning.contains("0ns was over before 9 of 10 sizes"), "{warning}");
    assert!(warning.ends_with("the next start goes on with them") && tiles != GemmTiles::default(), "{warning}");
    let (rest, _) = start(Duration::from_hours(1), Some(folder.path()));
    assert!(rest.notes[0].starts_with("measured the blocks of products at 9 of 10 sizes"), "{rest:?}");
    assert!(rest.warnings.is_empty(), "{rest:?}");
    // Without a folder there is no next start.
    let (lost, tiles) = start(Duration::ZERO, None);
    let [nowhere, over] = &lost.warnings[..] else { panic!("{lost:?}") };
    assert!(nowhere.contains("kept nowhere") && over.ends_with("they run in built-in blocks"), "{lost:?}");
    assert!(tiles != GemmTiles::default());
}

/// Where compiled kernels are not kept, each start compiles what it measures.
#[test]
fn a_limit_that_compiling_exceeds_stops_no_start_from_measuring_something() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = CudaOptions { kernel_cache: None, ..options() };
    let mut decoder = load_with(&open("llama"), &options, true);
    let short = Duration::from_nanos(1);
    let short = Preparation { limit: short, ..preparation(WarmUp::Fast, Autotune::Auto, Some(folder.path())) };
    for left in [9, 8] {
        let report = prepared(&mut decoder, &short);
        assert!(report.notes[0].starts_with("measured the blocks of products at 1 of 10 sizes"), "{report:?}");
        let [warning] = &report.warnings[..] else { panic!("{report:?}") };
        assert!(warning.contains(&format!("was over before {left} of 10 sizes")), "{warning}");
    }
}

/// Launched kernel by kernel as well as captured.
#[test]
fn what_is_compiled_for_measuring_is_compiled_once_and_gone_afterwards() {
    for graphs in [false, true] {
        let scratch = tempfile::tempdir().expect("a folder");
        let cache = Arc::new(KernelCache::new(scratch.path().to_owned(), 1 << 30));
        let options = CudaOptions { kernel_cache: Some(Arc::clone(&cache)), ..options() };
        let mut decoder = load_with(&open("llama"), &options, graphs);
        let auto = preparation(WarmUp::Fast, Autotune::Auto, None);
        let start = cache.counts();
        let report = prepared(&mut decoder, &auto);
        assert!(report.notes[0].starts_with("measured the blocks of products at 10 of 10 sizes"), "{report:?}");
        let once = cache.counts();
        assert!(once.found == start.found && once.compiled > start.compiled, "{start:?} {once:?}");
        prepared(&mut decoder, &auto);
        let again = cache.counts();
        assert_eq!(again.compiled, once.compiled);
        assert!(again.found - once.found >= once.compiled - start.compiled, "{start:?} {once:?} {again:?}");
    }
}

/// As where kernels were built elsewhere, which are those of the built-in blocks, and nothing can compile others.
#[test]
fn what_is_measured_without_the_kernels_of_other_blocks_is_not_kept() {
    let [kernels, tables, empty] = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let plan = open("llama");
    let plan = plan.plan().unwrap_or_else(|error| panic!("{error}"));
    let programs = cuda::programs(&plan, SIZES.page_size, SPLIT).unwrap_or_else(|error| panic!("{error}"));
    let prebuilt = Prebuilt::new(kernels.path().to_owned());
    let built = prebuilt.build(&kernel_tests::compiler(), &programs, &[Target::Ptx], NonZeroUsize::MIN);
    built.unwrap_or_else(|error| panic!("{error}"));
    let options = CudaOptions {
        nvrtc_path: Some(empty.path().to_owned()),
        prebuilt: Some(kernels.path().to_owned()),
        kernel_cache: None,
        ..options()
    };
    let mut decoder = load_with(&open("llama"), &options, true);
    let report = prepared(&mut decoder, &preparation(WarmUp::Fast, Autotune::Auto, Some(tables.path())));
    let [warning] = &report.warnings[..] else { panic!("{report:?}") };
    assert!(
        warning.contains("kinds of blocks were not measured, which are not among the prebuilt kernels"),
        "{warning}"
    );
    assert!(fs::read_dir(tables.path()).expect("the folder").next().is_none());
}

/// A folder of kernels in which those of one kind of block are damaged: they cannot be loaded, and all others are compiled.
fn damaged(tile: GemmTile) -> (TempDir, CudaOptions) {
    let folder = tempfile::tempdir().expect("a folder");
    let programs = Gemm::new(GemmTiles::only(tile)).all_programs().unwrap_or_else(|error| panic!("{error}"));
    let prebuilt = Prebuilt::new(folder.path().to_owned());
    let built = prebuilt.build(&kernel_tests::compiler(), &programs, &[Target::Ptx], NonZeroUsize::MIN);
    built.unwrap_or_else(|error| panic!("{error}"));
    let files = fs::read_dir(folder.path()).expect("the folder").map(|entry| entry.expect("a file").path());
    // The other does nothing, and is there to be tried.
    let largest = files.max_by_key(|path| fs::metadata(path).expect("a file").len()).expect("two files");
    fs::write(largest, "damaged").expect("written");
    let options = CudaOptions { prebuilt: Some(folder.path().to_owned()), ..options() };
    (folder, options)
}

#[test]
fn a_block_that_does_not_load_is_told_of_and_the_others_are_measured() {
    let [_, _, broken, ..] = GemmTile::CANDIDATES;
    let (_files, options) = damaged(broken);
    let tokens = Reference::of("llama").tokens;
    let mut decoder = load_with(&open("llama"), &options, true);
    let report = prepared(&mut decoder, &preparation(WarmUp::Fast, Autotune::Auto, None));
    assert!(report.notes[0].starts_with("measured the blocks of products at 10 of 10 sizes"), "{report:?}");
    let [_, warning] = &report.warnings[..] else { panic!("{report:?}") };
    assert!(warning.contains("(1 failures; the first: prebuilt kernels: "), "{warning}");
    for Product { columns, depth, .. } in decoder.products() {
        assert!([16, STEP].iter().all(|&rows| bf16(&decoder).choose(rows, columns, depth) != broken));
    }
    run(&decoder, &tokens);
}

/// A table that was measured where kernels were there that are missing now.
#[test]
fn a_table_whose_blocks_do_not_load_is_told_of_and_the_built_in_blocks_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = preparation(WarmUp::Fast, Autotune::Kept, Some(folder.path()));
    let mut whole = load_with(&open("llama"), &options(), true);
    let table = other_blocks(&whole);
    let device = kernel_tests::device();
    let facts = device.facts().unwrap_or_else(|error| panic!("{error}"));
    let products: Vec<_> = whole.products().iter().map(|of| (of.format, of.columns, of.depth)).collect();
    let code = Gemm::code_key(device.target()).unwrap_or_else(|error| panic!("{error}"));
    let settings = kept.settings_key;
    let key = TableKey::of(KeyParts { device: &facts, code: &code, products: &products, settings });
    table.write(folder.path(), &key, &facts).expect("written");
    assert_eq!(prepared(&mut whole, &kept), Report::default());
    assert_eq!(*bf16(&whole), GemmTiles::tuned(table.tiles(MatrixFormat::Bf16)));

    let built_in = GemmTiles::default();
    let Product { columns, depth, .. } = whole.products()[0];
    let (_files, options) = damaged(bf16(&whole).choose(16, columns, depth));
    let mut decoder = load_with(&open("llama"), &options, true);
    let report = prepared(&mut decoder, &kept);
    let [warning] = &report.warnings[..] else { panic!("{report:?}") };
    assert!(
        warning.starts_with("products run in built-in blocks, ") && warning.contains("prebuilt kernels: "),
        "{warning}"
    );
    assert_eq!(*bf16(&decoder), built_in);
    let (state, _) = run(&decoder, &Reference::of("llama").tokens);
    assert_eq!(state.graph_use().tiles_id, 0);
}

#[test]
fn a_model_has_no_blocks_for_what_it_keeps_no_matrix_in() {
    let decoder = load("llama", &Arc::new(kernel_tests::kernel_cache()));
    assert_eq!(decoder.tiles(MatrixFormat::Blocks(BlockFormat::Q8_0)), None);
    assert_eq!(*bf16(&decoder), GemmTiles::default());
}

#[test]
fn products_with_blocks_are_measured_like_those_in_bf16() {
    let cache = Arc::new(kernel_tests::kernel_cache());
    let folder = tempfile::tempdir().expect("a folder");
    let start = |autotune: Autotune| {
        let mut decoder = load_mixed(&cache);
        let report = prepared(&mut decoder, &preparation(WarmUp::Fast, autotune, Some(folder.path())));
        (report, decoder)
    };
    let (measured, decoder) = start(Autotune::Auto);
    assert!(measured.warnings.is_empty(), "{measured:?}");
    assert!(measured.notes[0].starts_with("measured the blocks of products at 10 of 10 sizes in "), "{measured:?}");
    let mut formats: Vec<_> = decoder.products().into_iter().map(|product| product.format).collect();
    formats.dedup();
    assert_eq!(formats.iter().map(|format| format.name()).collect::<Vec<_>>(), ["BF16", "Q8_0", "Q4_0", "Q4_1"]);
    let (found, again) = start(Autotune::Kept);
    assert_eq!(found, Report::default());
    for format in formats {
        let tiles = again.tiles(format);
        assert!(tiles.is_some_and(|tiles| *tiles != GemmTiles::default()) && tiles == decoder.tiles(format));
        let path = fs::read_dir(folder.path()).expect("the folder").next().expect("a file").expect("readable").path();
        let text = fs::read_to_string(path).expect("text");
        assert!(text.contains(&format!("\"weights\": \"{format}\"")), "{text}");
    }
}

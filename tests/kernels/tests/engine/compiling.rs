//! What a model needs is compiled before anything is loaded, several programs at once, and nothing besides.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::model::{CudaChoices, CudaDecoder, CudaSizes, DecodeKernel, cuda};
use kernel_tests::options;
use kernels::cpu::Workers;
use kernels::cuda::{CudaDevice, CudaOptions, KernelCache, Program};

use super::{SPLIT, folder};

const PAGE_SIZE: usize = 8;
const SIZES: CudaSizes =
    CudaSizes { page_size: PAGE_SIZE, pages: 8, step_tokens: 20, sequences: 1, context_length: 64 };

/// Compiled for the sizes of products.
const OF_PRODUCTS: [&str; 4] = ["gemm.cu", "quantised_gemm.cu", "grouped_gemm.cu", "group_rows.cu"];

/// How many programs were compiled until weights were there, and what there is to compile but for products.
fn compiled(model: &Path, decode: DecodeKernel, threads: usize) -> (usize, Vec<Program>) {
    let scratch = tempfile::tempdir().expect("a folder");
    let cache = Arc::new(KernelCache::new(scratch.path().to_owned(), 1 << 30));
    let options = CudaOptions { kernel_cache: Some(Arc::clone(&cache)), ..options() };
    let device = CudaDevice::open(&options).unwrap_or_else(|error| panic!("{error}"));
    let opened = cache.counts().compiled;
    let checkpoint = Checkpoint::open(model, LoadFormat::Auto).unwrap_or_else(|error| panic!("{error}"));
    let plan = checkpoint.plan().unwrap_or_else(|error| panic!("{error}"));
    let workers = Workers::new(NonZeroUsize::new(threads).expect("not zero")).expect("threads start");
    let choices = CudaChoices { page_size: PAGE_SIZE, decode, graphs: true, settings_key: 0 };
    let model = CudaDecoder::load(&plan, &workers, device, choices).unwrap_or_else(|error| panic!("{error}"));
    let loaded = cache.counts();
    // A runner that is built anew makes another.
    for _ in 0..2 {
        model.state(SIZES).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(cache.counts(), loaded, "with the kernels that know the size of pages");
    }
    assert_eq!(loaded.found, 0, "each once");
    let mut programs = cuda::programs(&plan, PAGE_SIZE, decode).unwrap_or_else(|error| panic!("{error}"));
    assert!(programs.iter().enumerate().all(|(at, program)| !programs[..at].contains(program)), "each once");
    programs.retain(|program| !OF_PRODUCTS.contains(&program.source.name));
    let sorted = |programs: &[Program]| {
        let mut texts: Vec<_> = programs.iter().map(ToString::to_string).collect();
        texts.sort();
        texts
    };
    assert_eq!(sorted(&model.loaded_programs()), sorted(&programs), "what is compiled is what is loaded");
    (loaded.compiled - opened, programs)
}

#[test]
fn a_model_is_compiled_from_what_is_listed_and_from_nothing_else() {
    let cases: [(&str, DecodeKernel, &[&str]); 3] = [
        ("qwen3_moe", SPLIT, &["route_experts.cu", "paged_decode_attention"]),
        ("qwen3_moe", DecodeKernel::Paged, &["route_experts.cu"]),
        ("options/window_of_qwen3_layers", SPLIT, &["WINDOW=6", "WINDOW=0"]),
    ];
    for (threads, (model, decode, has)) in (1..).zip(cases) {
        let model = folder(model);
        let (compiled, listed) = compiled(&model, decode, threads);
        let names: Vec<_> = listed.iter().map(ToString::to_string).collect();
        println!("{}: {names:#?}", model.display());
        assert_eq!(compiled, listed.len(), "{}", model.display());
        assert!(has.iter().all(|part| names.iter().any(|name| name.contains(part))), "{}", model.display());
    }
}

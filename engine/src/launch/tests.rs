//! What is decided when an engine is launched, seen from the models that the tests have.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use engine::checkpoint::Checkpoint;
use engine::generate::{Step, generate};
use engine::model::{DecodeKernel, WeightForm, cuda};
use engine::runner::Runner;
use engine::sizing::warm_up::WarmUp;
use engine::tuning::Autotune;
use engine_config::exec::{
    ActivationDtype, AttentionBackend, Device, GemmAutotune, GemmWarmup, ON_CUDA_ALONE, WeightDtype,
};
use engine_config::model::{self, OutputHead};
use engine_config::{Settings, SettingsSetters};
use kernels::cpu::Isa;
use kernels::cuda::{CudaError, CudaOptions};
use kitbag::{ByteSize, ChildContext, ConfigNamespaces, Context, Facts, Loader, Secret};

use super::{
    Asked, Failure, Machine, Opened, ProductSettings, RunnerRole, SamplerRole, StepSettings, build_runner,
    kernel_check, need, open_where, plan, request,
};

#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../../tests/support/gguf.rs"]
mod gguf;
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../../tests/support/safetensors.rs"]
mod safetensors;

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("readable")).expect("JSON")
}

/// Tests of the CPU are the same beside a GPU.
fn no_cuda(_: &CudaOptions) -> Result<(), CudaError> {
    Err(CudaError::NoDriver)
}

fn open(loader: &Loader<Settings>, name: Option<&Path>) -> Result<Opened, Failure> {
    open_where(loader, name, no_cuda)
}

/// A model as a command builds it, with the settings that are its own.
struct Engine {
    context: Context<Settings>,
    checkpoint: Checkpoint,
    runner: Mutex<Runner>,
}

impl Engine {
    fn new(model: &str, flags: &[&str]) -> Self {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models").join(model);
        let mut argv = vec!["engine", "--model-path", model.to_str().expect("text")];
        argv.extend(flags);
        let loader = Settings::loader().args(argv).facts(Facts::for_test());
        let machine = Machine { isa: Isa::detect(), memory: None };
        let opened = open(&loader, None).unwrap_or_else(|failure| panic!("{failure}"));
        let Opened { context, checkpoint } = opened;
        let runner = build_runner(&context, &checkpoint, machine).unwrap_or_else(|failure| panic!("{failure}"));
        Self { context, checkpoint, runner: Mutex::new(runner) }
    }

    fn answer(&self, prompt: Vec<u32>) -> Vec<u32> {
        let request = request(&self.context.view(), &self.checkpoint, prompt, Asked::default());
        let mut runner = self.runner.lock().expect("no test has failed");
        let (never, all) = (AtomicBool::new(false), |_: Step<'_>| ControlFlow::Continue(()));
        let generation = generate(&mut runner, self.checkpoint.tokenizer(), &request, &never, all);
        generation.expect("there is room").token_ids
    }
}

#[test]
fn two_engines_of_one_process_each_answer_by_their_own_settings() {
    let flags: [&[&str]; 2] = [
        &["--page-size=1", "--chunked-prefill-size=3", "--max-new-tokens=5", "--ignore-eos"],
        &["--page-size=64", "--max-new-tokens=9", "--temperature=1.5", "--seed=11", "--ignore-eos"],
    ];
    let prompts: Vec<Vec<u32>> = (0..4).map(|prompt| (1..8 + prompt).map(|id| id * (prompt + 3)).collect()).collect();
    let alone = |model: &str, flags: &[&str]| {
        let engine = Engine::new(model, flags);
        prompts.iter().map(|prompt| engine.answer(prompt.clone())).collect::<Vec<_>>()
    };
    for (one, other) in [("llama", "llama"), ("llama", "qwen3"), ("qwen3", "llama")] {
        let wanted = [alone(one, flags[0]), alone(other, flags[1])];
        assert!(wanted[0].iter().all(|ids| ids.len() == 5) && wanted[1].iter().all(|ids| ids.len() == 9));
        // What the first engine took for itself would be seen in both.
        let is_greedy = |(one, other): (&Vec<u32>, &Vec<u32>)| other.starts_with(one);
        assert!(!wanted[0].iter().zip(&wanted[1]).all(is_greedy), "a temperature makes no difference");
        let engines = [Engine::new(one, flags[0]), Engine::new(other, flags[1])];
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (engines, wanted, prompts) = (&engines, &wanted, &prompts);
                scope.spawn(move || {
                    for turn in 0..8 {
                        let (engine, prompt) = ((thread + turn) % 2, (thread + turn / 2) % prompts.len());
                        let got = engines[engine].answer(prompts[prompt].clone());
                        assert_eq!(got, wanted[engine][prompt], "{one}, {other}: engine {engine}, prompt {prompt}");
                    }
                });
            }
        });
    }
}

#[test]
fn the_memory_reckoned_for_weights_is_what_they_take() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let names = std::fs::read_dir(folder).expect("models").map(|entry| entry.expect("an entry").path());
    let mut models = 0;
    for path in names.filter(|path| path.join("model.safetensors").exists()) {
        for flags in [&[][..], &["--weight-dtype=f32"], &["--load-format=dummy"]] {
            let engine = Engine::new(path.to_str().expect("text"), flags);
            let plan = plan(&engine.context.view(), &engine.checkpoint).unwrap_or_else(|failure| panic!("{failure}"));
            let built = engine.runner.lock().expect("no test has failed").built();
            assert_eq!(plan.loaded_bytes(), built.weight_bytes, "{} {flags:?}", path.display());
            assert_eq!(flags.is_empty(), built.weight_bytes < 4 * built.parameters, "{} {flags:?}", path.display());
        }
        models += 1;
    }
    assert!(models >= 3, "{models}");
}

#[test]
fn memory_that_is_too_little_is_told_before_anything_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/llama");
    let opened = |flags: &[&str]| {
        let argv = ["engine", "--model-path", folder.to_str().expect("text")].into_iter().chain(flags.iter().copied());
        let loader = Settings::loader().args(argv).facts(Facts::for_test());
        open(&loader, None).unwrap_or_else(|failure| panic!("{failure}"))
    };
    let Opened { context, checkpoint } = opened(&[]);
    let need = {
        let plan = plan(&context.view(), &checkpoint).unwrap_or_else(|failure| panic!("{failure}"));
        need(&context, &checkpoint, &plan)
    };
    let built = |memory: u64| {
        let machine = Machine { isa: Isa::scalar(), memory: Some(memory) };
        build_runner(&context, &checkpoint, machine).map(|runner| runner.capacity())
    };
    let refused = built(20 << 20).expect_err("less than the model").to_string();
    assert!(refused.contains("and there are 20 MiB") && !refused.contains("--memory-limit"), "{refused}");
    // Ten pages, and not quite an eleventh.
    assert_eq!(built(need.model() + need.kv_per_token * 175).ok(), Some(160));
    assert_eq!(built(1 << 30).ok(), Some(2048));
    // A limit is told as it was given.
    for (limit, there, raise) in
        [("20MiB", "20 MiB", "20MiB"), ("1KiB", "1 KiB", "1KiB"), ("20000000", "19 MiB", "20000000B")]
    {
        let Opened { context, checkpoint } = opened(&[&format!("--memory-limit={limit}")]);
        let machine = Machine { isa: Isa::scalar(), memory: None };
        let refused = build_runner(&context, &checkpoint, machine).err().map(|failure| failure.to_string());
        let refused = refused.expect("a limit that is set counts");
        assert!(refused.contains(&format!("and there are {there}:")), "{refused}");
        assert!(refused.ends_with(&format!(", or raise --memory-limit from {raise}")), "{refused}");
    }
}

/// The value of a setting, and who gave it.
fn decided(context: &Context<Settings>, path: &str) -> (String, String) {
    let explained = context.explain(path).expect("a leaf").to_string();
    let counts = explained.lines().find(|line| line.trim_start().starts_with('>')).expect("a value counts");
    (context.value(path).expect("a leaf").to_string(), counts.to_owned())
}

#[test]
fn what_is_left_to_the_model_is_decided_before_it_is_built_and_says_by_what() {
    let leaves =
        ["model.context_length", "model.output_head", "exec.kernel.weight_dtype", "exec.kernel.activation_dtype"];
    let cases: [(&str, &[&str], [&str; 4]); 3] = [
        ("llama_tied", &[], ["2048", "\"tied\"", "\"stored\"", "\"f32\""]),
        ("qwen2", &[], ["2048", "\"own\"", "\"stored\"", "\"f32\""]),
        ("qwen2", &["--load-format=dummy"], ["2048", "\"own\"", "\"f32\"", "\"f32\""]),
    ];
    for (model, flags, values) in cases {
        let engine = Engine::new(model, flags);
        for (leaf, value) in leaves.iter().zip(values) {
            let (got, by) = decided(&engine.context, leaf);
            assert_eq!(got, value, "{model} {flags:?}: {leaf}");
            assert!(by.contains("load time \"") && by.contains(&format!("tests/models/{model} ")), "{leaf}: {by}");
        }
        assert_eq!(engine.runner.lock().expect("no test has failed").context_length(), 2048);
    }
    let (_, by) = decided(&Engine::new("llama_tied", &[]).context, "exec.kernel.weight_dtype");
    assert!(by.contains("llama_tied stores BF16\""), "{by}");
}

#[test]
fn the_device_is_the_cpu_unless_there_is_one_that_runs_the_model_and_says_why() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let opened = |flags: &[&str], is_there: bool| {
        let path = models.join("llama");
        let argv = ["engine", "--model-path", path.to_str().expect("text")].into_iter().chain(flags.iter().copied());
        let probe: super::CudaProbe = if is_there { |_| Ok(()) } else { no_cuda };
        open_where(&Settings::loader().args(argv).facts(Facts::for_test()), None, probe)
    };
    let leaves = ["exec.device", "exec.kernel.weight_dtype", "exec.kernel.activation_dtype"];
    let cases: [(&[&str], bool, [&str; 3], &str); 5] = [
        (&[], false, ["cpu", "stored", "f32"], "no CUDA driver: libcuda.so is not on the library path"),
        (&[], true, ["cuda", "bf16", "bf16"], "a CUDA driver, NVRTC and a GPU are there"),
        (&["--page-size=24"], true, ["cpu", "stored", "f32"], "page_size is 24; supported"),
        (&["--device=cpu"], true, ["cpu", "stored", "f32"], "--device"),
        (&["--device=cuda"], true, ["cuda", "bf16", "bf16"], "--device"),
    ];
    for (flags, is_there, values, why) in cases {
        let Opened { context, .. } = opened(flags, is_there).unwrap_or_else(|failure| panic!("{failure}"));
        for (leaf, value) in leaves.iter().zip(values) {
            assert_eq!(decided(&context, leaf).0.trim_matches('"'), value, "{flags:?}: {leaf}");
        }
        let (_, by) = decided(&context, "exec.device");
        assert!(by.contains(why), "{flags:?}: {by}");
    }
    let refused = opened(&["--device=cuda"], false).err().map(|failure| failure.to_string());
    assert!(refused.is_some_and(|refused| refused.contains("--device cuda: no CUDA driver")));
    // What a device cannot do is refused before it is opened.
    for (flags, why) in [
        (&["--device=cuda", "--page-size=24"][..], "page_size is 24; supported: powers of two"),
        (&["--device=cuda", "--weight-dtype=f32"], "--weight-dtype f32 is not available on CUDA"),
        (&["--device=cuda", "--activation-dtype=f32"], "--activation-dtype f32 is not available"),
        (&["--device=cpu", "--weight-dtype=bf16"], "--weight-dtype bf16 is not available on the CPU"),
    ] {
        let opened = opened(flags, true);
        let Opened { context, checkpoint } = opened.unwrap_or_else(|failure| panic!("{failure}"));
        let machine = Machine { isa: Isa::scalar(), memory: None };
        let failure = build_runner(&context, &checkpoint, machine).err().map(|failure| failure.to_string());
        assert!(failure.as_ref().is_some_and(|failure| failure.contains(why)), "{flags:?}: {failure:?}");
    }
}

#[test]
fn weights_stay_as_they_are_stored_on_cuda_where_it_has_kernels_for_them() {
    let llama = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/llama");
    let folder = tempfile::tempdir().expect("a folder");
    let (blocks, plain) = (folder.path().join("blocks.gguf"), folder.path().join("plain.gguf"));
    std::fs::write(&blocks, gguf::in_blocks(&llama, |name| name.contains("ffn").then_some(3))).expect("written");
    std::fs::write(&plain, gguf::from_folder(&llama)).expect("written");
    let bf16 = "runs on CUDA, whose kernels compute with bf16";
    for (path, flags, expected, why) in [
        (&blocks, &[][..], "stored", "blocks.gguf stores Q4_1, for which CUDA has a kernel"),
        (&blocks, &["--weight-dtype=bf16"], "bf16", "--weight-dtype"),
        (&plain, &[], "bf16", bf16),
        (&plain, &["--weight-dtype=stored"], "stored", "--weight-dtype"),
    ] {
        let argv = ["engine", "--device=cuda", "--model-path", path.to_str().expect("text")];
        let argv = argv.into_iter().chain(flags.iter().copied());
        let opened = open_where(&Settings::loader().args(argv).facts(Facts::for_test()), None, |_| Ok(()));
        let Opened { context, checkpoint } = opened.unwrap_or_else(|failure| panic!("{failure}"));
        let (form, by) = decided(&context, "exec.kernel.weight_dtype");
        assert!(form.trim_matches('"') == expected && by.contains(why), "{flags:?}: {form} {by}");
        assert!(decided(&context, "exec.kernel.activation_dtype").1.contains(bf16));
        let plan = plan(&context.view(), &checkpoint).unwrap_or_else(|failure| panic!("{failure}"));
        // 3 x 3 matrices of 8192 elements, of which 20 bytes are 32.
        let saved = if expected == "stored" && path == &blocks { 9 * (8192 * 2 - 8192 / 32 * 20) } else { 0 };
        let all_bf16 = checkpoint.plan().expect("a plan").with_form(WeightForm::Expanded);
        let of = |plan| cuda::need(plan, 1, StepSettings::read(&context).0.choices).weights;
        assert_eq!(of(&all_bf16) - of(&plan), saved, "{flags:?}");
    }
}

#[test]
fn a_device_that_is_not_there_is_told_before_a_model_is_looked_for() {
    let argv = ["engine", "--model-path=/no/such/model", "--device=cuda"];
    let refused = open(&Settings::loader().args(argv).facts(Facts::for_test()), None);
    let said = refused.err().expect("there is no driver").to_string();
    assert!(said.contains("--device cuda") && !said.contains("/no/such/model"), "{said}");
}

#[test]
fn a_text_ends_at_the_tokens_of_its_model_unless_they_are_ignored() {
    for (flags, are_added) in [(&[][..], true), (&["--ignore-eos"], false)] {
        let engine = Engine::new("llama", flags);
        let asked = Asked { stop_token_ids: vec![7], ..Asked::default() };
        let request = request(&engine.context.view(), &engine.checkpoint, vec![1], asked);
        let own = engine.checkpoint.stop_token_ids();
        assert!(!own.is_empty());
        let mut wanted = vec![7];
        wanted.extend(own.iter().filter(|_| are_added));
        assert_eq!(request.stop_token_ids, wanted, "{flags:?}");
    }
}

#[test]
fn the_kernels_of_attention_follow_the_device_and_the_settings_and_say_why() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/llama");
    let opened = |flags: &[&str]| {
        let argv = ["engine", "--model-path", model.to_str().expect("text")].into_iter().chain(flags.iter().copied());
        let opened = open_where(&Settings::loader().args(argv).facts(Facts::for_test()), None, |_| Ok(()));
        opened.unwrap_or_else(|failure| panic!("{failure}"))
    };
    let common = "attention_backend says so";
    let on_cuda = "the best for prompts on CUDA";
    let cases = [
        (
            &["--device=cpu"][..],
            [("cpu-paged", "the best for prompts on the CPU"), ("cpu-paged", "the best for single tokens on the CPU")],
        ),
        (&["--device=cuda"], [("cuda-paged", on_cuda), ("cuda-split-kv", "the best for single tokens on CUDA")]),
        (
            &["--device=cuda", "--enable-deterministic-inference"],
            [("cuda-paged", on_cuda), ("cuda-paged", "not cuda-split-kv: it adds in another order")],
        ),
        (&["--device=cuda", "--attention-backend=cuda-paged"], [("cuda-paged", common), ("cuda-paged", common)]),
        (
            &["--device=cuda", "--attention-backend=cuda-paged", "--decode-attention-backend=cuda-split-kv"],
            [("cuda-paged", common), ("cuda-split-kv", "--decode-attention-backend")],
        ),
    ];
    for (flags, kernels) in cases {
        let context = opened(flags).context;
        for (leaf, (kernel, why)) in ["prefill", "decode"].into_iter().zip(kernels) {
            let (got, by) = decided(&context, &format!("exec.kernel.{leaf}_attention_backend"));
            assert!(got.trim_matches('"') == kernel && by.contains(why), "{flags:?}, {leaf}: {got} {by}");
        }
    }
    for (flags, why) in [
        (
            &["--device=cuda", "--attention-backend=cuda-split-kv"][..],
            "--attention-backend cuda-split-kv: it takes one new token of each sequence (--decode-attention-backend is for those); \
             supported here for prompts: cuda-paged",
        ),
        (
            &["--device=cuda", "--prefill-attention-backend=cpu-paged"],
            "--prefill-attention-backend cpu-paged: it is a kernel of the CPU, where the model does not run; \
             supported here for prompts: cuda-paged",
        ),
        (
            &["--device=cuda", "--decode-attention-backend=cuda-split-kv", "--enable-deterministic-inference"],
            "which --enable-deterministic-inference forbids; supported here for single tokens: cuda-paged",
        ),
        (
            &["--device=cpu", "--decode-attention-backend=cuda-paged"],
            "--decode-attention-backend cuda-paged: it is a kernel of CUDA, where the model does not run; \
             supported here for single tokens: cpu-paged",
        ),
    ] {
        let Opened { context, checkpoint } = opened(flags);
        let machine = Machine { isa: Isa::scalar(), memory: None };
        let failure = build_runner(&context, &checkpoint, machine).err().map(|failure| failure.to_string());
        assert!(failure.as_ref().is_some_and(|failure| failure.contains(why)), "{flags:?}: {failure:?}");
    }
}

/// A change of one setting.
type Flip = (&'static str, fn(&mut SettingsSetters<ChildContext>));

/// One of every setting.
fn flips() -> Vec<Flip> {
    let flips: [Flip; 47] = [
        ("model.model_path", |set| set.model().model_path(Some("x".into()))),
        ("model.load_format", |set| set.model().load_format(model::LoadFormat::Dummy)),
        ("model.check_weights", |set| set.model().check_weights(true)),
        ("model.context_length", |set| set.model().context_length(Some(99))),
        ("model.output_head", |set| set.model().output_head(OutputHead::Own)),
        ("model.cache_dir", |set| set.model().cache_dir("x")),
        ("model.hub_endpoint", |set| set.model().hub_endpoint(Some("x".into()))),
        ("model.hub_token", |set| set.model().hub_token(Some(Secret::new("x".into())))),
        ("model.hub_proxy", |set| set.model().hub_proxy(Some(Secret::new("x".into())))),
        ("model.hub_no_proxy", |set| set.model().hub_no_proxy(vec!["x".into()])),
        ("model.hub_ca_file", |set| set.model().hub_ca_file(Some("x".into()))),
        ("model.hub_stall_timeout", |set| set.model().hub_stall_timeout(Duration::from_secs(1))),
        ("model.hub_retries", |set| set.model().hub_retries(77)),
        ("model.revision", |set| set.model().revision("x")),
        ("schedule.page_size", |set| set.schedule().page_size(64)),
        ("schedule.chunked_prefill_size", |set| set.schedule().chunked_prefill_size(64)),
        // It follows from a setting that nothing reads.
        ("schedule.pool_pages", |set| set.schedule().max_total_tokens(Some(640))),
        ("exec.device", |set| set.exec().device(Device::Cpu)),
        ("exec.threads", |set| set.exec().threads(77)),
        ("exec.memory_limit", |set| set.exec().memory_limit(Some(ByteSize(1 << 30)))),
        ("exec.kernel.attention_backend", |set| {
            set.exec().kernel().attention_backend(AttentionBackend::CudaPaged);
        }),
        ("exec.kernel.prefill_attention_backend", |set| {
            set.exec().kernel().prefill_attention_backend(AttentionBackend::CudaPaged);
        }),
        ("exec.kernel.decode_attention_backend", |set| {
            set.exec().kernel().decode_attention_backend(AttentionBackend::CudaPaged);
        }),
        ("exec.kernel.decode_split_tokens", |set| set.exec().kernel().decode_split_tokens(64)),
        ("exec.kernel.moe_block_rows", |set| set.exec().kernel().moe_block_rows(64)),
        ("exec.kernel.gemm_warmup", |set| set.exec().kernel().gemm_warmup(GemmWarmup::Full)),
        ("exec.kernel.gemm_autotune", |set| set.exec().kernel().gemm_autotune(GemmAutotune::Auto)),
        ("exec.kernel.gemm_autotune_limit", |set| set.exec().kernel().gemm_autotune_limit(Duration::from_secs(7))),
        ("exec.kernel.activation_dtype", |set| set.exec().kernel().activation_dtype(ActivationDtype::Bf16)),
        ("exec.kernel.weight_dtype", |set| set.exec().kernel().weight_dtype(WeightDtype::Bf16)),
        ("exec.kernel.nvrtc_path", |set| set.exec().kernel().nvrtc_path(Some("x".into()))),
        ("exec.kernel.cuda_driver_path", |set| set.exec().kernel().cuda_driver_path(Some("x".into()))),
        ("exec.kernel.prebuilt_kernels", |set| set.exec().kernel().prebuilt_kernels(Some("x".into()))),
        ("exec.kernel.kernel_cache_dir", |set| set.exec().kernel().kernel_cache_dir("x")),
        ("exec.kernel.kernel_cache_limit", |set| set.exec().kernel().kernel_cache_limit(ByteSize(1))),
        ("exec.deterministic.enable_deterministic_inference", |set| {
            set.exec().deterministic().enable_deterministic_inference(true);
        }),
        ("exec.graph.disable_cuda_graph", |set| set.exec().graph().disable_cuda_graph(true)),
        ("sampling.temperature", |set| set.sampling().temperature(0.5)),
        ("sampling.top_k", |set| set.sampling().top_k(3)),
        ("sampling.top_p", |set| set.sampling().top_p(0.5)),
        ("sampling.min_p", |set| set.sampling().min_p(0.5)),
        ("sampling.repetition_penalty", |set| set.sampling().repetition_penalty(1.5)),
        ("sampling.presence_penalty", |set| set.sampling().presence_penalty(1.5)),
        ("sampling.frequency_penalty", |set| set.sampling().frequency_penalty(1.5)),
        ("sampling.max_new_tokens", |set| set.sampling().max_new_tokens(3)),
        ("sampling.seed", |set| set.sampling().seed(Some(3))),
        ("sampling.ignore_eos", |set| set.sampling().ignore_eos(true)),
    ];
    let leaves =
        include_str!("../../../docs/config/leaves.txt").lines().filter(|leaf| !leaf.ends_with("resolution_only"));
    let all: Vec<_> = leaves.map(|leaf| leaf.split_once(':').expect("a type").0).collect();
    assert_eq!(flips.map(|(path, _)| path).as_slice(), all, "every setting is flipped");
    flips.into()
}

/// A path that no setting has would never be told.
#[test]
fn settings_of_cuda_alone_are_settings() {
    let all = flips().iter().map(|&(path, _)| path).collect::<Vec<_>>();
    let unknown: Vec<_> = ON_CUDA_ALONE.iter().filter(|path| !all.contains(path)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// What is captured carries the key of the settings that it was built from, and of no others.
#[test]
fn flipping_a_setting_changes_the_key_of_captured_steps_if_and_only_if_they_depend_on_it() {
    let context = Settings::for_test(|set| {
        set.exec().device(Device::Cuda);
        set.exec().kernel().decode_attention_backend(AttentionBackend::CudaSplitKv);
    });
    let (settings, captured) = StepSettings::read(&context);
    let depends = [
        "model.context_length",
        "schedule.page_size",
        "schedule.chunked_prefill_size",
        "schedule.pool_pages",
        "exec.memory_limit",
        "exec.kernel.decode_attention_backend",
        "exec.kernel.decode_split_tokens",
        "exec.graph.disable_cuda_graph",
    ];
    assert_eq!(captured.leaves(), depends);
    for (path, flip) in flips() {
        let flipped = context.child("flipped", flip).unwrap_or_else(|errors| panic!("{path}: {errors}"));
        let (of_flipped, now) = StepSettings::read(&flipped);
        let is_same = of_flipped.choices.settings_key == settings.choices.settings_key;
        assert_eq!(is_same, !depends.contains(&path), "{path}");
        assert_eq!(captured.is_current(&flipped), is_same, "{path}");
        // The kernel of prompts, when it serves single tokens, divides nothing.
        let is_paged = of_flipped.choices.decode == DecodeKernel::Paged;
        assert_eq!(now.leaves().contains(&"exec.kernel.decode_split_tokens"), !is_paged, "{path}");
    }
}

/// A table of blocks carries the key of the settings that decide for which sizes it was measured. Whether and how long blocks are
/// measured is none of them, so that a table that was measured is found by who does not want to measure.
#[test]
fn flipping_a_setting_changes_the_key_of_tables_if_and_only_if_they_depend_on_it() {
    let context = Settings::for_test(|set| set.model().context_length(Some(512)));
    let (settings, captured) = ProductSettings::read(&context);
    let depends = ["model.context_length", "schedule.chunked_prefill_size", "exec.kernel.gemm_warmup"];
    assert_eq!(captured.leaves(), depends);
    for (path, flip) in flips() {
        let flipped = context.child("flipped", flip).unwrap_or_else(|errors| panic!("{path}: {errors}"));
        let (of_flipped, _) = ProductSettings::read(&flipped);
        assert_eq!(of_flipped.key == settings.key, !depends.contains(&path), "{path}");
        assert_eq!(captured.is_current(&flipped), !depends.contains(&path), "{path}");
    }
}

#[test]
fn products_are_prepared_for_the_rows_of_a_step() {
    let of = |flags: &[&str]| {
        let argv = ["engine"].into_iter().chain(flags.iter().copied());
        let context = Settings::loader().args(argv).facts(Facts::for_test()).load().expect("settings");
        let settings = ProductSettings::read(&context).0;
        settings.preparation(&context, context.view::<RunnerRole>().pin().exec(), None)
    };
    let usual = of(&["--context-length=700", "--chunked-prefill-size=900"]);
    assert_eq!((usual.chunk, usual.most_rows, usual.warm_up), (900, 700, WarmUp::Fast));
    assert_eq!((usual.autotune, usual.limit, usual.is_deterministic), (Autotune::Kept, Duration::from_mins(1), false));
    // The same for who says so, who is then told that there is nothing to use.
    let said = of(&["--gemm-autotune=kept"]);
    assert_eq!((said.autotune, said.is_asked, usual.is_asked), (Autotune::Kept, true, false));
    let other = of(&[
        "--chunked-prefill-size=900",
        "--gemm-warmup=off",
        "--gemm-autotune=auto",
        "--gemm-autotune-limit=3s",
        "--enable-deterministic-inference",
    ]);
    assert_eq!((other.most_rows, other.warm_up, other.autotune), (900, WarmUp::Off, Autotune::Auto));
    assert_eq!((other.limit, other.is_deterministic), (Duration::from_secs(3), true));
    assert_ne!(usual.settings_key, other.settings_key);
}

#[test]
fn what_an_operator_has_set_is_not_decided_by_the_model() {
    let flags = ["--context-length=64", "--weight-dtype=f32", "--activation-dtype=f32", "--output-head=tied"];
    let engine = Engine::new("llama", &flags);
    for flag in flags {
        let (name, value) = flag.split_once('=').expect("a flag");
        let leaf = match name {
            "--context-length" => "model.context_length".to_owned(),
            "--output-head" => "model.output_head".to_owned(),
            other => format!("exec.kernel.{}", other.trim_start_matches('-').replace('-', "_")),
        };
        let (got, by) = decided(&engine.context, &leaf);
        assert!(got.trim_matches('"') == value && by.contains(name), "{leaf}: {got} {by}");
    }
    let built = engine.runner.lock().expect("no test has failed").built();
    assert_eq!((built.context_length, built.weight_bytes), (64, 4 * built.parameters));
    // The head of its own, which this model has, is left out.
    let own = Engine::new("llama", &[]).runner.lock().expect("no test has failed").built();
    assert_eq!(own.parameters - built.parameters, 512 * 64);

    let failure = |model: &str, flags: &[&str]| {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models").join(model);
        let argv = ["engine", "--model-path", model.to_str().expect("text")].into_iter().chain(flags.iter().copied());
        let opened = open(&Settings::loader().args(argv).facts(Facts::for_test()), None);
        let Opened { context, checkpoint } = opened.unwrap_or_else(|failure| panic!("{failure}"));
        let machine = Machine { isa: Isa::scalar(), memory: None };
        build_runner(&context, &checkpoint, machine).err().map(|failure| failure.to_string()).unwrap_or_default()
    };
    let cases: [(&str, &[&str], &str); 4] = [
        ("llama_tied", &["--output-head=own"], "`lm_head.weight` is missing"),
        ("llama", &["--load-format=dummy", "--weight-dtype=stored"], "stored nowhere, use auto or f32"),
        ("llama", &["--context-length=9000"], "context length 9000 is not within 1..=2048"),
        ("llama", &["--activation-dtype=int8"], "--activation-dtype int8 is not available"),
    ];
    for (model, flags, message) in cases {
        let failure = failure(model, flags);
        assert!(failure.contains(message), "{flags:?}: {failure}");
    }
}

#[test]
fn weights_kept_in_either_form_give_the_same_bits() {
    for model in ["llama_tied", "mixtral"] {
        let logits = |flags: &[&str]| -> Vec<u32> {
            let engine = Engine::new(model, flags);
            let mut runner = engine.runner.lock().expect("no test has failed");
            let mut sequence = runner.start();
            let ids: Vec<u32> = (1..40).collect();
            let logits = runner.extend(&mut sequence, &ids, engine::runner::Logits::All).expect("there is room");
            runner.release(sequence).expect("it held its pages");
            logits.into_iter().map(f32::to_bits).collect()
        };
        assert!(logits(&["--weight-dtype=f32"]) == logits(&[]), "{model}");
    }
}

/// The first fault of the change that was taken back: settings that were published without the decisions of the model, and
/// a runner built from them all the same.
#[test]
fn nothing_is_built_from_settings_that_the_model_has_not_decided() {
    let engine = Engine::new("llama", &[]);
    let set = [
        ("exec.device", "--device=cpu"),
        ("model.context_length", "--context-length=8"),
        ("exec.kernel.weight_dtype", "--weight-dtype=stored"),
        ("exec.kernel.activation_dtype", "--activation-dtype=f32"),
        ("exec.kernel.prefill_attention_backend", "--prefill-attention-backend=cpu-paged"),
        ("exec.kernel.decode_attention_backend", "--decode-attention-backend=cpu-paged"),
    ];
    for (leaf, _) in set {
        let others = set.iter().filter(|(other, _)| *other != leaf).map(|(_, flag)| *flag);
        let loader = Settings::loader().args(["engine"].into_iter().chain(others)).facts(Facts::for_test());
        let context = loader.load().expect("valid settings");
        let machine = Machine { isa: Isa::scalar(), memory: None };
        let failure = build_runner(&context, &engine.checkpoint, machine).err();
        let Some(Failure::Run(message)) = failure else { panic!("{leaf} was not missed") };
        assert_eq!(message, format!("{leaf} is left to the model, and no model has been opened for these settings"));
    }
}

#[test]
fn each_role_sees_its_own_settings() {
    let context = Settings::for_test(|set| {
        set.schedule().max_total_tokens(Some(33));
        set.schedule().page_size(16);
        set.sampling().temperature(0.5);
    });
    assert_eq!(context.view::<RunnerRole>().pin().schedule().pool_pages(), Some(3));
    assert!(context.view::<SamplerRole>().pin().sampling().temperature() == 0.5);
}

#[test]
fn kernels_come_from_where_the_settings_say() {
    let options = |flags: &[&str]| {
        let argv = ["engine"].into_iter().chain(flags.iter().copied());
        let context = Settings::loader().args(argv).facts(Facts::for_test()).load().expect("settings");
        kernel_check(&context.view()).0
    };
    let kept = |flags: &[&str]| options(flags).kernel_cache.map(|cache| cache.folder().to_owned());
    // Below the home folder, whose own sign is gone.
    let usual = kept(&[]).expect("tests run as a user with a home folder");
    assert!(usual.is_absolute() && usual.ends_with(".cache/engine/kernels"), "{}", usual.display());
    assert_eq!(kept(&["--kernel-cache-dir=/a/b"]).as_deref(), Some(Path::new("/a/b")));
    assert_eq!(kept(&["--kernel-cache-limit=0"]), None);
    assert_eq!(options(&[]).prebuilt, None);
    assert_eq!(options(&["--prebuilt-kernels=/c"]).prebuilt.as_deref(), Some(Path::new("/c")));
}

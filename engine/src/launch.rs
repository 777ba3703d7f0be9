//! From settings to a running engine: the one place where the library's plain values are read from the configuration.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::default_model;
use engine::generate::Request;
use engine::hub::{self, Connection, Hub, ModelName, Named};
use engine::memory::{Need, Wanted};
use engine::model::{Decoder, WeightPlan};
use engine::runner::{Runner, RunnerLimits};
use engine::sampling::Sampling;
use engine_config::exec::{ActivationDtype, Device, ExecBag, ExecKernelBag};
use engine_config::model::ModelBag;
use engine_config::sampling::SamplingBag;
use engine_config::schedule::ScheduleBag;
use engine_config::{Settings, model};
use kernels::cpu::Workers;
use kernels::cuda::check::CheckShapes;
use kernels::cuda::{CudaDevice, CudaOptions, DecodeAttentionShape, GroupedGemmShape};
use kitbag::{ConfigRole, View};

use crate::cli::Failure;
use crate::machine::Machine;
use crate::terminal;

/// What builds a model and its memory.
#[derive(ConfigRole)]
#[config(reads(ModelBag, ScheduleBag, ExecBag))]
pub(crate) struct RunnerRole;

/// What chooses tokens.
#[derive(ConfigRole)]
#[config(reads(SamplingBag))]
pub(crate) struct SamplerRole;

/// Opens the model the settings name, or the default one, which is fetched when it is not there yet.
pub(crate) fn open_checkpoint(view: &View<Settings, RunnerRole>) -> Result<Checkpoint, Failure> {
    open(view, view.pin().model().model_path())
}

/// Opens the model called `name` instead of the one the settings name.
pub(crate) fn open_named(view: &View<Settings, RunnerRole>, name: &Path) -> Result<Checkpoint, Failure> {
    open(view, Some(name))
}

fn open(view: &View<Settings, RunnerRole>, name: Option<&Path>) -> Result<Checkpoint, Failure> {
    let pin = view.pin();
    refuse_other_devices(pin.exec())?;
    let settings = pin.model();
    let format = match settings.load_format() {
        model::LoadFormat::Auto => LoadFormat::Auto,
        model::LoadFormat::Safetensors => LoadFormat::Safetensors,
        model::LoadFormat::Gguf => LoadFormat::Gguf,
        model::LoadFormat::Dummy => LoadFormat::Dummy,
    };
    match name {
        Some(name) => Checkpoint::open(&named(settings, name)?, format),
        None if format == LoadFormat::Safetensors => {
            let message = "--load-format safetensors needs --model-path: the default model is a GGUF file";
            return Err(Failure::Usage(message.into()));
        }
        None if format == LoadFormat::Dummy => {
            let message = "--load-format dummy needs --model-path: a folder with the config.json of a model";
            return Err(Failure::Usage(message.into()));
        }
        None => Checkpoint::open(&obtain_default(settings)?, LoadFormat::Gguf),
    }
    .map_err(Failure::run)
}

/// The default model, after fetching it when it is not there yet.
fn obtain_default(settings: &ModelBag) -> Result<PathBuf, Failure> {
    default_model::obtain(&with_home(settings.cache_dir())?, hub_of(settings).as_ref()).map_err(Failure::run)
}

/// The path of the model called `name`, after fetching it when it has to be and is not there yet.
fn named(settings: &ModelBag, name: &Path) -> Result<PathBuf, Failure> {
    match Named::of(name) {
        Named::Default => obtain_default(settings),
        Named::Hub(name) => {
            let cached = hub::cached(&with_home(settings.cache_dir())?, &name, settings.revision());
            cached.map_or_else(|| pull_named(settings, &name), Ok).map(|(path, _)| path)
        }
        Named::Path(path) => match path.to_str() {
            // A word alone was meant for a name.
            Some(word) if !path.exists() && !word.contains(['/', '\\', '.']) => Err(Failure::Run(format!(
                "--model-path {word}: there is no such file or folder, and no such short name (those are {})",
                Named::short_names().join(", ")
            ))),
            _ => Ok(path),
        },
    }
}

/// The hub, where one is set.
fn hub_of(settings: &ModelBag) -> Option<Hub> {
    let token = settings.hub_token().map(|token| token.expose().as_str());
    let connection = Connection {
        proxy: settings.hub_proxy().map(|proxy| proxy.expose().clone()),
        no_proxy: settings.hub_no_proxy().to_vec(),
        ca_file: settings.hub_ca_file().map(Path::to_owned),
        stall_timeout: settings.hub_stall_timeout(),
    };
    settings.hub_endpoint().map(|endpoint| Hub::new(endpoint, token, connection))
}

fn pull_named(settings: &ModelBag, name: &ModelName) -> Result<(PathBuf, hub::Record), Failure> {
    let cache = with_home(settings.cache_dir())?;
    hub::pull(hub_of(settings).as_ref(), &cache, name, settings.revision()).map_err(Failure::run)
}

/// Fetches the model called `name`, or the one that the settings name: where it is then, and what came from a hub.
pub(crate) fn pull(
    view: &View<Settings, RunnerRole>,
    name: Option<&Path>,
) -> Result<(PathBuf, Option<hub::Record>), Failure> {
    let pin = view.pin();
    let settings = pin.model();
    match name.or(settings.model_path()).map(Named::of) {
        None | Some(Named::Default) => obtain_default(settings).map(|path| (path, None)),
        Some(Named::Hub(name)) => pull_named(settings, &name).map(|(path, record)| (path, Some(record))),
        Some(Named::Path(path)) => Err(Failure::Usage(format!(
            "{} is a path or no name: a model to fetch is called OWNER/NAME or {}",
            path.display(),
            Named::short_names().join(", ")
        ))),
    }
}

/// Reads the weights and makes room for keys and values, as much as is set or as `machine` has memory for.
///
/// What does not fit is refused before the weights are read.
pub(crate) fn build_runner(
    view: &View<Settings, RunnerRole>,
    checkpoint: &Checkpoint,
    machine: Machine,
) -> Result<Runner, Failure> {
    let pin = view.pin();
    let (schedule, exec) = (pin.schedule(), pin.exec());
    refuse_other_activations(exec.kernel())?;
    let plan = checkpoint.plan().map_err(Failure::run)?;
    let context_length = pin.model().context_length();
    let page_size = schedule.page_size();
    let wanted = match *schedule.pool_pages() {
        Some(pages) => Wanted::All(pages.saturating_mul(page_size)),
        None => Wanted::AtMost(context_length.unwrap_or(checkpoint.config().context_length)),
    };
    let available = exec.memory_limit().map(|limit| limit.0).or(machine.memory);
    let pool_pages = need(view, checkpoint, &plan).pages(available, page_size, wanted).map_err(Failure::run)?;
    let limits =
        RunnerLimits { page_size, pool_pages, chunked_prefill_size: schedule.chunked_prefill_size(), context_length };
    let threads = NonZeroUsize::new(exec.threads()).unwrap_or(NonZeroUsize::MIN);
    let workers = Workers::with_isa(threads, machine.isa).map_err(Failure::run)?;
    if pin.model().check_weights() {
        plan.check_finite(&workers).map_err(Failure::run)?;
    }
    let bar = terminal::progress_bar("loading");
    let progress = |read: usize, all: usize| {
        bar.set_length(all as u64);
        bar.set_position(read as u64);
    };
    let model = Decoder::load(&plan.with_progress(&progress), &workers);
    bar.finish_and_clear();
    Runner::new(model, workers, limits).map_err(Failure::run)
}

/// The memory that the model of `plan` takes with the settings of this moment.
pub(crate) fn need(view: &View<Settings, RunnerRole>, checkpoint: &Checkpoint, plan: &WeightPlan<'_>) -> Need {
    let chunk = view.pin().schedule().chunked_prefill_size();
    Need::of(checkpoint.config(), plan.loaded_bytes() as u64, chunk)
}

/// What a request asks for besides the settings.
#[derive(Clone, Default)]
pub(crate) struct Asked {
    pub(crate) stop: Vec<String>,
    pub(crate) stop_token_ids: Vec<u32>,
    pub(crate) logprobs: Option<usize>,
    pub(crate) prompt_logprobs: Option<usize>,
}

/// A request with the sampling settings of this moment.
pub(crate) fn request(
    view: &View<Settings, SamplerRole>,
    checkpoint: &Checkpoint,
    prompt_token_ids: Vec<u32>,
    asked: Asked,
) -> Request {
    let pin = view.pin();
    let sampling = pin.sampling();
    let mut stop_token_ids = asked.stop_token_ids;
    if !*sampling.ignore_eos() {
        stop_token_ids.extend(checkpoint.stop_token_ids());
    }
    // Special tokens are no part of the text, so a string that spells one is looked for among the tokens.
    let special = |text: &String| checkpoint.tokenizer().and_then(|tokenizer| tokenizer.special_token(text));
    stop_token_ids.extend(asked.stop.iter().filter_map(special));
    Request {
        prompt_token_ids,
        max_new_tokens: *sampling.max_new_tokens(),
        sampling: Sampling {
            temperature: *sampling.temperature(),
            top_k: *sampling.top_k(),
            top_p: *sampling.top_p(),
            min_p: *sampling.min_p(),
            repetition_penalty: *sampling.repetition_penalty(),
            presence_penalty: *sampling.presence_penalty(),
            frequency_penalty: *sampling.frequency_penalty(),
            seed: sampling.seed().unwrap_or_else(any_seed),
        },
        stop_token_ids,
        stop: asked.stop,
        logprobs: asked.logprobs,
        prompt_logprobs: asked.prompt_logprobs,
    }
}

/// Where the random numbers of this moment start.
pub(crate) fn seed(view: &View<Settings, SamplerRole>) -> u64 {
    view.pin().sampling().seed().unwrap_or_else(any_seed)
}

/// A number nobody chose; the standard library seeds its hash maps from the operating system.
fn any_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Replaces a leading `~` by the home folder.
fn with_home(path: &Path) -> Result<PathBuf, Failure> {
    let Ok(rest) = path.strip_prefix("~") else {
        return Ok(path.to_owned());
    };
    match std::env::home_dir() {
        Some(home) => Ok(home.join(rest)),
        None => Err(Failure::Run(format!(
            "this user has no home folder for {}: say where fetched models go with --cache-dir",
            path.display()
        ))),
    }
}

/// Generation runs on the CPU in this version; for any other device, says so and what was found of it.
fn refuse_other_devices(exec: &ExecBag) -> Result<(), Failure> {
    match exec.device() {
        Device::Cpu => Ok(()),
        Device::Cuda => Err(Failure::Run(format!(
            "generation on CUDA is not available in this version, use --device cpu ({})",
            probe_cuda(exec.kernel())
        ))),
    }
}

/// Products on the CPU read single precision in this version.
fn refuse_other_activations(kernel: &ExecKernelBag) -> Result<(), Failure> {
    let name = match kernel.activation_dtype() {
        ActivationDtype::Auto | ActivationDtype::F32 => return Ok(()),
        ActivationDtype::Bf16 => "bf16",
        ActivationDtype::Int8 => "int8",
    };
    Err(Failure::Usage(format!(
        "--activation-dtype {name} is not available: products on the CPU read float32 activations in this version, use auto or f32"
    )))
}

fn probe_cuda(kernel: &ExecKernelBag) -> String {
    match CudaDevice::open(&cuda_options(kernel)).and_then(|device| device.name()) {
        Ok(name) => format!("found {name}"),
        Err(error) => error.to_string(),
    }
}

fn cuda_options(kernel: &ExecKernelBag) -> CudaOptions {
    CudaOptions {
        driver_path: kernel.cuda_driver_path().map(Path::to_owned),
        nvrtc_path: kernel.nvrtc_path().map(Path::to_owned),
        ordinal: 0,
    }
}

/// The device and the shapes of a check of the CUDA kernels; what the settings do not say is small and usual.
pub(crate) fn kernel_check(view: &View<Settings, RunnerRole>) -> (CudaOptions, CheckShapes) {
    let pin = view.pin();
    let kernel = pin.exec().kernel();
    let shapes = CheckShapes {
        attention: DecodeAttentionShape {
            head_dim: 64,
            query_heads: 8,
            kv_heads: 2,
            page_size: pin.schedule().page_size(),
            split_tokens: kernel.decode_split_tokens(),
        },
        experts: GroupedGemmShape {
            block_rows: kernel.moe_block_rows(),
            experts: 8,
            columns: 96,
            depth: 64,
            rows_per_input: 4,
        },
        seed: 1,
    };
    (cuda_options(kernel), shapes)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    use engine::checkpoint::Checkpoint;
    use engine::generate::{Step, generate};
    use engine::runner::Runner;
    use engine_config::Settings;
    use kernels::cpu::Isa;
    use kitbag::{ByteSize, ConfigNamespaces, Context, Facts};

    use super::{Asked, Machine, RunnerRole, SamplerRole, build_runner, need, open_checkpoint, request, with_home};

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
            let context = Settings::loader().args(argv).facts(Facts::for_test()).load().expect("valid settings");
            let machine = Machine { isa: Isa::detect(), memory: None };
            let checkpoint = open_checkpoint(&context.view()).unwrap_or_else(|failure| panic!("{failure}"));
            let runner =
                build_runner(&context.view(), &checkpoint, machine).unwrap_or_else(|failure| panic!("{failure}"));
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
        let prompts: Vec<Vec<u32>> =
            (0..4).map(|prompt| (1..8 + prompt).map(|id| id * (prompt + 3)).collect()).collect();
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
            let engine = Engine::new(path.to_str().expect("text"), &[]);
            let reckoned = engine.checkpoint.plan().expect("a model").loaded_bytes();
            let built = engine.runner.lock().expect("no test has failed").built();
            assert_eq!(reckoned, built.weight_bytes, "{}", path.display());
            models += 1;
        }
        assert!(models >= 3, "{models}");
    }

    #[test]
    fn memory_that_is_too_little_is_told_before_anything_is_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/llama");
        let context = Settings::for_test(|set| {
            set.model().model_path(Some(folder.clone()));
        });
        let checkpoint = open_checkpoint(&context.view()).unwrap_or_else(|failure| panic!("{failure}"));
        let plan = checkpoint.plan().expect("a model");
        let need = need(&context.view(), &checkpoint, &plan);
        let built = |memory: u64| {
            let machine = Machine { isa: Isa::scalar(), memory: Some(memory) };
            build_runner(&context.view(), &checkpoint, machine).map(|runner| runner.capacity())
        };
        let refused = built(20 << 20).expect_err("less than the model").to_string();
        assert!(refused.contains("and there are 20 MiB"), "{refused}");
        // Ten pages, and not quite an eleventh.
        assert_eq!(built(need.model() + need.kv_per_token * 175).ok(), Some(160));
        assert_eq!(built(1 << 30).ok(), Some(2048));
        let set = Settings::for_test(|set| {
            set.exec().memory_limit(Some(ByteSize(20 << 20)));
        });
        let machine = Machine { isa: Isa::scalar(), memory: None };
        assert!(build_runner(&set.view(), &checkpoint, machine).is_err(), "a limit that is set counts");
    }

    #[test]
    fn only_a_leading_tilde_is_the_home_folder() {
        let home = std::env::home_dir().expect("tests run as a user with a home folder");
        let expanded = |path: &str| with_home(Path::new(path)).ok();
        assert_eq!(expanded("~/a/b"), Some(home.join("a/b")));
        assert_eq!(expanded("/a/~"), Some(PathBuf::from("/a/~")));
        assert_eq!(expanded("a"), Some(PathBuf::from("a")));
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
}

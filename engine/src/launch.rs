//! From settings to a running engine: the one place where the library's plain values are read from the configuration.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::default_model;
use engine::generate::Request;
use engine::runner::{Runner, RunnerLimits};
use engine::sampling::Sampling;
use engine_config::exec::{Device, ExecBag, ExecKernelBag};
use engine_config::model::ModelBag;
use engine_config::sampling::SamplingBag;
use engine_config::schedule::ScheduleBag;
use engine_config::{Settings, model};
use kernels::cpu::{Isa, Workers};
use kernels::cuda::check::CheckShapes;
use kernels::cuda::{CudaDevice, CudaOptions, DecodeAttentionShape, GroupedGemmShape};
use kitbag::{ConfigRole, View};

use crate::cli::Failure;

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
    let pin = view.pin();
    refuse_other_devices(pin.exec())?;
    let settings = pin.model();
    let format = match settings.load_format() {
        model::LoadFormat::Auto => LoadFormat::Auto,
        model::LoadFormat::Safetensors => LoadFormat::Safetensors,
        model::LoadFormat::Gguf => LoadFormat::Gguf,
        model::LoadFormat::Dummy => LoadFormat::Dummy,
    };
    match settings.model_path() {
        Some(path) => Checkpoint::open(path, format),
        None if format == LoadFormat::Safetensors => {
            let message = "--load-format safetensors needs --model-path: the default model is a GGUF file";
            return Err(Failure::Usage(message.into()));
        }
        None if format == LoadFormat::Dummy => {
            let message = "--load-format dummy needs --model-path: a folder with the config.json of a model";
            return Err(Failure::Usage(message.into()));
        }
        None => {
            let cache = with_home(settings.cache_dir())?;
            default_model::obtain(&cache).and_then(|path| Checkpoint::open(&path, LoadFormat::Gguf))
        }
    }
    .map_err(Failure::run)
}

/// Reads the weights and makes room for keys and values. `isa` is what the computation may use of the processor.
pub(crate) fn build_runner(
    view: &View<Settings, RunnerRole>,
    checkpoint: &Checkpoint,
    isa: Isa,
) -> Result<Runner, Failure> {
    let pin = view.pin();
    let schedule = pin.schedule();
    let threads = NonZeroUsize::new(pin.exec().threads()).unwrap_or(NonZeroUsize::MIN);
    let limits = RunnerLimits {
        page_size: schedule.page_size(),
        pool_pages: *schedule.pool_pages(),
        chunked_prefill_size: schedule.chunked_prefill_size(),
        context_length: pin.model().context_length(),
    };
    let workers = Workers::with_isa(threads, isa).map_err(Failure::run)?;
    let model = checkpoint.load(&workers).map_err(Failure::run)?;
    Runner::new(model, workers, limits).map_err(Failure::run)
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
    use std::path::{Path, PathBuf};

    use engine_config::Settings;
    use kitbag::ConfigNamespaces;

    use super::{RunnerRole, SamplerRole, with_home};

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
            set.schedule().max_total_tokens(33);
            set.schedule().page_size(16);
            set.sampling().temperature(0.5);
        });
        assert_eq!(context.view::<RunnerRole>().pin().schedule().pool_pages(), 3);
        assert!(context.view::<SamplerRole>().pin().sampling().temperature() == 0.5);
    }
}

//! From settings to a running engine: the one place where the library's plain values are read from the configuration.

use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::default_model;
use engine::generate::Request;
use engine::hub::{self, Connection, Hub, ModelName, Named};
use engine::memory::{Need, Wanted};
use engine::model::{
    self as models, AttentionNeeds, CudaChoices, CudaDecoder, DecodeKernel, Decoder, Phase, WeightForm, WeightPlan,
    cuda,
};
use engine::runner::{Runner, RunnerLimits};
use engine::sampling::Sampling;
use engine_config::exec::{ActivationDtype, AttentionBackend, Device, ExecBag, WeightDtype};
use engine_config::model::{ModelBag, OutputHead};
use engine_config::sampling::SamplingBag;
use engine_config::schedule::ScheduleBag;
use engine_config::{Settings, SettingsRecording, model};
use kernels::cpu::Workers;
use kernels::cuda::check::CheckShapes;
use kernels::cuda::{CudaDevice, CudaError, CudaOptions, DecodeAttentionShape, GroupedGemmShape};
use kitbag::{ConfigRole, Context, Errors, Loader, Resolved, View};

use crate::cli::{self, Failure};
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

/// A model that has been opened, and the settings with what it decides among them.
pub(crate) struct Opened {
    pub(crate) context: Context<Settings>,
    pub(crate) checkpoint: Checkpoint,
}

/// Opens the model called `name`, or else the one the settings name, or else the default one, which is fetched when it is not there
/// yet. Settings that are left to the model are decided, and published with that.
pub(crate) fn open(loader: &Loader<Settings>, name: Option<&Path>) -> Result<Opened, Failure> {
    open_where(loader, name, CudaDevice::probe)
}

/// What says which part of CUDA is missing.
pub(crate) type CudaProbe = fn(&CudaOptions) -> Result<(), CudaError>;

/// The same on a machine on which `probe` says whether CUDA is there.
pub(crate) fn open_where(loader: &Loader<Settings>, name: Option<&Path>, probe: CudaProbe) -> Result<Opened, Failure> {
    let mut resolved = loader.resolve()?;
    cli::warn(resolved.warnings());
    let source = resolved.read_early(Source::of);
    let (resolved, wanted) = DeviceWanted::of(resolved)?;
    if wanted.device == Device::Cuda {
        // Before a model is fetched for nothing.
        probe(&wanted.options).map_err(|error| Failure::Run(format!("--device cuda: {error}")))?;
    }
    let checkpoint = source.open(name)?;
    let (device, why) = wanted.choose(&checkpoint, probe);
    let resolved = resolved.decide(&why, |now, set| {
        if now.exec().device() == Device::Auto {
            set.exec().device(device);
        }
    })?;
    let resolved = decide(resolved, &checkpoint, device)?;
    let context = decide_attention(resolved, &checkpoint, device)?.publish();
    let is_tied = match context.view::<RunnerRole>().pin().model().output_head() {
        OutputHead::Tied => true,
        OutputHead::Own => false,
        OutputHead::Auto => return Err(undecided("model.output_head")),
    };
    Ok(Opened { context, checkpoint: checkpoint.with_tied_embeddings(is_tied) })
}

/// What the settings say about the device before any model is open.
struct DeviceWanted {
    device: Device,
    options: CudaOptions,
    page_size: usize,
}

impl DeviceWanted {
    /// A look that settles nothing: the device is decided later.
    fn of(resolved: Resolved<Settings>) -> Result<(Resolved<Settings>, Self), Errors> {
        let mut wanted = None;
        let resolved = resolved.decide("a look at the device", |now, _| {
            let kernel = now.exec().kernel();
            wanted = Some(Self {
                device: now.exec().device(),
                options: cuda_options(kernel.cuda_driver_path(), kernel.nvrtc_path()),
                page_size: now.schedule().page_size(),
            });
        })?;
        Ok((resolved, wanted.unwrap_or_else(|| unreachable!("a decision is asked for"))))
    }

    /// The device that a model runs on, and why.
    fn choose(&self, checkpoint: &Checkpoint, probe: CudaProbe) -> (Device, String) {
        match self.device {
            Device::Cpu | Device::Cuda => (self.device, "it is set".to_owned()),
            Device::Auto => match probe(&self.options) {
                Err(missing) => (Device::Cpu, missing.to_string()),
                Ok(()) => match cuda::check_supported(checkpoint.config(), self.page_size) {
                    Err(refusal) => (Device::Cpu, format!("{}: {refusal}", checkpoint.path().display())),
                    Ok(()) => (Device::Cuda, "a CUDA driver, NVRTC and a GPU are there".to_owned()),
                },
            },
        }
    }
}

/// Decides the settings that are left to the model, before anything is built that reads them.
///
/// Layouts are none of them: matrices that read the same input are stacked whatever their types, in every model.
fn decide(resolved: Resolved<Settings>, checkpoint: &Checkpoint, device: Device) -> Result<Resolved<Settings>, Errors> {
    let path = checkpoint.path().display();
    let config = checkpoint.config();
    let length = config.context_length;
    let resolved = resolved.decide(&format!("{path} has {length} positions"), |now, set| {
        if now.model().context_length().is_none() {
            set.model().context_length(Some(length));
        }
    })?;
    let (head, why) = if config.tied_embeddings {
        (OutputHead::Tied, "its embedding for an output head")
    } else {
        (OutputHead::Own, "an output head of its own")
    };
    let resolved = resolved.decide(&format!("{path} has {why}"), |now, set| {
        if now.model().output_head() == OutputHead::Auto {
            set.model().output_head(head);
        }
    })?;
    if device == Device::Cuda {
        return resolved.decide(&format!("{path} runs on CUDA, whose kernels compute with bf16"), |now, set| {
            if now.exec().kernel().weight_dtype() == WeightDtype::Auto {
                set.exec().kernel().weight_dtype(WeightDtype::Bf16);
            }
            if now.exec().kernel().activation_dtype() == ActivationDtype::Auto {
                set.exec().kernel().activation_dtype(ActivationDtype::Bf16);
            }
        });
    }
    let (form, why) = match checkpoint.weights() {
        Some(weights) => {
            let types: BTreeSet<_> = weights.iter().map(|(_, tensor)| tensor.element.name()).collect();
            let types: Vec<_> = types.into_iter().collect();
            (WeightDtype::Stored, format!("{path} stores {}", types.join(", ")))
        }
        None => (WeightDtype::F32, format!("{path} has no weights, and those made up are float32")),
    };
    let resolved = resolved.decide(&why, |now, set| {
        if now.exec().kernel().weight_dtype() == WeightDtype::Auto {
            set.exec().kernel().weight_dtype(form);
        }
    })?;
    resolved.decide(&format!("{why}: products with all of these read float32"), |now, set| {
        if now.exec().kernel().activation_dtype() == ActivationDtype::Auto {
            set.exec().kernel().activation_dtype(ActivationDtype::F32);
        }
    })
}

/// A kernel of attention as the settings call it; nothing where they leave it open.
fn named(backend: AttentionBackend) -> Option<models::AttentionBackend> {
    match backend {
        AttentionBackend::Auto => None,
        AttentionBackend::CpuPaged => Some(models::AttentionBackend::CpuPaged),
        AttentionBackend::CudaPaged => Some(models::AttentionBackend::CudaPaged),
        AttentionBackend::CudaSplitKv => Some(models::AttentionBackend::CudaSplitKv),
    }
}

fn setting_of(backend: models::AttentionBackend) -> AttentionBackend {
    match backend {
        models::AttentionBackend::CpuPaged => AttentionBackend::CpuPaged,
        models::AttentionBackend::CudaPaged => AttentionBackend::CudaPaged,
        models::AttentionBackend::CudaSplitKv => AttentionBackend::CudaSplitKv,
    }
}

/// Decides the kernels of attention. What is set may still be refused, when something is built.
fn decide_attention(
    resolved: Resolved<Settings>,
    checkpoint: &Checkpoint,
    device: Device,
) -> Result<Resolved<Settings>, Errors> {
    let mut chosen = [None, None];
    let resolved = resolved.decide("a look at what attention needs", |now, _| {
        let kernel = now.exec().kernel();
        let needs = AttentionNeeds {
            on_cuda: device == Device::Cuda,
            config: checkpoint.config(),
            page_size: now.schedule().page_size(),
            split_tokens: kernel.decode_split_tokens(),
            is_deterministic: now.exec().deterministic().enable_deterministic_inference(),
        };
        let common = kernel.attention_backend();
        chosen = [Phase::Prefill, Phase::Decode].map(|phase| match common {
            AttentionBackend::Auto => {
                models::choose_attention(phase, &needs).map(|(backend, why)| (setting_of(backend), why))
            }
            common => Some((common, "attention_backend says so".to_owned())),
        });
    })?;
    let [prefill, decode] = chosen;
    let resolved = match prefill {
        None => resolved,
        Some((backend, why)) => resolved.decide(&why, |now, set| {
            if now.exec().kernel().prefill_attention_backend() == AttentionBackend::Auto {
                set.exec().kernel().prefill_attention_backend(backend);
            }
        })?,
    };
    match decode {
        None => Ok(resolved),
        Some((backend, why)) => resolved.decide(&why, |now, set| {
            if now.exec().kernel().decode_attention_backend() == AttentionBackend::Auto {
                set.exec().kernel().decode_attention_backend(backend);
            }
        }),
    }
}

/// Kernels of attention that cannot do what a model needs.
fn refuse_other_attention(view: &View<Settings, RunnerRole>, checkpoint: &Checkpoint) -> Result<(), Failure> {
    let pin = view.pin();
    let kernel = pin.exec().kernel();
    let needs = AttentionNeeds {
        on_cuda: pin.exec().device() == Device::Cuda,
        config: checkpoint.config(),
        page_size: pin.schedule().page_size(),
        split_tokens: kernel.decode_split_tokens(),
        is_deterministic: pin.exec().deterministic().enable_deterministic_inference(),
    };
    let phases = [
        (Phase::Prefill, kernel.prefill_attention_backend(), "prefill_attention_backend"),
        (Phase::Decode, kernel.decode_attention_backend(), "decode_attention_backend"),
    ];
    for (phase, backend, name) in phases {
        let chosen = named(backend).ok_or_else(|| undecided(&format!("exec.kernel.{name}")))?;
        let name = if backend == kernel.attention_backend() { "attention_backend" } else { name };
        let flag = format!("--{}", name.replace('_', "-"));
        models::check_attention(&flag, chosen, phase, &needs).map_err(Failure::run)?;
    }
    Ok(())
}

/// What a model on a CUDA device is compiled for.
fn cuda_choices(view: &View<Settings, RunnerRole>) -> CudaChoices {
    let pin = view.pin();
    let kernel = pin.exec().kernel();
    CudaChoices {
        page_size: pin.schedule().page_size(),
        decode: match kernel.decode_attention_backend() {
            AttentionBackend::CudaSplitKv => DecodeKernel::SplitKv { tokens: kernel.decode_split_tokens() },
            _ => DecodeKernel::Paged,
        },
    }
}

/// A setting that is left to the model, of a context that was published without one.
fn undecided(leaf: &str) -> Failure {
    Failure::Run(format!("{leaf} is left to the model, and no model has been opened for these settings"))
}

/// What the settings say about where a model is.
struct Source {
    model_path: Option<PathBuf>,
    format: LoadFormat,
    cache_dir: PathBuf,
    hub: Option<Hub>,
    revision: String,
}

impl Source {
    fn of(now: &SettingsRecording) -> Self {
        let settings = now.model();
        let token = settings.hub_token().map(|token| token.expose().as_str());
        let connection = Connection {
            proxy: settings.hub_proxy().map(|proxy| proxy.expose().clone()),
            no_proxy: settings.hub_no_proxy().to_vec(),
            ca_file: settings.hub_ca_file().map(Path::to_owned),
            stall_timeout: settings.hub_stall_timeout(),
        };
        Self {
            model_path: settings.model_path().map(Path::to_owned),
            format: match settings.load_format() {
                model::LoadFormat::Auto => LoadFormat::Auto,
                model::LoadFormat::Safetensors => LoadFormat::Safetensors,
                model::LoadFormat::Gguf => LoadFormat::Gguf,
                model::LoadFormat::Dummy => LoadFormat::Dummy,
            },
            cache_dir: settings.cache_dir().to_owned(),
            hub: settings.hub_endpoint().map(|endpoint| Hub::new(endpoint, token, connection)),
            revision: settings.revision().to_owned(),
        }
    }

    fn open(&self, name: Option<&Path>) -> Result<Checkpoint, Failure> {
        match name.or(self.model_path.as_deref()) {
            Some(name) => Checkpoint::open(&self.named(name)?, self.format),
            None if self.format == LoadFormat::Safetensors => {
                let message = "--load-format safetensors needs --model-path: the default model is a GGUF file";
                return Err(Failure::Usage(message.into()));
            }
            None if self.format == LoadFormat::Dummy => {
                let message = "--load-format dummy needs --model-path: a folder with the config.json of a model";
                return Err(Failure::Usage(message.into()));
            }
            None => Checkpoint::open(&self.obtain_default()?, LoadFormat::Gguf),
        }
        .map_err(Failure::run)
    }

    /// The default model, after fetching it when it is not there yet.
    fn obtain_default(&self) -> Result<PathBuf, Failure> {
        default_model::obtain(&with_home(&self.cache_dir)?, self.hub.as_ref()).map_err(Failure::run)
    }

    /// The path of the model called `name`, after fetching it when it has to be and is not there yet.
    fn named(&self, name: &Path) -> Result<PathBuf, Failure> {
        match Named::of(name) {
            Named::Default => self.obtain_default(),
            Named::Hub(name) => {
                let cached = hub::cached(&with_home(&self.cache_dir)?, &name, &self.revision);
                cached.map_or_else(|| self.pull_named(&name), Ok).map(|(path, _)| path)
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

    fn pull_named(&self, name: &ModelName) -> Result<(PathBuf, hub::Record), Failure> {
        hub::pull(self.hub.as_ref(), &with_home(&self.cache_dir)?, name, &self.revision).map_err(Failure::run)
    }
}

/// Fetches the model called `name`, or the one that the settings name: where it is then, and what came from a hub.
pub(crate) fn pull(loader: &Loader<Settings>, name: Option<&Path>) -> Result<(PathBuf, Option<hub::Record>), Failure> {
    let mut resolved = loader.resolve()?;
    cli::warn(resolved.warnings());
    let source = resolved.read_early(Source::of);
    match name.or(source.model_path.as_deref()).map(Named::of) {
        None | Some(Named::Default) => source.obtain_default().map(|path| (path, None)),
        Some(Named::Hub(name)) => source.pull_named(&name).map(|(path, record)| (path, Some(record))),
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
    refuse_other_activations(exec)?;
    let plan = plan(view, checkpoint)?;
    let Some(context_length) = pin.model().context_length() else {
        return Err(undecided("model.context_length"));
    };
    let page_size = schedule.page_size();
    let wanted = match *schedule.pool_pages() {
        Some(pages) => Wanted::All(pages.saturating_mul(page_size)),
        None => Wanted::AtMost(context_length),
    };
    let on_cuda = match exec.device() {
        Device::Auto => return Err(undecided("exec.device")),
        Device::Cpu => false,
        Device::Cuda => true,
    };
    if on_cuda {
        cuda::check_supported(checkpoint.config(), page_size).map_err(Failure::run)?;
    }
    refuse_other_attention(view, checkpoint)?;
    let device = if on_cuda {
        let options = cuda_options(exec.kernel().cuda_driver_path(), exec.kernel().nvrtc_path());
        Some(CudaDevice::open(&options).map_err(|error| Failure::Run(format!("--device cuda: {error}")))?)
    } else {
        None
    };
    let limit = exec.memory_limit().map(|limit| limit.0);
    let available = match &device {
        None => limit.or(machine.memory),
        Some(device) => Some(device.free_memory().map_err(Failure::run)?.min(limit.unwrap_or(u64::MAX))),
    };
    let pool_pages = need(view, checkpoint, &plan).pages(available, page_size, wanted).map_err(Failure::run)?;
    let limits = RunnerLimits {
        page_size,
        pool_pages,
        chunked_prefill_size: schedule.chunked_prefill_size(),
        context_length: Some(context_length),
    };
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
    let plan = plan.with_progress(&progress);
    let runner = match device {
        None => {
            let model = Decoder::load(&plan, &workers);
            bar.finish_and_clear();
            Runner::new(model, workers, limits)
        }
        Some(device) => {
            let model = CudaDecoder::load(&plan, &workers, device, cuda_choices(view));
            bar.finish_and_clear();
            model.and_then(|model| Runner::on_cuda(model, limits))
        }
    };
    runner.map_err(Failure::run)
}

/// Which weights of a model are read from where, and what they are kept as.
pub(crate) fn plan<'a>(
    view: &View<Settings, RunnerRole>,
    checkpoint: &'a Checkpoint,
) -> Result<WeightPlan<'a>, Failure> {
    let pin = view.pin();
    let is_cuda = pin.exec().device() == Device::Cuda;
    let form = match pin.exec().kernel().weight_dtype() {
        WeightDtype::Auto => return Err(undecided("exec.kernel.weight_dtype")),
        // Read as they are stored, and rounded on their way to the device.
        WeightDtype::Bf16 if is_cuda => WeightForm::Stored,
        WeightDtype::Bf16 => {
            let message = "--weight-dtype bf16 is not available on the CPU, use auto, stored or f32";
            return Err(Failure::Usage(message.into()));
        }
        WeightDtype::Stored | WeightDtype::F32 if is_cuda => {
            let message = "--weight-dtype: weights are bf16 on CUDA, use auto or bf16";
            return Err(Failure::Usage(message.into()));
        }
        WeightDtype::Stored if checkpoint.weights().is_none() => {
            let message = "--weight-dtype stored: weights that are made up are stored nowhere, use auto or f32";
            return Err(Failure::Usage(message.into()));
        }
        WeightDtype::Stored => WeightForm::Stored,
        WeightDtype::F32 => WeightForm::Expanded,
    };
    Ok(checkpoint.plan().map_err(Failure::run)?.with_form(form))
}

/// The memory that the model of `plan` takes with the settings of this moment.
pub(crate) fn need(view: &View<Settings, RunnerRole>, checkpoint: &Checkpoint, plan: &WeightPlan<'_>) -> Need {
    let pin = view.pin();
    let chunk = pin.schedule().chunked_prefill_size();
    if pin.exec().device() == Device::Cuda {
        return cuda::need(plan, chunk, cuda_choices(view));
    }
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

/// Products read single precision on the CPU and bf16 on CUDA in this version.
fn refuse_other_activations(exec: &ExecBag) -> Result<(), Failure> {
    let name = match (exec.kernel().activation_dtype(), exec.device()) {
        (ActivationDtype::Auto, _) => return Err(undecided("exec.kernel.activation_dtype")),
        (ActivationDtype::F32, Device::Cpu | Device::Auto) | (ActivationDtype::Bf16, Device::Cuda) => return Ok(()),
        (ActivationDtype::F32, Device::Cuda) => "f32",
        (ActivationDtype::Bf16, _) => "bf16",
        (ActivationDtype::Int8, _) => "int8",
    };
    let there = match exec.device() {
        Device::Cuda => "on CUDA read bf16 activations in this version, use auto or bf16",
        Device::Cpu | Device::Auto => "on the CPU read float32 activations in this version, use auto or f32",
    };
    Err(Failure::Usage(format!("--activation-dtype {name} is not available: products {there}")))
}

fn cuda_options(driver_path: Option<&Path>, nvrtc_path: Option<&Path>) -> CudaOptions {
    CudaOptions { driver_path: driver_path.map(Path::to_owned), nvrtc_path: nvrtc_path.map(Path::to_owned), ordinal: 0 }
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
    (cuda_options(kernel.cuda_driver_path(), kernel.nvrtc_path()), shapes)
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
    use kernels::cuda::{CudaError, CudaOptions};
    use kitbag::{ConfigNamespaces, Context, Facts, Loader};

    use super::{
        Asked, Failure, Machine, Opened, RunnerRole, SamplerRole, build_runner, need, open_where, plan, request,
        with_home,
    };

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
            for flags in [&[][..], &["--weight-dtype=f32"], &["--load-format=dummy"]] {
                let engine = Engine::new(path.to_str().expect("text"), flags);
                let plan =
                    plan(&engine.context.view(), &engine.checkpoint).unwrap_or_else(|failure| panic!("{failure}"));
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
            let argv =
                ["engine", "--model-path", folder.to_str().expect("text")].into_iter().chain(flags.iter().copied());
            let loader = Settings::loader().args(argv).facts(Facts::for_test());
            open(&loader, None).unwrap_or_else(|failure| panic!("{failure}"))
        };
        let Opened { context, checkpoint } = opened(&[]);
        let need = {
            let plan = plan(&context.view(), &checkpoint).unwrap_or_else(|failure| panic!("{failure}"));
            need(&context.view(), &checkpoint, &plan)
        };
        let built = |memory: u64| {
            let machine = Machine { isa: Isa::scalar(), memory: Some(memory) };
            build_runner(&context.view(), &checkpoint, machine).map(|runner| runner.capacity())
        };
        let refused = built(20 << 20).expect_err("less than the model").to_string();
        assert!(refused.contains("and there are 20 MiB"), "{refused}");
        // Ten pages, and not quite an eleventh.
        assert_eq!(built(need.model() + need.kv_per_token * 175).ok(), Some(160));
        assert_eq!(built(1 << 30).ok(), Some(2048));
        let Opened { context, checkpoint } = opened(&["--memory-limit=20MiB"]);
        let machine = Machine { isa: Isa::scalar(), memory: None };
        let refused = build_runner(&context.view(), &checkpoint, machine).err().map(|failure| failure.to_string());
        assert!(refused.is_some_and(|refused| refused.contains("and there are 20 MiB")), "a limit that is set counts");
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
            let argv =
                ["engine", "--model-path", path.to_str().expect("text")].into_iter().chain(flags.iter().copied());
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
            (&["--device=cuda", "--weight-dtype=f32"], "weights are bf16 on CUDA"),
            (&["--device=cuda", "--activation-dtype=f32"], "--activation-dtype f32 is not available"),
            (&["--device=cpu", "--weight-dtype=bf16"], "--weight-dtype bf16 is not available on the CPU"),
        ] {
            let opened = opened(flags, true);
            let Opened { context, checkpoint } = opened.unwrap_or_else(|failure| panic!("{failure}"));
            let machine = Machine { isa: Isa::scalar(), memory: None };
            let failure = build_runner(&context.view(), &checkpoint, machine).err().map(|failure| failure.to_string());
            assert!(failure.as_ref().is_some_and(|failure| failure.contains(why)), "{flags:?}: {failure:?}");
        }
    }

    #[test]
    fn the_kernels_of_attention_follow_the_device_and_the_settings_and_say_why() {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/llama");
        let opened = |flags: &[&str]| {
            let argv =
                ["engine", "--model-path", model.to_str().expect("text")].into_iter().chain(flags.iter().copied());
            let opened = open_where(&Settings::loader().args(argv).facts(Facts::for_test()), None, |_| Ok(()));
            opened.unwrap_or_else(|failure| panic!("{failure}"))
        };
        let common = "attention_backend says so";
        let on_cuda = "the best for prompts on CUDA";
        let cases = [
            (
                &["--device=cpu"][..],
                [
                    ("cpu-paged", "the best for prompts on the CPU"),
                    ("cpu-paged", "the best for single tokens on the CPU"),
                ],
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
                "--attention-backend cuda-split-kv: it takes one new token of each sequence; \
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
            let failure = build_runner(&context.view(), &checkpoint, machine).err().map(|failure| failure.to_string());
            assert!(failure.as_ref().is_some_and(|failure| failure.contains(why)), "{flags:?}: {failure:?}");
        }
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
            let argv =
                ["engine", "--model-path", model.to_str().expect("text")].into_iter().chain(flags.iter().copied());
            let opened = open(&Settings::loader().args(argv).facts(Facts::for_test()), None);
            let Opened { context, checkpoint } = opened.unwrap_or_else(|failure| panic!("{failure}"));
            let machine = Machine { isa: Isa::scalar(), memory: None };
            build_runner(&context.view(), &checkpoint, machine)
                .err()
                .map(|failure| failure.to_string())
                .unwrap_or_default()
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
            let failure = build_runner(&context.view(), &engine.checkpoint, machine).err();
            let Some(Failure::Run(message)) = failure else { panic!("{leaf} was not missed") };
            assert_eq!(
                message,
                format!("{leaf} is left to the model, and no model has been opened for these settings")
            );
        }
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

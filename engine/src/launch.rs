//! From settings to a running engine: the one place where the library's plain values are read from the configuration.

use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::checkpoint::Checkpoint;
use engine::generate::Request;
use engine::memory::{Need, Wanted};
use engine::model::{
    self as models, AttentionNeeds, CudaChoices, CudaDecoder, DecodeKernel, Decoder, GraphUse, Phase, WeightForm,
    WeightPlan, cuda,
};
use engine::runner::{Runner, RunnerLimits};
use engine::sampling::Sampling;
use engine::sizing::warm_up::WarmUp;
use engine::tuning::{self, Autotune, Preparation};
use engine::weights::{ElementType, Weights};
use engine_config::exec::{
    ActivationDtype, AttentionBackend, Device, ExecBag, ExecKernelBag, GemmAutotune, GemmWarmup, ON_CUDA_ALONE,
    WeightDtype,
};
use engine_config::model::{ModelBag, OutputHead};
use engine_config::sampling::SamplingBag;
use engine_config::schedule::ScheduleBag;
use engine_config::{Settings, SettingsRecording};
use kernels::cpu::Workers;
use kernels::cuda::check::CheckShapes;
use kernels::cuda::{CudaDevice, CudaError, CudaOptions, DecodeAttentionShape, GroupedGemmShape, KernelCache};
use kitbag::{ByteSize, Captured, ConfigRole, Context, Errors, Loader, Resolved, View};

use crate::cli::{self, Failure};
use crate::machine::Machine;
use crate::terminal;

mod source;
#[cfg(test)]
mod tests;

use source::Source;
pub(crate) use source::pull;

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
    let cuda = resolved.read_early(CudaWanted::of);
    let set = resolved.try_read_early(|now| match now.exec().device() {
        Device::Auto => None,
        device => Some(device),
    });
    if set == Some(Device::Cuda) {
        // Before a model is fetched for nothing.
        probe(&cuda.options).map_err(|error| no_device(&error))?;
    }
    let checkpoint = source.open(name)?;
    let (resolved, device) = match set {
        Some(device) => (resolved, device),
        None => {
            let (device, why) = cuda.or_cpu(&checkpoint, probe);
            (resolved.declare(&why, |set| set.exec().device(device))?, device)
        }
    };
    let resolved = decide(resolved, &checkpoint, device)?;
    let context = decide_attention(resolved, &checkpoint, device)?.publish();
    let is_tied = match context.view::<RunnerRole>().pin().model().output_head() {
        OutputHead::Tied => true,
        OutputHead::Own => false,
        OutputHead::Auto => return Err(undecided("model.output_head")),
    };
    Ok(Opened { context, checkpoint: checkpoint.with_tied_embeddings(is_tied) })
}

/// What decides whether a model can run on CUDA, besides the model.
struct CudaWanted {
    options: CudaOptions,
    page_size: usize,
}

impl CudaWanted {
    fn of(now: &SettingsRecording) -> Self {
        let kernel = now.exec().kernel();
        Self {
            options: cuda_options(kernel.cuda_driver_path(), kernel.nvrtc_path(), kernel.prebuilt_kernels()),
            page_size: now.schedule().page_size(),
        }
    }

    /// The device of a model for which none is set, and why it is that.
    fn or_cpu(&self, checkpoint: &Checkpoint, probe: CudaProbe) -> (Device, String) {
        if let Err(missing) = probe(&self.options) {
            return (Device::Cpu, missing.to_string());
        }
        match cuda::check_supported(checkpoint.config(), self.page_size) {
            Err(refusal) => (Device::Cpu, format!("{}: {refusal}", checkpoint.path().display())),
            Ok(()) => (Device::Cuda, "a CUDA driver, NVRTC and a GPU are there".to_owned()),
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
    // The names of the types that are stored, of those that `counts`.
    let stored = |counts: fn(ElementType) -> bool| {
        let tensors = checkpoint.weights().into_iter().flat_map(Weights::iter);
        let types = tensors.map(|(_, tensor)| tensor.element).filter(|&element| counts(element));
        types.map(ElementType::name).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
    };
    if device == Device::Cuda {
        let bf16 = format!("{path} runs on CUDA, whose kernels compute with bf16");
        let kept = stored(cuda::is_kept);
        let (form, why) = if kept.is_empty() {
            (WeightDtype::Bf16, bf16.clone())
        } else {
            (WeightDtype::Stored, format!("{path} stores {kept}, for which CUDA has a kernel"))
        };
        let resolved = resolved.decide(&why, |now, set| {
            if now.exec().kernel().weight_dtype() == WeightDtype::Auto {
                set.exec().kernel().weight_dtype(form);
            }
        })?;
        return resolved.decide(&bf16, |now, set| {
            if now.exec().kernel().activation_dtype() == ActivationDtype::Auto {
                set.exec().kernel().activation_dtype(ActivationDtype::Bf16);
            }
        });
    }
    let (form, why) = if checkpoint.weights().is_some() {
        (WeightDtype::Stored, format!("{path} stores {}", stored(|_| true)))
    } else {
        (WeightDtype::F32, format!("{path} has no weights, and those made up are float32"))
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
    mut resolved: Resolved<Settings>,
    checkpoint: &Checkpoint,
    device: Device,
) -> Result<Resolved<Settings>, Errors> {
    let [prefill, decode] = resolved.read_early(|now| {
        let kernel = now.exec().kernel();
        let needs = AttentionNeeds {
            on_cuda: device == Device::Cuda,
            config: checkpoint.config(),
            page_size: now.schedule().page_size(),
            split_tokens: kernel.decode_split_tokens(),
            is_deterministic: now.exec().deterministic().enable_deterministic_inference(),
        };
        let common = kernel.attention_backend();
        [Phase::Prefill, Phase::Decode].map(|phase| match common {
            AttentionBackend::Auto => {
                models::choose_attention(phase, &needs).map(|(backend, why)| (setting_of(backend), why))
            }
            common => Some((common, "attention_backend says so".to_owned())),
        })
    });
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

/// What the settings say about the steps of a model: their sizes, and what computes them on a CUDA device. Nothing that is compiled or
/// captured there depends on other settings.
pub(crate) struct StepSettings {
    page_size: usize,
    pool_pages: Option<usize>,
    chunked_prefill_size: usize,
    context_length: Option<usize>,
    memory_limit: Option<u64>,
    choices: CudaChoices,
}

impl StepSettings {
    fn of(now: &SettingsRecording) -> Self {
        let (exec, page_size) = (now.exec(), now.schedule().page_size());
        let kernel = exec.kernel();
        Self {
            page_size,
            pool_pages: *now.schedule().pool_pages(),
            chunked_prefill_size: now.schedule().chunked_prefill_size(),
            context_length: now.model().context_length(),
            memory_limit: exec.memory_limit().map(|limit| limit.0),
            choices: CudaChoices {
                page_size,
                decode: match kernel.decode_attention_backend() {
                    AttentionBackend::CudaSplitKv => DecodeKernel::SplitKv { tokens: kernel.decode_split_tokens() },
                    _ => DecodeKernel::Paged,
                },
                graphs: !exec.graph().disable_cuda_graph(),
                settings_key: 0,
            },
        }
    }

    /// Those of this moment, with the key of all that was read.
    pub(crate) fn read(context: &Context<Settings>) -> (Self, Captured) {
        let (mut settings, captured) = context.capture(Self::of);
        settings.choices.settings_key = key_of(&captured);
        (settings, captured)
    }
}

/// What the settings say about the sizes for which products on a CUDA device are prepared.
pub(crate) struct ProductSettings {
    warm_up: WarmUp,
    chunk: usize,
    most_rows: usize,
    key: u128,
}

impl ProductSettings {
    fn of(now: &SettingsRecording) -> Self {
        let chunk = now.schedule().chunked_prefill_size();
        Self {
            warm_up: match now.exec().kernel().gemm_warmup() {
                GemmWarmup::Off => WarmUp::Off,
                GemmWarmup::Fast => WarmUp::Fast,
                GemmWarmup::Full => WarmUp::Full,
            },
            chunk,
            most_rows: chunk.min(now.model().context_length().unwrap_or(usize::MAX)),
            key: 0,
        }
    }

    /// Those of this moment, with the key of all that was read, which a table of blocks carries.
    pub(crate) fn read(context: &Context<Settings>) -> (Self, Captured) {
        let (mut settings, captured) = context.capture(Self::of);
        settings.key = key_of(&captured);
        (settings, captured)
    }

    /// The same with what decides whether, for how long and with which tables blocks are measured, but not what comes of it.
    fn preparation(self, context: &Context<Settings>, exec: &ExecBag, folder: Option<PathBuf>) -> Preparation {
        let autotune = context.explain("exec.kernel.gemm_autotune");
        Preparation {
            warm_up: self.warm_up,
            chunk: self.chunk,
            most_rows: self.most_rows,
            autotune: match exec.kernel().gemm_autotune() {
                GemmAutotune::Off => Autotune::Off,
                GemmAutotune::Kept => Autotune::Kept,
                GemmAutotune::Auto => Autotune::Auto,
            },
            is_asked: autotune.is_ok_and(|explained| explained.is_chosen()),
            limit: exec.kernel().gemm_autotune_limit(),
            is_deterministic: exec.deterministic().enable_deterministic_inference(),
            folder,
            settings_key: self.key,
        }
    }
}

/// The key of settings that were read.
fn key_of(captured: &Captured) -> u128 {
    let key = u128::from_str_radix(&captured.fingerprint().to_string(), 16);
    key.unwrap_or_else(|_| unreachable!("a fingerprint is a hexadecimal number"))
}

/// A setting that is left to the model, of a context that was published without one.
fn undecided(leaf: &str) -> Failure {
    Failure::Run(format!("{leaf} is left to the model, and no model has been opened for these settings"))
}

/// Reads the weights and makes room for keys and values, as much as is set or as `machine` has memory for.
///
/// What does not fit is refused before the weights are read.
pub(crate) fn build_runner(
    context: &Context<Settings>,
    checkpoint: &Checkpoint,
    machine: Machine,
) -> Result<Runner, Failure> {
    let view = &context.view::<RunnerRole>();
    let pin = view.pin();
    let exec = pin.exec();
    let (settings, _) = StepSettings::read(context);
    refuse_other_activations(exec)?;
    let plan = plan(view, checkpoint)?;
    let Some(context_length) = settings.context_length else {
        return Err(undecided("model.context_length"));
    };
    let page_size = settings.page_size;
    let wanted = match settings.pool_pages {
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
    } else {
        warn_of_cuda_settings(context);
    }
    refuse_other_attention(view, checkpoint)?;
    let mut cache = None;
    let device = if on_cuda {
        let options = device_options(exec.kernel());
        cache.clone_from(&options.kernel_cache);
        Some(CudaDevice::open(&options).map_err(|error| no_device(&error))?)
    } else {
        None
    };
    let limit = settings.memory_limit;
    let free = device.as_ref().map(CudaDevice::free_memory).transpose().map_err(Failure::run)?;
    let available = match free {
        None => limit.or(machine.memory),
        Some(free) => Some(free.min(limit.unwrap_or(u64::MAX))),
    };
    let pool_pages = need(context, checkpoint, &plan).pages(available, page_size, wanted).map_err(|too_little| {
        let raise = match limit {
            Some(limit) if available == Some(limit) && free != Some(limit) => {
                format!(", or raise --memory-limit from {}", ByteSize(limit))
            }
            _ => String::new(),
        };
        Failure::Run(format!("{too_little}{raise}"))
    })?;
    let limits = RunnerLimits {
        page_size,
        pool_pages,
        chunked_prefill_size: settings.chunked_prefill_size,
        context_length: Some(context_length),
    };
    // Before anything is read that takes time.
    limits.check(checkpoint.config()).map_err(Failure::run)?;
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
            let model = CudaDecoder::load(&plan, &workers, device, settings.choices);
            bar.finish_and_clear();
            let folder = cache.as_ref().map(|cache| cache.folder().to_owned());
            let preparation = ProductSettings::read(context).0.preparation(context, exec, folder);
            model.and_then(|mut model| {
                let report = tuning::prepare(&mut model, &preparation)?;
                report.notes.iter().for_each(|note| cli::note(note));
                cli::warn(&report.warnings);
                Runner::on_cuda(model, limits)
            })
        }
    };
    warn_of(cache.as_deref());
    runner.map_err(Failure::run)
}

/// Says which settings were chosen that decide nothing on the CPU.
fn warn_of_cuda_settings(context: &Context<Settings>) {
    let is_chosen = |path: &&&str| context.explain(path).is_ok_and(|explained| explained.is_chosen());
    let chosen: Vec<_> = ON_CUDA_ALONE.iter().filter(is_chosen).copied().collect();
    if !chosen.is_empty() {
        cli::warn_in_words(&format!("this runs on the CPU, where nothing depends on {}", chosen.join(", ")));
    }
}

/// Says why steps are not captured that were meant to be.
pub(crate) fn warn_of_graphs(runner: &Runner) {
    if let Some(warning) = runner.graph_use().and_then(GraphUse::warning) {
        cli::warn_in_words(&warning);
    }
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
        WeightDtype::Bf16 if is_cuda => WeightForm::Expanded,
        WeightDtype::Bf16 => {
            let message = "--weight-dtype bf16 is not available on the CPU, use auto, stored or f32";
            return Err(Failure::Usage(message.into()));
        }
        WeightDtype::F32 if is_cuda => {
            let message = "--weight-dtype f32 is not available on CUDA, use auto, stored or bf16";
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
pub(crate) fn need(context: &Context<Settings>, checkpoint: &Checkpoint, plan: &WeightPlan<'_>) -> Need {
    let (settings, _) = StepSettings::read(context);
    if context.view::<RunnerRole>().pin().exec().device() == Device::Cuda {
        return cuda::need(plan, settings.chunked_prefill_size, settings.choices);
    }
    Need::of(checkpoint.config(), plan.loaded_bytes() as u64, settings.chunked_prefill_size)
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

/// Why there is no device to run on, and which settings may help.
fn no_device(error: &CudaError) -> Failure {
    let elsewhere = match error {
        CudaError::NoDriver | CudaError::OtherLibrary { .. } | CudaError::OldDriver { .. } => {
            "--cuda-driver-path names another driver library; "
        }
        CudaError::Library { .. } => {
            "--cuda-driver-path is a driver library, --nvrtc-path a folder with NVRTC and its builtins; "
        }
        CudaError::NoCompiler { .. } | CudaError::OtherCompiler { .. } => {
            "--nvrtc-path names the folder of another, --prebuilt-kernels needs none; "
        }
        _ => "",
    };
    Failure::Run(format!("--device cuda: {error} ({elsewhere}--device cpu works without)"))
}

/// Where to look for CUDA.
fn cuda_options(driver_path: Option<&Path>, nvrtc_path: Option<&Path>, prebuilt: Option<&Path>) -> CudaOptions {
    CudaOptions {
        driver_path: driver_path.map(Path::to_owned),
        nvrtc_path: nvrtc_path.map(Path::to_owned),
        prebuilt: prebuilt.map(Path::to_owned),
        ..CudaOptions::default()
    }
}

/// The same for a device that kernels are compiled for.
fn device_options(kernel: &ExecKernelBag) -> CudaOptions {
    let options = cuda_options(kernel.cuda_driver_path(), kernel.nvrtc_path(), kernel.prebuilt_kernels());
    CudaOptions { kernel_cache: kernel_cache(kernel), ..options }
}

/// Where compiled kernels are kept, if they are.
fn kernel_cache(kernel: &ExecKernelBag) -> Option<Arc<KernelCache>> {
    let limit = kernel.kernel_cache_limit().0;
    if limit == 0 {
        return None;
    }
    match source::with_home(kernel.kernel_cache_dir(), "compiled kernels go with --kernel-cache-dir") {
        Ok(folder) => Some(Arc::new(KernelCache::new(folder, limit))),
        Err(homeless) => {
            cli::warn(&[homeless]);
            None
        }
    }
}

/// Tells what is wrong with the place where compiled kernels are kept.
pub(crate) fn warn_of(cache: Option<&KernelCache>) {
    cli::warn(&cache.map(KernelCache::take_notices).unwrap_or_default());
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
    (device_options(kernel), shapes)
}

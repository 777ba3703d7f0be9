//! What is built for known launches: pools, sizes and choices, without the weights of any model.
//!
//! A launch is built as `engine generate` builds it, from a folder that holds a `config.json` and nothing else, with made-up
//! weights. What the processor can do and the memory there is are declared: the choice that follows from it is shown, and the computation itself,
//! which is not run, is built for instructions that every processor has.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use engine::built::Built;
use engine_config::Settings;
use kernels::cpu::{CpuFeatures, Isa};
use kernels::cuda::{CudaError, CudaOptions};
use kitbag::{ConfigNamespaces, Facts, Value};
use serde::Deserialize;

use super::baseline::Entry;
use super::document::Document;
use crate::cli::Failure;
use crate::launch::{self, Opened};
use crate::machine::Machine;

const LIST: &str = include_str!("../../probe/built.toml");
/// The configurations of models, by the name that a launch calls them: real ones in small, and made-up ones.
const MODELS: &[(&str, &str)] = &[
    ("llama", include_str!("../../../tests/models/llama/config.json")),
    ("llama_tied", include_str!("../../../tests/models/llama_tied/config.json")),
    ("mistral", include_str!("../../../tests/models/mistral/config.json")),
    ("qwen2", include_str!("../../../tests/models/qwen2/config.json")),
    ("qwen3", include_str!("../../../tests/models/qwen3/config.json")),
    ("qwen3_moe", include_str!("../../../tests/models/qwen3_moe/config.json")),
    ("mixtral", include_str!("../../../tests/models/mixtral/config.json")),
    ("olmoe", include_str!("../../../tests/models/olmoe/config.json")),
    ("wide", include_str!("../../probe/models/wide.json")),
    ("deep", include_str!("../../probe/models/deep.json")),
    ("one-kv-head", include_str!("../../probe/models/one-kv-head.json")),
    ("other-family", include_str!("../../probe/models/other-family.json")),
    ("odd-heads", include_str!("../../probe/models/odd-heads.json")),
];
/// Where a launch finds them.
const MODELS_FOLDER: &str = "models";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    processor: BTreeMap<String, Processor>,
    launch: Vec<Launch>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Processor {
    cpus: usize,
    /// Not said: not known.
    #[serde(default)]
    memory_mib: Option<u64>,
    #[serde(default)]
    avx2: bool,
    #[serde(default)]
    fma: bool,
    #[serde(default)]
    avx512f: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Launch {
    name: String,
    processor: String,
    argv: Vec<String>,
}

/// What all launches of this build come to.
pub(crate) fn entries() -> Result<Vec<Entry>, Failure> {
    of_list(LIST)
}

fn of_list(text: &str) -> Result<Vec<Entry>, Failure> {
    let list: List = toml::from_str(text).map_err(|error| Failure::Run(format!("built.toml: {error}")))?;
    let folder = tempfile::tempdir().map_err(Failure::run)?;
    write_models(folder.path()).map_err(Failure::run)?;
    let entry = |(index, launch): (usize, &Launch)| {
        let name = &launch.name;
        let processor = list
            .processor
            .get(&launch.processor)
            .ok_or_else(|| Failure::Run(format!("launch {name}: no processor is called `{}`", launch.processor)))?;
        let document = document(&launch.argv, processor, folder.path());
        Ok(Entry { id: format!("{:02}-{name}", index + 1), document, provenance: None })
    };
    list.launch.iter().enumerate().map(entry).collect()
}

fn write_models(folder: &Path) -> io::Result<()> {
    MODELS.iter().try_for_each(|(name, config)| {
        let folder = folder.join(MODELS_FOLDER).join(name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("config.json"), config)
    })
}

/// `root` has the folder of models; it is named neither in a command line nor in a document.
fn document(argv: &[String], processor: &Processor, root: &Path) -> Document {
    let models = format!("--model-path={MODELS_FOLDER}/");
    let in_root = |word: &String| match word.strip_prefix(&models) {
        Some(name) => format!("--model-path={}", root.join(MODELS_FOLDER).join(name).display()),
        None => word.clone(),
    };
    let argv = std::iter::once("engine".to_owned()).chain(argv.iter().map(in_root));
    match build(argv, processor) {
        Ok(built) => Document::Built(values(&built, processor)),
        Err(failure) => {
            let text = failure.to_string().replace(&format!("{}/", root.display()), "");
            Document::Refused(text.lines().map(str::to_owned).collect())
        }
    }
}

fn build(argv: impl IntoIterator<Item = String>, processor: &Processor) -> Result<Built, Failure> {
    let facts = Facts::for_test().with_cpus(processor.cpus);
    let Opened { context, checkpoint } =
        launch::open_where(&Settings::loader().args(argv).facts(facts), None, no_cuda)?;
    let machine = Machine { isa: Isa::scalar(), memory: processor.memory_mib.map(|mib| mib << 20) };
    Ok(launch::build_runner(&context, &checkpoint, machine)?.built())
}

/// What is declared of a machine is its processor.
fn no_cuda(_: &CudaOptions) -> Result<(), CudaError> {
    Err(CudaError::NoDriver)
}

fn values(built: &Built, processor: &Processor) -> BTreeMap<String, Value> {
    let Built { architecture, parameters, weight_bytes, kv, context_length, longest_sequence, .. } = built;
    let Processor { avx2, fma, avx512f, .. } = *processor;
    let instructions = CpuFeatures { avx2, fma, avx512f }.chosen();
    let entries = [
        ("attention.decode", text(built.attention.decode.name())),
        ("attention.prefill", text(built.attention.prefill.name())),
        ("attention.query_heads_per_kv_head", number(built.query_heads_per_kv_head)),
        ("compute.instructions", text(instructions)),
        ("compute.threads", number(built.threads)),
        ("kv.bytes", number(kv.bytes)),
        ("kv.element", text(kv.element)),
        ("kv.key_elements", number(kv.key_elements)),
        ("kv.layers", number(kv.layers)),
        ("kv.page_size", number(kv.page_size)),
        ("kv.pages", number(kv.pages)),
        ("kv.tokens", number(kv.tokens)),
        ("model.architecture", text(architecture.name())),
        ("model.parameters", number(*parameters)),
        ("model.weight_bytes", number(*weight_bytes)),
        ("prefill.sizes", Value::List(built.prefill_sizes.iter().copied().map(number).collect())),
        ("sequence.context_length", number(*context_length)),
        ("sequence.longest", number(*longest_sequence)),
    ];
    entries.into_iter().map(|(path, value)| (path.to_owned(), value)).collect()
}

fn number(number: usize) -> Value {
    Value::Integer(number as _)
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::baseline::check;
    use super::*;

    fn all() -> Vec<Entry> {
        entries().unwrap_or_else(|failure| panic!("{failure}"))
    }

    #[test]
    fn all_launches_are_built_as_committed() {
        let report = check(&all(), &Path::new(env!("CARGO_MANIFEST_DIR")).join("probe/built"));
        let faults: String = report.faults.iter().map(ToString::to_string).collect();
        assert!(faults.is_empty(), "{faults}if that is meant: engine config probe --built --bless");
        assert!(report.accepted > 0 && report.refused > 0);
    }

    #[test]
    fn building_again_in_another_folder_gives_the_same_bytes() {
        for (one, two) in all().iter().zip(&all()) {
            assert_eq!(one.document.json(), two.document.json(), "{}", one.id);
        }
    }

    #[test]
    fn every_value_is_seen_to_change() {
        let entries = all();
        let built = entries.iter().filter_map(|entry| match &entry.document {
            Document::Built(values) => Some(values),
            _ => None,
        });
        let built: Vec<_> = built.collect();
        let same =
            |path: &&String| built.iter().map(|values| values[*path].to_string()).collect::<BTreeSet<_>>().len() == 1;
        let fixed: Vec<_> = built[0].keys().filter(same).collect();
        // These launches are on the CPU, which computes attention and keeps keys and values in one way.
        let one_way = ["attention.decode", "attention.prefill", "kv.element"];
        assert_eq!(fixed, one_way, "add a launch to built.toml that differs in these");
    }

    #[test]
    fn faults_of_the_list_are_named() {
        let fault = |text: &str| of_list(text).err().map(|failure| failure.to_string()).unwrap_or_default();
        let launch = "[processor.p]\ncpus = 1\n[[launch]]\nname = \"n\"\nprocessor = \"q\"\nargv = []\n";
        assert_eq!(fault(launch), "launch n: no processor is called `q`");
        assert!(fault("launch = 1").starts_with("built.toml: "));
    }
}

#!/usr/bin/env python3
"""Writes the schema of this package from fields.tsv: one file per namespace, the choices, and the root.

    python3 tests/scale/generate.py                         the committed schema, into src/
    python3 tests/scale/generate.py --into DIR              the schema as a crate of its own, for compile-time figures
    python3 tests/scale/generate.py --into DIR --half       the same with the first half of each namespace's fields
    python3 tests/scale/generate.py --into DIR --peer       the same fields as structs under clap-derive and serde-derive
"""

import argparse
import csv
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent

# The first line of what is written.
HEAD = "//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.\n"

DOCS = {
    "device": "Devices, and how the process treats them.",
    "disagg": "Prefill, decode and encoding in engines of their own.",
    "exec": "How work runs.",
    "exec.comm": "Collective communication.",
    "exec.deterministic": "Reproducible results.",
    "exec.dllm": "Diffusion language models.",
    "exec.features": "What a forward pass returns besides tokens, and numeric switches.",
    "exec.graph": "Captured graphs and compilation.",
    "exec.kernel": "Which kernels run.",
    "exec.mamba": "State-space and linear-attention layers.",
    "exec.moe": "Mixture-of-experts layers.",
    "exec.offload": "Weights kept on the host.",
    "exec.overlap": "Batches that run side by side.",
    "lora": "Low-rank adapters.",
    "memory": "The cache of keys and values.",
    "mm": "Images, audio and video.",
    "model": "The model and how its weights are loaded.",
    "observability": "Logs, metrics, traces and dumps.",
    "parallel": "Widths of all kinds of parallelism, and node layout.",
    "schedule": "How requests are admitted and batched.",
    "serving": "The service and its tokenizers.",
    "spec": "Speculative decoding.",
}

# Declared on the struct of a namespace: all inputs are its own. (text, its own inputs).
DERIVED = {
    "exec.moe": [
        ("/// This process joins a running engine.\nis_ep_joiner: bool = derived::is_ep_joiner(ep_join_mode)"),
        ("/// It joins to widen the engine, not to replace a rank.\n"
         "is_ep_scale_joiner: bool = derived::is_ep_scale_joiner(ep_join_mode)"),
    ],
    "model": [
        "/// Weights load while the engine starts.\n"
        "is_startup_weight_load_overlap: bool = derived::is_startup_weight_load_overlap(startup_weight_load_mode)",
        "/// Weights come or go by the transfer engine.\n"
        "transfer_engine_enabled: bool = derived::transfer_engine_enabled("
        "remote_instance_weight_loader_start_seed_via_transfer_engine, load_format, "
        "remote_instance_weight_loader_backend, modelexpress_config)",
    ],
    "parallel": [
        "/// Ranks that share an attention head's work.\n"
        "attn_tp_size: usize = derived::attn_tp_size(tp_size, attn_dp_size, attn_cp_size)",
        "/// Ranks that take requests of their own.\n"
        "#[cases(tp_size = [8], dp_size = [1, 4], attn_dp_size = [1, 2, 8])]\n"
        "num_dp_ranks: usize = derived::num_dp_ranks(dp_size, attn_dp_size)",
        "/// Width of decode context parallelism as attention sees it.\n"
        "attn_dcp_size: usize = derived::attn_dcp_size(dcp_size)",
        "/// Width of expert parallelism.\n#[cases(tp_size = [8], ep_size = [1, 4, 8])]\nmoe_ep_size: usize = derived::moe_ep_size(ep_size)",
        "/// Ranks that share one expert.\nmoe_tp_size: usize = derived::moe_tp_size(tp_size, ep_size, moe_dp_size)",
        "/// Decode context parallelism is on.\ndcp_enabled: bool = derived::dcp_enabled(dcp_size)",
        "/// Ranks at launch, those of the engine joined included.\n"
        "at_publish launch_world_size: usize = derived::launch_world_size(ep_join_rank_offset, tp_size, pp_size)",
        "/// Ranks there may ever be.\n"
        "at_publish max_world_size: usize = derived::max_world_size(max_ep_size, launch_world_size)",
    ],
    "spec": [
        "/// Draft tokens that buffers are built for.\n"
        "at_launch max_speculative_num_draft_tokens: Option<usize> = derived::max_speculative_num_draft_tokens("
        "speculative_num_draft_tokens, speculative_adaptive, speculative_adaptive_config)",
    ],
    # On the root: inputs of several namespaces.
    "": [
        "/// Attention takes requests per rank.\n"
        "#[cases(parallel.tp_size = [8], parallel.attn_dp_size = [1, 2, 8])]\n"
        "plan.attn_dp_enabled: bool = derived::attn_dp_enabled("
        "parallel.attn_dp_size, exec.moe.is_ep_scale_joiner)",
        "/// State-space layers keep an extra buffer for the prefix cache.\n"
        "plan.enable_mamba_extra_buffer: bool = derived::mamba_extra_buffer("
        "memory.disable_radix_cache, exec.mamba.mamba_radix_cache_strategy)",
        "/// That buffer is filled lazily.\n"
        "plan.enable_mamba_extra_buffer_lazy: bool = derived::mamba_extra_buffer_lazy("
        "memory.disable_radix_cache, exec.mamba.mamba_radix_cache_strategy)",
        "/// How shared experts run unless the model says otherwise.\n"
        "plan.shared_experts: SharedExperts = derived::shared_experts(exec.moe.disable_shared_experts_fusion)",
        "/// Tokens that a prefill buffer holds.\n"
        "#[cases(schedule.chunked_prefill_size = [-1, 0, 1024, 8192], schedule.enable_dynamic_chunking = [false, true])]\n"
        "#[cases(parallel.pp_size = [1, 4], schedule.max_prefill_tokens = [0, 2048, 16384])]\n"
        "plan.max_prefill_buffer_tokens: usize = derived::max_prefill_buffer_tokens(schedule.chunked_prefill_size, "
        "schedule.enable_dynamic_chunking, schedule.max_prefill_tokens, parallel.pp_size)",
        "/// Tokens whose activations are reserved before graphs are captured.\n"
        "plan.activation_tokens: usize = derived::activation_tokens(disagg.disaggregation_mode, "
        "schedule.max_running_requests, exec.graph.cuda_graph_max_bs_decode, spec.speculative_num_draft_tokens, "
        "schedule.chunked_prefill_size, schedule.max_prefill_tokens)",
        "/// Memory reserved for activations, before the device is known.\n"
        "plan.activation_reserve: ByteSize = derived::activation_reserve("
        "plan.activation_tokens, parallel.tp_size, parallel.pp_size)",
        "/// The draft's weights come or go by the transfer engine.\n"
        "plan.draft_transfer_engine_enabled: bool = derived::draft_transfer_engine_enabled("
        "spec.speculative_draft_load_format, model.remote_instance_weight_loader_start_seed_via_transfer_engine, "
        "model.load_format, model.remote_instance_weight_loader_backend, model.modelexpress_config)",
        "/// Attention kernels of prefill.\n"
        "plan.prefill_attention: Option<AttentionBackend> = derived::attention("
        "exec.kernel.attention_backend, exec.kernel.prefill_attention_backend)",
        "/// Attention kernels of decode.\n"
        "plan.decode_attention: Option<AttentionBackend> = derived::attention("
        "exec.kernel.attention_backend, exec.kernel.decode_attention_backend)",
    ],
}

RULES = {
    "parallel": [
        "rules::attention_divides(tp_size, attn_dp_size, attn_cp_size)",
        "rules::experts_divide(tp_size, ep_size, moe_dp_size)",
        "rules::one_data_parallelism(dp_size, attn_dp_size)",
        "rules::node_is_known(node_rank, nnodes)",
    ],
}

# Leaves that the running program overrides.
HOT = set("""
grammar_backend disaggregation_mode reasoning_parser tool_call_parser weight_version load_format model_path
pp_max_micro_batch_size hicache_storage_backend hicache_storage_backend_extra_config hicache_storage_prefetch_policy
hicache_write_policy hicache_ratio speculative_accept_threshold_single speculative_accept_threshold_acc
forward_pass_metrics_ipc_name disaggregation_decode_retraction_backup max_mamba_cache_size ep_size disable_cuda_graph
dtype disable_chunked_prefix_cache speculative_num_steps speculative_num_draft_tokens cuda_graph_bs_decode
""".split())

RANGES = {name: "1.." for name in """
tp_size dcp_size pp_size dp_size attn_dp_size attn_cp_size moe_dp_size dwdp_size ep_size nnodes page_size
shared_experts_tp_size moe_dense_tp_size max_ep_size speculative_num_draft_tokens stream_interval
tokenizer_worker_num detokenizer_worker_num scheduler_recv_interval num_continuous_decode_steps
""".split()}
RANGES |= {name: "0.0..=1.0" for name in """
watermark_mixing_probability watermark_max_probability mem_fraction_static swa_full_tokens_ratio
hicache_host_memory_fraction prefill_delayer_token_usage_low_watermark prefill_delayer_queue_min_ratio
speculative_accept_threshold_single speculative_accept_threshold_acc tbo_token_distribution_threshold
eplb_min_rebalancing_utilization_threshold
""".split()}
RANGES |= {"fuseep_mode": "1..=2", "dsa_triton_union": "0..=4", "log_requests_level": "0..=3",
           "max_lora_chunk_size": "16..=128"}

TYPES = {
    "random_seed": "Option<u64>",
    "chunked_prefill_size": "Option<i64>",
    "default_priority_value": "Option<i64>",
    "priority_scheduling_preemption_threshold": "i64",
    "http2_initial_connection_window_size": "ByteSize",
    "remote_instance_weight_loader_send_weights_group_ports": "Option<Vec<u16>>",
    # The candidate numbers of steps themselves, so that what follows from them is a function of settings alone.
    "speculative_adaptive_config": "Option<Vec<usize>>",
    "elastic_ep_backend": "Option<ElasticEpBackend>",
    # The object itself instead of its JSON, so that what follows from its entries can be read.
    "modelexpress_config": "Option<BTreeMap<String, String>>",
}
DEFAULTS = {"http2_initial_connection_window_size": '"1MiB"', "ep_num_redundant_experts": "0",
            "speculative_ngram_capacity": "10_000_000"}
# Choice lists that several leaves share, by the name of the first.
ENUM_NAMES = {"cuda_graph_backend_decode": "CudaGraphBackend", "mamba_ssm_dtype": "SsmDtype",
              "dtype": "ModelDtype", "kv_canary_real_data": "KvCanaryData", "log_requests_format": "LogFormat",
              "prefill_kv_cache_dequant_dtype": "KvDequantDtype", "return_hidden_states_mode": "HiddenStates",
              "disaggregation_mode": "DisaggregationRole", "speculative_attention_mode": "SpeculativeAttention"}
KEYWORDS = {"type", "async", "match", "move"}


def pascal(name):
    return "".join(word[:1].upper() + word[1:].lower() for word in re.split(r"[^A-Za-z0-9]+", name) if word)


def kebab(variant):
    out = ""
    for i, c in enumerate(variant):
        after_lower = i > 0 and not variant[i - 1].isupper()
        ends = i > 0 and i + 1 < len(variant) and variant[i + 1].islower()
        if c.isupper() and (after_lower or ends):
            out += "-"
        out += c.lower()
    return out


class Choices:
    """Enums by their list of spellings."""

    def __init__(self):
        self.by_list = {}

    def of(self, name, spellings):
        key = tuple(spellings)
        if key not in self.by_list:
            self.by_list[key] = ENUM_NAMES.get(name, pascal(name))
        return self.by_list[key]

    def variant(self, spelling):
        return pascal(spelling.replace("+", "_plus_"))

    def add_used_by(self, text, others):
        """Those of others that hand-written code names."""
        for spellings, name in others.by_list.items():
            if re.search(rf"\b{name}\b", text):
                self.by_list.setdefault(spellings, name)

    def source(self, peer):
        text = ""
        for spellings, name in self.by_list.items():
            doc = " or ".join(f"`{s}`" for s in spellings) if len(spellings) < 3 else f"{len(spellings)} choices"
            derive = "clap::ValueEnum, serde::Deserialize" if peer else "ConfigChoice"
            text += f"\n/// {pascal_words(name)}: {doc}.\n#[derive(Clone, Copy, Debug, Eq, PartialEq, {derive})]\n"
            text += f"pub enum {name} {{\n"
            for spelling in spellings:
                variant = self.variant(spelling)
                text += f"    /// Spelt `{spelling}`.\n"
                if peer:
                    text += f'    #[serde(rename = "{spelling}")]\n    #[value(name = "{spelling}")]\n'
                elif kebab(variant) != spelling:
                    text += f'    #[config(name = "{spelling}")]\n'
                text += f"    {variant},\n"
            text += "}\n"
        return text


def pascal_words(name):
    words = kebab(name).replace("-", " ")
    return words[:1].upper() + words[1:]


def tidy_doc(text, name):
    text = text.strip() or name.replace("_", " ")
    words = []
    for word in re.split(r"(\s+)", text):
        plain = word.strip(".,;:()")
        code = "_" in plain or re.search(r"[a-z][A-Z]|[A-Z]{2,}[a-z]|[<>\[\]{}*|\\]|^--|::", plain)
        if plain and code and "`" not in word:
            word = word.replace(plain, f"`{plain}`")
        words.append(word)
    text = "".join(words)
    text = text[:1].upper() + text[1:] if not text.startswith("`") else text
    return text if text.endswith(".") else text + "."


def spellings_of(row):
    text = row["choices"]
    if not text or " " in text or "{" in text:
        return None
    return [s for s in text.split(",") if s]


def rust_type(row, choices):
    """The leaf's type and the default as written in the attribute."""
    name, text, default = row["name"], row["type"], row["default"]
    optional = text.startswith("Optional[") or "Literal[None" in text
    inner = text[len("Optional["):-1] if text.startswith("Optional[") else text
    spellings = spellings_of(row)
    numeric = inner in ("int", "float") or (spellings and all(re.fullmatch(r"-?\d+", s) for s in spellings))
    chosen = None
    if spellings and not numeric:
        if name == "elastic_ep_backend":
            spellings = [s for s in spellings if s != "none"]
        chosen = choices.of(name, spellings)
        ty = chosen
    elif inner == "bool":
        ty = "bool"
    elif inner == "float":
        ty = "Duration" if name.endswith("_timeout") else "f64"
    elif numeric:
        negative = default.startswith("-")
        ty = "Duration" if name.endswith("_timeout") else "i64" if negative else "usize"
        ty = "u16" if name.endswith("port") else ty
    elif inner.startswith("List[int"):
        ty = "Vec<usize>"
    elif inner.startswith("List[float"):
        ty = "Vec<f64>"
    elif inner.startswith("List[str") or inner.startswith("Union[set"):
        ty = "Vec<String>"
    elif inner.startswith("Dict[") or inner.startswith("Union[dict["):
        ty = "BTreeMap<String, String>"
    elif inner == "str" and re.search(r"(_path|_dir|_folder|_file|_certfile|_keyfile|_ca_certs|_table_path)$", name) \
            and name not in ("model_path", "speculative_draft_model_path", "fastapi_root_path"):
        ty = "PathBuf"
    else:
        # Objects that only a program can build are named here; JSON stays text.
        ty = "String"
    if ty == "Vec<String>" and "port" in name:
        ty = "Vec<u16>"
    full = TYPES.get(name, f"Option<{ty}>" if optional else ty)
    if name in DEFAULTS:
        return full, DEFAULTS[name], chosen
    if default in ("None", "(required)", ""):
        value = None
    elif "default_factory" in default:
        value = '""'
    elif default in ("True", "False"):
        value = f"Some({default.lower()})" if full.startswith("Option") else default.lower()
    elif default.startswith("'"):
        body = default.strip("'")
        value = f"{chosen}::{choices.variant(body)}" if chosen else '"' + body + '"'
    else:
        number = eval(default, {"__builtins__": {}})
        if full == "Duration":
            value = f'"{number}s"' if number >= 1 else f'"{round(number * 1000)}ms"'
        elif full == "f64":
            value = repr(float(number))
        else:
            value = str(number)
        if full.startswith("Option"):
            value = f'"{value}"'
        elif value.isdigit() and len(value) > 5:
            value = f"{int(value):_}"
    return full, value, chosen


def fields_of(rows, half):
    """Namespaces in order, each with its rows."""
    spaces = {}
    for row in rows:
        if row["type"] == "Derived" or row["name"].startswith("_"):
            continue
        spaces.setdefault(row["path"], []).append(row)
    if half:
        spaces = {path: fields[: (len(fields) + 1) // 2] for path, fields in spaces.items()}
    return spaces


def flag_of(row):
    """The first long spelling, where it is not the name in kebab case."""
    given = re.match(r"--([a-z0-9-]+)", row["cli flag"])
    own = row["name"].replace("_", "-")
    return given.group(1) if given and given.group(1) != own else None


def imports(types, text):
    lines = []
    if "BTreeMap<" in types:
        lines.append("use std::collections::BTreeMap;")
    if "PathBuf" in types:
        lines.append("use std::path::PathBuf;")
    if "Duration" in types:
        lines.append("use std::time::Duration;")
    return "\n".join(lines) + ("\n\n" if lines else "") + text


def attributes(path, known, extra=()):
    """The arguments of `config` on a struct; `derived` and `validate` as far as their inputs are there."""
    def usable(call):
        inputs = re.search(r"\w+\(([^()]*)\)\s*$", call.split(" = ")[-1]).group(1)
        return all((f"{path}.{i.strip()}" if path else i.strip()) in known for i in inputs.split(","))

    def with_known_cases(item):
        """Without declared cases of leaves that are not there."""
        def is_known(line):
            names = re.findall(r"([\w.]+) = \[", line) if line.startswith("#[cases") else []
            return all((f"{path}.{name}" if path else name) in known for name in names)
        return "\n".join(line for line in item.split("\n") if is_known(line))

    parts = list(extra)
    derived = []
    for item in map(with_known_cases, DERIVED.get(path, [])):
        if usable(item):
            derived.append(item)
            name = re.search(r"([\w.]+): ", item.split("\n")[-1]).group(1)
            known.add(f"{path}.{name}" if path else name)
    if derived:
        parts.append(nested("derived", derived))
    rules = [rule for rule in RULES.get(path, []) if usable(rule)]
    if rules:
        parts.append(nested("validate", rules))
    if len(parts) == 1:
        return parts[0], derived, rules
    return "\n    " + ",\n    ".join(parts) + "\n", derived, rules


def nested(word, items):
    """Laid out by hand: rustfmt leaves attributes with comments in them alone."""
    lines = [line for item in items for line in (item + ",").split("\n")]
    broken = []
    for line in lines:
        if len(line) > 110:
            head, call = line.split(" = ", 1)
            line = head + " =\n            " + call
            if len(call) > 106:
                start, inputs = call.split("(", 1)
                inputs = inputs.rstrip(",)").replace(", ", ",\n                ")
                line = f"{head} = {start}(\n                {inputs}\n        ),"
                line = line.replace("\n                ", "\n            ")
        broken.append("        " + line)
    return f"{word}(\n" + "\n".join(broken) + "\n    )"


def struct_name(path):
    return pascal(path.replace(".", "_"))


def module(path):
    return path.replace(".", "_")


def namespace_file(path, rows, choices, known, children):
    used, body, types = set(), "", ""
    for row in rows:
        ty, default, chosen = rust_type(row, choices)
        if chosen:
            used.add(chosen)
        types += ty + " "
        known.add(f"{path}.{row['name']}")
        attrs = []
        if default is not None:
            attrs.append(f"default = {default}")
        if row["name"] in RANGES:
            attrs.append(f"range = {RANGES[row['name']]}")
        if row["name"] in HOT:
            attrs.append("hot")
        elif "resolvable" in row["attrs"]:
            attrs.append("load_time")
        if flag_of(row):
            attrs.append(f'flag = "{flag_of(row)}"')
        body += f"    /// {tidy_doc(row['help (own words)'], row['name'])}\n"
        if attrs:
            body += f"    #[config({', '.join(attrs)})]\n"
        body += f"    {row['name']}: {ty},\n"
    for child in children:
        body += f"    /// {DOCS[child]}\n    #[config(nested)]\n"
        body += f"    {child.split('.')[-1]}: crate::{module(child)}::{struct_name(child)},\n"
    parts, derived, rules = attributes(path, known, [f'ns = "{path}"'])
    uses = ["kitbag::ConfigNamespaces"]
    if "ByteSize" in types:
        uses = ["kitbag::{ByteSize, ConfigNamespaces}"]
    lines = [f"use {use};" for use in uses]
    own = []
    if used:
        names = sorted(used)
        own.append("use crate::choices::" + (names[0] if len(names) == 1 else "{" + ", ".join(names) + "}") + ";")
    modules = (["derived"] if derived else []) + (["rules"] if rules else [])
    if modules:
        own.append("use crate::" + (modules[0] if len(modules) == 1 else "{" + ", ".join(modules) + "}") + ";")
    text = "\n".join(lines) + ("\n\n" + "\n".join(own) if own else "")
    text += f"\n\n/// {DOCS[path]}\n#[derive(ConfigNamespaces)]\n#[config({parts})]\n"
    text += f"pub struct {struct_name(path)} {{\n{body}}}\n"
    return HEAD + "\n" + imports(types, text)


def root_file(tops, known, choices):
    parts, derived, rules = attributes("", known, ['env = "SCALE"'])
    kitbag = "{ByteSize, ConfigNamespaces}" if any("ByteSize" in d for d in derived) else "ConfigNamespaces"
    text = f"{HEAD}\nuse kitbag::{kitbag};\n\n"
    names = [n for n in ["AttentionBackend"] if any(n in d for d in derived)]
    text += "".join(f"use crate::choices::{n};\n" for n in names)
    modules = ["derived"] if derived else []
    if any("SharedExperts" in d for d in derived):
        modules.append("derived::SharedExperts")
    text += "".join(f"use crate::{m};\n" for m in modules)
    text += f"\n/// An inference engine.\n#[derive(ConfigNamespaces)]\n#[config({parts})]\npub struct Args {{\n"
    for top in tops:
        text += f"    /// {DOCS[top]}\n    #[config(nested)]\n"
        text += f"    {top}: crate::{module(top)}::{struct_name(top)},\n"
    return text + "}\n"


def peer_type(ty):
    return (ty.replace("Duration", "f64").replace("ByteSize", "u64"))


def peer_file(path, rows, choices, children):
    body, types, used = "", "", set()
    for row in rows:
        ty, _, chosen = rust_type(row, choices)
        ty = peer_type(ty)
        if chosen:
            used.add(chosen)
        ty = ty if ty.startswith("Option<") else f"Option<{ty}>"
        types += ty + " "
        args = [f'long = "{flag_of(row)}"' if flag_of(row) else "long"]
        if "Vec<" in ty:
            args.append("value_delimiter = ','")
        if "BTreeMap<" in ty:
            args.append("value_parser = crate::pairs")
        body += f"    /// {tidy_doc(row['help (own words)'], row['name'])}\n    #[arg({', '.join(args)})]\n"
        body += f"    pub {row['name']}: {ty},\n"
    for child in children:
        body += f"    /// {DOCS[child]}\n    #[command(flatten)]\n    #[serde(default)]\n"
        body += f"    pub {child.split('.')[-1]}: crate::{module(child)}::{struct_name(child)},\n"
    own = f"use crate::choices::{{{', '.join(sorted(used))}}};\n\n" if used else ""
    text = own + f"/// {DOCS[path]}\n#[derive(Default, clap::Args, serde::Deserialize)]\n#[serde(deny_unknown_fields)]\n"
    return imports(types, text + f"pub struct {struct_name(path)} {{\n{body}}}\n")


PEER_LIB = """
/// Reads the arguments.
pub fn from_args() -> Result<Args, clap::Error> {
    <Args as clap::Parser>::try_parse()
}

/// Reads a file.
pub fn from_toml(text: &str) -> Result<Args, toml::de::Error> {
    toml::from_str(text)
}

fn pairs(text: &str) -> Result<std::collections::BTreeMap<String, String>, String> {
    text.split(',')
        .map(|pair| pair.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())).ok_or("not a pair".to_owned()))
        .collect()
}
"""


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--into", type=pathlib.Path)
    options.add_argument("--half", action="store_true")
    options.add_argument("--peer", action="store_true")
    given = options.parse_args()
    with open(HERE / "fields.tsv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    spaces = fields_of(rows, given.half)
    paths = set(spaces) | {path.split(".")[0] for path in spaces}
    tops = sorted(path for path in paths if "." not in path)
    target = given.into / "src" if given.into else HERE / "src"
    target.mkdir(parents=True, exist_ok=True)
    choices, known, files = Choices(), set(), {}
    # Children first: rules of a parent may read them.
    for path in sorted(paths, key=lambda path: (-path.count("."), path)):
        children = sorted(child for child in paths if child.startswith(path + "."))
        own = spaces.get(path, [])
        if given.peer:
            files[module(path)] = peer_file(path, own, choices, children)
        else:
            files[module(path)] = namespace_file(path, own, choices, known, children)
    if given.half:
        every = Choices()
        for row in rows:
            rust_type(row, every)
        choices.add_used_by((HERE / "src/derived.rs").read_text(encoding="utf-8"), every)
    files["choices"] = (HEAD + "\n" + ("" if given.peer else "use kitbag::ConfigChoice;\n") + choices.source(given.peer))
    if given.peer:
        body = "".join(f"    #[command(flatten)]\n    #[serde(default)]\n    pub {top}: {top}::{struct_name(top)},\n" for top in tops)
        files["lib"] = "//! The same fields under clap-derive and serde-derive.\n\n" + \
            "".join(f"pub mod {name};\n" for name in sorted(files)) + \
            "\n/// An inference engine.\n#[derive(clap::Parser, serde::Deserialize)]\npub struct Args {\n" + body + "}\n" + PEER_LIB
    else:
        files["args"] = root_file(tops, known, choices)
        if given.into:
            for name in ("derived", "rules"):
                files[name] = (HERE / "src" / f"{name}.rs").read_text(encoding="utf-8")
            files["lib"] = "//! The schema alone.\n\n#![allow(dead_code, unused_imports)]\n\n" + \
                "".join(f"pub mod {name};\n" for name in sorted(files))
    for name, text in files.items():
        (target / f"{name}.rs").write_text(text, encoding="utf-8")
    if not given.into:
        generated = [str(target / f"{name}.rs") for name in files]
        subprocess.run(["rustfmt", "--edition", "2024", *generated], check=True)
    print(sum(len(fields) for fields in spaces.values()), "leaves in", len(spaces), "namespaces")


if __name__ == "__main__":
    main()

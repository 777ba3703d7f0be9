#!/usr/bin/env python3
"""Makes the models of this folder, one for each option that a `config.json` may have, and what transformers computes with them.

    pip install torch==2.15.0 transformers==5.24.0 safetensors==0.8.0
    python3 make_tiny.py                 # makes all anew
    python3 make_tiny.py NAME...         # makes some anew
    python3 make_tiny.py --check         # makes all beside, and compares

Each model is a folder:

* `config.json` in the style of model hubs, and `config_v5.json` as transformers 5 saves it,
* `model.safetensors`, random weights rounded to bfloat16,
* `tokenizer.json`, a link to one for all,
* `reference.json`: the prompt, the 32 likeliest tokens after it, and how far the logits move without the option,
* `reference.safetensors`: the logits of every position of the prompt, in float32.

`fields.json` has every field of the configuration classes, with what it is where a `config.json` leaves it out.

The reference is plain: on the CPU in float32, eager attention, the whole sequence anew for each token. A model only
counts if its option matters and its likeliest tokens are clearly so, so that a decoder without the option cannot pass.
"""

import argparse
import copy
import dataclasses
import hashlib
import json
import math
import pathlib
import sys
import tempfile
import unittest.mock

import safetensors
import safetensors.torch
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig

VERSIONS = {torch: "2.15.0", transformers: "5.24.0", safetensors: "0.8.0"}
HERE = pathlib.Path(__file__).resolve().parent
TOKENIZER = "../../llama/tokenizer.json"
PROMPT, GREEDY, VOCABULARY = 48, 32, 96
# What logits have to move by without the option: twenty times what tests tolerate.
NOTICED = 0.04
# How far the likeliest token has to be ahead of the next: ten times what tests tolerate.
MARGIN = 0.02
# How far numbers of another processor may be off.
SAME = 1e-4

BASE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "hidden_act": "silu",
    "max_position_embeddings": 256,
    "initializer_range": 0.02,
    "rms_norm_eps": 1e-5,
    "use_cache": True,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "tie_word_embeddings": False,
    "attention_dropout": 0.0,
    # Low, so that a head of few elements has both high and low frequencies.
    "rope_theta": 100.0,
    "rope_scaling": None,
    "torch_dtype": "bfloat16",
}
QWEN_MOE = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
FAMILIES = {
    "llama": ("LlamaForCausalLM", {}),
    "mistral": ("MistralForCausalLM", {"sliding_window": None}),
    "qwen2": ("Qwen2ForCausalLM", {"head_dim": ..., "use_sliding_window": False}),
    "qwen3": ("Qwen3ForCausalLM", {"use_sliding_window": False}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", QWEN_MOE),
    "mixtral": ("MixtralForCausalLM", {"num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 16}),
    "olmoe": (
        "OlmoeForCausalLM",
        {"head_dim": ..., "num_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 16, "norm_topk_prob": False},
    ),
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
FULL, SLIDING = "full_attention", "sliding_attention"


@dataclasses.dataclass
class Model:
    """A model, what its `config.json` says beside what all of its family do, and how it would say that it lacks the option."""

    family: str
    options: dict
    # Nothing where the shapes of the weights, or their being there, already tell.
    without: dict | None = None

    def config(self):
        architecture, own = FAMILIES[self.family]
        config = {"architectures": [architecture], "model_type": self.family, **BASE, **own, **self.options}
        return copy.deepcopy({key: value for key, value in config.items() if value is not ...})


def scaled(family, parameters, without=None, **others):
    return Model(family, {"rope_scaling": parameters, **others}, {"rope_scaling": without})


MODELS = {
    # Frequencies. The prompt is longer than the original contexts.
    "rope_linear": scaled("llama", {"type": "linear", "factor": 4.0}),
    "rope_llama3": scaled("llama", LLAMA3, tie_word_embeddings=True),
    "rope_llama3_original_outside": Model(
        "llama",
        {
            "rope_scaling": {key: value for key, value in LLAMA3.items() if key != "original_max_position_embeddings"},
            "original_max_position_embeddings": 24,
        },
        {"original_max_position_embeddings": 256},
    ),
    "rope_yarn": scaled("qwen3", YARN),
    "rope_yarn_attention_factor": scaled("llama", {**YARN, "attention_factor": 1.4}, YARN),
    "rope_yarn_betas": scaled("llama", {**YARN, "beta_fast": 4.0, "beta_slow": 0.5}, YARN),
    "rope_yarn_mscale": scaled("llama", {**YARN, "mscale": 2.0, "mscale_all_dim": 0.5}, YARN),
    # One of the two alone changes nothing.
    "rope_yarn_mscale_alone": scaled("llama", {**YARN, "mscale": 3.0}, {**YARN, "mscale": 3.0, "mscale_all_dim": 1.0}),
    "rope_yarn_no_truncation": scaled("qwen2", {**YARN, "truncate": False}, YARN),
    "rope_yarn_null_truncation": scaled("llama", {**YARN, "truncate": None}, YARN),
    "rope_yarn_no_original": scaled(
        "mistral",
        {"type": "yarn", "factor": 4.0},
        {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
        max_position_embeddings=96,
    ),
    "rope_yarn_original_outside": Model(
        "llama",
        {"rope_scaling": {**YARN, "original_max_position_embeddings": 96}, "original_max_position_embeddings": 24},
        {"original_max_position_embeddings": 96},
    ),
    "rope_both_spellings": Model(
        "llama",
        {
            "rope_scaling": {"rope_type": "linear", "factor": 4.0},
            "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
        },
        {"rope_scaling": None},
    ),
    "rope_theta_left_out": Model("mixtral", {"rope_theta": ...}, {"rope_theta": 10000.0}),
    # Windows.
    "window_of_mistral_layers": Model(
        "mistral",
        {"sliding_window": 6, "layer_types": [SLIDING, FULL, SLIDING], "num_hidden_layers": 3},
        {"layer_types": [SLIDING] * 3},
    ),
    "window_of_two": Model("mistral", {"sliding_window": 2}, {"sliding_window": 3}),
    "window_of_mixtral": Model("mixtral", {"sliding_window": 7}, {"sliding_window": None}),
    "window_of_qwen2": Model(
        "qwen2",
        {"sliding_window": 6, "use_sliding_window": True, "max_window_layers": 2, "num_hidden_layers": 3},
        {"max_window_layers": 1},
    ),
    "window_of_qwen2_switched_off": Model(
        "qwen2",
        {"sliding_window": 6, "use_sliding_window": False, "max_window_layers": 0},
        {"use_sliding_window": True},
    ),
    "window_of_qwen3": Model(
        "qwen3",
        {"sliding_window": 6, "use_sliding_window": True, "max_window_layers": 1, "num_hidden_layers": 3},
        {"max_window_layers": 28},
    ),
    "window_of_qwen3_layers": Model(
        "qwen3",
        {
            "sliding_window": 6,
            "use_sliding_window": True,
            "layer_types": [FULL, SLIDING, FULL],
            "num_hidden_layers": 3,
        },
        {"layer_types": [FULL] * 3},
    ),
    "window_of_qwen3_moe": Model(
        "qwen3_moe", {"sliding_window": 6, "use_sliding_window": True, "max_window_layers": 0}, {"use_sliding_window": False}
    ),
    # Biases.
    "bias_of_llama_attention": Model("llama", {"attention_bias": True}, {"attention_bias": False}),
    "bias_of_llama_mlp": Model("llama", {"mlp_bias": True}, {"mlp_bias": False}),
    "bias_of_olmoe": Model("olmoe", {"attention_bias": True}, {"attention_bias": False}),
    "bias_of_qwen3": Model("qwen3", {"attention_bias": True}, {"attention_bias": False}),
    "bias_of_qwen3_moe": Model("qwen3_moe", {"attention_bias": True}, {"attention_bias": False}),
    # Heads.
    "heads_3_for_each_key": Model("llama", {"num_attention_heads": 6, "num_key_value_heads": 2, "hidden_size": 36, "head_dim": 6}),
    "heads_5_for_each_key": Model("qwen2", {"num_attention_heads": 5, "num_key_value_heads": 1, "hidden_size": 40}),
    "heads_of_12": Model("llama", {"num_attention_heads": 3, "num_key_value_heads": 3, "hidden_size": 36, "head_dim": 12}),
    "heads_of_20": Model("mistral", {"head_dim": 20}),
    "heads_of_olmoe": Model("olmoe", {"num_attention_heads": 4, "num_key_value_heads": 2}),
    "heads_of_one_key_each": Model("llama", {"num_key_value_heads": ..., "head_dim": ...}),
    "heads_of_qwen3_left_out": Model("qwen3", {"head_dim": ..., "num_attention_heads": 1, "num_hidden_layers": 1}),
    # Experts.
    "experts_all_dense": Model("qwen3_moe", {"num_experts": 0}),
    "experts_clipped": Model("olmoe", {"clip_qkv": 0.6}, {"clip_qkv": None}),
    "experts_every_second_layer": Model("qwen3_moe", {"decoder_sparse_step": 2, "num_hidden_layers": 3}),
    "experts_not_in_some_layers": Model("qwen3_moe", {"mlp_only_layers": [0, 2], "num_hidden_layers": 3}),
    "experts_one_each": Model("mixtral", {"num_experts_per_tok": 1}, {"num_experts_per_tok": 2}),
    "experts_renormalised": Model("olmoe", {"norm_topk_prob": True}, {"norm_topk_prob": False}),
    "experts_not_renormalised": Model("qwen3_moe", {"norm_topk_prob": False}, {"norm_topk_prob": True}),
    # Heads of the output. Llama and Qwen3 with the embedding, and the others without, are among the larger models.
    "tied_mistral": Model("mistral", {"tie_word_embeddings": True}),
    "tied_mixtral": Model("mixtral", {"tie_word_embeddings": True}),
    "tied_olmoe": Model("olmoe", {"tie_word_embeddings": True}),
    "tied_qwen2": Model("qwen2", {"tie_word_embeddings": True}),
    "tied_qwen3_moe": Model("qwen3_moe", {"tie_word_embeddings": True}),
    "untied_qwen3": Model("qwen3", {}),
    # Everything that SmolLM2's own file says.
    "smollm2": Model(
        "llama",
        {
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "hidden_size": 72,
            "head_dim": ...,
            "rope_theta": 100000,
            "rope_interleaved": False,
            "is_llama_config": True,
            "pretraining_tp": 1,
            "attention_bias": False,
            "mlp_bias": False,
            "pad_token_id": 2,
            "tie_word_embeddings": True,
        },
        {"rope_theta": 10000},
    ),
    # More rows than the vocabulary has tokens, as models have whose rows are to be a multiple of something.
    "vocabulary_padded": Model("llama", {"vocab_size": 520, "num_hidden_layers": 1}),
    # What is added below the root, at both ends.
    "eps_large": Model("llama", {"rms_norm_eps": 0.25}, {"rms_norm_eps": 1e-5}),
    "eps_small": Model("qwen3", {"rms_norm_eps": 1e-12}, {"rms_norm_eps": 1e-6}),
}


def initialise(model, name, seed):
    """Numbers of about the size that trained weights have, as bfloat16 has them."""
    generator = torch.Generator().manual_seed(seed)
    tied = model.config.tie_word_embeddings
    with torch.no_grad():
        for key, parameter in sorted(model.named_parameters()):
            random = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 1 and "norm" in key:
                value = 1.0 + 0.1 * random
            elif key.endswith("bias"):
                value = 0.5 * random
            elif "embed_tokens" in key:
                # Small enough for what is added below the root to count.
                value = random * (1e-4 if name == "eps_small" else 0.3 if tied else 1.0)
            elif "lm_head" in key:
                value = random * 3.0 / math.sqrt(parameter.shape[-1])
            else:
                outwards = tied and key.endswith(("o_proj.weight", "down_proj.weight", "down_proj"))
                value = random * (3.0 if outwards else 2.0) / math.sqrt(parameter.shape[-1])
            parameter.copy_(value.to(torch.bfloat16).float())
    model.tie_weights()


def load(folder):
    model, report = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    assert not report["missing_keys"], report
    return model.eval()


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].float()


def greedy(model, ids):
    """The likeliest tokens, and how far each is ahead of the next."""
    sequence, margins = list(ids), []
    for _ in range(GREEDY):
        best = logits_of(model, sequence)[-1].topk(2)
        margins.append(float(best.values[0] - best.values[1]))
        sequence.append(int(best.indices[0]))
    return sequence[len(ids) :], margins


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


def make(name, folder):
    """Makes one model, of the first seed whose continuation is varied and clear."""
    spec = MODELS[name]
    folder.mkdir()
    base = int(hashlib.sha256(name.encode()).hexdigest()[:6], 16)
    prompt = torch.randint(0, VOCABULARY, (PROMPT,), generator=torch.Generator().manual_seed(base)).tolist()
    write_json(folder / "config.json", spec.config())
    config = AutoConfig.from_pretrained(folder)
    for seed in range(base, base + 200):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
        initialise(model, name, seed)
        tokens, margins = greedy(model, prompt)
        if len(set(tokens)) >= 8 and min(margins) >= MARGIN:
            break
    else:
        raise SystemExit(f"{name}: no seed gives a clear continuation")
    expected = logits_of(model, prompt)

    model.to(torch.bfloat16).save_pretrained(folder)
    saved = json.loads((folder / "config.json").read_text())
    (folder / "generation_config.json").unlink(missing_ok=True)
    write_json(folder / "config_v5.json", saved)
    write_json(folder / "config.json", spec.config())
    (folder / "tokenizer.json").symlink_to(TOKENIZER)

    # What a reader of these files gets, in either form.
    model = load(folder)
    logits = logits_of(model, prompt)
    assert (logits - expected).abs().max() < 1e-5, f"{name}: the folder is another model"
    assert greedy(model, prompt)[0] == tokens
    cached = model.generate(torch.tensor([prompt]), max_new_tokens=GREEDY, do_sample=False, eos_token_id=None)
    assert cached[0, PROMPT:].tolist() == tokens, f"{name}: with a cache the continuation is another"
    moved = None
    if spec.without is not None:
        moved = float((logits_of(altered(folder, spec.without), prompt) - logits).abs().max())
        assert moved > NOTICED, f"{name}: without the option logits move by {moved} only"

    safetensors.torch.save_file({"prompt_logits": logits.contiguous()}, folder / "reference.safetensors")
    reference = {
        "seed": seed,
        "prompt_ids": prompt,
        "greedy_ids": tokens,
        "smallest_margin": round(min(margins), 3),
        "without": spec.without,
        "moved_without": None if moved is None else round(moved, 3),
    }
    write_json(folder / "reference.json", reference)
    size = sum(path.stat().st_size for path in folder.iterdir() if not path.is_symlink())
    print(f"{name:30} {size // 1024:4} KiB  margin {min(margins):.3f}  moved {moved}", flush=True)


def altered(folder, changes):
    """The same weights under another configuration."""
    with tempfile.TemporaryDirectory() as other:
        other = pathlib.Path(other)
        (other / "model.safetensors").symlink_to((folder / "model.safetensors").resolve())
        write_json(other / "config.json", {**json.loads((folder / "config.json").read_text()), **changes})
        return load(other)


def fields():
    """By architecture: the fields of the configuration class, and what a model reads while it is built and run."""
    every = {}
    for family, (architecture, _) in FAMILIES.items():
        kind = transformers.CONFIG_MAPPING[family]
        left_out = {field.name: field.default for field in dataclasses.fields(kind) if not field.name.startswith("_")}
        # Not a field, but a key of files.
        left_out["rope_theta"] = kind.default_theta
        every[architecture] = {"left_out": dict(sorted(left_out.items())), "read": reads(kind, Model(family, {}).config())}
    return every


def reads(kind, config):
    """The names that a model asks its configuration for."""
    asked = set()
    plain = kind.__getattribute__

    def watched(self, name):
        asked.add(name)
        return plain(self, name)

    config = kind(**{key: value for key, value in config.items() if key != "architectures"})
    with unittest.mock.patch.object(kind, "__getattribute__", watched):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
        logits_of(model, [1, 2, 3])
    return sorted(name for name in asked if not name.startswith("_") and not hasattr(PreTrainedConfig, name))


def same(made, committed):
    """What differs between two folders of models."""
    names = {path.relative_to(made) for path in made.rglob("*") if not path.is_dir()}
    scripts = {pathlib.Path("make_tiny.py"), pathlib.Path("README.md")}
    others = {path.relative_to(committed) for path in committed.rglob("*") if not path.is_dir()} - scripts
    different = [f"{name} is in one of them only" for name in sorted(names ^ others)]
    for name in sorted(names & others):
        one, other = made / name, committed / name
        if name.name == "reference.safetensors":
            one, other = (safetensors.torch.load_file(path)["prompt_logits"] for path in (one, other))
            if one.shape != other.shape or (one - other).abs().max() > SAME:
                different.append(f"{name}: other logits")
        elif name.name == "tokenizer.json":
            if one.readlink() != other.readlink():
                different.append(f"{name}: another link")
        elif one.read_bytes() != other.read_bytes():
            different.append(f"{name}: other contents")
    return different


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="models to make; none: all")
    parser.add_argument("--check", action="store_true", help="make all beside, and compare")
    arguments = parser.parse_args()
    for module, version in VERSIONS.items():
        found = module.__version__.split("+")[0]
        if found != version:
            raise SystemExit(f"{module.__name__} is {found}; these models are made with {version}")
    if unknown := set(arguments.names) - set(MODELS):
        raise SystemExit(f"no such models: {', '.join(sorted(unknown))}")
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()

    with tempfile.TemporaryDirectory() as into:
        into = pathlib.Path(into)
        for name in arguments.names or MODELS:
            make(name, into / name)
        if not arguments.names:
            write_json(into / "fields.json", fields())
        if arguments.check:
            different = same(into, HERE)
            print("\n".join(different) or "all as committed")
            sys.exit(bool(different))
        for name in arguments.names or MODELS:
            put(into / name, HERE / name)
        if not arguments.names:
            (HERE / "fields.json").write_bytes((into / "fields.json").read_bytes())


def put(made, folder):
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for path in made.iterdir():
        if path.is_symlink():
            (folder / path.name).symlink_to(path.readlink())
        else:
            (folder / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()

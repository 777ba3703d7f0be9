#!/usr/bin/env python3
"""Cuts awkward texts into words as the tokenizers of byte-level vocabularies do, by the name that GGUF files have for each.

    pip install tokenizers
    python3 make_words.py

Writes `words.json`: texts, and for each name the words, with bytes as such vocabularies write them. The steps are those of the
`tokenizer.json` of a model of the name, written out: GPT-2, Llama 3, OLMo, Qwen 2.5 and SmolLM2.
"""

import json
from pathlib import Path

from tokenizers import Regex, normalizers, pre_tokenizers

HERE = Path(__file__).parent
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT_2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def split(pattern):
    """By a pattern of the model's own."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


STEPS = {
    "gpt-2": (None, GPT_2),
    "llama-bpe": (None, split(LLAMA_3)),
    "olmo": (normalizers.NFC(), GPT_2),
    "qwen2": (normalizers.NFC(), split(QWEN_2)),
    "smollm": (None, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), GPT_2])),
}

TEXTS = [
    "", " ", "  ", "   a", "a   ", "\n", "\n\n\n", " \n ", "\n a", "\r\n", "a\r\nb", "\r", "\r\r\na", "\t", "\t\ta", " \t \n\t b",
    "a\u00a0b", "\u00a0\u00a0a", "\u3000a", "\u2003 a", "\u2028a", "\u2029\u2029", "\u0085a", "\x0b\x0c", "\x1c\x1da", "\u180ea",
    "\u200ba", "\ufeffa", "\u200d", "\x00\x01", "\x7f", "\u00ada",
    "it's", "IT'S", "I'll I'LL I'Ll", "we've WE'VE", "'tis 'Twas", "don't DON'T", "they're THEY'RE", "I'm I'M", "he'd HE'D",
    "''s", "'s's", "' s", "a'", "'", "it’s", "'ſ", "x'ſt", "'Kx", "o'clock", "'re're", "'l", "'LLama", "l'État", "'ss", "'s1",
    "0", "12", "123", "1234", "1234567", "1,234,567.89", "1 2  3", "a1b2", "1a", "v2.0", "3.14e-10", "٣٤٥٦", "१२३४", "Ⅷ", "①②", "½", "x²",
    "௧௨", "1٣2", "𝟙𝟚", "〇一二", "²³¹",
    "é", "e\u0301", "e\u0301e\u0301", "\u0301", " \u0301a", "A\u030a", "\u212b", "\u1e9b\u0323", "\uac01", "\u1100\u1161\u11a8", "क्षि", "ไทย", "नमस्ते",
    "日本語 テスト", "中文，标点。", "한국어", "Привет, мир!", "Ωμέγα", "ǅ ǈ", "ª º", "ʰ", "אבג", "مرحبا", "ﬁ", "ﷺ", "\U00020000",
    "🙂", "🙂🙂", " 🙂", "👩‍👩‍👧", "🇩🇪", "a🙂b", "❤️", "☃\ufe0f",
    "!", "!!", " !", "  !", "!\n", "!!\n\n", " !\r\n\r\n", "a!b", "...a", " ...a", "(a)", "[1]", "{}\n", "//\n\n//", "#!", "a_b", "_a", "__init__",
    "$1", "€2", "+-*/=", "<|im_start|>", "a--b", "a—b", "“q”", "«q»", "‘q’", "\\n", "@a.b", "http://a.b/c?d=1&e=%20#f", "C:\\d",
    "if (x == 0) {\n    return x;\n}\n", "\tint\ta;\n", "x =  y\n\n  z", "a\n\n\n  \n b  ", "  \n  a", " \r\n \r\n a", "end  ", "end \n",
    "camelCase XMLHttp", "ALLCAPS", "mixED", "a.B.c", "!a", "?é", "\u00bfqué", " \u00bfqué", "-a", " -a", "--a", "\ta", "\u00a0!",
    "\U000e0001a", "\ue000a", "\ufffda", "\u0600a", "\u20dda", "\u0e33", "\u3099a", "a\u3099",
]


def words(steps, text):
    normalizer, cutter = steps
    text = normalizer.normalize_str(text) if normalizer else text
    return [word for word, _ in cutter.pre_tokenize_str(text)]


if __name__ == "__main__":
    cases = [{"text": text, **{name: words(steps, text) for name, steps in STEPS.items()}} for text in TEXTS]
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (HERE / "words.json").write_text(f"[{lines}]\n")

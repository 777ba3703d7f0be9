#!/usr/bin/env python3
"""Makes small vocabularies of scored pieces as GGUF files, and what SentencePiece itself makes of texts with them.

    pip install sentencepiece gguf numpy
    python3 make_scored_pieces.py

Each gets `NAME.gguf`, which has no tensors, and `NAME.json`: texts, their tokens, and the text of these. They are trained
to merge pairs, which is what `tokenizer.ggml.model = llama` means. Control tokens are in no text: SentencePiece never
reads them, and the engine does.
"""

import io
import json
import random
from pathlib import Path

import gguf
import sentencepiece

HERE = Path(__file__).parent
USER_DEFINED = ["[INST]", "▁▁▁▁"]
SENTENCES = """\
The engine reads a prompt, and answers it one token at a time.
A page holds the keys and values of sixteen tokens; a block table says which pages a sequence has.
Tokens are chosen by temperature, by the likeliest few, or by a share of the probability.
She sells sea shells by the sea shore, and the shells she sells are sea shells, I am sure.
How much wood would a woodchuck chuck if a woodchuck could chuck wood?
In 1969, two people walked on the moon; 12 have done so since, and 0 of them after 1972.
Der schnelle braune Fuchs springt über den faulen Hund, und die Bäume blühen im März.
Le cœur a ses raisons que la raison ne connaît point, écrivait-on à Noël.
El pingüino comió una piña en el jardín; ¿quién sabe por qué?
Быстрая коричневая лиса прыгает через ленивую собаку.
素早い茶色の狐が怠け者の犬を飛び越える。
敏捷的棕色狐狸跳过了懒狗。
fn main() { println!("{}", 1 + 2); }    // four spaces
if (x == 0) { return x; } else { return -x; }
""".splitlines()


def texts(pieces):
    """Texts that are awkward in as many ways as came to mind, and some of random pieces."""
    cases = [
        "", " ", "  ", "   ", " " * 17, " a", "a ", "  a  b  ", "\n", "\n\n", "a\nb", "\t", "a\tb\r\nc", "\u00a0", "a\u00a0b",
        "\u3000", "\u200b", "\u200d", "\ufeff", "▁", "▁▁", "a▁b", "▁a", " ▁a", "_", "the", " the", "The", "THE", "tHe",
        "sea shells", "seashells", "sea  shells", "sea   shells", "woodchuck" * 9, "the " * 40, "a" * 100, "ab" * 50,
        "s" * 33, "she " * 7 + "sells", "....", "......", "!?!?", "1969", "1 9 6 9", "0123456789", "-1.5e-7", "1,000,000",
        "é", "e\u0301", "É", "ü", "u\u0308", "œ", "ß", "ẞ", "ñ", "¿", "¡", "«»", "“”", "—", "…", "™", "ﬁ", "①", "½",
        "Ω", "Å", "\u212b", "лиса", "Лиса", "собака", "狐", "狐狸", "犬。", "怠け者", "한국어", "עברית", "العربية", "हिन्दी",
        "ไทย", "🙂", "👩‍👩‍👧", "🇩🇪", "a🙂b", "🙂🙂🙂", "\U0001f9ea", "\U0010ffff", "\x00", "a\x00b", "\x01\x02\x7f",
        "\x80", "\x85", "\u2028", "<0x41>", "<0xE2>", "a<0x0A>b", "<pad>", "[INST]", "a[INST] b", "[INST][INST]", "<|im_start|>",
        "fn main() {}", "    return x;", "        return x;", "x==0", "x == 0", "{}{}{}", "//", "/* a */", "<a href='b'>",
        "http://a.b/c?d=e&f=g#h", "a@b.c", "C:\\d", "a_b_c", "camelCaseWord", "SCREAMING_CASE", "I'm", "it's", "don't",
    ]
    cases += SENTENCES
    cases += [sentence.upper() for sentence in SENTENCES[:6]] + [sentence.replace(" ", "") for sentence in SENTENCES[:6]]
    cases += [sentence.replace(" ", "  ") for sentence in SENTENCES[:6]] + [sentence[::-1] for sentence in SENTENCES[:11]]
    dice = random.Random(5)
    while len(cases) < 260:
        some = dice.choices(pieces, k=dice.randint(1, 12))
        cases.append("".join(some).replace("▁", " "))
    return cases


def train(**options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 3),
        model_writer=out,
        model_type="bpe",
        vocab_size=700,
        character_coverage=0.98,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())


def write(name, processor, has_space_in_front):
    """The vocabulary as llama.cpp's converter writes one, and the ids of the texts."""
    size = processor.vocab_size()
    pieces = [processor.id_to_piece(id) for id in range(size)]
    kinds = []
    for id in range(size):
        kind = gguf.TokenType.NORMAL
        if processor.is_unknown(id):
            kind = gguf.TokenType.UNKNOWN
        elif processor.is_control(id):
            kind = gguf.TokenType.CONTROL
        elif processor.is_byte(id):
            kind = gguf.TokenType.BYTE
        elif pieces[id] in USER_DEFINED:
            kind = gguf.TokenType.USER_DEFINED
            # As converters write them: these are found in a text before its spaces become pieces.
            pieces[id] = pieces[id].replace("▁", " ")
        kinds.append(kind)
    writer = gguf.GGUFWriter(HERE / f"{name}.gguf", "llama")
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece.encode() for piece in pieces])
    writer.add_token_scores([processor.get_score(id) for id in range(size)])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(processor.bos_id())
    writer.add_eos_token_id(processor.eos_id())
    writer.add_unk_token_id(processor.unk_id())
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(has_space_in_front)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    normal = [piece for piece, kind in zip(pieces, kinds) if kind == gguf.TokenType.NORMAL]
    cases = []
    for text in texts(normal):
        ids = processor.encode(text)
        cases.append({"text": text, "ids": ids, "decoded": processor.decode(ids)})
    # What models write: bytes that are characters, that are none, and that might become some.
    dice = random.Random(6)
    raw = [id for id in range(size) if processor.is_byte(id)]
    others = [id for id, kind in enumerate(kinds) if kind == gguf.TokenType.NORMAL]
    for _ in range(60):
        ids = []
        for _ in range(dice.randint(1, 6)):
            some = dice.choice("é“狐🙂").encode()
            ids += dice.choice([dice.choices(raw, k=dice.randint(1, 5)), [raw[byte] for byte in some]])
            ids += dice.choice([[], [raw[byte] for byte in some[:-1]], dice.choices(others, k=2)])
        cases.append({"text": None, "ids": ids, "decoded": processor.decode(ids)})
    # A space in front that is a piece is none of the text; one that is a byte is.
    space, byte = processor.piece_to_id("▁"), raw[ord(" ")]
    for ids in [[byte], [byte, byte], [byte, space], [space, byte], [space], [space, space], [byte, *others[:2]]]:
        cases.append({"text": None, "ids": ids, "decoded": processor.decode(ids)})
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (HERE / f"{name}.json").write_text(f"[{lines}]\n")


if __name__ == "__main__":
    write("scored_pieces", train(add_dummy_prefix=True), True)
    write("scored_pieces_bare", train(add_dummy_prefix=False, user_defined_symbols=USER_DEFINED), False)

//! What stands before the tensors: counts, pairs, types and places.

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::model::ModelConfig;
use engine::weights;

use crate::support::gguf::{self, Meta, TensorData};
use crate::support::weight_files::refusal;
use crate::{GgufFile, gguf_file, pair};

#[test]
fn a_gguf_file_cut_anywhere_is_an_error() {
    let GgufFile { path, bytes, .. } = &gguf_file();
    let cuts = (0..400).chain((400..bytes.len()).step_by(9_973)).chain([bytes.len() - 1]);
    for length in cuts {
        std::fs::write(path, &bytes[..length]).expect("written");
        let Err(error) = weights::gguf::open(path) else { panic!("{length} bytes of {} were accepted", bytes.len()) };
        let error = error.to_string();
        assert!(error.contains("offset") || error.contains("map"), "{length} bytes: {error}");
    }
}

#[test]
fn a_gguf_file_of_every_type_of_value_is_an_error_wherever_it_is_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let length = |length: u64| length.to_le_bytes();
    let array = [&8_u32.to_le_bytes()[..], &length(2), &length(1), b"x", &length(1), b"y"].concat();
    let sizes = [(0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (5, 4), (6, 4), (7, 1), (10, 8), (11, 8), (12, 8)];
    let mut pairs: Vec<_> = sizes.iter().map(|&(kind, size)| pair(&format!("k{kind}"), kind, &vec![0; size])).collect();
    pairs.extend([pair("text", 8, &[&length(3)[..], b"abc"].concat()), pair("array", 9, &array)]);
    let head = |pairs: usize| [&b"GGUF"[..], &3_u32.to_le_bytes(), &length(1), &length(pairs as u64)].concat();
    let tensor = [&length(1)[..], b"t", &2_u32.to_le_bytes(), &length(2), &length(2), &[0; 4], &length(0)].concat();
    let with = |pairs: &[Vec<u8>]| {
        let mut bytes = [head(pairs.len()), pairs.concat(), tensor.clone()].concat();
        bytes.resize(bytes.len().next_multiple_of(32) + 16, 0);
        bytes
    };
    // Without a tensor there is less room for what is claimed, and more can be read before something is missing.
    let alone = |pair: &[u8]| {
        let mut bytes = [head(1), pair.to_vec()].concat();
        bytes[8..16].fill(0);
        bytes
    };
    let open = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("written");
        weights::gguf::open(&path).map(|_| ()).map_err(|error| error.to_string())
    };
    // Each pair is the last before the tensor once, so that the file has room for as many as it claims.
    for one in 0..pairs.len() {
        let bytes = with(&pairs[one..=one]);
        assert_eq!(open(&bytes), Ok(()));
        let without = alone(&pairs[one]);
        assert_eq!(open(&without), Ok(()));
        let cuts = (24..bytes.len()).map(|length| &bytes[..length]);
        for cut in cuts.chain((24..without.len()).map(|length| &without[..length])) {
            let error = open(cut).expect_err("it is cut");
            assert!(error.contains("offset"), "{} bytes: {error}", cut.len());
        }
    }
    let nested = [&9_u32.to_le_bytes()[..], &length(0)].concat();
    for (value, part) in [(nested, "array of value type 9"), ([&13_u32.to_le_bytes()[..], &length(0)].concat(), "13")] {
        let error = open(&with(&[pair("a", 9, &value)])).expect_err("no such array");
        assert!(error.contains(part), "{error}");
    }
    let error = open(&with(&[pair("a", 13, &[0; 8])])).expect_err("no such value");
    assert!(error.contains("value type 13"), "{error}");
}

/// The bytes of a small file with two tensors of 32 numbers, and where the data offset of the second is.
fn two_tensors() -> (Vec<u8>, usize) {
    let tensor = |name: &str| TensorData { name: name.into(), shape: vec![32], kind: 0, bytes: vec![0; 128] };
    let bytes = gguf::write(&[], &[tensor("first.weight"), tensor("second.weight")]);
    let name = bytes.windows(13).position(|window| window == b"second.weight").expect("its name");
    // Behind the name: the number of dimensions, one dimension, the type.
    (bytes, name + 13 + 4 + 8 + 4)
}

#[test]
fn gguf_offsets_that_lie_are_named_with_their_tensor() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let (bytes, at) = two_tensors();
    let data_start = bytes.len() - 256;
    let with_offset = |offset: u64| {
        let mut changed = bytes.clone();
        changed[at..at + 8].copy_from_slice(&offset.to_le_bytes());
        std::fs::write(&path, changed).expect("written");
        weights::gguf::open(&path).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(with_offset(128), Ok(()));
    let past_the_end = format!("`second.weight` of 128 bytes at offset {} ends beyond the file", data_start + 160);
    let overlapping =
        format!("at offset {} overlaps tensor `first.weight`, which ends at {}", data_start + 96, data_start + 128);
    let cases = [
        (160, past_the_end.as_str()),
        (1 << 40, "`second.weight` of 128 bytes at offset"),
        (96, &overlapping),
        (129, "`second.weight` has data offset 129, which is not aligned to 32"),
        (u64::MAX - 31, "`second.weight` has data offset"),
    ];
    for (offset, part) in cases {
        let error = with_offset(offset).expect_err("refused");
        assert!(error.contains(part), "{offset}: `{part}` is missing in: {error}");
    }
}

#[test]
fn a_gguf_file_cut_in_half_says_which_tensor_ends_beyond_it() {
    let GgufFile { path, bytes, .. } = &gguf_file();
    std::fs::write(path, &bytes[..bytes.len() / 2]).expect("written");
    let error = refusal(path).expect("refused");
    let part = format!("ends beyond the file of {} bytes", bytes.len() / 2);
    assert!(error.contains("tensor `") && error.contains("at offset") && error.contains(&part), "{error}");
}

#[test]
fn a_tensor_without_elements_is_refused_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    for (shape, dimension) in [(vec![0], 0), (vec![4, 0], 1), (vec![0, 32], 0)] {
        let tensor = |name: &str, shape: Vec<u64>, length| TensorData {
            name: name.into(),
            shape,
            kind: 0,
            bytes: vec![0; length],
        };
        let bytes = gguf::write(&[], &[tensor("first.weight", vec![8], 32), tensor("none.weight", shape, 0)]);
        std::fs::write(&path, &bytes).expect("written");
        let error = weights::gguf::open(&path).expect_err("refused").to_string();
        let part = format!("tensor `none.weight` at offset {} has no elements: dimension {dimension} of", bytes.len());
        assert!(error.contains(&part), "`{part}` is missing in: {error}");
    }
}

#[test]
fn no_changed_byte_before_the_tensors_makes_a_reader_panic() {
    let GgufFile { path, bytes, .. } = &gguf_file();
    let header_end = bytes.len().min(20_000);
    for (count, at) in (0..500).chain((500..header_end).step_by(211)).enumerate() {
        for value in [0x00, 0xff, bytes[at] ^ 0x10] {
            let mut changed = bytes.clone();
            changed[at] = value;
            std::fs::write(path, changed).expect("written");
            // Accepted or refused: many bytes are free to change, such as those of token texts.
            if count % 8 == 0 {
                let _ = Checkpoint::open(path, LoadFormat::Auto);
            } else if let Ok((metadata, weights)) = weights::gguf::open(path) {
                let _ = ModelConfig::from_gguf(&metadata, &weights);
            }
        }
    }
}

#[test]
fn a_gguf_file_that_lies_or_is_too_new_is_refused_by_name() {
    let GgufFile { path, bytes, .. } = &gguf_file();
    let patched = |at: usize, with: &[u8]| {
        let mut changed = bytes.clone();
        changed[at..at + with.len()].copy_from_slice(with);
        std::fs::write(path, changed).expect("written");
        refusal(path).expect("refused")
    };
    let cases = [
        (patched(0, b"GGML"), "does not say GGUF"),
        (patched(4, &2_u32.to_le_bytes()), "version 2"),
        (patched(8, &u64::MAX.to_le_bytes()), "offset 8: claims"),
        (patched(16, &(u64::MAX / 2).to_le_bytes()), "offset 16: claims"),
        (patched(24, &u64::MAX.to_le_bytes()), "offset 24: claims"),
    ];
    for (error, part) in cases {
        assert!(error.contains(part), "`{part}` is missing in: {error}");
    }
}

#[test]
fn gguf_counts_and_values_are_held_against_what_can_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    // Counts of tensors and of pairs; what follows.
    let refused = |tensors: u64, pairs: u64, rest: &[&[u8]]| {
        let head = [&b"GGUF"[..], &3_u32.to_le_bytes(), &tensors.to_le_bytes(), &pairs.to_le_bytes()];
        std::fs::write(&path, [head.concat(), rest.concat()].concat()).expect("written");
        weights::gguf::open(&path).map(|_| ()).expect_err("refused").to_string()
    };
    // 8 bytes of a count of pairs and 40 more; a tensor takes 24 at least.
    let error = refused(3, 0, &[&[0; 40]]);
    assert!(error.contains("claims 3 tensors, the file has room for 2"), "{error}");
    // A pair takes 13.
    let error = refused(0, 3, &[&[0; 38]]);
    assert!(error.contains("claims 3 metadata pairs, the file has room for 2"), "{error}");

    let key = [&1_u64.to_le_bytes()[..], b"a"].concat();
    let error = refused(0, 1, &[&key, &7_u32.to_le_bytes(), &[2], &[0; 8]]);
    assert!(error.contains("truth value 2"), "{error}");
    let many = (1_usize << 22) + 1;
    let bytes = [&9_u32.to_le_bytes()[..], &0_u32.to_le_bytes(), &(many as u64).to_le_bytes()].concat();
    let error = refused(0, 1, &[&key, &bytes, &vec![0; many]]);
    assert!(error.contains("array of 4194305 elements (limit: 4194304)"), "{error}");

    let error = weights::gguf::open(folder.path()).map(|_| ()).expect_err("a folder").to_string();
    assert!(error.contains("not a file"), "{error}");
}

#[test]
fn gguf_tensors_and_metadata_that_cannot_be_used_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let refuse = |metadata: &[(&str, Meta<'_>)], tensor: TensorData| {
        std::fs::write(&path, gguf::write(metadata, &[tensor])).expect("written");
        refusal(&path).expect("refused")
    };
    let tensor = |kind: u32, shape: &[u64], length: usize| TensorData {
        name: "output_norm.weight".into(),
        shape: shape.to_vec(),
        kind,
        bytes: vec![0; length],
    };
    let cases = [
        (refuse(&[], tensor(10, &[256], 84)), "Q2_K of tensor `output_norm.weight`"),
        (refuse(&[], tensor(99, &[256], 144)), "number 99 of tensor `output_norm.weight`"),
        (refuse(&[], tensor(8, &[33], 34)), "`output_norm.weight` has shape [33]"),
        (refuse(&[], tensor(12, &[32], 144)), "`output_norm.weight` has shape [32], which Q4_K elements cannot fill"),
        (refuse(&[], tensor(0, &[1 << 40, 1 << 40], 4)), "`output_norm.weight` has shape"),
        (refuse(&[], tensor(0, &[1_000_000], 4)), "ends beyond the file"),
        (refuse(&[], tensor(0, &[u64::MAX], 4)), "`output_norm.weight` has shape"),
        (refuse(&[], tensor(0, &[], 4)), "has 0 dimensions"),
        (refuse(&[("general.alignment", Meta::U32(33))], tensor(0, &[1], 4)), "not a power of two"),
        (refuse(&[("general.alignment", Meta::Bool(true))], tensor(0, &[1], 4)), "`general.alignment` is not a size"),
        (refuse(&[("a", Meta::U32(1)), ("a", Meta::U32(2))], tensor(0, &[1], 4)), "`a` is there twice"),
        (refuse(&[("general.architecture", Meta::Text("bert"))], tensor(0, &[1], 4)), "missing"),
    ];
    for (error, part) in cases {
        assert!(error.contains(part), "`{part}` is missing in: {error}");
    }
}

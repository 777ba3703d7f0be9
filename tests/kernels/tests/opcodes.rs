//! Single instructions: the emulated device against dumps that GPUs made of them.

use std::fs;
use std::path::Path;

use kernel_tests::{device, opcodes};
use serde_json::{Value, json};

#[test]
fn the_emulated_device_does_what_gpus_did() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    if !folder.exists() {
        println!("no GPU has made a dump yet: {} is not there", folder.display());
        return;
    }
    let count = opcodes::hold(&device(), &folder).unwrap_or_else(|difference| panic!("{difference}"));
    println!("{count} dumps");
}

/// What the test above does once there is a dump, with one of the emulated device's own.
#[test]
fn a_golden_value_that_is_changed_is_noticed() {
    let device = device();
    let folder = tempfile::tempdir().unwrap();
    let hold = || opcodes::hold(&device, folder.path());
    assert!(hold().unwrap_err().ends_with("no dump is there"));

    let path = folder.path().join("emulated.json");
    let (mut dump, failed) = opcodes::dump(&device, 1).unwrap();
    assert_eq!(failed, [""; 0]);
    let write = |dump: &Value| fs::write(&path, format!("{dump:#}\n")).unwrap();
    write(&dump);
    assert_eq!(hold(), Ok(1));

    let entry = dump["opcodes"].as_array_mut().unwrap().iter_mut().find(|entry| entry["opcode"] == "sub.s32").unwrap();
    let results = entry["results"].as_str().unwrap();
    let (rest, last) = results.split_at(results.len() - 1);
    entry["results"] = json!(format!("{rest}{}", if last == "0" { "1" } else { "0" }));
    write(&dump);
    let difference = hold().unwrap_err();
    assert!(
        difference.contains("emulated.json") && difference.contains("sub.s32: 1 of 256 lanes differ"),
        "{difference}"
    );

    // What a run leaves where the part has failed is no dump.
    write(&json!({ "failed": ["opcodes: the device is lost"] }));
    assert!(hold().unwrap_err().contains("format null"));
}

/// With the emulated device's own dump, which shows the format and the comparison, and nothing of the instructions.
#[test]
fn a_dump_is_read_back_and_what_is_changed_in_it_is_noticed() {
    let device = device();
    let (dump, failed) = opcodes::dump(&device, 5).unwrap();
    assert_eq!(failed, [""; 0]);
    let dump: Value = serde_json::from_str(&dump.to_string()).unwrap();
    assert_eq!(opcodes::compare(&device, &dump), Ok(vec![]));
    let names: Vec<_> =
        dump["opcodes"].as_array().unwrap().iter().map(|entry| entry["opcode"].as_str().unwrap()).collect();
    for (name, word) in [("add.s32", "00000001"), ("fma.rn.f32", "40490fdb"), ("ex2.approx.ftz.f32", "40490fdb")] {
        let place = names.iter().position(|known| *known == name).unwrap();
        let mut changed = dump.clone();
        let results = changed["opcodes"][place]["results"].as_str().unwrap();
        let results = format!("{word}{}", &results[8..]);
        changed["opcodes"][place]["results"] = json!(results);
        let differences = opcodes::compare(&device, &changed).unwrap();
        let [difference] = &differences[..] else { panic!("{name}: {differences:?}") };
        assert!(difference.starts_with(&format!("{name}: 1 of 256 lanes differ; lane 0 of")), "{difference}");
    }
    for (pointer, value) in [
        ("/format", json!(2)),
        ("/opcodes", json!([])),
        ("/opcodes/0/opcode", json!("add.f33")),
        ("/opcodes/0", json!({ "opcode": "add.f32", "operands": "", "results": "" })),
        ("/opcodes/0/results", json!("0")),
        ("/opcodes/0/operands", json!("zz345678")),
        ("/opcodes/0/operands", json!("12345678")),
    ] {
        let mut broken = dump.clone();
        *broken.pointer_mut(pointer).unwrap() = value;
        let error = opcodes::compare(&device, &broken).unwrap_err();
        println!("{pointer}: {error}");
    }
}

//! `docs/readers.md` is true: what it calls existing exists, and it leaves no setting out.

mod source;

use std::collections::BTreeSet;

use source::{defines, has_test, read};

/// A row of a table.
struct Row {
    reader: String,
    settings: Vec<String>,
    place: Option<String>,
    test: Option<String>,
    state: String,
}

/// The words in backquotes.
fn code(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn rows(page: &str) -> Vec<Row> {
    let lines = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Reader "));
    let rows = lines.map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [reader, settings, place, test, state] = cells[..] else { panic!("five cells in: {line}") };
        let one = |cell: &str| {
            let mut words = code(cell);
            assert!(words.len() == 1 || cell == "—", "one name or a dash in: {line}");
            words.pop()
        };
        Row {
            reader: reader.to_owned(),
            settings: code(settings),
            place: one(place),
            test: one(test),
            state: state.to_owned(),
        }
    });
    rows.collect()
}

/// Paths of all leaves of the engine's settings.
fn leaves() -> BTreeSet<String> {
    let leaves = read("docs/config/leaves.txt");
    leaves.lines().filter_map(|line| line.split_once(':')).map(|(path, _)| path.to_owned()).collect()
}

/// File and item of `file::item`.
fn file_and_item(name: &str) -> (&str, &str) {
    name.split_once("::").unwrap_or_else(|| panic!("`{name}` is not a file and an item"))
}

/// What is wrong with the page.
fn faults(page: &str, leaves: &BTreeSet<String>) -> Vec<String> {
    let mut faults = Vec::new();
    let mut read_by_rows = BTreeSet::new();
    let (tables, beyond) = page.split_once("\n## Settings beyond").expect("the last list");
    for Row { reader, settings, place, test, state } in rows(tables) {
        let mut fault = |what: String| faults.push(format!("{reader}: {what}"));
        let (kind, detail) = state.split_once(": ").unwrap_or((&state, ""));
        match kind {
            "exists" | "core" if place.is_none() || test.is_none() => fault("needs a place and a test".to_owned()),
            "exists" | "core" if detail.is_empty() => {}
            "to come" | "not applicable" if place.is_some() => fault("has a place, so it is here".to_owned()),
            "to come" | "not applicable" if !detail.is_empty() => {}
            _ => fault(format!("no such state: {state}")),
        }
        if let Some((file, item)) = place.as_deref().map(file_and_item)
            && !defines(&read(file), item)
        {
            fault(format!("no `{item}` in {file}"));
        }
        if let Some((file, name)) = test.as_deref().map(file_and_item)
            && !has_test(&read(file), name)
        {
            fault(format!("no test `{name}` in {file}"));
        }
        if kind == "exists" {
            for setting in settings {
                if !leaves.contains(&setting) {
                    fault(format!("`{setting}` is no setting of the engine"));
                }
                read_by_rows.insert(setting);
            }
        }
    }
    let listed: BTreeSet<_> = beyond
        .split("\n* ")
        .skip(1)
        .filter_map(|item| item.split_once(':'))
        .flat_map(|(settings, _)| code(settings))
        .collect();
    faults.extend(listed.difference(leaves).map(|leaf| format!("`{leaf}` of the last list is no setting")));
    faults
        .extend(listed.intersection(&read_by_rows).map(|leaf| format!("`{leaf}` is in a table and in the last list")));
    let shown: BTreeSet<_> = listed.union(&read_by_rows).cloned().collect();
    let missing = leaves.difference(&shown);
    faults.extend(missing.map(|leaf| {
        format!("`{leaf}` is not in docs/readers.md: name its reader in a table, or add it to the last list")
    }));
    faults
}

#[test]
fn the_page_is_true_and_complete() {
    let leaves = leaves();
    assert!(leaves.len() > 10, "{leaves:?}");
    let faults = faults(&read("docs/readers.md"), &leaves);
    assert!(faults.is_empty(), "docs/readers.md:\n{}", faults.join("\n"));
}

#[test]
fn the_readers_are_all_there() {
    let page = read("docs/readers.md");
    let readers: Vec<_> = rows(&page).into_iter().map(|row| row.reader).collect();
    for name in [
        "ModelRunner",
        "EagerRunner",
        "Scheduler",
        "EagleWorkerV2",
        "MultiLayerEagleWorkerV2",
        "StandaloneWorkerV2",
        "NgramWorker",
        "FrozenKVMTPDraftWorker",
        "FrozenKVMTPWorkerV2",
        "DFlashWorkerV2",
        "DSparkWorkerV2",
        "DsparkVerifyEpilogue",
        "DSparkVerifyPlanner",
        "build_sps_cost_table",
        "ExpertDistributionRecorder",
        "Accumulator",
        "SinglePassGatherer",
        "update_deep_gemm_config",
        "build_kv_cache",
        "NgramEmbeddingManager.from_model",
        "LoRAManager.init_lora_cuda_graph_moe_buffers",
        "DecodeKVCacheOffloadManager",
        "SWAChunkCapPoolConfigurator",
        "SWAChunkCapPoolConfigurator.is_applicable",
        "KVCacheConfigurator",
        "spec_decode_alloc_len_per_request",
        "allocation_sizing",
        "max_prefill_buffer_tokens",
        "max_speculative_num_draft_tokens",
        "should_run_flashinfer_autotune",
        "get_flashinfer_autotune_skip_ops",
        "flashinfer_autotune_cache_path",
        "FlashAttentionBackend",
        "build_attention_backends",
        "resolve_attention_backend_strs",
        "initialize_linear_attn_config",
        "initialize_moe_config",
        "dispatch_event_loop",
        "TokenizerManager",
        "LoadConfig",
        "resolve_collector_class",
        "reports_expert_balancedness",
        "logs_expert_balancedness_to_server_log",
        "exports_expert_balancedness_to_prometheus",
        "create_kt_config_from_server_args",
        "DllmConfig.from_server_args",
        "CanaryLaunchCapacities.from_args",
        "build_compilation_config",
        "CudaVmmFeatureTransport",
        "ExpertBackupClient",
        "PrefillDelayer",
        "benchmark.one_batch",
    ] {
        let is_there = readers.iter().any(|reader| {
            let names = reader.split(": ").next().unwrap_or_default();
            names.split(", ").any(|one| one == name)
        });
        assert!(is_there, "docs/readers.md has no row for {name}");
    }
}

#[test]
fn what_is_wrong_is_found() {
    let leaves = BTreeSet::from(["a.one".to_owned(), "a.two".to_owned(), "a.three".to_owned()]);
    let page = |rows: &str, last: &str| {
        format!(
            "| Reader | Settings | Place | Test | State |\n|---|---|---|---|---|\n{rows}\n## Settings beyond\n\n{last}"
        )
    };
    let place = "`tests/docs/tests/readers.rs::faults`";
    let test = "`tests/docs/tests/readers.rs::what_is_wrong_is_found`";
    let good = format!("| R | `a.one` | {place} | {test} | exists |\n");
    let last = "* `a.two`, `a.three`: others.\n";
    assert_eq!(faults(&page(&good, last), &leaves), [""; 0]);
    let table = [
        (good.replace("a.one", "a.four"), last, "R: `a.four` is no setting"),
        (good.replace("::faults", "::fault"), last, "R: no `fault` in"),
        (good.replace("::what_is_wrong_is_found", "::faults"), last, "R: no test `faults` in"),
        (good.replace(test, "—"), last, "R: needs a place and a test"),
        (good.replace("exists", "to come: later"), last, "R: has a place"),
        (format!("{good}| S | `b.x` | — | — | to come |\n"), last, "S: no such state"),
        (format!("{good}| S | `b.x` | — | — | perhaps: later |\n"), last, "S: no such state"),
        (good.clone(), "* `a.two`: other.\n", "`a.three` is not in docs/readers.md"),
        (good.clone(), "* `a.one`, `a.two`, `a.three`: others.\n", "`a.one` is in a table and in the last list"),
        (good.clone(), "* `a.two`, `a.three`, `a.four`: others.\n", "`a.four` of the last list is no setting"),
    ];
    for (rows, last, says) in table {
        let faults = faults(&page(&rows, last), &leaves);
        assert!(faults.iter().any(|fault| fault.starts_with(says)), "`{says}` is missing in {faults:?}");
    }
}

//! Every checker finds its defect, at the right line, and passes the sound twin.

mod support;

use ptx_emu::{Fault, FaultKind, LaunchConfig, LaunchError, Params, Schedule};
use support::Device;

const SOURCE: &str = include_str!("ptx/defects.cu");
const PTX: &str = include_str!("ptx/defects.ptx");

/// The line marked `//! name`, as errors name it.
fn place(name: &str) -> String {
    place_in("defects.cu", SOURCE, name)
}

fn place_in(file: &str, source: &str, name: &str) -> String {
    let marker = format!("//! {name}");
    let line = source.lines().position(|line| line.ends_with(&marker)).unwrap();
    format!("{file}:{}", line + 1)
}

#[track_caller]
fn assert_found(fault: &Fault, kind: FaultKind, kernel: &str) {
    assert_eq!(fault.kind, kind, "{fault}");
    assert_eq!(fault.kernel, kernel);
    let source = fault.source.as_deref().unwrap_or_default();
    assert!(source.split(" < ").any(|part| part == place(kernel)), "expected {}: {fault}", place(kernel));
    let text = PTX.lines().nth(fault.ptx_line as usize - 1).unwrap().trim();
    assert_eq!(text, fault.instruction);
}

/// Kernels from 64 words to 64 words, in one block.
#[test]
fn shared_memory_defects_are_found_and_their_sound_twins_pass() {
    let cases = [
        ("read_after_write", 64, FaultKind::ReadAfterWrite),
        ("write_after_read", 64, FaultKind::WriteAfterRead),
        ("write_after_write", 64, FaultKind::WriteAfterWrite),
        ("race_in_warp", 32, FaultKind::ReadAfterWrite),
        ("pending_copy", 32, FaultKind::PendingCopy),
        ("uninitialised_shared", 32, FaultKind::Uninitialised),
    ];
    for (kernel, threads, kind) in cases {
        let mut device = Device::new(PTX);
        let input = device.upload(&(0..128).collect::<Vec<_>>());
        let output = device.buffer(64);
        let params = Params::new().u64(input).u64(output);
        let fault = device.fault(kernel, threads, &params);
        assert_found(&fault, kind, kernel);
        assert!(fault.lane.is_some());
        device
            .run(&format!("{kernel}_sound"), threads, &params)
            .unwrap_or_else(|error| panic!("{kernel}_sound: {error}"));
    }
}

#[test]
fn a_race_names_both_sides() {
    let mut device = Device::new(PTX);
    let input = device.upload(&[0; 64]);
    let output = device.buffer(64);
    let text = device.fault("read_after_write", 64, &Params::new().u64(input).u64(output)).to_string();
    for part in
        ["thread 32 reads offset 0", "thread 0 (defects.cu:", "wrote", "block (0,0,0) warp 1 lane 0", "ld.shared.u32"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn an_unfinished_copy_is_stale_when_the_checker_is_off() {
    let mut device = Device::new(PTX);
    device.options.races = false;
    device.options.uninitialised_shared = false;
    let input = device.upload(&(0..128).collect::<Vec<_>>());
    let output = device.buffer(32);
    let params = Params::new().u64(input).u64(output);
    device.run("pending_copy", 32, &params).unwrap();
    assert_eq!(device.download(output, 32), [0xcdcd_cdcd; 32]);
    device.run("pending_copy_sound", 32, &params).unwrap();
    assert_eq!(device.download(output, 32), (0..32).map(|i| i * 4).collect::<Vec<_>>());
}

#[test]
fn each_switch_silences_its_checker_only() {
    let run = |kernel: &str, threads, change: fn(&mut ptx_emu::Options)| {
        let mut device = Device::new(PTX);
        change(&mut device.options);
        let input = device.upload(&(0..128).collect::<Vec<_>>());
        let output = device.buffer(64);
        device.run(kernel, threads, &Params::new().u64(input).u64(output)).is_ok()
    };
    assert!(run("write_after_read", 64, |options| options.races = false));
    assert!(!run("write_after_read", 64, |options| options.uninitialised_shared = false));
    assert!(run("uninitialised_shared", 32, |options| options.uninitialised_shared = false));
    assert!(!run("uninitialised_shared", 32, |options| options.races = false));
}

#[test]
fn global_memory_is_bounded_and_knows_what_was_written() {
    let mut device = Device::new(PTX);
    let input = device.upload(&[1; 31]);
    let output = device.buffer(32);
    let params = Params::new().u64(input).u64(output);
    device.run("copy", 31, &params).unwrap();
    let fault = device.fault("copy", 32, &params);
    assert_found(&fault, FaultKind::OutOfBounds, "copy");
    assert_eq!(fault.lane, Some(31));
    assert!(fault.message.contains("byte 124 of the 124 byte allocation"), "{fault}");

    // The kernel has written 31 words of `output`; word 31 is still fresh.
    let other = device.buffer(32);
    let params = Params::new().u64(output).u64(other);
    device.run("copy", 31, &params).unwrap();
    let fault = device.fault("copy", 32, &params);
    assert_found(&fault, FaultKind::Uninitialised, "copy");
    device.options.uninitialised_global = false;
    device.run("copy", 32, &params).unwrap();

    device.memory.free(other).unwrap();
    assert_eq!(device.fault("copy", 32, &params).kind, FaultKind::OutOfBounds, "use after free");
}

#[test]
fn shared_and_local_arrays_are_bounded() {
    let mut device = Device::new(PTX);
    let output = device.upload(&[5; 32]);
    let with_index = |index| Params::new().u64(output).i32(index);
    device.run("shared_out_of_bounds", 32, &with_index(0)).unwrap();
    let fault = device.fault("shared_out_of_bounds", 32, &with_index(1));
    assert_found(&fault, FaultKind::OutOfBounds, "shared_out_of_bounds");
    assert_eq!(fault.lane, Some(31));
    assert_eq!(device.fault("shared_out_of_bounds", 32, &with_index(-1)).lane, Some(0));

    device.run("local_out_of_bounds", 32, &with_index(0)).unwrap();
    let fault = device.fault("local_out_of_bounds", 32, &with_index(1));
    assert_found(&fault, FaultKind::OutOfBounds, "local_out_of_bounds");
    assert_eq!(fault.lane, Some(3));
}

#[test]
fn vector_accesses_are_aligned() {
    let mut device = Device::new(PTX);
    let input = device.upload(&[5; 32]);
    let output = device.buffer(32);
    device.run("misaligned", 32, &Params::new().u64(input).u64(output).i32(4)).unwrap();
    let fault = device.fault("misaligned", 32, &Params::new().u64(input).u64(output).i32(2));
    assert_found(&fault, FaultKind::Misaligned, "misaligned");
}

#[test]
fn warps_and_barriers_must_be_complete() {
    let cases = [
        ("divergent_sync", 32, FaultKind::DivergentSync),
        ("barrier", 64, FaultKind::Barrier),
        ("inactive_lane", 32, FaultKind::InactiveLane),
    ];
    for (kernel, threads, kind) in cases {
        let mut device = Device::new(PTX);
        let output = device.buffer(64);
        let params = Params::new().u64(output);
        assert_found(&device.fault(kernel, threads, &params), kind, kernel);
        device
            .run(&format!("{kernel}_sound"), threads, &params)
            .unwrap_or_else(|error| panic!("{kernel}_sound: {error}"));
    }
    let mut device = Device::new(PTX);
    let output = device.buffer(32);
    assert_found(&device.fault("member_mask", 32, &Params::new().u64(output)), FaultKind::MemberMask, "member_mask");
    device.options.inactive_lanes = false;
    device.run("inactive_lane", 32, &Params::new().u64(output)).unwrap();
}

#[test]
fn a_matrix_instruction_needs_a_whole_warp() {
    let mut device = Device::new(PTX);
    let output = device.buffer(32);
    let fault = device.fault("divergent_sync_sound", 16, &Params::new().u64(output));
    assert_eq!(fault.kind, FaultKind::MemberMask, "{fault}");
}

#[test]
fn an_endless_loop_meets_the_budget() {
    let mut device = Device::new(PTX);
    device.options.budget = 10_000;
    let flag = device.upload(&[0]);
    assert_found(&device.fault("endless", 1, &Params::new().u64(flag)), FaultKind::Budget, "endless");
    device.memory.write(flag, &[1]).unwrap();
    device.run("endless", 1, &Params::new().u64(flag)).unwrap();
}

#[test]
fn warps_take_turns() {
    let mut device = Device::new(PTX);
    device.options.budget = 10_000_000;
    let output = device.buffer(1);
    device.run("handover", 64, &Params::new().u64(output)).unwrap();
    assert_eq!(device.download(output, 1), [7]);
}

#[test]
fn trap_ends_the_launch() {
    let mut device = Device::new(PTX);
    let output = device.upload(&[0, 1, 2, 3]);
    device.run("trapped", 3, &Params::new().u64(output)).unwrap();
    assert_found(&device.fault("trapped", 4, &Params::new().u64(output)), FaultKind::Trap, "trapped");
}

#[test]
fn variables_live_with_the_module() {
    let mut device = Device::new(PTX);
    let output = device.buffer(8);
    let params = Params::new().u64(output);
    device.run("variables", 8, &params).unwrap();
    device.run("variables", 8, &params).unwrap();
    assert_eq!(device.download(output, 8), [2, 3, 5, 7, 2, 3, 5, 7]);
    let (counter, bytes) = device.module.global("counter").unwrap();
    assert_eq!((device.download(counter, 1)[0], bytes), (44, 4));

    let used = device.memory.used();
    device.module.unload(&mut device.memory).unwrap();
    assert_eq!(device.memory.used(), used - 16 - 4);
}

#[test]
fn bank_conflicts_are_counted() {
    let mut device = Device::new(PTX);
    let output = device.buffer(32);
    let params = Params::new().u64(output);
    let plain = device.run("bank_conflicts", 32, &params).unwrap();
    let padded = device.run("bank_conflicts_padded", 32, &params).unwrap();
    // 32 rows are written without conflict; the column read takes 32 passes where one would do.
    assert_eq!((plain.bank_conflict_passes, padded.bank_conflict_passes), (31, 0));
    assert_eq!(plain.shared_accesses, 33);
    device.options.bank_conflicts = false;
    assert_eq!(device.run("bank_conflicts", 32, &params).unwrap().bank_conflict_passes, 0);
}

#[test]
fn a_random_schedule_is_named_in_the_error_and_repeats() {
    let with_seed = |seed| {
        let mut device = Device::new(PTX);
        device.options.schedule = Schedule::Random(seed);
        let input = device.upload(&(0..64).collect::<Vec<_>>());
        let output = device.buffer(64);
        device.fault("write_after_read", 64, &Params::new().u64(input).u64(output))
    };
    let fault = with_seed(17);
    assert_eq!(fault.seed, Some(17));
    assert!(fault.to_string().contains("seed 17"), "{fault}");
    assert_eq!(with_seed(17), fault);
}

/// Every warp takes a number when it runs.
#[test]
fn a_random_schedule_shuffles_blocks_and_warps() {
    let body = "ld.param.u64 %d1, [in];\nld.param.u64 %d2, [out];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\n\
                atom.global.add.u32 %r3, [%d1], 1;\nshr.u32 %r1, %r1, 5;\nmad.lo.u32 %r1, %r2, 4, %r1;\n\
                mad.wide.u32 %d2, %r1, 4, %d2;\n\
                setp.eq.u32 %p, %laneid, 0;\n@%p st.global.u32 [%d2], %r3;";
    let text = support::kernel(".reg .pred %p;\n.reg .b32 %r<4>;\n.reg .b64 %d<4>;", body);
    let numbers = |schedule| {
        let mut device = Device::new(&text);
        device.options.schedule = schedule;
        let (counter, output) = (device.upload(&[0]), device.buffer(4 * 6));
        let config = LaunchConfig::new([6, 1, 1], [128, 1, 1]);
        device.launch("k", config, &Params::new().u64(counter).u64(output)).unwrap();
        // The lanes of a warp take 32 numbers in a row.
        device.download(output, 4 * 6).iter().map(|number| number / 32).collect::<Vec<_>>()
    };
    assert_eq!(numbers(Schedule::InOrder), (0..24).collect::<Vec<_>>());
    let shuffled: Vec<_> = (0..8).map(|seed| numbers(Schedule::Random(seed))).collect();
    assert_eq!(shuffled[3], numbers(Schedule::Random(3)));
    let blocks = |numbers: &[u32]| numbers.chunks(4).map(|warps| warps[0] / 4).collect::<Vec<_>>();
    assert!(shuffled.iter().any(|numbers| blocks(numbers) != [0, 1, 2, 3, 4, 5]), "blocks");
    assert!(shuffled.iter().any(|numbers| !numbers[..4].is_sorted()), "warps");
}

/// In whatever order the two blocks run.
#[test]
fn blocks_that_race_are_told_with_both_lines_and_their_sound_twins_pass() {
    const BLOCKS: &str = include_str!("ptx/blocks.cu");
    let place = |name| place_in("blocks.cu", BLOCKS, name);
    let launch = |kernel: &str, schedule, checked| {
        let mut device = Device::new(include_str!("ptx/blocks.ptx"));
        device.options.schedule = schedule;
        device.options.block_races = checked;
        let data = device.upload(&[0; 16]);
        let outcome = device.launch(kernel, LaunchConfig::new([2, 1, 1], [1, 1, 1]), &Params::new().u64(data));
        (outcome, device.download(data, 16))
    };
    let sum = [20, 21, 0, 0, 0, 0, 0, 0, 0, 2, 41];
    for schedule in [Schedule::InOrder].into_iter().chain((0..6).map(Schedule::Random)) {
        for (kernel, here, there) in [
            ("neighbour", "writes", place("reads")),
            ("same_byte", "same_byte", place("same_byte")),
            ("last_block", "last_block", "PTX line 130: st.global.u32".to_owned()),
        ] {
            let Err(LaunchError::Fault(fault)) = launch(kernel, schedule, true).0 else { panic!("{kernel} ran") };
            assert_eq!(fault.kind, FaultKind::BlockRace, "{fault}");
            let source = fault.source.as_deref().unwrap_or_default();
            assert!(source.split(" < ").any(|part| part == place(here)), "expected {}: {fault}", place(here));
            assert!(fault.message.contains(&there), "no {there} in {fault}");
            assert!(launch(kernel, schedule, false).0.is_ok(), "{kernel}: the check is off");
            let (outcome, data) = launch(&format!("{kernel}_sound"), schedule, true);
            outcome.unwrap_or_else(|error| panic!("{kernel}_sound: {error}"));
            assert!(kernel != "last_block" || data[..11] == sum, "{data:?}");
        }
    }
}

/// Lanes `l` and `l + 16` meet at `%d2` and `%r5`, and none at `%d3`; `%r1` is the lane, `%r2` the same for those who meet.
#[test]
fn lanes_that_store_different_values_to_one_place_conflict() {
    const CONFLICT: Option<FaultKind> = Some(FaultKind::StoreConflict);
    const RACE: Option<FaultKind> = Some(FaultKind::WriteAfterWrite);
    let cases = [
        ("st.global.u32 [%d2], %r1;", CONFLICT),
        ("st.global.u8 [%d2], %r1;", CONFLICT),
        ("st.global.v2.u32 [%d2], {%r2, %r1};", CONFLICT),
        ("st.global.v4.u32 [%d2], {%r2, %r2, %r1, %r2};", CONFLICT),
        ("st.global.cg.u32 [%d2], %r1;", CONFLICT),
        ("st.weak.global.u32 [%d2], %r1;", CONFLICT),
        ("st.u32 [%d2], %r1;", CONFLICT),
        ("st.shared.u32 [%r5], %r1;", RACE),
        ("st.shared.v2.u32 [%r5], {%r2, %r1};", RACE),
        // One value, lanes that are off or apart, and what is no race.
        ("st.global.u32 [%d2], %r2;", None),
        ("st.global.v4.u32 [%d2], {%r2, %r2, %r2, %r2};", None),
        ("st.shared.v2.u32 [%r5], {%r2, %r2};", None),
        ("@%p1 st.global.u32 [%d2], %r1;", None),
        ("@%p1 st.u32 [%d2], %r1;", None),
        ("st.global.v4.u32 [%d3], {%r1, %r1, %r1, %r1};", None),
        ("st.u32 [%d3], %r1;", None),
        ("st.volatile.global.u32 [%d2], %r1;", None),
        ("st.relaxed.cta.global.u32 [%d2], %r1;", None),
        ("st.relaxed.gpu.global.u32 [%d2], %r1;", None),
        ("red.global.max.u32 [%d2], %r1;", None),
    ];
    for (store, expected) in cases {
        let body = format!(
            "ld.param.u64 %d1, [out];\nmov.u32 %r1, %tid.x;\nand.b32 %r2, %r1, 15;\nmad.wide.u32 %d2, %r2, 16, %d1;\n\
             xor.b32 %r3, %r1, 31;\nmad.wide.u32 %d3, %r3, 16, %d1;\nmov.u32 %r4, s;\nmad.lo.u32 %r5, %r2, 16, %r4;\n\
             setp.lt.u32 %p1, %r1, 16;\n.loc 1 7 0\n{store}"
        );
        let declarations = ".reg .pred %p<2>;\n.reg .b32 %r<6>;\n.reg .b64 %d<4>;\n.shared .align 16 .b8 s[256];";
        let text = format!("{}.file 1 \"stores.cu\"\n", support::kernel(declarations, &body));
        let run = |change: fn(&mut ptx_emu::Options)| {
            let mut device = Device::new(&text);
            change(&mut device.options);
            let output = device.upload(&[77; 32 * 4]);
            device.run("k", 32, &Params::new().u64(0).u64(output))
        };
        match (run(|_| ()), expected) {
            (Ok(_), None) => {}
            (Err(LaunchError::Fault(fault)), Some(kind)) => {
                assert_eq!((fault.kind, fault.instruction.as_str()), (kind, store), "{fault}");
                assert_eq!(fault.source.as_deref(), Some("stores.cu:7"), "{fault}");
                assert!(fault.lane.is_some(), "{fault}");
            }
            (outcome, expected) => panic!("{store}: {outcome:?}, not {expected:?}"),
        }
        let silent = run(|options| (options.store_conflicts, options.races) = (false, false));
        assert!(silent.is_ok(), "{store}: {silent:?}");
    }
}

/// The lanes of a warp that copy and load alike are looked at together, and yet each is judged for itself.
#[test]
fn copies_of_a_warp_are_judged_lane_by_lane() {
    /// Words of the source, of which the last four are not written.
    const WORDS: usize = 132;
    const ALL: u32 = u32::MAX;
    type Place = fn(u32) -> u32;
    type Expected = Option<(FaultKind, u32)>;
    let apart: Place = |lane| 16 * lane;
    let shifted: Place = |lane| 16 * lane + 16;
    let far: Place = |lane| 16 * lane + 32;
    let cases: [(&str, Place, Place, u32, u32, Expected); 14] = [
        ("neighbours", apart, apart, ALL, 32, None),
        ("turned", |lane| 16 * (lane ^ 5), apart, ALL, 32, None),
        ("one source", apart, |_| 64, ALL, 32, None),
        ("a part of a warp", apart, apart, ALL, 20, None),
        (
            "lanes that are off may be anywhere",
            |lane| (16 * lane) << (lane % 3 * 5),
            |lane| (16 * lane) << (lane % 3 * 9),
            0x4924_9249,
            32,
            None,
        ),
        ("past the target's end", |lane| 16 * lane + 528, apart, ALL, 32, Some((FaultKind::OutOfBounds, 31))),
        ("up to the target's end", |lane| 16 * lane + 528, apart, ALL >> 1, 32, None),
        ("past what is written", apart, shifted, ALL, 32, Some((FaultKind::Uninitialised, 31))),
        ("up to what is written", apart, shifted, ALL >> 1, 32, None),
        ("past the source's end", apart, far, 1 << 31, 32, Some((FaultKind::OutOfBounds, 31))),
        ("the first lane that may not is named", apart, far, ALL, 32, Some((FaultKind::Uninitialised, 30))),
        ("one target for two lanes", |lane| 16 * (lane % 31), apart, ALL, 32, Some((FaultKind::PendingCopy, 31))),
        (
            "a misaligned source",
            apart,
            |lane| if lane == 7 { 120 } else { 16 * lane },
            ALL,
            32,
            Some((FaultKind::Misaligned, 7)),
        ),
        (
            "a misaligned target",
            |lane| if lane == 9 { 152 } else { 16 * lane },
            apart,
            ALL,
            32,
            Some((FaultKind::Misaligned, 9)),
        ),
    ];
    let text = support::kernel(
        ".reg .pred %p1;\n.reg .b32 %r<10>;\n.reg .b64 %d<5>;\n.shared .align 16 .b8 at[1024];",
        "ld.param.u64 %d1, [in];\nld.param.u64 %d2, [out];\nmov.u32 %r1, %tid.x;\nmad.wide.u32 %d3, %r1, 16, %d1;\n\
         ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d3];\nsetp.ne.u32 %p1, %r4, 0;\nmov.u32 %r6, at;\nadd.u32 %r6, %r6, %r2;\n\
         cvt.u64.u32 %d4, %r3;\nadd.u64 %d4, %d4, %d2;\n@%p1 cp.async.cg.shared.global [%r6], [%d4], 16;\n\
         cp.async.wait_all;\n@%p1 ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%r6];\n@%p1 st.global.v4.u32 [%d3], {%r2, %r3, %r4, %r5};",
    );
    for (name, to, from, mask, threads, expected) in cases {
        let mut device = Device::new(&text);
        let lanes = |lane: u32| [to(lane), from(lane), mask >> lane & 1, 0];
        let table: Vec<u32> = (0..32).flat_map(lanes).collect();
        let table = device.upload(&table);
        let source = device.buffer(WORDS);
        let data: Vec<u8> = (0..WORDS as u32 - 4).flat_map(|word| (1000 + word).to_le_bytes()).collect();
        device.memory.write(source, &data).unwrap();
        let params = Params::new().u64(table).u64(source);
        if let Some(expected) = expected {
            let fault = device.fault("k", threads, &params);
            assert_eq!((fault.kind, fault.lane), (expected.0, Some(expected.1)), "{name}: {fault}");
            continue;
        }
        device.run("k", threads, &params).unwrap_or_else(|error| panic!("{name}: {error}"));
        for lane in (0..threads).filter(|lane| mask >> lane & 1 != 0) {
            let first = 1000 + from(lane) / 4;
            let copied = device.download(table + 16 * u64::from(lane), 4);
            assert_eq!(copied, [first, first + 1, first + 2, first + 3], "{name}: lane {lane}");
        }
    }
}

/// Lanes of a warp may copy fewer bytes than others, with zeros behind them, and none from wherever it is aligned. What a
/// copy may not is told of the copy, not of the wait.
#[test]
fn copies_of_different_lengths_are_judged_lane_by_lane() {
    /// Words of the source, of which the last four are not written.
    const WORDS: usize = 132;
    /// Has a lane copy from another buffer.
    const OTHER: u32 = 1 << 20;
    type Of = fn(u32) -> u32;
    type Expected = Option<(FaultKind, u32)>;
    let apart: Of = |lane| 16 * lane;
    let cases: [(&str, Of, Of, Expected); 9] = [
        ("from two buffers", |_| 16, |lane| 16 * lane + OTHER * (lane % 2), None),
        ("all or nothing", |lane| 16 * (lane % 2), apart, None),
        ("parts", |lane| lane % 17, apart, None),
        ("one part", |lane| if lane == 30 { 5 } else { 16 }, apart, None),
        ("nothing from nowhere", |lane| 16 * (lane % 2), |lane| (16 * lane) << (20 * (1 - lane % 2)), None),
        (
            "a part of what is not written",
            |lane| if lane == 31 { 4 } else { 16 },
            |lane| 16 * (lane + lane / 31),
            Some((FaultKind::Uninitialised, 31)),
        ),
        (
            "a part past the source's end",
            |lane| if lane == 4 { 4 } else { 16 },
            |lane| if lane == 4 { 528 } else { 16 * lane },
            Some((FaultKind::OutOfBounds, 4)),
        ),
        (
            "nothing from a misaligned place",
            |lane| 16 * u32::from(lane != 7),
            |lane| 16 * lane - 8 * u32::from(lane == 7),
            Some((FaultKind::Misaligned, 7)),
        ),
        ("more than the copy has", |lane| 16 + u32::from(lane == 3), apart, Some((FaultKind::OutOfBounds, 3))),
    ];
    let text = support::kernel(
        ".reg .b32 %r<10>;\n.reg .b64 %d<5>;\n.shared .align 16 .b8 at[512];",
        "ld.param.u64 %d1, [in];\nld.param.u64 %d2, [out];\nmov.u32 %r1, %tid.x;\nmad.wide.u32 %d3, %r1, 16, %d1;\n\
         ld.global.v2.u32 {%r2, %r3}, [%d3];\nmov.u32 %r6, at;\nmad.lo.u32 %r6, %r1, 16, %r6;\n\
         cvt.u64.u32 %d4, %r3;\nadd.u64 %d4, %d4, %d2;\ncp.async.cg.shared.global [%r6], [%d4], 16, %r2;\n\
         cp.async.wait_all;\nld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%r6];\nst.global.v4.u32 [%d3], {%r2, %r3, %r4, %r5};",
    );
    let copy = 1 + text.lines().position(|line| line.starts_with("cp.async.cg")).unwrap() as u32;
    for (name, length, from, expected) in cases {
        let mut device = Device::new(&text);
        let [words, other_words] = [9, 10].map(|seed| support::noise(WORDS - 4, seed));
        let table = device.buffer(4 * 32);
        let source = device.buffer(WORDS);
        let other = (device.upload(&other_words) - source) as u32;
        let place = |lane| if from(lane) & OTHER != 0 { other + (from(lane) & !OTHER) } else { from(lane) };
        let lanes = (0..32).flat_map(|lane| [length(lane), place(lane), 0, 0]);
        device.memory.write(table, &lanes.flat_map(u32::to_le_bytes).collect::<Vec<_>>()).unwrap();
        let [data, other_data] =
            [words, other_words].map(|words| words.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<_>>());
        device.memory.write(source, &data).unwrap();
        let params = Params::new().u64(table).u64(source);
        if let Some(expected) = expected {
            let fault = device.fault("k", 32, &params);
            assert_eq!((fault.kind, fault.lane), (expected.0, Some(expected.1)), "{name}: {fault}");
            assert_eq!(fault.ptx_line, copy, "{name}: {fault}");
            continue;
        }
        let stats = device.run("k", 32, &params).unwrap_or_else(|error| panic!("{name}: {error}"));
        for lane in 0..32 {
            let copied = device.download(table + 16 * u64::from(lane), 4);
            let copied: Vec<u8> = copied.into_iter().flat_map(u32::to_le_bytes).collect();
            let mut expected = [0; 16];
            let length = length(lane) as usize;
            if length > 0 {
                let data = if from(lane) & OTHER != 0 { &other_data } else { &data };
                expected[..length].copy_from_slice(&data[(from(lane) & !OTHER) as usize..][..length]);
            }
            assert_eq!(copied, expected, "{name}: lane {lane}");
        }
        let copied: u32 = (0..32).map(length).sum();
        assert_eq!(stats.global_load_bytes, u64::from(copied) + 32 * 8, "{name}");
    }
}

#[test]
fn a_conflict_names_both_lanes_and_the_place() {
    let text = support::kernel(
        ".reg .pred %p;\n.reg .b32 %r<2>;\n.reg .b64 %d;",
        "ld.param.u64 %d, [out];\nmov.u32 %r1, %tid.x;\nsetp.ge.u32 %p, %r1, 5;\n@%p st.global.u32 [%d+8], %r1;",
    );
    let mut device = Device::new(&text);
    let output = device.buffer(4);
    let fault = device.fault("k", 9, &Params::new().u64(0).u64(output));
    assert_eq!((fault.kind, fault.lane), (FaultKind::StoreConflict, Some(5)), "{fault}");
    assert!(fault.message.contains("lanes 5 and 8") && fault.message.contains("byte 8 of the 16 byte"), "{fault}");
}

#[test]
fn launches_outside_the_limits_are_refused() {
    let mut device = Device::new(PTX);
    let output = device.buffer(64);
    let params = Params::new().u64(output);
    let ok = LaunchConfig::new([1, 1, 1], [32, 1, 1]);
    let cases = [
        (LaunchConfig { grid: [0, 1, 1], ..ok }, "grid"),
        (LaunchConfig { grid: [1, 65536, 1], ..ok }, "grid"),
        (LaunchConfig { block: [1025, 1, 1], ..ok }, "block"),
        (LaunchConfig { block: [64, 32, 1], ..ok }, "block"),
        (LaunchConfig { block: [1, 1, 65], ..ok }, "block"),
        (ok.dynamic_shared((48 << 10) - 127), "49024 are allowed without MAX_DYNAMIC_SHARED_SIZE_BYTES"),
        (ok.dynamic_shared((163 << 10) - 127).max_dynamic_shared(163 << 10), "166784 are allowed"),
    ];
    for (config, reason) in cases {
        let error = device.launch("divergent_sync_sound", config, &params).unwrap_err();
        assert!(matches!(error, LaunchError::Configuration { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    device.launch("divergent_sync_sound", ok.dynamic_shared((48 << 10) - 128), &params).unwrap();
    device.launch("divergent_sync_sound", ok.dynamic_shared(100 << 10).max_dynamic_shared(100 << 10), &params).unwrap();

    let error = device.launch("divergent_sync_sound", ok, &Params::new()).unwrap_err();
    assert!(error.to_string().contains("0 bytes of parameters, but the kernel takes 8"), "{error}");
    assert_eq!(device.launch("nothing", ok, &params), Err(LaunchError::NoSuchKernel("nothing".to_owned())));
}

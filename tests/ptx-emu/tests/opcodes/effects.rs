//! Instructions that reach beyond their lane's registers: exchange in a warp, memory, atomics, control.

use crate::support::Device;
use crate::support::single::{cases, f, n, n64, run};
use ptx_emu::{Memory, Module, Params};

/// Shuffles, votes and the like, on a whole warp in which lane `i` holds `100 + i`.
#[test]
fn lanes_exchange() {
    let inputs: Vec<[u64; 1]> = (0..32).map(|i| [100 + i]).collect();
    let rows: Vec<&[u64]> = inputs.iter().map(<[u64; 1]>::as_slice).collect();
    let lanes = |of: fn(u64) -> u64| (0..32).map(of).collect::<Vec<u64>>();
    let cases: [(&str, Vec<u64>); 29] = [
        ("shfl.sync.bfly.b32 $0, $1, 1, 31, -1;", lanes(|i| 100 + (i ^ 1))),
        ("shfl.sync.down.b32 $0, $1, 4, 31, -1;", lanes(|i| if i + 4 < 32 { 104 + i } else { 100 + i })),
        ("shfl.sync.up.b32 $0, $1, 4, 0, -1;", lanes(|i| if i >= 4 { 96 + i } else { 100 + i })),
        ("shfl.sync.idx.b32 $0, $1, 5, 31, -1;", lanes(|_| 105)),
        // Segments of 8 lanes: the mask is 0b11000 in the upper half of the control word.
        ("shfl.sync.idx.b32 $0, $1, 5, 0x181f, -1;", lanes(|i| 100 + i / 8 * 8 + 5)),
        ("shfl.sync.down.b32 $0, $1, 4, 0x181f, -1;", lanes(|i| if i % 8 + 4 < 8 { 104 + i } else { 100 + i })),
        ("shfl.sync.up.b32 $0, $1, 1, 0x1800, -1;", lanes(|i| if i % 8 >= 1 { 99 + i } else { 100 + i })),
        ("shfl.sync.down.b32 %r2|%p2, $1, 4, 31, -1; selp.b32 $0, 1, 0, %p2;", lanes(|i| u64::from(i + 4 < 32))),
        ("setp.gt.u32 %p2, $1, 129; vote.sync.ballot.b32 $0, %p2, -1;", lanes(|_| 0xc000_0000)),
        ("setp.gt.u32 %p2, $1, 129; vote.sync.ballot.b32 $0, !%p2, -1;", lanes(|_| 0x3fff_ffff)),
        ("setp.gt.u32 %p2, $1, 129; vote.sync.any.pred %p3, %p2, -1; selp.b32 $0, 1, 0, %p3;", lanes(|_| 1)),
        ("setp.gt.u32 %p2, $1, 129; vote.sync.all.pred %p3, %p2, -1; selp.b32 $0, 1, 0, %p3;", lanes(|_| 0)),
        ("setp.gt.u32 %p2, $1, 129; vote.sync.uni.pred %p3, %p2, -1; selp.b32 $0, 1, 0, %p3;", lanes(|_| 0)),
        ("setp.gt.u32 %p2, $1, 99; vote.sync.uni.pred %p3, %p2, -1; selp.b32 $0, 1, 0, %p3;", lanes(|_| 1)),
        ("and.b32 %r2, $1, 7; match.any.sync.b32 $0, %r2, -1;", lanes(|i| 0x0101_0101 << (i % 8))),
        ("cvt.u64.u32 %d2, $1; shl.b64 %d2, %d2, 40; match.any.sync.b64 $0, %d2, -1;", lanes(|i| 1 << i)),
        ("and.b32 %r2, $1, 0; match.all.sync.b32 $0, %r2, -1;", lanes(|_| 0xffff_ffff)),
        ("match.all.sync.b32 %r2|%p2, $1, -1; selp.b32 $0, 7, %r2, %p2;", lanes(|_| 0)),
        ("mov.b64 %d2, 5; match.all.sync.b64 %r2|%p2, %d2, -1; selp.b32 $0, %r2, 7, %p2;", lanes(|_| 0xffff_ffff)),
        ("redux.sync.add.u32 $0, $1, -1;", lanes(|_| 3200 + 31 * 16)),
        ("redux.sync.add.s32 $0, $1, -1;", lanes(|_| 3200 + 31 * 16)),
        ("redux.sync.max.u32 $0, $1, -1;", lanes(|_| 131)),
        ("redux.sync.min.u32 $0, $1, -1;", lanes(|_| 100)),
        ("sub.s32 %r2, $1, 110; redux.sync.min.s32 $0, %r2, -1;", lanes(|_| n(-10))),
        ("sub.s32 %r2, $1, 110; redux.sync.max.s32 $0, %r2, -1;", lanes(|_| 21)),
        ("redux.sync.and.b32 $0, $1, -1;", lanes(|_| 0)),
        ("redux.sync.or.b32 $0, $1, -1;", lanes(|_| 0xff)),
        ("redux.sync.xor.b32 $0, $1, -1;", lanes(|_| 0)),
        (
            "setp.gt.u32 %p2, $1, 115; @%p2 bra A; activemask.b32 $0; bra B; A: activemask.b32 $0; B:",
            lanes(|i| if i > 15 { 0xffff_0000 } else { 0xffff }),
        ),
    ];
    for (op, expected) in cases {
        assert_eq!(run(op, "rr", &rows), expected, "{op}");
    }
}

#[test]
fn special_registers() {
    let program = crate::support::kernel(
        ".reg .b32 %r<8>;\n.reg .b64 %d<4>;",
        "ld.param.u64 %d1, [out];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %tid.y;\nmov.u32 %r3, %ntid.x;\n\
         mad.lo.s32 %r4, %r2, %r3, %r1;\nmov.u32 %r5, %ctaid.z;\nmov.u32 %r6, %nctaid.z;\n\
         mad.lo.s32 %r4, %r5, 48, %r4;\nmul.wide.u32 %d2, %r4, 16;\nadd.s64 %d3, %d1, %d2;\nmov.u32 %r7, %lanemask_lt;\n\
         mad.lo.s32 %r6, %r6, 100, %r5;\nmov.u32 %r5, %warpid;\nmov.u32 %r3, %laneid;\n\
         st.global.v4.u32 [%d3], {%r7, %r6, %r5, %r3};",
    );
    let mut device = Device::new(&program);
    let output = device.buffer(3 * 4 * 48);
    let params = Params::new().u64(0).u64(output);
    device.launch("k", ptx_emu::LaunchConfig::new([1, 1, 3], [16, 3, 1]), &params).unwrap();
    let words = device.download(output, 3 * 4 * 48);
    for (index, words) in words.chunks(4).enumerate() {
        let (block, thread) = (index as u32 / 48, index as u32 % 48);
        let lane = thread % 32;
        assert_eq!(words, [(1 << lane) - 1, 300 + block, thread / 32, lane], "{block} {thread}");
    }
}

/// Loads and stores of every width, through each memory and through generic addresses.
#[test]
fn memory_accesses() {
    let v = 0x8899_aabb_ccdd_eeff;
    for space in ["shared", "local"] {
        let declare = format!(".{space} .align 16 .b8 at[512];\n.reg .b32 %o;\nmov.u32 %o, at;\n");
        // Each thread has its own 16 bytes, also in shared memory.
        let base = if space == "shared" { "mad.lo.s32 %o, %t, 16, %o;" } else { "" };
        let round = |store: &str, load: &str, registers: &str, input: u64| {
            run(
                &format!("{declare}{base} st.{space}{store} [%o], $1; ld.{space}{load};"),
                registers,
                &[[input].as_slice(); 2],
            )[1]
        };
        assert_eq!(round(".b64", ".u8 $0, [%o+1]", "rd", v), 0xee);
        assert_eq!(round(".b64", ".s8 $0, [%o+7]", "rd", v), n(i32::from(0x88_u8 as i8)));
        assert_eq!(round(".b64", ".u16 $0, [%o+2]", "hd", v), 0xccdd);
        assert_eq!(round(".b64", ".s16 $0, [%o+6]", "rd", v), n(i32::from(0x8899_u16 as i16)));
        assert_eq!(round(".b64", ".s16 $0, [%o+6]", "dd", v), n64(i64::from(0x8899_u16 as i16)));
        assert_eq!(round(".b64", ".u32 $0, [%o+4]", "rd", v), 0x8899_aabb);
        assert_eq!(round(".b64", ".v2.u16 {%h2, $0}, [%o]", "hd", v), 0xccdd);
        assert_eq!(round(".b64", ".v2.f32 {$0, %r2}, [%o]", "rd", v), 0xccdd_eeff);
        assert_eq!(round(".b32", ".b32 $0, [%o]", "rr", 77), 77);
        assert_eq!(round(".u8", ".u8 $0, [%o]", "rr", 0x1ff), 0xff);
        assert_eq!(round(".b16", ".b16 $0, [%o]", "hh", 0x1234), 0x1234);
        let generic = format!(
            "{declare}{base} cvt.u64.u32 %d2, %o; cvta.{space}.u64 %d2, %d2; st.u64 [%d2], $1; ld.{space}.u64 $0, [%o];"
        );
        assert_eq!(run(&generic, "dd", &[[v].as_slice(); 2]), [v; 2]);
    }
    // The output slot of a thread, written in parts.
    cases! {
        "st.global.v2.b32 [%out], {1, 2}; ld.global.b64 $0, [%out];" "dd": [0] => 0x2_0000_0001;
        "st.global.v4.b16 [%out], {1, 2, 3, 4}; ld.global.cg.b64 $0, [%out];" "dd": [0] => 0x4_0003_0002_0001;
        "st.global.b64 [%out], $1; ld.volatile.global.v2.u32 {%r2, $0}, [%out];" "rd": [v] => 0x8899_aabb;
        "st.global.b64 [%out], $1; ld.u8 $0, [%out+3];" "rd": [v] => 0xcc;
        "ld.global.nc.u64 $0, [%in];" "dd": [v] => v;
    }
}

#[test]
fn atomics_return_the_old_value_and_leave_the_new() {
    // Old value in memory, operand, what memory holds afterwards.
    let cases = [
        ("add.u32", 5, 3, 8),
        ("add.s32", 5, n(-7), n(-2)),
        ("add.f32", f(1.5), f(2.0), f(3.5)),
        ("min.u32", 5, n(-1), 5),
        ("max.u32", 5, n(-1), n(-1)),
        ("min.s32", 5, n(-1), n(-1)),
        ("max.s32", 5, n(-1), 5),
        ("and.b32", 12, 10, 8),
        ("or.b32", 12, 10, 14),
        ("xor.b32", 12, 10, 6),
        ("inc.u32", 5, 7, 6),
        ("inc.u32", 7, 7, 0),
        ("dec.u32", 5, 7, 4),
        ("dec.u32", 0, 7, 7),
        ("exch.b32", 5, 9, 9),
    ];
    for (op, old, operand, new) in cases {
        let rows: [&[u64]; 1] = [&[old, operand]];
        let prepare = "st.global.b32 [%out], $1;";
        assert_eq!(run(&format!("{prepare} atom.global.{op} $0, [%out], $2;"), "rrr", &rows), [old], "{op}");
        for (space, address) in [(".global", "%out"), ("", "%out"), (".shared", "at")] {
            let text = format!(
                ".shared .b32 at; st{space}.b32 [{address}], $1; atom{space}.{op} %r5, [{address}], $2; ld{space}.b32 $0, [{address}];"
            );
            assert_eq!(run(&text, "rrr", &rows), [new], "{op}{space}");
        }
        if op != "exch.b32" {
            let text = format!("{prepare} red.relaxed.gpu.global.{op} [%out], $2; ld.global.b32 $0, [%out];");
            assert_eq!(run(&text, "rrr", &rows), [new], "{op}");
        }
    }
    cases! {
        "st.global.b32 [%out], $1; atom.global.cas.b32 %r5, [%out], $2, $3; ld.global.b32 $0, [%out];" "rrrr": [5, 5, 9] => 9, [5, 6, 9] => 5;
        "st.global.b64 [%out], $1; atom.global.cas.b64 %d5, [%out], $2, $3; ld.global.b64 $0, [%out];" "dddd": [5, 5, 1 << 40] => 1 << 40;
        "st.global.b64 [%out], $1; atom.global.add.u64 %d5, [%out], $2; ld.global.b64 $0, [%out];" "ddd": [1 << 40, 1] => (1 << 40) + 1;
        "st.global.b64 [%out], $1; atom.global.exch.b64 $0, [%out], $2;" "ddd": [1 << 40, 1] => 1 << 40;
        "st.global.b64 [%out], $1; atom.global.max.s64 %d5, [%out], $2; ld.global.b64 $0, [%out];" "ddd": [n64(-2), n64(-1)] => n64(-1);
    }
    // All lanes add to one place, one after another.
    let rows: Vec<&[u64]> = vec![&[1]; 32];
    let sum = ".shared .b32 at; .reg .pred %q; setp.eq.s32 %q, %t, 0; @%q st.shared.b32 [at], 0; bar.sync 0; \
               atom.shared.add.u32 $0, [at], $1;";
    assert_eq!(run(sum, "rr", &rows), (0..32).collect::<Vec<u64>>());
}

#[test]
fn what_only_orders_does_nothing() {
    for op in [
        "membar.gl;",
        "membar.cta;",
        "fence.acq_rel.gpu;",
        "fence.sc.sys;",
        "griddepcontrol.wait;",
        "griddepcontrol.launch_dependents;",
        "nanosleep.u32 20;",
        "prefetch.global.L2 [%in];",
        "bar.warp.sync -1;",
        "barrier.cta.sync 3;",
        "bar.sync 3, 32;",
        "bra.uni L; L:",
    ] {
        let rows: Vec<&[u64]> = vec![&[7]; 32];
        assert_eq!(run(&format!("{op} mov.b32 $0, $1;"), "rr", &rows), [7; 32], "{op}");
    }
}

#[test]
fn a_guard_switches_lanes_off() {
    cases! {
        "mov.b32 $0, 1; @$1 mov.b32 $0, 2;" "rp": [0] => 1, [1] => 2;
        "mov.b32 $0, 1; @!$1 mov.b32 $0, 2;" "rp": [0] => 2, [1] => 1;
        "mov.b64 $0, 1; @$1 ld.global.b64 $0, [%in];" "dp": [0] => 1, [9] => 9;
        "mov.b32 $0, 1; @$1 bra L; mov.b32 $0, 2; L:" "rp": [0] => 2, [1] => 1;
        "st.global.b64 [%out], 6; @$1 exit; mov.b64 $0, 5;" "dp": [0] => 5, [1] => 6;
    }
}

#[test]
fn every_instruction_is_found_by_exactly_its_name() {
    let names = ptx_emu::instructions();
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(names.contains(&"fma.rn.f32") && !names.contains(&"fma.f32"));
    // A module without kernels is fine.
    Module::load(".version 9.0\n.target sm_80\n.address_size 64\n", &mut Memory::default()).unwrap();
}

/// All of them, for the list of what is tested.
pub(crate) fn all() {
    lanes_exchange();
    special_registers();
    memory_accesses();
    atomics_return_the_old_value_and_leave_the_new();
    what_only_orders_does_nothing();
    a_guard_switches_lanes_off();
    every_instruction_is_found_by_exactly_its_name();
}

//! Nothing unknown is let through, and the error says where.

mod support;

use support::{kernel, refusal};

const REGISTERS: &str = ".reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<4>;\n.reg .f32 %f<4>;\n.reg .b64 %d<4>;\n\
                         .reg .u32 %u<2>;\n.reg .f64 %g<2>;\n.shared .align 16 .b8 tile[64];";

#[test]
fn instructions_are_refused_with_line_and_reason() {
    let cases = [
        // Mnemonics and modifiers.
        ("frobnicate.u32 %r1, %r2;", "unknown instruction `frobnicate`"),
        ("add.s8 %r1, %r2, %r3;", "`add` is not implemented with the modifiers of `add.s8`"),
        ("add.sat.s32 %r1, %r2, %r3;", "not implemented with the modifiers"),
        ("add.rz.f32 %f1, %f2, %f3;", "not implemented with the modifiers"),
        ("ld.global.v3.u32 {%r1, %r2, %r3}, [%d1];", "not implemented with the modifiers"),
        ("ld.global.cx.u32 %r1, [%d1];", "not implemented with the modifiers"),
        ("ld.nc.global.u32 %r1, [%d1];", "not implemented with the modifiers"),
        ("st.const.u32 [%d1], %r1;", "not implemented with the modifiers"),
        ("setp.gt.b32 %p1, %r1, %r2;", "not implemented with the modifiers"),
        ("cp.async.cg.shared.global [%r1], [%d1], 8;", "operands do not fit"),
        ("wgmma.fence.sync.aligned;", "unknown instruction `wgmma`"),
        // Operand counts and kinds.
        ("add.s32 %r1, %r2;", "operands do not fit `add.s32`, which takes (register .s32, .s32, .s32)"),
        ("add.s32 %r1, %r2, %r3, %r1;", "operands do not fit"),
        ("add.s32 5, %r2, %r3;", "operands do not fit"),
        ("add.s32 %r1, [%d1], %r3;", "operands do not fit"),
        ("ret %r1;", "operands do not fit"),
        ("ld.global.v2.u32 {%r1, %r2, %r3}, [%d1];", "operands do not fit"),
        ("mov.b64 {%r1, %r2, %r3}, %d1;", "operands do not fit"),
        ("lop3.b32 %r1, %r2, %r3, %r1, %r2;", "operands do not fit"),
        ("bar.sync %r1;", "operands do not fit"),
        // Register classes.
        ("add.s32 %r1, %d2, %r3;", "`%d2` is .b64, but the instruction takes .s32 here"),
        ("add.s32 %r1, %f2, %r3;", "`%f2` is .f32, but the instruction takes .s32 here"),
        ("add.f32 %f1, %u1, %f3;", "`%u1` is .u32, but the instruction takes .f32 here"),
        ("add.f64 %g1, %f1, %g1;", "`%f1` is .f32"),
        ("add.s32 %h1, %r2, %r3;", "`%h1` is .b16"),
        ("mul.wide.u32 %r1, %r2, %r3;", "`%r1` is .b32, but the instruction takes .u64 here"),
        ("selp.b32 %r1, %r2, %r3, %r1;", "`%r1` is .b32, but the instruction takes .pred here"),
        ("st.global.u32 [%d1], %h1;", "`%h1` is .b16"),
        ("ld.global.f32 %d1, [%d2];", "`%d1` is .b64"),
        ("ld.global.u32 %r1, [%f1];", "`%f1` is .f32, which is no address"),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1,%f1,%f1,%f1}, {%r1,%r1,%r1,%r1}, {%d1,%d1}, {%f1,%f1,%f1,%f1};",
            "`%d1` is .b64",
        ),
        ("add.s32 %r1, %tid.x, %clock;", "unknown name `%clock`"),
        ("add.s64 %d1, %d2, %tid.x;", "`%tid.x` is .u32"),
        // Literals.
        ("add.s32 %r1, %r2, 0x1ffffffff;", "the literal does not fit a .s32"),
        ("add.s32 %r1, %r2, -2147483649;", "the literal does not fit a .s32"),
        ("add.f32 %f1, %f2, 1;", "is no .f32"),
        ("add.s32 %r1, %r2, 0f3F800000;", "is no .s32"),
        ("mov.f32 %f1, 0f3F8000;", "expected a literal"),
        // Names.
        ("add.s32 %r1, %r2, %r9;", "unknown name `%r9`"),
        ("bra nowhere;", "no label `nowhere`"),
        ("@%r1 bra nowhere;", "`%r1` is no predicate"),
        ("add.u64 %d1, %d2, tile;", "only `mov` and `cvta` take an address"),
        ("mov.f32 %f1, tile;", "does not hold the address"),
        ("ld.global.u32 %r1, [tile];", "`tile` is a .shared variable"),
        ("ld.param.u64 %d1, [nothing];", "`nothing` is no parameter"),
        ("ld.param.u64 %d1, [in+8];", "outside the 8 bytes of parameter `in`"),
        ("ld.param.u32 %r1, [in+2];", "misaligned parameter access"),
        ("bar.sync 16;", "barriers are 0 to 15"),
        ("bar.sync 1, 33;", "multiples of 32"),
        // Statements.
        ("add.s32 %r1, %r2, %r3", "expected `;`"),
        (".pragma \"fast\";", "unknown pragma"),
        (".branchtargets a, b;", "unknown directive `.branchtargets`"),
        (".reg .b8 %b;", "no registers of type .b8"),
        (".reg .b128 %b;", "unknown type `.b128`"),
        ("L: L: ret;", "a second label `L`"),
    ];
    for (line, reason) in cases {
        let error = refusal(&kernel(REGISTERS, line));
        assert!(error.message.contains(reason), "{line}: {error}");
        if reason != "expected `;`" {
            assert_eq!(error.text, line, "{error}");
            assert_eq!(error.line, 14, "{error}");
        }
    }
}

#[test]
fn modules_are_refused_with_line_and_reason() {
    let header = ".version 9.0\n.target sm_80\n.address_size 64\n";
    let cases = [
        ("", "starts with `.version`"),
        (".version 9.0\n.target gfx90\n.address_size 64", "unknown target"),
        (".version 9.0\n.target sm_80\n.address_size 32", "expected `.address_size 64`"),
        (&format!("{header}.func f() {{ ret; }}"), "unknown directive `.func`"),
        (&format!("{header}.visible .func f() {{ ret; }}"), "unknown directive `.func`"),
        (&format!("{header}.alias a, b;"), "unknown directive `.alias`"),
        (&format!("{header}.extern .global .b32 x[];"), "no others, have no length"),
        (&format!("{header}.global .b32 x[];"), "no others, have no length"),
        (&format!("{header}.shared .b32 x = 3;"), "only .global and .const"),
        (&format!("{header}.global .b32 x[1] = {{3, 4}};"), "more initial values"),
        (&format!("{header}.const .b8 x[65537];"), "more than 65536 bytes of .const"),
        (&format!("{header}.entry k() .maxfoo 3 {{ ret; }}"), "unknown directive `.maxfoo`"),
        (&format!("{header}.entry k() {{ ret;"), "kernel body without end"),
        (&format!("{header}.entry k() {{ ret; }}\n.entry k() {{ ret; }}"), "a second kernel `k`"),
        (&format!("{header}.entry k() {{ .loc 1 2 3, inlined_by 4; ret; }}"), "unknown .loc attribute"),
    ];
    for (ptx, reason) in cases {
        let error = refusal(ptx);
        assert!(error.message.contains(reason), "{ptx}: {error}");
    }
}

#[test]
fn a_refused_module_leaves_no_memory_behind() {
    let mut memory = ptx_emu::Memory::default();
    let ptx = ".version 9.0\n.target sm_80\n.address_size 64\n.global .b32 x;\n.entry k() { oops; }";
    assert!(ptx_emu::Module::load(ptx, &mut memory).is_err());
    assert_eq!(memory.used(), 0);
}

#[test]
fn what_compilers_write_is_accepted() {
    let lines = [
        "{ .reg .b32 %t; mov.b32 %t, 1; add.s32 %r1, %t, %r1; }",
        "{ .reg .b16 %t; mov.b16 %t, 1; }",
        "mov.u64 %d1, tile; cvta.shared.u64 %d2, %d1;",
        "mov.u32 %r1, tile;",
        "ld.shared.u32 %r1, [tile+4];",
        "ld.shared.u32 %r1, [%r2+-4];",
        "ld.shared.u32 %r1, [%d2-4];",
        "ld.global.u8 %h1, [%d1];",
        "ld.global.u8 %d1, [%d1];",
        "cvt.u32.u16 %r1, %h1; cvt.u16.u32 %h1, %r1;",
        "mov.pred %p1, -1; @!%p1 bra L; L: bar.sync 0;",
        "mov.b32 {%h1, _}, %r1;",
        "mov.b32 %r1, 0f3F800000;",
        "mov.u32 %r1, WARP_SZ;",
        "shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;",
        "/* comment\n*/ add.s32 %r1, %r1, 0x7; // more",
        ".pragma \"nounroll\";",
    ];
    let mut memory = ptx_emu::Memory::default();
    for line in lines {
        ptx_emu::Module::load(&kernel(REGISTERS, line), &mut memory).unwrap_or_else(|error| panic!("{error}"));
    }
}

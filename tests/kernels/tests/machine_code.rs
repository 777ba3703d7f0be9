//! The kernels as machine code: what no emulator shows is whether they fit the registers.

use kernel_tests::compiler_folder;
use kernels::cuda::{
    Compiler, DecodeAttention, DecodeAttentionShape, GroupedGemm, GroupedGemmShape, KernelSource, PrefillAttention,
    PrefillAttentionShape, Program, Target,
};

const TARGETS: [(u32, u32); 2] = [(8, 0), (9, 0)];

fn programs() -> Vec<Program> {
    let attention = [(64, 1), (128, 4), (128, 8), (256, 4)].map(|(head_dim, group)| {
        let shape =
            DecodeAttentionShape { head_dim, query_heads: 4 * group, kv_heads: 4, page_size: 16, split_tokens: 256 };
        DecodeAttention::program(shape, DecodeAttention::SOURCE).unwrap()
    });
    let prefill = [(16, 2), (64, 1), (80, 1), (96, 7), (128, 4), (192, 8), (256, 4)].map(|(head_dim, group)| {
        let shape = PrefillAttentionShape { head_dim, query_heads: 4 * group, kv_heads: 4, page_size: 16 };
        PrefillAttention::program(shape, PrefillAttention::SOURCE).unwrap()
    });
    let products = [16, 32, 64, 128].map(|block_rows| {
        let shape = GroupedGemmShape { block_rows, experts: 128, columns: 1536, depth: 2048, rows_per_input: 8 };
        GroupedGemm::program(shape, GroupedGemm::SOURCE).unwrap()
    });
    attention.into_iter().chain(prefill).chain(products).collect()
}

#[test]
fn no_kernel_spills_registers() {
    let compiler = Compiler::find(Some(&compiler_folder())).unwrap();
    for (major, minor) in TARGETS {
        for program in programs() {
            let compiled = compiler.compile(&program, Target::Cubin { major, minor }).unwrap();
            let usage: Vec<&str> =
                compiled.log.lines().filter(|line| line.contains("spill") || line.contains("registers")).collect();
            println!("sm_{major}{minor} {:?}\n  {}", program.defines, usage.join("\n  "));
            let spills = usage.iter().filter(|line| line.contains("spill"));
            assert!(usage.iter().any(|line| line.contains("registers")), "no usage in:\n{}", compiled.log);
            for line in spills {
                assert!(
                    line.contains("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"),
                    "{:?}: {line}",
                    program.defines
                );
            }
        }
    }
}

#[test]
fn an_error_in_a_source_is_shown_with_its_line() {
    let compiler = Compiler::find(Some(&compiler_folder())).unwrap();
    let program = Program {
        source: KernelSource {
            name: "broken.cu",
            text: "extern \"C\" __global__ void broken() {\n  nonsense;\n}".into(),
        },
        defines: Vec::new(),
    };
    let message = compiler.compile(&program, Target::Ptx).unwrap_err().to_string();
    assert!(message.starts_with("broken.cu does not compile"), "{message}");
    assert!(message.contains("broken.cu(2)"), "{message}");
}

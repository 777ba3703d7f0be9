//! Products, and experts from routing to the sum over them.

use kernels::cuda::check::{
    Bias, CombineProblem, GemmProblem, GroupRoutingProblem, GroupedGemmProblem, GroupingProblem, ProductSize,
    QuantisedGemmProblem, RoutingProblem, WeightFormat,
};
use kernels::cuda::{
    BlockFormat, CombineExperts, CombineExpertsShape, GatedGemm, GatedGemmShape, Gemm, GemmTile, GemmTiles, GroupRows,
    GroupRowsShape, GroupedGemm, GroupedGemmShape, QuantisedGemm, RouteExperts, RouteExpertsShape, RouteGroups,
    RouteGroupsShape,
};

use super::{Problem, Subject};

pub(super) fn subjects() -> Vec<Subject> {
    let choice = |experts, chosen, renormalise| RouteExpertsShape { experts, chosen, renormalise };
    let product =
        |block_rows, columns, depth| GroupedGemmShape { block_rows, experts: 3, columns, depth, rows_per_input: 2 };
    vec![
        Subject {
            file: "route_experts.cu",
            problems: vec![
                routing("few experts", choice(8, 2, true), WeightFormat::F32),
                routing("shares of those chosen", choice(71, 40, true), WeightFormat::F32),
                routing("shares of all", choice(71, 40, false), WeightFormat::F32),
                routing("logits of 16 bits", choice(8, 2, true), WeightFormat::Bf16),
                group_routing("groups", choice(72, 9, true), (6, 2), true),
                group_routing("one group", choice(40, 8, false), (1, 1), true),
                group_routing("a group for each lane, no bias", choice(64, 9, true), (32, 16), false),
            ],
        },
        Subject {
            file: "group_rows.cu",
            problems: vec![
                grouping("one expert", GroupRowsShape { experts: 1, block_rows: 16 }, 33),
                grouping("few rows", GroupRowsShape { experts: 3, block_rows: 16 }, 65),
                grouping("more experts than threads", GroupRowsShape { experts: 300, block_rows: 16 }, 1025),
            ],
        },
        Subject {
            file: "combine_experts.cu",
            problems: vec![combination("single elements", 111, 3), combination("rows of several blocks", 2056, 3)],
        },
        Subject {
            file: "gemm.cu",
            problems: vec![
                dense("warps in a column", COLUMN, (65, 130, 72), (Bias::None, WeightFormat::Bf16)),
                dense("an odd number of columns", SQUARE, (33, 129, 168), (Bias::Random, WeightFormat::F32)),
                dense("parts of blocks, many", SQUARE, (600, 131, 40), (Bias::Random, WeightFormat::Bf16)),
                dense("whole blocks, many", SQUARE, (640, 64, 40), (Bias::Random, WeightFormat::Bf16)),
                dense("whole blocks", SQUARE, (128, 128, 1056), (Bias::None, WeightFormat::Bf16)),
                dense("few rows", GemmTile::NARROW, (17, 31, 320), (Bias::Random, WeightFormat::Bf16)),
            ],
        },
        Subject {
            file: "quantised_gemm.cu",
            problems: vec![
                quantised("blocks of eight bits", BlockFormat::Q8_0, (20, 80, 352), (Bias::None, WeightFormat::F32)),
                quantised("blocks with minima", BlockFormat::Q4_1, (20, 80, 352), (Bias::Random, WeightFormat::F32)),
                quantised("few columns", BlockFormat::Q4_0, (3, 33, 96), (Bias::None, WeightFormat::F32)),
                quantised("few columns, rounded", BlockFormat::Q4_0, (3, 33, 96), (Bias::Random, WeightFormat::Bf16)),
            ],
        },
        Subject {
            file: "grouped_gemm.cu",
            problems: vec![
                gemm("blocks of 64 rows", product(64, 64, 160), &[65, 0, 9], 0),
                gemm("parts of tiles", product(16, 104, 72), &[17, 0, 3], 5),
                gemm("many blocks", GroupedGemmShape { experts: 20, ..product(16, 8, 8) }, &[1; 20], 0),
                gemm("blocks of 128 rows", product(128, 72, 104), &[130, 0, 1], 1),
                gated("gated", product(32, 72, 160), &[33, 0, 9], 3),
            ],
        },
    ]
}

fn routing(name: &'static str, shape: RouteExpertsShape, format: WeightFormat) -> Problem {
    Problem::new(name, move |device, source| {
        let kernel = RouteExperts::compile_source(device, shape, source)?;
        let problem = RoutingProblem::random(shape, 23, 1, format, 48);
        let found = problem.run(device, &kernel)?;
        let right = found.experts == problem.reference().experts && problem.compare(&found).holds();
        Ok(right && found.guards_intact)
    })
}

fn group_routing(
    name: &'static str,
    experts: RouteExpertsShape,
    (groups, chosen_groups): (usize, usize),
    is_biased: bool,
) -> Problem {
    Problem::new(name, move |device, source| {
        let shape = RouteGroupsShape { experts, groups, chosen_groups };
        let kernel = RouteGroups::compile_source(device, shape, source)?;
        let problem = GroupRoutingProblem::random(shape, 21, 1, is_biased, 56);
        let found = problem.run(device, &kernel)?;
        let right = found.experts == problem.reference().experts && problem.compare(&found).holds();
        Ok(right && found.guards_intact)
    })
}

fn grouping(name: &'static str, shape: GroupRowsShape, rows: usize) -> Problem {
    Problem::new(name, move |device, source| {
        let kernel = GroupRows::compile_source(device, shape, source)?;
        let problem = GroupingProblem::random(shape, rows, 1, 49);
        let (found, guards_intact) = problem.run(device, &kernel)?;
        Ok(found == problem.reference()? && guards_intact)
    })
}

fn combination(name: &'static str, width: usize, chosen: usize) -> Problem {
    Problem::new(name, move |device, source| {
        let shape = CombineExpertsShape { width, chosen };
        let kernel = CombineExperts::compile_source(device, shape, source)?;
        let problem = CombineProblem::random(shape, 3, 8, 50);
        let (found, guards_intact) = problem.run(device, &kernel)?;
        Ok(problem.compare(&found).holds() && guards_intact)
    })
}

const SQUARE: GemmTile = GemmTile { rows: 64, columns: 64, depth: 32, stages: 3, warps_down: 2, warps_across: 2 };
const COLUMN: GemmTile = GemmTile { rows: 64, columns: 16, depth: 32, stages: 2, warps_down: 4, warps_across: 1 };

fn dense(
    name: &'static str,
    tile: GemmTile,
    (rows, columns, depth): (usize, usize, usize),
    (bias, format): (Bias, WeightFormat),
) -> Problem {
    Problem::new(name, move |device, source| {
        let kernel = Gemm::compile_source(device, GemmTiles::only(tile), &source)?;
        let problem = GemmProblem::random(ProductSize { rows, columns, depth }, bias, 34);
        let found = problem.run(device, &kernel, format)?;
        Ok(problem.compare(&found, format).holds() && found.guards_intact)
    })
}

fn gemm(name: &'static str, shape: GroupedGemmShape, rows: &'static [usize], foreign: usize) -> Problem {
    Problem::new(name, move |device, source| {
        let kernel = GroupedGemm::compile_source(device, shape, source)?;
        let problem = GroupedGemmProblem::random(shape, rows, foreign, 31)?;
        let found = problem.run(device, &kernel)?;
        Ok(problem.compare(&found).holds() && found.guards_intact)
    })
}

fn gated(name: &'static str, shape: GroupedGemmShape, rows: &'static [usize], foreign: usize) -> Problem {
    Problem::new(name, move |device, source| {
        let kernel = GatedGemm::compile_source(device, GatedGemmShape(shape), source)?;
        let problem = GroupedGemmProblem::gated(shape, rows, foreign, 35)?;
        let found = problem.run_gated(device, &kernel)?;
        Ok(problem.compare(&found).holds() && found.guards_intact)
    })
}

fn quantised(
    name: &'static str,
    format: BlockFormat,
    (rows, columns, depth): (usize, usize, usize),
    (bias, output): (Bias, WeightFormat),
) -> Problem {
    const TILE: GemmTile = GemmTile { rows: 32, columns: 64, depth: 64, stages: 2, warps_down: 1, warps_across: 2 };
    Problem::new(name, move |device, source| {
        let kernel = QuantisedGemm::compile_source(device, format, GemmTiles::only(TILE), &source)?;
        let problem = QuantisedGemmProblem::random(format, ProductSize { rows, columns, depth }, bias, 36);
        let found = problem.run(device, &kernel, output)?;
        Ok(problem.compare(&found, output).holds() && found.guards_intact)
    })
}

//! What single instructions make of random operands, as a dump that another device's can be compared with.
//!
//! An emulator follows the manual. Where the manual leaves bits open, as for approximate functions and for sums inside
//! tensor cores, only hardware can tell how near it comes; so a dump that a GPU made is what the emulator is held to.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use kernels::cuda::check::{LaneKernel, Noise};
use kernels::cuda::{CudaDevice, CudaError, KernelSource};
use serde_json::{Value, json};

/// Warps that run each instruction.
const WARPS: usize = 8;
const LANES: usize = 32;
const FORMAT: u64 = 1;

/// An instruction, and what its operands are.
struct Opcode {
    name: &'static str,
    /// What the manual leaves open.
    open: Open,
    /// A letter for each result and operand; see [`Operand`].
    outputs: &'static str,
    inputs: &'static str,
}

/// How far results of two devices may differ.
#[derive(Clone, Copy)]
enum Open {
    /// Not at all; NaNs are all alike.
    Nothing,
    /// Units in the last place of single precision, between two devices that are each within the manual's bound.
    Ulps(u32),
    /// As `Ulps`, or by four times the distance of one from the next number: near one the manual bounds the error itself.
    Logarithm(u32),
    /// The order and rounding of a sum of so many products: that many units of the largest term.
    Sum(u32),
}

/// A letter of an operand list, the constraint of inline assembly, and the words that it takes.
///
/// `f` single precision; `r` 32 bits; `h` 16 bits; `l` 64 bits; `b` two bf16; `a` two f16; `t` two bf16 of tensor cores,
/// all finite; `u` the same in f16; `s` four signed bytes; `g` a sum of single precision, finite; `n` a small whole number.
struct Operand;

impl Operand {
    fn constraint(letter: char) -> char {
        match letter {
            'f' | 'g' => 'f',
            'h' => 'h',
            'l' => 'l',
            _ => 'r',
        }
    }

    fn words(letter: char) -> usize {
        if letter == 'l' { 2 } else { 1 }
    }

    fn read(letter: char, word: usize) -> String {
        match letter {
            'f' | 'g' => format!("__uint_as_float(in[{word}])"),
            'h' => format!("(unsigned short)in[{word}]"),
            'l' => format!("in[{word}] | (unsigned long long)in[{}] << 32", word + 1),
            _ => format!("in[{word}]"),
        }
    }

    fn kind(letter: char) -> &'static str {
        match letter {
            'f' | 'g' => "float",
            'h' => "unsigned short",
            'l' => "unsigned long long",
            _ => "unsigned",
        }
    }

    fn write(letter: char, word: usize) -> String {
        match letter {
            'f' | 'g' => format!("out[{word}] = __float_as_uint(d{word});"),
            'l' => format!("out[{word}] = (unsigned)d{word}; out[{}] = (unsigned)(d{word} >> 32);", word + 1),
            _ => format!("out[{word}] = d{word};"),
        }
    }

    fn random(letter: char, noise: &mut Noise) -> Vec<u32> {
        let any = |noise: &mut Noise| noise.below(1 << 32) as u32;
        let half = |noise: &mut Noise, bits: u32, exponent: u32| {
            // Numbers around one, and now and then any bits at all.
            if exponent > 0 && noise.below(8) == 0 { any(noise) & 0xffff } else { bits }
        };
        match letter {
            'f' => vec![float(noise)],
            'g' => vec![noise.normal().to_bits()],
            'h' => vec![any(noise) & 0xffff],
            'l' => vec![any(noise), any(noise)],
            'n' => vec![noise.below(32) as u32],
            'b' | 't' | 'a' | 'u' => {
                let mut word = 0;
                for shift in [0, 16] {
                    let number = noise.normal();
                    let bits = if "bt".contains(letter) { number.to_bits() >> 16 } else { u32::from(to_f16(number)) };
                    word |= half(noise, bits, u32::from("ba".contains(letter))) << shift;
                }
                vec![word]
            }
            _ => vec![match noise.below(8) {
                0 => [0, 1, u32::MAX, i32::MAX as u32, i32::MIN as u32][noise.below(5)],
                1 => noise.below(64) as u32,
                _ => any(noise),
            }],
        }
    }
}

/// Single precision of every kind: around one, of any exponent, whole, at the ends, and no number.
fn float(noise: &mut Noise) -> u32 {
    const ENDS: [u32; 10] = [
        0,
        0x8000_0000,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0x0000_0001,
        0x807f_ffff,
        0x0080_0000,
        0x7f7f_ffff,
        0x3f80_0000,
    ];
    match noise.below(8) {
        0 => ENDS[noise.below(ENDS.len())],
        1 => noise.below(1 << 32) as u32,
        2 => (noise.below(300) as f32 - 150.0).to_bits(),
        3 => (noise.normal() * 60.0).to_bits(),
        _ => noise.normal().to_bits(),
    }
}

/// The nearest f16 to a number around one, cut towards zero.
fn to_f16(number: f32) -> u16 {
    let bits = number.to_bits();
    let exponent = (bits >> 23 & 0xff) as i32 - 127 + 15;
    let sign = (bits >> 16 & 0x8000) as u16;
    if exponent < 1 { sign } else { sign | (exponent as u16) << 10 | (bits >> 13 & 0x3ff) as u16 }
}

const fn exact(name: &'static str, outputs: &'static str, inputs: &'static str) -> Opcode {
    Opcode { name, open: Open::Nothing, outputs, inputs }
}

const fn near(name: &'static str, ulps: u32) -> Opcode {
    Opcode { name, open: Open::Ulps(ulps), outputs: "f", inputs: "f" }
}

const fn product(name: &'static str, outputs: &'static str, inputs: &'static str, terms: u32) -> Opcode {
    Opcode { name, open: Open::Sum(terms), outputs, inputs }
}

/// Arithmetic, conversions, exchanges in a warp and tensor cores as the kernels use them, at the level of `sm_80`.
const OPCODES: &[Opcode] = &[
    exact("add.f32", "f", "ff"),
    exact("sub.f32", "f", "ff"),
    exact("mul.f32", "f", "ff"),
    exact("fma.rn.f32", "f", "fff"),
    exact("div.rn.f32", "f", "ff"),
    exact("rcp.rn.f32", "f", "f"),
    exact("sqrt.rn.f32", "f", "f"),
    exact("min.f32", "f", "ff"),
    exact("max.f32", "f", "ff"),
    exact("abs.f32", "f", "f"),
    exact("neg.f32", "f", "f"),
    near("ex2.approx.f32", 4),
    near("ex2.approx.ftz.f32", 4),
    Opcode { name: "lg2.approx.f32", open: Open::Logarithm(4), outputs: "f", inputs: "f" },
    near("rcp.approx.ftz.f32", 2),
    near("rsqrt.approx.f32", 4),
    near("rsqrt.approx.ftz.f32", 4),
    near("sqrt.approx.f32", 4),
    exact("cvt.rn.bf16.f32", "h", "f"),
    exact("cvt.rn.bf16x2.f32", "r", "ff"),
    exact("cvt.rn.f16.f32", "h", "f"),
    exact("cvt.f32.f16", "f", "h"),
    exact("cvt.rni.s32.f32", "r", "f"),
    exact("cvt.rzi.s32.f32", "r", "f"),
    exact("cvt.rzi.u32.f32", "r", "f"),
    exact("cvt.rni.f32.f32", "f", "f"),
    exact("cvt.rmi.f32.f32", "f", "f"),
    exact("cvt.rn.f32.s32", "f", "r"),
    exact("cvt.rn.f32.u32", "f", "r"),
    exact("cvt.rn.f32.s64", "f", "l"),
    exact("cvt.rn.f32.u64", "f", "l"),
    exact("add.s32", "r", "rr"),
    exact("sub.s32", "r", "rr"),
    exact("mul.lo.s32", "r", "rr"),
    exact("mul.hi.u32", "r", "rr"),
    exact("mul.wide.s32", "l", "rr"),
    exact("mul.wide.u32", "l", "rr"),
    exact("mad.lo.s32", "r", "rrr"),
    exact("mul.lo.s64", "l", "ll"),
    exact("add.s64", "l", "ll"),
    exact("min.s32", "r", "rr"),
    exact("max.s32", "r", "rr"),
    exact("min.u32", "r", "rr"),
    exact("max.u32", "r", "rr"),
    exact("and.b32", "r", "rr"),
    exact("or.b32", "r", "rr"),
    exact("xor.b32", "r", "rr"),
    exact("not.b32", "r", "r"),
    exact("shl.b32", "r", "rr"),
    exact("shr.u32", "r", "rr"),
    exact("shr.s32", "r", "rr"),
    exact("shl.b64", "l", "lr"),
    exact("shr.u64", "l", "lr"),
    exact("bfi.b32", "r", "rrrr"),
    exact("bfind.u32", "r", "r"),
    exact("brev.b32", "r", "r"),
    exact("clz.b32", "r", "r"),
    exact("popc.b32", "r", "r"),
    exact("prmt.b32", "r", "rrr"),
    exact("shfl.sync.bfly.b32", "r", "rn"),
    exact("shfl.sync.up.b32", "r", "rn"),
    exact("shfl.sync.down.b32", "r", "rn"),
    exact("shfl.sync.idx.b32", "r", "rn"),
    exact("redux.sync.add.s32", "r", "r"),
    exact("redux.sync.min.u32", "r", "r"),
    exact("redux.sync.max.u32", "r", "r"),
    exact("match.any.sync.b32", "r", "n"),
    product("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "gggg", "ttttttgggg", 17),
    product("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "gggg", "uuuuuugggg", 17),
    exact("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", "rrrr", "ssssssnnnn"),
];

impl Opcode {
    fn input_words(&self) -> usize {
        self.inputs.chars().map(Operand::words).sum()
    }

    fn output_words(&self) -> usize {
        self.outputs.chars().map(Operand::words).sum()
    }

    /// The instruction with its operands numbered as inline assembly wants them.
    fn assembly(&self) -> String {
        let numbers: Vec<_> = (0..self.outputs.len() + self.inputs.len()).map(|number| format!("%{number}")).collect();
        if self.name.starts_with("mma") {
            // Four results, four words of the left matrix, two of the right, four of what is added.
            let groups = [&numbers[..4], &numbers[4..8], &numbers[8..10], &numbers[10..]];
            let groups = groups.map(|group| format!("{{{}}}", group.join(", ")));
            return format!("{} {};", self.name, groups.join(", "));
        }
        let rest = match self.name.split_once(".sync") {
            Some(("shfl", kind)) if kind.starts_with(".up") => ", 0, 0xffffffff",
            Some(("shfl", _)) => ", 31, 0xffffffff",
            Some(_) => ", 0xffffffff",
            None => "",
        };
        format!("{} {}{rest};", self.name, numbers.join(", "))
    }

    fn source(&self) -> KernelSource {
        let mut text = String::from("extern \"C\" __global__ void run(const unsigned *in, unsigned *out) {\n");
        let lane = "(blockIdx.x * 32ull + threadIdx.x)";
        let _ = writeln!(text, "  in += {lane} * {}, out += {lane} * {};", self.input_words(), self.output_words());
        let mut operands = [Vec::new(), Vec::new()];
        let mut stores = String::new();
        let mut word = 0;
        for letter in self.outputs.chars() {
            let _ = writeln!(text, "  {} d{word};", Operand::kind(letter));
            operands[0].push(format!("\"={}\"(d{word})", Operand::constraint(letter)));
            let _ = writeln!(stores, "  {}", Operand::write(letter, word));
            word += Operand::words(letter);
        }
        word = 0;
        for letter in self.inputs.chars() {
            let _ = writeln!(text, "  {} a{word} = {};", Operand::kind(letter), Operand::read(letter, word));
            operands[1].push(format!("\"{}\"(a{word})", Operand::constraint(letter)));
            word += Operand::words(letter);
        }
        let [outputs, inputs] = operands.map(|operands| operands.join(", "));
        let _ = writeln!(text, "  asm volatile(\"{}\" : {outputs} : {inputs});\n{stores}}}", self.assembly());
        KernelSource { name: "opcode.cu", text: text.into() }
    }

    fn random(&self, noise: &mut Noise) -> Vec<u32> {
        (0..WARPS * LANES)
            .flat_map(|_| self.inputs.chars().flat_map(|letter| Operand::random(letter, noise)).collect::<Vec<_>>())
            .collect()
    }

    fn run(&self, device: &CudaDevice, words: &[u32]) -> Result<Vec<u32>, CudaError> {
        let kernel = LaneKernel::compile(device, self.source(), self.input_words(), self.output_words())?;
        device.run_lanes(&kernel, words)
    }

    /// Where two results differ by more than the manual leaves open; operands and results are those of a lane.
    fn differs(&self, operands: &[u32], one: &[u32], other: &[u32]) -> bool {
        let is_float = self.outputs.chars().all(|letter| "fg".contains(letter));
        let largest =
            operands.iter().map(|&word| f32::from_bits(word).abs()).filter(|x| x.is_finite()).fold(1.0, f32::max);
        one.iter().zip(other).any(|(&one, &other)| {
            if one == other {
                return false;
            }
            if !is_float {
                return self.outputs != "h" || !(is_half_nan(self.name, one) && is_half_nan(self.name, other));
            }
            let (a, b) = (f32::from_bits(one), f32::from_bits(other));
            if a.is_nan() || b.is_nan() {
                return a.is_nan() != b.is_nan();
            }
            match self.open {
                Open::Nothing => true,
                Open::Ulps(ulps) => far(one, other, ulps),
                Open::Logarithm(ulps) => far(one, other, ulps) && (a - b).abs() > 4.0 * f32::EPSILON,
                Open::Sum(terms) => (a - b).abs() > terms as f32 * f32::EPSILON * largest * 16.0,
            }
        })
    }
}

/// Whether 16 bits are no number in the format that a conversion makes.
fn is_half_nan(name: &str, bits: u32) -> bool {
    if name.contains("bf16") { bits & 0x7fff > 0x7f80 } else { bits & 0x7fff > 0x7c00 }
}

/// Whether two numbers are more than so many units in the last place apart.
fn far(one: u32, other: u32, ulps: u32) -> bool {
    ordered(one).abs_diff(ordered(other)) > u64::from(ulps)
}

/// A number's place among all numbers, so that neighbours are one apart.
fn ordered(bits: u32) -> i64 {
    let magnitude = i64::from(bits & 0x7fff_ffff);
    if bits >> 31 == 0 { magnitude } else { -magnitude }
}

/// What every instruction makes of random operands on a device, and which ones it cannot run, with the reason.
pub fn dump(device: &CudaDevice, seed: u64) -> Result<(Value, Vec<String>), CudaError> {
    dump_of(device, seed, OPCODES)
}

fn dump_of(device: &CudaDevice, seed: u64, opcodes: &[Opcode]) -> Result<(Value, Vec<String>), CudaError> {
    let mut noise = Noise::new(seed);
    let (mut ran, mut failed) = (Vec::new(), Vec::new());
    // Before what may leave a device that answers nothing.
    let name = device.name()?;
    for (place, opcode) in opcodes.iter().enumerate() {
        let words = opcode.random(&mut noise);
        match opcode.run(device, &words) {
            Ok(results) => {
                ran.push(json!({ "opcode": opcode.name, "operands": hex(&words), "results": hex(&results) }));
            }
            Err(error) => {
                failed.push(format!("{}: {error}", opcode.name));
                let left = opcodes.len() - place - 1;
                if left > 0 && device.synchronize().is_err() {
                    failed.push(format!("the device does nothing any more; {left} more instructions were not run"));
                    break;
                }
            }
        }
    }
    let target = device.target().to_string();
    let dump = json!({ "format": FORMAT, "device": name, "target": target, "seed": seed, "opcodes": ran });
    Ok((dump, failed))
}

/// Runs the operands of a dump on a device and says what is different from its results.
///
/// An error is a dump that cannot be read, or a device that cannot run it.
pub fn compare(device: &CudaDevice, dump: &Value) -> Result<Vec<String>, String> {
    if dump["format"] != FORMAT {
        return Err(format!("format {} where {FORMAT} is known", dump["format"]));
    }
    let mut differences = Vec::new();
    let entries = dump["opcodes"].as_array().filter(|entries| !entries.is_empty()).ok_or("no list of opcodes")?;
    for entry in entries {
        let name = entry["opcode"].as_str().ok_or("an opcode without a name")?;
        let opcode =
            OPCODES.iter().find(|opcode| opcode.name == name).ok_or_else(|| format!("unknown opcode {name}"))?;
        let (operands, results) = (words(&entry["operands"])?, words(&entry["results"])?);
        let lanes = operands.len() / opcode.input_words();
        if lanes == 0
            || lanes * opcode.input_words() != operands.len()
            || lanes * opcode.output_words() != results.len()
        {
            return Err(format!("{name}: {} words of operands and {} of results", operands.len(), results.len()));
        }
        let found = opcode.run(device, &operands).map_err(|error| format!("{name}: {error}"))?;
        let of_lane = operands.chunks(opcode.input_words());
        let both = results.chunks(opcode.output_words()).zip(found.chunks(opcode.output_words()));
        let different: Vec<_> = of_lane
            .zip(both)
            .enumerate()
            .filter(|(_, (operands, (one, other)))| opcode.differs(operands, one, other))
            .collect();
        if let Some((lane, (operands, (one, other)))) = different.first() {
            differences.push(format!(
                "{name}: {} of {lanes} lanes differ; lane {lane} of {operands:08x?} had {one:08x?} and now {other:08x?}",
                different.len()
            ));
        }
    }
    Ok(differences)
}

/// Holds a device to the dumps in a folder, and says how many there are.
///
/// An error is a difference, a file that is no dump, or a folder without one.
pub fn hold(device: &CudaDevice, folder: &Path) -> Result<usize, String> {
    let unreadable = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut count = 0;
    for entry in fs::read_dir(folder).map_err(|error| unreadable(folder, &error))? {
        let path = entry.map_err(|error| unreadable(folder, &error))?.path();
        let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
        let dump = serde_json::from_str(&text).map_err(|error| unreadable(&path, &error))?;
        let differences = compare(device, &dump).map_err(|error| unreadable(&path, &error))?;
        if !differences.is_empty() {
            return Err(format!("{}:\n  {}", path.display(), differences.join("\n  ")));
        }
        count += 1;
    }
    if count == 0 { Err(unreadable(folder, &"no dump is there")) } else { Ok(count) }
}

fn hex(words: &[u32]) -> String {
    words.iter().fold(String::new(), |mut text, word| {
        let _ = write!(text, "{word:08x}");
        text
    })
}

fn words(text: &Value) -> Result<Vec<u32>, String> {
    let text = text.as_str().filter(|text| text.is_ascii()).ok_or("words that are no text")?;
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let parse = |word: &[u8; 8]| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok();
    let parsed: Option<Vec<_>> = words.iter().map(parse).collect();
    parsed.filter(|_| rest.is_empty()).ok_or_else(|| "words that are no hexadecimal numbers of eight digits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An instruction that there is not, between two that there are.
    #[test]
    fn an_opcode_that_does_not_load_costs_itself_alone() {
        let opcodes = [exact("add.s32", "r", "rr"), exact("add.s33", "r", "rr"), exact("sub.s32", "r", "rr")];
        let (dump, failed) = dump_of(&crate::device(), 3, &opcodes).unwrap();
        let names = dump["opcodes"].as_array().unwrap().iter().map(|entry| entry["opcode"].as_str().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), ["add.s32", "sub.s32"]);
        let [failure] = &failed[..] else { panic!("{failed:?}") };
        assert!(failure.starts_with("add.s33: "), "{failure}");
        assert_eq!(compare(&crate::device(), &dump), Ok(vec![]));
    }
}

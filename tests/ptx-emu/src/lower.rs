//! Turns a parsed kernel into a program: names become numbers, mnemonics functions, and every operand is type-checked.

use std::collections::HashMap;

use crate::allocate::{File, Use, allocate};
use crate::error::LoadError;
use crate::lexer::error_at;
use crate::module::Global;
use crate::opcode::{Form, Run, Slot, table};
use crate::operand::{Constant, fits, literal_of, misfit};
use crate::program::{Args, FileSizes, Guard, Inst, Kernel, Param, Presets, Reg, Site, Special};
use crate::syntax::{Entry, Instruction, Item, Literal, Operand, Source, Variable};
use crate::ty::{Space, Ty};

/// Lowers `entry` of `source`, whose text is `ptx`.
pub(crate) fn lower(
    ptx: &str,
    source: &Source<'_>,
    entry: &Entry<'_>,
    globals: &[Global],
) -> Result<Kernel, LoadError> {
    let mut lowering = Lowering {
        lines: ptx.lines().collect(),
        scopes: vec![HashMap::new(), HashMap::new()],
        labels: labels(ptx, entry)?,
        constants: HashMap::new(),
        granule: 16,
        uses: Vec::new(),
        kernel: empty(source, entry, globals),
    };
    lowering.declare_globals(globals);
    lowering.declare_params(entry);
    let shared = source.variables.iter().filter(|variable| variable.space == Space::Shared);
    let (dynamic, fixed): (Vec<_>, Vec<_>) = shared.partition(|variable| variable.bytes.is_none());
    for variable in fixed {
        let start = lowering.reserve(variable);
        lowering.declare(variable.name, Name::Variable(Space::Shared, start));
    }
    // Dynamic shared memory lies behind all static variables, so those come first, with their names only later.
    let places = lowering.reserve_all(&entry.body);
    for variable in dynamic {
        let start = lowering.kernel.static_shared.next_multiple_of(variable.align.max(16));
        lowering.kernel.dynamic_start = start;
        lowering.declare(variable.name, Name::Variable(Space::Shared, u64::from(start)));
    }
    lowering.body(ptx, entry, &places)?;
    lowering.kernel.granule_shift = lowering.granule.trailing_zeros();
    allocate(&mut lowering.kernel, &lowering.uses);
    Ok(lowering.kernel)
}

fn empty(source: &Source<'_>, entry: &Entry<'_>, globals: &[Global]) -> Kernel {
    let constants = globals.iter().filter(|global| global.space == Space::Const);
    let positions = entry.body.iter().filter_map(|item| match item {
        Item::Instruction(instruction) => instruction.position,
        _ => None,
    });
    Kernel {
        name: entry.name.to_owned(),
        params: Vec::new(),
        limits: entry.limits,
        code: Vec::new(),
        sites: Vec::new(),
        registers: FileSizes::default(),
        presets: Presets::default(),
        static_shared: 0,
        dynamic_start: 0,
        local_bytes: 0,
        granule_shift: 0,
        constants: constants.map(|global| (global.address, global.bytes)).collect(),
        files: source.files.iter().map(|&(number, path)| (number, path.to_owned())).collect(),
        inlined: positions.filter_map(|position| Some((position.at, position.inlined_at?))).collect(),
    }
}

/// Number of the instruction that each label stands before.
fn labels<'a>(ptx: &str, entry: &Entry<'a>) -> Result<HashMap<&'a str, u32>, LoadError> {
    let mut labels = HashMap::new();
    let mut count = 0;
    for item in &entry.body {
        match *item {
            Item::Label(name, line) if labels.insert(name, count).is_some() => {
                return Err(error_at(ptx, line, format!("a second label `{name}`")));
            }
            Item::Instruction(_) => count += 1,
            _ => {}
        }
    }
    Ok(labels)
}

/// What a name stands for.
#[derive(Debug, Clone, Copy)]
enum Name {
    Register(Ty, Reg),
    /// A variable and its address within its space.
    Variable(Space, u64),
    Param(Param),
}

struct Lowering<'a> {
    lines: Vec<&'a str>,
    /// Innermost last.
    scopes: Vec<HashMap<String, Name>>,
    labels: HashMap<&'a str, u32>,
    constants: HashMap<Constant, Reg>,
    /// Bytes of the smallest access that may be to shared memory.
    granule: u32,
    /// Which operands each instruction reads and writes.
    uses: Vec<Vec<Use>>,
    kernel: Kernel,
}

/// An error is a message; the caller knows the line.
type Lowered<T> = Result<T, String>;

impl<'a> Lowering<'a> {
    /// Enters a name into the innermost scope.
    fn declare(&mut self, name: &str, meaning: Name) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), meaning);
        }
    }

    fn find(&self, name: &str) -> Option<Name> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }

    fn declare_globals(&mut self, globals: &[Global]) {
        for global in globals {
            self.declare(&global.name, Name::Variable(global.space, global.address));
        }
    }

    fn declare_params(&mut self, entry: &Entry<'_>) {
        let mut offset = 0;
        for param in &entry.params {
            offset = usize::next_multiple_of(offset, param.align as usize);
            let placed = Param { offset, bytes: param.bytes as usize };
            self.kernel.params.push(placed);
            self.declare(param.name, Name::Param(placed));
            offset += placed.bytes;
        }
    }

    /// Makes room for a static variable and returns its address.
    fn reserve(&mut self, variable: &Variable<'_>) -> u64 {
        let used = match variable.space {
            Space::Shared => &mut self.kernel.static_shared,
            _ => &mut self.kernel.local_bytes,
        };
        let start = used.next_multiple_of(variable.align);
        *used = start + variable.bytes.unwrap_or(0);
        u64::from(start)
    }

    /// Places of the variables in a kernel body, in order.
    fn reserve_all(&mut self, body: &[Item<'_>]) -> Vec<u64> {
        let variables = body.iter().filter_map(|item| match item {
            Item::Variable(variable) => Some(variable),
            _ => None,
        });
        variables.map(|variable| self.reserve(variable)).collect()
    }

    fn body(&mut self, ptx: &str, entry: &Entry<'a>, places: &[u64]) -> Result<(), LoadError> {
        let mut places = places.iter();
        for item in &entry.body {
            match item {
                Item::Open => self.scopes.push(HashMap::new()),
                Item::Close => {
                    self.scopes.pop();
                }
                Item::Label(..) => {}
                Item::Registers(ty, names, line) => {
                    for &(name, count) in names {
                        self.registers(*ty, name, count).map_err(|message| error_at(ptx, *line, message))?;
                    }
                }
                Item::Variable(variable) => {
                    let place = places.next().copied().unwrap_or_default();
                    self.declare(variable.name, Name::Variable(variable.space, place));
                }
                Item::Instruction(instruction) => {
                    self.instruction(instruction).map_err(|message| error_at(ptx, instruction.line, message))?;
                }
            }
        }
        self.kernel.code.push(Inst { run: Run::Exit, args: Args::default(), guard: None });
        self.uses.push(Vec::new());
        self.kernel.sites.push(Site { line: entry.line, position: None, text: "end of the kernel".to_owned() });
        Ok(())
    }

    /// Declares one register, or the family `name0`, `name1` and so on.
    fn registers(&mut self, ty: Ty, name: &str, count: Option<u32>) -> Lowered<()> {
        match count {
            None => {
                let reg = self.allocate(ty)?;
                self.declare(name, Name::Register(ty, reg));
            }
            Some(count) => {
                for index in 0..count {
                    let reg = self.allocate(ty)?;
                    self.declare(&format!("{name}{index}"), Name::Register(ty, reg));
                }
            }
        }
        Ok(())
    }

    /// A fresh register in the file that holds `ty`.
    fn allocate(&mut self, ty: Ty) -> Lowered<Reg> {
        let sizes = &mut self.kernel.registers;
        let used = match ty {
            Ty::Pred => &mut sizes.preds,
            _ if ty.is_wide() => &mut sizes.wide,
            _ => &mut sizes.narrow,
        };
        let reg = Reg::try_from(*used).map_err(|_| "more registers than this crate can number".to_owned())?;
        *used += 1;
        Ok(reg)
    }

    /// The register that always holds `constant`.
    fn constant(&mut self, constant: Constant) -> Lowered<Reg> {
        if let Some(&reg) = self.constants.get(&constant) {
            return Ok(reg);
        }
        let reg = match constant {
            Constant::Narrow(value) => {
                let reg = self.allocate(Ty::B32)?;
                self.kernel.presets.narrow.push((reg, value));
                reg
            }
            Constant::Wide(value) => {
                let reg = self.allocate(Ty::B64)?;
                self.kernel.presets.wide.push((reg, value));
                reg
            }
            Constant::Pred(value) => {
                let reg = self.allocate(Ty::Pred)?;
                self.kernel.presets.preds.push((reg, value));
                reg
            }
            Constant::Special(special) => {
                let reg = self.allocate(Ty::B32)?;
                self.kernel.presets.specials.push((reg, special));
                reg
            }
            Constant::Scratch(ty) => self.allocate(ty)?,
        };
        self.constants.insert(constant, reg);
        Ok(reg)
    }

    fn instruction(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let guard = match instruction.guard {
            None => None,
            Some(guard) => match self.find(guard.register) {
                Some(Name::Register(Ty::Pred, pred)) => Some(Guard { pred, negated: guard.negated }),
                _ => return Err(format!("`{}` is no predicate", guard.register)),
            },
        };
        let forms = table().lookup(instruction.opcode)?;
        let form = forms
            .iter()
            .find(|form| fits(form, &instruction.operands))
            .ok_or_else(|| misfit(instruction.opcode, forms))?;
        let Arguments { args, uses, .. } = self.arguments(form, &instruction.operands)?;
        if let Some((Space::Shared | Space::Generic, bytes)) = form.access {
            self.granule = self.granule.min(bytes);
        }
        if matches!(form.run, Run::Barrier) {
            let [id, threads] = args.imm;
            if !(0..16).contains(&id) || threads % 32 != 0 || !(0..=1024).contains(&threads) {
                return Err("barriers are 0 to 15, and their thread counts multiples of 32".to_owned());
            }
        }
        self.kernel.code.push(Inst { run: form.run, args, guard });
        self.uses.push(uses);
        let text = self.lines.get(instruction.line as usize - 1).map_or("", |line| line.trim());
        let site = Site { line: instruction.line, position: instruction.position, text: text.to_owned() };
        self.kernel.sites.push(site);
        Ok(())
    }

    fn arguments(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<Arguments> {
        let mut out = Arguments::default();
        out.args.space = form.access.map(|(space, _)| space).unwrap_or_default();
        out.args.order = form.order;
        for (slot, operand) in form.slots.iter().zip(operands) {
            self.operand(*slot, operand, &mut out)?;
        }
        Ok(out)
    }

    fn operand(&mut self, slot: Slot, operand: &Operand<'a>, out: &mut Arguments) -> Lowered<()> {
        match (slot, operand) {
            (Slot::Dst(ty), &Operand::Name(name)) => out.push_written(self.destination(ty, name, false)?),
            (Slot::DstRelaxed(ty), &Operand::Name(name)) => out.push_written(self.destination(ty, name, true)?),
            (Slot::SrcRelaxed(ty), operand) => out.push(self.value(ty, operand, true)?),
            (Slot::Value(ty), &Operand::Name(name)) if matches!(self.find(name), Some(Name::Variable(..))) => {
                out.push(self.address_of(ty, name)?);
            }
            (Slot::Src(ty) | Slot::Value(ty), operand) => out.push(self.value(ty, operand, false)?),
            (Slot::DstVec(ty, _), Operand::Vector(parts)) => self.destinations(ty, parts, false, out)?,
            (Slot::DstVecRelaxed(ty, _), Operand::Vector(parts)) => self.destinations(ty, parts, true, out)?,
            (Slot::SrcVec(ty, _), Operand::Vector(parts)) => {
                for part in parts {
                    out.push(self.value(ty, part, false)?);
                }
            }
            (Slot::SrcVecRelaxed(ty, _), Operand::Vector(parts)) => {
                for part in parts {
                    out.push(self.value(ty, part, true)?);
                }
            }
            (Slot::DstPair(ty), &Operand::Pair(value, pred)) => {
                out.push_written(self.destination(ty, value, false)?);
                out.push_written(self.destination(Ty::Pred, pred, false)?);
            }
            (Slot::SrcNot, &Operand::Not(name)) => {
                out.args.negated = true;
                out.push(self.value(Ty::Pred, &Operand::Name(name), false)?);
            }
            (Slot::SrcNot, operand) => out.push(self.value(Ty::Pred, operand, false)?),
            (Slot::Addr, &Operand::Address { base, offset }) => {
                let (place, offset) = self.address(base, offset, out.args.space)?;
                out.push(place);
                out.integer(offset);
            }
            (Slot::Param(bytes), &Operand::Address { base, offset }) => {
                let Some(Name::Param(param)) = self.find(base) else {
                    return Err(format!("`{base}` is no parameter"));
                };
                if offset < 0 || offset as u64 + u64::from(bytes) > param.bytes as u64 {
                    return Err(format!("outside the {} bytes of parameter `{base}`", param.bytes));
                }
                if !(param.offset as u64 + offset as u64).is_multiple_of(u64::from(bytes)) {
                    return Err("misaligned parameter access".to_owned());
                }
                out.integer(param.offset as i64 + offset);
                out.integer(i64::from(bytes));
            }
            (Slot::Int, &Operand::Literal(Literal::Int { bits, .. })) => out.integer(bits as i64),
            (Slot::Exactly(_), _) => {}
            (Slot::Label, &Operand::Name(name)) => {
                let target = self.labels.get(name).ok_or_else(|| format!("no label `{name}`"))?;
                out.args.target = *target;
            }
            // `fits` has matched shapes already.
            _ => return Err("operand of another kind than the instruction takes".to_owned()),
        }
        Ok(())
    }

    fn destinations(&mut self, ty: Ty, parts: &[Operand<'a>], relaxed: bool, out: &mut Arguments) -> Lowered<()> {
        for part in parts {
            let &Operand::Name(name) = part else {
                return Err("a vector that is written holds registers only".to_owned());
            };
            out.push_written(self.destination(ty, name, relaxed)?);
        }
        Ok(())
    }

    fn destination(&mut self, ty: Ty, name: &str, relaxed: bool) -> Lowered<Place> {
        if name == "_" {
            let file = if ty == Ty::Pred || ty.is_wide() { ty } else { Ty::B32 };
            return Ok(Place::new(ty, self.constant(Constant::Scratch(file))?));
        }
        match self.find(name) {
            Some(Name::Register(register, reg)) => checked(ty, name, register, reg, relaxed),
            _ => Err(format!("`{name}` is no register")),
        }
    }

    fn value(&mut self, ty: Ty, operand: &Operand<'a>, relaxed: bool) -> Lowered<Place> {
        match *operand {
            Operand::Literal(literal) => {
                let constant = literal_of(ty, literal)?;
                Ok(Place::new(ty, self.constant(constant)?))
            }
            Operand::Name(name) => {
                if let Some(special) = Special::parse(name) {
                    let reg = self.constant(Constant::Special(special))?;
                    return checked(ty, name, Ty::U32, reg, relaxed);
                }
                match self.find(name) {
                    Some(Name::Register(register, reg)) => checked(ty, name, register, reg, relaxed),
                    Some(_) => Err(format!("`{name}` is no register; only `mov` and `cvta` take an address")),
                    None if name == "WARP_SZ" && ty.accepts(Ty::U32) => {
                        Ok(Place::new(Ty::U32, self.constant(Constant::Narrow(32))?))
                    }
                    None => Err(format!("unknown name `{name}`")),
                }
            }
            _ => Err("operand of another kind than the instruction takes".to_owned()),
        }
    }

    /// The address of a variable as a value.
    fn address_of(&mut self, ty: Ty, name: &str) -> Lowered<Place> {
        let Some(Name::Variable(space, address)) = self.find(name) else {
            return Err(format!("`{name}` is no variable"));
        };
        let constant = if ty.is_wide() && ty.accepts(Ty::U64) {
            Constant::Wide(address)
        } else if ty.accepts(Ty::U32) && matches!(space, Space::Shared | Space::Local) {
            Constant::Narrow(address as u32)
        } else {
            return Err(format!("a .{} does not hold the address of `{name}`", ty.name()));
        };
        Ok(Place::new(ty, self.constant(constant)?))
    }

    /// Register and offset of an address operand.
    fn address(&mut self, base: &str, offset: i64, space: Space) -> Lowered<(Place, i64)> {
        match self.find(base) {
            Some(Name::Register(Ty::U64 | Ty::S64 | Ty::B64, reg)) => Ok((Place::new(Ty::U64, reg), offset)),
            Some(Name::Register(Ty::U32 | Ty::S32 | Ty::B32, reg)) => Ok((Place::new(Ty::U32, reg), offset)),
            Some(Name::Register(ty, _)) => Err(format!("`{base}` is .{}, which is no address", ty.name())),
            Some(Name::Variable(lives, address)) => {
                if lives != space && !(space == Space::Generic && lives == Space::Global) {
                    return Err(format!("`{base}` is a .{} variable", lives.name()));
                }
                let place = Place::new(Ty::U64, self.constant(Constant::Wide(address))?);
                Ok((place, offset))
            }
            Some(Name::Param(_)) => Err(format!("`{base}` is a parameter")),
            None => Err(format!("unknown name `{base}`")),
        }
    }
}

/// A register and its file.
#[derive(Clone, Copy)]
struct Place {
    reg: Reg,
    file: File,
}

impl Place {
    /// Register `reg` of the file that holds `ty`.
    fn new(ty: Ty, reg: Reg) -> Self {
        let file = match ty {
            Ty::Pred => File::Pred,
            _ if ty.is_wide() => File::Wide,
            _ => File::Narrow,
        };
        Self { reg, file }
    }
}

#[derive(Default)]
struct Arguments {
    args: Args,
    integers: usize,
    uses: Vec<Use>,
}

impl Arguments {
    fn push(&mut self, place: Place) {
        self.enter(place, false);
    }

    fn push_written(&mut self, place: Place) {
        self.enter(place, true);
    }

    fn enter(&mut self, place: Place, written: bool) {
        let operand = self.args.operands;
        self.args.r[operand] = place.reg;
        self.args.wide |= u16::from(place.file == File::Wide) << operand;
        self.args.operands += 1;
        self.uses.push(Use { operand, file: place.file, written });
    }

    fn integer(&mut self, value: i64) {
        self.args.imm[self.integers] = value;
        self.integers += 1;
    }
}

fn checked(ty: Ty, name: &str, register: Ty, reg: Reg, relaxed: bool) -> Lowered<Place> {
    if ty.accepts(register) || (relaxed && ty.accepts_wider(register)) {
        return Ok(Place::new(register, reg));
    }
    Err(format!("`{name}` is .{}, but the instruction takes .{} here", register.name(), ty.name()))
}

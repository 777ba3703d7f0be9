//! What was chosen for a model on a device, in a file.
//!
//! The file is called by its key, which is made of all that a choice follows from; so a table is never out of date. It is text:
//! the format, the SHA-256 of everything that follows, and JSON. What is not as it was written is told of and replaced.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernels::cuda::{DeviceFacts, GemmTile, TunedTile};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::search::{Choice, Size};
use crate::model::MatrixFormat;

const FORMAT: &str = "gemm tiles 2";
const EXTENSION: &str = "tiles";
/// Hexadecimal digits of a key.
const DIGITS: usize = 16;

/// The key of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableKey(String);

/// What a choice of blocks follows from.
#[derive(Clone, Copy, Debug)]
pub struct KeyParts<'a> {
    /// The device, its driver and the compiler.
    pub device: &'a DeviceFacts,
    /// A number of the kernels' code; see [`kernels::cuda::Gemm::code_key`].
    pub code: &'a str,
    /// What the matrices of each product of the model are kept in, its columns, and its depth.
    pub products: &'a [(MatrixFormat, usize, usize)],
    /// The fingerprint of the settings that decided which sizes were measured.
    pub settings: u128,
}

impl TableKey {
    /// The key of these.
    #[must_use]
    pub fn of(parts: KeyParts<'_>) -> Self {
        let KeyParts { device, code, products, settings } = parts;
        let DeviceFacts { name, compute_capability, driver, compiler } = device;
        let mut digest = Sha256::new();
        let mut add = |field: &str| {
            // With its length, so that no two lists of fields are the same bytes.
            digest.update((field.len() as u64).to_le_bytes());
            digest.update(field);
        };
        add(FORMAT);
        add(name);
        add(&format!("{compute_capability:?}"));
        add(&format!("{driver:?}"));
        add(&format!("{compiler:?}"));
        add(code);
        add(&format!("{products:?}"));
        add(&format!("{settings:032x}"));
        // Another list of candidates is another choice.
        add(&format!("{:?}", GemmTile::CANDIDATES));
        let mut text = hex(&digest.finalize());
        text.truncate(DIGITS);
        Self(text)
    }

    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.{EXTENSION}", self.0))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The chosen blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TileTable {
    choices: Vec<Choice>,
}

/// The table as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    key: String,
    /// For a human reader.
    device: String,
    tiles: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    weights: String,
    columns: usize,
    depth: usize,
    rows: usize,
    /// Rows, columns, depth, stages, warps down and across.
    tile: [usize; 6],
    built_in_nanoseconds: u64,
    nanoseconds: u64,
}

impl Entry {
    fn of(choice: &Choice) -> Self {
        let Choice { size: Size { format, columns, depth, rows }, tile, built_in, best } = *choice;
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            weights: format.to_string(),
            columns,
            depth,
            rows,
            tile: [tile.rows, tile.columns, tile.depth, tile.stages, tile.warps_down, tile.warps_across],
            built_in_nanoseconds: nanoseconds(built_in),
            nanoseconds: nanoseconds(best),
        }
    }

    fn choice(&self) -> Result<Choice, String> {
        let [rows, columns, depth, stages, warps_down, warps_across] = self.tile;
        let tile = GemmTile { rows, columns, depth, stages, warps_down, warps_across };
        tile.check().map_err(|error| error.to_string())?;
        let format = MatrixFormat::named(&self.weights);
        let format = format.ok_or_else(|| format!("there are no weights in {}", self.weights))?;
        Ok(Choice {
            size: Size { format, columns: self.columns, depth: self.depth, rows: self.rows },
            tile,
            built_in: Duration::from_nanos(self.built_in_nanoseconds),
            best: Duration::from_nanos(self.nanoseconds),
        })
    }
}

impl TileTable {
    /// A table of these choices; of two for the same size, the later.
    #[must_use]
    pub fn new(choices: impl IntoIterator<Item = Choice>) -> Self {
        let by_size: BTreeMap<_, _> = choices.into_iter().map(|choice| (choice.size, choice)).collect();
        Self { choices: by_size.into_values().collect() }
    }

    /// The choices, in the order of their sizes.
    #[must_use]
    pub fn choices(&self) -> &[Choice] {
        &self.choices
    }

    /// Whether there is a choice for a size.
    #[must_use]
    pub fn has(&self, size: Size) -> bool {
        self.choices.binary_search_by_key(&size, |choice| choice.size).is_ok()
    }

    /// The same for products with matrices of a format.
    #[must_use]
    pub fn tiles(&self, format: MatrixFormat) -> Vec<TunedTile> {
        let tuned = |Choice { size, tile, .. }: &Choice| TunedTile {
            columns: size.columns,
            depth: size.depth,
            rows: size.rows,
            tile: *tile,
        };
        self.choices.iter().filter(|choice| choice.size.format == format).map(tuned).collect()
    }

    /// A number that is another one where a block is, and 0 where there is none. What is captured carries it.
    #[must_use]
    pub fn id(&self) -> u64 {
        if self.choices.is_empty() {
            return 0;
        }
        let blocks: Vec<_> = self.choices.iter().map(|choice| (choice.size, choice.tile)).collect();
        let digest = Sha256::digest(format!("{blocks:?}"));
        let (first, _) = digest.split_at(8);
        first.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    /// Reads the table of this key from a folder; nothing if it is not there, and what is wrong with it if it is not what was
    /// written.
    pub fn read(folder: &Path, key: &TableKey) -> Result<Option<Self>, String> {
        let path = key.path(folder);
        let whole = || {
            // Asked before it is opened: opening a pipe waits for somebody who writes into it.
            if fs::metadata(&path)?.is_file() {
                fs::read_to_string(&path)
            } else {
                Err(io::Error::other("it is no file"))
            }
        };
        let text = match whole() {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(format!("{}: it cannot be read: {error}", path.display())),
        };
        Self::parse(&text, key).map(Some).map_err(|why| format!("{}: {why}", path.display()))
    }

    fn parse(text: &str, key: &TableKey) -> Result<Self, String> {
        let (format, rest) = text.split_once('\n').ok_or("it is cut short")?;
        if format != FORMAT {
            return Err("it is no table of tiles".to_owned());
        }
        let (hash, content) = rest.split_once('\n').ok_or("it is cut short")?;
        if hash != hex(&Sha256::digest(content)) {
            return Err("its hash is not that of its content".to_owned());
        }
        let document: Document = serde_json::from_str(content).map_err(|error| error.to_string())?;
        if document.key != key.0 {
            return Err("it is another's table".to_owned());
        }
        Ok(Self::new(document.tiles.iter().map(Entry::choice).collect::<Result<Vec<_>, _>>()?))
    }

    /// Writes the table into a folder, which is made if it is not there. A reader sees it whole or not at all, whoever else writes
    /// it at the same time. Its path.
    pub fn write(&self, folder: &Path, key: &TableKey, device: &DeviceFacts) -> io::Result<PathBuf> {
        if !folder.is_dir() {
            // As the cache of kernels makes it.
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let DeviceFacts { name, compute_capability: (major, minor), driver, compiler } = device;
        let compiler = compiler.as_deref().unwrap_or("none");
        let document = Document {
            key: key.0.clone(),
            device: format!(
                "{name}, compute capability {major}.{minor}, CUDA {}.{}, NVRTC {compiler}",
                driver.0, driver.1
            ),
            tiles: self.choices.iter().map(Entry::of).collect(),
        };
        let mut content = serde_json::to_string_pretty(&document)?;
        content.push('\n');
        // Who may read the folder may read the table, as it is with kernels.
        let readable = Permissions::from_mode(0o644);
        let mut scratch = tempfile::Builder::new().suffix(".partial").permissions(readable).tempfile_in(folder)?;
        write!(scratch, "{FORMAT}\n{}\n{content}", hex(&Sha256::digest(&content)))?;
        let path = key.path(folder);
        scratch.persist(&path).map_err(|failed| failed.error)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use kernels::cuda::BlockFormat;

    use super::*;

    fn device() -> DeviceFacts {
        DeviceFacts {
            name: "a device".to_owned(),
            compute_capability: (9, 0),
            driver: (13, 0),
            compiler: Some("13.0.88".to_owned()),
        }
    }

    const BF16: MatrixFormat = MatrixFormat::Bf16;
    const Q8_0: MatrixFormat = MatrixFormat::Blocks(BlockFormat::Q8_0);
    const PRODUCTS: [(MatrixFormat, usize, usize); 2] = [(BF16, 96, 64), (BF16, 64, 96)];

    fn key_of(device: &DeviceFacts, change: impl FnOnce(&mut KeyParts<'_>)) -> TableKey {
        let mut parts = KeyParts { device, code: "code", products: &PRODUCTS, settings: 7 };
        change(&mut parts);
        TableKey::of(parts)
    }

    fn key() -> TableKey {
        key_of(&device(), |_| ())
    }

    fn choice(columns: usize, rows: usize, tile: GemmTile) -> Choice {
        let size = Size { format: BF16, columns, depth: 64, rows };
        Choice { size, tile, built_in: Duration::from_nanos(20), best: Duration::from_nanos(10) }
    }

    /// Of a size that is there in bf16, too.
    fn in_blocks() -> Choice {
        let bf16 = choice(96, 16, GemmTile::NARROW);
        Choice { size: Size { format: Q8_0, ..bf16.size }, ..bf16 }
    }

    fn table() -> TileTable {
        let [some, few, many] = [(96, 16, GemmTile::SOME), (8, 16, GemmTile::FEW), (96, 1, GemmTile::MANY)]
            .map(|(columns, rows, tile)| choice(columns, rows, tile));
        TileTable::new([some, in_blocks(), few, many])
    }

    #[test]
    fn everything_that_decides_a_choice_decides_the_key() {
        let base = key();
        assert_eq!(base, key());
        assert_eq!(base.0.len(), 16);
        let of_device = |change: fn(&mut DeviceFacts)| {
            let mut other = device();
            change(&mut other);
            key_of(&other, |_| ())
        };
        let others = [
            of_device(|device| device.name.push('2')),
            of_device(|device| device.compute_capability.0 = 10),
            of_device(|device| device.compute_capability.1 = 3),
            of_device(|device| device.driver.1 = 1),
            of_device(|device| device.compiler = Some("13.0.89".to_owned())),
            of_device(|device| device.compiler = None),
            key_of(&device(), |parts| parts.code = "other"),
            key_of(&device(), |parts| parts.products = &[(BF16, 96, 64)]),
            key_of(&device(), |parts| parts.products = &[(BF16, 96, 64), (BF16, 64, 104)]),
            key_of(&device(), |parts| parts.products = &[(BF16, 96, 64), (Q8_0, 64, 96)]),
            key_of(&device(), |parts| parts.settings = 8),
        ];
        for (index, other) in others.iter().enumerate() {
            assert!(*other != base && !others[..index].contains(other), "{index}");
        }
    }

    #[test]
    fn a_table_gives_back_what_was_written_and_every_damage_is_noticed() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("made/when/needed");
        assert_eq!(TileTable::read(&folder, &key()), Ok(None));
        let path = table().write(&folder, &key(), &device()).unwrap();
        assert_eq!(TileTable::read(&folder, &key()), Ok(Some(table())));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&path) & 0o700), (0o700, 0o600));
        // Again, over what is there.
        TileTable::default().write(&folder, &key(), &device()).unwrap();
        assert_eq!(TileTable::read(&folder, &key()), Ok(Some(TileTable::default())));

        table().write(&folder, &key(), &device()).unwrap();
        let whole = fs::read_to_string(&path).unwrap();
        assert_eq!(TileTable::parse(&whole, &key()), Ok(table()));
        for length in 0..whole.len() {
            assert!(TileTable::parse(&whole[..length], &key()).is_err(), "cut to {length} bytes");
        }
        for place in 0..whole.len() {
            let mut flipped = whole.clone().into_bytes();
            flipped[place] ^= 1;
            let flipped = String::from_utf8(flipped).unwrap();
            assert!(TileTable::parse(&flipped, &key()).is_err(), "byte {place} flipped");
        }
        let other = key_of(&device(), |parts| parts.settings = 8);
        assert_eq!(TileTable::parse(&whole, &other), Err("it is another's table".to_owned()));
        fs::write(&path, [0xff, 0xfe]).unwrap();
        let why = TileTable::read(&folder, &key()).unwrap_err();
        assert!(why.contains(&path.display().to_string()), "{why}");
    }

    /// As it is with compiled kernels: who has opened a table reads what was there, whoever writes another.
    #[test]
    fn a_reader_sees_a_table_whole_whoever_writes_it_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = table().write(folder.path(), &key(), &device()).unwrap();
        let before = fs::read_to_string(&path).unwrap();
        let reader = fs::File::open(&path).unwrap();
        TileTable::default().write(folder.path(), &key(), &device()).unwrap();
        assert_eq!(io::read_to_string(reader).unwrap(), before);
        assert_eq!(TileTable::read(folder.path(), &key()), Ok(Some(TileTable::default())));
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("mkfifo").arg(key().path(folder.path())).status();
        assert!(made.unwrap().success());
        let why = TileTable::read(folder.path(), &key()).unwrap_err();
        assert!(why.ends_with("it cannot be read: it is no file"), "{why}");
    }

    /// A table of a version with other blocks, which wrote it correctly.
    #[test]
    fn blocks_that_no_kernel_has_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let odd = GemmTile { rows: 48, ..GemmTile::SOME };
        TileTable::new([choice(96, 16, odd)]).write(folder.path(), &key(), &device()).unwrap();
        let why = TileTable::read(folder.path(), &key()).unwrap_err();
        assert!(why.contains("rows of a block is 48"), "{why}");
    }

    #[test]
    fn the_number_of_a_table_follows_its_blocks_alone() {
        let id = table().id();
        let slower = TileTable::new(table().choices.iter().map(|choice| Choice { best: choice.built_in, ..*choice }));
        assert_eq!(slower.id(), id);
        let choices = table().choices;
        let other = Choice { tile: GemmTile::NARROW, ..choices[0] };
        let of = |first: &[Choice]| TileTable::new(first.iter().chain(&choices[1..]).copied()).id();
        assert_eq!(of(&choices[..1]), id);
        assert_ne!(of(&[other]), id);
        assert_ne!(of(&[]), id);
        assert_eq!(TileTable::default().id(), 0);
    }

    #[test]
    fn products_get_the_blocks_that_were_measured_with_their_format() {
        let rows = |format| table().tiles(format).iter().map(|tuned| tuned.rows).collect::<Vec<_>>();
        assert_eq!((rows(BF16), rows(Q8_0)), (vec![16, 1, 16], vec![16]));
        assert_eq!(table().tiles(Q8_0)[0].tile, GemmTile::NARROW);
        assert!(rows(MatrixFormat::Blocks(BlockFormat::Q4_0)).is_empty());
    }

    #[test]
    fn weights_that_are_unknown_are_refused() {
        let entry = Entry { weights: "Q5_0".to_owned(), ..Entry::of(&in_blocks()) };
        assert_eq!(entry.choice(), Err("there are no weights in Q5_0".to_owned()));
    }

    #[test]
    fn the_later_of_two_choices_counts() {
        let newer = choice(96, 16, GemmTile::NARROW);
        let both = TileTable::new(table().choices().iter().copied().chain([newer]));
        assert_eq!(both.choices().len(), 4);
        assert!(both.choices().contains(&newer) && both.has(newer.size));
        assert!(!both.has(Size { rows: 17, ..newer.size }));
    }
}

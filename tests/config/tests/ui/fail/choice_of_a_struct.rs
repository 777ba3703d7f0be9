use kitbag::ConfigChoice;

#[derive(Clone, Copy, Debug, PartialEq, ConfigChoice)]
struct Device;

#[derive(Clone, Copy, Debug, PartialEq, ConfigChoice)]
enum Format {
    Json,
    #[config(name = "json")]
    Lines,
}

fn main() {}

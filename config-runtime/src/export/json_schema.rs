//! JSON Schema of the file format.

use super::json::{Json, Object};
use super::range::Bounds;
use super::tree::{Entry, Former, Node, Successor, Unless, deprecation, paragraphs};
use crate::leaf::Shape;
use crate::schema::ConfigNamespaces;
use crate::source::file::{IF_PRESENT, INCLUDE, PROFILE, SCHEMA};

/// A JSON Schema (2020-12) of configuration files, for editors and for checks before a deployment.
///
/// A file that the loader reads is valid. The other way round the schema says less than the program checks: cross-field
/// rules, ranges that are not written with plain numbers, and how large a duration or size in words may be. No leaf is
/// `required`, since another source may give it.
///
/// ```
/// # use kitbag::ConfigNamespaces;
/// /// Thumbnail service.
/// #[derive(ConfigNamespaces)]
/// struct Args {
///     /// Jobs that may wait.
///     #[config(ns = "pool", default = 32, range = 1..=4096)]
///     queue: usize,
/// }
/// let schema = kitbag::export::json_schema::<Args>();
/// assert!(schema.contains(r#""$schema": "https://json-schema.org/draft/2020-12/schema""#));
/// assert!(schema.contains(r#""maximum": 4096"#));
/// ```
#[must_use]
pub fn json_schema<S: ConfigNamespaces>() -> String {
    let root = Node::of::<S>();
    let mut document = vec![member("$schema", Json::text("https://json-schema.org/draft/2020-12/schema"))];
    let Described { description, mut properties } = described(&root);
    // What a profile may hold: the same settings, and none of the keys beside them.
    let settings = properties.iter().map(|(name, _)| (name.clone(), reference(&format!("#/properties/{name}"))));
    let profile = object(None, settings.collect());
    properties.extend([
        member(SCHEMA, Json::Object(schema())),
        member(INCLUDE, Json::Object(include())),
        member(PROFILE, Json::Object(profiles())),
    ]);
    document.extend(object(description, properties));
    document.push(member("$defs", Json::Object(vec![member(PROFILE, Json::Object(profile))])));
    Json::Object(document).pretty()
}

/// What editors put into a file.
fn schema() -> Object {
    vec![
        member("description", Json::text("Where editors find the schema of this file; it sets nothing.")),
        member("type", Json::text("string")),
    ]
}

/// Files that rank below the one that names them.
fn include() -> Object {
    let name =
        || Json::Object(vec![member("type", Json::text("string")), member("minLength", Json::Scalar("1".to_owned()))]);
    let if_present = || {
        let mut object = object(None, vec![member(IF_PRESENT, name())]);
        object.push(member("required", Json::List(vec![Json::text(IF_PRESENT)])));
        Json::Object(object)
    };
    let file = || vec![name(), if_present()];
    let any = Json::Object(vec![member("anyOf", Json::List(file()))]);
    let list = Json::Object(vec![member("type", Json::text("array")), member("items", any)]);
    let description = "Files to read before this one, relative to it; what this one sets wins. One that need not be there \
                       is a table with its name as `if_present`.";
    vec![
        member("description", Json::text(description)),
        member("anyOf", Json::List(file().into_iter().chain([list]).collect())),
    ]
}

fn profiles() -> Object {
    vec![
        member(
            "description",
            Json::text("Settings by profile; those of the chosen one win over the rest of the file."),
        ),
        member("type", Json::text("object")),
        member("additionalProperties", reference(&format!("#/$defs/{PROFILE}"))),
    ]
}

fn reference(to: &str) -> Json {
    Json::Object(vec![member("$ref", Json::text(to))])
}

fn member(key: &str, value: Json) -> (String, Json) {
    (key.to_owned(), value)
}

fn namespace(node: &Node) -> Object {
    let Described { description, properties } = described(node);
    object(description, properties)
}

/// A table with these keys and no others.
fn object(description: Option<Json>, properties: Object) -> Object {
    let mut object: Object = description.map(|description| member("description", description)).into_iter().collect();
    object.extend([
        member("type", Json::text("object")),
        member("properties", Json::Object(properties)),
        member("additionalProperties", Json::bool(false)),
    ]);
    object
}

/// What a namespace is for, and what it holds.
struct Described {
    description: Option<Json>,
    properties: Object,
}

fn described(node: &Node) -> Described {
    let leaves = node.in_files().map(|entry| member(entry.info.name, Json::Object(leaf(entry))));
    let former = node.former.iter().filter_map(former);
    let children = node.children.iter().map(|child| member(child.name(), Json::Object(namespace(child))));
    let description = (!node.doc.is_empty()).then(|| Json::text(&paragraphs(node.doc).join("\n\n")));
    Described { description, properties: leaves.chain(former).chain(children).collect() }
}

fn leaf(entry: &Entry) -> Object {
    let bounds = entry.bounds();
    let mut description = paragraphs(entry.info.doc);
    if let (None, Some(range)) = (&bounds, entry.info.accepted_range()) {
        description.push(format!("Range: `{range}`."));
    }
    description.extend(entry.deprecation().map(|deprecation| format!("This setting is {deprecation}.")));
    let mut object = vec![member("description", Json::text(&description.join("\n\n")))];
    object.extend(value(&entry.shape(), bounds.as_ref()));
    if let Unless::Value(default) = entry.unless_set() {
        object.push(member("default", Json::of(&default)));
    }
    if entry.info.deprecated.is_some() {
        object.push(member("deprecated", Json::bool(true)));
    }
    if entry.is_secret() {
        object.push(member("writeOnly", Json::bool(true)));
    }
    object
}

/// A name that is still read. One that is refused is left out.
fn former(former: &Former) -> Option<(String, Json)> {
    let Successor::Leaf { path, shape, deprecated, in_files: true } = &former.now else { return None };
    let deprecated = deprecated.map(|deprecated| format!("; {}", deprecation(deprecated))).unwrap_or_default();
    let description = format!("Now `{path}`{deprecated}.");
    let mut object = vec![member("description", Json::text(&description))];
    object.extend(value(shape, None));
    object.push(member("deprecated", Json::bool(true)));
    Some(member(former.name(), Json::Object(object)))
}

/// The keywords that describe a value. `bounds` are those of the number in it.
fn value(shape: &Shape, bounds: Option<&Bounds>) -> Object {
    let of_type = |name| member("type", Json::text(name));
    let nested = |shape: &Shape| Json::Object(value(shape, bounds));
    match shape {
        Shape::Any => Vec::new(),
        Shape::Bool => vec![of_type("boolean")],
        Shape::Integer { min, max } => {
            let (min, max) = bounds.and_then(|bounds| bounds.integers(*min, *max)).unwrap_or((*min, *max));
            let end = |keyword, end: i128| member(keyword, Json::Scalar(end.to_string()));
            vec![of_type("integer"), end("minimum", min), end("maximum", max)]
        }
        Shape::Number => {
            let ends = bounds.map(Bounds::numbers).unwrap_or_default();
            let ends = ends.into_iter().map(|(keyword, end)| member(keyword, Json::Scalar(format!("{end:?}"))));
            std::iter::once(of_type("number")).chain(ends).collect()
        }
        Shape::Text { pattern, .. } => {
            let pattern = pattern.map(|pattern| member("pattern", Json::text(pattern)));
            std::iter::once(of_type("string")).chain(pattern).collect()
        }
        Shape::Choice(names) => vec![member("enum", Json::texts(names))],
        Shape::AnyOf(shapes) => vec![member("anyOf", Json::List(shapes.iter().map(nested).collect()))],
        // Without a shape of its own the value may already be nothing.
        Shape::Optional(inner) if **inner == Shape::Any => Vec::new(),
        Shape::Optional(inner) => {
            let none = Json::Object(vec![member("enum", Json::List(vec![Json::text(""), Json::null()]))]);
            vec![member("anyOf", Json::List(vec![nested(inner), none]))]
        }
        Shape::List(inner) => vec![of_type("array"), member("items", nested(inner))],
        Shape::Map(inner) => vec![of_type("object"), member("additionalProperties", nested(inner))],
    }
}

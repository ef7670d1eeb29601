//! Profiles as their receivers decode them: OpenTelemetry's by the published definitions, pprof's
//! by the messages of its `profile.proto`.

use super::receiver::Request;
use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::profiles::v1development::{
    Function, KeyValueAndUnit, Link, Location, Mapping, ProfilesDictionary, Stack,
};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) system_name: String,
    pub(super) file: String,
    pub(super) line: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Frame {
    pub(super) address: u64,
    /// Start, limit, offset and file.
    mapping: (u64, u64, u64, String),
    pub(super) lines: Vec<Line>,
}

/// A profile as far as both formats have it.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    /// Names and units, in the order of the format.
    pub(super) sample_types: Vec<(String, String)>,
    /// Values other than 0 by sample type and stack.
    pub(super) values: BTreeMap<String, BTreeMap<Vec<Frame>, i64>>,
    /// Start and duration in nanoseconds, and the mean bytes from one sample to the next.
    pub(super) times: [u64; 3],
    pub(super) comments: Vec<String>,
    pub(super) attributes: HashMap<String, String>,
}

fn unzipped(bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut whole).expect("gzip");
    whole
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    of: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct PprofSample {
    #[prost(uint64, repeated, tag = "1")]
    locations: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    values: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct PprofMapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    start: u64,
    #[prost(uint64, tag = "3")]
    limit: u64,
    #[prost(uint64, tag = "4")]
    offset: u64,
    #[prost(int64, tag = "5")]
    file: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
struct PprofLine {
    #[prost(uint64, tag = "1")]
    function: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct PprofLocation {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    lines: Vec<PprofLine>,
}

#[derive(Clone, PartialEq, Message)]
struct PprofFunction {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    file: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Pprof {
    #[prost(message, repeated, tag = "1")]
    sample_types: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<PprofSample>,
    #[prost(message, repeated, tag = "3")]
    mappings: Vec<PprofMapping>,
    #[prost(message, repeated, tag = "4")]
    locations: Vec<PprofLocation>,
    #[prost(message, repeated, tag = "5")]
    functions: Vec<PprofFunction>,
    #[prost(string, repeated, tag = "6")]
    strings: Vec<String>,
    #[prost(int64, tag = "9")]
    started: i64,
    #[prost(int64, tag = "10")]
    duration: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comments: Vec<i64>,
}

/// Decodes a file of pprof.
pub(super) fn of_pprof(bytes: &[u8]) -> Decoded {
    let pprof = Pprof::decode(&*unzipped(bytes)).expect("pprof");
    let string = |number: i64| pprof.strings[number as usize].clone();
    let frame = |id: &u64| {
        let location = pprof.locations.iter().find(|it| it.id == *id).expect("a location");
        let mapping = pprof.mappings.iter().find(|it| it.id == location.mapping);
        assert!(mapping.is_none_or(|it| it.has_functions), "pprof need not look for names");
        let lines = location.lines.iter().map(|line| {
            let of = pprof.functions.iter().find(|it| it.id == line.function).expect("a function");
            let [name, system_name, file] = [of.name, of.system_name, of.file].map(string);
            Line { name, system_name, file, line: line.line }
        });
        let mapping =
            mapping.map(|it| (it.start, it.limit, it.offset, string(it.file))).unwrap_or_default();
        Frame { address: location.address, mapping, lines: lines.collect() }
    };
    let period = pprof.period_type.as_ref().expect("the period's type");
    assert_eq!([period.of, period.unit].map(string), ["space", "bytes"]);
    let mut decoded = Decoded {
        times: [pprof.started, pprof.duration, pprof.period].map(|it| it as u64),
        comments: pprof.comments.iter().map(|it| string(*it)).collect(),
        ..Decoded::default()
    };
    for (value, kind) in pprof.sample_types.iter().enumerate() {
        decoded.sample_types.push((string(kind.of), string(kind.unit)));
        let values = decoded.values.entry(string(kind.of)).or_default();
        for sample in pprof.samples.iter().filter(|it| it.values[value] != 0) {
            let stack = sample.locations.iter().map(frame).collect();
            *values.entry(stack).or_default() += sample.values[value];
        }
    }
    decoded
}

fn text(value: &Value) -> String {
    match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(is) => is.to_string(),
        Value::ArrayValue(list) => {
            let values = list.values.iter().map(|it| text(it.value.as_ref().expect("a value")));
            values.collect::<Vec<_>>().join("\n")
        }
        other => panic!("{other:?}"),
    }
}

/// Decodes a request, and checks what its definition asks of the tables.
pub(super) fn of_otlp(request: &Request) -> Decoded {
    assert_eq!(request.header("content-encoding"), "gzip");
    let request = ExportProfilesServiceRequest::decode(&*unzipped(&request.body)).expect("OTLP");
    let tables = request.dictionary.expect("the dictionary");
    check_tables(&tables);
    let [resource] = &request.resource_profiles[..] else { panic!("one resource") };
    let [scope] = &resource.scope_profiles[..] else { panic!("one scope") };
    assert_eq!(scope.scope.as_ref().expect("a scope").name, "quarry");
    let mut decoded = Decoded::default();
    for attribute in &resource.resource.as_ref().expect("a resource").attributes {
        let value = attribute.value.as_ref().and_then(|it| it.value.as_ref());
        decoded.attributes.insert(attribute.key.clone(), text(value.expect("a value")));
    }
    let string = |number: i32| tables.string_table[number as usize].clone();
    for profile in &scope.profiles {
        let kind = profile.sample_type.as_ref().expect("a type");
        let (name, unit) = (string(kind.type_strindex), string(kind.unit_strindex));
        let period = profile.period_type.as_ref().expect("the period's type");
        assert_eq!([period.type_strindex, period.unit_strindex].map(string), ["space", "bytes"]);
        decoded.times = [profile.time_unix_nano, profile.duration_nano, profile.period as u64];
        let of_profile = attributes(&tables, &profile.attribute_indices);
        decoded.comments = vec![of_profile["pprof.profile.comment"].clone()];
        let mut values = BTreeMap::new();
        for sample in &profile.samples {
            let [value] = sample.values[..] else { panic!("a value for each sample") };
            let stack = &tables.stack_table[sample.stack_index as usize];
            let stack = stack.location_indices.iter().map(|it| frame(&tables, *it)).collect();
            assert_eq!(values.insert(stack, value), None, "a stack has one sample");
        }
        decoded.sample_types.push((name.clone(), unit));
        assert!(decoded.values.insert(name, values).is_none(), "each sample type once");
    }
    decoded
}

/// Entry 0 of each table is empty, and no entry is there twice.
fn check_tables(tables: &ProfilesDictionary) {
    assert_eq!(tables.mapping_table[0], Mapping::default());
    assert_eq!(tables.location_table[0], Location::default());
    assert_eq!(tables.function_table[0], Function::default());
    assert_eq!(tables.link_table, [Link::default()]);
    assert_eq!(tables.attribute_table[0], KeyValueAndUnit::default());
    assert_eq!(tables.stack_table[0], Stack::default());
    assert_eq!(tables.string_table[0], "");
    let strings: BTreeSet<_> = tables.string_table.iter().collect();
    assert_eq!(strings.len(), tables.string_table.len());
    let stacks: BTreeSet<_> = tables.stack_table.iter().map(|it| &it.location_indices).collect();
    assert_eq!(stacks.len(), tables.stack_table.len());
    let functions: BTreeSet<_> = tables.function_table.iter().map(Message::encode_to_vec).collect();
    assert_eq!(functions.len(), tables.function_table.len());
}

fn attributes(tables: &ProfilesDictionary, numbers: &[i32]) -> HashMap<String, String> {
    let attribute = |number: &i32| {
        let KeyValueAndUnit { key_strindex, value, .. } = &tables.attribute_table[*number as usize];
        let value = value.as_ref().and_then(|it| it.value.as_ref()).expect("a value");
        (tables.string_table[*key_strindex as usize].clone(), text(value))
    };
    numbers.iter().map(attribute).collect()
}

fn frame(tables: &ProfilesDictionary, location: i32) -> Frame {
    let string = |number: i32| tables.string_table[number as usize].clone();
    assert_ne!(location, 0, "a location");
    let location = &tables.location_table[location as usize];
    let mapping = &tables.mapping_table[location.mapping_index as usize];
    if location.mapping_index != 0 {
        assert_eq!(
            attributes(tables, &mapping.attribute_indices)["pprof.mapping.has_functions"],
            "true"
        );
        assert_eq!(attributes(tables, &location.attribute_indices)["profile.frame.type"], "native");
    }
    let lines = location.lines.iter().map(|line| {
        assert_ne!(line.function_index, 0, "a function");
        let of = &tables.function_table[line.function_index as usize];
        let names = [of.name_strindex, of.system_name_strindex, of.filename_strindex].map(string);
        let [name, system_name, file] = names;
        Line { name, system_name, file, line: line.line }
    });
    let Mapping { memory_start, memory_limit, file_offset, filename_strindex, .. } = mapping;
    let file = string(*filename_strindex);
    let mapping = (*memory_start, *memory_limit, *file_offset, file);
    Frame { address: location.address, mapping, lines: lines.collect() }
}

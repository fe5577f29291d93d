//! A small file of each format, malformed files, and arbitrary bytes.

use super::*;
use proptest::prelude::*;

fn read_as(name: &str, bytes: impl AsRef<[u8]>, options: &Options) -> Result<Requests, String> {
    parse(Path::new(name), bytes.as_ref(), options)
}

fn read(name: &str, bytes: impl AsRef<[u8]>) -> Requests {
    read_as(name, bytes, &Options::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn error(name: &str, bytes: impl AsRef<[u8]>) -> String {
    read_as(name, bytes, &Options::default()).unwrap_err()
}

/// File, first page, pages, and `r`, `w`, or `W` of a write that keeps some of its first or last page.
fn shown(requests: &Requests) -> Vec<String> {
    let kind = |kind: &Kind| match kind {
        Kind::Read => 'r',
        Kind::Write {
            keeps_first: false,
            keeps_last: false,
        } => 'w',
        Kind::Write { .. } => 'W',
    };
    let all = requests.requests.iter();
    all.map(|r| format!("{}:{}+{}{}", r.file, r.page, r.pages, kind(&r.kind)))
        .collect()
}

fn oracle(records: &[(u64, u32)]) -> Vec<u8> {
    let record = |&(id, size): &(u64, u32)| {
        let mut bytes = 7_u32.to_le_bytes().to_vec();
        bytes.extend(id.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend((-1_i64).to_le_bytes());
        bytes
    };
    records.iter().flat_map(record).collect()
}

#[test]
fn page_numbers_are_pages() {
    let pages: Vec<u8> = [7_u32, 3, 7].iter().flat_map(|page| page.to_le_bytes()).collect();
    assert_eq!(shown(&read("a.u32", pages)), ["0:7+1r", "0:3+1r", "0:7+1r"]);
    let text = read("a.txt", "# pages\n7\n\n0x10\r\n7");
    assert_eq!(
        (text.format, shown(&text)),
        (
            Format::Pages,
            ["0:7+1r", "0:16+1r", "0:7+1r"].map(String::from).to_vec()
        )
    );
    assert_eq!(
        error("a.u32", [0; 5]),
        "5 bytes are no whole number of page numbers of 4 bytes"
    );
    assert_eq!(
        error("a.txt", "1\n2\nx3\n"),
        "line 3: the page is `x3`, which is no number below 2^64"
    );
}

#[test]
fn objects_of_oracle_general_are_pages_unless_they_are_addresses() {
    let bytes = oracle(&[(u64::MAX, 100), (8, 8192), (u64::MAX, 1)]);
    let objects = read("a.oracleGeneral.bin", &bytes);
    assert_eq!(shown(&objects), ["0:0+1r", "0:1+1r", "0:0+1r"]);
    assert!(
        objects.notes[0].starts_with("objects are pages in the order"),
        "{:?}",
        objects.notes
    );
    let options = Options {
        ids: Some(Ids::Sector),
        ..Options::default()
    };
    let error = read_as("a.oracleGeneral", &bytes, &options).unwrap_err();
    assert_eq!(
        error,
        "record 0: sector 18446744073709551615 is beyond 2^64 bytes"
    );
    let sectors = read_as("a.oracleGeneral", oracle(&[(8, 8192)]), &options).unwrap();
    assert_eq!(shown(&sectors), ["0:1+2r"]);
}

#[test]
fn cambridge_traces_have_a_file_for_each_disk() {
    let trace = read(
        "usr_0.csv",
        "128166372003061629,usr,0,Read,8192,4096,41286\n128166372016853766,usr,1,Write,0,6144,1963\n",
    );
    assert_eq!(
        (trace.format, shown(&trace)),
        (Format::Msr, ["0:2+1r", "1:0+2W"].map(String::from).to_vec())
    );
    assert_eq!(trace.files, [3, 2]);
    assert_eq!(
        error("usr_0.csv", "1,usr,0,Read,0,1,1\n1,usr,0,Erase,0,1,1"),
        "line 2: the type is `Erase`: must be Read or Write"
    );
    assert_eq!(
        error("usr_0.csv", "1,usr,0,Read,0,1,1\n1,usr,0"),
        "line 2: 3 fields, a record has 7"
    );
}

const EVENTS: &str = "\
  8,0    3        1     0.000000000   697  Q   R 16 + 8 [kjournald]
  8,0    3        2     0.000001829   697  G   R 16 + 8 [kjournald]
  8,0    3        3     0.000002197   697  P   N [kjournald]
  8,0    3        4     0.000005533   697  D   R 16 + 8 [kjournald]
  8,16   3        5     0.000010000   697  Q  WS 1 + 2 [kjournald]
  8,0    0        1     0.000010100     0  m   N cfq697 dispatch
  8,0    3        6     0.000010200   697  Q FN [kjournald]
  8,0    3        7     0.000010300   697  C   R 16 + 8 [0]
CPU0 (8,0):
 Reads Queued:           1,        4KiB  Writes Queued:           1,        1KiB
Total (8,0):
";

#[test]
fn of_blkparse_each_request_counts_once() {
    let trace = read("sda.txt", EVENTS);
    assert_eq!(
        (trace.format, shown(&trace)),
        (Format::Blkparse, ["0:2+1r", "1:0+1W"].map(String::from).to_vec())
    );
    assert_eq!(trace.notes, ["left out: 1 requests that neither read nor write"]);
    let issued: String = EVENTS
        .lines()
        .filter(|line| !line.contains(" Q "))
        .map(|line| line.to_owned() + "\n")
        .collect();
    assert_eq!(shown(&read("sda.txt", issued)), ["0:2+1r"]);
    assert_eq!(
        error("sda.blkparse", "8,0 3 1 0.0 697 G R 16 + 8 [x]"),
        "no event is of a request that is queued, issued or done"
    );
    assert_eq!(
        error("sda.blkparse", "8,0 3 1 0.0 697 Q R x + 8 [x]"),
        "line 1: the sector is `x`, which is no number below 2^64"
    );
    assert_eq!(
        error("sda.blkparse", format!("what is this\n{EVENTS}")),
        "line 1: `what is this` is no event"
    );
}

#[test]
fn a_file_that_says_nothing_of_itself_is_refused_unless_told() {
    let error = error("a.bin", oracle(&[(1, 1)]));
    assert!(
        error.contains("neither its name nor its content say which of these it is: u32, pages"),
        "{error}"
    );
    let options = Options {
        format: Some(Format::OracleGeneral),
        ..Options::default()
    };
    assert_eq!(
        read_as("a.bin", oracle(&[(1, 1)]), &options)
            .unwrap()
            .requests
            .len(),
        1
    );
    for format in Format::ALL {
        assert_eq!(format.name().parse::<Format>().unwrap(), format);
    }
}

#[test]
fn pages_have_the_size_that_is_asked_for() {
    let options = Options {
        page_size: PageSize::from_bytes(16384).unwrap(),
        ..Options::default()
    };
    let trace = read_as("usr.csv", "1,usr,0,Read,8192,16384,1\n", &options).unwrap();
    assert_eq!(shown(&trace), ["0:0+2r"]);
}

/// Something like a line of some format, with numbers that may be anything.
fn line() -> impl Strategy<Value = String> {
    let number = prop_oneof![Just(0), Just(u64::MAX), 0..1_u64 << 20, any::<u64>()];
    let word = prop_oneof![
        Just("Read"),
        Just("write"),
        Just("W"),
        Just("Q"),
        Just("x"),
        Just("é"),
        Just("")
    ];
    (0..6_u8, number.clone(), number, word).prop_map(|(kind, a, b, word)| match kind {
        0 => format!("1,usr,0,{word},{a},{b},1"),
        1 => format!("8,{} 0 1 0.0 1 {word} {word} {a} + {b} [x]", a % 20),
        2 => format!("{word} read {a} {b}"),
        3 => format!("{a}"),
        4 => format!("{word},{a},{b}"),
        _ => word.to_owned(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_are_a_trace_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        lines in prop::collection::vec(line(), 0..12),
    ) {
        let text = lines.join("\n").into_bytes();
        for bytes in [bytes, text] {
            for format in Format::ALL.into_iter().map(Some).chain([None]) {
                for ids in [None, Some(Ids::Sector), Some(Ids::Byte)] {
                    let options = Options { format, ids, ..Options::default() };
                    if let Ok(trace) = read_as("any", &bytes, &options) {
                        let pages: u64 = trace.requests.iter().map(|request| u64::from(request.pages)).sum();
                        // A request may have a GiB: no time for that here.
                        if pages < 100_000 {
                            prop_assert_eq!(trace.uses().len() as u64, pages);
                        }
                        for request in &trace.requests {
                            prop_assert!(request.page + u64::from(request.pages) <= trace.files[request.file as usize]);
                        }
                    }
                }
            }
        }
    }
}

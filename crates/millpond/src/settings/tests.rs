use super::*;
use millpond_core::memory::watermark::WatermarkRule;
use millpond_core::units::Ratio;
use proptest::prelude::*;

fn settings() -> Settings {
    Settings {
        options: Options::default(),
        memory: Memory::Fixed(Bytes::from_mib(64)),
    }
}

fn set(settings: &Settings, pairs: &[(&str, &str)]) -> std::result::Result<Settings, String> {
    let mut new = settings.clone();
    let taken = new.set_all(pairs).map_err(|e| e.to_string())?;
    assert_eq!(taken.len(), pairs.len());
    new.options.check().map_err(|e| e.to_string())?;
    Ok(new)
}

/// All that applies, as it would be typed.
fn list(settings: &Settings) -> Vec<(&'static str, String)> {
    let value = |s: &'static Setting| settings.value(s).map(|v| (s.name, v.to_string()));
    SETTINGS.iter().filter_map(value).collect()
}

#[test]
fn every_setting_has_a_name_of_its_own_and_a_default_in_its_range() {
    let mut names: Vec<_> = names().collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), SETTINGS.len());
    for setting in &SETTINGS[1..] {
        let default = setting.default_value().expect(setting.name).to_string();
        let mut pairs = Vec::new();
        if let Some((choice, forms)) = setting.of {
            assert!(find(choice).is_ok(), "{choice}");
            pairs.push((choice, forms[0]));
        }
        pairs.push((setting.name, &default));
        let by_value = set(&settings(), &pairs).expect(setting.name);
        pairs.pop();
        pairs.push((setting.name, "default"));
        assert_eq!(set(&settings(), &pairs), Ok(by_value), "{}", setting.name);
    }
}

#[test]
fn a_range_is_shown_as_it_is_typed() {
    for (name, said) in [
        (
            "memory",
            "about 1M to what the machine and the memory limit of its group have",
        ),
        ("dirty.hard", "1B to 1024T, or 0% to 100% of dirtyable memory"),
        ("dirty.failed", "0% to 100%"),
        ("admission", ""),
        ("admission.in_transit_max", "admission.in_transit_min to 1G"),
        ("admission.in_transit_min", "a page to 64M"),
        ("admission.share_waited", "1 to 99"),
        ("admission.low", "0B to admission.high"),
        ("flusher.expire", "any"),
        ("readahead.max", "0B (off) to 64M"),
        ("replacement.scan_balance_max_per_mille", "0 to 950"),
        ("alloc_timeout", "1ms to 1h"),
    ] {
        assert_eq!(find(name).unwrap().allowed(), said, "{name}");
    }
}

/// `1h` was refused with "1ms to 1h".
#[test]
fn both_ends_of_each_stated_range_can_be_typed() {
    for setting in SETTINGS.iter().filter(|setting| setting.kind != Kind::Memory) {
        let allowed = setting.allowed();
        let ends = allowed.split(", or ").flat_map(|range| range.split(" to "));
        for end in ends.filter(|end| end.starts_with(|c: char| c.is_ascii_digit())) {
            let end = end.split(" of ").next().unwrap().trim_end_matches(" (off)");
            assert!(
                Value::parse(setting.kind, end).is_some(),
                "{}: {end}",
                setting.name
            );
        }
    }
}

#[test]
fn a_form_that_is_chosen_has_its_settings_and_the_others_have_not() {
    for setting in SETTINGS.iter().filter(|s| s.of.is_some()) {
        let (choice, forms) = setting.of.unwrap();
        let Kind::Word(all) = find(choice).unwrap().kind else {
            panic!("{choice} is a choice")
        };
        for form in all {
            let there = set(&settings(), &[(choice, form)]).unwrap();
            assert_eq!(
                there.value(setting).is_some(),
                forms.contains(form),
                "{} {form}",
                setting.name
            );
        }
    }
}

#[test]
fn errors_guess_the_meant_name_and_state_the_range() {
    let says = |name: &str, value: &str| set(&settings(), &[(name, value)]).unwrap_err();
    for (name, value, said) in [
        (
            "dirty.backgroud",
            "64M",
            "there is no setting \"dirty.backgroud\": did you mean dirty.background?",
        ),
        (
            "Dirty-Hard",
            "64M",
            "there is no setting \"Dirty-Hard\": did you mean dirty.hard?",
        ),
        (
            "goal.read_latency",
            "4ms",
            "there is no setting \"goal.read_latency\": did you mean admission.read_latency?",
        ),
        (
            "dirty.hard",
            "20",
            "dirty.hard can't be \"20\": it takes a size with its unit such as 64M, or a share such as 20%: 1B to \
             1024T, or 0% to 100% of dirtyable memory",
        ),
        (
            "admission",
            "fast",
            "admission can't be \"fast\": it takes goal, bytes, off",
        ),
        (
            "admission.high",
            "2M",
            "admission.high belongs to admission=bytes, and admission is goal now: set admission=bytes before it in \
             the same command",
        ),
        (
            "dirty.hard",
            "101%",
            "option dirty.hard can't be 101 %: must be 0 to 100 %",
        ),
        (
            "replacement.scan_balance_max_per_mille",
            "951",
            "option replacement.scan_balance_max_per_mille can't be 951: must be 0 to 950",
        ),
        (
            "watermarks.scale",
            "31%",
            "option watermarks.scale can't be 31 %: must be 0 to 30 %",
        ),
        (
            "admission.share_waited",
            "99999999999",
            "admission.share_waited can't be \"99999999999\": it takes a whole number such as 32: 1 to 99",
        ),
    ] {
        assert_eq!(says(name, value), said);
    }
    let all = says("frobnicate", "1");
    assert!(all.ends_with("alloc_timeout, hung_io_timeout"), "{all}");
    let twice = set(&settings(), &[("dirty.failed", "1%"), ("dirty.failed", "2%")]).unwrap_err();
    assert_eq!(twice, "dirty.failed is given twice");
    assert!(set(&settings(), &[]).unwrap_err().starts_with("nothing to set"));
    for text in ["dirty.hard", "=64M", "dirty.hard="] {
        assert!(pair(text).unwrap_err().to_string().contains("is not NAME=VALUE"));
    }
}

#[test]
fn a_rule_that_only_a_program_chooses_is_shown_and_its_numbers_are_left_to_the_program() {
    let mut from = settings();
    from.options.watermarks = WatermarkRule::Linux3;
    let listed = list(&from);
    assert!(listed.iter().all(|(name, _)| *name != "watermarks.scale"));
    assert_eq!(
        set(&from, &[("watermarks.scale", "1%")]).unwrap_err(),
        "the rule that the program has chosen has no watermarks.scale: only the program can choose another, with its \
         Options"
    );
}

/// Linux' forms are the laboratory's: no cache can be set to one.
#[test]
fn only_millponds_own_forms_of_admission_can_be_set() {
    for form in ["v2", "v3", "latency"] {
        let refused = set(&settings(), &[("admission", form)]).unwrap_err();
        let expected = format!("admission can't be \"{form}\": it takes goal, bytes, off");
        assert_eq!(refused, expected);
    }
    for form in ["goal", "bytes", "off"] {
        let set = set(&settings(), &[("admission", form)]).unwrap();
        assert!(list(&set).contains(&("admission", form.into())));
    }
}

#[test]
fn auto_alone_keeps_the_budget_as_its_maximum_and_may_go_down_to_an_eighth() {
    let auto = set(&settings(), &[("memory", "auto")]).unwrap();
    assert_eq!(list(&auto)[0], ("memory", "auto:8M..64M".into()));
    // Once more is the same.
    assert_eq!(set(&auto, &[("memory", "auto")]), Ok(auto.clone()));
    assert_eq!(set(&auto, &[("memory", "64M")]), Ok(settings()));
    let why = set(&settings(), &[("memory", "auto:2M..1M")]).unwrap_err();
    assert!(
        why.contains("auto:256M..4G") && why.contains("the minimum of auto:2M..1M is above its maximum"),
        "{why}"
    );
}

#[test]
fn a_form_and_what_belongs_to_it_are_set_together() {
    let both = set(&settings(), &[("admission", "bytes"), ("admission.high", "2M")]).unwrap();
    let high = both.value(find("admission.high").unwrap());
    assert_eq!(high, Some(Value::Size(Bytes::from_mib(2))));
    // The same form once more leaves its settings alone.
    assert_eq!(set(&both, &[("admission", "bytes")]), Ok(both.clone()));
}

/// A value that may or may not be in its range.
fn text(kind: Kind, n: u64) -> String {
    match kind {
        Kind::Size => Value::Size(Bytes(n % (32 << 20))).to_string(),
        Kind::Memory if n.is_multiple_of(2) => {
            let (min, max) = (Bytes(n % (1 << 30)), Bytes(n % (1 << 30) * 3));
            Value::Auto(MemoryRange { min, max }).to_string()
        }
        Kind::Memory => Value::Size(Bytes(n % (32 << 20))).to_string(),
        Kind::TimeOrMeasure if n.is_multiple_of(8) => "measure".into(),
        Kind::Time | Kind::TimeOrMeasure => {
            Value::Time(millpond_core::units::Nanos(n % 12_000_000_000)).to_string()
        }
        Kind::Share => Value::Share(Ratio::per_mille((n % 300) as u32)).to_string(),
        Kind::SizeOrShare if n.is_multiple_of(2) => Value::Size(Bytes(n % (1 << 30))).to_string(),
        Kind::SizeOrShare => Value::Share(Ratio::percent((n % 101) as u32)).to_string(),
        Kind::Count => Value::Count(n % 120).to_string(),
        Kind::Switch => Value::Switch(n.is_multiple_of(2)).to_string(),
        Kind::Word(words) => words[n as usize % words.len()].to_string(),
    }
}

proptest! {
    /// Any settings, any others after them, and the first again as they were listed: the same, to the last bit.
    #[test]
    fn listed_settings_restore_their_state(
        draws in proptest::collection::vec((0..SETTINGS.len(), any::<u64>()), 0..40),
        others in proptest::collection::vec((0..SETTINGS.len(), any::<u64>()), 0..40),
    ) {
        let drawn = |mut from: Settings, draws: &[(usize, u64)]| {
            for (at, n) in draws {
                let setting = &SETTINGS[*at];
                if let Ok(new) = set(&from, &[(setting.name, &text(setting.kind, *n))]) {
                    from = new;
                }
            }
            from
        };
        let first = drawn(settings(), &draws);
        let second = drawn(first.clone(), &others);
        let listed = list(&first);
        let pairs: Vec<_> = listed.iter().map(|(name, value)| (*name, value.as_str())).collect();
        prop_assert_eq!(set(&second, &pairs), Ok(first));
    }
}

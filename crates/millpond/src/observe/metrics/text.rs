//! The text format of Prometheus, version 0.0.4: families of samples, each with its help and type.

use std::fmt::Write;

/// The type of a family.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Summary,
}

/// A text that grows by families.
#[derive(Default)]
pub(super) struct Text(String);

/// One family: its samples follow its head at once, as the format wants.
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: String,
}

impl Text {
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) -> Family<'_> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Summary => "summary",
        };
        let help = help.trim().replace('\\', "\\\\").replace('\n', " ");
        // Writing to a string does not fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family {
            text: &mut self.0,
            name: name.to_owned(),
        }
    }

    /// A family of one sample.
    pub(super) fn one(&mut self, name: &str, kind: Kind, help: &str, value: f64) {
        self.family(name, kind, help).sample("", &[], value);
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

impl Family<'_> {
    /// A sample; `ending` for those of a summary.
    pub(super) fn sample(&mut self, ending: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(&self.name);
        self.text.push_str(ending);
        for (n, (name, label)) in labels.iter().enumerate() {
            let before = if n == 0 { '{' } else { ',' };
            let label = label
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(self.text, "{before}{name}=\"{label}\"");
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_its_help_its_type_and_its_samples_and_nothing_breaks_a_line() {
        let mut text = Text::default();
        text.one("a_total", Kind::Counter, " Line\nand \\ more. ", 12.0);
        let mut family = text.family("b_seconds", Kind::Summary, "B.");
        family.sample("", &[("device", "a \"b\"\n\\c"), ("quantile", "0.5")], 0.25);
        family.sample("_count", &[], 1e12);
        assert_eq!(
            text.into_string(),
            "# HELP a_total Line and \\\\ more.\n# TYPE a_total counter\na_total 12\n\
             # HELP b_seconds B.\n# TYPE b_seconds summary\n\
             b_seconds{device=\"a \\\"b\\\"\\n\\\\c\",quantile=\"0.5\"} 0.25\nb_seconds_count 1000000000000\n"
        );
    }
}

//! A report as one HTML page that opens from a disk, without a network and without script.
//!
//! The macro escapes everything that it is given, so a variant or a path cannot become markup. The page is
//! also well-formed XML, which is how its tests read it.

use super::svg;
use super::{Chart, Report, Table};
use crate::outcome::Setting;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use millpond::internal::quantity::number;

/// The page.
pub fn page(report: &Report) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                // written out because these elements have no end tag in HTML and need one in XML
                (PreEscaped("<meta charset=\"utf-8\"/>"))
                (PreEscaped("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>"))
                title { (report.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (report.title) }
                    @if !report.answers.is_empty() {
                        section class="verdict" aria-label="Result" {
                            @for line in &report.answers { p { (prose(line)) } }
                        }
                    }
                    @if let Some(picture) = &report.picture { figure { (PreEscaped(picture)) } }
                    @for paragraph in &report.intro { p class="intro" { (prose(paragraph)) } }
                    @for table in report.tables.iter().filter(|t| !t.rows.is_empty()) { (self::table(table)) }
                    @for chart in &report.charts { (self::chart(chart)) }
                    @if !report.notes.is_empty() {
                        h2 { "To beware of" }
                        ul { @for note in &report.notes { li { (prose(note)) } } }
                    }
                    @if !report.definitions.is_empty() {
                        h2 { "What the words mean" }
                        dl {
                            @for (word, meaning) in &report.definitions {
                                dt { (prose(word)) }
                                dd { (prose(meaning)) }
                            }
                        }
                    }
                    h2 { "How it was made" }
                    p { "Command: " code { (report.command) } }
                    (facts("Machine", &report.machine))
                    @for (row, settings) in &report.settings {
                        @if !settings.is_empty() { (facts(row, settings)) }
                    }
                    @for appendix in &report.appendices {
                        details {
                            summary { (prose(&appendix.title)) }
                            div class="scroll" { pre { (appendix.text) } }
                        }
                    }
                    details {
                        summary { "Every metric (" (report.metrics.len()) ")" }
                        (metrics(report))
                    }
                }
            }
        }
    }
    .into_string()
}

/// Text as a page has it: what is between backticks as code, arrows as arrows, and options in one piece.
fn prose(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    html! {
        @for (n, part) in parts.iter().enumerate() {
            // a last one that no other one ends is none
            @if n % 2 == 1 && n + 1 < parts.len() { code { (part) } } @else { (with_options(part)) }
        }
    }
}

fn with_options(text: &str) -> Markup {
    let text = text.replace(" -> ", " \u{2192} ");
    html! {
        @for word in text.split_inclusive(' ') {
            @let name = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            @if name.len() > 2 && name.starts_with("--") {
                code class="option" { (name) } (word[name.len()..])
            } @else { (word) }
        }
    }
}

/// The same where there can be no elements.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

/// Tables of more columns are set closer.
const MANY: usize = 9;

/// Whether a cell is a sentence rather than a figure: then it may be wrapped.
fn is_long(text: &str) -> bool {
    text.chars().count() > 26
}

fn table(table: &Table) -> Markup {
    html! {
        h2 { (prose(&table.title)) }
        div class="scroll" tabindex="0" role="region" aria-label=(plain(&table.title)) {
            table class=[(table.head.len() > MANY).then_some("many")] {
                thead { tr { @for head in &table.head { th scope="col" { (head) } } } }
                tbody {
                    @for row in &table.rows {
                        tr {
                            th scope="row" { (prose(&row.label)) }
                            @for cell in &row.cells {
                                td class=[is_long(&cell.value).then_some("long")] {
                                    @if cell.value.is_empty() { "–" } @else { (cell.value) }
                                    @if !cell.spread.is_empty() { span class="spread" { (cell.spread) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn chart(chart: &Chart) -> Markup {
    let Some(drawing) = svg::draw(chart) else {
        return html! {};
    };
    html! {
        h2 { (prose(&chart.title)) }
        figure {
            figcaption { (prose(&chart.caption)) }
            ul class="legend" {
                @for line in &chart.lines {
                    li {
                        svg class="swatch" viewBox="0 0 30 10" aria-hidden="true" { (svg::swatch(chart, line, (2.0, 5.0))) }
                        (prose(&line.name))
                    }
                }
            }
            div class="scroll" tabindex="0" role="region" aria-label=(plain(&chart.title)) { (drawing) }
        }
    }
}

fn facts(title: &str, facts: &[Setting]) -> Markup {
    html! {
        h3 { (title) }
        ul class="facts" {
            @for fact in facts { li { span { (fact.name) } " " (fact.value) } }
        }
    }
}

fn metrics(report: &Report) -> Markup {
    html! {
        div class="scroll" {
            table class="dense" {
                thead {
                    tr {
                        @for head in ["workload", "target", "device", "variant", "metric", "median", "unit", "runs"] {
                            th scope="col" { (head) }
                        }
                    }
                }
                tbody {
                    @for m in &report.metrics {
                        @let runs = m.runs.iter().map(|&v| number(v)).collect::<Vec<_>>().join(", ");
                        tr {
                            @for text in [&m.workload, &m.target, &m.device, &m.variant, &m.metric] { td class="text" { (text) } }
                            td { (number(m.value)) }
                            td class="text" { (m.unit) }
                            td { (runs) }
                        }
                    }
                }
            }
        }
    }
}

/// Colours of the lines: Okabe and Ito's first, which people with any kind of colour vision tell apart; lighter
/// ones on dark. Neither `<` nor `&` may occur here: the page is XML as well.
pub const STYLE: &str = "
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --soft: #59636e; --rule: #d8dee4; --box: #f4f6f8;
  --c0: #c04e00; --c1: #0068a8; --c2: #00795a; --c3: #a8487c; --c4: #8a6d00; --c5: #3c3c46;
  --c6: #5b4bb7; --c7: #b3261e; --c8: #4f7d00; --c9: #00808a; --c10: #7d5233; --c11: #7a8694; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171c; --ink: #e8ebee; --soft: #9aa4af; --rule: #343b44; --box: #1d2229;
  --c0: #ff8c3a; --c1: #5ab8f5; --c2: #36c99b; --c3: #e695be; --c4: #ecd24a; --c5: #c9ccd2;
  --c6: #a79bff; --c7: #ff7b72; --c8: #a5d64c; --c9: #4dd0d9; --c10: #d0a07c; --c11: #8592a3; } }
.look0 { --own: var(--c0); } .look1 { --own: var(--c1); } .look2 { --own: var(--c2); } .look3 { --own: var(--c3); }
.look4 { --own: var(--c4); } .look5 { --own: var(--c5); } .look6 { --own: var(--c6); } .look7 { --own: var(--c7); }
.look8 { --own: var(--c8); } .look9 { --own: var(--c9); } .look10 { --own: var(--c10); } .look11 { --own: var(--c11); }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .6rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; } p { margin: .4rem 0; max-width: 50rem; }
.intro { color: var(--soft); }
.verdict { background: var(--box); border-left: .3rem solid var(--c1); padding: .6rem 1rem; margin: 1.2rem 0; font-size: 1.1rem; }
.verdict p { max-width: none; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid var(--rule); white-space: nowrap; }
thead th { color: var(--soft); font-weight: 600; font-size: .85rem; white-space: normal; vertical-align: bottom; }
td.long { white-space: normal; text-align: left; }
th:first-child, td.text { text-align: left; } tbody th { font-weight: 600; white-space: normal; min-width: 11rem; }
.many { font-size: .9rem; } .many th, .many td { padding: .3rem .35rem; } .many tbody th { min-width: 9rem; }
.spread { display: block; color: var(--soft); font-size: .8rem; }
.dense { font-size: .8rem; } .dense th, .dense td { padding: .15rem .5rem; white-space: normal; overflow-wrap: anywhere; }
figure { margin: 0; } figcaption { color: var(--soft); max-width: 50rem; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; padding: 0; margin: .5rem 0; font-size: .9rem; }
.swatch { width: 1.9rem; height: .63rem; margin-right: .5rem; vertical-align: middle; }
figure .scroll svg { display: block; width: 100%; min-width: 34rem; height: auto; }
.grid { stroke: var(--rule); stroke-width: 1; } .tick { fill: var(--soft); font-size: 12px; } .axis { fill: var(--ink); font-size: 13px; }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.line { stroke: var(--own); } .line.reference { stroke-width: 1.2; stroke-dasharray: 5 4; }
circle.line { fill: var(--own); stroke: none; } .bar { fill: var(--own); }
.bar.reference { fill: none; stroke: var(--own); stroke-width: 1.2; stroke-dasharray: 3 2; }
.name { fill: var(--soft); font-size: 11px; }
.facts { list-style: none; padding: 0; margin: 0; font-size: .9rem; columns: 20rem; } .facts span { color: var(--soft); }
dt { font-weight: 600; } dd { margin: 0 0 .5rem 1.2rem; max-width: 48rem; }
code { background: var(--box); padding: .1rem .35rem; border-radius: .2rem; overflow-wrap: anywhere; }
code.option { white-space: nowrap; }
summary { cursor: pointer; margin-top: 1.4rem; }
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::{Column, pick};
    use crate::report::tests::runs;
    use crate::report::{Appendix, Axis, Line, Scale};
    use millpond::internal::quantity::micros;

    /// Input that would break out of text, of an attribute and of a script, if it were not escaped.
    const EVIL: &str = "\"'></title><script>alert(1)</script>&amp;&bogus;";

    fn report(text: &'static str) -> Report {
        let row = runs("kernel", text, "m_us", &[1.0, 2.0, 3.0]);
        let column = Column::new("m", "writers-and-reader", "m_us");
        let metrics = row.metrics("axboe2016");
        let axis = |scale| Axis {
            label: text.into(),
            scale,
            show: micros,
        };
        let line = |look, y| Line {
            name: text.into(),
            look,
            is_reference: look > 0,
            labels: Vec::new(),
            points: vec![(0.0, Some(y)), (1.0, None), (2.0, Some(2.0 * y))],
        };
        Report {
            title: text.into(),
            intro: vec![text.into()],
            command: text.into(),
            answers: vec![text.into()],
            picture: None,
            notes: vec![text.into()],
            tables: vec![pick(
                text,
                text,
                &[column],
                std::slice::from_ref(&row.row),
                &metrics,
            )],
            charts: vec![Chart {
                title: text.into(),
                caption: text.into(),
                x: axis(Scale::Linear),
                y: axis(Scale::Log),
                lines: vec![line(0, 10.0), line(7, 1e4)],
            }],
            definitions: vec![(text, text)],
            machine: vec![Setting::new(text, text)],
            settings: vec![(text.into(), vec![Setting::new(text, text)])],
            appendices: vec![Appendix {
                name: "more",
                title: text.into(),
                text: text.into(),
            }],
            metrics,
        }
    }

    fn parse(page: &str) -> roxmltree::Document<'_> {
        let options = roxmltree::ParsingOptions {
            allow_dtd: true,
            ..Default::default()
        };
        roxmltree::Document::parse_with_options(page, options).unwrap_or_else(|e| panic!("{e}\n{page}"))
    }

    #[test]
    fn the_page_is_well_formed_and_complete() {
        let page = page(&report("plain"));
        let document = parse(&page);
        let count = |name: &str| document.descendants().filter(|n| n.has_tag_name(name)).count();
        // a chart and, for each of its lines, a swatch
        assert_eq!(count("svg"), 3);
        assert_eq!(count("path"), 4);
        assert_eq!(count("h1"), 1);
        assert_eq!(count("table"), 2);
        assert_eq!(count("pre"), 1);
        assert!(page.starts_with("<!DOCTYPE html>"));
        for word in ["http:", "https:", "src=", "url(", "@import", "<script", "<link"] {
            assert!(!page.contains(word), "{word} needs a network or runs something");
        }
    }

    #[test]
    fn outside_input_stays_text() {
        let page = page(&report(EVIL));
        let document = parse(&page);
        assert!(!document.descendants().any(|n| n.has_tag_name("script")));
        let title = document
            .descendants()
            .find(|n| n.has_tag_name("title"))
            .and_then(|n| n.text());
        assert_eq!(title, Some(EVIL));
        let drawing = document
            .descendants()
            .find(|n| n.has_tag_name("svg") && n.has_attribute("role"))
            .unwrap();
        assert!(drawing.attribute("aria-label").unwrap().contains(EVIL));
    }

    #[test]
    fn every_image_says_what_it_shows_and_every_column_what_it_is() {
        let page = page(&report("plain"));
        let document = parse(&page);
        for node in document.descendants() {
            if node.has_tag_name("svg") && node.attribute("aria-hidden").is_none() {
                assert!(node.attribute("aria-label").is_some_and(|t| t.contains("median")));
            }
            if node.has_tag_name("th") {
                assert!(node.attribute("scope").is_some());
            }
        }
    }

    #[test]
    fn text_in_backticks_is_code_and_an_arrow_is_an_arrow() {
        let page = page(&report("`off` -> `goal/60ms` (a -> b)"));
        parse(&page);
        assert!(
            page.contains("<p><code>off</code> \u{2192} <code>goal/60ms</code> (a \u{2192} b)</p>"),
            "{page}"
        );
        assert_eq!(prose("one ` alone").into_string(), "one  alone");
        assert_eq!(
            prose("of 2: --scale 0.5 shows it -- a dash, --json.").into_string(),
            "of 2: <code class=\"option\">--scale</code> 0.5 shows it -- a dash, <code class=\"option\">--json</code>."
        );
    }

    #[test]
    fn an_empty_report_is_a_page_too() {
        let page = page(&Report::default());
        parse(&page);
    }
}

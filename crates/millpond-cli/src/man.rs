//! Pages of the manual, from the command line's own definitions.
//!
//! clap_mangen makes the title, the description and the options. The rest is done here: the synopsis with options'
//! arguments, and the text after the help, whose examples and tables are kept line by line.

use clap::{Arg, ArgAction, Command};
use clap_mangen::Man;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Writes a page for each visible command into a folder.
///
/// # Errors
/// The system's.
pub(crate) fn write_all(mut command: Command, folder: &Path) -> io::Result<()> {
    command.build();
    of(&command, folder)
}

fn of(command: &Command, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        of(below, folder)?;
    }
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    page.write_all(synopsis(command).as_bytes())?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(text) = command.get_after_long_help().or(command.get_after_help()) {
        page.write_all(sections(&text.to_string()).as_bytes())?;
    }
    fs::write(folder.join(man.get_filename()), page)
}

/// Escapes a text for troff.
fn plain(text: &str) -> String {
    let mut out = String::new();
    if text.starts_with(['.', '\'']) {
        out.push_str("\\&");
    }
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '`' => out.push_str("\\(ga"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            c => out.push(c),
        }
    }
    out
}

fn synopsis(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut line = format!("\\fB{}\\fR", plain(name));
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    for arg in shown()
        .filter(|arg| !arg.is_positional())
        .chain(shown().filter(|arg| arg.is_positional()))
    {
        let (open, close) = if arg.is_required_set() {
            ("", "")
        } else {
            ("[", "]")
        };
        let more = if takes_many(arg) { " ..." } else { "" };
        // Writing to a string does not fail.
        let _ = write!(line, " {open}{}{close}{more}", one(arg));
    }
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        let _ = write!(line, " \\fICOMMAND\\fR");
    }
    // Not stretched to full lines: an option stays next to its argument.
    format!(".SH SYNOPSIS\n.ad l\n{line}\n.ad b\n")
}

fn takes_many(arg: &Arg) -> bool {
    let count = arg.get_num_args().is_some_and(|range| range.max_values() > 1);
    arg.is_positional() && (count || matches!(arg.get_action(), ArgAction::Append))
}

/// `--memory SIZE`, `-h`, `SRC`.
fn one(arg: &Arg) -> String {
    let values = || match arg.get_value_names() {
        Some(names) => names
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" "),
        None => arg.get_id().to_string().to_uppercase(),
    };
    if arg.is_positional() {
        return format!("\\fI{}\\fR", plain(&values()));
    }
    let name = match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, short) => format!("-{}", short.unwrap_or('?')),
    };
    let name = format!("\\fB{}\\fR", plain(&name));
    let range = arg.get_num_args().unwrap_or_default();
    match (arg.get_action().takes_values(), range.min_values()) {
        (false, _) => name,
        (true, 0) => format!("{name}[=\\fI{}\\fR]", plain(&values())),
        (true, _) => format!("{name} \\fI{}\\fR", plain(&values())),
    }
}

/// Sections of the text after the help: a line that ends in a colon heads lines that are kept as they are; `Exit
/// codes:` begins a section of its own; everything else is notes.
fn sections(text: &str) -> String {
    let mut out = String::new();
    let (mut is_kept, mut is_notes) = (false, false);
    let end_kept = |out: &mut String, is_kept: &mut bool| {
        if std::mem::take(is_kept) {
            out.push_str(".fi\n");
        }
    };
    for line in text.lines() {
        let heading = line.strip_suffix(':').filter(|line| !line.starts_with(' '));
        if let Some(heading) = heading.filter(|heading| !heading.contains('.')) {
            end_kept(&mut out, &mut is_kept);
            let _ = write!(out, ".SH {}\n.nf\n", plain(&heading.to_uppercase()));
            (is_kept, is_notes) = (true, false);
        } else if let Some(codes) = line.strip_prefix("Exit codes:") {
            end_kept(&mut out, &mut is_kept);
            let _ = write!(out, ".SH EXIT STATUS\n{}\n", plain(codes.trim_start()));
            // The following lines belong to it.
            is_notes = true;
        } else if line.is_empty() {
            end_kept(&mut out, &mut is_kept);
            if is_notes {
                out.push_str(".PP\n");
            }
        } else if is_kept && line.starts_with(' ') {
            let _ = writeln!(out, "{}", plain(line.strip_prefix("  ").unwrap_or(line)));
        } else {
            end_kept(&mut out, &mut is_kept);
            if !std::mem::replace(&mut is_notes, true) {
                out.push_str(".SH NOTES\n");
            }
            let _ = writeln!(out, "{}", plain(line.trim_start()));
        }
    }
    end_kept(&mut out, &mut is_kept);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_stay_as_they_are_and_the_rest_is_filled() {
        let text = "Examples:\n  millpond a   one\n  millpond b\n\nWords of\nmore. It's so.\nExit codes: 0 done,\n1 not.";
        assert_eq!(
            sections(text),
            ".SH EXAMPLES\n.nf\nmillpond a   one\nmillpond b\n.fi\n.SH NOTES\nWords of\nmore. It\\(aqs so.\n\
             .SH EXIT STATUS\n0 done,\n1 not.\n"
        );
    }

    #[test]
    fn the_synopsis_has_the_arguments_of_options() {
        let command = Command::new("do")
            .arg(Arg::new("memory").long("memory").value_name("SIZE"))
            .arg(Arg::new("quiet").long("quiet").action(ArgAction::SetTrue))
            .arg(Arg::new("place").value_name("SRC").required(true));
        assert_eq!(
            synopsis(&command),
            ".SH SYNOPSIS\n.ad l\n\\fBdo\\fR [\\fB\\-\\-memory\\fR \\fISIZE\\fR] [\\fB\\-\\-quiet\\fR] \\fISRC\\fR\n.ad b\n"
        );
    }
}

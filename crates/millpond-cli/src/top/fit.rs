//! The line of the screen that says whether memory is large enough, and for which file it is not.

use super::figures::Figures;
use super::screen::{ALARM, last_of};
use crate::control::percent;
use ratatui::text::{Line, Span};

/// Whether memory is large enough, and for which file it is not.
pub(super) fn line(figures: &Figures, width: usize) -> Line<'static> {
    let fit = &figures.fit;
    let lately = format!("hits {}", percent(fit.hit_ratio));
    let long = format!("{lately} ({} since the start); ", percent(fit.hit_ratio_ever));
    let Some(file) = &fit.file else {
        return Line::from(long + &fit.verdict);
    };
    let (before, after) = ("too small for ", format!(": {}", fit.verdict));
    let room = |ratios: &str| width.saturating_sub(ratios.len() + before.len() + after.len());
    // The file matters most: to make space for it the rest is shortened.
    let short = format!("{lately}; ");
    let has_room = |ratios: &str, file: &str| Span::raw(file).width() <= room(ratios);
    let name = file
        .rsplit('/')
        .next()
        .filter(|name| !name.is_empty())
        .unwrap_or(file);
    let (ratios, file) = match () {
        () if has_room(&long, file) => (long, file.clone()),
        () if has_room(&short, file) => (short, file.clone()),
        () => {
            let room = room(&short);
            (short, last_of(name, room))
        }
    };
    Line::from(vec![
        Span::raw(ratios),
        Span::styled(format!("{before}{file}{after}"), ALARM),
    ])
}

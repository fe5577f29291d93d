//! What there is to see: a scene for each post, with its settings, its systems and the post's own figures.

mod catalogue;

pub use catalogue::SCENES;
use serde::Serialize;

/// A step of a setting.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Step {
    /// As links write it.
    pub name: &'static str,
    /// What it means, in a sentence; empty if its name says it.
    pub about: &'static str,
    /// The moment to go to when a reader chooses it, in milliseconds; 0: stay.
    pub opens_at_ms: u64,
}

/// A setting: the one that the post is about, as a slider, or which of the post's loads is run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Setting {
    /// As links write it.
    pub name: &'static str,
    /// What a page calls it.
    pub label: &'static str,
    /// What the names of its steps are counted in; empty if they are names.
    pub unit: &'static str,
    /// What it can be, in order.
    pub steps: &'static [Step],
    /// Which step it is at first.
    pub first: usize,
    /// Whether it is the one that the post is about.
    pub is_slider: bool,
}

/// A system beside others.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Column {
    /// What it is called.
    pub title: &'static str,
    /// What it does, in a sentence; empty if the setting's step says it.
    pub about: &'static str,
    /// Whether the slider is its.
    pub follows_slider: bool,
}

/// A number that is shown.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Shown {
    /// The figure's name, as the laboratory's metrics have it.
    pub name: &'static str,
    /// What a page calls it.
    pub label: &'static str,
    /// What it is multiplied by before it is shown.
    pub factor: f64,
    /// Digits behind the point.
    pub digits: u32,
    /// Its unit; empty for counts.
    pub unit: &'static str,
}

/// Until when a number of the post can be compared with one of ours.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compared {
    /// At any moment: a rate, a share, a word.
    Always,
    /// It is a sum over a run of so many seconds: its part for the time so far is shown.
    InPart(u64),
    /// From this moment on, in milliseconds.
    From(u64),
    /// When the load has ended.
    AtTheEnd,
}

/// A number that the post has.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Published {
    /// Of which column or step of the slider; behind a comma: only with that step of a setting.
    pub of: &'static str,
    /// Of which figure.
    pub figure: &'static str,
    /// As the post writes it.
    pub value: &'static str,
    /// When.
    pub compared: Compared,
}

/// What is to be tried first: a step of the slider.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Shows {
    /// The step.
    pub step: &'static str,
    /// What happens then.
    pub says: &'static str,
}

/// What is drawn over time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Plot {
    /// The figure.
    pub figure: &'static str,
    /// What a page calls it.
    pub label: &'static str,
    /// Its growth in so much virtual time is drawn, in milliseconds; 0: its value.
    pub per_ms: u64,
    /// Virtual time between two points, in milliseconds.
    pub every_ms: u64,
    /// The greatest value that is drawn; 0: whatever comes.
    pub top: f64,
}

/// A scene.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Scene {
    /// As links write it, and the laboratory's experiments.
    pub name: &'static str,
    /// In the list of scenes.
    pub short: &'static str,
    /// A headline.
    pub title: &'static str,
    /// Who wrote the post, when, and under which subject.
    pub post: &'static str,
    /// What the post saw.
    pub saw: &'static str,
    /// What to look at.
    pub look: &'static str,
    /// What the button moves the slider to.
    pub shows: Option<Shows>,
    /// Its settings, the slider first.
    pub settings: &'static [Setting],
    /// The systems, side by side.
    pub columns: &'static [Column],
    /// What the shades of pages mean here, in the order of `Shade`; empty: not here.
    pub shades: [&'static str; 6],
    /// Numbers under the picture.
    pub shown: &'static [Shown],
    /// The post's numbers.
    pub published: &'static [Published],
    /// What is said of them.
    pub published_note: &'static str,
    /// What is drawn over time.
    pub plot: Plot,
    /// The moment at which it opens, in milliseconds.
    pub opens_at_ms: u64,
    /// When there is nothing more to see.
    pub ends_at_ms: u64,
    /// Virtual milliseconds that pass in a second, at first.
    pub speed_ms: u64,
}

impl Scene {
    /// The scene of that name.
    pub fn find(name: &str) -> Option<&'static Scene> {
        SCENES.iter().find(|scene| scene.name == name)
    }

    /// The slider.
    pub fn slider(&self) -> Option<&'static Setting> {
        self.settings.iter().find(|setting| setting.is_slider)
    }
}

impl Setting {
    /// The step of that name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.steps.iter().position(|step| step.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_figures_belong_to_shown_ones() {
        for scene in SCENES {
            for number in scene.published {
                let (of, with) = number.of.split_once(", ").unwrap_or((number.of, ""));
                let is_step = scene.slider().is_some_and(|slider| slider.find(of).is_some());
                let is_column = scene.columns.iter().any(|column| column.title == of);
                assert!(is_step || is_column, "{}: {}", scene.name, number.of);
                let mut settings = scene.settings.iter();
                assert!(
                    with.is_empty() || settings.any(|setting| setting.find(with).is_some()),
                    "{}: {}",
                    scene.name,
                    number.of
                );
                let is_shown = scene.shown.iter().any(|shown| shown.name == number.figure);
                assert!(is_shown, "{}: {}", scene.name, number.figure);
            }
        }
    }

    #[test]
    fn settings_begin_at_a_step_that_they_have_and_there_is_one_slider_at_most() {
        for scene in SCENES {
            assert!(scene.settings.iter().filter(|setting| setting.is_slider).count() <= 1);
            for setting in scene.settings {
                assert!(setting.first < setting.steps.len(), "{}", setting.name);
            }
            assert!(scene.opens_at_ms < scene.ends_at_ms);
        }
    }

    #[test]
    fn the_button_moves_a_slider_that_is_there_to_another_step() {
        for scene in SCENES {
            assert_eq!(scene.shows.is_some(), scene.slider().is_some(), "{}", scene.name);
            if let (Some(shows), Some(slider)) = (scene.shows, scene.slider()) {
                let found = slider.find(shows.step);
                assert!(found.is_some_and(|step| step != slider.first), "{}", scene.name);
            }
        }
    }

    #[test]
    fn the_meaning_of_a_step_does_not_repeat_its_name() {
        for setting in SCENES.iter().flat_map(|scene| scene.settings) {
            for step in setting.steps {
                assert!(
                    !step.about.starts_with(step.name),
                    "{}: {}",
                    setting.name,
                    step.about
                );
            }
        }
    }
}

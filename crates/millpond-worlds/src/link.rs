//! A link: the part after the `#` of the page's address, which names one state.
//!
//! `scene=gorman2011&rule=vanilla&load=fs-mark&seed=1&at=15000000000`: the scene, a step of each of its settings, the seed, and
//! the moment in nanoseconds of virtual time. What is left out is what the page opens with. `scale=100` makes sizes a tenth of
//! the post's where a scene has sizes.

use crate::scene::{SCENES, Scene};
use serde::Serialize;
use std::fmt;

/// A state of a scene.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Link {
    /// The scene's name.
    #[serde(serialize_with = "name_of")]
    pub scene: &'static Scene,
    /// A step of each setting, in their order.
    pub settings: Vec<usize>,
    /// The seed of everything random.
    pub seed: u64,
    /// Sizes in parts of a thousand of the post's.
    pub scale: u64,
    /// The moment, in nanoseconds.
    pub at: u64,
}

fn name_of<S: serde::Serializer>(scene: &&'static Scene, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(scene.name)
}

/// The name of the page's part for a trace of the reader's own: no scene, as it has no systems.
pub const OWN: &str = "own";

/// What names that part, with a memory and the pages of a trace where it has them: `scene=own&frames=20&pages=1.2.3`. `None`:
/// it names something else.
///
/// # Errors
/// The mistake, and what is allowed there.
pub fn own(text: &str) -> Option<Result<String, String>> {
    let text = decoded(text.strip_prefix('#').unwrap_or(text));
    let pairs: Vec<(&str, &str)> = text.split('&').filter_map(|pair| pair.split_once('=')).collect();
    if !pairs.contains(&("scene", OWN)) {
        return None;
    }
    for (name, value) in pairs {
        let is_number = |text: &str| text.parse::<u64>().is_ok();
        let wanted = match name {
            "scene" => continue,
            "frames" if is_number(value) => continue,
            "pages" if value.split('.').all(is_number) => continue,
            "frames" => "a whole number of pages is wanted",
            "pages" => "numbers of pages with dots between them are wanted",
            _ => "there are frames and pages",
        };
        return Some(Err(format!("{name}={value}: {wanted}")));
    }
    Some(Ok(text))
}

/// 2^53: what a page's numbers hold exactly.
const EXACT: u64 = 1 << 53;

impl Link {
    /// The page's first state in this scene.
    pub fn opening(scene: &'static Scene) -> Link {
        Link {
            scene,
            settings: scene.settings.iter().map(|setting| setting.first).collect(),
            seed: 1,
            scale: 1000,
            at: scene.opens_at_ms * 1_000_000,
        }
    }

    /// Reads what [`Display`](fmt::Display) writes; also with the `#`.
    ///
    /// # Errors
    /// The mistake, and what is allowed there.
    pub fn parse(text: &str) -> Result<Link, String> {
        let text = &decoded(text.strip_prefix('#').unwrap_or(text));
        let pairs: Vec<(&str, &str)> = text.split('&').filter_map(|pair| pair.split_once('=')).collect();
        let named = pairs
            .iter()
            .find(|(name, _)| *name == "scene")
            .map_or(SCENES[0].name, |(_, value)| value);
        let scene = Scene::find(named).ok_or_else(|| {
            let names: Vec<&str> = SCENES.iter().map(|scene| scene.name).collect();
            format!("there is no scene {named}; there are {}, {OWN}", names.join(", "))
        })?;
        let mut link = Link::opening(scene);
        for (name, value) in pairs {
            let number = |least: u64, most: u64| {
                let number = value
                    .parse()
                    .ok()
                    .filter(|number| (least..=most).contains(number));
                number
                    .ok_or_else(|| format!("{name}={value}: a whole number from {least} to {most} is wanted"))
            };
            match name {
                "scene" => {}
                "seed" => link.seed = number(0, EXACT)?,
                "scale" => link.scale = number(1, 1000)?,
                "at" => link.at = number(0, EXACT)?,
                _ => {
                    let found = scene.settings.iter().position(|setting| setting.name == name);
                    let setting = found.ok_or_else(|| format!("{} has no setting {name}", scene.name))?;
                    let steps = scene.settings[setting].steps;
                    link.settings[setting] = scene.settings[setting].find(value).ok_or_else(|| {
                        let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
                        format!("{name}={value}: there are {}", names.join(", "))
                    })?;
                }
            }
        }
        Ok(link)
    }

    /// The same with a setting at a step, if the scene has both.
    #[must_use]
    pub fn with(mut self, setting: &str, step: &str) -> Link {
        let found = self.scene.settings.iter().position(|s| s.name == setting);
        if let Some((n, step)) = found.and_then(|n| Some((n, self.scene.settings[n].find(step)?))) {
            self.settings[n] = step;
        }
        self
    }

    /// The name of a setting's step; empty if the scene has no such setting.
    pub fn step(&self, setting: &str) -> &'static str {
        let named = self.scene.settings.iter().zip(&self.settings);
        let mut found = named.filter(|(s, _)| s.name == setting);
        found
            .next()
            .map_or("", |(setting, &step)| setting.steps[step].name)
    }
}

/// `%2B` is `+`: programs that carry links like to write them so.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                out.push(char::from(code));
                out.push_str(&part[2..]);
            }
            None => {
                out.push('%');
                out.push_str(part);
            }
        }
    }
    out
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scene={}", self.scene.name)?;
        for (setting, &step) in self.scene.settings.iter().zip(&self.settings) {
            write!(f, "&{}={}", setting.name, setting.steps[step].name)?;
        }
        write!(f, "&seed={}", self.seed)?;
        if self.scale != 1000 {
            write!(f, "&scale={}", self.scale)?;
        }
        write!(f, "&at={}", self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_is_read_as_it_was_written() {
        for scene in SCENES {
            let mut link = Link::opening(scene);
            assert_eq!(Link::parse(&link.to_string()), Ok(link.clone()));
            (link.seed, link.scale, link.at) = (77, 100, 123_456_789);
            for (n, setting) in scene.settings.iter().enumerate() {
                link.settings[n] = setting.steps.len() - 1;
            }
            assert_eq!(Link::parse(&format!("#{link}")), Ok(link));
        }
    }

    #[test]
    fn omitted_settings_are_those_the_page_opens_with() {
        assert_eq!(Link::parse(""), Ok(Link::opening(&SCENES[0])));
        let link = Link::parse("scene=hills2015&ratio=50").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((link.step("ratio"), link.seed), ("50", 1));
        let carried =
            Link::parse("#scene=kim2020%26patches%3Dlinux-5.5%2Banon").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(carried.step("patches"), "linux-5.5+anon");
        assert_eq!(decoded("100%, %4, %zz, %é"), "100%, %4, %zz, %é");
    }

    #[test]
    fn a_trace_of_ones_own_is_named_with_memory_and_pages() {
        let of = |text: &str| own(text).map(|found| found.unwrap_or_else(|why| format!("wrong: {why}")));
        assert_eq!(of("scene=hills2015"), None);
        assert_eq!(of("#scene=own"), Some("scene=own".into()));
        let link = "scene=own&frames=20&pages=1.2.3";
        assert_eq!(of(link), Some(link.into()));
        for (text, why) in [
            (
                "scene=own&frames=few",
                "wrong: frames=few: a whole number of pages is wanted",
            ),
            (
                "scene=own&pages=1.x",
                "wrong: pages=1.x: numbers of pages with dots between them are wanted",
            ),
            ("scene=own&seed=1", "wrong: seed=1: there are frames and pages"),
        ] {
            assert_eq!(of(text), Some(why.into()));
        }
    }

    #[test]
    fn a_wrong_link_says_what_could_stand_there() {
        let why = |text: &str| Link::parse(text).err().unwrap_or_default();
        assert!(why("scene=linux").contains("gorman2011") && why("scene=linux").ends_with("swarm, own"));
        assert!(why("scene=axboe2016&rule=vanilla").contains("no setting rule"));
        assert!(why("scene=axboe2016&wb_percent=11").contains("there are 5, 10, 15"));
        assert!(why("seed=-1").contains("a whole number"));
        assert!(why("scale=0").contains("from 1 to 1000"));
    }
}

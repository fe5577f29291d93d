//! The page in a real browser: scenes run, links restore what they name, and the numbers are those of the same code outside of
//! the browser, byte for byte.
//!
//! The page has the module that is kept with the sources. If a number differs, the module is of older sources:
//! `cargo run -p millpond-playground --example make` makes it anew. Skipped where a browser is missing.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests; what is skipped is said on standard output"
)]

mod driver;

use driver::Browser;
use millpond_core::units::Instant;
use millpond_playground::page::page;
use millpond_worlds::column::Column;
use millpond_worlds::link::Link;
use millpond_worlds::recorded::{self, Recorded};
use millpond_worlds::scene::SCENES;
use std::path::{Path, PathBuf};

/// The compared state: lists in this many parts, this many notes.
const PARTS: usize = 240;
const NOTES: usize = 64;

/// A page and a browser, or nothing and why.
fn begin(folder: &Path) -> Option<(PathBuf, Browser)> {
    let file = folder.join("page.html");
    let page = page();
    assert!(page.len() < 1_000_000, "{} bytes are many for a page", page.len());
    std::fs::write(&file, page).unwrap();
    let browser = Browser::start(folder);
    if browser.is_none() {
        println!("\nskipped: no chromium");
    }
    Some((file, browser?))
}

/// The states of all systems of a link, by the native code.
fn native(text: &str) -> Vec<String> {
    let link = Link::parse(text).unwrap();
    let state = |n| {
        let mut column = Column::begin(&link, n).unwrap();
        column.run(Instant(link.at), u64::MAX);
        column.state(PARTS, NOTES).unwrap()
    };
    (0..link.scene.columns.len()).map(state).collect()
}

/// The same as the page has them.
fn shown(browser: &mut Browser) -> Vec<String> {
    let states = browser.value(&format!("playground.states({PARTS}, {NOTES})"));
    states
        .as_array()
        .unwrap()
        .iter()
        .map(|state| state.as_str().unwrap().to_owned())
        .collect()
}

fn address(browser: &mut Browser) -> String {
    browser.value("playground.address()").as_str().unwrap().to_owned()
}

const STILL: &str = "playground.isStill()";

/// What to do if the module and the sources differ.
const OLD: &str = "the module is of other sources, or counts otherwise than they do: \
    `cargo run -p millpond-playground --example make` makes it anew";

/// Late enough that all lists are full and reclaim is at work; the sizes of two scenes are made smaller for that.
const LINKS: [&str; 8] = [
    "scene=gorman2011&rule=vanilla&load=fs-mark&seed=3&at=9000000000",
    "scene=gorman2011&rule=linux-4.11&load=micro&seed=1&at=6000000000",
    "scene=axboe2016&wb_percent=25&seed=5&scale=50&at=4000000000",
    "scene=kim2020&patches=linux-5.5+anon&example=detection&seed=1&at=640000000",
    "scene=kim2020&patches=linux-5.5&example=protection&seed=1&at=90000000",
    "scene=dillon2000&rule=modern&seed=7&at=50000000000",
    "scene=hills2015&ratio=30&seed=1&at=21500000000",
    "scene=swarm&seed=42&at=2000000000",
];

#[test]
fn scenes_run_in_a_browser_and_their_numbers_are_those_of_the_native_code() {
    let folder = tempfile::tempdir().unwrap();
    let Some((page, mut browser)) = begin(folder.path()) else {
        return;
    };
    for link in LINKS {
        browser.open(&page, link);
        assert_eq!(address(&mut browser), link, "what the page says it shows");
        assert_eq!(shown(&mut browser), native(link), "{link}: {OLD}");
        assert_eq!(
            browser.value("document.getElementById('said').hidden"),
            true,
            "{link}"
        );
    }
    the_module_is_of_these_sources(&mut browser, &page);
    a_link_names_one_state(&mut browser, &page);
    the_button_moves_the_slider(&mut browser, &page);
    keys_do_what_buttons_do(&mut browser, &page);
    a_scene_plays_by_itself(&mut browser, &page);
    a_scene_that_is_left_leaves_no_words(&mut browser, &page);
    a_long_way_says_where_it_goes(&mut browser, &page);
    an_own_trace_is_counted(&mut browser, &page);
    it_fits_narrow_screens(&mut browser, &page);
    assert_eq!(browser.complaints(), [""; 0]);
}

/// Every step of every setting, and every word.
fn the_module_is_of_these_sources(browser: &mut Browser, page: &Path) {
    browser.open(page, LINKS[0]);
    let scenes = browser.value("playground.scenes()");
    assert_eq!(scenes, serde_json::to_string(SCENES).unwrap(), "{OLD}");
    let models = browser.value("playground.models()");
    assert_eq!(models, serde_json::to_value(recorded::models()).unwrap(), "{OLD}");
    for scene in SCENES {
        for setting in scene.settings {
            for step in setting.steps {
                let link = Link {
                    seed: 2,
                    scale: 50,
                    at: (scene.opens_at_ms * 1_000_000).min(21_000_000_000),
                    ..Link::opening(scene)
                };
                let link = link.with(setting.name, step.name).to_string();
                let states = browser.value(&format!("playground.statesOf('{link}', {PARTS}, {NOTES})"));
                assert_eq!(
                    states,
                    serde_json::to_value(native(&link)).unwrap(),
                    "{link}: {OLD}"
                );
            }
        }
    }
}

/// To the step to watch, at the scene's first moment, and back.
fn the_button_moves_the_slider(browser: &mut Browser, page: &Path) {
    for scene in SCENES {
        let (Some(slider), Some(shows)) = (scene.slider(), scene.shows) else {
            continue;
        };
        browser.open(page, &format!("scene={}&at=0", scene.name));
        for step in [shows.step, slider.steps[slider.first].name] {
            browser.value("document.getElementById('show-me').click()");
            let wanted = slider.find(step).unwrap();
            browser.until(&format!(
                "!playground.isStill() && document.getElementById('setting-{}').value === '{wanted}' \
                 && Number(playground.address().split('at=')[1]) > 0",
                slider.name
            ));
            browser.press(" ");
            browser.until(STILL);
            let link = Link::parse(&address(browser)).unwrap();
            assert_eq!(link.step(slider.name), step, "{link}");
            assert!(
                link.at > 0 && native(&link.to_string()) == shown(browser),
                "{link}"
            );
        }
    }
}

/// However it was reached: by steps, back and forth, by another setting.
fn a_link_names_one_state(browser: &mut Browser, page: &Path) {
    for link in LINKS {
        browser.open(page, link);
        let mut states = Vec::new();
        for act in ["step", "step", "back", "step"] {
            browser.value(&format!("document.getElementById('{act}').click()"));
            browser.until(STILL);
            let now = address(browser);
            states.push((now.clone(), shown(browser)));
            assert_eq!(native(&now), states.last().unwrap().1, "{act} from {link}");
        }
        let (last, state) = states.pop().unwrap();
        browser.open(page, &last);
        assert_eq!(shown(browser), state, "{last} opened anew");
    }
    // The slider, at the same moment.
    browser.open(page, LINKS[6]);
    let slide = "(() => { const s = document.getElementById('setting-ratio'); s.value = 4; \
                 s.dispatchEvent(new Event('input')); s.dispatchEvent(new Event('change')) })()";
    browser.value(slide);
    browser.until("playground.isStill() && playground.address().includes('ratio=21')");
    assert_eq!(shown(browser), native(&address(browser)));
}

fn keys_do_what_buttons_do(browser: &mut Browser, page: &Path) {
    browser.open(page, LINKS[3]);
    let before = address(browser);
    browser.press("ArrowRight");
    browser.until(STILL);
    let stepped = address(browser);
    assert_ne!(before, stepped, "a step goes on");
    browser.press(" ");
    browser.until("document.getElementById('run').textContent === 'Stop'");
    browser.until(&format!("playground.address() !== '{stepped}'"));
    browser.press(" ");
    browser.until(STILL);
    assert_eq!(native(&address(browser)), shown(browser));
    browser.press("Home");
    browser.until("playground.isStill() && playground.address().endsWith('at=0')");
    browser.press("2");
    browser.until("playground.address().startsWith('scene=axboe2016')");
    // Every movement has its reason.
    browser.open(page, LINKS[0]);
    browser.value("document.querySelector('.moves button').click()");
    let why = browser.value("document.getElementById('reason').textContent");
    assert!(why.as_str().unwrap().contains("at the cold end"), "{why}");
}

/// A scene that is opened without a moment plays, and says how fast it does.
fn a_scene_plays_by_itself(browser: &mut Browser, page: &Path) {
    for scene in SCENES {
        browser.open(page, &format!("scene={}&at=0", scene.name));
        browser.value("(() => { const s = document.getElementById('speed'); s.value = 'Infinity'; s.dispatchEvent(new Event('change')) })()");
        browser.press(" ");
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let rate = browser.value("document.getElementById('rate').textContent");
        println!("{}: {}", scene.name, rate.as_str().unwrap());
        if browser.value("document.getElementById('run').textContent") == "Stop" {
            browser.press(" ");
        }
        browser.until(STILL);
        assert!(
            browser.value("playground.events()").as_f64().unwrap() > 0.0,
            "{}",
            scene.name
        );
    }
    browser.open_playing(page, "scene=hills2015");
    browser.press(" ");
    browser.until(STILL);
}

fn text_of(browser: &mut Browser, id: &str) -> String {
    let text = browser.value(&format!("document.getElementById('{id}').textContent"));
    text.as_str().unwrap().to_owned()
}

/// The swarm's scene showed what the scene before said of its slider, and one's own trace its count of events.
fn a_scene_that_is_left_leaves_no_words(browser: &mut Browser, page: &Path) {
    browser.open(page, "scene=hills2015&at=0");
    assert!(!text_of(browser, "shows").is_empty());
    browser.value("location.hash = 'scene=swarm&at=0'");
    browser.until("playground.isStill() && playground.address().startsWith('scene=swarm')");
    assert_eq!(text_of(browser, "shows"), "");
    browser.value("location.hash = 'scene=own'");
    browser.until("!document.getElementById('own').hidden");
    let seen =
        "['about-scenes', 'about-own'].map(id => document.getElementById(id).getClientRects().length > 0)";
    assert_eq!(browser.value(seen), serde_json::json!([false, true]));
    browser.value("location.hash = 'scene=swarm&at=0'");
    browser.until("document.getElementById('own').hidden");
    assert_eq!(browser.value(seen), serde_json::json!([true, false]));
    browser.until(STILL);
}

/// Reaching the first moment of a scene can take many seconds, and nothing showed that.
fn a_long_way_says_where_it_goes(browser: &mut Browser, page: &Path) {
    browser.open(page, "scene=dillon2000&at=0");
    assert_eq!(browser.value("document.getElementById('going').hidden"), true);
    // to the end, in one go; the end of the scene is too far for a glance on any machine
    browser.value("(() => { const m = document.getElementById('moment'); m.value = m.max; m.dispatchEvent(new Event('input')) })()");
    browser
        .until("!document.getElementById('going').hidden && document.getElementById('going-bar').value > 0");
    let said = text_of(browser, "going-text");
    assert!(
        said.starts_with("Running to ") && said.ends_with(" s …"),
        "{said}"
    );
    browser.value("document.getElementById('run').click()");
    browser.value("document.getElementById('run').click()");
    browser.until(STILL);
    assert_eq!(browser.value("document.getElementById('going').hidden"), true);
}

/// Pasted, by a link, and with another memory: misses are those of the native code.
fn an_own_trace_is_counted(browser: &mut Browser, page: &Path) {
    let pages: Vec<u32> = (0..400)
        .map(|n| if n % 3 == 0 { n % 7 } else { n * n % 61 })
        .collect();
    let text: Vec<String> = pages.iter().map(u32::to_string).collect();
    let (native, _) = Recorded::read("pasted.pages", text.join("\n").as_bytes()).unwrap();
    browser.open(page, &format!("scene=own&frames=20&pages={}", text.join(".")));
    let ready = |browser: &mut Browser, frames: u64| {
        browser.until(&format!(
            "document.getElementById('own-table').dataset.ready === '{frames}'"
        ));
        let cells = "[...document.querySelectorAll('#own-table tr')].slice(1).map(row => Number(row.cells[1].textContent.replace(/,/g, '')))";
        let shown = browser.value(cells);
        let counts: Vec<u64> = shown
            .as_array()
            .unwrap()
            .iter()
            .map(|count| count.as_u64().unwrap())
            .collect();
        let expected: Vec<u64> = (0..recorded::models().len())
            .map(|model| native.misses(model, frames))
            .collect();
        assert_eq!(counts, expected, "{frames} frames");
    };
    ready(browser, 20);
    browser.value("(() => { const s = document.getElementById('own-memory'); s.value = 0; s.dispatchEvent(new Event('input')) })()");
    ready(browser, 1);
    browser.until("!document.getElementById('own-why').hidden");
    let why = browser.value("document.getElementById('own-why').textContent");
    let misses: Vec<u64> = (1..recorded::models().len())
        .map(|model| native.misses(model, 1))
        .collect();
    let least = misses.iter().min().unwrap();
    let expected = match misses.last() == Some(least) {
        true => "Only the optimum, which knows the future, misses less".to_owned(),
        false => native.why(1 + misses.iter().position(|other| other == least).unwrap(), 1),
    };
    assert!(why.as_str().unwrap().contains(&expected), "{why}");
    let hash = browser.value("location.hash");
    assert!(
        hash.as_str()
            .unwrap()
            .starts_with("#scene=own&frames=1&pages=0.1.4."),
        "{hash}"
    );
    // The example is named by its memory alone.
    browser.value("document.getElementById('own-example').click()");
    browser.until("document.getElementById('own-said').textContent.includes('uses of 1,360 different') && /^#scene=own&frames=\\d+$/.test(location.hash)");
    let hash = browser.value("location.hash");
    // Other formats, and what is none.
    let give = |text: &str| {
        format!(
            "(() => {{ document.getElementById('own-text').value = {text:?}; document.getElementById('own-read').click() }})()"
        )
    };
    browser.value(&give("128166372003061629,usr,0,Read,7014609920,24576,41286"));
    browser.until("document.getElementById('own-said').textContent.includes('msr, 7 uses of 7')");
    browser.until("location.hash === '#scene=own'");
    assert!(text_of(browser, "own-note").contains("The address does not name this trace"));
    browser.open(page, hash.as_str().unwrap().trim_start_matches('#'));
    browser.until(&format!("location.hash === {hash} && document.getElementById('own-table').dataset.ready === {hash}.split('=')[2]"));
    browser.value(&give("what is this"));
    browser.until("document.getElementById('own-said').textContent.includes('no trace that can be read')");
}

fn it_fits_narrow_screens(browser: &mut Browser, page: &Path) {
    for (width, scheme) in [(400, "dark"), (400, "light"), (1280, "dark"), (1280, "light")] {
        browser.screen(width, scheme);
        for name in SCENES.iter().map(|scene| scene.name).chain(["own"]) {
            browser.open(page, &format!("scene={name}&at=200000000"));
            let wide = browser
                .value("document.documentElement.scrollWidth")
                .as_u64()
                .unwrap();
            assert!(wide <= width.into(), "{name} is {wide} wide on {width}");
            // Nothing is cut: what is wider than its box is scrolled, or hidden.
            let cut = "[...document.querySelectorAll('main *')].filter(e => e.getClientRects().length > 0 && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 1 && getComputedStyle(e).display !== 'inline').map(e => `${e.tagName} ${e.id} ${e.className} ${e.textContent.slice(0, 40)}`)";
            assert_eq!(browser.value(cut), serde_json::json!([]), "{name} on {width}");
            let reachable = "document.getElementById('scene').hidden || document.getElementById('begin').getClientRects().length > 0";
            assert_eq!(
                browser.value(reachable),
                true,
                "{name} on {width}: the button to the beginning"
            );
            let silent = "[...document.querySelectorAll('canvas, svg[role=img]')].filter(e => e.getClientRects().length > 0 && !e.getAttribute('aria-label')).length";
            assert_eq!(browser.value(silent), 0, "{name}: a picture without words");
        }
    }
}

//! What the host hides is out of the reach of commands.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_tools::{Confinement, Environment, Policy};

use crate::hidden::{SECRET, fill};
use crate::support::{Place, sandboxes, snapshot};

#[tokio::test]
async fn a_directory_inside_of_the_root_is_not_seen_and_stays_where_it_is() {
    for way in sandboxes() {
        let place = Place::confined(way, Policy::default()).files(&[("a/b/x", "x"), ("c/", "")]);
        let data = place.root().join("a/b/data");
        fill(&data);
        place.environments.hide(&data);
        symlink("a/b/data", place.root().join("link")).unwrap();
        let before = snapshot(&data);
        let root = place.root();
        let at = root.display();
        for attempt in [
            "cat a/b/data/token link/token a/b/data/sub/key".to_owned(),
            format!("cat /proc/self/root{at}/a/b/data/token /proc/self/cwd/a/b/data/token"),
            format!("cat /proc/1/root{at}/a/b/data/token; cat /proc/*/root{at}/a/b/data/token"),
            "for f in /proc/[0-9]*/fd/*; do cat $f/token; done 2>/dev/null".to_owned(),
            "find / -xdev -name token -exec cat {} + 2>/dev/null".to_owned(),
            "mv a/b/data c/; cat c/data/token".to_owned(),
            "mv a/b a/z; cat a/z/data/token".to_owned(),
            "mv a z; cat z/b/data/token".to_owned(),
            "python3 -c \"import os; os.rename('a', 'z')\"; cat z/b/data/token".to_owned(),
            "ln a/b/data/token c/hard; cat c/hard".to_owned(),
            "unshare -rm sh -c 'umount a/b/data; mount --bind a c; cat a/b/data/token c/b/data/token'".to_owned(),
            "unshare -rm sh -c 'umount -l a/b; cat a/b/data/token'".to_owned(),
            "rm -rf a/b/data; rm -rf a/b/data/*; rmdir a/b/data a/b a".to_owned(),
            "echo evil > a/b/data/tokens.json; echo evil > link/new; mkdir -p a/b/data/d".to_owned(),
        ] {
            let ran = place.shell(&attempt).await.unwrap();
            let output = ran["output"].as_str().unwrap();
            assert!(!output.contains(SECRET), "{way:?}: {attempt}: {output}");
            assert_eq!(snapshot(&data), before, "{way:?}: {attempt}: {output}");
            // Nor does the next one find what this one left.
            let ran = place.shell("grep -rs 3cret . ; cat */*/*/token").await.unwrap();
            let output = ran["output"].as_str().unwrap();
            assert!(!output.contains(SECRET), "{way:?}: after {attempt}: {output}");
        }
        let ran = place.shell("echo y > c/new && cat c/new").await.unwrap();
        assert_eq!(ran["output"], "y\n", "{way:?}: {ran}");
    }
}

#[tokio::test]
async fn what_was_moved_away_is_not_seen_where_it_is_now() {
    for way in sandboxes() {
        let place = Place::confined(way, Policy::default()).files(&[("c/", "")]);
        let data = place.root().join("data");
        fill(&data);
        place.environments.hide(&data);
        fs::rename(&data, place.root().join("c/moved")).unwrap();
        let ran = place.shell("cat c/moved/token; ls -R").await.unwrap();
        let output = ran["output"].as_str().unwrap();
        assert!(!output.contains(SECRET), "{way:?}: {output}");
        assert!(!output.contains("tokens.json"), "{way:?}: {output}");
    }
}

#[tokio::test]
async fn a_link_that_a_command_could_replace_under_the_host_stops_commands() {
    for way in sandboxes() {
        let place = Place::confined(way, Policy::default());
        let (data, link) = (place.outside().join("data"), place.root().join("link"));
        fill(&data);
        symlink(&data, &link).unwrap();
        place.environments.hide(&link);
        let told = place.shell("rm link; mkdir link").await.unwrap_err();
        for part in [link.display().to_string().as_str(), "--data", "`local`"] {
            assert!(told.contains(part), "{way:?}: {told}");
        }
        assert!(link.is_symlink());
        let read_only = Policy {
            write: false,
            ..Policy::default()
        };
        let looking = Place::confined(way, read_only);
        looking.environments.hide(&link);
        let ran = looking.shell("echo fine").await.unwrap();
        assert_eq!(ran["output"], "fine\n", "{way:?}");
    }
}

/// The figure in the remark is what a person would have to find out by trying.
#[tokio::test]
async fn landlock_says_where_nothing_can_be_made_and_what_helps() {
    if !sandboxes().contains(&Confinement::Landlock) {
        return;
    }
    let place = Place::confined(Confinement::Landlock, Policy::default()).files(&[("c/", "")]);
    let data = place.root().join("a/data");
    fill(&data);
    place.environments.hide(&data);
    for command in ["echo x > new", "mkdir a/new; true"] {
        let ran = place.shell(command).await.unwrap();
        let remark = ran["remark"].as_str().unwrap_or_default();
        let root = place.root().display().to_string();
        for part in [
            root.as_str(),
            "1 directories below",
            "`--data`",
            "bubblewrap",
        ] {
            assert!(remark.contains(part), "{command}: {ran}");
        }
        assert!(!place.root().join("new").exists());
    }
    let ran = place.shell("echo x > c/new").await.unwrap();
    assert_eq!(
        (&ran["exit_code"], &ran["remark"]),
        (&0.into(), &Value::Null)
    );
    let elsewhere = Place::confined(Confinement::Landlock, Policy::default());
    elsewhere.environments.hide(&data);
    let ran = elsewhere.shell("echo x > new; false").await.unwrap();
    assert_eq!(ran["remark"], Value::Null, "{ran}");
    assert_eq!(elsewhere.text("new"), "x\n");
}

#[tokio::test]
async fn bubblewrap_lets_everything_be_made_around_what_is_hidden() {
    if !sandboxes().contains(&Confinement::Bubblewrap) {
        return;
    }
    let place = Place::confined(Confinement::Bubblewrap, Policy::default());
    let data = place.root().join("a/b/data");
    fill(&data);
    place.environments.hide(&data);
    let around =
        "echo x > new; echo x > a/new; echo x > a/b/new; mkdir a/d; mv a/b/new moved; rm new";
    let ran = place.shell(around).await.unwrap();
    assert_eq!(ran["exit_code"], 0, "{ran}");
    assert_eq!(place.text("moved") + &place.text("a/new"), "x\nx\n");
    assert!(place.root().join("a/d").is_dir());
    assert!(!place.root().join("new").exists());
    let ran = place.shell("echo x > a/b/data/new").await.unwrap();
    assert_ne!(
        ran["exit_code"], 0,
        "a write that went nowhere would be a lie: {ran}"
    );
}

#[tokio::test]
async fn the_root_of_another_environment_cannot_be_swapped_for_a_link() {
    for way in sandboxes() {
        let place =
            Place::confined(way, Policy::default()).files(&[("a/inner/f", "f"), ("c/", "")]);
        let data = place.root().join("data");
        fill(&data);
        place.environments.hide(&data);
        let inner = place.root().join("a/inner");
        let other = Environment::new("other", &inner, Policy::default()).unwrap();
        place.environments.put(other);
        for attempt in [
            "mv a/inner c/; ln -s ../data a/inner",
            "rm -rf a/inner; ln -s ../data a/inner",
            "mv a c/; mkdir a; ln -s ../data a/inner",
        ] {
            let ran = place.shell(attempt).await.unwrap();
            let is_kept = inner.is_dir() && !inner.is_symlink();
            let must_be = way == Confinement::Bubblewrap;
            assert!(is_kept || !must_be, "{way:?}: {attempt}: {ran}");
            // Landlock lets it happen further down, and then refuses what the link leads to.
            let place = place.at(TurnEnvironment::new("other", ""));
            for look in ["cat token; cat f", "ls; cat ../data/token"] {
                let ran = place.shell(look).await;
                let told = ran.map_or_else(|told| told, |ran| ran.to_string());
                assert!(!told.contains(SECRET), "{way:?}: {attempt}: {told}");
            }
        }
        assert_eq!(fs::read_to_string(data.join("token")).unwrap(), SECRET);
    }
}

/// Rules of landlock are on files and not on names: one on a second name would open the first.
#[tokio::test]
async fn a_second_name_beside_a_hidden_file_does_not_open_it() {
    for way in sandboxes() {
        let place = Place::confined(way, Policy::default()).files(&[("key", SECRET), ("sub/", "")]);
        fs::hard_link(place.root().join("key"), place.root().join("again")).unwrap();
        place.environments.hide(place.root().join("key"));
        let ran = place.shell("cat key sub/../key; echo evil > key").await;
        let ran = ran.unwrap();
        assert!(
            !ran["output"].as_str().unwrap().contains(SECRET),
            "{way:?}: {ran}"
        );
        assert_eq!(place.text("key"), SECRET, "{way:?}");
    }
}

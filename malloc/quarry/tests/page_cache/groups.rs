//! Groups: limits for the pages of some mappings.

use crate::alone::alone;
use crate::store::{Disk, PAGE, readable};
use quarry::{Error, Group, GroupOptions, PageCache};

#[test]
fn mappings_of_a_group_share_its_limits() {
    alone("groups::shared_limits", &[("QUARRY_LIMIT", "32M")]);
}

#[test]
#[ignore = "needs groups of its own"]
fn shared_limits() {
    const MAX: usize = 1 << 20;
    let options = GroupOptions { max: MAX, pinned_max: 64 * PAGE, ..GroupOptions::default() };
    let group = Group::new("job", &options).expect("there is none yet");
    let disk = Disk::of_pages(1000);
    let open = || PageCache::builder().group(&group).read_ahead(0).open(readable(&disk)).unwrap();
    let (one, two, free) = (open(), open(), PageCache::open(readable(&disk)).unwrap());
    for index in 0..1000 {
        for mapping in [&one, &two, &free] {
            assert_eq!(mapping.read(index).unwrap().index(), index);
        }
        assert!(group.usage().used <= MAX);
    }
    assert!(one.pages() + two.pages() > 200 && free.pages() == 1000);
    // The pins of both mappings count against the group.
    let mut pins: Vec<_> = (0..32).map(|index| one.read(index).unwrap()).collect();
    pins.extend((0..32).map(|index| two.read(index).unwrap()));
    assert_eq!(group.usage().pinned, 64 * PAGE);
    assert!(matches!(one.read(100), Err(Error::Full)));
    assert!(one.get(0).is_none(), "it is there, and may not be pinned again");
    assert!(free.read(100).is_ok(), "another group's limit");
    pins.pop();
    let again = pins[0].clone();
    assert_eq!(group.usage().pinned, 64 * PAGE);
    drop((again, pins));
    assert_eq!(group.usage().pinned, 0);
    assert!(one.read(100).is_ok());
    for (min, high, max) in [(5 << 20, 1, 0), (2 * MAX, usize::MAX, MAX), (1, 0, MAX)] {
        let options = GroupOptions { min, high, max, ..GroupOptions::default() };
        let refused = group.set_limits(&options).unwrap_err();
        assert!(matches!(refused, Error::NotAccepted { value, .. } if value == min), "{refused}");
        assert_eq!(Group::new("job", &options).unwrap_err(), refused);
    }
    group.set_limits(&options).unwrap();
    let group = group.remove().expect_err("two mappings belong to it");
    drop((one, two));
    assert!(group.remove().is_ok());
    assert!(free.pages() == 1000);
}

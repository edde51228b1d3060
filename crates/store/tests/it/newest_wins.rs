use std::collections::BTreeMap;

use backstop_store::{Register, Store};
use proptest::{collection::vec, prelude::*};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_newest_state_of_a_subject_is_what_a_restart_finds(
        batches in vec(vec((0_u8..6, proptest::option::of("[a-z]{0,8}"), any::<bool>()), 1..12), 1..12)
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path()).expect("the store opens");
        let mut expected = BTreeMap::new();
        for batch in batches {
            let wait = batch[0].2;
            let changes: Vec<_> = batch
                .into_iter()
                .map(|(subject, state, _)| (Register::Health, format!("key/{subject}"), state))
                .collect();
            for (_, subject, state) in changes.clone() {
                match state {
                    Some(state) => expected.insert(subject, state),
                    None => expected.remove(&subject),
                };
            }
            let ack = store.save(changes);
            if wait {
                prop_assert!(ack.wait());
            }
        }
        let expected: Vec<_> = expected.into_iter().collect();
        prop_assert_eq!(&store.load_health(), &expected);
        store.close();
        drop(store);
        let reopened = Store::open(folder.path()).expect("the store opens again");
        prop_assert_eq!(&reopened.load_health(), &expected);
    }
}

#[test]
fn an_object_is_found_before_and_after_it_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path()).expect("the store opens");
    let ack = store.save([(Register::Object, "file-1".to_owned(), Some("key 7".to_owned()))]);
    assert_eq!(store.state(Register::Object, "file-1").expect("readable").as_deref(), Some("key 7"));
    assert!(ack.wait());
    assert_eq!(store.state(Register::Object, "file-1").expect("readable").as_deref(), Some("key 7"));
    assert_eq!(store.state(Register::Object, "file-2").expect("readable"), None);
}

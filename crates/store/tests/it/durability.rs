//! What was acknowledged survives `kill -9`.

use std::{
    collections::HashMap,
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
};

use backstop_store::Store;

const CHILD: &str = "BACKSTOP_STORE_CHILD";
/// How often the child is killed; set it to some hundreds for the long form.
const KILLS: &str = "BACKSTOP_STORE_KILLS";

/// Not a test of its own: what the killed process runs.
#[test]
fn writes_until_it_is_killed() {
    let Some(folder) = env::var_os(CHILD) else { return };
    let store = Store::open(Path::new(&folder)).expect("the store opens");
    let mut stdout = std::io::stdout();
    for number in 0_u64.. {
        let subject = format!("key/{}", number % 7);
        store.record_request(crate::request(&format!("r{number}"), 0));
        if !store.save_health(vec![(subject, number.to_string())]).wait() {
            return;
        }
        if writeln!(stdout, "acked {number}").and_then(|()| stdout.flush()).is_err() {
            return;
        }
    }
}

#[test]
fn acknowledged_states_survive_kill_nine() {
    let kills: u64 = env::var(KILLS).ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    for round in 0..kills {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = child(folder.path());
        // The moment differs from round to round and from machine to machine: after so many acknowledgements.
        let wanted = (round * 37) % 101;
        let mut acked: HashMap<u64, u64> = HashMap::new();
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut killed = false;
        for line in lines.map_while(Result::ok) {
            let Some(number) = line.split("acked ").nth(1).and_then(|text| text.parse::<u64>().ok()) else {
                continue;
            };
            acked.insert(number % 7, number);
            if number >= wanted && !killed {
                child.kill().expect("it can be killed");
                killed = true;
            }
        }
        child.wait().expect("it ends");
        assert!(killed, "the child ended by itself");
        let store = Store::open(folder.path()).expect("the store opens after a kill");
        let found: HashMap<String, String> = store.load_health().into_iter().collect();
        for (subject, number) in acked {
            let state = found.get(&format!("key/{subject}")).and_then(|state| state.parse::<u64>().ok());
            assert!(state >= Some(number), "round {round}: key/{subject} was {number} and is {state:?}");
        }
        assert_eq!(store.stats().salvages, 0);
    }
}

fn child(folder: &Path) -> Child {
    Command::new(env::current_exe().expect("this test"))
        .args(["--exact", "durability::writes_until_it_is_killed", "--nocapture", "--test-threads=1"])
        .env(CHILD, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("this test can be started again")
}

#[test]
fn a_second_process_cannot_open_the_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = child(folder.path());
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("acked")));
    let error = Store::open(folder.path()).expect_err("it is in use");
    assert!(error.to_string().contains("another backstop is using the data folder"), "{error}");
    assert!(!error.is_permanent());
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
}

//! The demo is the product's promise in one command: it must end well where nobody watches.

use std::process::Command;

#[test]
fn clients_of_the_demo_see_no_failure() {
    let output = Command::new(env!("CARGO_BIN_EXE_backstop"))
        .args(["demo", "--exit-after", "120", "--rate", "40"])
        .env("NO_COLOR", "1")
        .output()
        .expect("the binary was built for this test");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("0  failures that they should not have seen"), "{said}");
    assert!(said.contains("elm  revoked                     1 of 1    calls  disabled"), "{said}");
    assert!(!said.contains('\x1b'), "colours where there is no terminal: {said}");
}

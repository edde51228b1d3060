use backstop_alerts::{Channel, ChannelConfig, Source};
use expect_test::expect;
use jiff::tz::TimeZone;

#[test]
fn mistakes_are_named_with_their_cure() {
    let wrong = [
        r#"channel = "webhook"
           url = "https://example.org/hook""#,
        r#"channel = "webhook"
           url = "https://example.org/hook"
           secret = "  ""#,
        r#"channel = "webhook"
           url = "https://example.org/hook"
           secret_env = "EMPTY""#,
        r#"channel = "webhook"
           url = "https://example.org/hook"
           secret_env = "UNSET""#,
        r#"channel = "webhook"
           url = "example.org"
           secret = "s""#,
        r#"channel = "slack""#,
        r#"channel = "telegram"
           secret = "t""#,
        r#"channel = "email"
           smtp = "localhost:25"
           from = "a@example.org"
           to = ["b"]"#,
        r#"channel = "email"
           smtp = "localhost:25"
           smtp_tls = "none"
           user = "u"
           secret = "p"
           from = "a@example.org"
           to = ["b@example.org"]"#,
        r#"channel = "command""#,
        r#"channel = "pigeon""#,
        r#"channel = "command"
           name = "../x"
           command = ["true"]"#,
        r#"channel = "command"
           command = ["true"]
           quiet = "at night""#,
    ];
    let lines: Vec<String> = wrong.iter().map(|text| channel(text).unwrap_err()).collect();
    expect![[r#"
        alert channel "webhook": a webhook is signed: set secret_env, secret_file or secret to a secret that the receiver knows
        alert channel "webhook": the secret is empty
        alert channel "webhook": the secret is empty
        alert channel "webhook": the environment variable UNSET is not set
        alert channel "webhook": url must begin with https:// or http://
        alert channel "slack": url is missing
        alert channel "telegram": chat is missing
        alert channel "email": "b" is no mail address
        alert channel "email": smtp_tls = "none" would send the password in the clear
        alert channel "command": command is missing
        alert channel "pigeon": channel = "pigeon" is not known; use webhook, slack, discord, telegram, ntfy, email or command
        alert channel "../x": the name must be letters, digits, '-', '_' and '.'
        alert channel "command": quiet = "at night" names no known time zone"#]].assert_eq(&lines.join("\n"));
}

#[test]
fn an_unknown_field_is_a_mistake_and_no_secret_is_printed() {
    assert!(toml::from_str::<ChannelConfig>("channel = \"slack\"\nurll = \"x\"").is_err());
    let text = "channel = \"webhook\"\nurl = \"https://example.org/T0KEN\"\nsecret = \"hush\"";
    let config: ChannelConfig = toml::from_str(text).unwrap();
    let resolved = Channel::new(&config, &lookup, &TimeZone::UTC).unwrap();
    let printed = format!("{config:?} {resolved:?}");
    assert!(!printed.contains("hush") && !printed.contains("T0KEN"), "{printed}");
}

fn channel(text: &str) -> Result<Channel, String> {
    let config: ChannelConfig = toml::from_str(text).unwrap();
    Channel::new(&config, &lookup, &TimeZone::UTC).map_err(|error| error.to_string())
}

fn lookup(source: Source<'_>) -> Option<String> {
    match source {
        Source::Environment("EMPTY") => Some(String::new()),
        Source::Environment(_) | Source::File(_) => None,
    }
}

//! The window in a model's name: `-32k`, `:128k`, `-1m`, `[1m]`.

/// The window that a name states, in tokens.
pub fn window_in_name(model: &str) -> Option<u64> {
    let name = model.trim().to_ascii_lowercase();
    let words = name.split(|c: char| "-:_/@[]() ".contains(c));
    words.skip(1).filter_map(window_of).last()
}

/// Small powers of two are meant in binary by everybody; larger numbers are read as the smaller thing they can
/// mean. Millions above ten are a count of parameters.
fn window_of(word: &str) -> Option<u64> {
    if let Some(thousands) = word.strip_suffix('k') {
        let thousands: u64 = thousands.parse().ok()?;
        let unit = if thousands.is_power_of_two() && thousands <= 64 { 1_024 } else { 1_000 };
        return (4..=2_048).contains(&thousands).then_some(thousands * unit);
    }
    let millions: u64 = word.strip_suffix('m')?.parse().ok()?;
    (1..=10).contains(&millions).then_some(millions * 1_000_000)
}

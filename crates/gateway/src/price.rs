//! What an answer cost: as the provider itself says, else estimated from list prices, else unknown.
//!
//! An unknown price gives no figure, never zero: nobody should take a sum for complete that is not.

use std::collections::HashMap;

use backstop_dialect::Usage;
use backstop_triage::{
    ModelId,
    context::directory::{Directory, Price, Tokens},
};
use parking_lot::Mutex;

use crate::config::BaseUrl;

/// The list prices of one provider, as they were looked up.
#[derive(Debug, Default)]
pub(crate) struct Prices {
    known: Mutex<HashMap<ModelId, Option<Price>>>,
}

/// What an answer cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// In millionths of a dollar; what is not free costs one at least.
    pub(crate) micros: u64,
    /// Whether the provider said so; otherwise it is an estimate.
    pub(crate) reported: bool,
}

impl Prices {
    /// The cost of an answer by a model that is served below `base_url`.
    pub(crate) fn cost(&self, base_url: &BaseUrl, model: &ModelId, usage: &Usage) -> Option<Cost> {
        if let Some(dollars) = usage.cost.filter(|cost| *cost >= 0.0) {
            return Some(Cost { micros: micros(dollars), reported: true });
        }
        let (Some(input), Some(output)) = (usage.input, usage.output.or(Some(0))) else { return None };
        let price = self.of(base_url, model)?;
        let cache_read = usage.cache_read.unwrap_or(0);
        let cache_write = usage.cache_creation.unwrap_or(0);
        let input = input.saturating_sub(cache_read).saturating_sub(cache_write);
        let dollars = price.cost(Tokens { input, output, cache_read, cache_write });
        Some(Cost { micros: micros(dollars), reported: false })
    }

    fn of(&self, base_url: &BaseUrl, model: &ModelId) -> Option<Price> {
        let mut known = self.known.lock();
        if let Some(price) = known.get(model) {
            return *price;
        }
        let entry = Directory::embedded().find(&base_url.to_string(), model.as_str());
        let price = entry.and_then(|entry| entry.price);
        if known.len() < MODELS_KEPT {
            known.insert(model.clone(), price);
        }
        price
    }
}

fn micros(dollars: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a price is small and not negative"
    )]
    let micros = (dollars * 1e6).round() as u64;
    if dollars > 0.0 { micros.max(1) } else { 0 }
}

/// Names of models come from clients, so that there may be any number.
const MODELS_KEPT: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    const OPENAI: &str = "https://api.openai.com/v1";

    fn cost(place: &str, model: &str, usage: Usage) -> Option<Cost> {
        Prices::default().cost(&BaseUrl::parse(place).unwrap(), &ModelId::from(model), &usage)
    }

    #[test]
    fn the_providers_own_word_counts_most_and_the_list_price_is_an_estimate() {
        let usage = Usage { input: Some(1_000_000), output: Some(0), ..Usage::default() };
        let listed = cost(OPENAI, "gpt-4o", usage).unwrap();
        assert!(!listed.reported && listed.micros > 100_000, "{listed:?}");
        let told = Usage { cost: Some(0.25), ..usage };
        assert_eq!(cost(OPENAI, "gpt-4o", told), Some(Cost { micros: 250_000, reported: true }));
        let cached = Usage { cache_read: Some(1_000_000), ..usage };
        assert!(cost(OPENAI, "gpt-4o", cached).unwrap().micros < listed.micros, "what is cached is cheaper");
        let tiny = Usage { input: Some(1), output: Some(0), ..Usage::default() };
        assert!(cost(OPENAI, "gpt-4o-mini", tiny).unwrap().micros >= 1, "what is not free is not zero");
    }

    #[test]
    fn an_unknown_price_is_no_figure() {
        let usage = Usage { input: Some(1_000), output: Some(10), ..Usage::default() };
        assert_eq!(
            cost("http://10.0.0.7:8000/v1", "gpt-4o", usage),
            None,
            "a server of one's own has no list price"
        );
        assert_eq!(cost(OPENAI, "a-model-that-nobody-knows", usage), None);
        assert_eq!(cost(OPENAI, "gpt-4o", Usage::default()), None, "without a count there is no cost");
    }
}

//! `backstop combos`: virtual providers whose members take over from each other.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::api::{Connect, items, table, text};

/// Shows, sets and removes combos: virtual providers made of models of several providers.
///
/// Clients ask for COMBO/ALIAS, or for ALIAS under /proxy/COMBO. Members with the same alias take over from each other,
/// in order; without an alias a member goes by its model's own name.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  backstop combos set best top=first/large top=second/team/large small=house/small
  backstop combos list
  backstop combos rm best")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    connect: Connect,
}

#[derive(clap::Subcommand)]
enum What {
    /// Shows the combos that were added; those of the file are in `backstop check`.
    List,
    /// Adds a combo, or puts other members into it.
    Set {
        /// Its id in paths and models.
        id: String,
        /// [ALIAS=]PROVIDER/MODEL, in order.
        #[arg(required = true, value_name = "MEMBER")]
        members: Vec<String>,
    },
    /// Removes a combo.
    Rm {
        /// The combo.
        id: String,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let api = args.connect.open()?;
    match &args.what {
        What::List => {}
        What::Set { id, members } => {
            let members = members.iter().map(|member| parse(member)).collect::<Result<Vec<_>>>()?;
            let combo = json!({ "id": id, "members": members });
            let known = api.get("/combos")?;
            if items(&known).any(|known| known["id"] == **id) {
                api.put(&format!("/combos/{id}"), &combo)?;
            } else {
                api.post("/combos", &combo)?;
            }
        }
        What::Rm { id } => drop(api.delete(&format!("/combos/{id}"))?),
    }
    api.show(&api.get("/combos")?, |combos| {
        let rows: Vec<Vec<String>> = items(combos).flat_map(rows).collect();
        table(&["COMBO", "ALIAS", "PROVIDER", "MODEL"], &rows)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn rows(combo: &Value) -> Vec<Vec<String>> {
    let row = |member: &Value| {
        let [provider, model, alias] = ["provider", "model", "alias"].map(|field| text(member, field));
        let alias = if alias.is_empty() { model.clone() } else { alias };
        vec![text(combo, "id"), alias, provider, model]
    };
    items(&combo["members"]).map(row).collect()
}

/// A member of a combo as people write it.
pub(crate) fn member(member: &Value) -> String {
    let target = format!("{}/{}", text(member, "provider"), text(member, "model"));
    match member["alias"].as_str() {
        Some(alias) => format!("{alias}={target}"),
        None => target,
    }
}

/// The member that people wrote, as the API takes it.
pub(crate) fn parse(member: &str) -> Result<Value> {
    let (alias, target) =
        member.split_once('=').map_or((None, member), |(alias, target)| (Some(alias), target));
    let (provider, model) = target
        .split_once('/')
        .with_context(|| format!("{member} is no member; write PROVIDER/MODEL or ALIAS=PROVIDER/MODEL"))?;
    Ok(json!({ "provider": provider, "model": model, "alias": alias }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_split_at_the_first_slash_and_may_have_an_alias() {
        let plain = parse("openrouter/z-ai/glm-5.2").unwrap();
        assert_eq!(plain, json!({ "provider": "openrouter", "model": "z-ai/glm-5.2", "alias": null }));
        assert_eq!(parse("top=a/m").unwrap()["alias"], "top");
        assert!(parse("top").is_err());
    }
}

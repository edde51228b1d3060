//! What every operation of the document has in common: the refusals that any of them may give, and who may ask.

use utoipa::{
    PartialSchema as _, ToSchema as _,
    openapi::{
        Components, Content, Object, ObjectBuilder, OpenApi, Ref, RefOr, Required, Response,
        SecurityRequirement, Type,
        path::{Operation, Parameter, ParameterBuilder, ParameterIn},
        security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use super::once::IDEMPOTENCY_KEY;
use crate::problem::{FieldError, Problem};

/// Completes the generated document.
pub(super) fn complete(document: &mut OpenApi) {
    document.info.title = "Backstop".to_owned();
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    document.info.description = Some(
        "Everything that the dashboard and the command line do. Errors are RFC 9457 problems.".to_owned(),
    );
    let components = document.components.get_or_insert_with(Components::new);
    components.schemas.insert(Problem::name().into_owned(), Problem::schema());
    components.schemas.insert(FieldError::name().into_owned(), FieldError::schema());
    let bearer =
        HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("The admin token.")).build();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    let cookie = ApiKey::Cookie(ApiKeyValue::new("backstop-session"));
    components.add_security_scheme("session", SecurityScheme::ApiKey(cookie));
    for (path, item) in &mut document.paths.paths {
        if let Some(operation) = item.post.as_mut().filter(|_| !OPEN.contains(&path.as_str())) {
            operation.parameters.get_or_insert_default().push(RefOr::T(idempotency_key()));
        }
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        for operation in operations.into_iter().flatten() {
            add_refusals(operation);
            if !OPEN.contains(&path.as_str()) {
                let nothing: [&str; 0] = [];
                operation.security = Some(vec![
                    SecurityRequirement::new("token", nothing),
                    SecurityRequirement::new("session", nothing),
                ]);
            }
        }
    }
}

fn idempotency_key() -> Parameter {
    let text = Object::with_type(Type::String);
    ParameterBuilder::new()
        .name(IDEMPOTENCY_KEY.as_str())
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(
            "A request that is sent again under the same key within a day is carried out once.",
        ))
        .schema(Some(ObjectBuilder::from(text).min_length(Some(1)).max_length(Some(255))))
        .build()
}

fn add_refusals(operation: &mut Operation) {
    for (status, description) in REFUSALS {
        let schema = RefOr::Ref(Ref::from_schema_name("Problem"));
        let mut response = Response::new(description);
        response.content.insert("application/problem+json".to_owned(), RefOr::T(Content::new(Some(schema))));
        operation.responses.responses.entry(status.to_owned()).or_insert(RefOr::T(response));
    }
}

/// Where nobody needs to be signed in.
const OPEN: [&str; 4] = ["/api/auth/login", "/api/auth/link", "/api/auth/logout", "/api/auth/session"];
const REFUSALS: [(&str, &str); 11] = [
    ("400", "The request cannot be understood."),
    ("401", "Nobody is signed in, or the credentials are wrong."),
    ("403", "Another web page asks."),
    ("404", "It is not there."),
    ("409", "Something is in the way."),
    ("412", "It was changed meanwhile."),
    ("413", "It is too large."),
    ("415", "It is not JSON."),
    ("422", "A value cannot be."),
    ("429", "Too many tries."),
    ("503", "It cannot be saved at the moment."),
];

//! API keys as bearer tokens.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use control::{Caller, Member, Secret, Via};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use wire::error::Code;

use crate::http::{
    AppState,
    limits::{Who, too_many},
    origin::Source,
    problem::Problem,
};

/// Echoes the organization that the request acted in.
pub const ORGANIZATION: HeaderName = HeaderName::from_static("recursion-organization-id");

/// The layer: finds the key's member, checks the organization headers, counts the request.
pub async fn authenticate(
    State(state): State<AppState>,
    mut request: Request,
    next: Next,
) -> Response {
    let address = request
        .extensions()
        .get::<Source>()
        .and_then(|source| source.address);
    if let Some(address) = address
        && let Err(wait) = state.limiter.take(Who::address(address))
    {
        return too_many(wait).into_response();
    }
    let member = match identify(&state, request.headers()).await {
        Ok(member) => member,
        Err(problem) => return problem.into_response(),
    };
    let organization = HeaderValue::from_str(&member.organization_id.to_string());
    let checked = check_headers(request.headers(), &member).and_then(|()| match member.via {
        Via::ApiKey(id) => state.limiter.take(Who::Key(id)).map_err(too_many),
        Via::Console(_) => Ok(()),
    });
    let ctx = super::op_ctx(&request, Caller::Member(member));
    request.extensions_mut().insert(ctx);
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    if let Ok(value) = organization {
        response.headers_mut().insert(ORGANIZATION, value);
    }
    response
}

async fn identify(state: &AppState, headers: &HeaderMap) -> Result<Member, Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let token = match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok().and_then(key_of),
        _ => None,
    };
    let token = token.ok_or_else(|| {
        Problem::new(
            Code::Unauthorized,
            "Send an API key: the header Authorization: Bearer rma_… with a key from the console's API keys page.",
        )
    })?;
    Ok(state.control.authenticate_api_key(&token).await?)
}

/// The key of a header in the one shape that is accepted.
fn key_of(value: &str) -> Option<Secret> {
    let (scheme, token) = value.split_once(' ')?;
    let rest = token.strip_prefix("rma_")?;
    let fits = rest.len() == 43
        && rest
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    (scheme.eq_ignore_ascii_case("bearer") && fits).then(|| Secret::new(token))
}

/// `x-organization-id` may name the key's own organization or `default`; there are no tenants.
fn check_headers(headers: &HeaderMap, member: &Member) -> Result<(), Problem> {
    for value in headers.get_all("x-organization-id") {
        let name = value.to_str().unwrap_or_default().trim();
        if name.is_empty() {
            return Err(Problem::invalid(
                "x-organization-id",
                "The header x-organization-id is empty. Leave it out, or name your organization or default.",
            ));
        }
        if name != "default" && name != member.organization_id.to_string() {
            return Err(control::Error::other_organization().into());
        }
    }
    for value in headers.get_all("x-tenant-id") {
        if value.is_empty() {
            return Err(Problem::invalid(
                "x-tenant-id",
                "The header x-tenant-id is empty. Leave it out.",
            ));
        }
        if value != "default" {
            return Err(Problem::new(
                Code::Forbidden,
                "This deployment has no tenants. Leave the header x-tenant-id out.",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_key_of_the_one_shape_is_looked_up() {
        let key = format!("rma_{}", "aZ09-_".repeat(8).get(..43).unwrap());
        assert_eq!(key_of(&format!("Bearer {key}")).unwrap().expose(), key);
        assert!(key_of(&format!("bearer {key}")).is_some());
        for wrong in [
            key.clone(),
            format!("Basic {key}"),
            format!("Bearer  {key}"),
            format!("Bearer {key}a"),
            format!("Bearer {}", &key[..46]),
            format!("Bearer {}", key.replace("rma_", "rmb_")),
            format!("Bearer {}", key.replace('-', "+")),
            "Bearer ".to_owned(),
            String::new(),
        ] {
            assert!(key_of(&wrong).is_none(), "{wrong}");
        }
    }
}

//! The audit log: pages, and the whole of it as lines.

use axum::{
    Json,
    body::{Body, Bytes},
    extract::State,
    response::{IntoResponse, Response},
};
use control::audit::{AuditFilter, AuditQuery, PAGE_MAX};
use domain::ids::AuditId;
use futures::{StreamExt, TryStreamExt, stream};
use http::{HeaderValue, header};
use wire::console::{AuditItem, AuditPage};

use super::extract::{Ctx, Query};
use crate::http::{
    AppState,
    problem::{Problem, internal},
};

/// Writes an entry as a line.
type Line = fn(&AuditItem) -> Result<String, Problem>;

fn filter(query: &Query) -> Result<AuditFilter, Problem> {
    let text = |name: &str| {
        query
            .text(name)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    Ok(AuditFilter {
        actor: text("actor"),
        action: text("action"),
        subject: text("subject"),
        since: query.time("since")?,
        until: query.time("until")?,
    })
}

/// Entries newest first; `?before=` the id of the last entry of the page before.
pub async fn list(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    query: Query,
) -> Result<Json<AuditPage>, Problem> {
    let query = query.only(&[
        "actor", "action", "subject", "since", "until", "limit", "before",
    ])?;
    let wanted = AuditQuery {
        filter: filter(&query)?,
        limit: query.number("limit", 1, PAGE_MAX.into())?,
        before: query.id::<AuditId>("before")?,
    };
    Ok(Json(state.control.audit_events(&ctx, &wanted).await?))
}

/// Everything that matches, as lines.
pub async fn export(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    query: Query,
) -> Result<Response, Problem> {
    let query = query.only(&["actor", "action", "subject", "since", "until", "format"])?;
    let filter = filter(&query)?;
    let (kind, name, head, line): (_, _, _, Line) = match query.text("format") {
        None | Some("ndjson") => (
            "application/x-ndjson",
            "attachment; filename=\"audit.ndjson\"",
            "",
            json_line,
        ),
        Some("csv") => (
            "text/csv; charset=utf-8",
            "attachment; filename=\"audit.csv\"",
            "audit_id,at,actor,source,action,subject,detail\r\n",
            |item| Ok(csv_line(item)),
        ),
        Some(_) => {
            return Err(Problem::invalid("format", "format: use ndjson or csv."));
        }
    };
    let entries = state.control.export_audit_events(&ctx, filter).await?;
    let lines = entries.map(move |page| {
        let page = page.map_err(|error| std::io::Error::other(error.chain().join(": ")))?;
        let mut text = String::new();
        for item in &page {
            text.push_str(&line(item).map_err(|_| std::io::Error::other("an entry"))?);
        }
        Ok::<_, std::io::Error>(Bytes::from(text))
    });
    let body = stream::once(async move { Ok(Bytes::from_static(head.as_bytes())) })
        .chain(lines)
        .inspect_err(
            |error| tracing::error!(cause = %error, "an export of the audit log broke off"),
        );
    Ok((
        [
            (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
            (header::CONTENT_DISPOSITION, HeaderValue::from_static(name)),
        ],
        Body::from_stream(body),
    )
        .into_response())
}

fn json_line(item: &AuditItem) -> Result<String, Problem> {
    serde_json::to_string(item)
        .map(|text| text + "\n")
        .map_err(|error| internal(error.to_string()))
}

fn csv_line(item: &AuditItem) -> String {
    let fields = [
        item.audit_id.to_string(),
        item.at.to_string(),
        item.actor.clone(),
        item.source.clone().unwrap_or_default(),
        item.action.clone(),
        item.subject.clone(),
        item.detail.to_string(),
    ];
    fields.map(|field| csv_field(&field)).join(",") + "\r\n"
}

/// Quoted always, and with an apostrophe before what a spreadsheet would take for a formula.
fn csv_field(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        "'"
    } else {
        ""
    };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_quoted_and_never_a_formula() {
        assert_eq!(csv_field("a \"b\", c"), "\"a \"\"b\"\", c\"");
        assert_eq!(csv_field("=1+1"), "\"'=1+1\"");
    }
}

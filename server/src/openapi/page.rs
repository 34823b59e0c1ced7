//! The API reference as a page for people (`/api`): written by the server from the same descriptions as the document,
//! readable without scripting, with cURL for the reader's own host and environment. The frame around it is the console's.

use std::fmt::Write;

use app::{
    api::signing::Frame,
    outside::{Outside, outside},
    theme::Theme,
};
use axum::{
    Extension,
    extract::State,
    response::{Html, IntoResponse, Redirect, Response},
};
use control::{Caller, OpCtx, search::EnvironmentQuery};
use http::{HeaderMap, HeaderValue, header};
use serde_json::Value;
use wire::managed_agents::Environment;

use super::{Answer, Describe, Group, Kind, assemble, descriptions, document};
use crate::{
    http::{AppState, origin::Source, problem::Problem, security},
    rest::extract::Query,
};

/// Environments that the reader can choose from.
const CHOICE: u32 = 50;

/// `GET /api?environment_id=&query=`
pub async fn page(
    State(state): State<AppState>,
    Extension(ctx): Extension<OpCtx>,
    source: Option<Extension<Source>>,
    headers: HeaderMap,
    query: Query,
) -> Result<Response, Problem> {
    if matches!(ctx.caller, Caller::Anonymous) {
        return Ok(Redirect::to("/sign-in?next=%2Fapi").into_response());
    }
    let query = query.only(&["environment_id", "query"])?;
    let wanted = EnvironmentQuery {
        limit: Some(CHOICE),
        ..EnvironmentQuery::default()
    };
    let found = state.control.search_environments(&ctx, &wanted).await?;
    let tls = source.is_some_and(|Extension(source)| source.tls);
    let host = match &state.origins.public_url {
        Some(url) => url.base(),
        None => {
            let name = headers
                .get(header::HOST)
                .and_then(|value| value.to_str().ok())
                .unwrap_or("127.0.0.1:3000");
            format!("{}://{name}", if tls { "https" } else { "http" })
        }
    };
    let chosen = query
        .text("environment_id")
        .and_then(|id| {
            found
                .environments
                .iter()
                .find(|environment| environment.environment_id.to_string() == id)
        })
        .or(found.environments.first());
    let nonce = state.ids.next_uuid().simple().to_string();
    let theme = headers
        .get(header::COOKIE)
        .and_then(|value| value.to_str().ok())
        .map_or_else(Default::default, Theme::from_cookies);
    let frame = Frame {
        viewer: state.control.viewer(&ctx).await?,
        now_micros: state.control.clock().now().micros(),
    };
    let reader = Reader {
        host: host.trim_end_matches('/'),
        environments: &found.environments,
        chosen,
        query: query.text("query").unwrap_or_default(),
    };
    let policy = security::page_policy(&nonce);
    let page = Outside {
        title: "API",
        path: app::links::API,
        nonce,
        style: include_str!("page.css"),
        script: include_str!("page.js"),
        main: content(&reader),
    };
    let html = outside(state.leptos.clone(), frame, theme, page);
    let mut response = Html(html).into_response();
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response
            .headers_mut()
            .insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    Ok(response)
}

/// Who reads.
struct Reader<'a> {
    host: &'a str,
    environments: &'a [Environment],
    chosen: Option<&'a Environment>,
    query: &'a str,
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Words between backticks as code, words between stars as emphasis, empty lines as paragraphs.
fn prose(text: &str) -> String {
    let mut html = String::new();
    for paragraph in text.split("\n\n").filter(|text| !text.trim().is_empty()) {
        let mut inline = String::new();
        for (index, part) in paragraph.split('`').enumerate() {
            let part = escape(part);
            if index % 2 == 1 {
                let _ = write!(inline, "<code>{part}</code>");
            } else {
                inline.push_str(&part);
            }
        }
        let _ = write!(html, "<p>{}</p>", inline.replace('\n', "<br>"));
    }
    html
}

/// What stands in the frame.
fn content(reader: &Reader<'_>) -> String {
    let needle = reader.query.trim().to_lowercase();
    let shown: Vec<&Describe> = descriptions()
        .iter()
        .filter(|call| needle.is_empty() || words(call).contains(&needle))
        .collect();
    let mut html = String::from(
        "<header class=\"page-head\"><div class=\"min-w-0\"><h1 class=\"page-title\">API</h1><p class=\"page-sub\">Every call, \
         from the same description as <a class=\"link\" href=\"/openapi.json\">openapi.json</a>. Send a key with each: <a \
         class=\"link\" href=\"/account#keys\">make one</a>, then <code>export GROUNDWORK_API_KEY=rma_…</code> and paste what \
         stands below.</p></div></header>",
    );
    html.push_str(&choices(reader));
    let groups: Vec<Group> = Group::ALL
        .into_iter()
        .filter(|group| shown.iter().any(|call| call.group == *group))
        .collect();
    if groups.len() > 1 {
        html.push_str("<nav class=\"groups\" aria-label=\"Groups of calls\">");
        for group in &groups {
            let (anchor, name) = (anchor(group.name()), group.name());
            let _ = write!(html, "<a class=\"link\" href=\"#{anchor}\">{name}</a>");
        }
        html.push_str("</nav>");
    }
    let hidden = if shown.is_empty() { "" } else { " hidden" };
    let _ = write!(
        html,
        "<p class=\"nothing\"{hidden}>No call matches. <a class=\"link\" href=\"/api\">Show all</a></p>"
    );
    for group in groups {
        let _ = write!(
            html,
            "<section class=\"group\" aria-labelledby=\"{0}\"><h2 id=\"{0}\">{1}</h2><p class=\"muted\">{2}</p>",
            anchor(group.name()),
            group.name(),
            escape(group.text())
        );
        for call in shown.iter().filter(|call| call.group == group) {
            html.push_str(&one(call, reader));
        }
        html.push_str("</section>");
    }
    html
}

fn anchor(name: &str) -> String {
    name.to_lowercase().replace(' ', "-")
}

/// What a search looks at.
fn words(call: &Describe) -> String {
    format!(
        "{} {} {} {} {}",
        call.method, call.path, call.summary, call.id, call.text
    )
    .to_lowercase()
}

fn choices(reader: &Reader<'_>) -> String {
    let mut html = format!(
        "<form method=\"get\" action=\"/api\" class=\"choose\" role=\"search\"><label class=\"field\"><span \
         class=\"field-label\">Search</span><input type=\"search\" class=\"input\" name=\"query\" id=\"search\" value=\"{}\" \
         placeholder=\"cancel, log, members …\"></label>",
        escape(reader.query)
    );
    if !reader.environments.is_empty() {
        html.push_str("<label class=\"field\"><span class=\"field-label\">Environment in the examples</span><select class=\"input\" \
             name=\"environment_id\">",
        );
        for environment in reader.environments {
            let selected = reader
                .chosen
                .is_some_and(|chosen| chosen.environment_id == environment.environment_id);
            let _ = write!(
                html,
                "<option value=\"{}\"{}>{}</option>",
                environment.environment_id,
                if selected { " selected" } else { "" },
                escape(&app::text::shown(&environment.name))
            );
        }
        html.push_str("</select></label>");
    }
    html.push_str("<button type=\"submit\" class=\"button\">Show</button></form>");
    html
}

fn one(call: &Describe, reader: &Reader<'_>) -> String {
    let mut html = format!(
        "<details class=\"call\" id=\"{}\" data-words=\"{}\"><summary><span class=\"verb verb-{}\">{}</span> \
         <code class=\"path\">{}</code> <span class=\"what\">{}</span></summary><div class=\"body\">{}",
        call.id,
        escape(&words(call)),
        call.method.to_lowercase(),
        call.method,
        escape(call.path).replace('/', "/<wbr>"),
        escape(call.summary),
        prose(call.text),
    );
    html.push_str(&match call.role {
        None => "<p class=\"muted\">No key is needed.</p>".to_owned(),
        Some(role) => {
            format!("<p class=\"muted\">Takes the role <code>{role}</code> or a higher one.</p>")
        }
    });
    let curl = escape(&curl(call, reader));
    let _ = write!(
        html,
        "<h3>cURL</h3><div class=\"copyable\"><button type=\"button\" class=\"button button-small copy\" hidden aria-label=\"Copy the cURL of \
         {}\">Copy</button><pre tabindex=\"0\">{curl}</pre></div>",
        escape(call.summary)
    );
    html.push_str(&parameters(call));
    let said = &document().value["paths"][call.path][call.method.to_lowercase()];
    if let Some((_, required, _)) = &call.body {
        let schema = &said["requestBody"]["content"]["application/json"]["schema"];
        let _ = write!(
            html,
            "<h3>Body{}</h3>{}",
            if *required { "" } else { " (optional)" },
            fields(schema)
        );
    }
    for found in &call.answers {
        html.push_str(&answer(found, &said["responses"][found.status.to_string()]));
    }
    html.push_str("<h3>Errors</h3><dl class=\"errors\">");
    for code in call.codes() {
        let _ = write!(
            html,
            "<dt>{} <code>{code}</code></dt><dd>{}</dd>",
            code.status(),
            prose(assemble::meaning(code))
        );
    }
    html.push_str("</dl></div></details>");
    html
}

fn parameters(call: &Describe) -> String {
    let all = assemble::parameters(call);
    let mut html = String::from("<h3>Parameters</h3><dl class=\"fields\">");
    for parameter in all {
        let _ = write!(
            html,
            "<dt><code>{}</code> <span class=\"muted\">{}{} · {}</span></dt><dd>{}</dd>",
            escape(parameter.name),
            parameter.place,
            if parameter.required { ", required" } else { "" },
            escape(&kind_of(&parameter.schema)),
            prose(parameter.text)
        );
    }
    html.push_str("</dl>");
    html
}

fn answer(found: &Answer, said: &Value) -> String {
    let mut html = format!("<h3>{}</h3>{}", found.status, prose(found.text));
    if let Some(content) = said["content"]["application/json"].as_object() {
        html.push_str(&fields(&content["schema"]));
    }
    if let (Some(example), false) = (&found.example, matches!(found.kind, Kind::Empty)) {
        let text = match example {
            Value::String(text) => text.clone(),
            other => format!("{other:#}"),
        };
        let _ = write!(
            html,
            "<details><summary>Example</summary><pre tabindex=\"0\">{}</pre></details>",
            escape(&text)
        );
    }
    html
}

/// The properties of an object's schema, and of what it refers to.
fn fields(schema: &Value) -> String {
    let schema = followed(schema);
    let Some(properties) = schema["properties"]
        .as_object()
        .filter(|map| !map.is_empty())
    else {
        return String::new();
    };
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut html = String::from("<dl class=\"fields\">");
    for (name, property) in properties {
        let whole = followed(property);
        let text = property["description"]
            .as_str()
            .or(whole["description"].as_str())
            .unwrap_or_default();
        let _ = write!(
            html,
            "<dt><code>{}</code> <span class=\"muted\">{}{}</span></dt><dd>{}</dd>",
            escape(name),
            escape(&kind_of(property)),
            if required.contains(&name.as_str()) {
                ", required"
            } else {
                ""
            },
            prose(text)
        );
    }
    html.push_str("</dl>");
    html
}

fn followed(schema: &Value) -> &Value {
    schema["$ref"]
        .as_str()
        .and_then(|target| document().value.pointer(target.trim_start_matches('#')))
        .unwrap_or(schema)
}

/// What a value may be, in few words.
fn kind_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"]
        .as_str()
        .and_then(|target| target.rsplit('/').next())
    {
        return name.to_owned();
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<&str> = words
            .iter()
            .filter_map(Value::as_str)
            .filter(|word| !word.is_empty())
            .collect();
        return words.join(" | ");
    }
    if schema["type"] == "array" {
        return format!("list of {}", kind_of(&schema["items"]));
    }
    let kind = match &schema["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" or "),
        _ => "any".to_owned(),
    };
    let range = schema["anyOf"]
        .as_array()
        .and_then(|options| options.iter().find(|option| option["maximum"].is_number()));
    match (
        range,
        schema["minimum"].as_i64(),
        schema["maximum"].as_i64(),
    ) {
        (Some(range), ..) => format!("{kind}, 0 or {} to {}", range["minimum"], range["maximum"]),
        (None, Some(least), Some(most)) => format!("{kind}, {least} to {most}"),
        _ => kind,
    }
}

/// A command that can be pasted: the reader's host, the chosen environment, its newest run.
fn curl(call: &Describe, reader: &Reader<'_>) -> String {
    let mut path = call.path.to_owned();
    if let Some(environment) = reader.chosen {
        path = path.replace("{environment_id}", &environment.environment_id.to_string());
        let verdict = &environment.setup_verification;
        if let Some(run) = verdict.active_setup_run_id.or(verdict.setup_run_id) {
            path = path.replace("{setup_run_id}", &run.to_string());
        }
    }
    // What the reader must fill in stands out as a variable of the shell.
    for name in call.path_names() {
        path = path.replace(&format!("{{{name}}}"), &format!("${}", name.to_uppercase()));
    }
    let mut text = String::from("curl");
    if call
        .parameters
        .iter()
        .any(|parameter| parameter.name == "Last-Event-ID")
    {
        text.push_str(" -N");
    }
    if call.method != "GET" {
        let _ = write!(text, " -X {}", call.method);
    }
    let _ = write!(text, " \"{}{path}\"", reader.host);
    if call.role.is_some() {
        text.push_str(" \\\n  -H \"Authorization: Bearer $GROUNDWORK_API_KEY\"");
    }
    if call
        .parameters
        .iter()
        .any(|parameter| parameter.name == "Idempotency-Key")
    {
        text.push_str(" \\\n  -H \"Idempotency-Key: $(uuidgen)\"");
    }
    if let Some((_, true, example)) = &call.body {
        let mut example = example.clone();
        if let (Some(environment), Some(id)) = (reader.chosen, example.get_mut("environment_id")) {
            *id = Value::from(environment.environment_id.to_string());
        }
        let body = format!("{example:#}").replace('\'', "'\\''");
        let _ = write!(
            text,
            " \\\n  -H 'Content-Type: application/json' \\\n  -d '{body}'"
        );
    }
    text
}

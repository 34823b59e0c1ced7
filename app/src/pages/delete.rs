//! Asks before an environment is deleted: the page behind the dialog's link, for readers without scripting.

use domain::ids::EnvironmentId;
use leptos::prelude::*;
use leptos_router::{
    NavigateOptions,
    hooks::{use_navigate, use_params_map},
};
use wire::error::Code;

use crate::{
    api::{
        AppError,
        environments::{DeleteEnvironment, load_environment},
        page_data,
        sessions::count_sessions_of,
    },
    components::{Alert, ConfirmDelete, Failure, Loading, PageHead, Tone},
    links,
    pages::table_parts::WhatRuns,
    text::shown,
};

/// Asks before an environment is deleted: the page behind the dialog's link, for readers without scripting.
#[component]
pub fn DeletePage() -> impl IntoView {
    let params = use_params_map();
    let id = Memo::new(move |_| {
        params
            .read()
            .get("id")
            .and_then(|id| id.parse::<EnvironmentId>().ok())
    });
    let page = page_data(
        move || id.get(),
        |id| async move {
            match id {
                Some(id) => {
                    let page = load_environment(id).await?;
                    Ok((page, count_sessions_of(id).await?))
                }
                None => Err(AppError::new(Code::NotFound, "")),
            }
        },
    );
    let action = ServerAction::<DeleteEnvironment>::new();
    let error = Signal::derive(move || action.value().get().and_then(Result::err));
    let navigate = use_navigate();
    Effect::new(move |_| {
        if matches!(action.value().get(), Some(Ok(()))) {
            navigate(links::ENVIRONMENTS, NavigateOptions::default());
        }
    });
    view! {
        <Suspense fallback=Loading>
            {move || Suspend::new(async move {
                let (page, sessions) = match page.await {
                    Ok((page, sessions)) => (page.page, sessions),
                    Err(error) => return view! { <Failure error /> }.into_any(),
                };
                if !page.may.change {
                    let error = AppError::new(Code::Forbidden, "Your role may not delete environments.");
                    return view! { <Failure error /> }.into_any();
                }
                let id = page.environment.environment_id;
                let name = shown(&page.environment.name);
                view! {
                    <div class="page page-narrow">
                        <PageHead
                            title="Delete environment"
                            above=(links::environment(id), name.clone())
                        />
                        <ActionForm action>
                            <input type="hidden" name="environment_id" value=id.to_string() />
                            <ConfirmDelete back=links::environment(id) error busy=action.pending()>
                                <p>
                                    "Delete " <strong class="break-words">{name}</strong>
                                    "? New sessions cannot use it any more, and there is no way back."
                                </p>
                                {(sessions > 0).then(|| view! { <WhatRuns count=sessions /> })}
                                {page
                                    .active_run
                                    .is_some()
                                    .then(|| {
                                        view! {
                                            <Alert tone=Tone::Warn>
                                                "A setup test is running on it now. It will be cancelled."
                                            </Alert>
                                        }
                                    })}
                            </ConfirmDelete>
                        </ActionForm>
                    </div>
                }
                    .into_any()
            })}
        </Suspense>
    }
}

//! What tells: badges, alerts, and the states in which there is no page to show.

use domain::verification::SetupBadge;
use leptos::{context::Provider, prelude::*};
use wire::error::Code;

use super::{Part, Specimen, State};
use crate::{
    api::AppError,
    components::{
        Alert, Behind, BehindNote, Loading, MakesStale, Refused, SetupBadgeView, Sign, Tone,
        VerdictHolds, states::NoPage,
    },
    links,
};

const TONES: [(Tone, &str); 5] = [
    (Tone::Plain, "plain"),
    (Tone::Good, "good"),
    (Tone::Warn, "warn"),
    (Tone::Bad, "bad"),
    (Tone::Info, "info"),
];

const BADGES: [SetupBadge; 8] = [
    SetupBadge::Ready,
    SetupBadge::NotTested,
    SetupBadge::Testing,
    SetupBadge::Verified,
    SetupBadge::Retesting,
    SetupBadge::Failed,
    SetupBadge::Stale,
    SetupBadge::NoImage,
];

/// Messages.
#[component]
pub fn Messages() -> impl IntoView {
    let signs = TONES
        .map(|(tone, text)| view! { <Sign tone text /> })
        .collect_view();
    let badges = BADGES
        .map(|badge| view! { <SetupBadgeView badge /> })
        .collect_view();
    let alerts = TONES
        .map(|(tone, text)| {
            view! {
                <div class="w-full">
                    <Alert tone title=format!("A title ({text}).")>
                        "What happened, and what to do about it."
                    </Alert>
                </div>
            }
        })
        .collect_view();
    let errors = [
        (Code::NotFound, ""),
        (
            Code::Forbidden,
            "Your role may not do this. Ask an admin of your organization.",
        ),
        (Code::Unauthorized, ""),
        (
            Code::ServiceUnavailable,
            "The server could not be reached. Check your connection, then try again.",
        ),
    ]
    .map(|(code, text)| {
        let mut error = AppError::new(code, text);
        error
            .0
            .details
            .insert("requestId".to_owned(), "req-sample".into());
        view! {
            <div class="flex-1 min-w-0 basis-full sm:basis-[45%]">
                <NoPage error />
            </div>
        }
    })
    .collect_view();
    let refusal = AppError::new(
        Code::Forbidden,
        "Your role may not do this. Ask an admin of your organization.",
    );
    let behind = [Code::Unauthorized, Code::ServiceUnavailable]
        .map(|code| {
            let behind = Behind::default();
            behind.looked(&Err::<(), _>(AppError::new(code, "")));
            view! {
                <div class="w-full">
                    <BehindNote behind />
                </div>
            }
        })
        .collect_view();
    view! {
        <Part title="Messages">
            <Specimen title="Sign">
                {signs} <Sign tone=Tone::Info busy=true text="busy" />
            </Specimen>
            <Specimen title="SetupBadgeView">{badges}</Specimen>
            <Specimen title="Alert">{alerts}</Specimen>
            <Specimen title="Refused">
                <div class="w-full">
                    <Refused error=Signal::stored(Some(refusal)) />
                </div>
            </Specimen>
            <Specimen title="Failure">{errors}</Specimen>
            <Specimen title="BehindNote">{behind}</Specimen>
            <Specimen title="MakesStale">
                <Provider value=VerdictHolds(Signal::stored(true))>
                    <MakesStale change="Setting or removing one" />
                </Provider>
            </Specimen>
            <Specimen title="Loading">
                <div class="w-full">
                    <Loading />
                </div>
            </Specimen>
            <Specimen title="Gate">
                <State name="the page around forms before signing in">
                    <a class="link text-sm" href=links::SIGN_IN>
                        "Sign in"
                    </a>
                </State>
            </Specimen>
            <Specimen title="Empty">
                <div class="empty w-full">
                    <p class="empty-title">"No sessions"</p>
                    <p class="empty-text">"Start one from an environment that is ready."</p>
                </div>
            </Specimen>
        </Part>
    }
    .into_any()
}

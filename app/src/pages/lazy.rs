//! Which pages the browser fetches only when somebody goes there. The table, the frame around the pages and the page that
//! says that there is none are in the first download. The other pages are four pieces: those around one environment, those
//! around sessions, those of administration, and those before signing in. The server renders all of them at once either way.
//!
//! The build tool cuts the pieces apart where it is told to (`cargo leptos build --split --lib-features split`); without
//! that the browser gets one file, which is quicker to build and what debug builds do. A new page is a line in
//! [`pages`], not a `view=` of its own in the shell: that would put it into the first download, whose size a test limits.

use leptos::prelude::*;
use leptos_router::LazyRoute;

/// A piece (`fn`) with the pages in it: the type that the shell names as a route's view, and the page's component.
macro_rules! pages {
    ($(#[$doc:meta])* $piece:ident / $preload:ident: $($name:ident => $page:ident, $number:literal;)*) => {
        $(#[$doc])*
        #[cfg(any(feature = "ssr", feature = "split"))]
        #[lazy]
        fn $piece(page: u8) -> AnyView {
            match page {
                $($number => view! { <super::$page /> }.into_any(),)*
                _ => ().into_any(),
            }
        }
        #[cfg(not(any(feature = "ssr", feature = "split")))]
        async fn $piece(page: u8) -> AnyView {
            match page {
                $($number => view! { <super::$page /> }.into_any(),)*
                _ => ().into_any(),
            }
        }

        $(
            #[doc = concat!("Where [`super::", stringify!($page), "`] is shown.")]
            pub struct $name;

            impl LazyRoute for $name {
                fn data() -> Self {
                    Self
                }
                async fn view(_this: Self) -> AnyView {
                    $piece($number).await
                }
                async fn preload() {
                    #[cfg(all(feature = "split", target_arch = "wasm32"))]
                    $preload().await;
                }
            }
        )*
    };
}

pages! {
    /// Around one environment.
    environment_pages / __preload_environment_pages:
    NewEnvironmentRoute => NewEnvironmentPage, 0;
    EnvironmentRoute => EnvironmentPage, 1;
    HistoryRoute => HistoryPage, 2;
    DeleteRoute => DeletePage, 3;
    RunRoute => RunPage, 4;
}
pages! {
    /// Around sessions.
    session_pages / __preload_session_pages:
    SessionsRoute => SessionsPage, 0;
    SessionRoute => SessionPage, 1;
    DeleteSessionRoute => DeleteSessionPage, 2;
}
pages! {
    /// Administration and one's own account.
    administration_pages / __preload_administration_pages:
    AccountRoute => AccountPage, 0;
    MembersRoute => MembersPage, 1;
    KeysRoute => KeysPage, 2;
    WorkersRoute => WorkersPage, 3;
    AuditRoute => AuditPage, 4;
}
pages! {
    /// Before signing in.
    gate_pages / __preload_gate_pages:
    SetUpRoute => SetUpPage, 0;
    SignInRoute => SignInPage, 1;
    InviteRoute => InvitePage, 2;
}

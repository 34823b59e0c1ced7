//! The console's document around a page that the server writes by itself, outside the router: the same head, sidebar and
//! style, and nothing that needs the browser's half of the console.

use leptos::prelude::*;
use leptos_meta::HashedStylesheet;

use crate::{
    api::signing::Frame,
    pages::console::{Around, AroundProps, Sidebar},
    theme::Theme,
};

/// Such a page.
pub struct Outside {
    /// The document's title.
    pub title: &'static str,
    /// Its path, which the sidebar marks.
    pub path: &'static str,
    /// What the policy of its answer lets inline scripts and styles run by.
    pub nonce: String,
    /// Its style sheet beside the console's.
    pub style: &'static str,
    /// Its module.
    pub script: &'static str,
    /// The HTML of its content.
    pub main: String,
}

/// The whole document, for who looks.
pub fn outside(options: LeptosOptions, frame: Frame, theme: Theme, page: Outside) -> String {
    let owner = Owner::new_root(None);
    owner.with(|| {
        let sidebar =
            view! { <Sidebar frame at=Signal::stored(page.path.to_owned()) /> }.into_any();
        let main = page.main;
        let framed = Around(AroundProps {
            sidebar,
            children: Box::new(move || {
                view! { <div class="page" inner_html=main></div> }.into_any()
            }),
        });
        view! {
            <!DOCTYPE html>
            <html lang="en" data-theme=theme.attribute()>
                <head>
                    <meta charset="utf-8" />
                    <meta name="viewport" content="width=device-width, initial-scale=1" />
                    <meta name="color-scheme" content="light dark" />
                    <link rel="icon" href="/favicon.svg" type="image/svg+xml" />
                    <HashedStylesheet options id="style" />
                    <title>{format!("{} · Groundwork", page.title)}</title>
                    <style nonce=page.nonce.clone() inner_html=page.style></style>
                </head>
                <body>
                    {framed}
                    <script type="module" nonce=page.nonce inner_html=page.script></script>
                </body>
            </html>
        }
        .to_html()
    })
}

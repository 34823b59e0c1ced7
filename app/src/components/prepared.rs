//! What a prepared image holds, beside the run that made it.

use domain::verification::SetupImage;
use leptos::prelude::*;

use super::CopyId;
use crate::{format, live::now::Ago};

/// Characters of a digest that tell it from others: as many as of ids.
const DIGEST_SHOWN: usize = 8;

/// What stands on what, how much the script added, and when it was saved.
#[component]
pub fn Prepared(
    /// The image.
    image: SetupImage,
) -> impl IntoView {
    let added = format::bytes(u64::try_from(image.size_bytes).unwrap_or(0));
    let layer = image
        .digest()
        .map(|digest| (short(digest), digest.to_owned()));
    let base = image.base_image_digest.clone();
    let gone = (!image.usable).then(|| {
        image
            .warmup_message
            .clone()
            .unwrap_or_else(|| "It is no longer there: test setup again.".to_owned())
    });
    view! {
        <section aria-label="What the image holds">
            <h3 class="text-sm font-semibold mb-1">"What the image holds"</h3>
            <dl class="run-facts">
                <div>
                    <dt>"Runner image"</dt>
                    <dd class="mono wrap-anywhere">{image.runner_image.clone()}</dd>
                </div>
                {(!base.is_empty())
                    .then(|| {
                        view! {
                            <div>
                                <dt>"Its digest"</dt>
                                <dd>
                                    <CopyId short=short(&base) whole=base />
                                </dd>
                            </div>
                        }
                    })}
                <div>
                    <dt>"Added by the script"</dt>
                    <dd>{added}</dd>
                </div>
                {layer
                    .map(|(short, whole)| {
                        view! {
                            <div>
                                <dt>"Added layer"</dt>
                                <dd>
                                    <CopyId short whole />
                                </dd>
                            </div>
                        }
                    })}
                <div>
                    <dt>"Saved"</dt>
                    <dd>
                        {format!("generation {}, ", image.generation)} <Ago at=image.captured_at />
                    </dd>
                </div>
            </dl>
            {gone.map(|gone| view! { <p class="mt-1.5 text-xs text-warn">{gone}</p> })}
        </section>
    }
    .into_any()
}

/// `sha256:0123…` as `01234567`.
fn short(digest: &str) -> String {
    let hex = digest.rsplit_once(':').map_or(digest, |(_, hex)| hex);
    hex.chars().take(DIGEST_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_shown_by_its_beginning() {
        for (digest, text) in [
            ("sha256:0123456789abcdef", "01234567"),
            ("0123456789abcdef", "01234567"),
            ("sha256:01", "01"),
            ("", ""),
        ] {
            assert_eq!(short(digest), text);
        }
    }
}

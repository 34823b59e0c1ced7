//! What the deployment offers: providers, sizes, templates.

use domain::{
    compute::{PRESETS, show_cpu, show_memory},
    roles::Action,
};
use wire::{
    console::{Offer, PresetView},
    managed_agents::{EnvironmentTemplate, Items, SandboxProvider},
};

use crate::{Control, OpCtx, Result};

/// `2 vCPU · 4 GiB`
pub(crate) fn show_size(cpu_milli: u32, memory_mib: u32) -> String {
    format!("{} · {}", show_cpu(cpu_milli), show_memory(memory_mib))
}

impl Control {
    fn providers(&self) -> Vec<SandboxProvider> {
        let providers = self.0.catalog.providers.iter();
        providers
            .enumerate()
            .map(|(index, provider)| SandboxProvider {
                provider: provider.provider.clone(),
                display_name: provider.display_name.clone(),
                description: provider.description.clone(),
                default: index == 0,
                requires_credential: None,
            })
            .collect()
    }

    /// Kinds of sandbox, the default first.
    pub async fn list_sandbox_providers(&self, ctx: &OpCtx) -> Result<Items<SandboxProvider>> {
        ctx.require(Action::ReadEnvironments)?;
        Ok(Items {
            items: self.providers(),
        })
    }

    /// Starting points, by id.
    pub async fn list_environment_templates(
        &self,
        ctx: &OpCtx,
    ) -> Result<Items<EnvironmentTemplate>> {
        ctx.require(Action::ReadEnvironments)?;
        Ok(Items {
            items: self.templates(),
        })
    }

    pub(crate) fn templates(&self) -> Vec<EnvironmentTemplate> {
        let catalog = &self.0.catalog;
        domain::templates::all(&catalog.host_groups, catalog)
            .into_iter()
            .map(|template| EnvironmentTemplate {
                id: template.id,
                revision: template.revision,
                name: template.name,
                summary: template.summary,
                icon: template.icon,
                features: template.features,
                definition: template.definition,
            })
            .collect()
    }

    /// What forms offer.
    pub async fn offer(&self, ctx: &OpCtx) -> Result<Offer> {
        ctx.require(Action::ReadEnvironments)?;
        Ok(self.make_offer())
    }

    pub(crate) fn make_offer(&self) -> Offer {
        let catalog = &self.0.catalog;
        let presets = PRESETS.iter().map(|preset| PresetView {
            name: preset.name.to_owned(),
            cpu_milli: preset.cpu_milli,
            memory_mib: preset.memory_mib,
            text: show_size(preset.cpu_milli, preset.memory_mib),
            refused: (!catalog.sizes.offers(preset.cpu_milli, preset.memory_mib)).then(|| {
                catalog
                    .sizes
                    .nearest(preset.cpu_milli, preset.memory_mib)
                    .map_or_else(
                        || "No machine of this deployment is offered.".to_owned(),
                        |size| {
                            format!(
                                "No machine of this deployment is that large; the nearest size is {}.",
                                show_size(size.cpu_milli, size.memory_mib)
                            )
                        },
                    )
            }),
        });
        Offer {
            presets: presets.collect(),
            providers: self.providers(),
            catalog: (**catalog).clone(),
        }
    }
}

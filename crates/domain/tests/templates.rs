//! The templates (spec 1-domain, *Templates*).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;
use common::{plain, rich};
use domain::{
    environment::{Catalog, Definition, parse_create},
    host_groups::HostGroups,
    setup_script::lint,
    templates::{Template, all},
};

fn ids(catalog: &Catalog) -> Vec<String> {
    all(&catalog.host_groups, catalog)
        .into_iter()
        .map(|template| template.id)
        .collect()
}

fn made(id: &str) -> (Template, Definition) {
    let catalog = rich();
    let template = all(&catalog.host_groups, &catalog)
        .into_iter()
        .find(|template| template.id == id)
        .unwrap();
    let definition = parse_create(&template.definition, &catalog).unwrap();
    (template, definition)
}

#[test]
fn what_a_deployment_cannot_honour_is_not_listed() {
    assert_eq!(
        ids(&rich()),
        [
            "base-sandbox",
            "browser-desktop",
            "gpu-pytorch",
            "node-web",
            "python-data"
        ]
    );
    assert_eq!(
        ids(&plain().with_egress()),
        ["base-sandbox", "node-web", "python-data"]
    );
    assert_eq!(
        ids(&plain().with_egress().with_computer_use()),
        ["base-sandbox", "browser-desktop", "node-web", "python-data"]
    );
    assert_eq!(
        ids(&plain().with_egress().with_accelerators(["L4"])),
        ["base-sandbox", "node-web", "python-data"]
    );
    assert_eq!(ids(&plain()), ["base-sandbox"]);
}

#[test]
fn every_definition_is_a_valid_body_whose_script_draws_no_warning() {
    for catalog in [rich(), plain(), plain().with_egress()] {
        for template in all(&catalog.host_groups, &catalog) {
            let definition = parse_create(&template.definition, &catalog).unwrap();
            let reference = definition.template.as_ref().unwrap();
            assert_eq!(
                (&reference.id, reference.revision),
                (&template.id, template.revision)
            );
            assert_eq!(lint(&definition.setup.script), [], "{}", template.id);
            assert_eq!(definition.provider, "runs");
            for required in ["name", "provider", "setup", "resources"] {
                assert!(template.definition.get(required).is_some());
            }
        }
    }
}

#[test]
fn each_template_sets_what_the_table_says() {
    let (_, base) = made("base-sandbox");
    assert!(!base.has_script());
    let (_, node) = made("node-web");
    assert!(
        node.setup.script.contains("corepack enable") && node.setup.script.contains("typescript@")
    );
    let groups = HostGroups::built_in();
    for (definition, group, open) in [
        (&base, "github", true),
        (&base, "npm", true),
        (&base, "pypi", true),
        (&base, "crates", false),
        (&node, "github", true),
        (&node, "npm", true),
        (&node, "pypi", false),
    ] {
        for host in groups.hosts(group) {
            assert_eq!(
                definition.network_policy.verdict(host).allowed,
                open,
                "{host}"
            );
        }
    }
    let (_, python) = made("python-data");
    assert!(
        python.setup.script.contains("/workspace/.venv") && python.network_policy.is_unrestricted()
    );
    let (_, browser) = made("browser-desktop");
    assert!(
        browser.computer_use && !browser.has_script() && browser.network_policy.is_unrestricted()
    );
    let (_, gpu) = made("gpu-pytorch");
    assert_eq!(gpu.resources.accelerator.as_ref().unwrap().name, "T4");
    assert!(gpu.setup.script.contains("cuda.is_available") && gpu.network_policy.is_unrestricted());
}

#[test]
fn without_egress_the_base_sandbox_is_closed_and_says_so() {
    let catalog = plain();
    let template = &all(&catalog.host_groups, &catalog)[0];
    assert!(template.summary.contains("without internet access"));
    assert!(
        parse_create(&template.definition, &catalog)
            .unwrap()
            .network_policy
            .is_closed()
    );
}

#[test]
fn a_deployment_with_a_mirror_gets_its_hosts() {
    let mut catalog = rich();
    catalog
        .host_groups
        .0
        .insert("npm".to_owned(), vec!["npm.corp.example".to_owned()]);
    let node = all(&catalog.host_groups, &catalog)
        .into_iter()
        .find(|t| t.id == "node-web")
        .unwrap();
    let policy = parse_create(&node.definition, &catalog)
        .unwrap()
        .network_policy;
    assert!(policy.verdict("npm.corp.example").allowed);
    assert!(
        !policy
            .verdict(HostGroups::built_in().hosts("npm")[0].as_str())
            .allowed
    );
}

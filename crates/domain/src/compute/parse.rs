//! Reading `resources`.

use serde_json::Value;

use super::{Accelerator, Placement, Resources};
use crate::{environment::Catalog, issues::Issues, json::Object, limits};

const FIELDS: [&str; 5] = [
    "cpu_milli",
    "memory_mib",
    "accelerator",
    "placement",
    "timeout_seconds",
];

/// Reads `resources` and checks them against what the deployment offers.
pub(crate) fn read(
    value: &Value,
    path: &str,
    catalog: &Catalog,
    issues: &mut Issues,
) -> Option<Resources> {
    let object = Object::open(value, path, &FIELDS, issues)?;
    let before = issues.0.len();
    let cpu_milli = object.integer("cpu_milli", issues);
    let memory_mib = object.integer("memory_mib", issues);
    let sizes_read = issues.0.len() == before;
    let accelerator = object
        .get("accelerator")
        .and_then(|value| accelerator(value, &object.path_of("accelerator"), catalog, issues));
    let placement = object
        .get("placement")
        .and_then(|value| placement(value, &object.path_of("placement"), catalog, issues));
    let timeout_seconds = object
        .zero_or_range(
            "timeout_seconds",
            (limits::SANDBOX_TIMEOUT_MIN, limits::SANDBOX_TIMEOUT_MAX),
            " seconds",
            issues,
        )
        .unwrap_or(0);
    let (cpu, memory) = (cpu_milli.unwrap_or(0), memory_mib.unwrap_or(0));
    if object.get("accelerator").is_some() {
        for (key, value) in [("cpu_milli", cpu), ("memory_mib", memory)] {
            if value != 0 {
                issues.add(
                    object.path_of(key),
                    "Leave it out: an accelerator comes with 8 vCPU and 32 GiB.",
                );
            }
        }
    } else if sizes_read {
        check_size(&object, (cpu, memory), path, catalog, issues);
    }
    Some(Resources {
        cpu_milli: u32::try_from(cpu).unwrap_or(0),
        memory_mib: u32::try_from(memory).unwrap_or(0),
        accelerator,
        placement,
        timeout_seconds,
    })
}

/// What was asked for with the default resolved; what no machine could have counts as the least or the most there is.
fn wish(value: i64, default: u32) -> u32 {
    match value {
        0 => default,
        _ => u32::try_from(value.max(1)).unwrap_or(u32::MAX),
    }
}

fn check_size(
    object: &Object<'_>,
    (cpu, memory): (i64, i64),
    path: &str,
    catalog: &Catalog,
    issues: &mut Issues,
) {
    let (cpu_wish, memory_wish) = (
        wish(cpu, limits::CPU_MILLI_DEFAULT),
        wish(memory, limits::MEMORY_MIB_DEFAULT),
    );
    let nearest = catalog.sizes.nearest(cpu_wish, memory_wish);
    let advice = nearest.map_or_else(
        || "This deployment has no machine at the moment.".to_owned(),
        |size| format!("The nearest size offered is {size}."),
    );
    let mut in_range = true;
    for (key, value, least, most, unit) in [
        (
            "cpu_milli",
            cpu,
            limits::CPU_MILLI_MIN,
            limits::CPU_MILLI_MAX,
            "thousandths of a core",
        ),
        (
            "memory_mib",
            memory,
            limits::MEMORY_MIB_MIN,
            limits::MEMORY_MIB_MAX,
            "MiB",
        ),
    ] {
        if value != 0 && !(i64::from(least)..=i64::from(most)).contains(&value) {
            in_range = false;
            issues.add(
                object.path_of(key),
                format!(
                    "Must be 0 (the default) or {least} to {most} {unit}, not {value}. {advice}"
                ),
            );
        }
    }
    if in_range && !catalog.sizes.offers(cpu_wish, memory_wish) {
        issues.add(
            path,
            format!(
                "No machine offers {} and {} together. {advice}",
                super::show_cpu(cpu_wish),
                super::show_memory(memory_wish)
            ),
        );
    }
}

fn accelerator(
    value: &Value,
    path: &str,
    catalog: &Catalog,
    issues: &mut Issues,
) -> Option<Accelerator> {
    let object = Object::open(value, path, &["name", "type", "count"], issues)?;
    let offered = if catalog.accelerators.is_empty() {
        "This deployment offers no accelerator: leave resources.accelerator out.".to_owned()
    } else {
        format!("Offered here: {}.", catalog.accelerators.join(", "))
    };
    if object.get("name").is_none() {
        issues.add(object.path_of("name"), format!("Required. {offered}"));
    }
    let name = object.string("name", issues);
    if let Some(name) = name
        && !catalog.accelerators.iter().any(|known| known == name)
    {
        issues.add(
            object.path_of("name"),
            format!("There is no accelerator {name:?}. {offered}"),
        );
    }
    let kind = object.string("type", issues);
    if kind.is_some_and(|kind| kind != "gpu") {
        issues.add(object.path_of("type"), "Must be \"gpu\", or left out.");
    }
    let count = object.integer("count", issues);
    if count.is_some_and(|count| !(0..=1).contains(&count)) {
        issues.add(
            object.path_of("count"),
            "Must be 1 (or 0, which means 1): one accelerator is attached.",
        );
    }
    Some(Accelerator {
        name: name?.to_owned(),
        kind: kind.map(str::to_owned),
        count: count.and_then(|count| u32::try_from(count).ok()),
    })
}

fn placement(
    value: &Value,
    path: &str,
    catalog: &Catalog,
    issues: &mut Issues,
) -> Option<Placement> {
    if catalog.placements.is_empty() {
        issues.add(
            path,
            "This deployment offers no places to choose from: leave placement out.",
        );
        return None;
    }
    let known = [
        "providers",
        "allow_spot",
        "max_price_per_hour_usd",
        "min_accelerator_vram_gb",
        "regions",
    ];
    let object = Object::open(value, path, &known, issues)?;
    if object.boolean("allow_spot", issues) == Some(true) {
        issues.add(
            object.path_of("allow_spot"),
            "Spot capacity is not supported: send false or leave it out.",
        );
    }
    for key in ["max_price_per_hour_usd", "min_accelerator_vram_gb"] {
        if object
            .get(key)
            .is_some_and(|value| value.as_f64() != Some(0.0))
        {
            issues.add(
                object.path_of(key),
                "Not supported: send 0 or leave it out.",
            );
        }
    }
    if object
        .list("regions", issues)
        .is_some_and(|regions| !regions.is_empty())
    {
        issues.add(
            object.path_of("regions"),
            "Regions cannot be chosen: send [] or leave it out.",
        );
    }
    object.require("providers", issues);
    let providers = object.list("providers", issues)?;
    let offered = catalog.placements.join(", ");
    match providers.as_slice() {
        [Value::String(name)] if catalog.placements.contains(name) => Some(Placement {
            providers: vec![name.clone()],
        }),
        _ => {
            issues.add(
                object.path_of("providers"),
                format!("Must hold exactly one of: {offered}."),
            );
            None
        }
    }
}

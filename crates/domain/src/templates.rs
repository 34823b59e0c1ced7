//! Starting points for common work (spec 1-domain, *Templates*).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    environment::{Catalog, PROVIDER_RUNS, parse_create},
    host_groups::HostGroups,
    network_policy::NetworkPolicy,
};

/// A reviewed starting point. Creating from it is an ordinary create call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Template {
    /// Stable key.
    pub id: String,
    /// Grows with each change of the definition.
    pub revision: i64,
    /// The card's title.
    pub name: String,
    /// One line.
    pub summary: String,
    /// An icon's name.
    pub icon: String,
    /// What the deployment must offer for it to be listed.
    pub features: Vec<String>,
    /// A create body.
    pub definition: Value,
}

/// The script of *Node web*. Corepack brings pnpm and yarn in the version that a project asks for.
const NODE_WEB: &str = "\
sudo corepack enable
sudo npm install --global typescript@5.9.3
node --version
tsc --version
";

/// The script of *Python data*. The sandbox selects this virtual environment for every command.
const PYTHON_DATA: &str = "\
uv venv --seed /workspace/.venv
uv pip install --python /workspace/.venv/bin/python \"numpy==2.4.6\" \"pandas==3.1.1\" \"scipy==1.17.1\" \"scikit-learn==1.9.1\" \"matplotlib==3.11.2\"
/workspace/.venv/bin/python -c \"import numpy, pandas, scipy, sklearn, matplotlib; print('numpy', numpy.__version__, 'pandas', pandas.__version__)\"
";

/// The script of *GPU: PyTorch*. It fails where PyTorch cannot use the GPU, so that no session finds out later.
const GPU_PYTORCH: &str = "\
nvidia-smi
uv venv --seed /workspace/.venv
uv pip install --python /workspace/.venv/bin/python \"torch==2.15.0\"
uv pip install --python /workspace/.venv/bin/python \"transformers==5.24.0\" \"peft==0.21.2\" \"accelerate==1.15.0\" \"datasets==5.2.0\"
/workspace/.venv/bin/python -c \"import torch; assert torch.cuda.is_available(), 'CUDA is not available to PyTorch'; print(torch.__version__, torch.cuda.get_device_name(0))\"
";

/// The accelerator of *GPU: PyTorch*.
const GPU_PYTORCH_ACCELERATOR: &str = "T4";

/// The templates that this deployment can honour, sorted by id: those whose definition is a valid create body here.
/// *Base sandbox* is always listed: where hosts cannot be opened it comes without internet access, and says so.
pub fn all(groups: &HostGroups, catalog: &Catalog) -> Vec<Template> {
    let mut listed: Vec<Template> = every(groups)
        .into_iter()
        .filter_map(|template| honoured(template, catalog))
        .collect();
    listed.sort_by(|a, b| a.id.cmp(&b.id));
    listed
}

fn honoured(mut template: Template, catalog: &Catalog) -> Option<Template> {
    if parse_create(&template.definition, catalog).is_ok() {
        return Some(template);
    }
    if template.id != BASE_SANDBOX || catalog.egress {
        return None;
    }
    template.summary =
        "Python, uv, Node, git and gh, without internet access: this deployment cannot open hosts yet."
            .to_owned();
    template.definition["network_policy"] = NetworkPolicy::no_access().to_json();
    Some(template)
}

const BASE_SANDBOX: &str = "base-sandbox";

fn every(groups: &HostGroups) -> Vec<Template> {
    vec![
        template(
            (BASE_SANDBOX, 1, "Base sandbox", "terminal"),
            "Python, uv, Node, git and gh, with access to GitHub and the npm and PyPI registries.",
            &[],
            json!({"network_policy": groups.policy(&["github", "npm", "pypi"]).to_json()}),
        ),
        template(
            ("browser-desktop", 1, "Browser desktop", "monitor"),
            "A browser on a shared display for computer use, with unrestricted internet access.",
            &["computer_use"],
            json!({"network_policy": {}, "computer_use": true}),
        ),
        template(
            ("gpu-pytorch", 1, "GPU: PyTorch", "gpu"),
            "One T4 GPU with CUDA PyTorch and pinned LoRA training tools; CUDA is checked during setup.",
            &["accelerator"],
            json!({
                "network_policy": {},
                "resources": {"accelerator": {"name": GPU_PYTORCH_ACCELERATOR, "type": "gpu", "count": 1}},
                "pvc_size_gi": 40,
                "setup": {"script": GPU_PYTORCH, "timeout_seconds": 1_800},
            }),
        ),
        template(
            ("node-web", 1, "Node web", "node"),
            "Node, Corepack and TypeScript for web projects, with access to GitHub and npm.",
            &[],
            json!({
                "network_policy": groups.policy(&["github", "npm"]).to_json(),
                "setup": {"script": NODE_WEB},
            }),
        ),
        template(
            ("python-data", 1, "Python data", "chart"),
            "Pinned scientific Python packages in /workspace/.venv, with unrestricted internet access.",
            &[],
            json!({
                "network_policy": {},
                "setup": {"script": PYTHON_DATA, "timeout_seconds": 900},
            }),
        ),
    ]
}

fn template(
    (id, revision, name, icon): (&str, i64, &str, &str),
    summary: &str,
    features: &[&str],
    fields: Value,
) -> Template {
    let mut definition = json!({
        "name": id,
        "provider": PROVIDER_RUNS,
        "template": {"id": id, "revision": revision},
        "setup": {},
        "resources": {},
    });
    if let (Some(definition), Value::Object(fields)) = (definition.as_object_mut(), fields) {
        definition.extend(fields);
    }
    Template {
        id: id.to_owned(),
        revision,
        name: name.to_owned(),
        summary: summary.to_owned(),
        icon: icon.to_owned(),
        features: features.iter().map(|&feature| feature.to_owned()).collect(),
        definition,
    }
}

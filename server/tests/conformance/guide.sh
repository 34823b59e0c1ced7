# The setup guide's cURL examples, one after another as it prints them; the host, the key and the ids are variables of the
# shell. A line that begins with #: names the example below it.

#: create and test
environment_id=$(curl -sS -X POST "$GROUNDWORK_URL/managed-agents/v1/environments" \
  -H "Authorization: Bearer $GROUNDWORK_API_KEY" \
  -H 'Idempotency-Key: data-analysis-environment-v1' \
  -H 'Content-Type: application/json' \
  -d '{
      "name": "data-analysis",
      "provider": "runs",
      "resources": {"cpu_milli": 2000, "memory_mib": 4096},
      "pvc_size_gi": 20,
      "network_policy": {"version": "v1", "rules": [
        {"match": {"host_glob": "index.python.example"}, "action": {"type": "allow"}},
        {"match": {"host_glob": "files.python.example"}, "action": {"type": "allow"}}
      ]},
      "setup": {
        "script": "uv venv --seed /workspace/.venv\nuv pip install --python /workspace/.venv/bin/python \"requests==2.32.3\" \"pandas==2.2.3\"",
        "timeout_seconds": 900
      }
    }' | jq -r '.environment_id')

curl -X POST "$GROUNDWORK_URL/managed-agents/v1/environments/$environment_id/setup-runs" \
  -H "Authorization: Bearer $GROUNDWORK_API_KEY" \
  -H 'Idempotency-Key: data-analysis-setup-v1'

#: runtimes
curl "$GROUNDWORK_URL/managed-agents/v1/sandbox-providers" \
  -H "Authorization: Bearer $GROUNDWORK_API_KEY"

#: templates
curl "$GROUNDWORK_URL/managed-agents/v1/environment-templates" \
  -H "Authorization: Bearer $GROUNDWORK_API_KEY"

#: start a setup run
curl -X POST "$GROUNDWORK_URL/managed-agents/v1/environments/$environment_id/setup-runs" \
  -H "Authorization: Bearer $GROUNDWORK_API_KEY" \
  -H 'Idempotency-Key: data-analysis-setup-v1'

#: wait for the result
curl "$GROUNDWORK_URL/managed-agents/v1/environments/$environment_id/setup-runs/$setup_run_id?wait_seconds=5" \
  -H "Authorization: Bearer $GROUNDWORK_API_KEY"

#: read the log
curl "$GROUNDWORK_URL/managed-agents/v1/environments/$environment_id/setup-runs/$setup_run_id/log?after=0&limit=500&wait_seconds=0" \
  -H "Authorization: Bearer $GROUNDWORK_API_KEY"

#: list setup runs
curl "$GROUNDWORK_URL/managed-agents/v1/environments/$environment_id/setup-runs?limit=10" \
  -H "Authorization: Bearer $GROUNDWORK_API_KEY"

#: cancel a setup run
curl -X POST "$GROUNDWORK_URL/managed-agents/v1/environments/$environment_id/setup-runs/$setup_run_id/cancel" \
  -H "Authorization: Bearer $GROUNDWORK_API_KEY"

#: allow specific hosts
curl -X PATCH "$GROUNDWORK_URL/managed-agents/v1/environments/$environment_id" \
  -H "Authorization: Bearer $GROUNDWORK_API_KEY" \
  -H 'Content-Type: application/json' \
  -d '{
    "network_policy": {"version": "v1", "rules": [
      {"match": {"host_glob": "index.python.example"}, "action": {"type": "allow"}},
      {"match": {"host_glob": "files.python.example"}, "action": {"type": "allow"}},
      {"match": {"host_glob": "github.com"}, "action": {"type": "allow"}},
      {"match": {"host_glob": "api.github.com"}, "action": {"type": "allow"}},
      {"match": {"host_glob": "codeload.github.com"}, "action": {"type": "allow"}},
      {"match": {"host_glob": "objects.githubusercontent.com"}, "action": {"type": "allow"}},
      {"match": {"host_glob": "github-cloud.s3.amazonaws.com"}, "action": {"type": "allow"}}
    ]},
    "expected_access": {
      "network_policy": {"version": "v1", "rules": [
        {"match": {"host_glob": "index.python.example"}, "action": {"type": "allow"}},
        {"match": {"host_glob": "files.python.example"}, "action": {"type": "allow"}}
      ]},
      "privileged": false
    }
  }'

#: update
curl -X PATCH "$GROUNDWORK_URL/managed-agents/v1/environments/$environment_id" \
  -H "Authorization: Bearer $GROUNDWORK_API_KEY" \
  -H 'Content-Type: application/json' \
  -d '{"resources": {"cpu_milli": 4000, "memory_mib": 8192}, "idle_stop_after_seconds": 3600}'

#: list and get
curl "$GROUNDWORK_URL/managed-agents/v1/environments" \
  -H "Authorization: Bearer $GROUNDWORK_API_KEY"

curl "$GROUNDWORK_URL/managed-agents/v1/environments/$environment_id" \
  -H "Authorization: Bearer $GROUNDWORK_API_KEY"

#: delete
curl -X DELETE "$GROUNDWORK_URL/managed-agents/v1/environments/$environment_id" \
  -H "Authorization: Bearer $GROUNDWORK_API_KEY"

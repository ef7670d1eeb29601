#!/usr/bin/env bash
# Checks docs/deploy: that the alerts fire when they should, that Prometheus parses each expression
# of the dashboard, that Grafana's schema accepts the dashboard, and that Kubernetes' schema accepts
# the manifests. (A test of the command checks that each series exists.) Then actionlint checks
# .github/workflows.
#
#   scripts/monitoring.sh
#
# Exit status 77: one of the checkers cannot be had, which a line names; the others have run.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly KUBERNETES=1.34 VALIDATE=1.37.0 ACTIONLINT=1.7.12
readonly FILES=docs/deploy
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/monitoring
mkdir -p "$target"
status=0
skip() { printf 'skipped: monitoring: %s\n' "$*"; status=77; }

if command -v promtool > /dev/null; then
    promtool check rules $FILES/alerts.yml
    promtool test rules $FILES/alerts-test.yml
    # Prometheus parses an expression of the dashboard as one of a rule.
    python3 - $FILES/grafana.json > "$target/dashboard.yml" << 'END'
import json
import sys

print("groups: [{name: dashboard, rules: [")
for panel in json.load(open(sys.argv[1]))["panels"]:
    for target in panel["targets"]:
        expression = target["expr"].replace("$__rate_interval", "5m")
        print("  {record: panel, expr: %s}," % json.dumps(expression))
print("]}]")
END
    # Several rules with one name are a mistake in alerts, and none here.
    promtool check rules --lint=none "$target/dashboard.yml"
else
    skip "Debian's package prometheus is not installed"
fi

if python3 -m venv "$target/python" \
    && "$target/python/bin/pip" install --quiet "kubernetes-validate==$VALIDATE"; then
    for file in $FILES/*.yaml; do
        "$target/python/bin/kubernetes-validate" --strict -k $KUBERNETES "$file"
    done
else
    skip "kubernetes-validate $VALIDATE cannot be installed"
fi

if (cd scripts/monitoring && go build -o "$target/dashboard" .); then
    "$target/dashboard" $FILES/grafana.json
    echo "Grafana's schema accepts $FILES/grafana.json"
else
    skip "Grafana's schema cannot be built: it needs Go and its module proxy"
fi
if GOBIN=$target go install "github.com/rhysd/actionlint/cmd/actionlint@v$ACTIONLINT"; then
    "$target/actionlint" .github/workflows/*.yml
    echo "actionlint accepts .github/workflows"
else
    skip "actionlint $ACTIONLINT cannot be built: it needs Go and its module proxy"
fi
exit $status

#!/usr/bin/env bash
# Checks the alerts of deploy/monitoring with promtool, and plays what makes three of them fire.
. "$(dirname "$0")/../support/trial.sh"

need promtool || skip_all "everything: $missing"
rules=$PWD/deploy/monitoring/alerts.yaml
check 'promtool accepts every rule' promtool check rules "$rules"

# fires ALERT SERIES VALUES: whether the alert fires after an hour with these values, one a minute.
fires() {
  cat >"$work/test.yaml" <<YAML
rule_files: ["$rules"]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: '$2', values: '$3'}
    promql_expr_test:
      - expr: count(ALERTS{alertname="$1", alertstate="firing"}) or vector(0)
        eval_time: 1h
        exp_samples: [{labels: '{}', value: 1}]
YAML
  promtool test rules "$work/test.yaml"
}
check 'a process that is down alerts' fires SlipwayDown 'up{job="slipway", instance="a"}' 0x60
refuse 'a process that is up does not' fires SlipwayDown 'up{job="slipway", instance="a"}' 1x60
check 'a database that is away alerts' fires SlipwayDatabaseDown 'slipway_database_up{job="slipway"}' 0x60
refuse 'a database that answers does not' fires SlipwayDatabaseDown 'slipway_database_up{job="slipway"}' 1x60
check 'requests that fail alert' fires SlipwayErrors 'slipway_requests_total{status="5xx"}' 0+10x60
refuse 'requests that succeed do not' fires SlipwayErrors 'slipway_requests_total{status="2xx"}' 0+10x60

// Error codes of alerts.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const alertsCodes = {
  alert_rule_not_found: {
    status: 404,
    title: 'Alert rule not found',
    problem: 'This workspace has no such alert rule.',
    remedy: 'GET /v2/alert-rules lists the rules.',
  },
  alert_rule_name_taken: {
    status: 409,
    title: 'Name taken',
    problem: 'This workspace has an alert rule with this name.',
    remedy: 'Choose another name, or change that rule.',
  },
  alert_rule_kind_fixed: {
    status: 409,
    title: 'Kind fixed',
    problem: 'The kind of a condition, and the project of one about traces, cannot be changed.',
    remedy: 'Create another rule, and delete this one.',
  },
  alert_rule_built_in: {
    status: 409,
    title: 'Built-in rule',
    problem: 'This rule is built in, so it cannot be deleted.',
    remedy: 'Turn it off: PATCH it with `enabled` false.',
  },
  alert_scope_unused: {
    status: 422,
    title: 'Scope not used',
    problem: 'A rule about traces has its project as its scope, not deployments or tags.',
    remedy: 'Leave out `deployment_ids` and `tag_value_ids`.',
  },
  incident_not_found: {
    status: 404,
    title: 'Incident not found',
    problem: 'This workspace has no such incident, or it is no longer kept.',
    remedy: 'GET /v2/incidents lists the incidents.',
  },
  incident_resolved: {
    status: 409,
    title: 'Incident resolved',
    problem: 'The incident is resolved, so it cannot be acknowledged.',
    remedy: 'GET /v2/incidents?state=unresolved lists those that are open.',
  },
  alert_mute_not_found: {
    status: 404,
    title: 'Mute not found',
    problem: 'This workspace has no such mute, or it has ended.',
    remedy: 'GET /v2/alert-mutes lists the mutes.',
  },
} as const satisfies ErrorCodes

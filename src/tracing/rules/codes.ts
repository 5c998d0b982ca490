// Error codes of rules.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const rulesCodes = {
  rules_full: {
    status: 400,
    title: 'Too many rules',
    problem: 'A workspace can have at most 200 automation rules.',
    remedy: 'Delete a rule that is no longer used first.',
  },
  rule_scope_fixed: {
    status: 400,
    title: 'Scope fixed',
    problem: 'The project or dataset of a rule cannot be changed.',
    remedy: 'Create another rule.',
  },
  evaluator_not_found: {
    status: 404,
    title: 'Evaluator not found',
    problem: 'This workspace has no such evaluator.',
    remedy: 'GET /v1/platform/evaluators lists the evaluators.',
  },
  rule_not_applied: {
    status: 404,
    title: 'Rule not applied yet',
    problem: 'No run that this rule was applied to was found.',
    remedy: 'GET /runs/rules/{rule_id}/logs lists what it did.',
  },
  rule_not_found: {
    status: 404,
    title: 'Rule not found',
    problem: 'This workspace has no such automation rule.',
    remedy: 'GET /runs/rules lists the rules.',
  },
  evaluator_exists: {
    status: 409,
    title: 'Evaluator exists',
    problem: 'This workspace already has an evaluator with this `name`.',
    remedy: 'Choose another name, or PATCH that evaluator.',
  },
  evaluator_in_use: {
    status: 409,
    title: 'Evaluator in use',
    problem: 'Automation rules use this evaluator.',
    remedy: 'Delete it with `delete_run_rules=true`, or take it out of them first.',
  },
  rule_disabled: {
    status: 409,
    title: 'Rule disabled',
    problem: 'This rule is off.',
    remedy: 'PATCH it with `is_enabled` true first.',
  },
} as const satisfies ErrorCodes

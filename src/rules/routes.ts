// Routes of automation rules.
import { slice } from '../kernel/routes.ts'
import * as rules from './rules.ts'
import * as s from './schema.ts'

const REFERENCE_ERRORS = ['project_not_found', 'dataset_not_found', 'filter_invalid', 'blocked_url'] as const

export const ruleRoutes = slice('Automation rules', 'What is done with runs that match, without anybody asking.')
  .get('/runs/rules', {
    id: 'listRunRules',
    summary: 'List the automation rules of this workspace',
    toleratesUnknown: true,
    query: s.RuleQuery,
    repeatable: ['id', 'tag_value_id'],
    reply: s.RuleList,
    verb: rules.listRules,
  })
  .post('/runs/rules', {
    id: 'createRunRule',
    summary: 'Create an automation rule',
    description: 'The answer has the secret that verifies the signatures of its webhooks.',
    toleratesUnknown: true,
    body: s.NewRule,
    reply: s.Rule,
    errors: [...REFERENCE_ERRORS, 'rules_full', 'workspace_not_found'],
    verb: rules.createRule,
  })
  .post('/runs/rules/validate', {
    id: 'validateRunRule',
    summary: 'Check an automation rule without creating it',
    description: 'Refuses what creating it would refuse, except for a workspace that has too many rules.',
    toleratesUnknown: true,
    isReadOnly: true,
    body: s.NewRule,
    reply: s.RuleVerdicts,
    errors: [...REFERENCE_ERRORS],
    verb: rules.validateRule,
  })
  .patch('/runs/rules/{rule_id}', {
    id: 'changeRunRule',
    summary: 'Change an automation rule',
    toleratesUnknown: true,
    params: s.RuleRef,
    body: s.RulePatch,
    reply: s.Rule,
    errors: ['rule_not_found', 'rule_scope_fixed', ...REFERENCE_ERRORS],
    verb: rules.changeRule,
  })
  .delete('/runs/rules/{rule_id}', {
    id: 'deleteRunRule',
    summary: 'Delete an automation rule and its logs',
    toleratesUnknown: true,
    params: s.RuleRef,
    reply: s.Deleted,
    errors: ['rule_not_found'],
    verb: rules.deleteRule,
  })

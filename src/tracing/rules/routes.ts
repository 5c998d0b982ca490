// Routes of automation rules.
import type { Code } from '../../kernel/http/codes.ts'
import { slice } from '../../kernel/http/routes.ts'
import { listRuleLogs, pageRuleLogs, readLastApplied } from './logs.ts'
import * as rules from './rules.ts'
import { RulePageV2, RuleQueryV2 } from './rules-v2.schema.ts'
import { listRulesV2 } from './rules-v2.ts'
import * as s from './schema.ts'
import { triggerRule, triggerRules } from './trigger.ts'

const REFERENCE_ERRORS: Code[] = [
  'project_not_found',
  'dataset_not_found',
  'queue_not_found',
  'model_not_found',
  'evaluator_not_found',
  'filter_invalid',
  'blocked_url',
]

export const ruleRoutes = slice('Automation rules', 'What is done with runs that match, without anybody asking.')
  .get('/runs/rules', {
    id: 'listRunRules',
    summary: 'List the automation rules of this workspace',
    description: 'All of them in one answer, newest first. A workspace can have 200.',
    toleratesUnknown: true,
    query: s.RuleQuery,
    repeatable: ['id', 'tag_value_id'],
    reply: s.RuleList,
    verb: rules.listRules,
  })
  .get('/v2/runs/rules', {
    id: 'listRunRulesV2',
    summary: 'List the automation rules of this workspace, page by page',
    description:
      'Those that were changed last come first. Go on while `next_cursor` is set. Names are in upper case, and ' +
      '`project_id` is the `session_id` of a rule.',
    toleratesUnknown: true,
    query: RuleQueryV2,
    repeatable: ['id', 'tag_value_id'],
    reply: RulePageV2,
    verb: listRulesV2,
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
    description: [
      'Refuses what creating it would refuse, except for a workspace that has too many rules. The answer has what its',
      'evaluators say of a run, for which they call their models. No feedback is stored.',
    ].join(' '),
    toleratesUnknown: true,
    isReadOnly: true,
    body: s.ValidatedRule,
    reply: s.RuleVerdicts,
    errors: [...REFERENCE_ERRORS, 'run_not_found'],
    verb: rules.validateRule,
  })
  .get('/runs/rules/{rule_id}', {
    id: 'readRunRule',
    summary: 'Read an automation rule',
    description:
      'It has its filters and what it does with runs. The secret that verifies its webhooks was in the answer that ' +
      'created it.',
    params: s.RuleRef,
    reply: s.Rule,
    errors: ['rule_not_found'],
    versioned: true,
    verb: rules.readRule,
  })
  .patch('/runs/rules/{rule_id}', {
    id: 'changeRunRule',
    summary: 'Change an automation rule',
    description:
      'Members that are absent stay as they are. It holds for runs that the rule has not seen yet. The project or ' +
      'dataset of a rule cannot be changed.',
    versioned: true,
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
    description: 'It cannot be undone. The feedback, examples and queue items that it made stay.',
    versioned: true,
    toleratesUnknown: true,
    params: s.RuleRef,
    reply: s.Deleted,
    errors: ['rule_not_found'],
    verb: rules.deleteRule,
  })
  .post('/runs/rules/{rule_id}/trigger', {
    id: 'triggerRunRule',
    summary: 'Evaluate a rule now',
    description: 'After the response, instead of at the next minute.',
    toleratesUnknown: true,
    isReadOnly: true,
    params: s.RuleRef,
    reply: s.Rule,
    errors: ['rule_not_found', 'rule_disabled'],
    verb: triggerRule,
  })
  .post('/runs/rules/trigger', {
    id: 'triggerRunRules',
    summary: 'Evaluate several rules now',
    description: 'If one of them does not exist or is off, none is evaluated.',
    toleratesUnknown: true,
    isReadOnly: true,
    body: s.RuleIds,
    reply: s.Triggered,
    errors: ['rule_not_found', 'rule_disabled'],
    verb: triggerRules,
  })
  .get('/runs/rules/{rule_id}/logs', {
    id: 'listRunRuleLogs',
    summary: 'List what a rule did, newest first',
    description: 'Kept for a month.',
    toleratesUnknown: true,
    params: s.RuleRef,
    query: s.LogQuery,
    reply: s.RuleLogList,
    errors: ['rule_not_found'],
    verb: listRuleLogs,
  })
  .get('/runs/rules/{rule_id}/logs/v2', {
    id: 'pageRunRuleLogs',
    summary: 'List what a rule did, newest first, by a cursor',
    description: 'A page costs the same however deep it is.',
    toleratesUnknown: true,
    params: s.RuleRef,
    query: s.LogPageQuery,
    reply: s.RuleLogPage,
    errors: ['rule_not_found'],
    verb: pageRuleLogs,
  })
  .get('/runs/rules/{rule_id}/last_applied', {
    id: 'readRunRuleLastApplied',
    summary: 'Read what a rule did last',
    description: '404 `rule_not_applied` means that no run has matched yet, or that its log is no longer kept.',
    toleratesUnknown: true,
    params: s.RuleRef,
    query: s.BackfillFlag,
    reply: s.RuleLog,
    errors: ['rule_not_found', 'rule_not_applied'],
    verb: readLastApplied,
  })

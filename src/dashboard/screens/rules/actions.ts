// Actions on automation rules, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { CallOptions, Reply } from '../../api/client.ts'
import { explainMissingHere } from '../../api/permissions.ts'

export type Rule = Reply<'GET /runs/rules'>[number]
export type RuleLog = Reply<'GET /runs/rules/{rule_id}/logs/v2'>['logs'][number]
export type NewRule = NonNullable<CallOptions<'POST /runs/rules'>['body']>
export type RulePatch = NonNullable<CallOptions<'PATCH /runs/rules/{rule_id}'>['body']>

const refOf = ({ id }: Rule) => ({ params: { rule_id: id } })

export const createRule = (body: NewRule): Action => ({
  label: 'Create rule',
  request: request('POST /runs/rules', { body }),
  unavailable: explainMissingHere('rules:create'),
  done: 'The rule is created. It applies to new runs.',
})

export const changeRule = (rule: Rule, body: RulePatch): Action => ({
  label: 'Save rule',
  request: request('PATCH /runs/rules/{rule_id}', { ...refOf(rule), body }),
  unavailable: explainMissingHere('rules:update'),
  done: 'The rule is saved.',
})

export const pauseRule = (rule: Rule): Action => ({
  label: 'Pause',
  request: request('PATCH /runs/rules/{rule_id}', { ...refOf(rule), body: { is_enabled: false } }),
  unavailable: explainMissingHere('rules:update'),
  done: 'The rule is paused.',
})

export const resumeRule = (rule: Rule): Action => ({
  label: 'Resume',
  request: request('PATCH /runs/rules/{rule_id}', { ...refOf(rule), body: { is_enabled: true } }),
  unavailable: explainMissingHere('rules:update'),
  done: 'The rule is resumed.',
})

export const triggerRule = (rule: Rule): Action => ({
  label: 'Evaluate now',
  request: request('POST /runs/rules/{rule_id}/trigger', refOf(rule)),
  unavailable: explainMissingHere('rules:update'),
  done: 'The rule evaluates the runs that have ended since the last evaluation.',
})

export const deleteRule = (rule: Rule): Action => ({
  label: 'Delete rule',
  request: request('DELETE /runs/rules/{rule_id}', refOf(rule)),
  unavailable: explainMissingHere('rules:delete'),
  confirm: {
    title: `Delete the rule ${rule.display_name}?`,
    body:
      'The rule and its log are deleted. Examples, extended retention and sent messages stay. To stop it ' +
      'temporarily, pause it instead.',
    isDestructive: true,
  },
  done: `The rule ${rule.display_name} is deleted.`,
})

// Actions on incidents, alert rules and mutes, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { CallOptions } from '../../api/client.ts'
import type { AlertRule, Incident, Mute } from './alert-state.ts'

type Unavailable = string | undefined
export type NewMuteBody = NonNullable<CallOptions<'POST /v2/alert-mutes'>['body']>
type RulePatch = NonNullable<CallOptions<'PATCH /v2/alert-rules/{alert_rule_id}'>['body']>
export type NewRuleBody = NonNullable<CallOptions<'POST /v2/alert-rules'>['body']>

export const acknowledge = ({ id }: Pick<Incident, 'id'>, unavailable: Unavailable): Action => ({
  label: 'Acknowledge',
  request: request('POST /v2/incidents/{incident_id}/acknowledge', { params: { incident_id: id }, body: {} }),
  command: `slipway incidents ack ${id}`,
  unavailable,
  done: 'The incident is acknowledged.',
})

export const resolve = ({ id }: Pick<Incident, 'id'>, unavailable: Unavailable): Action => ({
  label: 'Resolve',
  request: request('POST /v2/incidents/{incident_id}/resolve', { params: { incident_id: id }, body: {} }),
  command: `slipway incidents resolve ${id}`,
  unavailable,
  done: 'The incident is resolved.',
})

export const createRule = (body: NewRuleBody, unavailable: Unavailable): Action => ({
  label: 'Create alert rule',
  request: request('POST /v2/alert-rules', { body }),
  unavailable,
  done: 'The alert rule is created.',
})

export const changeRule = ({ id }: AlertRule, body: RulePatch, unavailable: Unavailable): Action => ({
  label: 'Save alert rule',
  request: request('PATCH /v2/alert-rules/{alert_rule_id}', { params: { alert_rule_id: id }, body }),
  unavailable,
  done: 'The alert rule is saved.',
})

export const setRuleEnabled = ({ id, name }: AlertRule, enabled: boolean, unavailable: Unavailable): Action => ({
  label: enabled ? 'Turn on' : 'Turn off',
  request: request('PATCH /v2/alert-rules/{alert_rule_id}', { params: { alert_rule_id: id }, body: { enabled } }),
  command: `slipway alerts set ${id} ${enabled ? 'on' : 'off'}`,
  unavailable,
  done: enabled ? `The rule ${name} is on.` : `The rule ${name} is off, and its incidents are resolved.`,
})

export const setDefaults = (defaults_enabled: boolean, unavailable: Unavailable): Action => ({
  label: defaults_enabled ? 'Turn the built-in rules on' : 'Turn the built-in rules off',
  request: request('PATCH /v2/alert-settings', { body: { defaults_enabled } }),
  command: `slipway alerts set built-in ${defaults_enabled ? 'on' : 'off'}`,
  unavailable,
  done: defaults_enabled ? 'The built-in rules are on.' : 'The built-in rules are off.',
})

export const deleteRule = ({ id, name }: AlertRule, unavailable: Unavailable): Action => ({
  label: 'Delete alert rule',
  request: request('DELETE /v2/alert-rules/{alert_rule_id}', { params: { alert_rule_id: id } }),
  command: `slipway alerts delete ${id}`,
  unavailable,
  confirm: {
    title: `Delete the alert rule ${name}?`,
    body: 'Its open incidents are resolved. To stop it for a time, turn it off.',
    isDestructive: true,
  },
  done: `The alert rule ${name} is deleted.`,
})

const HOUR_MS = 3600_000

/** For an hour from the press on. */
export const muteForAnHour = (rule_ids: string[], unavailable: Unavailable): Action => ({
  label: rule_ids.length > 0 ? 'Mute for an hour' : 'Mute all for an hour',
  request: request('POST /v2/alert-mutes', {
    body: { reason: 'Muted in the dashboard', rule_ids, ends_at: new Date(Date.now() + HOUR_MS).toISOString() },
  }),
  unavailable,
  done: 'Nobody is told for an hour. Incidents are recorded.',
})

export const createMute = (body: NewMuteBody, unavailable: Unavailable): Action => ({
  label: 'Create mute',
  request: request('POST /v2/alert-mutes', { body }),
  unavailable,
  done: 'The mute is created. Incidents are recorded meanwhile.',
})

export const endMute = ({ id, is_active }: Mute, unavailable: Unavailable): Action => ({
  label: is_active ? 'End' : 'Remove',
  request: request('DELETE /v2/alert-mutes/{mute_id}', { params: { mute_id: id } }),
  command: `slipway alerts unmute ${id}`,
  unavailable,
  done: is_active ? 'The mute has ended. Channels are told of what still is open.' : 'The mute is removed.',
})

// Routes of alert rules, their settings, incidents and mutes.
import { slice } from '../../kernel/http/routes.ts'
import * as incidents from './incidents.ts'
import * as mutes from './mutes.ts'
import * as rules from './rules.ts'
import * as s from './schema.ts'

const KNOWN_PARTS = ['deployment_not_found', 'tag_value_not_found'] as const
const RULE_PARTS = [...KNOWN_PARTS, 'channel_not_found', 'project_not_found', 'filter_invalid'] as const

export const alertRoutes = slice('Alerts', 'Rules that notice what is wrong, the incidents that they open, and mutes.')
  .get('/v2/alert-rules', {
    id: 'listAlertRules',
    summary: 'List the alert rules of this workspace',
    description: 'Newest first. Every workspace has built-in rules, the last ones of the list.',
    query: s.AlertRuleQuery,
    reply: s.AlertRuleList,
    verb: rules.listAlertRules,
  })
  .post('/v2/alert-rules', {
    id: 'createAlertRule',
    summary: 'Create an alert rule',
    description:
      'When its condition holds for a subject, an incident opens and the channels are told, once. There are no ' +
      'patterns in conditions on log lines: `contains` is a text.',
    body: s.NewAlertRule,
    status: 201,
    reply: s.AlertRule,
    errors: ['alert_rule_name_taken', 'workspace_not_found', ...RULE_PARTS],
    location: rule => `/v2/alert-rules/${rule.id}`,
    verb: rules.createAlertRule,
  })
  .get('/v2/alert-rules/{alert_rule_id}', {
    id: 'readAlertRule',
    summary: 'Read an alert rule',
    description: '`is_active` says whether it acts, with the switch of the built-in rules.',
    params: s.AlertRuleRef,
    reply: s.AlertRule,
    errors: ['alert_rule_not_found'],
    versioned: true,
    verb: rules.readAlertRule,
  })
  .patch('/v2/alert-rules/{alert_rule_id}', {
    id: 'changeAlertRule',
    summary: 'Change an alert rule, or turn it off',
    description: 'A rule that is turned off resolves its incidents. The kind of its condition cannot be changed.',
    params: s.AlertRuleRef,
    body: s.AlertRulePatch,
    reply: s.AlertRule,
    errors: [
      'alert_rule_not_found',
      'alert_rule_name_taken',
      'alert_rule_kind_fixed',
      'alert_scope_unused',
      ...RULE_PARTS,
    ],
    versioned: true,
    verb: rules.changeAlertRule,
  })
  .delete('/v2/alert-rules/{alert_rule_id}', {
    id: 'deleteAlertRule',
    summary: 'Delete an alert rule',
    description: 'Its open incidents are resolved, and stay in the list. A built-in rule can only be turned off.',
    params: s.AlertRuleRef,
    errors: ['alert_rule_not_found', 'alert_rule_built_in'],
    versioned: true,
    verb: rules.deleteAlertRule,
  })
  .get('/v2/alert-settings', {
    id: 'readAlertSettings',
    summary: 'Read the settings of alerts',
    description: '`default_channels` is 0 where nobody is told: then incidents are only shown.',
    reply: s.AlertSettings,
    verb: rules.readAlertSettings,
  })
  .patch('/v2/alert-settings', {
    id: 'changeAlertSettings',
    summary: 'Turn the built-in rules off or on',
    description: 'All of them at once. Each alone is turned off by its `enabled`.',
    body: s.AlertSettingsPatch,
    reply: s.AlertSettings,
    errors: ['workspace_not_found'],
    verb: rules.changeAlertSettings,
  })
  .get('/v2/incidents', {
    id: 'listIncidents',
    summary: 'List incidents',
    description: 'Newest first. Resolved ones are kept for 90 days.',
    query: s.IncidentQuery,
    reply: s.IncidentList,
    verb: incidents.listIncidents,
  })
  .get('/v2/incidents/{incident_id}', {
    id: 'readIncident',
    summary: 'Read an incident with its evidence and history',
    description: 'The evidence is from the time when it opened: the last lines of the log, and the metric.',
    params: s.IncidentRef,
    reply: s.IncidentDetails,
    errors: ['incident_not_found'],
    verb: incidents.readIncident,
  })
  .post('/v2/incidents/{incident_id}/acknowledge', {
    id: 'acknowledgeIncident',
    summary: 'Acknowledge an incident',
    description: 'Says that a person is at work on it. Its end is still noticed and told.',
    params: s.IncidentRef,
    body: s.Acknowledgement,
    reply: s.Incident,
    errors: ['incident_not_found', 'incident_resolved'],
    verb: incidents.acknowledgeIncident,
  })
  .post('/v2/incidents/{incident_id}/resolve', {
    id: 'resolveIncident',
    summary: 'Resolve an incident by hand',
    description: 'Its rule opens another one only after its condition was over.',
    params: s.IncidentRef,
    body: s.Resolution,
    reply: s.Incident,
    errors: ['incident_not_found'],
    verb: incidents.resolveIncident,
  })
  .get('/v2/alert-mutes', {
    id: 'listAlertMutes',
    summary: 'List mutes',
    description: 'Newest first. A mute is deleted a week after its end.',
    query: s.MuteQuery,
    reply: s.MuteList,
    verb: mutes.listMutes,
  })
  .post('/v2/alert-mutes', {
    id: 'createAlertMute',
    summary: 'Mute alerts for a time, or in hours of the week',
    description:
      'Incidents that open meanwhile are recorded. At the end of the mute, channels are told of those that still are ' +
      'open. Without an end, delete it.',
    body: s.NewMute,
    status: 201,
    reply: s.Mute,
    errors: ['workspace_not_found', 'alert_rule_not_found', ...KNOWN_PARTS],
    location: mute => `/v2/alert-mutes/${mute.id}`,
    verb: mutes.createMute,
  })
  .delete('/v2/alert-mutes/{mute_id}', {
    id: 'deleteAlertMute',
    summary: 'End a mute',
    description: 'Channels are told of the incidents that still are open.',
    params: s.MuteRef,
    errors: ['alert_mute_not_found'],
    verb: mutes.deleteMute,
  })

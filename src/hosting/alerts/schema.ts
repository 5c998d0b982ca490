// Schemas of alert rules, incidents, mutes and the settings of alerts.
import * as z from 'zod'
import {
  AlertCondition,
  builtIns,
  changeKinds,
  incidentStates,
  ruleKinds,
  subjectTypes,
  Weekly,
} from '../../protocol/alerts.schema.ts'
import { severities } from '../../protocol/notice.schema.ts'
import {
  arrayOf,
  boundedText,
  emptyAsAbsent,
  exactName,
  Instant,
  listOf,
  optionalFilter,
  Page,
  Uuid,
} from '../../protocol/wire.ts'

const Time = z.string().meta({ format: 'date-time' })
const Severity = z.enum(severities)

// ---- rules

const RuleName = boundedText(100).trim().min(1)
const DeploymentIds = arrayOf(Uuid, 100)
const TagValueIds = arrayOf(Uuid, 50)
const ChannelIds = arrayOf(Uuid, 20)
const SCOPE = {
  deployment_ids: 'Only these deployments, or those with the tags. Without either, all deployments.',
  tag_value_ids: 'Only deployments with one of these tags, or those that are listed.',
}
const DAY_S = 86_400

export const AlertRuleRef = z.object({ alert_rule_id: Uuid })
export const AlertRuleQuery = z.object({
  ...Page.shape,
  name: exactName('name'),
  kind: optionalFilter(z.enum(ruleKinds)),
})

export const NewAlertRule = z
  .object({
    name: RuleName,
    enabled: z.boolean().default(true),
    condition: AlertCondition,
    deployment_ids: DeploymentIds.default([]).meta({ description: SCOPE.deployment_ids }),
    tag_value_ids: TagValueIds.default([]).meta({ description: SCOPE.tag_value_ids }),
    for_seconds: z.int().min(0).max(DAY_S).default(0).meta({
      description: 'The condition must hold for so long before an incident opens.',
    }),
    resolve_after_seconds: z
      .int()
      .min(0)
      .max(DAY_S)
      .nullish()
      .meta({
        description:
          'The condition must be over for so long before the incident is resolved. It doubles each time the ' +
          'condition comes back meanwhile, up to an hour. By default 300, for logs and traces 600, for events 60, ' +
          'for events that nothing ends 1800.',
      }),
    severity: Severity.default('error'),
    channel_ids: ChannelIds.default([]).meta({
      description: 'The channels that are told. Without any, the default channels of the workspace.',
    }),
  })
  .superRefine(({ condition, deployment_ids, tag_value_ids }, check) => {
    if (condition.kind !== 'trace' || deployment_ids.length + tag_value_ids.length === 0) return
    const path = [deployment_ids.length > 0 ? 'deployment_ids' : 'tag_value_ids']
    check.addIssue({ code: 'custom', path, message: 'must be empty for a rule about traces: its project is its scope' })
  })
  .meta({
    id: 'NewAlertRule',
    description: 'A condition that opens incidents, and the channels that are told.',
    example: {
      name: 'Slow answers',
      condition: { kind: 'metric', metric: 'latency_p95', operator: 'above', threshold: 2000, clear_threshold: 1500 },
      for_seconds: 120,
      severity: 'warning',
    },
  })
export type NewAlertRule = z.output<typeof NewAlertRule>

export const AlertRulePatch = z
  .object({
    name: RuleName.nullish(),
    enabled: z.boolean().nullish(),
    condition: AlertCondition.nullish().meta({ description: 'Replaces the condition. Its `kind` stays.' }),
    deployment_ids: DeploymentIds.nullish().meta({ description: SCOPE.deployment_ids }),
    tag_value_ids: TagValueIds.nullish().meta({ description: SCOPE.tag_value_ids }),
    for_seconds: z.int().min(0).max(DAY_S).nullish(),
    resolve_after_seconds: z.int().min(0).max(DAY_S).nullish(),
    severity: Severity.nullish(),
    channel_ids: ChannelIds.nullish(),
  })
  .meta({
    id: 'AlertRulePatch',
    description: 'Members that are absent or null stay as they are.',
    example: { enabled: false },
  })
export type AlertRulePatch = z.output<typeof AlertRulePatch>

export const AlertRule = z
  .object({
    id: Uuid,
    name: z.string(),
    built_in: z.enum(builtIns).nullable().meta({
      description: 'Every workspace has these rules from its beginning. They can be changed and turned off.',
    }),
    enabled: z.boolean(),
    is_active: z.boolean().meta({ description: 'False also for a built-in rule while `defaults_enabled` is false.' }),
    condition: AlertCondition,
    deployment_ids: z.array(Uuid),
    tag_value_ids: z.array(Uuid),
    for_seconds: z.int(),
    resolve_after_seconds: z.int(),
    severity: Severity,
    channel_ids: z.array(Uuid),
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'AlertRule', description: 'A condition that opens incidents, and the channels that are told.' })
export type AlertRule = z.output<typeof AlertRule>
export const AlertRuleList = listOf(AlertRule).meta({ id: 'AlertRuleList', description: 'A page, newest first.' })

// ---- settings

export const AlertSettingsPatch = z.object({ defaults_enabled: z.boolean() }).meta({
  id: 'AlertSettingsPatch',
  description: 'Turns all built-in rules off or on.',
  example: { defaults_enabled: false },
})
export type AlertSettingsPatch = z.output<typeof AlertSettingsPatch>
export const AlertSettings = z
  .object({
    defaults_enabled: z.boolean().meta({ description: 'Whether the built-in rules act.' }),
    default_channels: z.int().meta({
      description: 'Channels that are told by rules that name none. 0: such incidents are only shown.',
    }),
  })
  .meta({ id: 'AlertSettings', description: 'The settings of alerts in this workspace.' })
export type AlertSettings = z.output<typeof AlertSettings>

// ---- incidents

export const IncidentRef = z.object({ incident_id: Uuid })
export const IncidentQuery = z.object({
  ...Page.shape,
  state: z
    .preprocess(emptyAsAbsent, z.enum([...incidentStates, 'unresolved']).optional())
    .meta({ description: '`unresolved`: open or acknowledged.' }),
  severity: optionalFilter(Severity),
  rule_id: optionalFilter(Uuid),
  deployment_id: optionalFilter(Uuid),
})

const Chart = z.object({
  title: z.string(),
  unit: z.string(),
  points: z.array(z.tuple([z.number(), z.number()])).meta({ description: 'Milliseconds since 1970, and the value.' }),
  threshold: z.number().optional(),
})

const incidentShape = {
  id: Uuid,
  state: z.enum(incidentStates),
  severity: Severity,
  title: z.string(),
  cause: z.string().meta({ description: 'The reason, as far as it is known.' }),
  rule: z.object({ id: Uuid.nullable(), name: z.string() }),
  run_rule_id: Uuid.nullable().meta({ description: 'The automation rule whose alert it is.' }),
  subject: z.object({ type: z.enum(subjectTypes), id: Uuid, name: z.string() }),
  value: z.number().nullable().meta({ description: 'The last value of the condition.' }),
  reopened: z.int().meta({ description: 'How often it came back within an hour of its end.' }),
  muted_until: Time.nullable().meta({ description: 'Its channels are told then, if it still is open.' }),
  is_told: z.boolean().meta({ description: 'Whether its channels know of it. Without a channel, nobody does.' }),
  opened_at: Time,
  last_at: Time,
  resolved_at: Time.nullable(),
}
export const Incident = z
  .object(incidentShape)
  .meta({ id: 'AlertIncident', description: 'A condition of a rule that holds, or held.' })
export type Incident = z.output<typeof Incident>
export const IncidentList = listOf(Incident).meta({
  id: 'AlertIncidentList',
  description: 'A page of incidents, newest first.',
})
const Change = z.object({
  id: Uuid,
  kind: z.enum(changeKinds),
  value: z.number().nullable(),
  message: z.string().nullable(),
  actor_id: Uuid.nullable().meta({ description: 'Null: the rule itself.' }),
  actor_name: z.string().nullable(),
  created_at: Time,
})
export const IncidentDetails = z
  .object({
    ...incidentShape,
    evidence: z.object({
      facts: z.array(z.object({ name: z.string(), value: z.string() })),
      lines: z.array(z.string()).meta({ description: 'The last lines of the log when it opened.' }),
      chart: Chart.nullable(),
    }),
    history: z.array(Change).meta({ description: 'Oldest first, the last 100.' }),
  })
  .meta({ id: 'AlertIncidentDetails', description: 'An incident with its evidence and its history.' })
export type IncidentDetails = z.output<typeof IncidentDetails>

const Note = z.object({ message: boundedText(1000).nullish() })
export const Acknowledgement = Note.meta({
  id: 'IncidentAcknowledgement',
  description: 'Says that a person is at work on it.',
  example: { message: 'Rolling back.' },
})
export const Resolution = Note.meta({
  id: 'IncidentResolution',
  description: 'Ends the incident. The rule opens another one only after its condition was over.',
  example: { message: 'Rolled back.' },
})

// ---- mutes

export const MuteRef = z.object({ mute_id: Uuid })
export const NewMute = z
  .object({
    reason: boundedText(500).trim().min(1),
    rule_ids: arrayOf(Uuid, 50).default([]).meta({ description: 'Only these rules. By default all.' }),
    deployment_ids: DeploymentIds.default([]).meta({ description: SCOPE.deployment_ids }),
    tag_value_ids: TagValueIds.default([]).meta({ description: SCOPE.tag_value_ids }),
    starts_at: Instant.nullish().meta({ description: 'By default now.' }),
    ends_at: Instant.nullish().meta({ description: 'By default never.' }),
    weekly: Weekly.nullish().meta({ description: 'Only in these hours.' }),
  })
  .refine(({ starts_at, ends_at }) => !starts_at || !ends_at || starts_at < ends_at, {
    path: ['ends_at'],
    error: 'must be after `starts_at`',
  })
  .meta({
    id: 'NewAlertMute',
    description: 'A time in which incidents are recorded, and nobody is told.',
    example: { reason: 'The database moves.', ends_at: '2027-01-01T06:00:00Z' },
  })
export type NewMute = z.output<typeof NewMute>
export const Mute = z
  .object({
    id: Uuid,
    reason: z.string(),
    rule_ids: z.array(Uuid),
    deployment_ids: z.array(Uuid),
    tag_value_ids: z.array(Uuid),
    starts_at: Time.nullable(),
    ends_at: Time.nullable(),
    weekly: Weekly.nullable(),
    is_active: z.boolean().meta({ description: 'Whether it covers the present time.' }),
    created_by_name: z.string().nullable(),
    created_at: Time,
  })
  .meta({ id: 'AlertMute', description: 'A time in which incidents are recorded, and nobody is told.' })
export type Mute = z.output<typeof Mute>
export const MuteList = listOf(Mute).meta({ id: 'AlertMuteList', description: 'A page of mutes, newest first.' })
export const MuteQuery = z.object(Page.shape)

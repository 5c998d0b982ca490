// The JSON Schema of the documents that `slipway apply` takes, built from the schemas that validate requests.
import * as z from 'zod'
import { McpServer, NewProvider } from '../connect/oauth/schema.ts'
import { NewWebhook } from '../connect/webhooks/schema.ts'
import { NewDeployment } from '../hosting/deployments/schema.ts'
import { NewSchedule } from '../hosting/jobs/schema.ts'
import { NewListener } from '../hosting/listeners/schema.ts'
import { NewPreviewPolicy } from '../hosting/previews/previews.schema.ts'
import { NewTagKey, NewTagValue } from '../hosting/tags/tags.schema.ts'
import { NewRole, WorkspacePatch } from '../people/access/schema.ts'
import { NewRequestLogs } from '../protocol/request-logs.schema.ts'
import { NewRollout } from '../protocol/rollout.schema.ts'
import { TrafficSettings } from '../protocol/traffic.schema.ts'
import { Owner } from '../protocol/wire.ts'

type JsonSchema = { [member: string]: unknown }

const names = (description: string) => z.array(z.string()).max(500).optional().meta({ description })
const SECRETS = names('The names of its secrets. Their values come from the file of `--secrets-file`, or are stored.')
const TAGS = names('Its tags, as `key=value`. All of them: one that is not listed is removed.')
const owner = Owner.optional()

/** The members of each kind beside `kind`, `name` and `spec`, and the body of the request that creates it. */
const KINDS = {
  Workspace: { spec: WorkspacePatch },
  Role: { spec: NewRole, owner },
  Listener: { spec: NewListener },
  TagKey: { spec: NewTagKey },
  TagValue: { spec: NewTagValue },
  Provider: { spec: z.union([NewProvider, McpServer]), secrets: SECRETS, owner },
  Deployment: {
    spec: NewDeployment,
    secrets: SECRETS,
    listener: z.string().optional().meta({ description: 'The listener that runs it: `local/NAME` or `k8s/NAME`.' }),
    integration: z.string().optional().meta({ description: 'The git host and account, such as `github.com/acme`.' }),
    tags: TAGS,
    owner,
    traffic: TrafficSettings.partial()
      .optional()
      .meta({ description: 'What the traffic of later revisions begins with.' }),
    request_logs: NewRequestLogs.optional().meta({ description: 'Which requests become lines. Left out, it stays.' }),
    rollout: NewRollout.nullable()
      .optional()
      .meta({
        description:
          'The steps of later revisions. Null: none. Left out, they stay. The value of the secret of its webhook ' +
          'has the name `rollout.secret` in the file of `--secrets-file`.',
      }),
  },
  PreviewPolicy: {
    spec: NewPreviewPolicy,
    secrets: SECRETS,
    hooks: z
      .object({ on_create: z.string().optional(), on_delete: z.string().optional() })
      .optional()
      .meta({ description: 'URLs to call. The value of their secret has the name `hooks.secret`.' }),
  },
  Schedule: { spec: NewSchedule, owner },
  Webhook: {
    spec: NewWebhook,
    deployments: names('The names of deployments whose events are sent.'),
    tags: names('Tags as `key=value`: events of deployments with one of them are sent.'),
    owner,
  },
  CustomHost: { spec: z.object({}) },
}

/**
 * Values of secrets are not part of a document, `owner` and names of secrets stand beside `spec`, and `after` is no
 * state. What `name` says may be left out of `spec`.
 */
const CHANGED_BODIES = new Map<z.core.$ZodType, { removed: string[]; optional: string[] }>([
  [NewRole, { removed: ['owner'], optional: ['display_name'] }],
  [NewTagKey, { removed: [], optional: ['key'] }],
  [NewProvider, { removed: ['owner', 'client_secret'], optional: ['provider_id'] }],
  [McpServer, { removed: ['owner', 'client_secret'], optional: ['provider_id'] }],
  [NewDeployment, { removed: ['owner'], optional: ['name', 'secrets'] }],
  [NewPreviewPolicy, { removed: ['hooks'], optional: [] }],
  [NewSchedule, { removed: ['owner'], optional: ['name'] }],
  [NewWebhook, { removed: ['owner', 'after'], optional: ['url'] }],
])
/** Requests have values of secrets. An exported document of an earlier release has an empty list. */
const NO_SECRETS = { type: 'array', maxItems: 0, description: 'The names of secrets stand beside `spec`.' }

function describeSpec(zodSchema: z.core.$ZodType, schema: JsonSchema): void {
  if (schema.properties && schema.additionalProperties === undefined) schema.additionalProperties = false
  const change = CHANGED_BODIES.get(zodSchema)
  if (!change) return
  const members = schema.properties as JsonSchema
  for (const name of change.removed) delete members[name]
  // Conditions speak of members that a document may leave out.
  for (const condition of ['allOf', 'anyOf', 'oneOf', 'if', 'then', 'else']) delete schema[condition]
  if (members.secrets) members.secrets = NO_SECRETS
  schema.required = (schema.required as string[] | undefined)?.filter(name => !change.optional.includes(name)) ?? []
  delete schema.example
}

export function buildDeclarationSchema(): JsonSchema {
  const documents = Object.fromEntries(
    Object.entries(KINDS).map(([kind, members]) => [
      kind,
      z.object({
        $schema: z.string().optional(),
        kind: z.literal(kind),
        name: z.string().min(1).max(2048),
        ...members,
      }),
    ]),
  )
  const { properties, definitions, $schema } = z.toJSONSchema(z.object(documents), {
    io: 'input',
    unrepresentable: 'any',
    target: 'draft-7',
    override: ({ zodSchema, jsonSchema }) => describeSpec(zodSchema, jsonSchema as JsonSchema),
  }) as unknown as Record<'properties' | 'definitions', Record<string, JsonSchema>> & { $schema: string }
  // By the member that tells them apart, so that faults are those of one of the two.
  const provider = properties.Provider!.properties as JsonSchema
  provider.spec = {
    if: { required: ['mcp_server_url'] },
    // biome-ignore lint/suspicious/noThenProperty: It is a keyword of JSON Schema.
    then: { $ref: '#/definitions/McpServer' },
    else: { $ref: '#/definitions/NewOAuthProvider' },
  }
  return {
    $schema,
    title: 'Slipway',
    description: 'What `slipway apply -f` takes: one document, or a list of documents.',
    if: { type: 'array' },
    // biome-ignore lint/suspicious/noThenProperty: It is a keyword of JSON Schema.
    then: { items: { $ref: '#/definitions/Document' } },
    else: { $ref: '#/definitions/Document' },
    definitions: {
      Document: {
        type: 'object',
        required: ['kind', 'name', 'spec'],
        properties: { kind: { enum: Object.keys(KINDS) } },
        allOf: Object.keys(KINDS).map(kind => ({
          if: { properties: { kind: { const: kind } }, required: ['kind'] },
          // biome-ignore lint/suspicious/noThenProperty: It is a keyword of JSON Schema.
          then: { $ref: `#/definitions/${kind}Document` },
        })),
      },
      ...Object.fromEntries(Object.entries(properties).map(([kind, schema]) => [`${kind}Document`, schema])),
      ...definitions,
    },
  }
}

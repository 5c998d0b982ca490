// The document says what refinements demand: a body that a schema refuses, its JSON Schema refuses too.
import { Validator } from '@cfworker/json-schema'
import { describe, expect, it } from 'vitest'
import * as z from 'zod'
import * as models from '../../src/connect/models/schema.ts'
import { NewBudget } from '../../src/connect/models/usage.schema.ts'
import { McpServer, NewProvider } from '../../src/connect/oauth/schema.ts'
import { NewIntegration } from '../../src/hosting/git-hosts/schema.ts'
import { AccessQuestion } from '../../src/people/access/policies.schema.ts'
import { NewMembership, NewRole } from '../../src/people/access/schema.ts'
import { Report } from '../../src/protocol/report.schema.ts'
import { commaSeparated, formatCursor, Instant, Page, Uuid } from '../../src/protocol/wire.ts'
import { NewFeedbackBody } from '../../src/tracing/feedback/feedback.schema.ts'
import { DeletedRuns, NewItems } from '../../src/tracing/queues/items.schema.ts'
import { NewRule } from '../../src/tracing/rules/schema.ts'
import { RunQueryV2 } from '../../src/tracing/runs/runs-v2.schema.ts'
import { TraceTime } from '../../src/tracing/runs/time.schema.ts'
import { TraceDeletion } from '../../src/tracing/shares/shares.schema.ts'

const ID = '5d41402a-bc4b-4a76-b971-9d911017c592'
const SECRET = 'a-long-random-secret'
const model = { name: 'gpt', provider: 'openai', model: 'small' }
const oauth = { auth_type: 'oauth_client_credentials', secret: 's', token_url: 'https://a.example', client_id: 'c' }
const provider = {
  provider_id: 'a',
  name: 'A',
  client_id: 'c',
  auth_url: 'https://a.example',
  token_url: 'https://a.example',
}
const server = { provider_id: 'a', name: 'A', mcp_server_url: 'https://a.example/mcp' }
const report = { deployment_id: ID, generation: 1 }
const rule = { display_name: 'Rule', sampling_rate: 1 }

const CASES: Record<string, [schema: z.ZodType, accepted: object[], refused: object[]]> = {
  'a model configuration': [
    models.NewConfiguration,
    [
      { ...model, secret: 's' },
      { ...model, auth_type: 'jwt' },
      { ...model, ...oauth },
    ],
    [
      model,
      { ...model, auth_type: 'jwt', secret: 's' },
      { ...model, secret: 's', audience: 'a' },
      { ...model, ...oauth, client_id: null },
      { ...model, auth_type: 'none', provider: 'openai_compatible' },
    ],
  ],
  'a patch of a model configuration': [
    models.ConfigurationPatch,
    [{}, { auth_type: null, secret: null }, oauth],
    [{ secret: 's' }, { scope: 's' }, { auth_type: 'secret' }],
  ],
  'settings of the model proxy': [
    models.ProxySettingsPatch,
    [{ allowed_urls: { mode: 'list', patterns: ['https://a.example/*'] } }, { allowed_urls: { mode: 'none' } }],
    [{ allowed_urls: { mode: 'list' } }, { allowed_urls: { mode: 'list', patterns: [] } }],
  ],
  'a budget': [NewBudget, [{ period: 'day', limit_calls: 1 }], [{ period: 'day' }, { period: 'day', limit_usd: null }]],
  'a provider': [
    NewProvider,
    [provider, { ...provider, client_secret: 's', token_endpoint_auth_method: 'client_secret_post' }],
    [
      { ...provider, token_endpoint_auth_method: 'client_secret_post' },
      { ...provider, client_secret: 's', token_endpoint_auth_method: 'none' },
      { ...provider, auth_url: 'https://a.example/#x' },
    ],
  ],
  'an MCP server': [
    McpServer,
    [server, { ...server, client_id: 'c', client_secret: 's' }],
    [
      { ...server, client_secret: 's' },
      { ...server, registration: 'given' },
      { ...server, client_id: 'c', registration: 'dynamic' },
    ],
  ],
  'an integration': [
    NewIntegration,
    [{ host: 'gitea', base_url: 'https://git.example', token: 't', webhook_secret: SECRET }],
    [
      { host: 'gitea', token: 't', webhook_secret: SECRET },
      { host: 'gitea', base_url: 'https://git.example', token: 't', app_id: 1, webhook_secret: SECRET },
      { host: 'github', webhook_secret: SECRET },
    ],
  ],
  'a question of access': [
    AccessQuestion,
    [{ role_id: ID, permission: 'deployments:update', resource_type: 'deployment', resource_id: ID }],
    [{ role_id: ID, permission: 'deployments:update', resource_type: 'project', resource_id: ID }],
  ],
  'a member of a workspace': [NewMembership, [{ email: 'ada@example.com' }, { member_id: ID }], [{}, { email: null }]],
  'a role': [
    NewRole,
    [
      { display_name: 'A', permissions: ['deployments:read'] },
      { display_name: 'A', scope: 'organization', permissions: ['organization:manage'] },
    ],
    [
      { display_name: 'A', permissions: ['organization:manage'] },
      { display_name: '\u00ad', permissions: [] },
    ],
  ],
  'a report': [
    Report,
    [{ ...report, state: 'deployed', revision_id: ID, healthy: true }],
    [
      { ...report, state: 'deployed', revision_id: ID },
      { ...report, state: 'deployed', healthy: true },
      { ...report, state: 'failed', revision_id: ID, message: ' ' },
    ],
  ],
  feedback: [
    NewFeedbackBody,
    [
      { key: 'k', run_id: ID },
      { key: 'k', session_id: ID },
    ],
    [
      { key: 'k' },
      { key: 'k', run_id: ID, feedback_config: { type: 'categorical' } },
      { key: 'k', run_id: ID, feedback_config: { type: 'categorical', categories: [] } },
    ],
  ],
  'runs taken from a queue': [DeletedRuns, [{ delete_all: true }, { run_ids: [ID] }], [{}, { delete_all: false }]],
  'items of a queue': [
    NewItems,
    [{ items: [{ run_id: ID }, { item_type: 'THREAD', thread_id: 't', project_id: ID }] }],
    [{ items: [{}] }, { items: [{ item_type: 'THREAD', thread_id: 't' }] }],
  ],
  'a rule': [
    NewRule,
    [
      { ...rule, session_id: ID },
      { ...rule, dataset_id: ID, session_id: null },
    ],
    [rule, { ...rule, session_id: ID, dataset_id: ID }],
  ],
  'a query of runs': [
    RunQueryV2,
    [{ project_ids: [ID] }, { reference_dataset_id: ID }],
    [{}, { project_ids: [ID], reference_dataset_id: ID }],
  ],
  'a deletion of traces': [
    TraceDeletion,
    [
      { session_id: ID, trace_ids: [ID] },
      { session_id: ID, metadata: { a: 'b' } },
    ],
    [{ session_id: ID }, { session_id: ID, metadata: {} }, { session_id: ID, trace_ids: [ID], metadata: { a: 'b' } }],
  ],
}

const describeInput = (schema: z.ZodType) => z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })

describe.each(Object.entries(CASES))('%s', (_, [schema, accepted, refused]) => {
  const validator = new Validator(describeInput(schema) as never, '2020-12')
  const judge = (body: object) => [schema.safeParse(body).success, validator.validate(body).valid]
  it('is accepted by both', () => {
    for (const body of accepted) expect(judge(body), JSON.stringify(body)).toEqual([true, true])
  })
  it('is refused by both', () => {
    for (const body of refused) expect(judge(body), JSON.stringify(body)).toEqual([false, false])
  })
})

describe('a pattern', () => {
  const patternOf = (schema: z.ZodType) =>
    new RegExp((z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any' }) as { pattern: string }).pattern)
  const cursor = formatCursor({ at: '2026-11-29 13:45:23.12+00', id: ID })
  const TEXTS: [what: string, z.ZodType, accepted: string[], refused: string[]][] = [
    [
      'of an instant',
      Instant,
      ['1970-01-01T00:00:00Z', '9999-12-31T23:59:59.999Z', '2028-02-29T00:00:00+05:30'],
      ['1969-12-31T00:00:00Z', '2027-02-29T00:00:00Z', '2026-11-29'],
    ],
    ['of a list of choices', commaSeparated(z.enum(['a', 'b']), 2), ['a', 'b,a'], ['c', 'a,b,a', 'a,']],
    ['of a list of ids', commaSeparated(Uuid, 100), [ID, `${ID},${ID}`], ['x', `${ID},`]],
    ['of a cursor', Page.shape.cursor, [cursor], ['x', `${cursor}x`]],
  ]
  it.each(TEXTS)('%s matches what is accepted', (_, schema, accepted, refused) => {
    for (const text of accepted)
      expect([text, patternOf(schema).test(text), schema.safeParse(text).success]).toEqual([text, true, true])
    for (const text of refused)
      expect([text, patternOf(schema).test(text), schema.safeParse(text).success]).toEqual([text, false, false])
  })

  it('matches the times of a trace that are accepted', () => {
    const [{ pattern }] = describeInput(TraceTime).anyOf as [{ pattern: string }]
    for (const text of ['2026-11-22', '2026-11-22T12:00', '2026-11-22 12:00:00,5', '2026-11-22T12:00:00.123456Z'])
      expect([text, new RegExp(pattern).test(text), TraceTime.safeParse(text).success]).toEqual([text, true, true])
    for (const text of ['1969-01-01', '2026-02-30', 'now'])
      expect([text, new RegExp(pattern).test(text), TraceTime.safeParse(text).success]).toEqual([text, false, false])
  })

  it('a cursor keeps microseconds', () => {
    expect(Page.parse({ cursor }).cursor).toEqual({ at: '2026-11-29T13:45:23.120000Z', id: ID })
  })
})

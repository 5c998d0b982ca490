// The wire format of the audit log: OCSF API Activity.
import * as z from 'zod'
import { boundedText, Instant, optionalFilter, parseBoolean, parseWholeNumber, Uuid } from '../../protocol/wire.ts'

const MAX_OPERATIONS = 50
const MAX_NAME = 64

/** The place of the last item of a page: its time, its journal (or the zero UUID for an attempt) and its number. */
export type AuditCursor = { at: string; scope: string; number: number }

const CursorJson = z.tuple([z.string(), Uuid, z.int().min(0)])
const CURSOR_TIME = /^(\d{4}-\d\d-\d\d) ([\d:]{8}(?:\.\d{1,6})?[+-]\d\d)(:\d\d)?$/

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const Cursor = boundedText(200).transform((text, check): AuditCursor => {
  const parsed = CursorJson.safeParse(parseJson(Buffer.from(text, 'base64url').toString()))
  const [at = '', scope = '', number = 0] = parsed.data ?? []
  const [, day, time, minutes = ':00'] = CURSOR_TIME.exec(at) ?? []
  if (day && Instant.safeParse(`${day}T${time}${minutes}`).success) return { at, scope, number }
  check.addIssue({ code: 'custom', message: 'is not a `cursor` of an earlier answer' })
  return z.NEVER
})

export const encodeCursor = ({ at, scope, number }: AuditCursor): string =>
  Buffer.from(JSON.stringify([at, scope, number])).toString('base64url')

const EXAMPLE = { start_time: '2026-01-01T00:00:00Z', end_time: '2027-01-01T00:00:00Z' }

/** The filters of a window of time. `names` are the operations that exist. */
const filters = (names: readonly string[]) => ({
  start_time: Instant.meta({ description: 'The beginning of the window, inclusive.' }),
  end_time: Instant.meta({ description: 'The end of the window, inclusive to the millisecond.' }),
  workspace_id: Uuid.optional().meta({ description: 'Without it, all workspaces and the organization itself.' }),
  actor_id: Uuid.optional().meta({ description: 'The API key, member or listener that acted.' }),
  subject_id: Uuid.optional().meta({ description: 'A resource that was changed.' }),
  succeeded: optionalFilter(z.preprocess(parseBoolean, z.boolean())).meta({
    description: 'True: what was done. False: what was refused.',
  }),
  operations: boundedText(MAX_OPERATIONS * (MAX_NAME + 1))
    .transform((joined, check): string[] => {
      const operations = joined.split(',').filter(Boolean)
      for (const [i, name] of operations.entries())
        if (!names.includes(name))
          check.addIssue({
            code: 'custom',
            path: [i],
            message: 'is not an operation that GET /v1/audit-logs/operations lists',
          })
      return operations.slice(0, MAX_OPERATIONS)
    })
    .optional()
    .meta({
      type: 'string',
      description:
        'Names of operations. Repeat the parameter, or separate them by commas. ' +
        'GET /v1/audit-logs/operations lists them.',
    }),
})

export const auditQuery = (names: readonly string[]) =>
  z
    .object({
      ...filters(names),
      limit: z.preprocess(parseWholeNumber, z.int().min(1).max(100).default(10)),
      cursor: Cursor.optional().meta({ type: 'string', description: 'The `cursor` of the previous answer.' }),
    })
    .meta({ example: EXAMPLE })
export type AuditQuery = z.output<ReturnType<typeof auditQuery>>
export type AuditFilter = Omit<AuditQuery, 'limit' | 'cursor'>

export const exportQuery = (names: readonly string[]) =>
  z
    .object({
      ...filters(names),
      format: z.enum(['ndjson', 'csv', 'ocsf']).default('ndjson').meta({
        description:
          'Lines of JSON with the members that changed, a table for people, or lines of OCSF API Activity in JSON.',
      }),
    })
    .meta({ example: EXAMPLE })
export type ExportQuery = z.output<ReturnType<typeof exportQuery>>

const Text = z.string()

const AuditEvent = z.strictObject({
  number: z.int().meta({ description: 'The place of the event in its journal.' }),
  type: Text,
  subject_id: Uuid,
  data: z.looseObject({}).meta({ description: 'Details that depend on `type`.' }),
  changes: z
    .array(z.strictObject({ path: Text, before: z.unknown(), after: z.unknown() }))
    .nullable()
    .meta({ description: 'The members that changed. Null for events from before this was recorded.' }),
})
export type AuditEvent = z.output<typeof AuditEvent>

const OriginalAuditLog = z.strictObject({
  id: Text,
  operation_name: Text,
  operation_succeeded: z.boolean(),
  request_time: Instant,
  api_key_id: Uuid.nullable(),
  user_id: Uuid.nullable(),
  ls_user_id: Uuid.nullable(),
  organization_id: Uuid,
  workspace_id: Uuid.nullable(),
  enrichments: z.strictObject({
    request_method: Text,
    request_path: Text,
    client_host: Text.nullable(),
    client_port: z.int().nullable(),
    x_forwarded_for: Text.nullable(),
    response_status_code: z.int(),
    resource_ids: z.array(Text),
  }),
})

export const ApiActivity = z
  .strictObject({
    class_uid: z.literal(6003),
    class_name: z.literal('API Activity'),
    category_uid: z.literal(6),
    category_name: z.literal('Application Activity'),
    severity_id: z.literal(99),
    type_uid: z.int().meta({ description: '`class_uid` × 100 + `activity_id`.' }),
    activity_id: z.literal([1, 2, 3, 4, 99]),
    activity_name: z.enum(['Create', 'Read', 'Update', 'Delete', 'Other']),
    status_id: z.literal([1, 2]),
    status: z.enum(['Success', 'Failure']),
    time: z.int().meta({ description: 'Milliseconds since 1970.' }),
    metadata: z.strictObject({ uid: Text, product: z.strictObject({ name: Text, vendor_name: Text }) }),
    api: z.strictObject({ operation: Text }),
    http_request: z
      .strictObject({ http_method: Text, url: z.strictObject({ path: Text }) })
      .meta({ description: 'Empty strings if no request to the API is the cause, such as for the schedule.' }),
    http_response: z.strictObject({ code: z.int() }).meta({ description: '0 where there is none.' }),
    actor: z.strictObject({
      user: z.strictObject({
        uid: Text.meta({ description: 'The id of the key, member or listener, or the kind of actor, such as `cron`.' }),
        credential_uid: Text.meta({ description: 'The id of the API key, or an empty text.' }),
      }),
    }),
    src_endpoint: z.strictObject({ ip: Text, port: z.int(), intermediate_ips: z.array(Text) }),
    resources: z.array(z.strictObject({ uid: Text })),
    unmapped: z.strictObject({
      original_audit_log: OriginalAuditLog,
      request_id: Text,
      actor_kind: Text,
      actor_name: Text.nullable(),
      user_agent: Text.nullable(),
      error_code: Text.nullable().meta({
        description: 'The `code` of the problem that the request was answered with.',
      }),
      attempts_left_out: z.int().meta({
        description: 'Further refused requests of the same key within the minute that were not recorded.',
      }),
      events: z
        .array(AuditEvent)
        .meta({ description: 'What the write changed. Empty for a refused request or a read.' }),
    }),
  })
  .meta({ id: 'AuditLogItem', description: 'One write, refused request or audited read, as OCSF 1.7.0 API Activity.' })
export type ApiActivity = z.output<typeof ApiActivity>

export const AuditPage = z
  .object({
    cursor: z.string().nullable().meta({ description: 'Of the next page. Null on the last one.' }),
    items: z.array(ApiActivity),
  })
  .meta({ id: 'AuditLogPage' })

export const OperationNames = z.object({ operations: z.array(z.string()) }).meta({ id: 'AuditLogOperations' })

// Rows of the audit log, as OCSF API Activity.

import { toIsoTime } from '../../kernel/db/rows.ts'
import type { RequestRecord } from '../../kernel/http/context.ts'
import { nameEventOperation } from './operation-names.ts'
import type { ApiActivity, AuditEvent } from './schema.ts'

/** One write of the journal, or one attempt. */
export type AuditRow = {
  created_at: string
  scope_id: string
  number: number
  organization_id: string
  tenant_id: string | null
  /** Null for an attempt, which has `operation` and `status` in its place. */
  type: string | null
  operation: string | null
  status: number | null
  code: string | null
  left_out: number
  actor_kind: string
  actor_id: string | null
  actor_name: string | null
  request_id: string
  request: RequestRecord | null
  events: AuditEvent[]
}

const ACTIVITIES = [
  [1, 'Create', /^(create|add|invite|connect)_/],
  [2, 'Read', /^(read|list|query|export)_/],
  [3, 'Update', /^(update|check|redeploy|rollback|activate|release|resume|suspend|approve|push)_/],
  [4, 'Delete', /^(delete|remove|revoke|end|close)_/],
] as const
const OTHER = [99, 'Other'] as const

export const describeActivity = (operation: string) => ACTIVITIES.find(([, , names]) => names.test(operation)) ?? OTHER

export const operationOf = ({ type, operation }: AuditRow): string =>
  type === null ? operation! : nameEventOperation(type)
export const itemId = ({ type, scope_id, number }: AuditRow): string =>
  type === null ? `att_${number}` : `evt_${scope_id}_${number}`
/** The journal does not keep the status of an answer: a write that is in it succeeded. */
export const statusOf = ({ status, request }: AuditRow): number => status ?? request?.status ?? (request ? 200 : 0)
export const hasSucceeded = ({ status }: AuditRow): boolean => (status ?? 200) < 400

const PRODUCT = { name: 'Slipway', vendor_name: 'Slipway' }

export function toApiActivity(row: AuditRow): ApiActivity {
  const { request, actor_kind, actor_id, events } = row
  const operation = operationOf(row)
  const [activity_id, activity_name] = describeActivity(operation)
  const succeeded = hasSucceeded(row)
  const code = statusOf(row)
  const time = toIsoTime(row.created_at)
  const subjects = [...new Set(events.map(event => event.subject_id))]
  const keyId = actor_kind === 'key' ? actor_id : null
  const [method, path] = [request?.method ?? '', request?.path ?? '']
  return {
    class_uid: 6003,
    class_name: 'API Activity',
    category_uid: 6,
    category_name: 'Application Activity',
    severity_id: 99,
    type_uid: 600_300 + activity_id,
    activity_id,
    activity_name,
    status_id: succeeded ? 1 : 2,
    status: succeeded ? 'Success' : 'Failure',
    time: Date.parse(time),
    metadata: { uid: itemId(row), product: PRODUCT },
    api: { operation },
    http_request: { http_method: method, url: { path } },
    http_response: { code },
    actor: { user: { uid: actor_id ?? actor_kind, credential_uid: keyId ?? '' } },
    src_endpoint: { ip: request?.client_address ?? '', port: 0, intermediate_ips: [] },
    resources: subjects.map(uid => ({ uid })),
    unmapped: {
      original_audit_log: {
        id: itemId(row),
        operation_name: operation,
        operation_succeeded: succeeded,
        request_time: time,
        api_key_id: keyId,
        user_id: actor_kind === 'session' ? actor_id : null,
        ls_user_id: null,
        organization_id: row.organization_id,
        workspace_id: row.tenant_id,
        enrichments: {
          request_method: method,
          request_path: path,
          client_host: request?.client_address ?? null,
          client_port: null,
          x_forwarded_for: null,
          response_status_code: code,
          resource_ids: subjects,
        },
      },
      request_id: row.request_id,
      actor_kind,
      actor_name: row.actor_name,
      user_agent: request?.user_agent ?? null,
      error_code: row.code,
      attempts_left_out: row.left_out,
      events,
    },
  }
}

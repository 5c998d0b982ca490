// OCSF Entity Management (3004): changes of keys, members and roles, for tools that watch identities.
import { type AuditRow, describeActivity, toApiActivity } from './items.ts'
import { nameEventOperation } from './operation-names.ts'

const ENTITY = /^(api_key|member|workspace_member|role)\./

/** One for each key, member or role that the write changed. */
export function toEntityManagement(row: AuditRow): object[] {
  const changed = row.events.filter(({ type }) => ENTITY.test(type))
  if (changed.length === 0) return []
  const { metadata, ...activity } = toApiActivity(row)
  const { time, status, status_id, severity_id, actor, src_endpoint, http_request, http_response } = activity
  return changed.map(({ number, type, subject_id, changes }) => {
    const [activity_id, activity_name] = describeActivity(nameEventOperation(type))
    return {
      class_uid: 3004,
      class_name: 'Entity Management',
      category_uid: 3,
      category_name: 'Identity & Access Management',
      type_uid: 300_400 + activity_id,
      activity_id,
      activity_name,
      time,
      status,
      status_id,
      severity_id,
      actor,
      src_endpoint,
      http_request,
      http_response,
      metadata: { ...metadata, uid: `${metadata.uid}_${number}`, correlation_uid: metadata.uid },
      entity: { uid: subject_id, type: type.split('.')[0] },
      unmapped: { changes, request_id: row.request_id },
    }
  })
}

// Plans the request log that a document of a deployment declares. Left out, it stays.
import { DEFAULT_REQUEST_LOGS } from '../../protocol/defaults.ts'
import type { Reply } from '../client.ts'
import type { DeclaredDocument } from './documents.ts'
import { isSame } from './planner.ts'
import type { SettingsPlan } from './traffic-plan.ts'

type RequestLogs = Reply<'GET /v2/deployments/{deployment_id}'>['request_logs']

/** `stored`: as it is, or undefined for a deployment that is still to be created. */
export function planRequestLogs(document: DeclaredDocument, stored: RequestLogs = DEFAULT_REQUEST_LOGS): SettingsPlan {
  const wanted = document.request_logs && ({ ...DEFAULT_REQUEST_LOGS, ...document.request_logs } as RequestLogs)
  if (wanted === undefined || isSame(wanted, stored)) return { changes: [], run: async (_, __, version) => version }
  return {
    changes: [{ path: 'request_logs', before: stored, after: wanted }],
    async run(client, deployment_id, version) {
      const headers = version === undefined ? {} : { 'If-Match': version }
      const call = { params: { deployment_id }, body: wanted, headers }
      return (await client.answer('PUT /v2/deployments/{deployment_id}/request-logs', call)).etag
    },
  }
}

// Routes of the audit log.
import { type Operation, slice } from '../../kernel/http/routes.ts'
import { exportAuditLogs } from './export.ts'
import { listOperationNames } from './operation-names.ts'
import { createOperationList, listAuditLogs } from './pages.ts'
import { AuditPage, auditQuery, exportQuery, OperationNames } from './schema.ts'

/** `operations` are those of all other slices: their refused requests are in the audit log. */
export function auditRoutes(operations: Operation[]) {
  const names: string[] = []
  const routes = slice(
    'Audit log',
    'Who changed what, from where, and which requests were refused. For the organization and all its workspaces.',
  )
    .get('/v1/audit-logs', {
      id: 'listAuditLogs',
      toleratesUnknown: true,
      summary: 'List writes, refused requests and reads of the audit log, newest first',
      description:
        'Of the organization and all its workspaces. Send `cursor` of an answer to go on. A request that reads the ' +
        'audit log is in it, too.',
      query: auditQuery(names),
      repeatable: ['operations'],
      reply: AuditPage,
      isAudited: true,
      errors: ['audit_logs_off'],
      verb: listAuditLogs,
    })
    .get('/v1/audit-logs/operations', {
      id: 'listAuditOperations',
      summary: 'List the names of operations in the audit log',
      description:
        'The values that `operations` of the other requests takes. They do not change with what was recorded.',
      reply: OperationNames,
      errors: ['audit_logs_off'],
      verb: createOperationList(names),
    })
    .get('/v1/audit-logs/export', {
      id: 'exportAuditLogs',
      summary: 'Download a part of the audit log, oldest first',
      description:
        'A stream of the whole window, up to the time of the request. It is incomplete if the connection ends early.',
      query: exportQuery(names),
      repeatable: ['operations'],
      streamMediaType: ['application/x-ndjson', 'text/csv'],
      isAudited: true,
      errors: ['audit_logs_off'],
      verb: exportAuditLogs,
    })
  names.push(...listOperationNames([...operations, ...routes.operations]))
  return routes
}

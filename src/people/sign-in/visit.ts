// Describes a request without a credential that leads to a session or key, for the journal.
import { describeRequest } from '../../kernel/http/caller.ts'
import type { OpenOperation, Services } from '../../kernel/http/routes.ts'

export type Visit = { requestId: string; request: string }
export type Visitor = Parameters<OpenOperation['open']>[0]

export const visitOf = (c: Visitor, { platform }: Services, operation: OpenOperation): Visit => ({
  requestId: c.get('requestId'),
  request: describeRequest(c, operation, platform.clientAddress(c)),
})

// Describes a request without a credential that leads to a session or key, for the journal.
import { describeRequest } from '../../kernel/http/caller.ts'
import type { Operation, Services } from '../../kernel/http/routes.ts'

export type Visit = { requestId: string; request: string }
export type Visitor = Parameters<NonNullable<Operation['open']>>[0]

export const visitOf = (c: Visitor, { platform }: Services, operation: Operation): Visit => ({
  requestId: c.get('requestId'),
  request: describeRequest(c, operation, platform.clientAddress(c)),
})

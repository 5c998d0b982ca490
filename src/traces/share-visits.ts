// What a request to a link knows of its visitor, who has no key.
import { requestOrigin } from '../kernel/origin.ts'
import type { Operation, Services } from '../kernel/routes.ts'
import type { Visit } from './shares.ts'

type RequestContext = Parameters<NonNullable<Operation['open']>>[0]

export const visitOf = (c: RequestContext, services: Services, share_token: string): Visit => ({
  ...{ services, share_token, requestId: c.get('requestId') },
  origin: requestOrigin(services.config, c.req.url),
})

export const JSON_HEADERS = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' }

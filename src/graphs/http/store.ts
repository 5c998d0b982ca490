// Routes of the store.
import * as z from 'zod'
import type { Server } from '../server.ts'
import { runStoreOperation } from '../store.ts'
import type { StoreOperation } from '../store-operations.ts'
import { faultOfPath } from '../text-paths.ts'
import { noContent, type Route, route } from './route.ts'
import { flag, object, page } from './schemas.ts'

const group = 'store'
const label = z
  .string()
  .min(1)
  .refine(text => !text.includes('.'), 'must not contain a period')
const namespace = z.array(label).min(1).max(100)
const prefix = z.array(label).max(100)
const key = z.string().min(1)
const path = z.string().refine(text => faultOfPath(text) === null, 'must be a path, such as "$" or "parts[*].text"')
const run = (server: Server, operation: StoreOperation) => runStoreOperation(server, operation)

export const storeRoutes: Route[] = [
  route({
    method: 'put',
    path: '/store/items',
    access: 'store:put',
    group,
    summary: 'Write an item',
    body: z.looseObject({
      namespace,
      key,
      value: object,
      ttl: z.number().positive().nullish().describe('Minutes.'),
      index: z.union([z.literal(false), z.array(path).max(20)]).nullish(),
    }),
    async handle({ server, body }) {
      server.usage.admitBytes()
      const { namespace, key, value, ttl, index } = body
      await run(server, { op: 'put', namespace, key, value, ttl, index })
      return noContent()
    },
  }),
  route({
    method: 'get',
    path: '/store/items',
    access: 'store:get',
    group,
    summary: 'Get an item, or null',
    query: z.looseObject({
      namespace: z
        .union([z.string(), z.array(z.string())])
        .optional()
        .transform(given => (Array.isArray(given) ? given : (given?.split('.') ?? []))),
      key,
      refresh_ttl: flag,
    }),
    handle: ({ server, query: { namespace, key, refresh_ttl } }) =>
      run(server, { op: 'get', namespace, key, refresh_ttl }),
  }),
  route({
    method: 'delete',
    path: '/store/items',
    access: 'store:delete',
    group,
    summary: 'Delete an item',
    body: z.looseObject({ namespace, key }),
    async handle({ server, body }) {
      await run(server, { op: 'put', namespace: body.namespace, key: body.key, value: null })
      return noContent()
    },
  }),
  route({
    method: 'post',
    path: '/store/items/search',
    access: 'store:search',
    group,
    summary: 'Search items by namespace and value',
    body: z.looseObject({
      namespace_prefix: prefix.nullish(),
      filter: object.nullish(),
      query: z.string().max(100_000).nullish(),
      refresh_ttl: z.boolean().nullish(),
      ...page,
    }),
    async handle({ server, body }) {
      const { namespace_prefix, filter, query, refresh_ttl, limit, offset } = body
      const prefix = namespace_prefix ?? []
      return { items: await run(server, { op: 'search', prefix, filter, query, refresh_ttl, limit, offset }) }
    },
  }),
  route({
    method: 'post',
    path: '/store/namespaces',
    access: 'store:list_namespaces',
    group,
    summary: 'List namespaces',
    body: z.looseObject({
      prefix: prefix.nullish(),
      suffix: prefix.nullish(),
      max_depth: z.number().int().min(1).max(100).nullish(),
      limit: z.number().int().min(1).max(1000).nullish(),
      offset: page.offset,
    }),
    async handle({ server, body }) {
      const { prefix, suffix, max_depth, offset } = body
      const limit = body.limit ?? 100
      return { namespaces: await run(server, { op: 'namespaces', prefix, suffix, max_depth, limit, offset }) }
    },
  }),
]

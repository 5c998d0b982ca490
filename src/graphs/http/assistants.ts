// Routes of assistants.
import * as z from 'zod'
import {
  ASSISTANTS,
  createAssistant,
  deleteAssistant,
  getAssistant,
  listVersions,
  patchAssistant,
  setLatestVersion,
} from '../assistants.ts'
import { HttpError } from '../errors.ts'
import { resolveAssistantId } from '../runs.ts'
import { count, search } from '../search.ts'
import { executorOf, type Server } from '../server.ts'
import { uuid7 } from '../values.ts'
import { admit } from './access.ts'
import { JsonText, noContent, type Route, route } from './route.ts'
import { assistantParams, config, flag, object, page, pageOf, selectMembers, sorted } from './schemas.ts'

const filter = { metadata: object.nullish(), graph_id: z.string().nullish(), name: z.string().nullish() }
const sorting = sorted('created_at', 'updated_at', 'assistant_id', 'graph_id', 'name')
const group = 'assistants'

/** The answer of a graph's executor on an assistant: JSON. */
async function askAbout(server: Server, given: string, question: string, details: object = {}): Promise<JsonText> {
  const assistant = await getAssistant(server.db.query, resolveAssistantId(given))
  const { graph_id, config } = assistant
  return new JsonText(await executorOf(server, graph_id).ask(question, { graph_id, config, ...details }))
}
const xray = z
  .string()
  .transform(text => (/^\d{1,3}$/.test(text) ? Number(text) : text.toLowerCase() === 'true'))
  .optional()
const recurse = z.object({ recurse: flag })

export const assistantRoutes: Route[] = [
  route({
    method: 'post',
    path: '/assistants',
    access: 'assistants:create',
    group,
    summary: 'Create an assistant',
    body: z.looseObject({
      graph_id: z.string(),
      assistant_id: z.uuid().nullish(),
      name: z.string().nullish(),
      description: z.string().nullish(),
      config: config.nullish(),
      context: z.unknown().optional(),
      metadata: object.nullish(),
      if_exists: z.enum(['raise', 'do_nothing']).nullish(),
    }),
    async handle({ server, body }) {
      server.usage.admitBytes()
      executorOf(server, body.graph_id)
      const id = body.assistant_id ?? uuid7()
      const created = await createAssistant(server.db, id, {
        graph_id: body.graph_id,
        name: body.name ?? 'Untitled',
        description: body.description ?? null,
        config: body.config ?? {},
        context: body.context ?? {},
        metadata: body.metadata ?? {},
      })
      if (created) return created
      if (body.if_exists === 'do_nothing') return getAssistant(server.db.query, id)
      throw new HttpError(409, `Assistant ${id} already exists. Use another assistant_id, or if_exists "do_nothing".`)
    },
  }),
  route({
    method: 'post',
    path: '/assistants/search',
    access: 'assistants:search',
    group,
    summary: 'Search assistants',
    body: z.looseObject({ ...filter, ...page, ...sorting }),
    async handle({ server, body, filters }) {
      const rows = await search(server.db.query, ASSISTANTS, body, body, filters)
      return pageOf(selectMembers(rows, body.select), body)
    },
  }),
  route({
    method: 'post',
    path: '/assistants/count',
    access: 'assistants:search',
    group,
    summary: 'Count assistants',
    body: z.looseObject(filter),
    handle: ({ server, body, filters }) => count(server.db.query, ASSISTANTS, body, filters),
  }),
  route({
    method: 'get',
    path: '/assistants/{assistant_id}',
    access: 'assistants:read',
    group,
    summary: 'Get an assistant',
    params: assistantParams,
    handle: ({ server, params }) => getAssistant(server.db.query, resolveAssistantId(params.assistant_id)),
  }),
  route({
    method: 'patch',
    path: '/assistants/{assistant_id}',
    access: 'assistants:update',
    group,
    summary: 'Change an assistant, as a new version',
    params: assistantParams,
    body: z.looseObject({
      graph_id: z.string().nullish(),
      name: z.string().nullish(),
      description: z.string().nullish(),
      config: config.nullish(),
      context: z.unknown().optional(),
      metadata: object.nullish(),
    }),
    handle({ server, params, body }) {
      if (body.graph_id) executorOf(server, body.graph_id)
      const given = Object.entries(body).filter(([, value]) => value !== null && value !== undefined)
      return patchAssistant(server, resolveAssistantId(params.assistant_id), Object.fromEntries(given))
    },
  }),
  route({
    method: 'delete',
    path: '/assistants/{assistant_id}',
    access: 'assistants:delete',
    group,
    summary: 'Delete an assistant',
    params: assistantParams,
    query: z.object({ delete_threads: flag }),
    async handle({ server, user, params, query }) {
      const id = resolveAssistantId(params.assistant_id)
      // Others may have run it, too.
      const threads = query.delete_threads ? await admit({ server, user }, 'threads:delete', {}) : null
      await deleteAssistant(server.db, id, threads)
      return noContent()
    },
  }),
  route({
    method: 'post',
    path: '/assistants/{assistant_id}/versions',
    access: 'assistants:read',
    group,
    summary: 'List the versions of an assistant',
    params: assistantParams,
    body: z.looseObject({ ...page, metadata: object.nullish() }),
    handle: ({ server, params, body }) => listVersions(server.db, resolveAssistantId(params.assistant_id), body),
  }),
  route({
    method: 'post',
    path: '/assistants/{assistant_id}/latest',
    access: 'assistants:update',
    group,
    summary: 'Make a version the latest',
    params: assistantParams,
    body: z.looseObject({ version: z.number().int().min(1).max(2_147_483_647) }),
    handle: ({ server, params, body }) =>
      setLatestVersion(server.db, resolveAssistantId(params.assistant_id), body.version),
  }),
  route({
    method: 'get',
    path: '/assistants/{assistant_id}/graph',
    access: 'assistants:read',
    group,
    summary: 'Get the nodes and edges of the graph',
    params: assistantParams,
    query: z.object({ xray }),
    handle: ({ server, params, query }) =>
      askAbout(server, params.assistant_id, 'graph', { xray: query.xray ?? false }),
  }),
  route({
    method: 'get',
    path: '/assistants/{assistant_id}/schemas',
    access: 'assistants:read',
    group,
    summary: 'Get the schemas of input, output, state and configuration',
    params: assistantParams,
    handle: ({ server, params }) => askAbout(server, params.assistant_id, 'schemas'),
  }),
  ...['', '/{namespace}'].map(suffix =>
    route({
      method: 'get',
      path: `/assistants/{assistant_id}/subgraphs${suffix}`,
      access: 'assistants:read',
      group,
      summary: 'Get the schemas of subgraphs',
      params: z.object({ assistant_id: z.string(), namespace: z.string().optional() }),
      query: recurse,
      handle: ({ server, params, query }) =>
        askAbout(server, params.assistant_id, 'subgraphs', {
          namespace: params.namespace ?? null,
          recurse: query.recurse ?? false,
        }),
    }),
  ),
]

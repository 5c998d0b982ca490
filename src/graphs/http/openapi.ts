// The OpenAPI document, and the page of it, from the declared routes.
import * as z from 'zod'
import type { Server } from '../server.ts'
import type { Route } from './route.ts'

type JsonSchema = { properties?: Record<string, JsonSchema>; required?: string[]; [member: string]: unknown }

const toSchema = (schema: z.ZodType): JsonSchema => {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  return rest as JsonSchema
}

function parametersOf(schema: z.ZodType | undefined, where: 'path' | 'query') {
  const { properties = {}, required = [] } = schema ? toSchema(schema) : {}
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: where,
    required: where === 'path' || required.includes(name),
    schema,
  }))
}

const operationIdOf = ({ method, path }: Route) =>
  [method, ...path.split('/').filter(Boolean)].join('_').replaceAll(/[{}.]/g, '')

const problem = { description: 'A sentence in `detail` says what is wrong.', content: jsonOf({ type: 'object' }) }
function jsonOf(schema: object) {
  return { 'application/json': { schema } }
}

export function makeDocument(routes: Route[], { version, configuration }: Server): object {
  const { securitySchemes, security, paths: secured } = configuration.auth?.openapi ?? {}
  const paths: Record<string, Record<string, object>> = {}
  for (const route of routes) {
    const methods = paths[route.path] ?? {}
    paths[route.path] = methods
    // A namespace is optional in the schema that two paths share.
    const isInPath = ({ name, in: where }: { name: string; in: string }) =>
      where !== 'path' || route.path.includes(`{${name}}`)
    const ownSecurity = secured?.[route.path]?.[route.method]
    methods[route.method] = {
      operationId: operationIdOf(route),
      ...(ownSecurity !== undefined && { security: ownSecurity }),
      tags: [route.group],
      summary: route.summary,
      parameters: [...parametersOf(route.params, 'path'), ...parametersOf(route.query, 'query')].filter(isInPath),
      ...(route.body && { requestBody: { required: true, content: jsonOf(toSchema(route.body)) } }),
      responses: {
        default: problem,
        200: { description: 'Success', content: { [route.produces ?? 'application/json']: {} } },
      },
    }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Graphs',
      version,
      description: 'Assistants, threads, runs, crons and the store of an application.',
    },
    components: {
      securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'X-Api-Key' }, ...(securitySchemes ?? {}) },
    },
    ...(security ? { security } : {}),
    paths,
  }
}

const escapeHtml = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

export function renderDocument(routes: Route[], { configuration, version }: Server): string {
  const rows = routes.map(
    ({ method, path, summary }) =>
      `<tr><td>${method.toUpperCase()}<td><code>${escapeHtml(path)}</code><td>${escapeHtml(summary)}`,
  )
  const graphs = configuration.graphs.map(({ id, description }) =>
    escapeHtml(description ? `${id}: ${description}` : id),
  )
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Graphs</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
  table { border-collapse: collapse; width: 100% }
  td { border-bottom: 1px solid #8884; padding: .3rem .6rem; vertical-align: top }
  @media (prefers-color-scheme: dark) { body { background: #111; color: #ddd } a { color: #8bf } }
</style>
<h1>Graphs ${escapeHtml(version)}</h1>
<p>Graphs: ${graphs.join(', ')}.
<p><a href="openapi.json">openapi.json</a> has the schemas of all requests.
<table>
${rows.join('\n')}
</table>
`
}

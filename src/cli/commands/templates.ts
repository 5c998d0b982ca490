// `slipway templates`: the templates that the agents of the installation have reported.
import type { Item } from '../../client/client.ts'
import type { Declaration } from '../declaration.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = { summary: 'list the templates that can be deployed' }

type Template = Item<'GET /v2/templates'>

export async function run({ client, out, signal }: Session): Promise<void> {
  const templates: Template[] = []
  for await (const template of client.list('GET /v2/templates', { query: { limit: 100 }, signal }))
    templates.push(template)
  const columns = { id: (one: Template) => one.name, description: (one: Template) => one.description }
  out.table(templates, columns, 'There are no templates.')
}

// Lists the templates that agents offer.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { run } from '../../kernel/db/db.ts'
import { verb } from '../../kernel/http/context.ts'
import type * as schema from './schema.ts'

type TemplateList = z.output<typeof schema.TemplateList>

export const listTemplates = verb(
  'deployments:read',
  async (ctx, { limit, offset }: z.output<typeof schema.TemplateQuery>): Promise<TemplateList> => {
    const query = sql<[template: string]>`
      select to_json(t)
      from (
        select name, description, is_on_platform as platform, listener_ids
        from offered_templates()
        order by name
        limit ${limit}
        offset ${offset}) t`
    const resources = (await run(ctx, query)).map(([template]) => JSON.parse(template))
    return { resources, offset: offset + resources.length }
  },
)

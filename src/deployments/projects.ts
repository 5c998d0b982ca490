// Tracing projects, each made with the deployment of its name and gone with it.
import { and, eq, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { verb } from '../kernel/context.ts'
import { db, mine, run } from '../kernel/db.ts'
import { beyond, bounds, listed, newestFirst } from '../kernel/paging.ts'
import { found, iso } from '../kernel/rows.ts'
import { projects } from '../tables.ts'
import type * as schema from './tags.schema.ts'

const toWire = (row: typeof projects.$inferSelect) => ({
  id: row.id,
  tenant_id: row.tenant_id,
  name: row.name,
  deployment_id: row.deployment_id,
  created_at: iso(row.created_at),
})

export const listProjects = verb('projects:read', async (ctx, query: z.output<typeof schema.ProjectQuery>) => {
  const { limit, offset } = bounds(query)
  const { name_contains = '' } = query
  const rows = db
    .select()
    .from(projects)
    .where(
      and(mine(projects), sql`strpos(lower(${projects.name}), lower(${name_contains})) > 0`, beyond(projects, query)),
    )
    .orderBy(...newestFirst(projects))
    .limit(limit)
    .offset(offset)
  return listed(await run(ctx, rows), query, toWire)
})

export const readProject = verb('projects:read', async (ctx, { session_id }: z.output<typeof schema.ProjectRef>) => {
  const rows = db
    .select()
    .from(projects)
    .where(and(eq(projects.id, session_id), mine(projects)))
  return toWire(found(await run(ctx, rows), 'project_not_found'))
})

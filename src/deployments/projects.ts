// Lists and reads tracing projects. Each is created and deleted with the deployment of its name.
import { and, eq, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { verb } from '../kernel/context.ts'
import { db, inTenant, run } from '../kernel/db.ts'
import { afterCursor, hasName, newestFirst, pageBounds, toListPage } from '../kernel/paging.ts'
import { requireRow, toIsoTime } from '../kernel/rows.ts'
import { projects } from '../tables/traces.ts'
import type * as schema from './tags.schema.ts'

const projectToWire = (row: typeof projects.$inferSelect) => ({
  id: row.id,
  tenant_id: row.tenant_id,
  name: row.name,
  deployment_id: row.deployment_id,
  created_at: toIsoTime(row.created_at),
})

export const listProjects = verb(
  'projects:read',
  async (ctx, query: z.output<typeof schema.ProjectQuery>) => {
    const { limit, offset } = pageBounds(query)
    const { name_contains = '' } = query
    const rows = db
      .select()
      .from(projects)
      .where(
        and(
          inTenant(projects),
          sql`strpos(lower(${projects.name}), lower(${name_contains})) > 0`,
          hasName(projects.name, query),
          afterCursor(projects, query),
        ),
      )
      .orderBy(...newestFirst(projects))
      .limit(limit)
      .offset(offset)
    return toListPage(await run(ctx, rows), query, projectToWire)
  },
  { byPolicy: true },
)

export const readProject = verb('projects:read', async (ctx, { session_id }: z.output<typeof schema.ProjectRef>) => {
  const rows = db
    .select()
    .from(projects)
    .where(and(eq(projects.id, session_id), inTenant(projects)))
  return projectToWire(requireRow(await run(ctx, rows), 'project_not_found'))
})

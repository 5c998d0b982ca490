// Answers a person's questions by a config: chooses the model that writes it, and checks that the caller may call it.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, createKeylessCaller, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { ProjectRef } from '../projects/projects.schema.ts'
import type * as schema from './configs.schema.ts'
import { findModel, isProject, MAY_START } from './job-insert.ts'

type Input = z.output<typeof ProjectRef> & schema.ConfigQuestion

export const writeConfig = verb('rules:create', async (ctx, input: Input) => {
  const { session_id, user_context } = input
  const configuration_id = await findConfiguration(ctx, input)
  const { generateConfig } = await import('./generate-config.ts')
  return generateConfig(actAsInsights(ctx, session_id), { session_id, user_context, configuration_id })
})

/** Checks the permissions of the caller in the first trip. */
async function findConfiguration(ctx: Ctx, { session_id, model, cluster_model }: Input): Promise<string> {
  const wanted = cluster_model ?? model ?? 'openai'
  const query = sql<Row>`
    select ${findModel(sql`${wanted}::text`)}
    from projects p
    cross join (select false as is_lexical) m
    where ${isProject(session_id)} and ${MAY_START}`
  const [id] = requireRow(await run(ctx, query), 'project_not_found')
  if (!id) throw fail('model_required', { about: wanted })
  return id as string
}

/** The calls are those of insights, and their runs belong to a project of their own. */
function actAsInsights(ctx: Ctx, session_id: string): Ctx {
  const { organization, tenant } = ctx.requestInfo
  const actor = { kind: 'cron' as const, id: session_id, organization: organization!, tenant: tenant! }
  return { ...createKeylessCaller(ctx, actor, ctx.requestId, ctx.origin), permission: null }
}

// Links that show the traces of a thread to anyone who has them.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, refuseUnless, run } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import type { ThreadRef } from '../threads/threads.schema.ts'
import type { ThreadPlace, ThreadShare } from '../threads/threads-v2.schema.ts'

type Thread = z.output<typeof ThreadRef> & z.output<typeof ThreadPlace>
type Share = z.output<typeof ThreadShare>

const isProject = (id: string): SQL => sql`p.tenant_id = current_tenant() and p.id = ${id}::uuid`
const isShareOf = ({ project_id, thread_id }: Thread): SQL =>
  sql`s.tenant_id = current_tenant() and s.session_id = ${project_id}::uuid and s.thread_id = ${thread_id}`
const aboutThread = ({ thread_id }: Thread): SQL => sql`json_build_object('thread_id', ${thread_id}::text)`

export const shareThread = verb(
  'runs:share',
  async (ctx, thread: Thread): Promise<Share> => {
    const { project_id, thread_id } = thread
    const hasTraces = await ctx.traces.findThread(ctx, project_id, thread_id)
    const added = sql`added as (
        insert into thread_shares (organization_id, tenant_id, session_id, thread_id)
        select current_organization(), current_tenant(), p.id, ${thread_id}
        from projects p
        where ${isProject(project_id)} and ${refuseUnless('thread_not_found', hasTraces)}
        on conflict do nothing
        returning session_id, share_token
      )`
    const change = sql<{ id: string; share_token: string; is_new: boolean }>`
        select session_id as id, share_token, true as is_new from added
        union all
        select s.session_id, s.share_token, false
        from thread_shares s
        join projects p on ${isProject(project_id)}
        where ${isShareOf(thread)} and not exists (select from added)`
    const event = sql`case when changed.is_new then 'project.thread_shared' end`
    // One request after the other: the second sees the link of the first.
    const lock = sql`select from projects p where ${isProject(project_id)} for no key update`
    const rows = await commit(ctx, event, change, aboutThread(thread), { ctesBefore: [added], lock })
    return { share_token: requireRow(rows, 'project_not_found').share_token }
  },
  { byPolicy: true },
)

export const readThreadShare = verb(
  'runs:share',
  async (ctx, thread: Thread): Promise<Share> => {
    const statement = sql<Row>`
      select s.share_token
      from projects p
      left join thread_shares s on ${isShareOf(thread)}
      where ${isProject(thread.project_id)}`
    const [share_token] = requireRow(await run(ctx, statement), 'project_not_found')
    return share_token === null ? {} : { share_token: share_token as string }
  },
  { byPolicy: true },
)

export const unshareThread = verb(
  'runs:share',
  async (ctx, thread: Thread): Promise<void> => {
    const deleted = sql`deleted as (
        delete from thread_shares s
        where ${isShareOf(thread)} and exists (select from projects p where ${isProject(thread.project_id)})
        returning s.session_id
      )`
    const change = sql`
        select p.id, exists (select from deleted) as was_shared
        from projects p
        where ${isProject(thread.project_id)}`
    const event = sql`case when changed.was_shared then 'project.thread_unshared' end`
    const rows = await commit(ctx, event, change, aboutThread(thread), { ctesBefore: [deleted] })
    requireRow(rows, 'project_not_found')
  },
  { byPolicy: true },
)

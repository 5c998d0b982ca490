// Receives from agents which snapshots they have. Not journaled: the jobs that take them are.
import { sql } from 'drizzle-orm'
import { type Row, run } from '../../kernel/db/db.ts'
import { verb } from '../../kernel/http/context.ts'
import { type HeldSnapshots, MAX_SNAPSHOTS, type SnapshotReceipt } from '../../protocol/snapshots.schema.ts'

export const receiveSnapshots = verb(
  'listeners:sync',
  async (ctx, { agent_id, fence, held, after, until }: HeldSnapshots): Promise<SnapshotReceipt> => {
    const statement = sql<Row>`
      select to_json(receive_snapshots(
        ${agent_id}, ${fence}, ${JSON.stringify(held)}::jsonb, ${after ?? null}::uuid, ${until ?? null}::uuid,
        ${MAX_SNAPSHOTS}
      ))`
    const [[forget]] = (await run(ctx, statement)) as [[string]]
    return { forget: JSON.parse(forget) as string[] }
  },
)

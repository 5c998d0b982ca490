// Downloads of a dataset: a stream that reads one page for each trip, as fast as the client takes it.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { run } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, credentialOf, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { StreamReply } from '../../kernel/http/routes.ts'
import type { DatasetRef } from './schema.ts'
import type { SplitQuery } from './versions.schema.ts'
import { timeOf } from './versions.ts'

const PAGE_ROWS = 200

/** The first two are about the dataset. The others are null once it has no further examples. */
type Row = [
  name: string,
  as_of: string | null,
  number: string | null,
  id: string,
  inputs: string,
  outputs: string | null,
  metadata: string,
]

/** Ends at the same version, however often examples change meanwhile. */
function selectPage(dataset_id: string, version: SQL, after: string): SQL<Row> {
  return sql`
    select d.name, ${version}, e.number, e.id, c.inputs, c.outputs, e.metadata::text
    from datasets d
    left join lateral (
      select *
      from examples e
      where e.tenant_id = d.tenant_id and e.dataset_id = d.id and e.number > ${after}::integer
        and e.since <= ${version} and (e.until is null or e.until > ${version})
      order by e.number
      limit ${PAGE_ROWS}
    ) e on true
    left join example_contents c on c.id = e.contents_id
    where d.id = ${dataset_id}::uuid and d.tenant_id = current_tenant()
    order by e.number`
}

/** The texts of an example as they were sent, in one line: JSON has line breaks between its tokens only. */
const toLine = ([, , , id, inputs, outputs, metadata]: Row): string =>
  `{"id":"${id}","inputs":${inputs},"outputs":${outputs ?? 'null'},"metadata":${metadata}}`.replace(/[\r\n]+/g, ' ')

export const downloadDataset = verb(
  'datasets:download',
  async (ctx, { dataset_id, as_of }: z.output<typeof DatasetRef> & SplitQuery): Promise<StreamReply> => {
    const release = ctx.watches!.admit(credentialOf(ctx).hash)
    const readPage = (of: Ctx, version: SQL, after: string) =>
      run(of, selectPage(dataset_id, version, after)).catch(error => {
        release()
        throw error
      })
    let rows = await readPage(ctx, timeOf(as_of), '0')
    if (rows.length === 0) release()
    const [name, version] = requireRow(rows, 'dataset_not_found')
    if (version === null && as_of !== undefined) {
      release()
      throw fail('dataset_version_not_found')
    }
    const utf8 = new TextEncoder()
    let after: string | undefined
    const stream = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          if (after) rows = await readPage(ctx, sql`${version}::timestamptz`, after)
          const found = rows.filter(([, , number]) => number !== null)
          if (found.length > 0) controller.enqueue(utf8.encode(found.map(row => `${toLine(row)}\n`).join('')))
          const isLast = found.length < PAGE_ROWS
          if (!isLast) after = found.at(-1)![2]!
          rows = []
          if (!isLast) return
          controller.close()
          release()
        },
        cancel: release,
      },
      { highWaterMark: 0 },
    )
    const file = `${name.replace(/[^\w.-]+/g, '-').slice(0, 100)}.jsonl`
    const headers = { 'Content-Type': 'application/x-ndjson', 'Content-Disposition': `attachment; filename="${file}"` }
    return { stream, headers }
  },
)

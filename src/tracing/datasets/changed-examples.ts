// Changes examples, from JSON and from forms.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { commit } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import type { RawBody } from '../../kernel/http/raw-body.ts'
import { storeAttachments } from './attachments.ts'
import { type ExampleInput, readExampleList, readOneExample } from './example-input.ts'
import { readUploadedExamples } from './example-upload.ts'
import {
  type ChangedDataset,
  describeWrites,
  END_ROWS,
  type ExampleContents,
  givenRows,
  insertVersions,
  lockOf,
  OBJECT_IDS,
  targets,
  writeChecked,
} from './example-versions.ts'
import * as schema from './examples.schema.ts'
import type { DatasetRef } from './schema.ts'

type DatasetParams = z.output<typeof DatasetRef>
type ExampleParams = z.output<typeof schema.ExampleRef>
type ChangedMembers = z.output<typeof schema.ChangedExampleMembers>

export const changeExample = verb(
  'datasets:update',
  async (ctx, { example_id, raw }: ExampleParams & { raw: RawBody }) => {
    const { dataset_id, ...members } = readOneExample(raw, schema.ChangedExampleMembers)
    return changeAll(ctx, dataset_id ?? undefined, [{ ...members, id: example_id }])
  },
)

export const changeExampleList = verb(
  'datasets:update',
  (ctx, { raw }: { raw: RawBody }) => changeAll(ctx, undefined, readExampleList(raw, schema.ListedExampleMembers)),
  { byPolicy: true },
)

export const changeUploadedExamples = verb(
  'datasets:update',
  async (ctx, { dataset_id, raw }: DatasetParams & { raw: RawBody }) => {
    const examples = readUploadedExamples(raw, schema.ChangedExampleMembers, { isChange: true })
    return changeAll(ctx, dataset_id, await storeAttachments(ctx, examples))
  },
)

type Changed = ExampleInput<ChangedMembers> & Pick<ExampleContents, 'id' | 'stored' | 'operations'>

async function changeAll(ctx: Ctx, dataset_id: string | undefined, examples: Changed[]) {
  const contents = examples.map(({ attachments_operations, ...one }) => ({
    ...one,
    operations: one.operations ?? attachments_operations ?? undefined,
  }))
  const changed = await changeExamples(ctx, dataset_id, contents)
  requireRow(changed, dataset_id === undefined ? 'example_not_found' : 'dataset_not_found')
  return describeWrites(
    changed,
    examples.map(({ id }) => id),
  )
}

// ---- the statement

const CHANGED_METADATA = sql`case
          when g.metadata is null then e.metadata
          else g.metadata || jsonb_build_object('dataset_split', e.metadata -> 'dataset_split')
        end || case
          when g.splits is null then '{}'
          else jsonb_build_object('dataset_split', g.splits)
        end`
/**
 * Keeps all attachments if no operations are given, and else those that they name. New ones replace those of their
 * name.
 */
const CHANGED_ATTACHMENTS = sql`nullif(
        case
          when g.operations is null then coalesce(e.attachments::jsonb, '{}')
          else coalesce(
            (
              select jsonb_object_agg(coalesce(g.operations -> 'rename' ->> a.key, a.key), a.value)
              from jsonb_each(e.attachments::jsonb) a
              where g.operations -> 'retain' ? a.key or g.operations -> 'rename' ? a.key
            ),
            '{}'
          )
        end || coalesce(g.attachments, '{}'),
        '{}'
      )`

/** All examples are of one dataset, or of any if `dataset_id` is undefined. */
const changeExamples = (
  ctx: Ctx,
  dataset_id: string | undefined,
  examples: ExampleContents[],
): Promise<ChangedDataset[]> =>
  writeChecked(examples, hasSchemas => {
    const ids = examples.map(({ id }) => id)
    const ctesBefore = [
      sql`given as materialized (${givenRows(examples)})`,
      targets(dataset_id, hasSchemas),
      sql`ended as (
      ${END_ROWS}
      returning
        e.id, e.organization_id, e.tenant_id, e.dataset_id, t.at, e.number, e.contents_id as earlier_contents_id,
        case when g.inputs is null and g.outputs is null then e.contents_id else g.contents_id end as contents_id,
        g.inputs, g.outputs, ${CHANGED_METADATA} as metadata, e.source_run_id,
        ${CHANGED_ATTACHMENTS} as attachments, e.created_at
    )`,
      sql`contents as (
      insert into example_contents (id, organization_id, tenant_id, dataset_id, inputs, outputs)
      select
        e.contents_id, e.organization_id, e.tenant_id, e.dataset_id, coalesce(e.inputs, c.inputs),
        coalesce(e.outputs, c.outputs)
      from ended e
      join example_contents c on c.id = e.earlier_contents_id
      where e.contents_id <> e.earlier_contents_id
    )`,
      sql`inserted as (
      insert into examples (
        id, organization_id, tenant_id, dataset_id, since, number, contents_id, metadata, source_run_id, attachments,
        object_ids, created_at
      )
      select
        e.id, e.organization_id, e.tenant_id, e.dataset_id, e.at, e.number, e.contents_id, e.metadata,
        e.source_run_id, e.attachments::json, ${OBJECT_IDS(sql`e.attachments`)}, e.created_at
      from ended e
      returning *
    )`,
    ]
    const change = sql<ChangedDataset>`
      update datasets d
      set examples_at = t.at
      from target t
      where d.id = t.id and d.tenant_id = t.tenant_id
      returning d.id, d.examples_at as as_of,
        (select count(*) from inserted i where i.dataset_id = d.id) as count`

    const parts = { ctesBefore, ctesAfter: [insertVersions(sql`true`)], lock: lockOf(dataset_id, ids) }
    return commit(ctx, 'dataset.examples_updated', change, sql`json_build_object('count', changed.count)`, parts)
  })

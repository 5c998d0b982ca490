// Rows of examples as they are read, and as they cross the wire.
import { type SQL, sql } from 'drizzle-orm'
import { toIsoTime } from '../../kernel/db/rows.ts'
import { rawJson } from '../../kernel/json/raw-json.ts'
import { type LinkSigner, linkToAttachment } from './attachment-links.ts'
import type { AsOf, Example, ExampleMember, ExampleQuery } from './examples.schema.ts'
import type { ExampleAttachments } from './tables.ts'

/** The columns of a row `e` of `examples`. Texts and JSON are null where they are not asked for. */
export type ExampleRow = [
  id: string,
  tenant_id: string,
  dataset_id: string,
  dataset_name: string,
  number: string,
  since: string,
  created_at: string,
  source_run_id: string | null,
  metadata: string | null,
  inputs: string | null,
  outputs: string | null,
  attachments: string | null,
]

const DEFAULT_MEMBERS: ExampleMember[] = [
  'id',
  'created_at',
  'modified_at',
  'name',
  'dataset_id',
  'source_run_id',
  'metadata',
  'inputs',
  'outputs',
]
export const ALL_MEMBERS: ExampleMember[] = [...DEFAULT_MEMBERS, 'attachment_urls']

/** The link is about the dataset, so it does not show the run that an example came from. */
export const SHARED_MEMBERS = ALL_MEMBERS.filter(name => name !== 'source_run_id')

export const selectedMembers = ({ select = [], exclude_default_fields }: Partial<ExampleQuery>): ExampleMember[] => [
  ...new Set<ExampleMember>(['id', ...(exclude_default_fields ? [] : DEFAULT_MEMBERS), ...select]),
]

/**
 * Columns of `e`, and of `c` for its contents, in the order of `ExampleRow` but without the name of the dataset. Long
 * texts are read only if they are sent.
 */
export function exampleColumns(members: ExampleMember[]): SQL {
  const ifSelected = (member: ExampleMember, column: SQL, name: string) =>
    sql`${members.includes(member) ? column : sql`null::text`} as ${sql.identifier(name)}`
  return sql`e.id, e.tenant_id, e.dataset_id, e.number, e.since, e.created_at, e.source_run_id,
      ${ifSelected('metadata', sql`e.metadata::text`, 'metadata')},
      ${ifSelected('inputs', sql`c.inputs`, 'inputs')},
      ${ifSelected('outputs', sql`c.outputs`, 'outputs')},
      ${ifSelected('attachment_urls', sql`e.attachments::text`, 'attachments')}`
}
export const WIRE_COLUMNS = sql`e.id, e.tenant_id, e.dataset_id, d.name, e.number, e.since, e.created_at,
    e.source_run_id, e.metadata, e.inputs, e.outputs, e.attachments`

/** A condition on a row `e`. `dataset` is the id of its dataset. */
export function isInVersion(asOf: AsOf, dataset: SQL): SQL {
  if (asOf === undefined) return sql`e.until is null`
  const time = 'time' in asOf ? sql`${asOf.time}::timestamptz` : timeOfTag(asOf.tag, dataset)
  return sql`e.since <= ${time} and (e.until is null or e.until > ${time})`
}

/** Null if no version has the tag. */
export const timeOfTag = (tag: string, dataset: SQL): SQL => sql`(
    select v.as_of
    from dataset_versions v
    where v.dataset_id = ${dataset} and v.tenant_id = current_tenant() and ${tag} = any(v.tags))`

export async function toWire(row: ExampleRow, members: ExampleMember[], signer: LinkSigner): Promise<Example> {
  const [id, tenant_id, dataset_id, dataset_name, number, since, created_at, source_run_id, ...contents] = row
  const [metadata, inputs, outputs, attachments] = contents
  const whole: Required<Example> = {
    id,
    dataset_id,
    name: `#${number} @ ${dataset_name}`,
    inputs: rawJson(inputs ?? 'null'),
    outputs: rawJson(outputs ?? 'null'),
    metadata: rawJson(metadata ?? 'null'),
    source_run_id,
    created_at: toIsoTime(created_at),
    modified_at: toIsoTime(since),
    attachment_urls: attachments === null ? null : await linkAttachments(tenant_id, JSON.parse(attachments), signer),
  }
  return Object.fromEntries(members.map(name => [name, whole[name]])) as Example
}

export async function linkAttachments(
  tenant_id: string,
  attachments: ExampleAttachments,
  signer: LinkSigner,
): Promise<Example['attachment_urls']> {
  const links = Object.entries(attachments).map(async ([name, attachment]) => [
    `attachment.${name}`,
    await linkToAttachment(signer, tenant_id, attachment),
  ])
  return Object.fromEntries(await Promise.all(links))
}

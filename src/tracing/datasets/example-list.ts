// The statements that list and count examples, for a workspace and for those who have a link.
import { type SQL, sql } from 'drizzle-orm'
import { textArray, uuidArray } from '../../kernel/db/db.ts'
import { containsText, exampleCondition } from './example-filter.ts'
import { type ExampleRow, exampleColumns, isInVersion, timeOfTag, WIRE_COLUMNS } from './example-rows.ts'
import type { ExampleFilter, ExampleMember, ExampleQuery } from './examples.schema.ts'

type Page = Pick<ExampleQuery, 'offset' | 'limit'> & Partial<Pick<ExampleQuery, 'order' | 'descending' | 'random_seed'>>

const EXAMPLES = sql`examples e join example_contents c on c.id = e.contents_id`

/** Conditions over `e` and `c`, but for the dataset. */
function conditionsOf(
  { id, as_of, metadata, splits, full_text_contains = [], filter }: ExampleFilter,
  dataset: SQL,
): SQL {
  const conditions = [
    sql`e.tenant_id = current_tenant()`,
    isInVersion(as_of, dataset),
    id && sql`e.id = any(${uuidArray(id)})`,
    metadata === undefined ? undefined : sql`e.metadata @> ${metadata}::jsonb`,
    splits && sql`e.metadata -> 'dataset_split' ?| ${textArray(splits)}`,
    exampleCondition(filter),
    ...full_text_contains.map(containsText),
  ]
  return sql.join(
    conditions.filter(condition => condition !== undefined),
    sql` and `,
  )
}

const DESCENDING: Record<NonNullable<Page['order']>, boolean> = {
  recent: true,
  recently_created: true,
  id: false,
  random: false,
}

/** Examples of one request were changed together, so they stay in its order. */
function orderOf({ order = 'recent', descending, random_seed = '' }: Page): SQL {
  const isDescending = descending === undefined ? DESCENDING[order] : descending === 'true'
  const direction = isDescending ? sql`desc` : sql`asc`
  switch (order) {
    case 'recent':
      return sql`e.since ${direction}, e.number`
    case 'recently_created':
      return sql`e.created_at ${direction}, e.number`
    case 'id':
      return sql`e.id ${direction}`
    case 'random':
      return sql`md5(e.id || ${random_seed}) ${direction}, e.id`
  }
}

const namedDataset = ({ dataset }: ExampleFilter): SQL | undefined =>
  dataset === undefined ? undefined : sql`${dataset}::uuid`

/**
 * Returns no row if the dataset does not exist, and a row without an id if the page is empty. `dataset` is its id, or a
 * subquery that finds it.
 */
export function selectExamples(
  filter: ExampleFilter,
  page: Page,
  members: ExampleMember[],
  dataset = namedDataset(filter),
): SQL<ExampleRow | [null]> {
  const order = orderOf(page)
  const pageOf = (condition: SQL) => sql`
      select ${exampleColumns(members)}
      from ${EXAMPLES}
      where ${condition}
      order by ${order}
      limit ${page.limit}
      offset ${page.offset}`
  if (dataset === undefined)
    return sql`
      select ${WIRE_COLUMNS}
      from (${pageOf(conditionsOf(filter, sql`e.dataset_id`))}) e
      join datasets d on d.id = e.dataset_id and d.tenant_id = e.tenant_id
      order by ${order}`
  const inDataset = sql`e.dataset_id = d.id and ${conditionsOf(filter, dataset)}`
  return sql`
      select ${WIRE_COLUMNS}
      from datasets d
      left join lateral (${pageOf(inDataset)}) e on true
      where ${isKnownDataset(filter, dataset)}
      order by ${order}`
}

/** A condition on `d`. A tag that no version has fails the statement. */
function isKnownDataset({ as_of }: ExampleFilter, dataset: SQL): SQL {
  const isDataset = sql`d.id = ${dataset} and d.tenant_id = current_tenant()`
  if (as_of === undefined || 'time' in as_of) return isDataset
  return sql`${isDataset} and case
        when ${timeOfTag(as_of.tag, dataset)} is not null then true
        else refuse('dataset_version_not_found', ${as_of.tag})
      end`
}

/** One row, or none if the dataset does not exist. */
export function countRows(filter: ExampleFilter, dataset = namedDataset(filter)): SQL<[string]> {
  if (dataset === undefined)
    return sql`select count(*) from ${EXAMPLES} where ${conditionsOf(filter, sql`e.dataset_id`)}`
  return sql`
      select (
        select count(*)
        from ${EXAMPLES}
        where e.dataset_id = d.id and ${conditionsOf(filter, dataset)}
      )
      from datasets d
      where ${isKnownDataset(filter, dataset)}`
}

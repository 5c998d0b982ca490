// Tables of datasets and the versions of their examples.
import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  index,
  integer,
  json,
  jsonb,
  pgTable,
  primaryKey,
  text,
  unique,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core'
import {
  createdAtColumn,
  idColumn,
  instantColumn,
  newestFirstColumns,
  parentTenantColumns,
  versionedColumns,
} from '../../kernel/db/columns.ts'
import { tenantColumns } from '../../people/access/tables.ts'

export const datasets = pgTable(
  'datasets',
  {
    id: idColumn(),
    ...tenantColumns(),
    name: text().notNull(),
    description: text(),
    data_type: text({ enum: ['kv', 'llm', 'chat'] })
      .notNull()
      .default('kv'),
    inputs_schema_definition: json().$type<Record<string, unknown>>(),
    outputs_schema_definition: json().$type<Record<string, unknown>>(),
    externally_managed: boolean().notNull().default(false),
    metadata: jsonb().$type<Record<string, unknown>>(),
    baseline_experiment_id: uuid(),
    tag_value_ids: uuid().array().notNull().default(sql`'{}'`),
    /** The token lets anyone read the dataset and its examples. */
    share_token: uuid(),
    /** The number of the last example. Numbers are not used again. */
    last_number: integer().notNull().default(0),
    example_count: integer().notNull().default(0),
    /** The time of the last change of examples. */
    examples_at: instantColumn(),
    ...versionedColumns(),
  },
  t => [
    unique('dataset_name_taken').on(t.tenant_id, t.name),
    uniqueIndex('datasets_share_token').on(t.share_token),
    index('datasets_page').on(t.tenant_id, ...newestFirstColumns(t)),
  ],
)

/** A version is a moment at which examples changed. It is named by its time, in whole milliseconds. */
export const datasetVersions = pgTable(
  'dataset_versions',
  {
    ...parentTenantColumns(),
    dataset_id: uuid()
      .notNull()
      .references(() => datasets.id, { onDelete: 'cascade' }),
    as_of: instantColumn().notNull(),
    tags: text().array().notNull().default(sql`'{}'`),
  },
  t => [primaryKey({ columns: [t.dataset_id, t.as_of] })],
)

/** Name, media type, size and SHA-256 of each attachment of an example. */
export type ExampleAttachments = Record<string, { id: string; mime_type: string; size: number; sha256: string }>

/**
 * JSON texts as the client sent them, so numbers keep all their digits. Versions of an example share a row until the
 * contents change.
 */
export const exampleContents = pgTable(
  'example_contents',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    dataset_id: uuid()
      .notNull()
      .references(() => datasets.id, { onDelete: 'cascade' }),
    inputs: text().notNull(),
    outputs: text(),
  },
  t => [index('example_contents_dataset').on(t.dataset_id)],
)

/** An example from one version of its dataset until another: a change ends one row and begins the next. */
export const examples = pgTable(
  'examples',
  {
    id: uuid().notNull(),
    ...parentTenantColumns(),
    dataset_id: uuid()
      .notNull()
      .references(() => datasets.id, { onDelete: 'cascade' }),
    since: instantColumn().notNull(),
    until: instantColumn(),
    number: integer().notNull(),
    contents_id: uuid()
      .notNull()
      .references(() => exampleContents.id),
    metadata: jsonb().notNull(),
    source_run_id: uuid(),
    attachments: json().$type<ExampleAttachments>(),
    object_ids: uuid().array().notNull().default(sql`'{}'`),
    created_at: createdAtColumn(),
  },
  t => [
    primaryKey({ columns: [t.tenant_id, t.id, t.since] }),
    uniqueIndex('example_exists').on(t.tenant_id, t.id).where(sql`until is null`),
    index('examples_current').on(t.dataset_id, t.since.desc().nullsFirst(), t.number).where(sql`until is null`),
    index('examples_page').on(t.dataset_id, t.since.desc().nullsFirst(), t.number),
    index('examples_contents').on(t.contents_id),
    index('examples_source_run')
      .on(t.tenant_id, t.source_run_id)
      .where(sql`source_run_id is not null and until is null`),
    index('examples_objects').using('gin', t.object_ids),
  ],
)

/** Attachments in the object store. A sweep deletes those that no example has. */
export const exampleObjects = pgTable(
  'example_objects',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    bytes: bigint({ mode: 'number' }).notNull(),
    /** The sweep then checks that an example still has it. */
    check_at: instantColumn().default(sql`clock() + interval '1 day'`),
    created_at: createdAtColumn(),
  },
  t => [index('example_objects_tenant').on(t.tenant_id), index('example_objects_check').on(t.check_at)],
)

/** A comparison of experiments on the dataset. Feedback about their runs names it. */
export const comparativeExperiments = pgTable(
  'comparative_experiments',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    dataset_id: uuid()
      .notNull()
      .references(() => datasets.id, { onDelete: 'cascade' }),
    name: text(),
    description: text(),
    experiment_ids: uuid().array().notNull(),
    extra: json().$type<Record<string, unknown>>(),
    created_at: createdAtColumn(),
    updated_at: createdAtColumn(),
  },
  t => [index('comparative_experiments_page').on(t.dataset_id, ...newestFirstColumns(t))],
)

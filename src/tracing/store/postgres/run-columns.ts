// The columns of runs as statements write them, and the rule by which a row takes new values.
import { type SQL, sql } from 'drizzle-orm'
import { MERGED_MEMBERS } from '../../ingest/merged-operations.ts'
import { LONG_MEMBERS } from '../store.ts'

export const PLACE_COLUMNS = [
  'session_id',
  'trace_tier',
  'trace_id',
  'trace_time',
  'order_time',
  'dotted_order',
  'parent_run_id',
] as const
export const VALUE_COLUMNS = [...MERGED_MEMBERS.flat(), 'objects', 'patched'] as const

/** Types of the rows that `append.ts` sends. */
export const ROW_TYPES = sql`
        id uuid, session_id uuid, session_name text, trace_id uuid, trace_time timestamptz, order_time timestamptz,
        dotted_order text, parent_run_id uuid, name text, run_type text, start_time timestamptz, end_time timestamptz,
        first_token_time timestamptz, error text, tags text[], metadata jsonb, thread_id text,
        reference_example_id uuid, extra text, serialized text, inputs text, outputs text, events text,
        inputs_preview text, outputs_preview text, objects json, prompt_tokens bigint, completion_tokens bigint,
        total_tokens bigint, prompt_cost numeric, completion_cost numeric, total_cost numeric, usage_details json,
        patched integer`

export const columns = (names: readonly string[], table?: string): SQL =>
  sql.join(
    names.map(name => (table ? sql`${sql.identifier(table)}.${sql.identifier(name)}` : sql.identifier(name))),
    sql`, `,
  )

/** True if the row keeps the member: nothing is new, or a patch has set it and a post brings it. */
function isKept(column: string, bit: number): SQL {
  const mask = sql.raw(String(1 << bit))
  return sql`(excluded.${sql.identifier(column)} is null
          or (runs.patched & ${mask} <> 0 and excluded.patched & ${mask} = 0))`
}
const bitOf = (column: string): number => MERGED_MEMBERS.findIndex(([first]) => first === column)

/** An object goes where its column goes. Attachments add up. */
const MERGED_OBJECTS = sql`case
          when runs.objects is null and excluded.objects is null then null
          else nullif(jsonb_strip_nulls(jsonb_build_object(
            ${sql.join(
              LONG_MEMBERS.map(
                name => sql`${sql.raw(`'${name}'`)}, case
              when ${isKept(name, bitOf(name))} then runs.objects -> ${sql.raw(`'${name}'`)}
              else excluded.objects -> ${sql.raw(`'${name}'`)}
            end`,
              ),
              sql`,
            `,
            )},
            'attachments', nullif(
              coalesce(runs.objects::jsonb -> 'attachments', '{}')
                || coalesce(excluded.objects::jsonb -> 'attachments', '{}'),
              '{}'
            )
          )), '{}')::json
        end`

/** Assignments of `on conflict do update`. */
export const MERGED_COLUMNS = sql.join(
  [
    ...MERGED_MEMBERS.flatMap(([first, ...others], bit) =>
      [first, ...others].map(name => {
        const column = sql.identifier(name)
        return sql`${column} = case when ${isKept(first, bit)} then runs.${column} else excluded.${column} end`
      }),
    ),
    sql`objects = ${MERGED_OBJECTS}`,
    sql`patched = runs.patched | excluded.patched`,
    sql`updated_at = clock()`,
  ],
  sql`,
        `,
)

// changed_members() is a loop, for speed. The audit log keeps its text, so it has to be that of one plain statement.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'
import { connect } from '../support/postgres.ts'

const PLAIN = `
  with members as (
    select key, p_before -> key as before, p_after -> key as after
    from jsonb_object_keys(coalesce(p_before, '{}') || coalesce(p_after, '{}')) key
    where (p_before -> key) is distinct from (p_after -> key)
  ),
  compared as (
    select m.key || coalesce('.' || n.key, '') as path,
      nullif(nullif(case when n.key is null then m.before else m.before -> n.key end, 'null'), '{}') as before,
      nullif(nullif(case when n.key is null then m.after else m.after -> n.key end, 'null'), '{}') as after
    from members m
    left join lateral jsonb_object_keys(
      case
        when coalesce(jsonb_typeof(m.before), 'null') in ('object', 'null')
          and coalesce(jsonb_typeof(m.after), 'null') in ('object', 'null')
          then coalesce(nullif(m.before, 'null'), '{}') || coalesce(nullif(m.after, 'null'), '{}')
        else '{}'
      end
    ) n(key) on true
  )
  select json_agg(
    json_build_object('path', path, 'before', event_value(before), 'after', event_value(after)) order by path
  )
  from compared
  where before is distinct from after`

const LONG = 'x'.repeat(8192)
const values = fc.oneof(
  fc.constantFrom(null, true, 0, 1.5, '', 'a "quoted"\n\\ text', 'é', LONG, [], {}, [1, null], {
    inner: { deep: null },
  }),
  fc.integer(),
)
// Names whose order depends on the collation, and which `.` sorts between. None contains one, so paths differ.
const names = fc.constantFrom('source', 'source-config', 'source_config', 'Source', 'état', 'a"b', '', '10', '9')
const members = fc.dictionary(names, values, { maxKeys: 4 })
const descriptions = fc.option(fc.dictionary(names, fc.oneof(values, members), { maxKeys: 5 }))
const pairs = fc.oneof(
  fc.tuple(descriptions, descriptions),
  // Most members are equal, as in a change of one.
  fc
    .tuple(descriptions, names, fc.oneof(values, members))
    .map(([one, name, value]) => [one, { ...one, [name]: value }]),
)

it('lists the same changes as one statement, byte for byte', async () => {
  const given = fc.sample(pairs, { seed: 1, numRuns: 300 })
  const client = await connect(await createMigratedDatabase())
  try {
    const { rows } = await client.query(
      `select changed_members(p_before, p_after)::text as listed, (${PLAIN})::text as expected
      from unnest($1::jsonb[], $2::jsonb[]) pair(p_before, p_after)`,
      [
        given.map(([before]) => before && JSON.stringify(before)),
        given.map(([, after]) => after && JSON.stringify(after)),
      ],
    )
    expect(rows.map(({ listed }) => listed)).toEqual(rows.map(({ expected }) => expected))
    expect(rows.some(({ listed }) => listed === null) && rows.some(({ listed }) => listed?.includes('omitted'))).toBe(
      true,
    )
  } finally {
    await client.end()
  }
})

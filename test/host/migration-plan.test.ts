// Splits a migration into statements of its transaction and statements after it.
import { describe, expect, it } from 'vitest'
import { planMigration, splitStatements } from '../../src/host/migration-plan.ts'

describe('a migration', () => {
  it.each([
    ['create index ship on ships (id)', ['index ship']],
    ['-- Why it exists.\ncreate unique index "ship"\n  on "ships" using btree (id) where id > 0;', ['index ship']],
    ['alter table ships validate constraint named;', ['constraint named']],
    ['--> batches\nupdate ships set name = id', ['batches batches_1']],
    ['create table ships (id int); create index ship on ships (id);', []],
    ['create table if not exists ships (id int);\n', []],
    ['alter table ships add constraint named check (true) not valid;', []],
    [`do $$ begin execute 'create index ship on ships (id)'; end $$; select '; create index a on b (c)';`, []],
    ['create function f() returns int language sql as $f$ select 1; create index a on b (c) $f$;', []],
    ['-- it; create index a on b (c)\nselect 1', []],
  ])('%j has the steps %j afterwards', (sql, steps) => {
    const { afterwards } = planMigration([sql])
    expect(afterwards.map(({ kind, name }) => `${kind} ${name}`)).toEqual(steps)
  })

  it('loses no statement', () => {
    const plan = planMigration([
      '-- A.\ncreate index a on t (id);\nalter table t add b int; -- C.\nselect 1',
      '\n-- D.\n',
    ])
    expect(plan.inTransaction).toEqual(['alter table t add b int;\n-- C.\nselect 1;'])
    expect(plan.afterwards).toMatchObject([{ unique: false, table: 't', definition: ' (id)' }])
  })
})

it('statements end at semicolons outside of texts, names, bodies and comments', () => {
  expect(splitStatements(`a ';' b; c ";" $$;$$ d /* ; */; -- ;\ne; ; f 'g''; h`)).toEqual([
    `a ';' b`,
    `c ";" $$;$$ d /* ; */`,
    '-- ;\ne',
    `f 'g''; h`,
  ])
  const body = 'create function f() returns int\nbegin atomic\n  select case when true then 1 end;\n  select 2;\nend'
  expect(splitStatements(`${body};\nselect 3`)).toEqual([body, 'select 3'])
})
